"""Invalid models are refused when they are read; what is only unusual is not."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx
import onnx.parser
import pytest
from onnx import TensorProto, helper, numpy_helper

import onnxq
from onnxq.base.errors import UserError
from onnxq.data.samples import InputSpec
from onnxq.data.sources import open_source
from onnxq.graph import load as loading
from onnxq.graph.half import rounded
from onnxq.graph.model import Model

H = '<ir_version: 8, opset_import: ["" : 17]> g '
IF = """(bool c, float[4] x) => (float[4] y) {{ y = If (c)
    <then_branch = a () => (float[4] t) {{ {} }}, else_branch = b () => (float[4] e) {{ e = Relu (x) }}> }}"""


def test_a_domain_of_ones_own_may_begin_at_version_0() -> None:
    text = '<ir_version: 8, opset_import: ["" : 17, "own" : 0]> g (float x) => (float y) { y = Abs (x) }'
    assert Model.open(onnx.parser.parse_model(text)).opset == 17
    with pytest.raises(UserError, match="opset 0: versions of operators are small numbers from 1 on"):
        Model.open(onnx.parser.parse_model(text.replace('"" : 17', '"" : 0')))


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ("(float[4] x) => (float[4] y) { a = Add (x, b)  b = Relu (a)  y = Relu (b) }", "'b' -> 'a' -> 'b'"),
        ("(float[4] x) => (float[4] y) { y = Relu (x)  a = Add (x, a) }", "node 'a' .Add. reads its own"),
        (IF.format("t = Add (x, u)  u = Relu (t)"), "'u' -> 't' -> 'u'"),
        (IF.format("t = Add (x, y)"), "node 'y' .If. reads its own output"),
        ("(float[4] x, float[4] x) => (float[4] y) { y = Relu (x) }", "two inputs 'x'"),
        ("(float[4] x) => (float[4] y, float[4] z) { y = Relu (x) }", "nothing makes its output 'z'"),
        ("(float[4] x) => (float[4] y) { y = Relu (x)  y = Neg (x) }", "'y' is defined more than once"),
    ],
)
def test_graph_is_refused(body: str, says: str) -> None:
    with pytest.raises(UserError, match=f"'?the model'? is not a valid ONNX model: .*{says}"):
        Model.open(onnx.parser.parse_model(H + body))


@pytest.mark.parametrize(
    "body",
    [
        "(float[4] x) => (float[4] y) { y = Relu (a)  a = Neg (x) }",
        "(float[4] x) => (float[4] x) { y = Relu (x) }",
        "(float[4] x) => (float[4] y, float[4] y) { y = Relu (x) }",
        "(float[4] x) => (float[4] w, float[4] y) <float[4] w = {1, 2, 3, 4}> { y = Add (x, w) }",
        "(float[4] x, float[4] w) => (float[4] y) <float[4] w = {1, 2, 3, 4}> { y = Add (x, w) }",
        IF.format("u = Relu (x)  t = Neg (u)"),
    ],
)
def test_unusual_graph_is_taken(body: str) -> None:
    model = onnx.parser.parse_model(H + body)
    assert [o.name for o in Model.open(model).to_proto().graph.output] == [o.name for o in model.graph.output]


def with_weight(**fields: object) -> onnx.ModelProto:
    model = onnx.parser.parse_model(H + "(float[N] x) => (float[N] y) { y = Relu (x) }")
    tensor = model.graph.initializer.add(name="w", data_type=TensorProto.FLOAT)
    for name, value in fields.items():
        field = getattr(tensor, name)
        setattr(tensor, name, value) if isinstance(value, bytes | int) else field.extend(value)
    return model


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"dims": [2**31, 2**31], "raw_data": bytes(16)}, "18,446,744,073,709,551,616 bytes, .* holds 16"),
        ({"dims": [2**32, 2**32], "raw_data": b""}, "bytes, and the file holds 0"),
        ({"dims": [5], "raw_data": bytes(16)}, "weight 'w' is 5, which is 20 bytes, and the file holds 16"),
        ({"dims": [4], "raw_data": bytes(20)}, "holds 20"),
        ({"dims": [4], "float_data": [1.0, 2.0]}, "which is 4 values, and the file holds 2"),
        ({"dims": [-4], "raw_data": bytes(16)}, "a size is negative"),
        ({"dims": [4], "raw_data": bytes(16), "data_type": 0}, "has no type"),
    ],
)
def test_weight_is_refused(fields: dict[str, object], says: str) -> None:
    with pytest.raises(UserError, match=says):
        Model.open(with_weight(**fields))


def test_weights_of_all_types_are_taken() -> None:
    """As raw bytes and in the field of the type."""
    types = [t for t in TensorProto.DataType.values() if t not in (TensorProto.UNDEFINED, TensorProto.STRING)]
    for elem_type in types:
        values = np.zeros((3, 5), helper.tensor_dtype_to_np_dtype(elem_type))
        for tensor in (
            numpy_helper.from_array(values, "w"),
            helper.make_tensor("w", elem_type, (3, 5), values.ravel().tolist()),
            helper.make_tensor("w", elem_type, (0,), []),
        ):
            model = with_weight(dims=[0])
            model.graph.initializer[0].CopyFrom(tensor)
            loading.check(model, TensorProto.DataType.Name(elem_type))
    text = with_weight(dims=[0])
    text.graph.initializer[0].CopyFrom(numpy_helper.from_array(np.array(["a", "b"], object), "w"))
    loading.check(text, "strings")


def test_stripped_weights_are_taken_only_where_nobody_computes() -> None:
    model = with_weight(dims=[4])
    with pytest.raises(UserError, match="and the file holds 0"):
        Model.open(model)
    Model.open(model, stripped=True)


def test_long_graphs_are_checked_in_linear_time() -> None:
    """20,000 nodes from last to first, and a cycle through all of them: without recursion, within seconds."""
    count = 20_000
    nodes = [helper.make_node("Relu", [f"t{i}"], [f"t{i + 1}"]) for i in reversed(range(count))]
    info = helper.make_tensor_value_info
    graph = helper.make_graph(
        nodes, "g", [info("x", TensorProto.FLOAT, [4])], [info(f"t{count}", TensorProto.FLOAT, [4])]
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    model.graph.node[-1].input[0] = f"t{count}"
    with pytest.raises(UserError, match="20000 nodes read each other in a cycle: 't1' -> 't2' -> "):
        Model.open(model)


def test_functions_that_call_each_other_are_refused() -> None:
    own = [helper.make_opsetid("", 17), helper.make_opsetid("own", 1)]
    calls = {name: helper.make_node(name, ["x"], ["y"], domain="own") for name in "FG"}
    functions = [helper.make_function("own", a, ["x"], ["y"], [calls[b]], own) for a, b in ("FG", "GF")]
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2]) for name in "xy"]
    graph = helper.make_graph([calls["F"]], "g", ends[:1], ends[1:])
    model = helper.make_model(graph, functions=functions, opset_imports=own, ir_version=8)
    for opens in (Model.open, rounded):
        with pytest.raises(
            UserError, match=r"cannot be put .*G -> own::F|function 'F' calls itself"
        ) as caught:
            opens(model)
        assert caught.value.hint


DATA = [{"x": np.ones((2, 3), np.float32)}]
HUGE = """<ir_version: 8, opset_import: ["" : 17]> g (float[1099511627776, 3] x) => (float[N, 3] y) {
    a = Identity (x)  y = Relu (a) }"""


@pytest.mark.parametrize("verb", [onnxq.sanitize, lambda model: onnxq.quantize(model, DATA)])
def test_an_input_that_no_memory_holds(verb: Callable[[onnx.ModelProto], object]) -> None:
    with pytest.raises(
        UserError, match="input 'x' takes 1099511627776x3, more than 2,147,483,648 values"
    ) as caught:
        verb(onnx.parser.parse_model(HUGE))
    assert "dynamic dimension" in caught.value.hint


def test_an_input_of_data_that_no_memory_holds() -> None:
    spec = InputSpec("x", np.dtype(np.float32), (1 << 40, 3))
    with pytest.raises(UserError, match="which no memory holds"):
        open_source(DATA, [spec])
