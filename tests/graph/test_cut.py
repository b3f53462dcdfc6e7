"""Cutting: what goes where, what passes, and that no piece lacks or repeats anything."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import onnx.parser
import pytest
from onnx import TensorProto, helper, numpy_helper

from onnxq.base.errors import UserError
from onnxq.graph.cut import Piece, cut, extract_between, extract_node
from onnxq.graph.model import Model
from onnxq.inspection.pieces import Chain
from onnxq.run import ort

H = '<ir_version: 8, opset_import: ["" : 17, "com.microsoft" : 1, "org.example" : 1]>\n'


def parse(text: str) -> Model:
    return Model.open(onnx.parser.parse_model(H + text))


def names(infos: Any) -> list[str]:
    return [info.name for info in infos]


def shape(info: onnx.ValueInfoProto) -> list[int | str]:
    return [d.dim_param or d.dim_value for d in info.type.tensor_type.shape.dim]


def interface(pieces: list[Piece]) -> list[tuple[list[str], list[str], list[str]]]:
    """Of each piece its nodes' outputs, its inputs and its outputs."""
    return [
        (
            [name for node in p.model.graph.node for name in node.output],
            names(p.model.graph.input),
            names(p.model.graph.output),
        )
        for p in pieces
    ]


def chain(model: Model, pieces: list[Piece]) -> Chain:
    sessions = {str(i): ort.load(p.model, optimize=False) for i, p in enumerate(pieces)}
    return Chain(sessions, names(model.source.graph.input), names(model.source.graph.output))


def check_equal(model: Model, pieces: list[Piece], feeds: dict[str, np.ndarray]) -> None:
    for piece in pieces:
        onnx.checker.check_model(piece.model)
    expected = ort.load(model.source, optimize=False).run(feeds)
    for one, other in zip(expected, chain(model, pieces).run(feeds), strict=True):
        assert one.dtype == other.dtype
        assert one.tobytes() == other.tobytes()


X = {"x": np.array([[-1, 2, 3, -4], [5, -6, 7, 8]], np.float32)}


def test_a_cut_at_a_tensor() -> None:
    model = parse("""g (float[N, 4] x) => (float[N, 4] y)
        <float[4] w = {1, 2, 3, 4}, float[4] v = {4, 3, 2, 1}> {
        a = Mul (x, w)  b = Relu (a)  c = Add (b, v)  y = Abs (c) }""")
    pieces = cut(model, [["b"]])
    assert interface(pieces) == [(["a", "b"], ["x"], ["b"]), (["c", "y"], ["b"], ["y"])]
    assert [names(p.model.graph.initializer) for p in pieces] == [["w"], ["v"]]
    assert shape(pieces[1].model.graph.input[0]) == ["N", 4]
    check_equal(model, pieces, X)


def test_what_goes_around_a_cut_passes_too() -> None:
    model = parse("""g (float[N, 4] x) => (float[N, 4] y) {
        a = Relu (x)  b = Abs (a)  c = Neg (b)  d = Add (c, a)  y = Add (d, x) }""")
    pieces = cut(model, [["c"]])
    assert interface(pieces) == [(["a", "b", "c"], ["x"], ["a", "c"]), (["d", "y"], ["x", "a", "c"], ["y"])]
    check_equal(model, pieces, X)


def test_several_cuts_in_any_order_and_side_by_side() -> None:
    text = """g (float[N, 4] x) => (float[N, 4] y) {
        a = Relu (x)  b = Abs (a)  c = Neg (a)  d = Add (b, c)  y = Tanh (d) }"""
    for order in ([["a"], ["d"]], [["d"], ["a"]]):
        pieces = cut(parse(text), order)
        assert [made for made, _, _ in interface(pieces)] == [["a"], ["b", "c", "d"], ["y"]]
    model = parse(text)
    assert [made for made, _, _ in interface(cut(model, [["b", "c"]]))] == [["a", "b", "c"], ["d", "y"]]
    beside = cut(model, [["b"], ["c"]])
    assert [made for made, _, _ in interface(beside)] == [["a"], ["b", "c"], ["d", "y"]]
    check_equal(model, beside, X)


