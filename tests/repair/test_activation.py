"""The activation behind a layer is found, and is what the model computes; where others come in, it ends."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

from onnxq.graph.model import Model
from onnxq.repair.activation import activation_of
from onnxq.run import ort

HEAD = '<ir_version: 8, opset_import: ["" : 20, "com.microsoft" : 1]>'

FOUND = {
    "relu": "(float[N, 4, H, W] y) => (float[N, 4, H, W] z) { z = Relu (y) }",
    "silu": "(float[N, 4, H, W] y) => (float[N, 4, H, W] z) { s = Sigmoid (y)\n z = Mul (s, y) }",
    "gelu": """(float[N, 4, H, W] y) => (float[N, 4, H, W] z)
        <float r = {1.41421356}, float one = {1}, float[1] half = {0.5}> {
        a = Div (y, r)\n b = Erf (a)\n c = Add (b, one)\n d = Mul (y, c)\n z = Mul (d, half) }""",
    "clip": "(float[N, 4, H, W] y) => (float[N, 4, H, W] z) <float l = {-1}> { z = Clip (y, l) }",
    "max": "(float[N, 4, H, W] y) => (float[N, 4, H, W] z)\n"
        " <float[1, 4, 1, 1] l = {-1, 0, 1, 2}> { z = Max (l, y) }",
    "prelu": "(float[N, 4, H, W] y) => (float[N, 4, H, W] z)\n"
        " <float[4, 1, 1] a = {-1, 0.5, 1, 2}> { z = PRelu (y, a) }",
    "norm": """(float[N, 4, H, W] y) => (float[N, 4, H, W] z)
        <float[4] a = {1, 2, 3, 4}, float[4] b = {0, 1, 2, 3}, float[4] m = {0, 1, 0, 1},
         float[4] v = {1, 1, 2, 3}> {
        n = BatchNormalization (y, a, b, m, v)\n z = Relu (n) }""",
    "microsoft": "(float[N, 4, H, W] y) => (float[N, 4, H, W] z)\n"
        " { z = com.microsoft.QuickGelu <alpha = 1.7> (y) }",
}  # fmt: skip

ENDED = {
    "a sum of two": "(float[N, 4] y, float[N, 4] o) => (float[N, 4] z) { s = Add (y, o)\n z = Relu (s) }",
    "two readers": "(float[N, 4] y) => (float[N, 4] z, float[N, 4] t) { z = Relu (y)\n t = Tanh (y) }",
    "an output": "(float[N, 4] y) => (float[N, 4] z, float[N, 4] s) { s = Identity (y)\n z = Identity (y) }",
    "by position": "(float[2, 4] y) => (float[2, 4] z) <float[2, 1] a = {1, 2}> { z = Mul (y, a) }",
    "no activation": "(float[N, 4] y) => (float[N, 4] z) { z = Softmax (y) }",
}


@pytest.mark.parametrize("name", FOUND)
def test_it_is_what_the_model_computes(name: str) -> None:
    proto = onnx.parser.parse_model(f"{HEAD} g {FOUND[name]}")
    y = np.random.default_rng(0).standard_normal((3, 4, 5, 2)).astype(np.float32) * 3
    (exact,) = ort.load(proto, threads=1).run({"y": y})
    found = activation_of(Model.open(proto), "y", 1, 4, 4)
    assert not found.is_identity
    rows = y.transpose(0, 2, 3, 1).reshape(-1, 4)
    np.testing.assert_allclose(found(rows), exact.transpose(0, 2, 3, 1).reshape(-1, 4), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("name", ENDED)
def test_it_ends(name: str) -> None:
    proto = onnx.parser.parse_model(f"{HEAD} g {ENDED[name]}")
    found = activation_of(Model.open(proto), "y", -1, 4, None)
    assert found.is_identity


def test_of_half_precision_it_is_computed_in_float32() -> None:
    text = "(float16[N, 4] y) => (float[N, 4] z) { r = Relu (y)\n z = Cast <to = 1> (r) }"
    found = activation_of(Model.open(onnx.parser.parse_model(f"{HEAD} g {text}")), "y", -1, 4, None)
    rows = np.array([[1.00001, -1, 0, 70000]], np.float32)
    np.testing.assert_array_equal(found(rows), np.maximum(rows, 0))
