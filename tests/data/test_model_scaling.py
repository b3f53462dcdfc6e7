"""What models do to their inputs themselves: followed in the graph, equal to running it."""

from __future__ import annotations

import numpy as np
import onnx.parser
import pytest
from onnx.reference import ReferenceEvaluator

from onnxq.data.model_scaling import model_scaling
from onnxq.graph.model import Model

HEAD = '<ir_version: 8, opset_import: ["" : 17]> net'
SIGNATURE = "(float[N, 3, 4, 4] x) => (float[N, 3, 4, 4] y)"
MEAN = "float[3, 1, 1] mean = {0.485, 0.456, 0.406}, float[3, 1, 1] std = {0.229, 0.224, 0.225}"


def model(constants: str, body: str, signature: str = SIGNATURE) -> onnx.ModelProto:
    return onnx.parser.parse_model(f"{HEAD} {signature} <{constants}> {{ {body} }}")


@pytest.mark.parametrize(
    ("constants", "body", "takes"),
    [
        ("float c = {255}", "y = Div (x, c)", "0..255"),
        ("float c = {0.00392157}", "y = Mul (c, x)", "0..255"),
        ("float c = {127.5}, float o = {1}", "a = Div (x, c) y = Sub (a, o)", "0..255"),
        ("float[3, 1, 1] m = {124, 116, 104}, float[1] s = {57}", "a = Sub (x, m) y = Div (a, s)", "0..255"),
        ("float[3, 1, 1] m = {-103.9, -116.8, -123.7}", "y = Add (x, m)", "0..255"),
        (MEAN, "a = Sub (x, mean) y = Div (a, std)", "0..1"),
        ("float c = {2}, float o = {1}", "a = Mul (x, c) y = Sub (a, o)", "0..1"),
        ("float c = {0.5}", "y = Sub (x, c)", None),
    ],
)  # fmt: skip
def test_what_it_is(constants: str, body: str, takes: str | None) -> None:
    proto = model(constants, body)
    scaling = model_scaling(Model.open(proto))["x"]
    assert scaling.takes == takes
    assert scaling.node == ("a" if "a =" in body else "y")
    x = np.random.default_rng(0).random((2, 3, 4, 4), np.float32)
    (expected,) = ReferenceEvaluator(proto).run(None, {"x": x})
    ours = x * scaling.factor.reshape(-1, 1, 1) + scaling.shift.reshape(-1, 1, 1)
    np.testing.assert_allclose(ours, expected, rtol=1e-5, atol=1e-4)


def test_through_what_only_moves() -> None:
    signature = "(uint8[N, 4, 4, 3] x) => (float[N, 3, 4, 4] y)"
    body = "a = Cast <to = 1> (x) b = Transpose <perm = [0, 3, 1, 2]> (a) [norm] y = Div (b, c)"
    assert model_scaling(Model.open(model("float c = {255}", body, signature)))["x"].node == "norm"


@pytest.mark.parametrize(
    ("constants", "body"),
    [
        ("float c = {255}", "y = Div (c, x)"),
        ("float c = {0}", "y = Div (x, c)"),
        ("float[1, 1, 1, 4] c = {1, 2, 3, 4}", "y = Add (x, c)"),
        ("float c = {255}", "a = Div (x, c) y = Add (a, x)"),
        ("", "y = Mul (x, x)"),
        ("", "y = Relu (x)"),
    ],
    ids=["reciprocal", "by zero", "one a column", "read twice", "square", "none"],
)
def test_what_it_is_not(constants: str, body: str) -> None:
    proto = model("", body) if not constants else model(constants, body)
    assert model_scaling(Model.open(proto)) == {}