def test_operators_are_isolated_in_as_few_pieces_as_can_be() -> None:
    model = parse("""g (float[N, 4] x) => (float[N, 4] y, float[N, 4] z) {
        a = Tanh (x)  b = Abs (a)  c = Tanh (b)  d = Tanh (c)  e = Neg (x)  f = Tanh (e)
        y = Add (d, f)  z = Abs (x) }""")
    pieces = cut(model, operators=["Tanh"])
    assert [p.isolated for p in pieces] == [False, True, False, True, False]
    assert [made for made, _, _ in interface(pieces)] == [["e", "z"], ["a", "f"], ["b"], ["c", "d"], ["y"]]
    check_equal(model, pieces, X)
    both = cut(model, [["b"]], ["Tanh"])
    assert [made for made, _, _ in interface(both)] == [["a"], ["b"], ["e", "z"], ["c", "d", "f"], ["y"]]
    check_equal(model, both, X)


def test_constants_are_copied_and_never_pass() -> None:
    model = parse("""g (float[N, 4] x) => (float[N, 4] y, float[4] w) <float[4] w = {1, 2, 3, 4}> {
        two = Constant <value = float {2}> ()  words = Constant <value_string = "a"> ()
        a = Mul (x, w)  b = Mul (a, two)  c = Mul (b, w)  y = Mul (c, two) }""")
    pieces = cut(model, [["b"]])
    assert [names(p.model.graph.input) for p in pieces] == [["x"], ["b"]]
    assert [sorted(names(p.model.graph.initializer)) for p in pieces] == [["two", "w"], ["two", "w"]]
    assert names(pieces[1].model.graph.output) == ["y", "w"]
    check_equal(model, pieces, X)


def test_a_constant_of_strings_is_copied_too() -> None:
    model = parse("""g (float[N, 4] x) => (bool[1] y) {
        a = Constant <value_strings = ["a"]> ()  b = Identity (a)  y = Equal (a, b) }""")
    model.source.opset_import[0].version = 19
    pieces = cut(Model.open(model.source), [["b"]])
    assert [names(p.model.graph.input) for p in pieces] == [[], ["b"]]
    assert [p.nodes for p in pieces] == [("b",), ("y",)]
    check_equal(model, pieces, X)


def test_sparse_weights_annotations_and_metadata_go_along() -> None:
    model = onnx.parser.parse_model(
        H + "g (float[4] x) => (float[4] y) { a = Add (x, w) b = Relu (a) c = Abs (b) y = Add (c, w) }"
    )
    values = helper.make_tensor("w", TensorProto.FLOAT, [1], [2.0])
    at = helper.make_tensor("w_at", TensorProto.INT64, [1], [3])
    model.graph.sparse_initializer.append(helper.make_sparse_tensor(values, at, [4]))
    model.graph.value_info.append(helper.make_tensor_value_info("a", TensorProto.FLOAT, [4]))
    model.graph.quantization_annotation.add(tensor_name="c")
    model.graph.doc_string, model.producer_name = "a graph", "maker"
    model.metadata_props.add(key="author", value="me")
    opened = Model.open(model)
    pieces = cut(opened, [["b"]])
    for piece in pieces:
        assert piece.model.graph.sparse_initializer == model.graph.sparse_initializer
        assert (piece.model.graph.doc_string, piece.model.producer_name) == ("a graph", "maker")
        assert piece.model.metadata_props == model.metadata_props
    assert [names(p.model.graph.value_info) for p in pieces] == [["a"], []]
    assert [len(p.model.graph.quantization_annotation) for p in pieces] == [0, 1]
    expected = ort.load(model).run({"x": np.ones(4, np.float32)})
    (got,) = chain(opened, pieces).run({"x": np.ones(4, np.float32)})
    assert got.tolist() == expected[0].tolist()


