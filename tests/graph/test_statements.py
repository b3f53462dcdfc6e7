"""What is wanted as a constant and is not: the flags that a user can paste, and that they help."""

from __future__ import annotations

import re
import shlex

import onnx.parser
import pytest
from said import is_said

import onnxq
from onnxq.graph.model import Model
from onnxq.pipeline.not_taken import unsupported
from onnxq.targets import load_target


def text(inputs: str, outputs: str, body: str, opset: int = 18) -> onnx.ModelProto:
    return onnx.parser.parse_model(
        f"""<ir_version: 8, opset_import: ["" : {opset}]> g ({inputs}) => ({outputs})
        <float[2, 1, 2, 2] w = {{1, 1, 1, 1, 1, 1, 1, 1}}> {{ {body} }}"""
    )


NOTES = {
    "--freeze a=4,6": text("float[2, 12] x, int64[2] a", "float[4, 6] y", "y = Reshape (x, a)"),
    "--freeze a=VALUE": text(
        "float[8] x, int64[1] a", "float[N] y", "z = Constant <value_ints = [0]> ()  y = Slice (x, z, a)"
    ),
    "--freeze a=5": text("int64[3] x, int64 a, float[2] v", "float[3, 5] y", "y = OneHot (x, a, v)"),
    "--freeze a=2,1": text("float[2, 3] x, int64[2] a", "float[4, 3] y", "y = Tile (x, a)"),
    "--freeze a=2,4": text(
        "float[2, 6] x, int64[2] a", "float[2, 2] y, float[2, 4] z", "y, z = Split <axis = 1> (x, a)"
    ),
    "--freeze a=3": text(
        "float[2, 6] x, int64[1] a", "float[2, 3] y, int64[2, 3] z", "y, z = TopK <axis = 1> (x, a)"
    ),
    "--freeze a=1,1,4,4": text(
        "float[1, 1, 2, 2] x, int64[4] a", "float[1, 1, 4, 4] y", "y = Resize (x, , , a)"
    ),
}


@pytest.mark.parametrize("flag", NOTES)
def test_numbers_that_decide_sizes_are_noted_and_not_refused(flag: str) -> None:
    result = onnxq.sanitize(NOTES[flag], target="tensorrt-rtx")
    assert result.report["unsupported"] == []
    (note,) = result.report["notes"]
    assert is_said(note, "deciding-input", name="a")
    assert note.endswith(f"onnxq sanitize {flag}")


@pytest.mark.parametrize(
    "model",
    [
        text("float[2, 3] x, int64[3] a", "float[N] y", "s = Shape (a)  y = Reshape (x, s)"),
        text("float[2, 3] x, int64[3] a", "float[3, 3] y", "y = Gather (x, a)"),
        text("float[2, 3] x, float a, float b", "float[N] y", "y = Range (a, a, b)"),
    ],
    ids=["size", "places", "floats"],
)
def test_numbers_that_decide_no_size_are_not_noted(model: onnx.ModelProto) -> None:
    assert onnxq.sanitize(model, target="tensorrt-rtx").report["notes"] == []


ROWS = """<body = b (int64 i, bool c, float[3] p) => (bool d, float[3] q, float[3] r) {
    d = Identity (c)  q = Neg (p)  r = Identity (p) }> (a, , x)"""


def test_how_often_a_loop_runs_is_noted_where_it_gives_a_row_each_time() -> None:
    rows = text("float[3] x, int64 a", "float[3] y, float[N, 3] z", f"y, z = Loop {ROWS}")
    (note,) = onnxq.sanitize(rows, target="tensorrt-rtx").report["notes"]
    assert is_said(note, "deciding-input", name="a")
    none = ROWS.replace(", float[3] r)", ")").replace("r = Identity (p)", "")
    last = text("float[3] x, int64 a", "float[3] y", f"y = Loop {none}")
    assert onnxq.sanitize(last, target="tensorrt-rtx").report["notes"] == []


