"""Negative sizes: those that a file states are dynamic, and none of them ends the process in inference."""

from __future__ import annotations

from pathlib import Path

import onnx
import onnx.parser
import pytest
from command import run_alone

from onnxq.graph.infer import infer

HEAD = '<ir_version: 8, opset_import: ["" : 17]> g '
CUT = "<int64[1] a = {0}, int64[1] b = {1}, int64[1] c = {2}, int64[4] f = {2, 1, 1, -1}"
STATED = onnx.parser.parse_model(
    HEAD + f"(float[2, 99] x) => (y) {CUT}, float[2, 99] r> {{ r = Relu (x)  y = Slice (r, a, b, b) }}"
)
for info in (*STATED.graph.input, *STATED.graph.output, *STATED.graph.value_info):
    for dim in info.type.tensor_type.shape.dim:
        if dim.dim_value == 99:
            dim.dim_value = -1  # as some exporters write a dynamic one

WINDOW = onnx.parser.parse_model(
    HEAD + f"(float[N, 1, W] x, float[1, 1, 5] w) => (y) {CUT}> {{ d = Conv (x, w)  y = Slice (d, a, b, c) }}"
)
BEHIND = onnx.parser.parse_model(
    HEAD
    + f"""(float[N, 1, W] x, float[1, 1, 5] w) => (y) {CUT}> {{
    s = Slice (x, a, b, a)  d = Conv (s, w)  y = Slice (d, a, b, c) }}"""
)


@pytest.mark.parametrize("model", [STATED, WINDOW, BEHIND], ids=["stated", "window", "behind a Slice"])
def test_sizes_of_one_are_followed_as_far_as_they_go(model: onnx.ModelProto, tmp_path: Path) -> None:
    """`memory` takes sizes that nobody states for 1, in which no window of 5 fits."""
    onnx.save(model, tmp_path / "m.onnx")
    ran = run_alone(tmp_path, "statistics", "memory", "m.onnx")
    assert ran.code == 0, ran.err
    assert "Peak" in ran.out


def test_a_model_is_the_same_while_the_error_is_handled() -> None:
    model = onnx.ModelProto.FromString(WINDOW.SerializeToString())
    model.graph.input[0].type.tensor_type.shape.dim[2].dim_value = 1
    before = model.SerializeToString(deterministic=True)
    try:
        infer(model)
    except ValueError:
        assert model.SerializeToString(deterministic=True) == before
    else:
        pytest.fail("it is taken")