def test_what_a_body_reads_passes() -> None:
    model = parse("""g (float[N, 4] x, bool c) => (float[N, 4] y) <float[4] w = {1, 2, 3, 4}> {
        a = Relu (x)  b = Abs (a)
        y = If (c) <then_branch = t () => (float[N, 4] p) { q = Mul (a, w)  p = Add (q, b) },
                       else_branch = e () => (float[N, 4] r) { r = Neg (x) }> }""")
    pieces = cut(model, [["b"]])
    assert interface(pieces)[1] == (["y"], ["x", "c", "a", "b"], ["y"])
    assert [names(p.model.graph.initializer) for p in pieces] == [[], []]  # `w` is in the body
    for value in (True, False):
        check_equal(model, pieces, X | {"c": np.array(value)})


def test_outputs_that_are_inputs_or_read_on() -> None:
    model = parse("""g (float[N, 4] x) => (float[N, 4] x, float[N, 4] a, float[N, 4] y) {
        a = Relu (x)  b = Abs (a)  y = Neg (b) }""")
    pieces = cut(model, [["b"]])
    assert interface(pieces) == [(["a", "b"], ["x"], ["a", "b"]), (["y"], ["b"], ["y"])]
    check_equal(model, pieces, X)


def test_dead_nodes_and_unread_outputs_are_in_no_interface() -> None:
    model = parse("""g (float[N, 4] x) => (float[N, 4] y) {
        a = Relu (x)  dead = Abs (a)  b, mask = Dropout (a)  y = Neg (b) }""")
    pieces = cut(model, [["b"]])
    assert interface(pieces) == [(["a", "b", "mask"], ["x"], ["b"]), (["y"], ["b"], ["y"])]
    check_equal(model, pieces, X)


def test_the_types_are_inferred_and_not_those_that_the_file_says() -> None:
    model = onnx.parser.parse_model(
        H
        + """g (float[?, 4] x) => (float[7, 4] y) <float[9, 9] b> {
            a = Relu (x)  s = Shape (a)  b = Reshape (a, s)  y = Neg (b) }"""
    )
    opened = Model.open(model)
    pieces = cut(opened, [["b"]])
    assert shape(pieces[1].model.graph.input[0]) == ["x.0", 4]
    assert shape(pieces[0].model.graph.input[0]) == ["x.0", 4]
    check_equal(opened, pieces, X)


def test_onnxruntime_knows_the_types_of_its_own_operators() -> None:
    model = parse("""g (float[N, 4] x) => (float[N, 4] y) {
        a = com.microsoft.Gelu (x)  b = com.microsoft.Gelu (a)  y = Neg (b) }""")
    with pytest.raises(UserError, match="type of tensor 'b' is not known"):
        cut(model, [["b"]])
    pieces = cut(model, [["b"]], ask=ort.output_types)
    assert shape(pieces[1].model.graph.input[0]) == ["N", 4]
    check_equal(model, pieces, X)


def test_around_an_operator_that_nobody_knows_the_file_is_believed() -> None:
    text = """g (float[N, 4] x) => (float[N, 4] y) <float[N, 4] m> {
        a = Relu (x)  m = org.example.Mine (a)  b = Abs (m)  y = Neg (b) }"""
    pieces = cut(parse(text), operators=["org.example.Mine"], ask=ort.output_types)
    assert [made for made, _, _ in interface(pieces)] == [["a"], ["m"], ["b", "y"]]
    assert [p.isolated for p in pieces] == [False, True, False]
    assert shape(cut(parse(text), [["b"]])[1].model.graph.input[0]) == ["N", 4]
    with pytest.raises(UserError, match="type of tensor 'm' is not known"):
        cut(parse(text.replace("<float[N, 4] m>", "")), [["m"]], ask=ort.output_types)


