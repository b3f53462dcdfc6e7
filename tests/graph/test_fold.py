"""Shape arithmetic, element by element: whatever is known must be what onnxruntime computes."""

from __future__ import annotations

import os
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.parser
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import onnxq
from onnxq.graph.elements import known_elements
from onnxq.graph.external import externalize
from onnxq.graph.fold import evaluate
from onnxq.graph.model import Model
from onnxq.graph.view import Node, Tensor
from onnxq.run import budget, ort


def known(text: str, opset: int = 17) -> tuple[np.ndarray | None, np.ndarray]:
    """What is known of the tensor `t` of a graph of `x`, and what onnxruntime computes for sizes 2, 3, 5."""
    model = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : {opset}]>\n{text}')
    model.graph.node.add(op_type="Identity", input=["t"], output=["out"])
    model.graph.output.add(name="out")
    opened = Model.open(model)
    (tensor,) = [Tensor(opened, t) for n in opened.graph.nodes for t in n.outputs if t.name == "t"]
    (value,) = ort.load(model, optimize=False).run({"x": np.zeros((2, 3, 5), np.float32)})
    return known_elements(tensor), value


def agrees(text: str, opset: int = 17, *, all_known: bool = True) -> None:
    found, value = known(text, opset)
    assert found is not None, "nothing is known"
    assert found.shape == value.shape
    for one, other in zip(found.reshape(-1), value.reshape(-1), strict=True):
        if one is None:
            assert not all_known
        elif isinstance(one, str):
            assert {"N": 2, "M": 5}[one] == other
        else:
            np.testing.assert_array_equal(np.array(one, value.dtype), other)


G = "g (float[N, 3, M] x) => () "


@pytest.mark.parametrize(
    ("attrs", "wanted"),
    [
        ("", ["N", 3, "M"]),
        ("<start = 1>", [3, "M"]),
        ("<start = -1>", ["M"]),
        ("<end = 2>", ["N", 3]),
        ("<start = 1, end = -1>", [3]),
        ("<start = 2, end = 1>", []),
        ("<start = -9, end = 9>", ["N", 3, "M"]),
    ],
)
def test_shape_with_start_and_end(attrs: str, wanted: list[Any]) -> None:
    text = G + f"{{ t = Shape {attrs} (x) }}"
    found, _ = known(text)
    assert found is not None
    assert found.tolist() == wanted
    agrees(text)


@pytest.mark.parametrize("start", [-9, -3, -2, -1, 0, 1, 2, 3, 9])
@pytest.mark.parametrize("end", [-9, -4, -3, -1, 0, 1, 3, 9, -(2**31), 2**31 - 1])
@pytest.mark.parametrize("step", [-3, -2, -1, 1, 2])
def test_slice_of_every_direction(start: int, end: int, step: int) -> None:
    agrees(
        G + f"<int64[1] s = {{{start}}}, int64[1] e = {{{end}}}, int64[1] a = {{0}}, int64[1] p = {{{step}}}>"
        "{ d = Shape (x)  t = Slice (d, s, e, a, p) }"
    )


def test_slice_by_attributes() -> None:
    agrees(G + "{ d = Shape (x)  t = Slice <starts = [1], ends = [9]> (d) }", opset=9)


def test_slice_with_unknown_bounds_is_unknown() -> None:
    found, _ = known(
        G + "<int64[1] z = {0}, int64[1] i = {0}> { d = Shape (x)  e = Gather (d, i)  t = Slice (d, z, e) }"
    )
    assert found is None


@pytest.mark.parametrize("index", ["int64 i = {1}", "int64[1] i = {-1}", "int64[2, 2] i = {0, 1, 2, -3}"])
def test_gather(index: str) -> None:
    agrees(G + f"<{index}> {{ d = Shape (x)  t = Gather (d, i) }}")


INTS = st.integers(-(2**31), 2**31 - 1)


@settings(max_examples=150, deadline=None)
@given(
    INTS, st.one_of(INTS, st.sampled_from([-1, 0, 1, 2, -2])), st.sampled_from(["Add", "Sub", "Mul", "Div"])
)
def test_integer_arithmetic_is_the_runtime_s(a: int, b: int, op: str) -> None:
    if op == "Div" and (b == 0 or (a, b) == (-(2**31), -1)):
        return  # undefined
    _arithmetic(a, b, op, "int32")


@pytest.mark.parametrize(("a", "b"), [(7, 2), (-7, 2), (7, -2), (-7, -2), (-1, 2), (0, -5)])
@pytest.mark.parametrize("kind", ["int32", "int64"])
def test_integer_division_truncates(a: int, b: int, kind: str) -> None:
    _arithmetic(a, b, "Div", kind)


