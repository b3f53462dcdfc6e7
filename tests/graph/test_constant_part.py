"""A model whose constant nodes are computed first gives the same."""

from __future__ import annotations

import numpy as np
import onnx
import onnx.parser
import pytest

from onnxq import sanitize
from onnxq.rewrite import whole as module
from onnxq.rewrite.whole import constant_part
from onnxq.run import ort

TEXT = """<ir_version: 8, opset_import: ["" : 17]>
    g (float[2, 3] x, bool c) => (float[2, 3] y, float[2, 3] z) 
        <float[3] a = {1, 2, 3}, float[3] b = {0.5, 1, 2}> {
        s = Add (a, b)  t = Tanh (s)  u = Mul (x, t)  v = Mul (u, a)
        y = If (c) <then_branch = p () => (d) { d = Add (v, s) },
                    else_branch = q () => (e) { e = Sub (v, t) }>
        k = Constant <value = float[1] {4}> ()  z = Mul (x, k) }"""


def test_the_parts_compute_what_the_whole_does(monkeypatch: pytest.MonkeyPatch) -> None:
    model = onnx.parser.parse_model(TEXT)
    assert constant_part(model) is None  # too few to gain anything
    monkeypatch.setattr(module, "_MANY", 1)
    parts = constant_part(model)
    assert parts is not None
    constants, rest = parts
    assert [node.op_type for node in constants.graph.node] == ["Add", "Tanh", "Constant"]
    session = ort.load(constants, optimize=False)
    assert set(session.outputs) == {"s", "t", "k"}
    for name, value in zip(session.outputs, session.run({}), strict=True):
        rest.graph.initializer.append(onnx.numpy_helper.from_array(value, name))
    for flag in (True, False):
        feeds = {"x": np.arange(6, dtype=np.float32).reshape(2, 3), "c": np.array(flag)}
        wanted = ort.load(model, optimize=False).run(feeds)
        for one, other in zip(wanted, ort.load(rest, optimize=False).run(feeds), strict=True):
            assert np.array_equal(one, other)


@pytest.mark.parametrize("old", ["float[2, 3] y, float[2, 3] z", "ir_version: 8"])
def test_models_of_another_kind_stay_whole(old: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_MANY", 1)
    new = {"ir_version: 8": "ir_version: 3"}.get(old, old + ", float[3] t")
    assert constant_part(onnx.parser.parse_model(TEXT.replace(old, new))) is None


def test_constants_that_nobody_reads_gain_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_MANY", 1)
    text = """<ir_version: 8, opset_import: ["" : 17]>
        g (float[2] x) => (float[2] y) <float[2] a = {1, 2}> {
            dead = Neg (a)  i = Identity (x)  y = Relu (i) }"""
    model = onnx.parser.parse_model(text)
    assert constant_part(model) is None
    assert sanitize(model).report["whole_model"][-1]["verdict"] == "exact"


def test_the_whole_model_is_compared_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_MANY", 1)
    loaded = []
    load = ort.load
    monkeypatch.setattr(ort, "load", lambda model, **given: loaded.append(model) or load(model, **given))
    model = onnx.parser.parse_model(TEXT)
    assert sanitize(model).report["whole_model"][-1]["verdict"] == "exact"
    assert model not in loaded  # but its constant part, and the rest