def test_a_sequence_passes() -> None:
    model = parse("""g (float[N, 4] x) => (float[N, 2] y) <int64 one = {1}, int64 two = {2}> {
        s = SplitToSequence <axis = 1> (x, two)  y = SequenceAt (s, one) }""")
    pieces = cut(model, [["s"]])
    assert pieces[0].model.graph.output[0].type.HasField("sequence_type")
    check_equal(model, pieces, X)


def test_functions_are_written_out() -> None:
    model = onnx.parser.parse_model("""<ir_version: 8, opset_import: ["" : 17, "mine" : 1]>
        g (float[N, 4] x) => (float[N, 4] y) { a = mine.twice (x)  b = Neg (a)  y = mine.twice (b) }
        <domain: "mine", opset_import: ["" : 17]> twice (p) => (q) { q = Add (p, p) }""")
    opened = Model.open(model)
    check_equal(opened, cut(opened, [["b"]]), X)


def test_a_part_between_tensors() -> None:
    model = parse("""g (float[N, 4] x, float[4] k) => (float[N, 4] y) <float[4] w = {1, 2, 3, 4}> {
        a = Mul (x, w)  b = Relu (a)  c = Add (b, k)  y = Mul (c, w) }""")
    piece = extract_between(model, ["b"], ["y"])
    assert interface([piece]) == [(["c", "y"], ["k", "b"], ["y"])]
    assert names(piece.model.graph.initializer) == ["w"]
    whole = extract_between(model, [], ["c"])
    assert interface([whole]) == [(["a", "b", "c"], ["x", "k"], ["c"])]
    onnx.checker.check_model(piece.model)
    feeds = X | {"k": np.ones(4, np.float32)}
    middle = ort.load(extract_between(model, [], ["b"]).model, optimize=False).run(X)
    (got,) = ort.load(piece.model, optimize=False).run({"b": middle[0], "k": feeds["k"]})
    assert got.tobytes() == ort.load(model.source, optimize=False).run(feeds)[0].tobytes()


def test_a_part_that_starts_at_one_output_of_a_node_and_needs_the_other() -> None:
    model = parse("""g (float[N, 4] x) => (float[N, 2] y) {
        p, q = Split <axis = 1> (x)  a = Neg (p)  y = Add (a, q) }""")
    piece = extract_between(model, ["p"], ["y"])
    assert interface([piece]) == [(["unread:p", "q", "a", "y"], ["x", "p"], ["y"])]
    (got,) = ort.load(piece.model).run({"x": X["x"], "p": np.full((2, 2), 100, np.float32)})
    assert got.tolist() == (X["x"][:, 2:] - 100).tolist()


def test_one_node_with_its_weights() -> None:
    model = parse("""g (float[N, 4] x) => (float[N, 4] y) <float[4] w = {1, 2, 3, 4}> {
        [first] a = Relu (x)  [second] b = Mul (a, w)  [third] y = Neg (b) }""")
    piece = extract_node(model, "second")
    assert interface([piece]) == [(["b"], ["a"], ["b"])]
    assert numpy_helper.to_array(piece.model.graph.initializer[0]).tolist() == [1, 2, 3, 4]


BODY = """g (float[N, 4] x, bool c) => (float[N, 4] y) <float[4] w = {1, 2, 3, 4}> {
    a = Mul (x, w)  [choice] y = If (c) <then_branch = t () => (float[N, 4] p) { [inner] p = Tanh (a) },
                                         else_branch = e () => (float[N, 4] r) { r = Neg (a) }> }"""


