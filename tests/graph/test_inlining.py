"""The model's own functions: what is put where they are called computes what they mean by ONNX's rules."""

# ruff: noqa: E501

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx
import onnx.parser
import pytest

import onnxq
from onnxq.base import remarks
from onnxq.base.errors import UserError
from onnxq.graph.inlining import inlining
from onnxq.graph.model import Model
from onnxq.run import ort

X = np.random.default_rng(0).standard_normal((2, 4)).astype(np.float32)


def model(main: str, *functions: str, opset: int = 18, more: str = ', "m" : 1') -> onnx.ModelProto:
    """One of float[2, 4]: its nodes, and its functions as `DOMAIN OPSET: text`."""
    text = f'<ir_version: 10, opset_import: ["" : {opset}{more}]>\ng (float[2, 4] x) => (float[A, B] y) {{ {main} }}\n'
    for function in functions:
        head, _, body = function.partition(": ")
        domain, version = head.split()
        domain = domain.strip('"')
        text += f'<domain: "{domain}", opset_import: ["" : {version}, "m" : 1]> {body}\n'
    return onnx.parser.parse_model(text)


def ran(proto: onnx.ModelProto) -> np.ndarray:
    (found,) = ort.load(proto, optimize=False).run({"x": X})
    return np.asarray(found)


def softmax(x: np.ndarray, axis: int | None) -> np.ndarray:
    power = np.exp(x - x.max(axis=axis, keepdims=True))
    return np.asarray(power / power.sum(axis=axis, keepdims=True))


# Those that onnxruntime reads as ONNX does: its run of the file is what is to come out.
AS_IT_CAME = {
    "a standard operator's name": model("y = Mish (x)", '"" 18: Mish (a) => (b) { b = Tanh (a) }'),
    "the same under another name of the domain": model(
        "y = Mish (x)", "ai.onnx 18: Mish (a) => (b) { b = Tanh (a) }"
    ),
    "called by a function": model(
        "y = m.F (x)", "m 18: F (a) => (b) { b = Mish (a) }", '"" 18: Mish (a) => (b) { b = Tanh (a) }'
    ),
    "of an older opset": model("y = m.F (x)", "m 13: F (a) => (b) { c = Relu (a)  b = Mul (c, a) }"),
    "of a newer opset": model("y = m.F (x)", "m 18: F (a) => (b) { b = Relu (a) }", opset=13),
    "nested, of several opsets": model(
        "t = m.F (x)  y = m.G (t)", "m 14: F (a) => (b) { c = m.G (a)  b = Relu (c) }",
        "m 18: G (a) => (b) { b = Neg (a) }", opset=17,
    ),
    "with an attribute": model(
        "y = m.F <k = 0> (x)", "m 13: F <k> (a) => (b) { b = Softmax <axis : int = @k> (a) }"
    ),
}  # fmt: skip

