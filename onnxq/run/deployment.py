"""What a file is deployed for: of each dynamic dimension the smallest, the usual and the largest size."""

from __future__ import annotations

import itertools
import math
import shlex
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import median
from typing import Literal

from onnxq.base.errors import UserError
from onnxq.base.grouped import grouped
from onnxq.run.profiles import Profile, check_profile, text_of

Shape = tuple[int, ...]
Dims = tuple[int | str | None, ...]
Origin = Literal["stated", "data", "assumed"]
End = Literal["smallest", "largest"]


@dataclass(frozen=True, slots=True)
class Span:
    """The sizes of a dynamic dimension.

    Attributes:
        smallest: that there is.
        usual: for which it is decided what is worth int8.
        largest: that there is.
        origin: `stated` by the user, seen in the `data`, or `assumed`.
    """

    smallest: int
    usual: int
    largest: int
    origin: Origin = "stated"

    def __str__(self) -> str:
        if self.smallest == self.largest:
            return str(self.usual)
        return f"{self.smallest} to {self.largest}, usually {self.usual}"


@dataclass(frozen=True, slots=True)
class Deployment:
    """The sizes of the inputs.

    Attributes:
        spans: of each dynamic dimension, by its symbol, else as `input[axis]`.
        profiles: the smallest, the usual and the largest shape of each input that has one.
        usual: the usual shape of each input whose rank is known.
        batch: the dimensions that are the batch.
        nearest: which of the samples that were seen has the usual sizes, but for the batch; None: none were.
        names: the dimensions of each input, a size or its name.
        name: which of several deployments it is; "": there is one.
        weight: its share of all work, 0 to 1.
        is_weight_assumed: whether nobody stated that.
        fitting: which of the samples that were seen belong to it; of several deployments.
        is_assumed: whether nobody stated it, and no sample is of it.
        is_batch_baked: whether the model runs in batches of no other size than the usual one.
    """

    spans: Mapping[str, Span] = field(default_factory=dict)
    profiles: Mapping[str, Profile] = field(default_factory=dict)
    usual: Mapping[str, Shape] = field(default_factory=dict)
    batch: tuple[str, ...] = ()
    nearest: int | None = None
    names: Mapping[str, Dims] = field(default_factory=dict)
    name: str = ""
    weight: float = 1.0
    is_weight_assumed: bool = False
    fitting: tuple[int, ...] = ()
    is_assumed: bool = False
    is_batch_baked: bool = False

    @property
    def stated(self) -> frozenset[str]:
        """The dimensions whose sizes are stated."""
        return frozenset(dim for dim, span in self.spans.items() if span.origin == "stated")

    @property
    def is_stated(self) -> bool:
        """Whether a size is stated."""
        return bool(self.stated)

    @property
    def is_known(self) -> bool:
        """Whether no size is assumed."""
        return all(span.origin != "assumed" for span in self.spans.values())

    def size(self, dim: str, shapes: Mapping[str, Shape]) -> int | None:
        """The size of a dimension in a sample of these shapes; None where it has none."""
        places = ((name, dims.index(dim)) for name, dims in self.names.items() if dim in dims)
        return next((shapes[name][axis] for name, axis in places if len(shapes.get(name, ())) > axis), None)

    def fits(self, shapes: Mapping[str, Shape]) -> bool:
        """Whether a sample of these shapes has all sizes that are stated, but for the batch."""
        chosen = self.stated.difference(self.batch)
        for name, dims in self.names.items():
            for axis, dim in enumerate(dims):
                if dim in chosen:
                    span, sizes = self.spans[str(dim)], shapes.get(name, ())
                    if len(sizes) != len(dims) or not span.smallest <= sizes[axis] <= span.largest:
                        return False
        return True

    def ranging(self, found: Deployment, seen: Sequence[Mapping[str, Shape]]) -> Deployment:
        """It with the ranges of one that other samples told of, too; usual sizes and what is stated stay.

        Args:
            found: that.
            seen: the shapes of all samples: those of a size that follows from others may be other ones.
        """
        spans, sizes = dict(self.spans), dict[str, set[int]]()
        for name, dims in self.names.items():
            for axis, dim in enumerate(dims):
                if isinstance(dim, str):
                    shapes = [one[name] for one in seen if len(one.get(name, ())) == len(dims)]
                    sizes.setdefault(dim, set()).update(int(shape[axis]) for shape in shapes)
        for dim, span in self.spans.items():
            if span.origin != "stated" and dim in found.spans:
                other = found.spans[dim]
                own = () if dim in self.batch else sizes.get(dim, ())
                least = min(span.smallest, other.smallest, *own)
                most = max(span.largest, other.largest, *own)
                spans[dim] = Span(least, span.usual, most, other.origin)
        profiles = _profiles(spans, self.names)
        return replace(
            self, spans=spans, profiles=profiles, fitting=found.fitting, is_assumed=found.is_assumed
        )

    def without_bad(self, seen: Sequence[Mapping[str, Shape]]) -> Deployment:
        """It, where some of its samples turned out to be bad: their sizes are not in the range.

        Args:
            seen: the shapes of those that are not.
        """
        good = [
            {dim: shapes[name][axis] for name, dims in self.names.items() for axis, dim in enumerate(dims)}
            for shapes in seen
            if all(len(shapes.get(name, ())) == len(dims) for name, dims in self.names.items())
        ]
        spans = dict(self.spans)
        for dim, span in self.spans.items():
            sizes = [one[dim] for one in good]
            if sizes and span.origin != "stated":
                least, most = min(sizes), max(sizes)
                usual = span.usual if dim in self.batch else min(max(span.usual, least), most)
                spans[dim] = Span(min(least, usual), usual, max(most, usual), span.origin)
        spans = _summed(spans, [{dim: one[dim] for dim in spans} for one in good])
        return replace(self, spans=spans, profiles=_profiles(spans, self.names))

    def shapes(self, which: End) -> Mapping[str, Shape]:
        """The shapes of the inputs at one end of their range."""
        place = ("smallest", "largest").index(which) * 2
        return {**self.usual, **{name: tuple(profile[place]) for name, profile in self.profiles.items()}}

    def batched(self, size: int) -> Mapping[str, Shape]:
        """The usual shapes with another batch."""
        return {
            name: tuple(
                size if dim in self.batch else now for now, dim in zip(shape, self.names[name], strict=True)
            )
            for name, shape in self.usual.items()
        }


