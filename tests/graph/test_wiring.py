"""The order of nodes, and the cost of following shape arithmetic."""

from __future__ import annotations

import onnx_graphsurgeon as gs
import pytest
from onnx import parser

from onnxq.base.errors import UserError
from onnxq.graph import elements
from onnxq.graph.model import Model
from onnxq.graph.view import Tensor
from onnxq.graph.wiring import sorted_nodes


def _nodes(*reads: tuple[int, ...]) -> list[gs.Node]:
    """Node i writes tensor i and reads those given."""
    tensors = [gs.Variable(f"t{index}") for index in range(len(reads))]
    return [
        gs.Node("Sum", f"n{index}", inputs=[tensors[i] for i in given], outputs=[tensors[index]])
        for index, given in enumerate(reads)
    ]


def test_nodes_that_many_wait_for() -> None:
    order = sorted_nodes(_nodes((1, 2, 3), (), (1,), (1, 2)))
    assert [node.name for node in order] == ["n1", "n2", "n3", "n0"]


def test_nodes_in_order_keep_their_places() -> None:
    nodes = _nodes((), (), (1,), (0, 2))
    assert all(a is b for a, b in zip(sorted_nodes(nodes), nodes, strict=True))


def test_a_cycle_is_named() -> None:
    with pytest.raises(UserError, match="'n0' is part of a cycle"):
        sorted_nodes(_nodes((1,), (2,), (0,)))


def test_a_tensor_that_many_paths_reach_is_followed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    steps = 12  # 4,096 paths
    chain = "  ".join(f"s{i + 1} = Max (s{i}, s{i})" for i in range(steps))
    model = Model.open(
        parser.parse_model(
            f"""<ir_version: 8, opset_import: ["" : 17]>
            g (float[N, 3] x) => (int64[2] s{steps}) {{ s0 = Shape (x)  {chain} }}"""
        )
    )
    follow, followed = elements._followed, []
    monkeypatch.setattr(
        elements, "_followed", lambda value, depth: followed.append(value.name) or follow(value, depth)
    )
    model.known.clear()
    known = elements.known_elements(Tensor(model, model.graph.outputs[0]))
    assert known is not None
    assert known.tolist() == [None, 3]
    assert sorted(followed) == sorted(f"s{i}" for i in range(steps + 1))
