"""The span of an output: what its operator says, through what only hands on values."""

from __future__ import annotations

import onnx.parser
import pytest

from onnxq.graph.model import Model
from onnxq.graph.spans import spans

NET = """<ir_version: 8, opset_import: ["" : {}]>
    g (float[N, 4, 6] x) => (float[N, A, B] y) <float two = {{2}}, int64[2] to = {{-1, 1}}> {{ {} }}"""


@pytest.mark.parametrize(
    ("body", "span", "opset"),
    [
        ("y = Sigmoid (x)", 1.0, 17),
        ("a = Tanh (x)  b = Reshape (a, to)  y = ReduceMean <axes = [1]> (b)", 2.0, 17),
        ("y = Softmax (x)", 2 / 6, 17),
        ("y = Softmax <axis = 1> (x)", 0.5, 17),
        ("y = Softmax <axis = 1> (x)", 2 / 24, 11),
        ("y = Softmax <axis = 0> (x)", 0.0, 17),
        ("a = Sigmoid (x)  b = Tanh (x)  y = Concat <axis = 1> (a, b)", 1.0, 17),
        ("a = Sigmoid (x)  y = Concat <axis = 1> (a, x)", None, 17),
        ("a = Sigmoid (x)  y = Mul (a, two)", None, 17),
        ("y = Identity (x)", None, 17),
    ],
)
def test_span(body: str, span: float | None, opset: int) -> None:
    model = Model.open(onnx.parser.parse_model(NET.format(opset, body)))
    assert spans(model, ["y"]) == ({} if span is None else {"y": pytest.approx(span)})