def deployed(
    inputs: Sequence[tuple[str, Dims | None]],
    stated: Mapping[str, Profile],
    seen: Sequence[Mapping[str, Shape]],
    *,
    batch: tuple[int, int, int] | None = None,
    batched: Collection[str] = (),
    sums: Sequence[tuple[str, str, str]] = (),
) -> Deployment:
    """What a model is deployed for: as it is stated, else as samples have it.

    A dimension is its symbol: what is stated of it for one input holds for all. Where nothing is stated, the
    range is that of the samples, and the usual sizes are those of one sample: of the one that is nearest to
    the medians of all. The batch is usually 1, unless it is stated, and 1 is in its range.

    Args:
        inputs: names and dimensions; None where the rank is unknown.
        stated: shapes of inputs.
        seen: the shapes of each sample, in an order that does not depend on chance.
        batch: the smallest, the usual and the largest batch.
        batched: the inputs whose first axis is the batch.
        sums: dimensions of which the third is the sum of the others.

    Raises:
        UserError: a profile does not fit the model, two of them contradict each other, a stated sum is none,
            or there is no dynamic batch.
    """
    known = {name: dims for name, dims in inputs if dims is not None}
    for name, profile in stated.items():
        check_profile(
            name, profile, {n: [d if isinstance(d, int) else -1 for d in s] for n, s in known.items()}
        )
    places = grouped(
        (dim or f"{name}[{axis}]", (name, axis))
        for name, dims in known.items()
        for axis, dim in enumerate(dims)
        if not isinstance(dim, int)
    )
    firsts = [dim for dim, where in places.items() if any(n in batched and axis == 0 for n, axis in where)]
    spans = {dim: span for dim, where in places.items() if (span := _stated(dim, where, stated)) is not None}
    if batch is not None:
        spans |= _batch(batch, firsts, spans)
    whole = [number for number, shapes in enumerate(seen) if _is_whole(shapes, places)]
    nearest = _nearest(whole, seen, {dim: where for dim, where in places.items() if dim not in firsts})
    usual = None if nearest is None else seen[nearest]
    for dim, ((name, axis), *_) in places.items():
        if dim not in spans:
            sizes = [seen[number][name][axis] for number in whole] or [1]
            origin: Origin = "data" if whole else "assumed"
            if dim in firsts:
                spans[dim] = Span(min(1, *sizes), 1, max(sizes), "assumed")
            else:
                spans[dim] = Span(min(sizes), usual[name][axis] if usual else 1, max(sizes), origin)
    names: dict[str, Dims] = {
        name: tuple(
            dim if isinstance(dim, int) else dim or f"{name}[{axis}]" for axis, dim in enumerate(dims)
        )
        for name, dims in known.items()
    }
    spans = {dim: spans[dim] for dim in places}
    for one, other, both in sums:
        if {one, other, both} <= spans.keys():
            spans[both] = _sum(spans, (one, other, both), names)
    spans = _summed(spans, [_sizes(seen[number], places) for number in whole])
    profiles = _profiles(spans, names)
    middles: dict[str, Shape] = {
        name: tuple(profiles[name][1]) if name in profiles else tuple(int(dim or 0) for dim in dims)
        for name, dims in names.items()
    }
    return Deployment(spans, profiles, middles, tuple(firsts), nearest, names)


def _profiles(spans: Mapping[str, Span], names: Mapping[str, Dims]) -> dict[str, Profile]:
    """The shapes of each input that is not static."""

    def shape(dims: Dims, which: str) -> Shape:
        return tuple(dim if isinstance(dim, int) else getattr(spans[str(dim)], which) for dim in dims)

    return {
        name: (shape(dims, "smallest"), shape(dims, "usual"), shape(dims, "largest"))
        for name, dims in names.items()
        if not all(isinstance(dim, int) for dim in dims)
    }


