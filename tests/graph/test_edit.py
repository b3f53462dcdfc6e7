"""Binding dimensions, freezing inputs, and replacing what computes a tensor."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import onnx
import onnx.parser
import pytest

from onnxq.base.errors import UserError
from onnxq.graph.edit import Edit, Editor
from onnxq.graph.model import Model
from onnxq.graph.value import op, remake
from onnxq.graph.view import Node, Tensor
from onnxq.run import ort

H = '<ir_version: 8, opset_import: ["" : 17]>\n'


def opened(text: str) -> Model:
    return Model.open(onnx.parser.parse_model(H + text))


# -- dimensions and inputs -------------------------------------------------------------------------


def test_a_size_reaches_every_tensor_of_the_symbol() -> None:
    model = opened("g (float[N, 3] x, float[N] z) => (float[N, 3] y) { y = Relu (x) }")
    model.set_input_shape("x", (4, 3))
    model.infer_shapes()
    assert [tensor.shape for tensor in model.inputs + model.outputs] == [(4, 3), (4,), (4, 3)]


def test_a_dimension_without_a_name_can_be_spoken_of() -> None:
    proto = onnx.parser.parse_model(H + "g (float[N, 3] x) => (float[N, 3] y) { y = Relu (x) }")
    proto.graph.input[0].type.tensor_type.shape.dim[0].Clear()
    model = Model.open(proto)
    assert model.inputs[0].shape == ("x.0", 3)
    assert model.symbols == {"x.0"}
    assert model.to_proto().graph.input[0] == proto.graph.input[0]
    model.bind_dims({"x.0": 2})
    assert model.to_proto().graph.input[0].type.tensor_type.shape.dim[0].dim_value == 2


@pytest.mark.parametrize(
    ("name", "shape", "message"),
    [
        ("z", (1, 3, 3), "no input 'z'"),
        ("x", (1, 3), "has 3 dimensions, the shape given has 2"),
        ("x", (1, 4, 3), "dimension 1 of input 'x' is 3"),
        ("x", (1, 3, 2), "given two sizes, 1 and 2"),
    ],
)
def test_a_shape_that_contradicts_is_refused(name: str, shape: tuple[int, ...], message: str) -> None:
    model = opened("g (float[N, 3, N] x) => (float[N, 3, N] y) { y = Relu (x) }")
    with pytest.raises(UserError, match=message):
        model.set_input_shape(name, shape)
    assert model.inputs[0].shape == ("N", 3, "N"), "nothing was changed"


def test_a_frozen_input_is_a_constant() -> None:
    model = opened("g (float[2] x, float k) => (float[2] y) { y = Mul (x, k) }")
    model.freeze_input("k", np.array([0.1]).reshape(()))
    result = model.to_proto()
    assert [i.name for i in result.graph.input] == ["x"]
    (out,) = ort.load(result).run({"x": np.array([1, 2], np.float32)})
    np.testing.assert_array_equal(out, np.array([1, 2], np.float32) * np.float32(0.1))


@pytest.mark.parametrize(
    ("kind", "value", "fits"),
    [
        ("int64", 3.0, True),
        ("int64", 2.5, False),
        ("int64", np.nan, False),
        ("uint8", 256, False),
        ("uint8", -1, False),
        ("bool", 1, True),
        ("bool", 2, False),
        ("float", 0.1, True),
        ("float", np.nan, True),
        ("float", np.inf, True),
        ("float", 1e300, False),
        ("float16", 1e5, False),
        ("float16", 1, True),
    ],
)
def test_a_frozen_value_fits_its_type(kind: str, value: float, fits: bool) -> None:
    model = opened(f"g ({kind} k) => ({kind} y) {{ y = Identity (k) }}")
    if fits:
        model.freeze_input("k", np.array(value))
        return
    with pytest.raises(UserError, match="does not fit that type"):
        model.freeze_input("k", np.array(value))


def test_a_frozen_value_has_the_input_s_shape() -> None:
    model = opened("g (float[2, N] k) => (float[2, N] y) { y = Identity (k) }")
    for wrong in (np.zeros(2, np.float32), np.zeros((3, 1), np.float32)):
        with pytest.raises(UserError, match="has shape"):
            model.freeze_input("k", wrong)
    with pytest.raises(UserError, match="no input 'q'"):
        model.freeze_input("q", np.zeros(1))
    model.freeze_input("k", np.zeros((2, 5), np.float32))


# -- edits -----------------------------------------------------------------------------------------


def edited(
    text: str, name: str, results: Callable[[Node], Mapping[int, Any]]
) -> tuple[Edit | None, onnx.ModelProto]:
    """The model with the outputs of node `name` replaced; it must still be valid."""
    model = opened(text)
    editor = Editor(model)
    (node,) = [Node(model, n) for g in model.graphs() for n in g.nodes if n.name == name]
    edit = editor.replace(node, results(node))
    editor.finish()
    result = model.to_proto()
    onnx.checker.check_model(result, full_check=True)
    assert [o.name for o in result.graph.output] == [
        o.name for o in onnx.parser.parse_model(H + text).graph.output
    ]
    return edit, result


def run(model: onnx.ModelProto, *arrays: Any) -> list[Any]:
    session = ort.load(model)
    return session.run({n: np.array(a, np.float32) for n, a in zip(session.inputs, arrays, strict=True)})


def test_a_new_node_takes_the_place_and_the_name() -> None:
    text = "g (float[2] x) => (float[2] y) { a = Abs (x)  b = Neg (a)  y = Relu (b) }"
    edit, result = edited(text, "b", lambda n: {0: op.Sub(0, n.inputs[0])})
    assert [(n.op_type, n.output[0]) for n in result.graph.node] == [
        ("Abs", "a"),
        ("Sub", "b"),
        ("Relu", "y"),
    ]
    assert edit is not None
    assert len(edit.added) == len(edit.removed) == 1
    assert run(result, [1, -2])[0].tolist() == [0, 0]


def test_an_output_keeps_its_name_when_its_node_goes() -> None:
    text = "g (float[2] x) => (float[2] y) { a = Abs (x)  y = Identity (a) }"
    _, result = edited(text, "y", lambda n: {0: n.inputs[0]})
    assert [(n.op_type, n.name, n.output[0]) for n in result.graph.node] == [("Abs", "a", "y")]


def test_an_identity_between_input_and_output_stays() -> None:
    text = "g (float[2] x) => (float[2] y) { y = Identity (x) }"
    edit, result = edited(text, "y", lambda n: {0: n.inputs[0]})
    assert edit is None
    assert [n.op_type for n in result.graph.node] == ["Identity"]


def test_an_output_that_becomes_an_input_or_constant_gets_an_identity() -> None:
    text = "g (float[2] x) => (float[2] y) { y = Dropout (x) }"
    _, result = edited(text, "y", lambda n: {0: n.inputs[0]})
    assert [n.op_type for n in result.graph.node] == ["Identity"]
    _, result = edited(text, "y", lambda n: {0: np.array([1, 2], np.float32)})
    assert run(result, [0, 0])[0].tolist() == [1, 2]


def test_two_outputs_of_one_tensor_keep_both_names() -> None:
    text = "g (float[2] x) => (float[2] y, float[2] z) { y = Abs (x)  z = Identity (y) }"
    _, result = edited(text, "z", lambda n: {0: n.inputs[0]})
    assert run(result, [1, -2])[1].tolist() == [1, 2]


TWO = (
    "g (float[4] x) => (float[2] y, float[2] z) <int64[2] s = {2, 2}> { a = Relu (x)  y, z = Split (a, s) }",
    "g (float[4] x) => (float[2] q) <int64[2] s = {2, 2}>"
    "{ a = Relu (x)  y, z = Split (a, s)  q = Sub (y, z) }",
    "g (float[4] x) => (float[2] y, float[2] q) <int64[2] s = {2, 2}>"
    "{ a = Relu (x)  y, z = Split (a, s)  q = Sub (y, z) }",
)


def _first(node: Node) -> Any:
    return op.Slice(node.inputs[0], np.array([0]), np.array([2]))


@pytest.mark.parametrize("text", TWO)
def test_one_new_value_for_two_outputs(text: str) -> None:
    def results(node: Node) -> dict[int, Any]:
        value = _first(node)
        return {0: value, 1: value}

    name = "y"
    _, result = edited(text, name, results)
    outs = run(result, [1, 2, 3, 4])
    wanted = {"y": [1, 2], "z": [1, 2], "q": [0, 0]}
    for info, out in zip(result.graph.output, outs, strict=True):
        assert out.tolist() == wanted[info.name]


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
@pytest.mark.parametrize("text", TWO)
def test_a_new_value_that_another_one_uses(text: str, order: tuple[int, int]) -> None:
    def results(node: Node) -> dict[int, Any]:
        value = _first(node)
        both = {0: value, 1: op.Neg(value)}
        return {index: both[index] for index in order}

    _, result = edited(text, "y", results)
    outs = run(result, [1, 2, 3, 4])
    wanted = {"y": [1, 2], "z": [-1, -2], "q": [2, 4]}
    for info, out in zip(result.graph.output, outs, strict=True):
        assert out.tolist() == wanted[info.name]


def test_one_tensor_for_two_outputs_of_the_model() -> None:
    text = "g (float[2] x) => (float[2] y, float[2] z) <bool c = {1}> { a = Relu (x)  y, z = If (c) <\n"
    text += "then_branch = b1 () => (float[2] p, float[2] q) { p = Identity (a)  q = Identity (a) },"
    text += "else_branch = b2 () => (float[2] r, float[2] t) { r = Neg (a)  t = Neg (a) }> }"
    model = opened(text)
    relu = Node(model, model.graph.nodes[0]).outputs[0]

    def results(node: Node) -> dict[int, Tensor]:
        (a,) = [Tensor(node.model, t) for n in node.model.graph.nodes for t in n.outputs if t.name == "a"]
        return {0: a, 1: a}

    assert relu.name == "a"
    _, result = edited(text, "y", results)
    assert [out.tolist() for out in run(result, [1, -2])] == [[1, 0], [1, 0]]


def test_what_only_the_replaced_node_read_goes() -> None:
    text = """g (float[2] x) => (float[2] y) <float[2] w = {1, 2}> {
        a = Abs (x)  b = Mul (a, w)  c = Add (b, a)  y = Relu (c) }"""
    edit, result = edited(text, "c", lambda n: {0: op.Neg(n.inputs[1])})
    assert edit is not None
    assert [node.name for node in edit.removed] == ["c", "b"]
    assert [n.op_type for n in result.graph.node] == ["Abs", "Neg", "Relu"]
    assert not result.graph.initializer


def test_a_remade_node_keeps_its_name_and_attributes() -> None:
    text = """g (float[1, 2, 4] x) => (float[1, 1, 2] y) <
        float[1, 2, 3] w = {1, 2, 3, 4, 5, 6}, float k = {2}> {
        c = Conv (x, w)  y = Mul (c, k) }"""

    def results(node: Node) -> dict[int, Any]:
        conv = node.inputs[0] and node.inputs[0].producer
        assert conv is not None
        weights = conv.inputs[1] and conv.inputs[1].constant
        assert weights is not None
        return {0: remake(conv, conv.inputs[0], weights * np.float32(2))}

    _, result = edited(text, "y", results)
    assert [(n.op_type, n.name, n.output[0]) for n in result.graph.node] == [("Conv", "c", "y")]


def test_an_expression_on_a_body_s_output_takes_the_body_along() -> None:
    text = """g (float[2] x) => (float[2] y) <bool c = {1}> {
        y = If (c) <then_branch = b1 () => (float[2] a) { t = Abs (x)  a = Sqrt (t) },
                    else_branch = b2 () => (float[2] b) { b = Neg (x) }> }"""
    _, result = edited(text, "y", lambda n: {0: op.Neg(n.body("then_branch")[0])})
    assert [n.op_type for n in result.graph.node] == ["Abs", "Sqrt", "Neg"]
    assert [out.tolist() for out in run(result, [4, -9])] == [[-2, -3]]


def test_bodies_of_the_same_names_can_be_inlined_together() -> None:
    text = """g (float[2] x) => (float[2] y) <bool c = {1}> {
        a = If (c) <then_branch = b1 () => (float[2] o) <float[2] k = {1, 2}> {
                        q = Add (x, k)  o = Mul (q, k) },
                    else_branch = b2 () => (float[2] o) { o = Neg (x) }>
        b = If (c) <then_branch = b1 () => (float[2] o) <float[2] k = {3, 5}> {
                        q = Add (a, k)  o = Mul (q, k) },
                    else_branch = b2 () => (float[2] o) { o = Neg (x) }>
        y = Add (a, b) }"""
    model = opened(text)
    wanted = run(model.to_proto(), [1, 2])
    editor = Editor(model)
    for node in [Node(model, n) for n in model.graph.nodes if n.op == "If"]:
        assert editor.replace(node, dict(enumerate(node.body("then_branch")))) is not None
    editor.finish()
    result = model.to_proto()
    onnx.checker.check_model(result, full_check=True)
    np.testing.assert_array_equal(run(result, [1, 2])[0], wanted[0])


def test_new_nodes_are_checked_against_the_opset() -> None:
    with pytest.raises(AttributeError, match="no operator 'Rellu'"):
        _ = op.Rellu
    with pytest.raises(AttributeError, match="no attribute 'axes'"):
        op.Gather(np.zeros(1), 0, axes=1)
    text = "g (float[2] x) => (float[2] y) { y = Relu (x) }"
    for wrong in (op.Gelu, lambda x: op.Relu(x, x), lambda x: op.ReduceSum(x, axes=[0])):
        with pytest.raises(ValueError, match=r"opset 17|takes 1 to 1"):
            edited(text, "y", lambda n, wrong=wrong: {0: wrong(n.inputs[0])})  # type: ignore[misc]


@pytest.mark.parametrize(("kind", "number"), [("float16", 2), ("double", 0.5), ("int32", 3), ("uint8", 7)])
def test_a_python_number_takes_the_operands_type(kind: str, number: float) -> None:
    text = f"g ({kind}[2] x) => ({kind}[2] y) {{ y = Identity (x) }}"
    _, result = edited(text, "y", lambda n: {0: op.Add(n.inputs[0], number)})
    assert result.graph.initializer[0].data_type == result.graph.input[0].type.tensor_type.elem_type
    ort.load(result)
