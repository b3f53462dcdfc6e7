"""Which nodes of a stage are suspicious: where values break, and what becomes of pairs."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import onnx

from onnxq.analysis.changes import Recorded
from onnxq.analysis.layerwise import Walk
from onnxq.analysis.match import Matched
from onnxq.analysis.parts import PartRunner, parts_of
from onnxq.analysis.segments import Affine, Segment, affine_of, segment_of
from onnxq.analysis.stages import Stage
from onnxq.base.grouped import grouped
from onnxq.base.reason import noted
from onnxq.documents.analysis import Cause, Figures
from onnxq.graph.order import reads
from onnxq.graph.pairs import IN_SIGHT
from onnxq.judge.comparable import as_tensor, is_real
from onnxq.run.ort import RunError

SEVERITY = ("nonfinite", "swapped", "weights", "bias", "scale", "clipped", "unquantized", "unexplained")
"""The codes of causes, the worst first."""

_AT_ONCE = 1 << 18  # weights that are compared at a time
_ROUNDED = 1.5  # steps: half of one is rounding, and as much again its own arithmetic
_FITTED = 3.0  # steps that weights which were fitted to data may be off
_NOTHING, _TINY = 2.0**-20, float(np.finfo(np.float64).tiny)  # of the greatest weight; of all numbers
_FLOAT = 16.0  # units in the last place of a float: what folding rounds
_TOO_WIDE, _TOO_NARROW = 5.0, 0.2  # of a range: what is beyond is no calibration's choice
_ABOVE_DB, _LOW_DB = 20.0, 30.0  # above the error of its kind; and what is better is no fault
_PEERS = 5


def severity(causes: Sequence[Cause]) -> int:
    """The place of the worst of some causes; of none, behind all."""
    return min((SEVERITY.index(cause.code) for cause in causes), default=len(SEVERITY))


class Suspicions:
    """What is suspicious about the layers of B."""

    def __init__(
        self,
        a: Stage,
        b: Stage,
        pairs: Sequence[Matched],
        walk: Walk,
        figures: Mapping[str, Figures],
        quantizers: Mapping[str, Sequence[Quantizer]],
        told: Recorded,
    ) -> None:
        """Of what a walk found.

        Args:
            a: the reference.
            b: the other.
            pairs: the matched tensors.
            walk: what was measured of them.
            figures: those of each layer alone, by the tensor's name in B.
            quantizers: what quantizes each tensor of B.
            told: what the report beside B tells.
        """
        self._a, self._b, self._walk, self._figures = a, b, walk, figures
        self._fitted, self._edited = told.fitted, frozenset(told.maps)
        self._to_a = {entry.b: entry.a for entry in pairs}
        self._to_b = {entry.a: entry.b for entry in pairs}
        self._by_node = {one.node: one for several in quantizers.values() for one in several}
        self._in_b, self._in_a = frozenset(self._to_a), frozenset(self._to_a.values())
        self._shared = self._ranges_by_scale(quantizers)
        self._segments = {entry.b: segment_of(b, entry.b, self._in_b) for entry in pairs}
        self._levels = self._levels_by_kind()

    def of(self, entry: Matched) -> tuple[Cause, ...]:
        """Those of the layer that gives a tensor, the worst first."""
        segment = self._segments[entry.b]
        causes = self._nonfinite(entry.b, segment)
        causes += self._weights(entry, segment)
        causes += self._scales(segment)
        causes += self._unquantized(segment)
        if not causes:
            causes += self._unexplained(segment)
        return tuple(sorted(causes, key=lambda cause: SEVERITY.index(cause.code)))

    # -- values --------------------------------------------------------------------------------

    def _nonfinite(self, tensor: str, segment: Segment) -> list[Cause]:
        """Where NaN or Inf is made: of A's values, or of B's own that are finite."""
        measured = self._walk.found[tensor]
        if measured.born is not None:
            count, sample, of = self._figures[tensor].nonfinite, measured.born, "A's values"
        elif measured.broken is not None and not any(
            name in self._walk.found and self._walk.found[name].broken is not None for name in segment.reads
        ):
            count, sample, of = measured.accumulated.nonfinite, measured.broken, "B's values"
        else:
            return []
        return [Cause("nonfinite", noted("suspected.nonfinite", of=of, count=count, where=sample.where))]

    def _levels_by_kind(self) -> dict[tuple[str, bool], list[float]]:
        return grouped(
            (self._kind(self._segments[name]), figures.sqnr_db)
            for name, figures in self._figures.items()
            if figures.sqnr_db is not None and figures.sqnr_db < math.inf
        )

    def _kind(self, segment: Segment) -> tuple[str, bool]:
        """What a layer is compared with: of one operator, quantized in it or not."""
        quantized = any(node.name in self._by_node for node in segment.nodes)
        return self._b.operator(self._b.source(segment.tensor)), quantized

    def _unexplained(self, segment: Segment) -> list[Cause]:
        figures = self._figures.get(segment.tensor)
        level = figures.sqnr_db if figures is not None else None
        operator, quantized = self._kind(segment)
        peers = self._levels.get((operator, quantized), [])
        if level is None or len(peers) < _PEERS or level > _LOW_DB:
            return []
        usual = statistics.median(peers)
        if level > usual - _ABOVE_DB:
            return []
        kind = f"{'quantized' if quantized else 'float'} {operator}"
        return [
            Cause(
                "unexplained",
                noted("suspected.unexplained", level=level, peers=len(peers), kind=kind, usual=usual),
            )
        ]

    # -- weights -------------------------------------------------------------------------------

    def _weights(self, entry: Matched, segment: Segment) -> list[Cause]:
        if segment.layer is None or not self._edited.isdisjoint((entry.b, *segment.reads)):
            return []  # others on purpose
        twin = segment_of(self._a, entry.a, self._in_a)
        if {self._b.base(n) for n in segment.reads} != {
            self._b.base(self._to_b.get(n, n)) for n in twin.reads
        }:  # they are not made of the same
            return []
        ours, theirs = affine_of(self._a, twin), affine_of(self._b, segment)
        if ours is None or theirs is None or ours.weights.shape != theirs.weights.shape:
            return []
        return self._differences(entry.b, ours, theirs, segment)

    def _differences(self, tensor: str, ours: Affine, theirs: Affine, segment: Segment) -> list[Cause]:
        allowed = self._allowed(ours, theirs)
        limit = _ROUNDED if not self._fitted else _FITTED
        wrong, most = np.zeros(ours.weights.shape, bool), 0.0
        each = max(1, _AT_ONCE // max(1, ours.weights[:1].size))
        for start in range(0, len(wrong), each):  # large weights would be in memory many times
            block = slice(start, start + each)
            one, other = ours.weights[block], theirs.weights[block]
            steps = np.abs(other - one) / (allowed[block] if len(allowed) > 1 else allowed)
            if theirs.codes is not None:  # what is at an end of its codes is clipped, or rounded to the end
                clipped = theirs.codes[block] & (np.abs(one) > np.abs(other))
                steps[clipped & (np.sign(one) == np.sign(other))] = 0.0
            wrong[block] = steps > limit
            most = max(most, float(steps.max(initial=0.0)))
        if not wrong.any():
            return self._bias(tensor, ours, theirs, segment)
        swapped = _swapped(ours.weights, theirs.weights, wrong)
        if swapped is not None:
            kind, first, second = swapped
            return [Cause("swapped", noted("suspected.swapped", kind=kind, first=first, second=second))]
        code = "suspected.weights" if theirs.step is not None else "suspected.weights-float"
        said = noted(
            code, wrong=int(wrong.sum()), values=wrong.size, most=most, channel=int(np.argwhere(wrong)[0][0])
        )
        return [Cause("weights", said)]

    def _allowed(self, ours: Affine, theirs: Affine) -> np.ndarray:
        """A step of each weight; where there are none, what is a rounding of the narrower type.

        Of channels that are next to nothing beside the others nobody asks: half precision has no number for
        them.
        """
        half = self._a.half or self._b.half
        unit = 2.0**-7 if half else 2.0**-23
        least = max(
            _NOTHING * float(max(ours.weights.max(), -ours.weights.min())), 2.0**-24 if half else 0.0, _TINY
        )
        if theirs.step is not None:
            base = theirs.step if ours.step is None else np.maximum(theirs.step, ours.step)
            return np.asarray(np.maximum(base, least))
        axes = tuple(range(1, ours.weights.ndim))
        peak = np.abs(ours.weights).max(axis=axes, keepdims=True)
        return np.asarray(np.maximum(_FLOAT * unit * peak, least))

    def _bias(self, tensor: str, ours: Affine, theirs: Affine, segment: Segment) -> list[Cause]:
        """Where the constant part alone explains most of an error that is not small."""
        figures = self._figures.get(tensor)
        if figures is None or not figures.mse or figures.sqnr_db is None or figures.sqnr_db > 30:
            return []
        apart = theirs.bias - ours.bias
        power = float(np.mean(apart**2))
        if power < 0.5 * figures.mse:
            return []
        worst = int(np.abs(apart).argmax())
        return [
            Cause(
                "bias",
                noted(
                    "suspected.bias",
                    most=float(np.abs(apart).max()),
                    channel=worst,
                    share=min(1.0, power / figures.mse),
                ),
            )
        ]

    # -- scales --------------------------------------------------------------------------------

    def _ranges_by_scale(
        self, quantizers: Mapping[str, Sequence[Quantizer]]
    ) -> dict[tuple[float, float], tuple[float, float]]:
        """The range of all tensors that one scale is of."""
        ranges: dict[tuple[float, float], tuple[float, float]] = {}
        for tensor, several in quantizers.items():
            low, high = self._walk.ranges.get(tensor, (0.0, 0.0))
            for one in several:
                ends = ranges.get((one.low, one.high), (math.inf, -math.inf))
                ranges[one.low, one.high] = (min(ends[0], low), max(ends[1], high))
        return ranges

    def _scales(self, segment: Segment) -> list[Cause]:
        causes = []
        for node in segment.nodes:
            grid = self._by_node.get(node.name)
            if grid is None or grid.tensor not in self._walk.ranges:
                continue
            low, high = self._shared[grid.low, grid.high]
            reach = max(abs(low), abs(high))
            if not 0 < reach < math.inf:
                continue
            held = max(grid.high / high if high > 0 else 0.0, grid.low / low if low < 0 else 0.0)
            narrow = min(grid.high / high if high > 0 else math.inf, grid.low / low if low < 0 else math.inf)
            if grid.low < 0 and grid.high > 0:  # around zero, both ends follow from the farther one
                held = min(held, max(grid.high, -grid.low) / reach)
                narrow = max(grid.high, -grid.low) / reach
            of = {"tensor": grid.tensor, "step": grid.step, "low": low, "high": high}
            if held > _TOO_WIDE:
                causes.append(Cause("scale", noted("suspected.scale", times=held, **of)))
            elif narrow < _TOO_NARROW:
                causes.append(Cause("clipped", noted("suspected.clipped", times=1 / narrow, **of)))
        return causes

    def _unquantized(self, segment: Segment) -> list[Cause]:
        """A layer of quantized weights that reads what is not quantized."""
        node = segment.layer
        if node is None or node.domain:
            return []
        quantized = [self._b.pairs.behind(name, IN_SIGHT) is not None for name in node.input[:2]]
        fixed = [name in self._b.fixed for name in node.input[:2]]
        for place in range(2):
            if fixed[place] and quantized[place] and not quantized[1 - place]:
                name = self._b.base(node.input[1 - place])
                return [Cause("unquantized", noted("suspected.unquantized", tensor=name))]
        return []


def _swapped(ours: np.ndarray, theirs: np.ndarray, wrong: np.ndarray) -> tuple[str, int, int] | None:
    """Two channels that stand in each other's place: which kind, and which ones."""
    for axis, kind in ((0, "output"), (1, "input")):
        if wrong.ndim <= axis:
            continue
        others = tuple(n for n in range(wrong.ndim) if n != axis)
        channels = np.flatnonzero(wrong.any(axis=others))
        if len(channels) != 2:
            continue
        one, other = (int(c) for c in channels)
        left, right = (np.take(ours, c, axis) for c in (one, other))
        there = (np.take(theirs, other, axis), np.take(theirs, one, axis))
        apart = math.hypot(float(np.linalg.norm(left - there[0])), float(np.linalg.norm(right - there[1])))
        if apart < 0.2 * float(np.linalg.norm(left - right)) * math.sqrt(2):
            return kind, one, other
    return None


