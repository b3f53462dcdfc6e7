"""Whether two results are the same, as far as a rule claims that they are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from onnxq.base.reason import noted
from onnxq.graph.types import float_info
from onnxq.rewrite.oracle import FACTOR_OF_UNKNOWN, Truth, room
from onnxq.rewrite.sampling import is_float
from onnxq.rule.api import But


@dataclass(frozen=True, slots=True)
class Claim:
    """What a rule says of its replacement; without any of these, that it is equal bit for bit.

    Attributes:
        close: it reorders float sums.
        but: it is equal but where the original is NaN, but for inputs that hold a NaN, an infinity as well, a
            number whose square overflows as well, nothing at all, or but for the sign of zeros; random values
            are others.
        steps: integers are off by at most so many.
        why: why that does no harm.
        fed_nan: whether an input may be NaN at all; where none can, nobody asks what comes of it.
    """

    close: bool = False
    but: tuple[But, ...] = ()
    steps: int = 0
    why: str = ""
    fed_nan: bool = True

    @property
    def is_exact(self) -> bool:
        """Whether it is bit-equality."""
        return not (self.close or self.but or self.steps)

    @property
    def tries_nan(self) -> bool:
        """Whether it says something of inputs that hold a NaN."""
        return self.fed_nan and not {"nan-input", "infinite-input", "extreme-input"} & {*self.but}

    @property
    def tries_infinity(self) -> bool:
        """Whether it says something of inputs that hold an infinity."""
        return "infinite-input" not in self.but

    @property
    def tries_extremes(self) -> bool:
        """Whether it says something of inputs that hold an infinity or a number whose square overflows."""
        return "extreme-input" not in self.but

    @property
    def tries_nothing(self) -> bool:
        """Whether it says something of inputs without elements."""
        return "empty-input" not in self.but

    @property
    def text(self) -> str:
        """What it leaves out, and why; "" for what is exact or close."""
        parts = [noted(f"equal-but.{one}") for one in self.but]
        parts += [f"within {self.steps} step{'s' if self.steps > 1 else ''}"] if self.steps else []
        return f"{', '.join(parts)}: {self.why}" if parts else ""


EXACT = Claim()
# An array of more values is not shown as a whole.
_FEW = 24


@dataclass(frozen=True, slots=True)
class Difference:
    """What comparing two outputs found.

    Attributes:
        gap: how far an element is off: from the original, or of a close one from the oracle.
        bound: how far it may be; of all elements those of the largest share of the bound.
        wrong: what is wrong, "" if nothing is.
        place: the element.
        is_open: whether rounding decides what the output is, so that its values tell nothing.
    """

    gap: float = 0.0
    bound: float = 0.0
    wrong: str = ""
    place: tuple[int, ...] | None = None
    is_open: bool = False


@dataclass(frozen=True, slots=True)
class Counterexample:
    """An input on which a replacement gives something else.

    Attributes:
        inputs: the input.
        output: the position of the output.
        place: the element of it, None where it is another type or shape.
        before: the original's output.
        after: the replacement's.
    """

    inputs: Mapping[str, np.ndarray]
    output: int
    place: tuple[int, ...] | None
    before: Any
    after: Any

    @property
    def text(self) -> str:
        """The input, the element and both values, for a reader."""
        inputs = ", ".join(
            f"{name} = {_brief(array, self.place or ())}" for name, array in self.inputs.items()
        )
        where = f"output {self.output}{list(self.place) if self.place else ''}"
        one, other = self.before, self.after
        if self.place is not None:
            one, other = one[self.place], other[self.place]
        after, before = _brief(np.asarray(other)), _brief(np.asarray(one))
        return noted(
            "differs-by.element", where=where, after=after, before=before, inputs=inputs or "no input"
        )


def _brief(array: np.ndarray, place: tuple[int, ...] = ()) -> str:
    """An array for a reader: all of a small one; of a large one values near a place, and what is special.

    Args:
        array: the array.
        place: the element that is wrong, of an array that may have another shape.
    """
    if array.dtype.kind == "O":
        return str(array.tolist())[:60]
    if not array.shape:
        return _number(array[()])
    kind = f"{array.dtype}{list(array.shape)}"
    if array.size <= _FEW:
        return f"{kind} {{{', '.join(map(_number, array.ravel()))}}}"
    row = place[:-1] if len(place) == array.ndim and all(map(int.__lt__, place[:-1], array.shape)) else None
    part = array.reshape(-1) if row is None else array[row]
    start = max(0, min(place[-1] - _FEW // 4, len(part) - _FEW // 2)) if row is not None else 0
    values = ", ".join(map(_number, part[start : start + _FEW // 2]))
    first = [0] * array.ndim if row is None else [*row, start]
    notes = [f"from {first}"] if any(first) else []
    for name, found in (("NaN", np.isnan), ("infinite", np.isinf)) if is_float(array.dtype) else ():
        count = int(np.sum(found(array)))
        if count:
            near = row is not None and bool(found(part).any())
            at = [*(row or ()), int(np.argmax(found(part)))] if near else list(_first(found(array)))
            notes.append(f"{count} {name}, as at {at}")
    words = f" ({', '.join(notes)})" if notes else ""
    return f"{kind} {{{values}, ...}}{words}"


def _number(value: Any) -> str:
    return f"{value:.9g}" if is_float(value.dtype) else str(value)


def difference(
    one: Any,
    other: Any,
    claim: Claim,
    truth: Truth | None = None,
    *,
    swapped: bool = False,
    finite: bool = False,
    extreme: bool = False,
) -> Difference:
    """Compares an output of the original with the replacement's.

    Args:
        one: the original's.
        other: the replacement's.
        claim: as what it must be the same.
        truth: the oracle where the claim is `close`; without one the original is it.
        swapped: the oracle is the replacement in double precision: it is the original that may be off.
        finite: whether all inputs are finite: then what overflows on the way is excused.
        extreme: whether an input's square overflows: where nobody but the replacement says what the original
            is, nobody says on the way to what it may overflow.
    """
    if isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        differences = [difference(*pair, claim, finite=finite) for pair in zip(one, other, strict=True)]
        return next((each for each in differences if each.wrong), Difference())
    if not isinstance(one, np.ndarray) or not isinstance(other, np.ndarray):
        return Difference(wrong="" if _same(one, other) else "the outputs differ")
    if one.dtype != other.dtype:
        return Difference(wrong=f"dtype {other.dtype} instead of {one.dtype}")
    if one.shape != other.shape:
        return Difference(wrong=f"shape {list(other.shape)} instead of {list(one.shape)}")
    if "random" in claim.but:
        return Difference()
    if not is_float(one.dtype):
        return _of_integers(one, other, claim, finite)
    nan = np.isnan(one)
    bits = np.dtype(f"u{one.dtype.itemsize}")
    equal = (np.atleast_1d(one).view(bits) == np.atleast_1d(other).view(bits)).reshape(one.shape)
    equal = np.asarray(equal | (nan & (np.isnan(other) | ("nan" in claim.but))))
    if "zero-sign" in claim.but:
        equal |= one == other
    if equal.all():
        return Difference()
    if claim.close:
        return _of_sums(one, other, equal, truth, swapped, finite, extreme)
    place = _first(~equal)
    count = int(np.sum(~equal))
    if not np.array_equal(nan[~equal], np.isnan(other)[~equal]):
        return _elsewhere("NaN", ~equal & (nan != np.isnan(other)))
    wide, gaps = one.astype(np.float64), np.zeros(one.shape)
    with np.errstate(all="ignore"):
        gaps = np.where(equal, 0.0, np.abs(wide - other.astype(np.float64)))
    if not np.isfinite(gaps).all():
        return _elsewhere("infinities", ~np.isfinite(gaps))
    worst = float(gaps.max())
    if worst:  # else zeros of another sign
        place = _first(gaps == worst)
    return Difference(worst, 0.0, noted("differs-by.values", count=count, values=one.size, most=worst), place)


def _elsewhere(what: str, wrong: np.ndarray) -> Difference:
    return Difference(np.inf, 0.0, noted("differs-by.places", what=what), _first(wrong))


def _of_integers(one: np.ndarray, other: np.ndarray, claim: Claim, finite: bool) -> Difference:
    wrong = one != other
    if claim.steps and one.dtype.kind in "iu" and not finite:
        return Difference()  # no step is near to NaN: what integer it becomes is not defined
    if claim.steps and one.dtype.kind in "iu":
        bits = np.dtype(f"u{one.dtype.itemsize}")  # in which no distance overflows
        with np.errstate(over="ignore"):  # of numbers that are no arrays
            gaps = np.maximum(one, other).view(bits) - np.minimum(one, other).view(bits)
        wrong = gaps > claim.steps
        if not wrong.any():
            return Difference(float(gaps.max(initial=0)), float(claim.steps))
    wrong = np.asarray(wrong)
    if not wrong.any():
        return Difference()
    return Difference(np.inf, 0.0, f"{int(np.sum(wrong))} of {one.size} values differ", _first(wrong))


def _of_sums(
    one: np.ndarray,
    other: np.ndarray,
    equal: np.ndarray,
    truth: Truth | None,
    swapped: bool,
    finite: bool,
    extreme: bool,
) -> Difference:
    wide, got = one.astype(np.float64), other.astype(np.float64)
    if truth is None or truth.values.shape != one.shape:
        largest = np.max(np.abs(wide[np.isfinite(wide)]), initial=0.0)
        truth = Truth(wide, np.full(one.shape, largest), 1.0, -1)
    highest = float(float_info(one.dtype).max)
    numbers = np.isfinite(wide) & np.isfinite(got)
    excused = np.zeros(one.shape, bool)
    if finite:  # where the sum itself, in another order, or the original overflows
        within = np.isfinite(truth.values)
        excused = within & (~np.isfinite(wide) | ~(truth.magnitude <= highest))
    overflows = (truth.multiplies and truth.factor > highest) or (extreme and (swapped or truth.cancels))
    if finite and overflows:
        excused = np.ones(one.shape, bool)
    strict = ~numbers & ~equal & ~excused
    if strict.any():
        what = "NaN" if (np.isnan(wide) != np.isnan(got))[strict].any() else "infinities"
        return _elsewhere(what, strict)
    if not swapped and truth.is_open:
        return Difference(is_open=True)
    finite_truth = np.isfinite(truth.values)
    counts = numbers & ~equal & ~(excused & (np.abs(truth.values) > highest / 4))
    exact = np.where(finite_truth, truth.values, wide)
    if not swapped:
        return _nearest(got, exact, counts, room(one, truth))
    # neither may be far worse than the other: a replacement that is far off would excuse any original
    back = _nearest(got, exact, counts, room(one, truth, FACTOR_OF_UNKNOWN))
    return back if back.wrong else _nearest(wide, exact, counts, room(other, truth, FACTOR_OF_UNKNOWN))


def _nearest(values: np.ndarray, wanted: np.ndarray, counts: np.ndarray, allowed: np.ndarray) -> Difference:
    """The element that is the furthest over its bound, or comes closest to it."""
    with np.errstate(all="ignore"):
        gaps = np.where(counts, np.abs(values - wanted), 0.0)
    place = np.unravel_index(int(np.argmax(gaps - allowed)), gaps.shape)
    at = tuple(int(index) for index in place)
    gap, bound = float(gaps[place]), float(allowed[place])
    if gap > bound:
        return Difference(gap, bound, noted("differs-by.bound", gap=gap, bound=bound), at)
    ratios = np.divide(gaps, allowed, out=np.zeros_like(gaps), where=allowed > 0)
    nearest = np.unravel_index(int(np.argmax(ratios)), gaps.shape)
    return Difference(float(gaps[nearest]), float(allowed[nearest]))


def _first(wrong: np.ndarray) -> tuple[int, ...]:
    return tuple(int(index) for index in np.unravel_index(int(np.argmax(wrong)), wrong.shape))


def _same(one: Any, other: Any) -> bool:
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_same, one, other))
    return np.array_equal(np.asarray(one), np.asarray(other))