def _arithmetic(a: int, b: int, op: str, kind: str) -> None:
    # constants through Concat, so that their values are not one constant node's
    agrees(
        G + f"<{kind}[1] a = {{{a}}}, {kind}[1] b = {{{b}}}> "
        f"{{ c = Concat <axis = 0> (a, b)  d = Concat <axis = 0> (b, b)  t = {op} (c, d) }}"
        if op != "Div"
        else G + f"<{kind}[1] a = {{{a}}}, {kind}[1] b = {{{b}}}> "
        f"{{ c = Identity (a)  d = Identity (b)  t = {op} (c, d) }}"
    )


@pytest.mark.parametrize("op", ["Min", "Max", "Equal", "Less", "Greater"])
def test_comparisons(op: str) -> None:
    agrees(
        G + f"<int64[4] a = {{1, -2, 3, 0}}, int64[4] b = {{1, 3, -2, 5}}> "
        f"{{ c = Identity (a)  d = Identity (b)  t = {op} (c, d) }}"
    )


@pytest.mark.parametrize("op", ["Min", "Max"])
def test_of_more_than_two_operands_nothing_is_known(op: str) -> None:
    found, _ = known(
        G + f"<int64[2] a = {{1, -2}}> {{ c = Identity (a)  d = Neg (a)  e = Abs (a)  t = {op} (c, d, e) }}"
    )
    assert found is None


def test_neutral_operands_keep_a_symbol() -> None:
    found, _ = known(
        G + "<int64[3] one = {1, 1, 2}, int64[3] zero = {0, 1, 0}> "
        "{ d = Shape (x)  a = Mul (d, one)  b = Add (zero, a)  t = Div (b, one) }"
    )
    assert found is not None
    assert found.tolist() == ["N", 4, None]


def test_where_and_logic() -> None:
    agrees(
        G + "<int64[3] a = {1, 2, 3}, int64[3] w = {5, 3, 9}> "
        "{ d = Shape (x)  c = Equal (d, w)  k = Not (c)  t = Where (k, a, a) }",
        all_known=False,
    )
    found, _ = known(
        G + "<int64[3] a = {1, 2, 3}, int64[3] w = {5, 3, 9}, bool[3] c = {1, 0, 1}> "
        "{ d = Shape (x)  t = Where (c, d, a) }"
    )
    assert found is not None
    assert found.tolist() == ["N", 2, "M"]


FLOATS = "{1.5, -1.5, 2.999, -0.25, 1e6, -3e9}"


@pytest.mark.parametrize("to", [7, 6, 1, 11, 10, 9])
def test_casts(to: int) -> None:
    agrees(G + f"<float[6] a = {FLOATS}> {{ c = Identity (a)  t = Cast <to = {to}> (c) }}", all_known=False)


@pytest.mark.parametrize("value", ["1e20", "3e9", "-1e19"])
def test_a_cast_that_overflows_is_not_known(value: str) -> None:
    found, _ = known(G + f"<float[1] a = {{{value}}}> {{ c = Identity (a)  t = Cast <to = 6> (c) }}")
    assert found is not None
    assert found.tolist() == [None]


@pytest.mark.parametrize("to", [3, 2, 5, 6])
def test_integers_wrap_in_a_cast(to: int) -> None:
    agrees(
        G + f"<int64[4] a = {{300, -1, 4294967297, -40000}}> {{ c = Identity (a)  t = Cast <to = {to}> (c) }}"
    )


@pytest.mark.parametrize("op", ["Floor", "Ceil", "Neg"])
def test_rounding(op: str) -> None:
    agrees(G + f"<float[4] a = {{1.5, -1.5, 2, -0.25}}> {{ c = Identity (a)  t = {op} (c) }}")


@pytest.mark.parametrize("keep", [0, 1])
def test_product(keep: int) -> None:
    agrees(G + f"<int64[3] a = {{2, 3, 7}}> {{ c = Identity (a)  t = ReduceProd <keepdims = {keep}> (c) }}")


def test_a_product_without_axes_may_be_no_product() -> None:
    found, value = known(
        G + "<int64[3] a = {2, 3, 7}> { c = Identity (a)  t = ReduceProd <noop_with_empty_axes = 1> (c) }",
        opset=18,
    )
    assert value.tolist() == [2, 3, 7]
    assert found is None or found.tolist() == [2, 3, 7]


def test_size_constant_of_shape_and_movement() -> None:
    agrees(G + "<float[2, 3] w = {1, 2, 3, 4, 5, 6}> { c = Identity (w)  t = Size (c) }")
    agrees(G + "<int64[2] s = {2, 3}> { c = Identity (s)  t = ConstantOfShape <value = int64[1] {7}> (c) }")
    agrees(G + "<int64[2] s = {2, 3}> { c = Identity (s)  t = ConstantOfShape (c) }")
    agrees(G + "<int64[1] a = {0}, int64 i = {1}> { d = Shape (x)  e = Gather (d, i)  t = Unsqueeze (e, a) }")
    agrees(G + "<int64[2] s = {1, 3}> { d = Shape (x)  t = Reshape (d, s) }")


