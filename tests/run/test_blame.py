"""Who is at fault where a model does not run: the values, the sizes, or the model itself."""

from __future__ import annotations

import numpy as np
import onnx.parser
import pytest

from onnxq.run import ort
from onnxq.run.blame import at_fault

H = '<ir_version: 8, opset_import: ["" : 17]> g '
F = np.float32
CASES = {
    "values": (
        "(float[N, 4] x, int64[N] i) => (y) { y = Gather (x, i) }",
        {"x": np.ones((3, 4), F), "i": np.array([0, 9, 1])},
        "check the sample's values",
    ),
    "sizes": (
        "(float[N, 3, H, W] x) => (y) <int64[3] t = {0, 3, 64}> { y = Reshape (x, t) }",
        {"x": np.ones((2, 3, 5, 7), F)},
        "others do (x 1x3x8x8): check the sample's sizes",
    ),
    "rank": (
        "(float[] x, float[4, 3, 3, 3] w) => (y) { y = Conv (x, w) }",
        {"x": np.ones((5, 1, 3, 8, 8), F), "w": np.ones((4, 3, 3, 3), F)},
        "state it, --shape x=1x3x8x8",
    ),
    "model": (
        """(float[N, 1, H, W] x, float[1, 1, 3, 3] w) => (y) {
            y = Conv <auto_pad = "SAME_UPPER", dilations = [2, 2], strides = [2, 2]> (x, w) }""",
        {"x": np.ones((1, 1, 9, 9), F), "w": np.ones((1, 1, 3, 3), F)},
        "the data are not at fault",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_who_is_at_fault(case: str) -> None:
    body, feeds, says = CASES[case]
    session = ort.load(onnx.parser.parse_model(H + body), threads=1)
    with pytest.raises(ort.RunError):
        session.run(feeds)
    assert says in at_fault(session, feeds)
