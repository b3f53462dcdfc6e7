"""What a rule may leave out of its claim: where that is void, nothing is left out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx.parser
import pytest
from said import is_said

from onnxq.graph.model import Model
from onnxq.graph.view import Node
from onnxq.rewrite.difference import Claim, Counterexample, difference
from onnxq.rewrite.engine import RewriteReport, rewrite
from onnxq.rule import Except, Within, op
from onnxq.rule.api import Rule
from onnxq.run import ort

H = '<ir_version: 8, opset_import: ["" : 17]>\n'
F = np.float32
ABS = "g (float[N, 9] x) => (float[N, 9] y) { y = Abs (x) }"
MADE = "g (int32[N, 9] i) => (float[N, 9] y) { c = Cast <to = 1> (i)  x = Transpose (c)  y = Abs (x) }"
ROOTS = "g (float[N, 9] i) => (float[N, 9] y) { x = Sqrt (i)  y = Abs (x) }"
WHOLE = "g (int32[N, 9] x) => (int32[N, 9] y) { y = Abs (x) }"
TOPK = """g (float[3, SIZE] x) => (float[3, COUNT] v, int64[3, COUNT] i) <int64[1] k = {COUNT}> {
    v, i = TopK (x, k) }"""


def applied(text: str, root: str, function: Callable[[Node], Any]) -> RewriteReport:
    """What comes of a rule that fires once."""
    model = Model.open(onnx.parser.parse_model(H + text))
    model.runtime = ort.evaluate
    return rewrite(model, [Rule("mine", function, (root,), "clean")], lambda feature: True, limit=1)


def other_with_nan(node: Node) -> Any:
    """Abs, but 7 everywhere where an element anywhere is NaN."""
    x = node.inputs[0]
    some = op.ReduceMax(op.Cast(op.IsNaN(x), to=1), keepdims=0)
    return op.Where(op.Greater(some, F(0)), F(7), op.Abs(x))


def other_at_infinity(node: Node) -> Any:
    return op.Where(op.IsInf(node.inputs[0]), F(7), other_with_nan(node))


def test_nothing_is_claimed_of_an_input_with_a_nan() -> None:
    report = applied(ABS, "Abs", lambda n: Except(other_with_nan(n), "nan-input", "nobody sorts it"))
    (change,) = report.changes
    assert (change.proof.verdict, report.exact) == ("close", False)
    assert change.proof.why == "equal but for inputs that hold a NaN: nobody sorts it"
    for answer in (other_with_nan, lambda n: Except(other_with_nan(n), "nan", "not enough")):
        assert not applied(ABS, "Abs", answer).changes


def test_infinities_are_tried_where_no_nan_is() -> None:
    report = applied(ABS, "Abs", lambda n: Except(other_at_infinity(n), "nan-input", "wrong"))
    assert not report.changes
    (rejected,) = report.rejected
    assert rejected.proof.example is not None
    (x,) = rejected.proof.example.inputs.values()
    assert np.isinf(x).any()
    assert not np.isnan(x).any()


def test_nothing_is_claimed_of_an_input_with_an_infinity() -> None:
    report = applied(ABS, "Abs", lambda n: Except(other_at_infinity(n), "infinite-input", "it has no range"))
    (change,) = report.changes
    assert change.proof.why == "equal but for inputs that hold a NaN or an infinity: it has no range"
    wrong = lambda n: Except(op.Abs(op.Clip(n.inputs[0], F(-1e6), F(1e6))), "infinite-input", "wrong")  # noqa: E731
    assert not applied(ABS, "Abs", wrong).changes


def other_at_large(node: Node) -> Any:
    """Abs, but 7 where an element's square overflows, infinities among them."""
    x = node.inputs[0]
    return op.Where(op.Greater(op.Abs(x), F(2e19)), F(7), other_with_nan(node))


