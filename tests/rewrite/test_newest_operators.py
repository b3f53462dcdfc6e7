"""Operators of opset 24 to 26 that TensorRT lacks, and names that it does not take: repaired, or named."""

from __future__ import annotations

from pathlib import Path

import ml_dtypes
import numpy as np
import onnx
import onnx.parser
import onnx.reference
import pytest
from said import is_said

import onnxq
from onnxq.run import trt

CACHE = """<ir_version: 10, opset_import: ["" : 24]>
    g (float[2, 3, 8, 4] c, float[2, 3, 3, 4] r, int64[2] at) => (float[2, 3, 8, 4] y) {
        t = TensorScatter <mode = "circular"> (c, r, at)  y = Neg (t) }"""
ROWS = """<ir_version: 10, opset_import: ["" : 24]>
    g (float[2, 8, 12] c, float[2, 3, 12] r, int64[2] at) => (float[2, 8, 12] y) {
        t = TensorScatter <axis = 1> (c, r, at)  y = Neg (t) }"""
BITS = """<ir_version: 12, opset_import: ["" : 26]>
    g (uint8[2, 4] x) => (int32[2, 4] y) { a = BitCast <to = 3> (x)  y = Cast <to = 6> (a) }"""

HALVES = """<ir_version: 10, opset_import: ["" : 22]>
    g (bfloat16[2, 8] x) => (bfloat16[2, 8] y) { a = Mish (x)  y = HardSwish (a) }"""


def test_activations_of_bfloat16_are_rounded_once_and_compile(tmp_path: Path) -> None:
    made = onnxq.sanitize(onnx.parser.parse_model(HALVES)).model
    x = (np.arange(-8, 8) / 2).reshape(2, 8).astype(ml_dtypes.bfloat16)
    got = onnx.reference.ReferenceEvaluator(made).run(None, {"x": x})[0]
    wide = x.astype(np.float32)
    wide = (wide * np.tanh(np.log1p(np.exp(wide)))).astype(x.dtype).astype(np.float32)
    want = (wide * np.clip(wide / 6 + 0.5, 0, 1)).astype(x.dtype)
    assert np.array_equal(got, want)
    onnx.save(made, tmp_path / "m.onnx")
    assert trt.installed() is None or trt.compile_engine(tmp_path / "m.onnx").status == "compiled"


def test_a_circular_cache_is_written_as_it_is_defined() -> None:
    model = onnx.parser.parse_model(CACHE)
    made = onnxq.sanitize(model).model
    assert not any(node.op_type == "TensorScatter" for node in made.graph.node)
    dice = np.random.default_rng(0)
    for at in ([0, 7], [6, 3], [12, 5]):
        feeds = {
            "c": dice.standard_normal((2, 3, 8, 4)).astype(np.float32),
            "r": dice.standard_normal((2, 3, 3, 4)).astype(np.float32),
            "at": np.array(at),
        }
        want, got = (onnx.reference.ReferenceEvaluator(one).run(None, feeds)[0] for one in (model, made))
        assert want.tobytes() == got.tobytes()


def test_a_cache_that_is_no_input_or_of_three_dimensions_is_written_and_compiles(tmp_path: Path) -> None:
    model = onnx.parser.parse_model(ROWS)
    made = onnxq.sanitize(model).model
    assert not any(node.op_type == "TensorScatter" for node in made.graph.node)
    dice = np.random.default_rng(0)
    feeds = {
        name: dice.standard_normal(shape).astype(np.float32)
        for name, shape in (("c", (2, 8, 12)), ("r", (2, 3, 12)))
    }
    want, got = (
        onnx.reference.ReferenceEvaluator(one).run(None, feeds | {"at": np.array([0, 5])})[0]
        for one in (model, made)
    )
    assert want.tobytes() == got.tobytes()
    onnx.save(made, tmp_path / "m.onnx")
    assert trt.installed() is None or trt.compile_engine(tmp_path / "m.onnx").status == "compiled"


def test_bits_of_integers_are_read_as_another_type() -> None:
    made = onnxq.sanitize(onnx.parser.parse_model(BITS)).model
    assert not any(node.op_type == "BitCast" for node in made.graph.node)
    x = np.array([[0, 1, 127, 128], [129, 200, 254, 255]], np.uint8)
    got = onnx.reference.ReferenceEvaluator(made).run(None, {"x": x})[0]
    assert np.array_equal(got, x.view(np.int8).astype(np.int32))


@pytest.mark.parametrize("model", [CACHE, ROWS, BITS, HALVES])
def test_the_check_says_that_it_is_repaired(model: str, tmp_path: Path) -> None:
    onnx.save(onnx.parser.parse_model(model), tmp_path / "m.onnx")
    checks = onnxq.check(tmp_path / "m.onnx", compile=False)
    assert any(is_said(one.advice, "node-not-taken.repaired") for one in checks.findings)
    assert not any(is_said(one.reason, "runtime") for one in checks.findings)


def test_a_name_of_an_input_that_is_too_long_is_said() -> None:
    name = "x" * 5000
    model = onnx.parser.parse_model(
        f'<ir_version: 8, opset_import: ["" : 17]> g (float[2] {name}) => (float[2] y) {{ y = Neg ({name}) }}'
    )
    result = onnxq.sanitize(model)
    assert any("4,096 bytes" in one and "input_names" in one for one in result.report.notes)
    assert result.model.graph.input[0].name == name
