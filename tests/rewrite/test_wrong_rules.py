"""The proof before a judge that knows nothing of it: wrong rules must be rejected, right ones kept.

That the wrong ones are wrong and the right ones right is shown here too, by running the models.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import onnx
import onnx.parser
import pytest
from onnx.reference import ReferenceEvaluator
from right_rules import RIGHT, RightRule
from wrong_rules import WRONG, WrongRule

from onnxq.graph.model import Model
from onnxq.rewrite.engine import Prove, RewriteReport, rewrite
from onnxq.rule import Except, Node, Within
from onnxq.rule.api import Rule
from onnxq.run import ort

F = np.float32
Feeds = Mapping[str, np.ndarray]
FLOAT, DOUBLE = onnx.TensorProto.FLOAT, onnx.TensorProto.DOUBLE

# What the proof decides wrongly: wrong rules that it keeps, and right ones that it rejects.
KNOWN_KEPT: frozenset[str] = frozenset()
KNOWN_REJECTED: frozenset[str] = frozenset()


ANSWERS: dict[str, Callable[[Any], Any]] = {
    "except-nan": lambda answer: Except(answer, "nan", "that is harmless"),
    "except-zero-sign": lambda answer: Except(answer, "zero-sign", "that is harmless"),
    "within-steps": lambda answer: Within(answer, 1, "that is harmless"),
}


def model_of(case: WrongRule | RightRule) -> onnx.ModelProto:
    return onnx.parser.parse_model(case.model) if isinstance(case.model, str) else case.model()


def applied(case: WrongRule | RightRule, prove: Prove) -> tuple[RewriteReport, onnx.ModelProto]:
    """What came of the rule's one change, and the model after it."""
    model = Model.open(model_of(case))
    model.runtime = ort.evaluate
    needs = case.needs if isinstance(case, RightRule) else ""

    def function(node: Node) -> Any:
        answer = case.function(node)
        return ANSWERS[needs](answer) if needs and answer is not None else answer

    rule = Rule(case.name, function, (case.root,), "clean")
    report = rewrite(model, [rule], lambda feature: True, prove=prove, limit=1)
    return report, model.to_proto()


def run(model: onnx.ModelProto, feeds: Feeds) -> list[np.ndarray]:
    return ort.load(model, optimize=False, threads=1).run(feeds)


def cases(rules: Sequence[WrongRule] | Sequence[RightRule], known: frozenset[str] = frozenset()) -> list[Any]:
    known_wrong = pytest.mark.xfail(strict=True, raises=AssertionError, reason="decided wrongly today")
    return [
        pytest.param(case, id=case.name, marks=[known_wrong] if case.name in known else []) for case in rules
    ]


# -- what the proof decides ------------------------------------------------------------------------


@pytest.mark.parametrize("case", cases(WRONG, KNOWN_KEPT))
def test_a_wrong_rule_is_rejected(case: WrongRule) -> None:
    report, _ = applied(case, "when-possible")
    assert [change.proof for change in report.changes] == []
    assert report.rejected


@pytest.mark.parametrize("case", cases(RIGHT, KNOWN_REJECTED))
def test_a_right_rule_is_kept(case: RightRule) -> None:
    report, _ = applied(case, "when-possible")
    assert [change.proof.why for change in report.rejected] == []
    assert len(report.changes) == 1
    assert report.changes[0].proof.verdict == ("close" if case.close or case.needs else "exact")
    assert ("that is harmless" in report.changes[0].proof.why) == bool(case.needs)


@pytest.mark.parametrize("case", cases([case for case in RIGHT if case.needs]))
def test_what_a_rule_leaves_out_it_must_say(case: RightRule) -> None:
    report, _ = applied(replace(case, needs=""), "when-possible")
    assert report.changes == []
    (rejected,) = report.rejected
    assert rejected.proof.example is not None
    assert "instead of" in rejected.proof.example.text


# -- that the judge is right -----------------------------------------------------------------------