@pytest.mark.parametrize(
    ("act", "message", "hint"),
    [
        (lambda m: cut(m, [["aa"]]), "there is no tensor 'aa'", "did you mean 'a'"),
        (lambda m: cut(m, [["x"]]), "tensor 'x' is an input of the model", "inspect --tensor"),
        (lambda m: cut(m, [["w"]]), "tensor 'w' is a constant of the model", "inspect --tensor"),
        (lambda m: cut(m, [["p"]]), "tensor 'p' is in a body of If node 'choice'", "main graph"),
        (lambda m: cut(m, [["y"]]), "that does not cut the model", "in the middle"),
        (lambda m: cut(m, [], ["Mull"]), "there is no operator 'Mull'", "did you mean 'Mul'"),
        (lambda m: cut(m, [], ["Tanh"]), "node Tanh is in a body of If node 'choice'", "--at-op If"),
        (lambda m: cut(m, [], ["Mul", "If"]), "that does not cut the model", "in the middle"),
        (lambda m: extract_between(m, [], ["z"]), "there is no tensor 'z'", "'a'"),
        (lambda m: extract_between(m, ["w"], ["y"]), "tensor 'w' is a constant", "computes"),
        (lambda m: extract_between(m, ["y"], ["a"]), "depends on tensor 'y'", "leave it out"),
        (lambda m: extract_node(m, "inner"), "node 'inner' is in a body of If", "--node choice"),
        (lambda m: extract_node(m, "choise"), "there is no node 'choise'", "did you mean 'choice'"),
    ],
)  # fmt: skip
def test_what_cannot_be_cut(act: Callable[[Model], object], message: str, hint: str) -> None:
    with pytest.raises(UserError, match=message) as caught:
        act(parse(BODY))
    assert hint in caught.value.hint


NODES = """g (float[N, 4] x, bool c) => (float[N, 2] y) <float[4] w = {1, 2, 3, 4}> {
    [scale] a = Mul (x, w)  [parts] p, q = Split <axis = 1> (a)  [sum] s = Add (p, q)
    [choice] y = If (c) <then_branch = t () => (float[N, 2] u) { [inner] u = Tanh (s) },
                         else_branch = e () => (float[N, 2] v) { v = Neg (s) }> }"""


@pytest.mark.parametrize(
    ("act", "message", "hint"),
    [
        (lambda m: extract_between(m, [], ["parts"]), "reads 'a' and gives 'p', 'q'", "--to p,q"),
        (lambda m: extract_between(m, ["parts"], ["y"]), "gives", "--from a cuts in front of it, --from p,q"),
        (lambda m: extract_between(m, ["scale"], ["y"]), "reads 'x'", "--from x cuts in front of it"),
        (lambda m: extract_between(m, [], ["inner"]), "in a body of If node 'choice'", "--to y"),
        (lambda m: cut(m, [["sum"]]), "gives 's'", "--at p,q cuts in front of it, --at s cuts behind it"),
        (lambda m: cut(m, [["scale"]]), "gives 'a'", "--at a cuts behind it"),
        (lambda m: cut(m, [["choice"]]), "reads 'c', 's' and gives 'y'", "--at s cuts in front of it"),
    ],
)
def test_the_name_of_a_node_where_a_tensor_is_expected(
    act: Callable[[Model], object], message: str, hint: str
) -> None:
    with pytest.raises(UserError, match=message) as caught:
        act(parse(NODES))
    assert "is a node" in str(caught.value)
    assert re.search(rf"(^|: ){re.escape(hint)}", caught.value.hint), caught.value.hint


def test_a_node_with_a_body_is_isolated_whole() -> None:
    model = parse(BODY)
    pieces = cut(model, operators=["If", "Tanh"])
    assert interface(pieces) == [(["a"], ["x"], ["a"]), (["y"], ["c", "a"], ["y"])]
    for value in (True, False):
        check_equal(model, pieces, X | {"c": np.array(value)})


def test_the_model_is_not_modified() -> None:
    model = parse(BODY)
    before, after = model.source.SerializeToString(), model.to_proto().SerializeToString()
    cut(model, [["a"]])
    extract_node(model, "choice")
    assert (model.source.SerializeToString(), model.to_proto().SerializeToString()) == (before, after)
