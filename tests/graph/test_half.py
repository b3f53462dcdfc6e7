"""Half precision is rounded after every node, whatever stands beside it."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import onnx
import onnx.parser
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

from onnxq.graph.half import rounded, speaks_half
from onnxq.run import ort

HEAD = '<ir_version: 8, opset_import: ["" : 17, "com.microsoft" : 1]> '
THREE = "float16 c = {16896}"  # its bits
X = np.random.default_rng(0).standard_normal(4096).astype(np.float16)


def half(values: np.ndarray) -> np.ndarray:
    return values.astype(np.float16).astype(np.float32)


def expected(x: np.ndarray) -> np.ndarray:
    """exp(x / 3 * 3), each rounded: what numpy computes of float16 in float32."""
    third = half(x.astype(np.float32) / np.float32(3))
    return half(np.exp(half(third * np.float32(3))))


@pytest.mark.parametrize(
    "body",
    [
        "a = Div (x, c)  b = Mul (a, c)  y = Exp (b)",
        "a = Div (x, c)  i = Identity (a)  b = Mul (i, c)  j = Identity (b)  y = Exp (j)",
        "a = Div (x, c)  l = SequenceConstruct (a, a)  i = SequenceAt (l, one)  b = Mul (i, c)  y = Exp (b)",
        """a = If (yes) <then_branch = t () => (float16[N] p) { p = Div (x, c) },
            else_branch = e () => (float16[N] q) { q = Mul (x, c) }>  b = Mul (a, c)  y = Exp (b)""",
        """a = Loop (one, yes, x) <body = b (int64 i, bool k, float16[N] v) => (bool l, float16[N] w) {
            l = Identity (k)  w = Div (v, c) }>  b = Mul (a, c)  y = Exp (b)""",
        "a = Div (x, c)  w = Cast <to = 11> (a)  n = Cast <to = 10> (w)  b = Mul (n, c)  y = Exp (b)",
    ],
)
def test_each_node_is_rounded(body: str) -> None:
    constants = f"{THREE}, bool yes = {{1}}, int64 one = {{1}}"
    text = f"{HEAD} g (float16[N] x) => (float16[N] y) <{constants}> {{ {body} }}"
    session = ort.load(onnx.parser.parse_model(text), optimize=False)
    (got,) = session.run({"x": X})
    assert got.dtype == np.float16
    # exp of float32 may be off by its last place: at most by one step of float16, and rarely
    steps = np.abs(got.view(np.int16).astype(int) - expected(X).astype(np.float16).view(np.int16))
    assert steps.max() <= 1
    assert np.count_nonzero(steps) <= 4
    (plain,) = ort.load(onnx.parser.parse_model(text)).run({"x": X})
    assert np.count_nonzero(plain != got) > 100 or "Cast" in body  # which onnxruntime by itself does not do


def test_bfloat16_inside_a_model_runs() -> None:
    """onnxruntime has no kernels for it."""
    text = f"""{HEAD} g (float[N] x) => (float[N] y) <float c = {{3}}> {{
        a = Cast <to = 16> (x)  d = Cast <to = 16> (c)  b = Div (a, d)  m = Mul (b, d)
        y = Cast <to = 1> (m) }}"""
    x = X.astype(np.float32)
    (got,) = ort.load(onnx.parser.parse_model(text), optimize=False).run({"x": x})

    def short(values: np.ndarray) -> np.ndarray:
        return values.astype(ml_dtypes.bfloat16).astype(np.float32)

    assert np.array_equal(got, short(short(short(x) / 3) * 3))


def test_types_of_operators_that_onnx_does_not_know() -> None:
    text = f"""{HEAD} g (float16[N, 4] x) => (float16[N, 4] y) <float16[4] s = {{1, 2, 3, 4}}, {THREE}> {{
        a = com.microsoft.SkipLayerNormalization (x, x, s)  b = Div (a, c)  d = com.microsoft.FastGelu (b)
        y = Mul (d, c) }}"""
    (got,) = ort.load(onnx.parser.parse_model(text), optimize=False).run({"x": X.reshape(-1, 4)})
    assert got.dtype == np.float16


def test_what_has_no_half_precision_is_left_alone() -> None:
    model = onnx.parser.parse_model(f"{HEAD} g (float[2] x) => (float[2] y) {{ y = Exp (x) }}")
    assert not speaks_half(model)


def test_the_model_itself_stays_as_it_is() -> None:
    model = onnx.parser.parse_model(
        f"{HEAD} g (float16[N] x) => (float16[N] y) <{THREE}> {{ y = Mul (x, c) }}"
    )
    before = model.SerializeToString(deterministic=True)
    copy = rounded(model)
    assert model.SerializeToString(deterministic=True) == before
    assert [i.type.tensor_type.elem_type for i in (*copy.graph.input, *copy.graph.output)] == [10, 10]


OPS = ("Add", "Sub", "Mul", "Div", "Max", "Min")


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from(OPS), st.integers(0, 9), st.integers(0, 9)), min_size=1, max_size=9)
)
def test_chains_equal_numpy(steps: list[tuple[str, int, int]]) -> None:
    """Every value of a random chain of arithmetic: float32, rounded to float16 after each operation."""
    values = {"x": X[:256].astype(np.float32), "c": half(np.array(1.7, np.float32))}
    nodes, names = [], ["x", "c"]
    functions = (np.add, np.subtract, np.multiply, np.divide, np.maximum, np.minimum)
    compute = dict(zip(OPS, functions, strict=True))
    with np.errstate(all="ignore"):
        for number, (op, first, second) in enumerate(steps):
            a, b = names[first % len(names)], names[second % len(names)]
            names.append(f"t{number}")
            nodes.append(helper.make_node(op, [a, b], [names[-1]]))
            values[names[-1]] = half(compute[op](values[a], values[b]))
    out = helper.make_tensor_value_info(names[-1], TensorProto.FLOAT16, None)
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT16, [256])],
        [out],
        [numpy_helper.from_array(np.array(1.7, np.float16), "c")],
    )
    model = helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 17)])
    (got,) = ort.load(model, optimize=False).run({"x": X[:256]})
    assert np.array_equal(
        np.broadcast_to(values[names[-1]].astype(np.float16), got.shape), got, equal_nan=True
    )