# Which operator makes NaN or infinities first: the values of nodes in front of a tensor, on one sample.


def first_maker(
    stage: Stage, tensor: str, near: list[onnx.NodeProto], feeds: Mapping[str, np.ndarray]
) -> tuple[onnx.NodeProto, str] | None:
    """The first of some nodes that gives a value that is not finite though what it reads is.

    Args:
        stage: the stage.
        tensor: what is not finite.
        near: the nodes that are asked.
        feeds: the sample.

    Returns:
        The node and its tensor; None where none is found, or it does not run.
    """
    names = dict.fromkeys(
        name
        for node in near
        for name in (*reads(node), *node.output)
        if name in stage.maker and name not in stage.fixed and stage.is_float(name)
    )
    (part,) = parts_of(stage, [[*names, tensor]], None)
    try:
        values, _ = PartRunner(stage, part).run(feeds, {})
    except RunError:
        return None
    for node in near:
        for name in node.output:
            sound = all(_finite(values[read]) for read in reads(node) if read in values)
            if sound and name in values and not _finite(values[name]):
                return node, name
    return None


def _finite(value: np.ndarray) -> bool:
    array = as_tensor(value)
    return not is_real(array.dtype) or bool(np.isfinite(array).all())


# The pairs of a stage: what quantizes which tensor, with which steps.