def test_nothing_is_claimed_of_an_input_whose_square_overflows() -> None:
    report = applied(ABS, "Abs", lambda n: Except(other_at_large(n), "extreme-input", "a gate hides it"))
    (change,) = report.changes
    assert (
        change.proof.why
        == "equal but for inputs that are not finite or whose square overflows: a gate hides it"
    )
    for less in ("nan", "nan-input", "zero-sign"):
        assert not applied(
            ABS, "Abs", lambda n, less=less: Except(other_at_large(n), less, "not enough")
        ).changes
    wrong = applied(ABS, "Abs", lambda n: Except(op.Min(op.Abs(n.inputs[0]), F(9)), "extreme-input", "wrong"))
    assert not wrong.changes


def fails_on_nothing(node: Node) -> Any:
    """Abs; its ArgMax fails where N is 0."""
    x = node.inputs[0]
    return op.Where(op.Equal(op.ArgMax(x, axis=0), np.array(-1)), F(7), op.Abs(x))


def test_nothing_is_claimed_of_an_input_without_elements() -> None:
    (rejected,) = applied(ABS, "Abs", fails_on_nothing).rejected
    assert is_said(rejected.proof.why, "replacement-does-not-run")
    (change,) = applied(
        ABS, "Abs", lambda n: Except(fails_on_nothing(n), "empty-input", "no largest")
    ).changes
    assert change.proof.why == "equal but for inputs without elements: no largest"
    wrong = lambda n: Except(op.Neg(fails_on_nothing(n)), "empty-input", "wrong")  # noqa: E731
    assert not applied(ABS, "Abs", wrong).changes


def test_of_random_values_type_and_shape_are_compared() -> None:
    text = "g (float[N, 9] p) => (float[N, 9] y) { y = Bernoulli (p) }"

    def drawn(size: int, kind: int) -> Any:
        return lambda n: op.Cast(
            op.RandomUniformLike(op.Slice(n.inputs[0], np.array([0]), np.array([size]), np.array([1]))),
            to=kind,
        )

    def claimed(size: int, kind: int) -> RewriteReport:
        draw = drawn(size, kind)
        return applied(text, "Bernoulli", lambda n: Except(draw(n), "random", "others each time"))

    (change,) = claimed(9, 1).changes
    assert (change.proof.verdict, change.proof.why.partition(":")[0]) == (
        "close",
        "equal but for the values, which are random",
    )
    assert not claimed(8, 1).changes
    assert not claimed(9, 10).changes
    assert not applied(text, "Bernoulli", drawn(9, 1)).changes  # nothing is left out


@pytest.mark.parametrize("but", ["nan", "nan-input", "infinite-input", "extreme-input", "zero-sign"])
def test_of_integers_nothing_is_left_out(but: Any) -> None:
    report = applied(WHOLE, "Abs", lambda n: Except(op.Max(n.inputs[0], op.Neg(n.inputs[0])), but, "in vain"))
    (change,) = report.changes
    assert (change.proof.verdict, change.proof.why, report.exact) == ("exact", "", True)


def test_floats_have_no_steps() -> None:
    report = applied(ABS, "Abs", lambda n: Within(op.Abs(op.Neg(n.inputs[0])), 1, "in vain"))
    assert [change.proof.verdict for change in report.changes] == ["exact"]


@pytest.mark.parametrize("kind", ["i1", "u1", "i4", "i8", "u8"])
def test_steps_of_any_integers_are_counted_without_overflow(kind: str) -> None:
    least, most = (int(getattr(np.iinfo(kind), name)) for name in ("min", "max"))
    one = np.array([least, most, 7], kind)

    def gap(one: np.ndarray, other: Any) -> float:
        return difference(one, np.array(other, kind), Claim(steps=1), finite=True).gap

    assert gap(one, [least + 1, most - 1, 7]) == gap(np.array(most, kind), most - 1) == 1.0
    for wrong in ([most, most, 7], [least, least, 7], [least, most, 9]):
        assert gap(one, wrong) == np.inf
    assert gap(np.array(most, kind), least) == np.inf


def test_what_is_made_of_integers_is_never_nan() -> None:
    """The smallest cut reads a float: no NaN is tried there either."""

    def answer(node: Node) -> Any:
        return Except(other_with_nan(node), "nan-input", "nobody sorts it")

    assert [c.proof.verdict for c in applied(MADE, "Abs", answer).changes] == ["exact"]
    assert [c.proof.verdict for c in applied(ROOTS, "Abs", answer).changes] == ["close"]


