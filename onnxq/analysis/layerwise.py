"""Both stages on the same samples, tensor by tensor: errors as they accumulate, and of each layer alone."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from onnxq.analysis.figures import Means, Metric, Operand, TensorMeter
from onnxq.analysis.match import Matched
from onnxq.analysis.octaves import ChannelSpread
from onnxq.analysis.parts import Part, PartRunner, can_pass, parts_of
from onnxq.analysis.stages import Saved, Stage
from onnxq.base.errors import UserError
from onnxq.data.samples import Sample
from onnxq.graph.constants import tensor_bytes
from onnxq.graph.order import reads
from onnxq.graph.types import is_static
from onnxq.judge.comparable import as_tensor, is_real
from onnxq.judge.output_parts import OutputPart, OutputParts
from onnxq.judge.sqnr import power_db
from onnxq.run.ort import RunError

BUDGET = 1 << 22
"""Bytes of the tensors of A that are in memory at a time, as far as sizes are known beforehand."""

WEIGHTS = 1 << 24
"""Bytes of the weights of A that are in memory at a time, where parts are loaded one after another."""

MEANS = 1 << 26
"""Bytes of the sums over samples of tensors, for their means."""

_UNKNOWN = 1 << 20  # bytes of a tensor of which no size is known

Pace = Callable[[float, int], None]
"""Hears which share of the work is done, 0 to 1, and of how many samples; what it raises ends the walk."""


@dataclass(slots=True)
class Measured:
    """What was measured of a matched tensor.

    Attributes:
        accumulated: both stages run whole.
        isolated: what B's nodes between this tensor and the matched ones before it make of A's values.
        broken: the first sample in which B is not finite and A is; None: there is none.
        born: the first in which that is so on A's values.
        unborn: the first in which A is not finite.
    """

    accumulated: TensorMeter
    isolated: TensorMeter
    broken: Sample | None = None
    born: Sample | None = None
    unborn: Sample | None = None


@dataclass(slots=True)
class WorstSample:
    """The sample whose outputs are furthest off.

    Attributes:
        index: its place in the data.
        where: where it is from.
        sqnr_db: of all its outputs together, each in units of A's power in that sample.
        outputs: the values of each output in A and in B.
    """

    index: int = -1
    where: str = ""
    sqnr_db: float = math.inf
    outputs: Mapping[str, tuple[np.ndarray, np.ndarray]] = field(default_factory=dict)


@dataclass(slots=True)
class Walk:
    """What a walk over the samples found.

    Attributes:
        found: by the tensor's name in B.
        means: sums over samples of A's tensors, by the name in B.
        samples: how many there were.
        ranges: the least and the greatest finite value of A, by the name in B; of inputs too.
        worst: the worst sample; None where no output is matched.
        groups: in how many parts each stage ran.
        spreads: the channels of A's tensors, by the name in B; of those that are asked for.
    """

    found: dict[str, Measured]
    means: Means
    samples: int = 0
    ranges: dict[str, tuple[float, float]] = field(default_factory=dict)
    worst: WorstSample | None = None
    groups: int = 1
    spreads: dict[str, ChannelSpread] = field(default_factory=dict)

    def widen(self, name: str, values: np.ndarray) -> None:
        """Adds values to the range of a tensor."""
        if values.size and values.dtype.kind in "fiu":
            low, high = float(values.min()), float(values.max())
            if not (math.isfinite(low) and math.isfinite(high)):
                values = values[np.isfinite(values)]
                low, high = float(values.min(initial=math.inf)), float(values.max(initial=-math.inf))
            ends = self.ranges.get(name, (math.inf, -math.inf))
            self.ranges[name] = (min(ends[0], low), max(ends[1], high))


@dataclass(slots=True)
class _Passing:
    """A sample on its way through the parts.

    Attributes:
        place: its number.
        sample: it.
        ours: the values of A that are still needed.
        theirs: those of B.
        fed: those of A that B's layers are fed, by the names of B.
        ends: the outputs of both, and the noise-to-signal ratio of B's.
    """

    place: int
    sample: Sample
    ours: dict[str, np.ndarray]
    theirs: dict[str, np.ndarray]
    fed: dict[str, np.ndarray] = field(default_factory=dict)
    ends: dict[str, tuple[np.ndarray, np.ndarray, float]] = field(default_factory=dict)


_Runners = tuple[PartRunner, PartRunner | None]


class NotAlone(UserError):
    """B does not run on A's values, on the first sample: its tensors have other shapes, say."""