def _stated(dim: str, where: Sequence[tuple[str, int]], stated: Mapping[str, Profile]) -> Span | None:
    """What profiles say of a dimension.

    Raises:
        UserError: they contradict each other.
    """
    said = {name: tuple(shape[axis] for shape in stated[name]) for name, axis in where if name in stated}
    if len(set(said.values())) > 1:
        (one, ours), (other, theirs) = list(said.items())[:2]
        raise UserError(
            f"the profiles of {one!r} and {other!r} give dimension {dim} different sizes: "
            f"{':'.join(map(str, ours))} and {':'.join(map(str, theirs))}",
            hint="give both the same, or leave one of the profiles out",
        )
    return next((Span(low, usual, high) for low, usual, high in said.values()), None)


def _batch(batch: tuple[int, int, int], firsts: Sequence[str], stated: Mapping[str, Span]) -> dict[str, Span]:
    """The batch as it is stated.

    Raises:
        UserError: it makes no sense, there is no dynamic batch, or a profile says another.
    """
    low, usual, high = batch
    text = ":".join(map(str, batch))
    if not 1 <= low <= usual <= high:
        raise UserError(
            f"--batch {text}: it is not smallest <= usual <= largest, from 1 on", hint="write --batch 1:8:32"
        )
    if not firsts:
        raise UserError(
            f"--batch {text}: no input has a dynamic batch",
            hint="leave it out, or export the model with a dynamic batch",
        )
    for dim in firsts:
        span = stated.get(dim)
        if span is not None and (span.smallest, span.usual, span.largest) != batch:
            raise UserError(
                f"--batch {text}, and --profile says {span.smallest}:{span.usual}:{span.largest} of {dim}",
                hint="leave one of them out",
            )
    return {dim: Span(low, usual, high) for dim in firsts}


def _sizes(shapes: Mapping[str, Shape], places: Mapping[str, Sequence[tuple[str, int]]]) -> Mapping[str, int]:
    """The size of each dimension in a sample."""
    return {dim: shapes[name][axis] for dim, ((name, axis), *_) in places.items()}


def _sum(spans: Mapping[str, Span], dims: tuple[str, str, str], names: Mapping[str, Dims]) -> Span:
    """The span of a dimension that is the sum of two others.

    Raises:
        UserError: it is not, as it is stated.
    """
    one, other, both = dims
    a, b, c = (spans[dim] for dim in dims)
    span = Span(a.smallest + b.smallest, a.usual + b.usual, a.largest + b.largest, c.origin)
    if c.origin == "stated" and span != c and "assumed" not in (a.origin, b.origin):
        name = next(name for name, own in names.items() if both in own)
        shapes = _profiles({**spans, both: span}, {name: names[name]})[name]
        raise UserError(
            f"{name} is stated for {both} = {c}, and {both} is {one} and {other} together: {span}",
            hint=f"--profile {shlex.quote(name)}={text_of(shapes)}",
        )
    return span


def _summed(spans: Mapping[str, Span], seen: Sequence[Mapping[str, int]]) -> dict[str, Span]:
    """The spans, where a dimension that is the sum of two others in all samples is so at its ends, too.

    The lengths of a mask, of what is past and of what is new are such.

    Raises:
        UserError: they are not, as they are stated.
    """
    found = dict(spans)
    varied = [dim for dim in spans if len({sizes[dim] for sizes in seen}) > 1]
    for one, other, whole in itertools.permutations(spans, 3):
        if one > other or whole not in varied or any(s[one] + s[other] != s[whole] for s in seen):
            continue
        a, b, c = found[one], found[other], found[whole]
        summed = Span(a.smallest + b.smallest, a.usual + b.usual, a.largest + b.largest, c.origin)
        if c.origin == "stated" and summed != c:
            raise UserError(
                f"{whole} is {c}, and in every sample it is {one} and {other} together: {summed}",
                hint="state sizes that fit each other, or leave that of one dimension out",
            )
        found[whole] = summed
    return found


def _is_whole(shapes: Mapping[str, Shape], places: Mapping[str, Sequence[tuple[str, int]]]) -> bool:
    """Whether a sample has a size for each dimension, and one size."""
    return all(
        len({shapes[name][axis] if len(shapes.get(name, ())) > axis else -1 for name, axis in where}) == 1
        and where[0][0] in shapes
        for where in places.values()
    )


def _nearest(
    whole: Sequence[int],
    seen: Sequence[Mapping[str, Shape]],
    places: Mapping[str, Sequence[tuple[str, int]]],
) -> int | None:
    """The sample that is nearest to the medians, by ratios; None without samples."""
    firsts = [where[0] for where in places.values()]
    medians = [max(1.0, median(seen[n][name][axis] for n in whole)) for name, axis in firsts if whole]

    def apart(number: int) -> float:
        sizes = (max(1, seen[number][name][axis]) for name, axis in firsts)
        return sum(abs(math.log(size / middle)) for size, middle in zip(sizes, medians, strict=True))

    return min(whole, key=apart, default=None)