def sorted_in_two(node: Node) -> Any:
    """The last of K elements taken from what the others left: another order of NaN.

    Of the negated: onnxruntime has no order of NaN up to 1.31, and from 1.32 on takes it for the largest.
    """
    x, k = node.inputs
    below = op.Neg(x)
    count = int(k.constant[0])
    first, where = op.TopK(below, np.array([count - 1]), axis=-1, largest=0, outputs=2)
    ones = op.Expand(np.array([1]), op.Shape(x))
    free = op.ScatterElements(ones, where, op.Sub(where, where), axis=-1)
    _, left = op.TopK(free, np.array([x.shape[-1] - count + 1]), axis=-1, outputs=2)  # ties: by position
    rest = op.GatherElements(below, left, axis=-1)
    value, place = op.TopK(rest, np.array([1]), axis=-1, largest=0, outputs=2)
    index = op.GatherElements(left, place, axis=-1)
    return {0: op.Neg(op.Concat(first, value, axis=-1)), 1: op.Concat(where, index, axis=-1)}


@pytest.mark.parametrize(("size", "count"), [(20, 6), (300, 20), (1000, 900), (5000, 4000)])
def test_an_order_of_nan_is_found_wrong_whatever_the_size(size: int, count: int) -> None:
    text = TOPK.replace("SIZE", str(size)).replace("COUNT", str(count))
    report = applied(text, "TopK", sorted_in_two)
    assert [change.proof for change in report.changes] == []
    example = report.rejected[0].proof.example
    assert example is not None
    assert "nan" in example.text.lower(), "what makes the difference is shown"
    claimed = applied(text, "TopK", lambda n: Except(sorted_in_two(n), "nan-input", "it has no order"))
    assert [change.proof.verdict for change in claimed.changes] == ["close"]


def test_a_k_of_an_axis_of_fixed_size_is_not_compared_with_others() -> None:
    """A batch of 4000 rows of 9000 is no sample."""
    text = TOPK.replace("float[3, ", "float[N, ").replace("SIZE", "9000").replace("COUNT", "4000")

    def again(node: Node) -> Any:
        x, k = node.inputs
        value, index = op.TopK(op.Identity(x), k, axis=-1, outputs=2)
        return {0: value, 1: index}

    (change,) = applied(text, "TopK", again).changes
    assert change.proof.verdict == "exact", change.proof.why


def test_what_may_be_left_out_is_listed() -> None:
    known = "'nan', 'nan-input', 'infinite-input', 'extreme-input', 'empty-input', 'zero-sign', 'random'"
    with pytest.raises(ValueError, match=f"knows {known}, not 'inf'"):
        Except(0, "inf", "no")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("array", "place", "says"),
    [
        (np.arange(4, dtype=F), (2,), "float32[4] {0, 1, 2, 3}"),
        (np.arange(24), (), "int64[24] {" + ", ".join(map(str, range(24))) + "}"),
        (np.arange(30), (3, 2), "int64[30] {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, ...}"),
        (np.arange(90).reshape(3, 30), (1, 20), "int64[3, 30] {44, 45, 46, 47, 48, 49, 50, 51, 52, 53, "),
        (np.arange(90).reshape(3, 30), (1, 20), "55, ...} (from [1, 14])"),
        (np.arange(90).reshape(3, 30), (1, 99), "59, ...} (from [1, 18])"),
        (np.arange(90).reshape(3, 30), (7, 0), "{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, ...}"),
        (np.full((3, 30), np.nan, F), (1, 2), "(from [1, 0], 90 NaN, as at [1, 0])"),
        (np.pad(np.array([[np.inf]], F), ((0, 1), (39, 0))), (1, 2), "1 infinite, as at [0, 39]"),
        (np.zeros((0, 30)), (), "float64[0, 30] {}"),
        (np.array(7, np.int8), (), "x = 7"),
    ],
)  # fmt: skip
def test_an_array_is_shown_where_it_matters(array: np.ndarray, place: tuple[int, ...], says: str) -> None:
    example = Counterexample(
        {"x": array}, 0, place, np.zeros([100] * len(place)), np.ones([100] * len(place))
    )
    assert says in example.text