def grouped(
    stage: Stage, pairs: Sequence[Matched], budget: int, weights: int | None = None
) -> list[list[Matched]]:
    """Matched tensors in groups, as memory allows, in the order of the model.

    Args:
        stage: the model.
        pairs: what is matched.
        budget: bytes of a group's tensors.
        weights: bytes of the weights that are read for a group; None: any.
    """
    read = _weights_read(stage) if weights is not None else {}
    groups: list[list[Matched]] = []
    size = before = begun = 0
    for entry in pairs:
        own = _bytes(stage, entry)
        behind = max(before, read.get(entry.a, 0))
        heavy = weights is not None and behind - begun > weights
        if size + own > budget or heavy or not groups:
            groups.append([])
            size, begun = 0, before
        groups[-1].append(entry)
        size += own
        before = behind
    return groups


def _bytes(stage: Stage, entry: Matched) -> int:
    """What a tensor of A takes, as far as its size is known beforehand."""
    shape = stage.shape(entry.a)
    return 4 * math.prod(shape) if is_static(shape) else _UNKNOWN


def _weights_read(stage: Stage) -> dict[str, int]:
    """The bytes of all weights that are read up to where a tensor is made, in the order of the model."""
    sizes: dict[str, int] = {}
    seen: set[str] = set()
    total = 0
    for node in stage.nodes.values():
        for name in reads(node):
            if name in stage.constants and name not in seen:
                seen.add(name)
                total += tensor_bytes(stage.constants[name])
        sizes.update(dict.fromkeys(node.output, total))
    return sizes


