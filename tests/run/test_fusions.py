"""Which layers onnxruntime makes int8 operators of."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import numpy_helper, parser

import onnxq
from onnxq.run.fusions import int8_operators

TEXT = """<ir_version: 8, opset_import: ["" : 17]>
    g (float[64, 32] x) => (float[64, 32] y) { y = MatMul (x, w) }"""


@pytest.mark.parametrize(
    ("options", "recognised"),
    [
        ({"body": "fp32"}, 1),
        ({"body": "fp32", "scale_form": "per-tensor"}, 1),
        ({"body": "fp16"}, 0),  # a Cast stands between the pair and the layer
    ],
)
def test_products_are_recognised_behind_their_pairs(options: dict[str, str], recognised: int) -> None:
    random = np.random.default_rng(0)
    model = parser.parse_model(TEXT)
    weights = random.standard_normal((32, 32)).astype(np.float32)
    model.graph.initializer.append(numpy_helper.from_array(weights, "w"))
    data = [{"x": random.standard_normal((64, 32)).astype(np.float32)} for _ in range(4)]
    quick = {"method": "minmax", "compile": False, "prove": "never"}
    result = onnxq.quantize(model, data, **quick, **options)  # type: ignore[arg-type]
    assert int8_operators(model) == 0
    assert int8_operators(result.model) == recognised
    assert result.report["body"]["onnxruntime"] == {"int8": recognised, "planned": 1}
