"""The body of a quantized model: nearer to float32 than int8 is, and figures of both."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import numpy_helper, parser

from onnxq.body.bounds import needed
from onnxq.body.build import build_body
from onnxq.graph.model import Model
from onnxq.quant.post_scale import post_scale

HEAD = '<ir_version: 8, opset_import: ["" : 17]>'
RNG = np.random.default_rng(0)


def with_weights(text: str, **constants: np.ndarray) -> Model:
    model = parser.parse_model(HEAD + text)
    model.graph.initializer.extend(numpy_helper.from_array(array, name) for name, array in constants.items())
    return Model.open(model)


@pytest.mark.parametrize("post", [False, True])
def test_figures_of_both(post: bool) -> None:
    """int8 leaves a large number plus a small one at 80 dB, half precision by itself at about 73."""
    weights = (RNG.standard_normal((16, 16)) / 4).astype(np.float32)
    scales = (np.abs(weights).max(0) / 127).astype(np.float32)
    head = """g (float[8, 16] x) => (float[8, 16] y, int64[8, 16] k)
        <float size = {64}, float s = {0.03}, int8 z = {0}> {"""
    tail = "h = Tanh (m)  y = Add (h, size)  k = Cast <to = 7> (h) }"
    model = with_weights(f"{head} m = MatMul (x, w) {tail}", w=weights)
    quantized = with_weights(
        f"""{head} q = QuantizeLinear (x, s, z)  d = DequantizeLinear (q, s, z)
        w = DequantizeLinear <axis = 1> (codes, scales)  m = MatMul (d, w) {tail}""",
        codes=np.rint(weights / scales).astype(np.int8),
        scales=scales,
    )
    if post:
        assert post_scale(quantized).layers == ("m",)
    before = quantized.to_proto()
    ranges = dict.fromkeys(needed(model), (-700.0, 700.0))
    feeds = [{"x": RNG.standard_normal((8, 16)).astype(np.float32)} for _ in range(3)]
    built = build_body(model, quantized, "fp16", ranges, feeds)
    assert quantized.to_proto() == before
    figures = (built.int8, built.settled.outputs, built.together)
    int8, alone, both = (losses["y"].sqnr_db for losses in figures)
    assert 75 < int8 < 85
    assert built.settled.reached
    assert alone > min(int8 + 15, 100)
    assert abs(both - int8) < 0.5
    assert built.settled.stays["y"].code == "accuracy"
    assert "m" in built.body.halved
    onnx.checker.check_model(built.body.model.to_proto())