def test_the_rules_are_many() -> None:
    names = [case.name for case in (*WRONG, *RIGHT)]
    assert len(set(names)) == len(names)
    assert len(WRONG) >= 160
    assert len([case for case in RIGHT if not case.needs]) >= 60
    assert {case.name for case in WRONG} >= KNOWN_KEPT
    assert {case.name for case in RIGHT} >= KNOWN_REJECTED
    assert sum(not applied(case, "never")[0].exact for case in WRONG) >= 40


@pytest.mark.parametrize("case", cases(WRONG))
def test_a_wrong_rule_is_wrong(case: WrongRule) -> None:
    report, changed = applied(case, "never")
    assert (len(report.changes), report.rejected) == (1, [])
    model = model_of(case)
    before = run(model, case.witness)
    session = ort.load(changed, optimize=False, threads=1)
    try:
        after = session.run(case.witness)
    except ort.RunError:
        return  # the original runs
    if report.exact:
        assert not all(same(one, other) for one, other in zip(before, after, strict=True))
        return
    for one, was, wanted in zip(after, before, truth(model, case.witness), strict=True):
        assert not is_off(was, wanted, 1e-3)
        assert is_off(one, wanted, max(2e-5, 20 * relative(was, wanted)))


@pytest.mark.parametrize("case", cases(RIGHT))
def test_a_right_rule_is_right(case: RightRule) -> None:
    report, changed = applied(case, "never")
    assert (len(report.changes), report.rejected) == (1, [])
    assert report.exact == (not case.close and not case.needs)
    model = model_of(case)
    one, other = (ort.load(proto, optimize=False, threads=1) for proto in (model, changed))
    ran = 0
    for feeds in samples(model, case):
        try:
            before = one.run(feeds)
        except ort.RunError:
            continue
        ran += 1
        after = other.run(feeds)
        if not case.close:
            assert all(same(a, b, case.needs) for a, b in zip(after, before, strict=True)), feeds
            continue
        wanted = truth(model, feeds)
        for a, b, t in zip(after, before, wanted, strict=True):
            assert np.array_equal(np.isfinite(a), np.isfinite(b))
            assert error(a, t) <= 8 * error(b, t) + 8 * np.finfo(F).eps * np.abs(t).max(initial=0), feeds
    assert ran >= 100


def same(one: np.ndarray, other: np.ndarray, but: str = "") -> bool:
    """Whether two results have the same bits; all NaN are one, and so is what `but` names."""
    if one.shape != other.shape or one.dtype != other.dtype:
        return False
    if but == "within-steps":
        return bool((np.abs(one.astype(np.int64) - other.astype(np.int64)) <= 1).all())
    equal = one == other
    if one.dtype.kind == "f":
        if but != "except-zero-sign":
            equal &= np.signbit(one) == np.signbit(other)
        equal |= np.isnan(other) if but == "except-nan" else np.isnan(one) & np.isnan(other)
    return bool(equal.all())


def error(values: np.ndarray, wanted: np.ndarray) -> float:
    """The largest distance from a finite truth; infinite where a value is not finite."""
    finite = np.isfinite(wanted)
    if not np.isfinite(values[finite]).all():
        return np.inf
    return float(np.abs(values[finite] - wanted[finite]).max(initial=0))


def relative(values: np.ndarray, wanted: np.ndarray) -> float:
    """The error relative to the largest value."""
    largest = np.abs(wanted[np.isfinite(wanted)]).max(initial=0)
    distance = error(values, wanted)
    return distance / float(largest) if largest else np.inf if distance else 0.0


def is_off(values: np.ndarray, wanted: np.ndarray, tolerance: float) -> bool:
    """Whether values are another shape, other infinities or NaN, or further off, relative to the largest."""
    if values.shape != wanted.shape:
        return True
    finite = np.isfinite(wanted)
    if not same(values[~finite], wanted[~finite].astype(values.dtype)):
        return True
    return relative(values, wanted) > tolerance