# Those that it does not run, or reads otherwise.
BY_THE_RULES: dict[str, tuple[onnx.ModelProto, Callable[[np.ndarray], np.ndarray]]] = {
    "another meaning of an operator": (
        model("y = m.F (x)", "m 11: F (a) => (b) { b = Softmax <axis = 0> (a) }"), lambda x: softmax(x, None),
    ),
    "attributes that became inputs": (
        model("y = m.F (x)", "m 13: F (a) => (b) { b = ReduceMean <axes = [1]> (a) }"),
        lambda x: x.mean(1, keepdims=True),
    ),
    "nested, some converted": (
        model(
            "y = m.F (x)", "m 13: F (a) => (b) { c = m.G (a)  b = ReduceMean <axes = [1]> (c) }",
            "m 11: G (a) => (b) { c = Unsqueeze <axes = [0]> (a)  d = Squeeze <axes = [0]> (c)  b = Neg (d) }",
        ),
        lambda x: -x.mean(1, keepdims=True),
    ),
    "of a newer opset": (
        model("t = ReduceMean <axes = [1]> (x)  y = m.F (t)", "m 18: F (a) => (b) { k = Constant <value_ints = [0]> ()  b = ReduceMax (a, k) }", opset=13),
        lambda x: x.mean(1, keepdims=True).max(0, keepdims=True),
    ),
    "of a newer opset, whose operator means another thing": (
        model("y = m.F (x)", "m 13: F (a) => (b) { b = Softmax <axis = 0> (a) }", opset=11), lambda x: softmax(x, 0),
    ),
    "called in a body": (
        model(
            "k = Constant <value_int = 2> ()  t = Constant <value = bool {1}> ()  y = Loop (k, t, x) <body = b "
            "(int64 i, bool c, float[2, 4] p) => (bool d, float[2, 4] q) { d = Identity (c)  q = m.F (p) }>",
            "m 13: F (a) => (b) { c = ReduceMean <axes = [1]> (a)  b = Sub (a, c) }",
        ),
        lambda x: x - x.mean(1, keepdims=True),
    ),
    "in a body of its own": (
        model(
            "y = m.F (x)", "m 12: F (a) => (b) { t = Constant <value = bool {1}> ()  b = If (t) <then_branch = p () => "
            "(float[A, B] q) { q = If (t) <then_branch = v () => (float[A, B] w) { w = ReduceSum <axes = [1]> (a) }, "
            "else_branch = e () => (float[A, B] w) { w = Neg (a) }> }, else_branch = n () => (float[A, B] r) { r = Abs (a) }> }",
        ),
        lambda x: x.sum(1, keepdims=True),
    ),
    "an input is its output": (model("t = m.F (x)  y = Neg (t)", "m 18: F (a) => (a) { b = Abs (a) }"), np.negative),
    "two outputs of one name": (
        model("t, u = m.F (x)  y = Add (t, u)", "m 18: F (a) => (b, b) { b = Neg (a) }"), lambda x: -2 * x,
    ),
    "a name that is no operator yet": (
        model("y = Mish (x)", '"" 13: Mish (a) => (b) { b = Tanh (a) }', opset=13), np.tanh,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", AS_IT_CAME)
def test_what_the_file_computes_in_onnxruntime(name: str) -> None:
    proto = AS_IT_CAME[name]
    found = Model.open(proto).to_proto()
    assert not found.functions
    assert not {node.domain for node in found.graph.node} - {""}
    np.testing.assert_array_equal(ran(found), ran(proto))


@pytest.mark.parametrize("name", BY_THE_RULES)
def test_what_a_function_means(name: str) -> None:
    proto, means = BY_THE_RULES[name]
    result = onnxq.sanitize(proto)
    assert not result.model.functions
    assert not {node.domain for node in result.model.graph.node} - {""}
    np.testing.assert_allclose(ran(result.model), means(X), rtol=1e-5, atol=1e-6)


def test_overloads_are_told_apart() -> None:
    proto = model(
        "y = m.Outer (x)", "m 18: Outer (a) => (b) { c = m.F (a)  b = m.F (c) }",
        "m 18: F (a) => (b) { b = Neg (a) }", "m 18: G (a) => (b) { b = Exp (a) }",
    )  # fmt: skip
    outer, one, two = proto.functions
    two.name = "F"
    for held, overload in ((one, "one"), (two, "two"), (outer.node[0], "one"), (outer.node[1], "two")):
        held.overload = overload
    found = Model.open(proto).to_proto()
    assert [node.op_type for node in found.graph.node] == ["Neg", "Exp"]
    np.testing.assert_allclose(ran(found), np.exp(-X), rtol=1e-6)


def test_what_is_not_as_onnxruntime_has_it_is_said() -> None:
    for name, proto, said in (
        ("hidden", AS_IT_CAME["a standard operator's name"], "'Mish' has the name of an operator of ONNX"),
        ("converted", BY_THE_RULES["another meaning of an operator"][0], "'F' is of another opset"),
    ):
        with remarks.heard() as heard:
            onnxq.sanitize(proto)
        assert [one for one in heard if said in one], (name, list(heard))


def test_a_function_that_onnxruntime_has_another_operator_for_is_refused() -> None:
    """It runs its own, TensorRT takes the function: nobody knows which is meant."""
    head, more = "y = com.microsoft.QuickGelu (x)", ', "com.microsoft" : 1'
    proto = model(head, "com.microsoft 18: QuickGelu (a) => (b) { b = Tanh (a) }", more=more)
    with pytest.raises(
        UserError, match=r"\('com.microsoft.QuickGelu'\) are not what onnxruntime runs: .*outputs change"
    ):
        onnxq.sanitize(proto)
    same = "QuickGelu (a) => (b) { k = Constant <value_float = 1.702> ()  c = Mul (a, k)  d = Sigmoid (c)  b = Mul (a, d) }"
    result = onnxq.sanitize(model(head, f"com.microsoft 18: {same}", more=more))
    assert [node.op_type for node in result.model.graph.node] == ["Mul", "Sigmoid", "Mul"]


def test_what_cannot_be_converted_stays_and_is_named() -> None:
    proto = model("y = m.F (x)", "m 11: F (a) => (b) { b = Hardmax <axis = 0> (a) }")
    found = inlining(proto)
    assert found.left == ("F",)
    assert [node.op_type for node in found.model.graph.node] == ["F"]
    assert found.model.functions


# Operators as they were, converted to a later opset: by onnxruntime, which runs both.
CONVERTED = [
    ("Softmax <axis = 1> (x)", 11, 13), ("LogSoftmax (x)", 11, 18), ("ReduceSum <axes = [1, 2], keepdims = 0> (x)", 11, 18),
    ("ReduceSum (x)", 11, 18), ("ReduceL2 <axes = [-1]> (x)", 13, 18), ("ReduceMax <axes = [1]> (x)", 13, 20),
    ("Squeeze <axes = [0]> (x)", 11, 18), ("Unsqueeze <axes = [0, 2]> (x)", 11, 18), ("Clip <min = 0.0> (x)", 6, 18),
    ("Pad <pads = [0, 0, 1, 1, 0, 0, 1, 1], value = 2.0> (x)", 10, 18), ("Resize <mode = \"linear\"> (x, s)", 10, 19),
    ("Slice <starts = [0, 1], ends = [1, 3], axes = [0, 2]> (x)", 9, 18), ("Resize <mode = \"nearest\"> (x, s)", 10, 18),
    ("Upsample <mode = \"nearest\"> (x, s)", 9, 18), ("Upsample <mode = \"linear\"> (x, s)", 9, 18),
    ("Dropout <ratio = 0.3> (x)", 10, 18), ("BatchNormalization (x, c, c, c, p)", 9, 18), ("Reshape (x, r)", 13, 18),
    ("GridSample <mode = \"bilinear\"> (x, g)", 16, 20), ("AveragePool <kernel_shape = [2, 2]> (x)", 7, 19),
    ("GroupNormalization <num_groups = 1> (x, o, o)", 18, 21), ("GroupNormalization <num_groups = 2> (q, u, u)", 18, 21), ("Shape (x)", 13, 15), ("ArgMax <axis = 1> (x)", 11, 13),
    ("Hardmax <axis = 3> (x)", 13, 18), ("MaxPool <kernel_shape = [2, 2]> (x)", 1, 12), ("Cast <to = 7> (x)", 13, 19),
]  # fmt: skip


@pytest.mark.parametrize(("call", "version", "opset"), CONVERTED)
def test_an_operator_of_another_opset(call: str, version: int, opset: int) -> None:
    random = np.random.default_rng(0)
    values = {
        "x": random.standard_normal((1, 3, 4, 4)).astype(np.float32), "s": np.float32([1, 1, 1.5, 2.6]),
        "c": np.float32([1.5, 2, 0.5]), "p": np.float32([1.5, 2, 0.5]), "o": np.float32([1.5]),
        "g": random.uniform(-1, 1, (1, 2, 2, 2)).astype(np.float32), "r": np.int64([3, -1]),
        "q": random.standard_normal((2, 4, 3, 1)).astype(np.float32), "u": np.float32([1.5, -2]),
    }  # fmt: skip
    read = [name.strip() for name in call.rpartition("(")[2].rstrip(")").split(",")]
    types = {
        "g": "float[1, 2, 2, 2]",
        "r": "int64[2]",
        "x": "float[1, 3, 4, 4]",
        "s": "float[4]",
        "o": "float[1]",
        "q": "float[2, 4, 3, 1]",
        "u": "float[2]",
    }
    inputs = ", ".join(f"{types.get(name, 'float[3]')} {name}" for name in dict.fromkeys(read))
    kind = "int64" if call.startswith(("Shape", "ArgMax", "Cast")) else "float"
    graph = f"g ({inputs}) => ({kind}[] y) {{ y = "
    feeds = {name: values[name] for name in read}
    old = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : {version}]> {graph}{call} }}')
    body = f"F ({', '.join(feeds)}) => (y) {{ y = {call} }}"
    new = onnx.parser.parse_model(
        f'<ir_version: 8, opset_import: ["" : {opset}, "m" : 1]> {graph}m.F ({", ".join(feeds)}) }}'
        f'<domain: "m", opset_import: ["" : {version}]> {body}'
    )
    for proto in (old, new):
        proto.graph.output[0].type.tensor_type.ClearField("shape")
    found = inlining(new)
    assert not found.left
    (expected,), (given,) = (ort.load(one, optimize=False).run(feeds) for one in (old, found.model))
    np.testing.assert_allclose(given, expected, rtol=1e-6, atol=1e-6)


def test_that_functions_were_put_where_they_are_called_is_a_change() -> None:
    called = model("t = m.F (x)  y = Neg (t)", "m 18: F (a) => (b) { b = Relu (a) }")
    (change,) = onnxq.sanitize(called).report.changes
    assert (change.rule, change.node, change.proof.verdict) == ("inline_functions", "1 function", "exact")
    assert onnxq.sanitize(called, prove="never").report.changes[0].proof.verdict == "unproven"
    assert not onnxq.sanitize(model("t = Relu (x)  y = Neg (t)")).report.changes
