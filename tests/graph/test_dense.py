"""Sparse weights: written in full, proved and reported."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import helper

import onnxq
from onnxq.run import ort


def sparse(indices: list[int] | list[list[int]], name: str = "w") -> onnx.SparseTensorProto:
    flat = np.array(indices, np.int64)
    values = helper.make_tensor(name, 1, [2], [1.5, -2.0])
    return helper.make_sparse_tensor(values, onnx.numpy_helper.from_array(flat, "i"), [3, 2])


def model(*, initializer: bool, indices: list[int] | list[list[int]]) -> onnx.ModelProto:
    nodes = [helper.make_node("MatMul", ["x", "w"], ["y"])]
    if not initializer:
        nodes.insert(0, helper.make_node("Constant", [], ["w"], sparse_value=sparse(indices)))
    ends = [helper.make_tensor_value_info(name, 1, ["N", size]) for name, size in (("x", 3), ("y", 2))]
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:])
    if initializer:
        graph.sparse_initializer.append(sparse(indices))
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.mark.parametrize("initializer", [True, False])
@pytest.mark.parametrize("indices", [[1, 4], [[0, 1], [2, 0]]])
def test_they_become_dense_ones(initializer: bool, indices: list[int]) -> None:
    before = model(initializer=initializer, indices=indices)
    result = onnxq.sanitize(before, target="tensorrt-rtx")
    assert not result.model.graph.sparse_initializer
    (weight,) = result.model.graph.initializer
    np.testing.assert_array_equal(onnx.numpy_helper.to_array(weight), [[0, 1.5], [0, 0], [-2, 0]])
    (change,) = result.report["changes"]
    assert (change["rule"], change["node"], change["proof"]["verdict"]) == ("dense_weights", "w", "exact")
    x = np.random.default_rng(0).standard_normal((4, 3)).astype(np.float32)
    np.testing.assert_array_equal(*(ort.load(one).run({"x": x})[0] for one in (before, result.model)))


def test_one_that_would_fill_the_memory_stays() -> None:
    large = model(initializer=True, indices=[1, 4])
    large.graph.sparse_initializer[0].dims[:] = [3, 1 << 27]
    from onnxq.graph.model import Model
    from onnxq.graph.plainly import densify

    opened = Model.open(large)
    assert densify(opened) == []
    assert len(opened.to_proto().graph.sparse_initializer) == 1