def truth(model: onnx.ModelProto, feeds: Feeds) -> list[np.ndarray]:
    """What the operators' definitions give in double precision."""
    wide = onnx.ModelProto()
    wide.CopyFrom(model)
    for info in wide.graph.input:
        if info.type.tensor_type.elem_type == FLOAT:
            info.type.tensor_type.elem_type = DOUBLE
    for tensor in wide.graph.initializer:
        if tensor.data_type == FLOAT:
            values = onnx.numpy_helper.to_array(tensor).astype(np.float64)
            tensor.CopyFrom(onnx.numpy_helper.from_array(values, tensor.name))
    given = {name: a.astype(np.float64) if a.dtype == F else a for name, a in feeds.items()}
    with np.errstate(all="ignore"):
        return [np.asarray(result) for result in ReferenceEvaluator(wide).run(None, given)]


# -- inputs ----------------------------------------------------------------------------------------

SIZES = (0, 1, 2, 3, 5, 6, 7, 8, 9, 13, 33, 70)
SPECIAL = [
    np.nan,
    np.inf,
    -np.inf,
    0.0,
    -0.0,
    1e-45,
    -1e-45,
    1.2e-38,
    3.4e38,
    -3.4e38,
    0.5,
    -0.5,
    2.5,
    1e-6,
    1e6,
]


def samples(model: onnx.ModelProto, case: RightRule) -> Iterator[Feeds]:
    """Ordinary inputs, inputs at the limits of their type and at the numbers in the model, of many sizes."""
    random = np.random.default_rng(0)
    numbers = [onnx.numpy_helper.to_array(tensor).ravel() for tensor in model.graph.initializer]
    for count in range(300):
        sizes: dict[str, int] = {}
        feeds = {}
        for info in model.graph.input:
            kind = info.type.tensor_type
            shape = [
                dim.dim_value if dim.HasField("dim_value") else size_of(dim.dim_param, sizes, random)
                for dim in kind.shape.dim
            ]
            dtype = onnx.helper.tensor_dtype_to_np_dtype(kind.elem_type)
            bounds = case.bounds.get(info.name)
            feeds[info.name] = np.asarray(filled(shape, dtype, count, case.close, numbers, bounds, random))
        yield feeds


def size_of(symbol: str, sizes: dict[str, int], random: np.random.Generator) -> int:
    return sizes.setdefault(symbol, int(random.choice(SIZES)))


def filled(
    shape: Sequence[int],
    dtype: np.dtype,
    count: int,
    smooth: bool,
    numbers: Sequence[np.ndarray],
    bounds: tuple[int, int] | None,
    random: np.random.Generator,
) -> np.ndarray:
    if bounds is not None:
        return random.uniform(*bounds, shape).astype(dtype)
    if dtype.kind == "b":
        return random.integers(0, 2, shape).astype(bool)
    own = np.concatenate([np.zeros(1), *(n for n in numbers if n.dtype.kind in "fiu")])
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        wide = np.array([limits.min, limits.min + 1, limits.max, limits.max - 1, 0, 1, 2, 100], dtype)
        near = np.clip(own[np.abs(own) < 2**62], limits.min // 2, limits.max // 2).astype(dtype)
        pool = (wide, near, near + dtype.type(1), random.integers(0, 100, 50).astype(dtype))[count % 4]
        return random.choice(pool, shape)
    normal = random.standard_normal(shape).astype(F)
    if smooth or count % 2:
        scale, offset = [(1, 0), (1e-6, 0), (1e6, 0), (1, 1e3), (10, 0)][count // 2 % 5]
        return (normal * F(scale) + F(offset)).astype(dtype)
    near = own.astype(dtype)
    pool = np.concatenate([SPECIAL, near, -near, np.nextafter(near, F(9e9)), np.nextafter(near, F(-9e9))])
    return np.where(random.random(shape) < 0.3, normal, random.choice(pool, shape)).astype(dtype)