@dataclass(frozen=True, slots=True)
class Quantizer:
    """A QuantizeLinear with constant scales.

    Attributes:
        node: its name.
        tensor: what it quantizes, casts looked through.
        scale: float64, one or one for each channel.
        low: the least value that it holds, of the channel that holds least.
        high: likewise the greatest.
    """

    node: str
    tensor: str
    scale: np.ndarray
    low: float
    high: float

    @property
    def step(self) -> float:
        """The smallest step."""
        return float(self.scale.min())


def quantizers_of(stage: Stage) -> dict[str, list[Quantizer]]:
    """What quantizes each tensor that is computed or fed, by the tensor's name."""
    quantizers: dict[str, list[Quantizer]] = {}
    for pair in stage.pairs.quantizing:
        source, ends, scales = pair.source, pair.ends, pair.scales
        if source is None or source.name in stage.fixed or ends is None or scales is None:
            continue
        scale = scales.reshape(-1)
        if not scale.size or not (np.isfinite(scale) & (scale > 0)).all():
            continue
        zeros = pair.zero.constant if pair.zero is not None else None
        zero = np.zeros(1) if zeros is None else zeros.astype(np.float64).reshape(-1)
        low, high = ((end - zero) * scale for end in ends)
        tensor = stage.base(source.name)
        made = Quantizer(pair.node.name, tensor, scale, float(low.max()), float(high.min()))
        quantizers.setdefault(tensor, []).append(made)
    return quantizers
