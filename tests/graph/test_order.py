"""Nodes that are inserted as early as they can run."""

from __future__ import annotations

import onnx
from onnx import helper, parser

from onnxq.graph.order import deepest_first, in_order, insert_early


def graph(text: str) -> onnx.GraphProto:
    return parser.parse_graph(text)


def outputs(proto: onnx.GraphProto) -> list[str]:
    return [node.output[0] for node in proto.node]


def added(*nodes: onnx.NodeProto) -> onnx.GraphProto:
    return onnx.GraphProto(node=nodes)


def test_behind_what_they_read() -> None:
    proto = graph("g (float[N] x) => (float[N] c) { a = Neg (x) b = Abs (a) c = Relu (b) }")
    more = added(
        helper.make_node("Sub", ["b", "x"], ["late"]),
        helper.make_node("Neg", ["late"], ["later"]),
        helper.make_node("Neg", ["x"], ["first"]),
        helper.make_node("Neg", ["a"], ["early"]),
    )
    more.output.add(name="early")
    more.input.add(name="start")
    more.initializer.append(helper.make_tensor("two", 1, [], [2]))
    insert_early(proto, more)
    assert outputs(proto) == ["first", "a", "early", "b", "c", "late", "later"]
    assert [value.name for value in proto.output] == ["c", "early"]
    assert [value.name for value in proto.input] == ["x", "start"]
    assert [tensor.name for tensor in proto.initializer] == ["two"]


def test_ends_of_the_graph_are_moved_too() -> None:
    """As the nodes that give tensors of another layout back theirs."""
    proto = graph(
        """g (float[N] x) => (float[N] d) {
            a = Neg (x) b = Abs (a) c = Relu (b) d = Neg (c) p = Neg (a) q = Neg (b)
        }"""
    )
    insert_early(proto, added(helper.make_node("ReduceMax", ["p"], ["top"])))
    assert outputs(proto) == ["a", "p", "top", "b", "q", "c", "d"]


def test_what_bodies_read_counts() -> None:
    proto = graph(
        """g (float[N] x, bool k) => (float[N] y) {
            a = Neg (x)
            b = Abs (x)
            y = If (k) <then_branch = t () => (float[N] u) { u = Relu (a) },
                        else_branch = e () => (float[N] v) { v = Relu (b) }>
        }"""
    )
    insert_early(proto, added(helper.make_node("Neg", ["y"], ["z"])))
    assert outputs(proto) == ["a", "b", "y", "z"]
    assert in_order(proto)


def test_operands_that_are_left_out() -> None:
    proto = graph("g (float[N] x) => (float[N] y) { a = Neg (x) y, m = Dropout (a) }")
    proto.node.append(helper.make_node("Clip", ["x", "", "a"], ["clipped"]))
    proto.node.append(helper.make_node("Dropout", ["x"], ["dropped", ""]))
    insert_early(proto, added(helper.make_node("Clip", ["x", ""], ["first"])))
    assert outputs(proto) == ["dropped", "first", "a", "y", "clipped"]


def test_the_deepest_operand_comes_first() -> None:
    """A term right before its sum, what is made of weights right before its reader; ends as in the file."""
    proto = graph(
        """g (float[N] x, float[N] w) => (float[N] z) {
            v = Neg (w) p = Neg (x) q = Abs (x) r = Relu (x) a = Add (q, p) b = Add (r, a)
            z = Mul (v, b) o = Neg (a)
        }"""
    )
    assert [node.output[0] for node in deepest_first(proto)] == ["p", "q", "a", "r", "b", "v", "z", "o"]