def test_evaluate_is_the_runtime_and_only_for_constants() -> None:
    model = Model.open(
        onnx.parser.parse_model("""<ir_version: 8, opset_import: ["" : 17]>
        g (float[2] x) => (float[2] y) <float[2] a = {1, 2}, float[2] b = {3, 7}> {
            c = Div (a, b)  d = Add (x, a)  e = Add (c, d)  y = Neg (e) }""")
    )
    divide, add, *_ = (Node(model, node) for node in model.graph.nodes)
    assert evaluate(divide) is None, "without a runtime nothing is computed"
    model.runtime = ort.evaluate
    (value,) = evaluate(divide) or [None]
    np.testing.assert_array_equal(value, np.array([1, 2], np.float32) / np.array([3, 7], np.float32))
    assert evaluate(add) is None


def test_the_same_constants_are_computed_once_whatever_they_are_called(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ran: list[onnx.ModelProto] = []
    run = ort._run_once
    monkeypatch.setattr(ort, "_run_once", lambda model: (ran.append(model), run(model))[1])
    ort._evaluate.cache_clear()

    def found(text: str) -> np.ndarray:
        (array,) = (
            ort.evaluate(onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : 17]> {text}')) or ()
        )
        return np.asarray(array)

    one = found("g () => (float[2] y) <float[2] a = {1, 2}, float[2] b = {5, 8}> { y = Sub (a, b) }")
    np.testing.assert_array_equal(one, [-4, -6])
    assert found("h () => (float[2] z) <float[2] c = {1, 2}, float[2] d = {5, 8}> { z = Sub (c, d) }") is one
    assert len(ran) == 1
    assert not one.flags.writeable
    swapped = found("g () => (float[2] y) <float[2] a = {1, 2}, float[2] b = {5, 8}> { y = Sub (b, a) }")
    np.testing.assert_array_equal(swapped, [4, 6])
    with budget.largest(10**10):  # what did not run may do so now
        found("g () => (float[2] y) <float[2] a = {1, 2}, float[2] b = {5, 8}> { y = Sub (b, a) }")
    assert len(ran) == 3


@pytest.mark.skipif(os.name != "posix", reason="elsewhere there is no root of all files")
def test_large_external_weights_are_computed_with_where_they_are(tmp_path: Path) -> None:
    """They were copied into memory, three times."""
    proto = onnx.parser.parse_model("""<ir_version: 8, opset_import: ["" : 17]>
        g (float[4] x) => (float[4] y) { m = ReduceMax <keepdims = 0> (w)  y = Add (x, m) }""")
    weight = np.arange(1 << 20, dtype=np.float32)
    proto.graph.initializer.append(onnx.numpy_helper.from_array(weight, "w"))
    onnx.save(proto, tmp_path / "m.onnx", save_as_external_data=True, size_threshold=0)
    model = Model.open(tmp_path / "m.onnx")
    ran: list[onnx.ModelProto] = []

    def run(alone: onnx.ModelProto) -> list[Any] | None:
        ran.append(alone)
        return ort.evaluate(alone)

    model.runtime = run
    (found,) = evaluate(Node(model, model.graph.nodes[0])) or ()
    assert found == weight[-1]
    assert ran[0].ByteSize() < 1000


def test_what_is_moved_to_a_file_is_in_memory_once_more(tmp_path: Path) -> None:
    model = onnx.parser.parse_model("""<ir_version: 8, opset_import: ["" : 17]>
        g (float[4] x) => (float[4] y) { m = ReduceMax <keepdims = 0> (w)  y = Add (x, m) }""")
    weight = np.arange(1 << 20, dtype=np.float32)
    model.graph.initializer.append(onnx.numpy_helper.from_array(weight, "w"))
    tracemalloc.start()
    try:
        externalize(model, tmp_path / "w", None)
        assert tracemalloc.get_traced_memory()[1] < 1.5 * weight.nbytes
    finally:
        tracemalloc.stop()


def test_what_a_rule_reads_it_cannot_write() -> None:
    model = Model.open(
        onnx.parser.parse_model("""<ir_version: 8, opset_import: ["" : 17]>
        g (float[2] x) => (float[2] y) <float[2] a = {1, 2}> { y = Add (x, a) }""")
    )
    weight = Node(model, model.graph.nodes[0]).inputs[1]
    assert weight is not None
    assert weight.constant is not None
    with pytest.raises(ValueError, match="read-only"):
        weight.constant[0] = 9


@pytest.mark.parametrize("op", ["Div", "Mod"])
def test_a_quotient_beyond_its_type_is_not_computed(op: str) -> None:
    """onnxruntime's kernel ends the process on the lowest integer by -1."""
    text = f"""<ir_version: 8, opset_import: ["" : 17]>
        g (int64[N] x) => (int64[N] y) <int64 low = {{{-(2**63)}}}, int64 minus = {{-1}}> {{
            q = {op} (low, minus)  y = Add (x, q) }}"""
    result = onnxq.sanitize(onnx.parser.parse_model(text), prove="never")
    assert [node.op_type for node in result.model.graph.node] == [op, "Add"]