CASES = {
    "--freeze f=VALUE": text(
        "float[1, 1, 4, 4] x, float[4] f", "float[1, 1, N, M] y", "s = Abs (f)  y = Resize (x, , s)"
    ),
    "--freeze a=1": text("float[2, 3] x, int64[1] a", "float[2, 1] y", "y = ReduceSum (x, a)"),
    "--freeze a=0,2": text("float[1, 3, 1] x, int64[2] a", "float[3] y", "y = Squeeze (x, a)"),
    "--freeze a=2": text("float[2, 3] x, int64[1] a", "float[2, 3, 1] y", "y = Unsqueeze (x, a)"),
    "--freeze t=false": text("float[2] x, bool t", "float[2] y", "y = Dropout (x, , t)"),
    "--freeze s=1,1,2,0.5": text(
        "float[1, 1, 4, 4] x, float[4] s", "float[1, 1, 8, 2] y", "y = Resize (x, , s)"
    ),
    "--assume H=8 --assume W=4": text(
        "float[1, 2, H, W] x",
        "float[1, 1, 16, 8] y",
        "y = ConvTranspose <output_shape = [16, 8], strides = [2, 2]> (x, w)",
    ),
}


@pytest.mark.parametrize("flags", CASES)
def test_the_flags_are_named_and_help(flags: str) -> None:
    target = load_target("tensorrt-rtx")
    (found,) = unsupported(Model.open(CASES[flags]), target)
    assert f"onnxq sanitize {flags};" in found.advice
    stated: dict[str, dict[str, object]] = {}
    for flag, given in re.findall(r"--(freeze|assume) (\S+)", flags):
        name, value = given.split("=")
        value = value.replace("VALUE", "1,1,2,2")
        numbers = [value == "true"] if value in ("true", "false") else [float(n) for n in value.split(",")]
        stated.setdefault(flag, {})[name] = int(value) if flag == "assume" else numbers
    model = CASES[flags]
    if "t" in stated.get("freeze", {}):
        stated["freeze"]["t"] = False
    result = onnxq.sanitize(model, target="tensorrt-rtx", **stated)
    assert result.report["unsupported"] == []
    assert shlex.split(flags)


def test_a_shape_is_asked_for_where_the_rank_is_not_known() -> None:
    model = text("float[N] x", "float[N] y", "y = Conv (x, w)")
    model.graph.input[0].type.tensor_type.ClearField("shape")
    (found,) = unsupported(Model.open(model), load_target("tensorrt-rtx"))
    assert is_said(found.advice, "unknown-rank/do", flag="--shape x=Nx1xHxW")


def test_what_is_computed_names_the_inputs_behind_it() -> None:
    model = text("float[2, 3] x, int64[1] a", "float[N, M] y", "b = Neg (a)  y = ReduceMax (x, b)")
    (found,) = unsupported(Model.open(model), load_target("tensorrt-rtx"))
    assert "onnxq sanitize --freeze a=VALUE;" in found.advice


@pytest.mark.parametrize("body", ["y = ReduceSum (x)", "y = Squeeze (x)", "y = Dropout (x)"])
def test_nothing_is_asked_of_what_the_target_takes(body: str) -> None:
    assert (
        unsupported(Model.open(text("float[1, 3] x", "float[N] y", body)), load_target("tensorrt-rtx")) == []
    )


def test_strings_at_the_interface_are_named() -> None:
    model = text("string[2] s, float[2] x", "string[2] t, float[2] y", "t = Identity (s)  y = Relu (x)")
    found = unsupported(Model.open(model), load_target("tensorrt-rtx"))
    assert [entry.reason.split(",")[0] for entry in found] == [
        "input 's' holds strings",
        "output 't' holds strings",
    ]
    assert "onnxq pieces extract" in found[0].advice
    assert ["names into numbers" in entry.advice for entry in found] == [True, False]
