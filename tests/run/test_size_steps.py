"""A dimension whose sizes are multiples of a number, and the node that fails at others."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnx.parser
import pytest
from command import run

from onnxq.graph.model import Model
from onnxq.run import ort
from onnxq.run.size_steps import size_steps

HEAD = '<ir_version: 8, opset_import: ["" : 17]> net (float[N, 4, H, W] x) => (float[N, 4, I, J] y) '
POOL = "MaxPool <kernel_shape = [1, 1], strides = [%d, 1]>"
PYRAMID = "<float[4] s = {1., 1., %d., 1.}> { a = " + POOL + " (x)  b = Resize (a, , s)  [l] y = Add (b, x) }"


def model_of(step: int) -> onnx.ModelProto:
    return onnx.parser.parse_model(HEAD + PYRAMID % (step, step))


@pytest.mark.parametrize("step", [2, 3, 4, 8])
def test_the_number_and_the_node_are_told(step: int) -> None:
    proto = model_of(step)
    names = {one.name: one.shape or () for one in Model.open(proto).inputs}
    feeds = {"x": np.ones((1, 4, 8 * step, 8), np.float32)}
    (found,) = size_steps(ort.load(proto, optimize=False), feeds, names)
    assert (found.dimension, found.step, found.node, found.op) == ("H", step, "l", "Add")


def test_a_dimension_that_is_free_is_not_told() -> None:
    proto = onnx.parser.parse_model(HEAD + "{ y = Relu (x) }")
    names = {one.name: one.shape or () for one in Model.open(proto).inputs}
    assert not size_steps(ort.load(proto, optimize=False), {"x": np.ones((1, 4, 8, 8), np.float32)}, names)


def test_the_error_of_a_profile_says_it(tmp_path: Path) -> None:
    onnx.save(model_of(4), tmp_path / "net.onnx")
    np.savez(tmp_path / "x.npz", x=np.ones((8, 4, 16, 8), np.float32))
    stated = "x=1x4x10x8:1x4x16x8:1x4x32x8"
    ran = run(tmp_path, "quantize", "net.onnx", "--calib", "x.npz", "--profile", stated)
    assert ran.code == 2
    assert "H is to be a multiple of 4" in " ".join(ran.err.split())
    assert "Name:'l'" in ran.err