class Walker:
    """Two stages, cut into parts."""

    def __init__(
        self,
        a: Stage,
        b: Stage | Saved,
        pairs: Sequence[Matched],
        *,
        isolated: bool = True,
        histogram: bool = True,
        metric: Metric | None = None,
        maps: Mapping[str, Callable[[np.ndarray], np.ndarray]] | None = None,
        budget: int = BUDGET,
        threads: int = 0,
        by_parts: bool = False,
        parts: OutputParts | None = None,
        axes: Mapping[str, int] | None = None,
    ) -> None:
        """Cuts and loads them.

        Args:
            a: the reference.
            b: the other, or what was saved of it.
            pairs: what is compared, in the order of B.
            isolated: whether layers run alone as well.
            histogram: whether histograms are counted.
            metric: the user's own.
            maps: what edits made of values of A, by the tensor's name in B.
            budget: bytes of A's tensors in memory at a time.
            threads: threads inside an operator, 0 for all cores.
            by_parts: whether all samples run through a part before the next one is loaded, for few samples
                of heavy models: the weights of one part are in memory then.
            parts: in which the outputs of A are judged; None: each as a whole.
            axes: the axis of the channels of tensors whose spread is wanted, by the name in B.

        Raises:
            UserError: onnxruntime does not take one of them.
        """
        self._a, self._b, self._axes = a, b, axes or {}
        self._pairs, self._histogram, self._metric = tuple(pairs), histogram, metric
        self._parts = judged_in(a, pairs, parts)
        groups = grouped(a, pairs, budget, WEIGHTS if by_parts else None)
        self._isolated = isolated and isinstance(b, Stage)
        first, second = self._cut(groups)
        if not (can_pass(a, first) and (not isinstance(b, Stage) or can_pass(b, second))):
            groups = [list(pairs)]
            first, second = self._cut(groups)
        self._groups, self._maps = groups, maps or {}
        fed = [set(part.fed) for part in second]
        self._given = [[part.given for part in parts] for parts in (first, second)]
        self._threads, self._first, self._second = threads, first, second
        self._runners = None if by_parts else [self._next() for _ in groups]
        self._needed = [set[str]().union(*fed[place:]) for place in range(len(groups) + 1)]

    def _cut(self, groups: Sequence[Sequence[Matched]]) -> tuple[list[Part], list[Part]]:
        first = parts_of(self._a, [[entry.a for entry in group] for group in groups], None)
        if not isinstance(self._b, Stage):
            return first, []
        matched = {entry.b for entry in self._pairs} if self._isolated else None
        return first, parts_of(self._b, [[entry.b for entry in group] for group in groups], matched)

    def _next(self) -> _Runners:
        """The next part of both; what is loaded is not kept as a model as well."""
        ours = _loaded(self._a, self._first.pop(0), self._threads)
        if not isinstance(self._b, Stage):
            return ours, None
        return ours, _loaded(self._b, self._second.pop(0), self._threads)

    def walk(
        self,
        samples: Iterable[Sample],
        tell: Callable[[int], None] = lambda done: None,
        pace: Pace = lambda share, samples: None,
    ) -> Walk:
        """Runs the samples.

        Args:
            samples: read once.
            tell: hears how many are done.
            pace: where all samples run through a part before the next one, hears how far that is; the work
                of a part is told by the bytes of its tensors.

        Raises:
            UserError: a stage does not run on a sample, or there is none.
        """
        ends = {part.name: part for some in self._parts.values() for part in some}
        names = [*dict.fromkeys([*(entry.b for entry in self._pairs), *ends])]
        measured = {name: Measured(self._meter(), self._meter()) for name in names}
        means = Means(MEANS, ends)
        spreads = {name: ChannelSpread(axis) for name, axis in self._axes.items()}
        walk = Walk(measured, means, groups=len(self._groups), spreads=spreads)
        begun = (self._begun(place, sample) for place, sample in enumerate(samples))
        if self._runners is None:
            passed = self._part_by_part(begun, walk, pace)
        else:
            passed = self._one_by_one(begun, walk)
        for passing in passed:
            for name in self._a.inputs:
                walk.widen(name, np.asarray(passing.sample.feeds[name]))
                if name in walk.spreads:
                    walk.spreads[name].add(np.asarray(passing.sample.feeds[name]))
            self._judge(passing.sample, walk, passing.ends)
            walk.samples = passing.place + 1
            tell(walk.samples)
        if not walk.samples:
            raise UserError("there are zero samples to compare with", hint="check the data")
        return walk

    def _meter(self) -> TensorMeter:
        return TensorMeter(histogram=self._histogram, metric=self._metric)

    def _begun(self, place: int, sample: Sample) -> _Passing:
        ours: dict[str, np.ndarray] = dict(sample.feeds)
        theirs = dict(ours) if isinstance(self._b, Stage) else dict(self._saved(place))
        return _Passing(place, sample, ours, theirs)

    def _one_by_one(self, samples: Iterable[_Passing], walk: Walk) -> Iterator[_Passing]:
        for passing in samples:
            for number, runners in enumerate(self._runners or ()):
                self._pass(number, runners, passing, walk)
            yield passing

    def _part_by_part(self, samples: Iterable[_Passing], walk: Walk, pace: Pace) -> Iterator[_Passing]:
        everyone = list(samples)
        work = [max(1, sum(_bytes(self._a, entry) for entry in group)) for group in self._groups]
        pace(0.0, len(everyone))
        for number, group in enumerate(self._groups):
            runners = self._next()
            for place, passing in enumerate(everyone, 1):
                self._pass(number, runners, passing, walk)
                done = sum(work[:number]) + work[number] * place / len(everyone)
                pace(done / sum(work), len(everyone))
            del runners  # before the next ones are loaded
            walk.means.settle(entry.b for entry in group)
        yield from everyone

    def _pass(self, number: int, runners: _Runners, one: _Passing, walk: Walk) -> None:
        """Runs a sample through a part of both."""
        group, (first, second) = self._groups[number], runners
        one.ours.update(_run(first, one.ours, {}, self._a.name, one.sample)[0])
        one.fed.update((entry.b, self._edited(entry.b, as_tensor(one.ours[entry.a]))) for entry in group)
        alone: dict[str, np.ndarray] = {}
        if second is not None:
            try:
                values, alone = _run(second, one.theirs, one.fed, self._b.name, one.sample)
            except UserError as error:
                if one.place == 0 and self._isolated:
                    raise NotAlone(str(error), hint=error.hint) from error
                raise
            one.theirs.update(values)
        for entry in group:
            if entry.b in walk.spreads:
                walk.spreads[entry.b].add(one.fed[entry.b])
            other = as_tensor(one.theirs[entry.b])
            ours, theirs_alone = one.fed[entry.b], alone.get(entry.b)
            nsr = self._add(one.sample, entry.b, ours, other, theirs_alone, walk)
            for part in self._parts.get(entry.b, ()) if nsr is not None else ():
                if part.axis is not None:
                    of_part = None if theirs_alone is None else part.of(theirs_alone)
                    nsr = self._add(one.sample, part.name, part.of(ours), part.of(other), of_part, walk)
                one.ends[part.name] = part.of(ours), part.of(other), math.nan if nsr is None else nsr
        rest = [entry for later in self._groups[number + 1 :] for entry in later]
        given_a, given_b = (parts[number + 1 :] for parts in self._given)
        _drop(one.ours, given_a, {entry.a for entry in rest})
        if second is not None:
            _drop(one.theirs, given_b, {entry.b for entry in rest})
        for name in [name for name in one.fed if name not in self._needed[number + 1]]:
            del one.fed[name]

    def _edited(self, name: str, values: np.ndarray) -> np.ndarray:
        return self._maps[name](values) if name in self._maps else values

    def _saved(self, place: int) -> Mapping[str, np.ndarray]:
        assert isinstance(self._b, Saved)
        if place >= len(self._b.outputs):
            raise UserError(
                f"{self._b.name!r} holds outputs of {len(self._b.outputs)} samples, and there are more",
                hint="give the inputs that polygraphy saved with --save-inputs, or --samples",
            )
        return self._b.outputs[place]

    def _add(
        self, sample: Sample, name: str, ours: np.ndarray, theirs: np.ndarray, alone: np.ndarray | None,
        walk: Walk,
    ) -> float | None:  # fmt: skip
        """Adds a tensor, or a part of an output, of a sample; its noise-to-signal ratio.

        None where it is no float in A, NaN where it has no power there, or another shape in B.
        """
        measured = walk.found[name]
        if not is_real(ours.dtype):
            return None
        operand = Operand.of(ours, histogram=self._histogram)
        walk.means.add(name, operand)
        walk.widen(name, operand.values)
        if operand.finite is not None and not operand.finite.all() and measured.unborn is None:
            measured.unborn = sample
        apart = measured.accumulated.add(operand, theirs)
        if math.isinf(apart) and measured.broken is None:
            measured.broken = sample
        if alone is not None:
            noise = measured.isolated.add(operand, as_tensor(alone))
            if math.isinf(noise) and measured.born is None:
                measured.born = sample
        return apart / operand.power if operand.power > 0 and math.isfinite(operand.power) else math.nan

    def _judge(
        self,
        sample: Sample,
        walk: Walk,
        values: Mapping[str, tuple[np.ndarray, np.ndarray, float]],
    ) -> None:
        """Keeps the outputs of the sample that is furthest off."""
        ratios = [nsr for _, _, nsr in values.values() if not math.isnan(nsr)]
        if not ratios:
            return
        ratio = sum(ratios) / len(ratios)
        level = -power_db(ratio)
        if walk.worst is None or level < walk.worst.sqnr_db:
            ends = {name: (ours.copy(), theirs.copy()) for name, (ours, theirs, _) in values.items()}
            walk.worst = WorstSample(sample.index, sample.where, level, ends)


