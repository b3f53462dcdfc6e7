"""Sizes that an input names dynamic and a node has baked in: the model runs with these alone."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnx.parser
import pytest
from command import run

from onnxq.graph.baked import baked_sizes
from onnxq.graph.model import Model
from onnxq.run import ort

HEAD = '<ir_version: 8, opset_import: ["" : 17]> net '
RESHAPE = "{ k = Constant <value_ints = %s> ()  [r] y = Reshape (x, k) }"
BAKED = {
    "one": ("(float[N, 4, 4] x) => (float[A, B] y) " + RESHAPE % "[1, 16]", 1),
    "four": ("(float[N, 4, 4] x) => (float[A, B, C] y) " + RESHAPE % "[2, 2, 16]", 4),
    "copied": ("(float[N, 4, 4] x) => (float[A, B, C] y) " + RESHAPE % "[1, 0, 4]", 1),
    "second": ("(float[3, N, 4] x) => (float[A, B] y) " + RESHAPE % "[0, 20]", 5),
    "token": (
        "(float[N, 4, 4] x, float[1, 1, 4] c) => (float[A, B, 4] y) "
        "{ t = Relu (x)  [j] y = Concat <axis = 1> (c, t) }",
        1,
    ),
}
FREE = (
    "(float[N, 4, 4] x) => (float[A, B] y) " + RESHAPE % "[-1, 16]",
    "(float[N, 4, 4] x) => (float[A, B] y) " + RESHAPE % "[0, 16]",
    "(float[N, M, 4] x) => (float[A, B] y) " + RESHAPE % "[1, 16]",
    "(float[N, 4] x, float[1, 4] c) => (float[A, B] y) { y = Concat <axis = 0> (c, x) }",
)  # fmt: skip


@pytest.mark.parametrize("name", BAKED)
def test_it_runs_with_that_size_alone(name: str) -> None:
    text, size = BAKED[name]
    proto = onnx.parser.parse_model(HEAD + text)
    (found,) = baked_sizes(Model.open(proto))
    assert (found.symbol, found.size) == ("N", size)
    dims = [dim.dim_value for dim in proto.graph.input[0].type.tensor_type.shape.dim]
    session = ort.load(proto, optimize=False, threads=1)
    for batch in range(1, 9):
        feeds = {"x": np.ones([dim or batch for dim in dims], np.float32)}
        if name == "token":
            feeds["c"] = np.ones((1, 1, 4), np.float32)
        if batch == size:
            session.run(feeds)
        else:
            with pytest.raises(ort.RunError):
                session.run(feeds)


@pytest.mark.parametrize("text", FREE)
def test_what_may_run_is_not_named(text: str) -> None:
    assert not baked_sizes(Model.open(onnx.parser.parse_model(HEAD + text)))


def test_a_size_that_is_stated_against_it_is_answered_with_the_node(tmp_path: Path) -> None:
    """The words of onnxruntime name a path of its sources, and no cause."""
    onnx.save(onnx.parser.parse_model(HEAD + BAKED["second"][0]), tmp_path / "net.onnx")
    np.savez(tmp_path / "x.npz", x=np.ones((8, 3, 5, 4), np.float32))
    stated = "x=3x5x4:3x5x4:3x6x4"
    ran = run(tmp_path, "quantize", "net.onnx", "--calib", "x.npz", "--profile", stated)
    assert ran.code == 2
    told = " ".join(ran.err.split())
    assert "'r' (Reshape): it runs with N = 5" in told
    assert "requested shape" not in told
