"""`onnxq check` of files that another tool quantized: severities, exit codes, advice, once each."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import onnx
import onnx.parser
import pytest
from onnx import numpy_helper
from said import is_said

import onnxq as package
from onnxq.base.errors import UserError
from onnxq.checks.finding import Finding

FLAGS = ("--prove", "never", "--no-engine", "--json")
PAIR = "q = QuantizeLinear (x, s, z)  d = DequantizeLinear (q, s, z)  "


def save(folder: Path, body: str, zero: str = "int8 z = {0}") -> Path:
    text = f"""<ir_version: 8, opset_import: ["" : 17]>
        net (float[32, 64] x) => (float[32, 64] y) <float s = {{0.1}}, float[1] s1 = {{0.1}}, {zero},
        int8 z8 = {{0}}> {{ {body} }}"""
    model = onnx.parser.parse_model(text)
    weights = np.random.default_rng(0).integers(-127, 128, (64, 64)).astype(np.int8)
    model.graph.initializer.append(numpy_helper.from_array(weights, "w"))
    onnx.save(model, folder / "net.onnx")
    return folder / "net.onnx"


def test_a_warning_fails_only_with_strict(tmp_path: Path, onnxq) -> None:
    save(tmp_path, "[v] w8 = DequantizeLinear (w, s, z)  [l] y = MatMul (x, w8)")
    ran = onnxq("check", "net.onnx", *FLAGS)
    assert ran.code == 0, ran.err
    document = ran.json()
    assert document["kind"] == "checks"
    (found,) = document["findings"]
    assert set(found) == {field.name for field in dataclasses.fields(Finding)}
    assert (found["kind"], found["check"], found["node"], found["op"]) == (
        "qdq",
        "weights-only",
        "l",
        "MatMul",
    )
    assert (found["severity"], found["tensor"], found["confirmed"]) == ("warning", "x", None)
    assert "1 finding (1 warning)" in ran.err
    assert "Warning" in ran.err
    assert onnxq("check", "net.onnx", *FLAGS, "--strict").code == 1


def test_an_error_that_a_rule_repairs_is_told_once(tmp_path: Path, onnxq) -> None:
    save(tmp_path, PAIR + "[v] w8 = DequantizeLinear (w, s, z8)  [l] y = MatMul (d, w8)", "uint8 z = {128}")
    ran = onnxq("check", "net.onnx", *FLAGS)
    assert ran.code == 1
    findings = ran.json()["findings"]
    assert {(one["check"], one["severity"]) for one in findings if one["op"] == "DequantizeLinear"} == {
        ("zero-point", "error")
    }
    told = [one for one in findings if one["op"] == "DequantizeLinear"]
    assert [is_said(one["advice"], "node-not-taken.repaired") for one in told] == [True]


@pytest.mark.parametrize(("reader", "code"), [("Conv", 1), ("MatMul", 0)])
def test_a_scale_of_one_element_is_an_error_where_it_costs_int8(
    tmp_path: Path, onnxq, reader: str, code: int
) -> None:
    """A convolution behind it runs in float, a matrix product does not; `sanitize` mends both."""
    nodes = {
        "MatMul": "y = MatMul (d, w8)",
        "Conv": "i = Reshape (d, image)  k = Reshape (w8, window)  o = Conv (i, k)  y = Reshape (o, rows)",
    }
    shapes = "int64[4] image = {1, 64, 4, 8}, int64[4] window = {64, 64, 1, 1}, int64[2] rows = {32, 64}"
    pairs = PAIR.replace("s, z", "s1, z1") + "w8 = DequantizeLinear (w, s, z8)  "
    save(tmp_path, pairs + nodes[reader], f"int8[1] z1 = {{0}}, {shapes}")
    ran = onnxq("check", "net.onnx", *FLAGS)
    assert ran.code == code, ran.err
    findings = ran.json()["findings"]
    told = [(one["op"], one["check"], one["severity"]) for one in findings]
    lost = ("DequantizeLinear", "one-element-scale", "error")
    assert told[:1] == ([lost] if code else [("QuantizeLinear", "repairable", "note")])
    assert all(one["severity"] == "note" for one in findings[code:])
    assert all(is_said(one["advice"], "node-not-taken.repaired", rule="scalar_scales") for one in findings)
    assert onnxq("sanitize", "net.onnx", "-o", "net.fixed.onnx", *FLAGS[:2]).code == 0
    ran = onnxq("check", "net.fixed.onnx", *FLAGS)
    assert (ran.code, ran.json()["findings"]) == (0, [])


def test_a_cast_of_codes_says_which_type_the_target_has_not(tmp_path: Path, onnxq) -> None:
    """Not the feature's name, which is about pairs."""
    save(
        tmp_path,
        "r = Round (x)  c = Clip (r, o, t)  q = Cast <to = 2> (c)  [d] y = Cast <to = 1> (q)",
        "float o = {0}, float t = {255}",
    )
    findings = onnxq("check", "net.onnx", *FLAGS).json()["findings"]
    (found,) = [one for one in findings if one["node"] == "d"]
    assert is_said(found["reason"], "node-not-taken.types", dtypes="uint8", target="tensorrt-11")
    assert is_said(found["advice"], "node-not-taken.repaired", rule="drop_code_casts")


def test_python_gives_the_same_as_dataclasses(tmp_path: Path) -> None:
    path = save(tmp_path, "[v] w8 = DequantizeLinear (w, s, z)  [l] y = MatMul (x, w8)")
    found = package.check(path, prove="never", compile=False)
    assert [one.check for one in found.findings] == ["weights-only"]
    assert (found.exit_code(), found.exit_code(strict=True)) == (0, 1)
    with pytest.raises(dataclasses.FrozenInstanceError):
        found.findings[0].severity = "note"  # type: ignore[misc]
    with pytest.raises(TypeError, match="strictly"):
        package.check(path, strictly=True)
    with pytest.raises(UserError, match="no model file"):
        package.check(tmp_path / "none.onnx")


def test_a_target_without_pairs_has_no_lint(tmp_path: Path, onnxq) -> None:
    """TensorRT 7 takes no Q/DQ at all: that is said once a node."""
    save(tmp_path, "[v] w8 = DequantizeLinear (w, s, z)  [l] y = MatMul (x, w8)")
    findings = onnxq("check", "net.onnx", *FLAGS, "--target", "tensorrt-7").json()["findings"]
    assert "weights-only" not in {one["check"] for one in findings}
    assert "error" in {one["severity"] for one in findings}