def judged_in(
    a: Stage, pairs: Sequence[Matched], parts: OutputParts | None
) -> dict[str, tuple[OutputPart, ...]]:
    """The parts of the outputs of A that are compared, by their names in B and under these.

    Args:
        a: the reference.
        pairs: what is compared.
        parts: in which the outputs of A are judged; None: each as a whole.
    """
    judged = OutputParts.of(a.outputs) if parts is None else parts.only(a.outputs)
    return {
        entry.b: tuple(replace(part, output=entry.b) for part in judged.only([entry.a]).parts)
        for entry in pairs
        if entry.a in a.outputs
    }


def _drop(values: dict[str, np.ndarray], later: Sequence[Sequence[str]], wanted: set[str]) -> None:
    """Forgets what no later part reads, and what is not compared later."""
    needed = wanted.union(*later)
    for name in [name for name in values if name not in needed]:
        del values[name]


def _loaded(stage: Stage, part: Part, threads: int) -> PartRunner:
    try:
        return PartRunner(stage, part, threads)
    except RunError as error:
        raise UserError(
            f"onnxruntime does not load {stage.name!r}: {error}",
            hint=error.hint or "see whether onnxruntime runs the file by itself: onnxq compare A A",
        ) from error


def _run(
    runner: PartRunner,
    values: Mapping[str, np.ndarray],
    fed: Mapping[str, np.ndarray],
    name: str,
    sample: Sample,
) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    try:
        return runner.run(values, fed)
    except RunError as error:
        raise UserError(
            f"{name!r} does not run on {sample.where}: {error}",
            hint="check the sample's sizes and values against what the model expects",
        ) from error
