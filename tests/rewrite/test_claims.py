"""What a rule may leave out of its claim: where that is void, nothing is left out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx.parser
import pytest

from onnxq.graph.model import Model
from onnxq.graph.view import Node
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


@pytest.mark.parametrize("but", ["nan", "nan-input", "zero-sign"])
def test_of_integers_nothing_is_left_out(but: Any) -> None:
    report = applied(WHOLE, "Abs", lambda n: Except(op.Max(n.inputs[0], op.Neg(n.inputs[0])), but, "in vain"))
    (change,) = report.changes
    assert (change.proof.verdict, change.proof.why, report.exact) == ("exact", "", True)


def test_floats_have_no_steps() -> None:
    report = applied(ABS, "Abs", lambda n: Within(op.Abs(op.Neg(n.inputs[0])), 1, "in vain"))
    assert [change.proof.verdict for change in report.changes] == ["exact"]


def test_what_is_made_of_integers_is_never_nan() -> None:
    """The smallest cut reads a float: no NaN is tried there either."""

    def answer(node: Node) -> Any:
        return Except(other_with_nan(node), "nan-input", "nobody sorts it")

    assert [c.proof.verdict for c in applied(MADE, "Abs", answer).changes] == ["exact"]
    assert [c.proof.verdict for c in applied(ROOTS, "Abs", answer).changes] == ["close"]


def sorted_in_two(node: Node) -> Any:
    """The last of K elements taken from what the others left, in its order: another order of NaN."""
    x, k = node.inputs
    count = int(k.constant[0])
    first, where = op.TopK(x, np.array([count - 1]), axis=-1, outputs=2)
    ones = op.Expand(np.array([1]), op.Shape(x))
    free = op.ScatterElements(ones, where, op.Sub(where, where), axis=-1)
    _, left = op.TopK(free, np.array([x.shape[-1] - count + 1]), axis=-1, outputs=2)  # ties: by position
    value, place = op.TopK(op.GatherElements(x, left, axis=-1), np.array([1]), axis=-1, outputs=2)
    index = op.GatherElements(left, place, axis=-1)
    return {0: op.Concat(first, value, axis=-1), 1: op.Concat(where, index, axis=-1)}


@pytest.mark.parametrize(("size", "count"), [(20, 6), (300, 20), (1000, 900), (5000, 4000)])
def test_an_order_of_nan_is_found_wrong_whatever_the_size(size: int, count: int) -> None:
    text = TOPK.replace("SIZE", str(size)).replace("COUNT", str(count))
    report = applied(text, "TopK", sorted_in_two)
    assert [change.proof for change in report.changes] == []
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
    with pytest.raises(ValueError, match="knows 'nan', 'nan-input', 'zero-sign', not 'inf'"):
        Except(0, "inf", "no")  # type: ignore[arg-type]
