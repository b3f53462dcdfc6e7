"""Two stages of a model on the same samples, layer by layer: what `onnxq analyze` and `quantize` show."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from onnxq.analysis.asked_rows import Filter, missed
from onnxq.analysis.changes import Recorded
from onnxq.analysis.figures import Metric
from onnxq.analysis.layerwise import NotAlone, Pace, Walk, Walker, WorstSample, judged_in
from onnxq.analysis.match import Matched, Matching, match, match_saved
from onnxq.analysis.octaves import ChannelSpread
from onnxq.analysis.segments import segment_of
from onnxq.analysis.stages import Saved, Stage
from onnxq.analysis.suspicions import Quantizer, Suspicions, first_maker, quantizers_of, severity
from onnxq.base.errors import UserError
from onnxq.base.reason import noted
from onnxq.data.samples import Sample
from onnxq.documents.analysis import (
    Figures,
    LayerError,
    MatchedShare,
    NonFinite,
    OutputBeside,
    ValueBeside,
    WorstOutputs,
)
from onnxq.judge.output_parts import OutputPart, OutputParts
from onnxq.run import ort

DRIFTED_DB = 20.0
"""Under this accumulated SQNR a tensor has drifted, where no threshold says otherwise."""

_SIDE_BY_SIDE = 8
_NAMED = 3


@dataclass(frozen=True, slots=True)
class How:
    """How two stages are compared.

    Attributes:
        isolated: whether each layer is run alone on the reference's values as well.
        histogram: whether histograms are counted, for the divergence.
        metric: the user's own figure.
        bounds: the thresholds, by figure.
        wanted: which rows.
        predict: what the noise model leaves of the outputs by layer, dB, and what to say of it.
        by_parts: whether all samples run through a part before the next one is loaded; see `Walker`.
        parts: in which the outputs of the reference are judged; None: each as a whole.
        pace: hears how far that is; see `Walker.walk`.
        axes: the axis of the channels of tensors whose spread is wanted, by the name in the other.
    """

    isolated: bool = True
    histogram: bool = True
    metric: Metric | None = None
    bounds: Mapping[str, float] = field(default_factory=dict)
    wanted: Filter = field(default_factory=Filter)
    predict: Callable[[], tuple[Mapping[str, float], str]] | None = None
    by_parts: bool = False
    parts: OutputParts | None = None
    pace: Pace = lambda share, samples: None
    axes: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class StageComparison:
    """What two stages say beside each other; the fields are those of `Analysis`.

    Attributes:
        samples: how many were run.
        groups: in how many parts.
        rows: what is suspicious first.
        drift: the first tensor that has drifted.
        drift_db: what counts as that, dB.
        match: what was compared.
        nonfinite: who makes NaN or Inf.
        worst: the worst sample.
        notes: what the reader may not expect.
        ranges: the ends of each compared tensor of the reference, by the name in the other and in its order.
        spreads: the channels of those that were asked for, likewise.
    """

    samples: int
    groups: int
    rows: tuple[LayerError, ...]
    drift: str | None
    drift_db: float
    match: MatchedShare
    nonfinite: tuple[NonFinite, ...]
    worst: WorstOutputs | None
    notes: tuple[str, ...]
    ranges: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    spreads: Mapping[str, ChannelSpread] = field(default_factory=dict)


def beside(
    one: Stage,
    other: Stage | Saved,
    told: Recorded,
    samples: Iterable[Sample],
    how: How,
    tell: Callable[[str, int | None], None],
) -> StageComparison:
    """Runs two stages on samples.

    Args:
        one: the reference.
        other: the other.
        told: what the report of the other says of how it was made.
        samples: read once.
        how: what is measured.
        tell: hears the step, and how many samples are done.

    Raises:
        UserError: they have nothing in common, there are no samples, or one does not run.
    """
    matching = _matching(one, other, told)
    read = iter(samples)
    first = next(read, None)
    if first is None:
        raise UserError("there are zero samples to compare with", hint="check the data")
    one.set_sizes({name: array.shape for name, array in first.feeds.items()})
    isolated = how.isolated

    def walked(alone: bool) -> Walk:
        walker = Walker(
            one, other, matching.pairs, isolated=alone, histogram=how.histogram, metric=how.metric,
            maps=told.maps, by_parts=how.by_parts, parts=how.parts, axes=how.axes,
        )  # fmt: skip
        return walker.walk(itertools.chain([first], read), lambda done: tell("compare", done), how.pace)

    notes = []
    try:
        walk = walked(isolated)
    except NotAlone as error:
        isolated, walk = False, walked(False)
        notes = [noted("not-alone", error=error)]
    if walk.means.left_out and walk.samples > 1:
        notes.insert(0, noted("large-tensors", tensors=len(walk.means.left_out)))
    notes += _not_inside(one, other)
    if how.by_parts:
        ort.give_back()  # what follows reads weights
    tell("causes", None)
    judged = judged_in(one, matching.pairs, how.parts)
    comparison = _Rows(
        one, other, matching, walk, told, how.bounds, isolated and isinstance(other, Stage), judged
    )
    if how.predict is not None:
        comparison.predicted, note = how.predict()
        notes.append(note)
    rows = comparison.rows(how.wanted)
    drift_db = how.bounds.get("sqnr", DRIFTED_DB)
    return StageComparison(
        samples=walk.samples,
        groups=walk.groups,
        rows=rows,
        drift=_drift(rows, drift_db),
        drift_db=drift_db,
        match=_share(matching, how.wanted),
        nonfinite=comparison.nonfinite(),
        worst=None if walk.worst is None else _side_by_side(walk.worst, matching),
        notes=tuple(notes),
        ranges={
            name: walk.ranges[name]
            for name in (*one.inputs, *(entry.b for entry in matching.pairs))
            if name in walk.ranges and math.isfinite(walk.ranges[name][0])
        },
        spreads=walk.spreads,
    )


def _not_inside(one: Stage, other: Stage | Saved) -> list[str]:
    """That nothing in the bodies of nodes is compared, where there are such nodes."""
    stages = [stage for stage in (one, other) if isinstance(stage, Stage)]
    whole = {
        name: node
        for stage in stages
        for name, node in stage.nodes.items()
        if any(attribute.HasField("g") or attribute.graphs for attribute in node.attribute)
    }
    if not whole:
        return []
    ops = " and ".join(dict.fromkeys(node.op_type for node in whole.values()))
    names = ", ".join(map(repr, list(whole)[:_NAMED])) + (", ..." if len(whole) > _NAMED else "")
    return [noted("not-in-bodies", ops=ops, names=names)]


def _matching(one: Stage, other: Stage | Saved, told: Recorded) -> Matching:
    matching = (
        match_saved(one, other) if isinstance(other, Saved) else match(one, other, told.removed, told.renamed)
    )
    if not matching.pairs:
        raise UserError(
            f"{one.name!r} and {other.name!r} have no tensor in common: none of a name, a node or a place",
            hint="give two stages of one model",
        )
    return matching


class _Rows:
    """The rows of what was measured."""

    def __init__(
        self,
        one: Stage,
        other: Stage | Saved,
        matching: Matching,
        walk: Walk,
        told: Recorded,
        bounds: Mapping[str, float],
        isolated: bool,
        parts: Mapping[str, Sequence[OutputPart]],
    ) -> None:
        self._parts = parts
        self._one, self._other, self._matching, self._walk = one, other, matching, walk
        self._bounds, self._isolated = bounds, isolated
        self._quantizers: Mapping[str, Sequence[Quantizer]] = {}
        self._alone: dict[str, Figures] = {}
        self._suspicions: Suspicions | None = None
        self.predicted: Mapping[str, float] = {}
        if isinstance(other, Stage):
            self._quantizers = quantizers_of(other)
        if isolated and isinstance(other, Stage):
            self._alone = {
                name: walk.found[name].isolated.figures(walk.means.power(name), self._step(entry))
                for entry in matching.pairs
                for name in self._names(entry)
            }
            whole = {entry.b: self._alone[entry.b] for entry in matching.pairs}
            self._suspicions = Suspicions(one, other, matching.pairs, walk, whole, self._quantizers, told)

    def _step(self, entry: Matched) -> float | None:
        if not isinstance(self._other, Stage):
            return None
        several = self._quantizers.get(self._other.base(entry.b), ())
        return min((one.step for one in several), default=None)

    def rows(self, wanted: Filter) -> tuple[LayerError, ...]:
        """Those that are wanted, what is suspicious first."""
        rows = [
            self._row(place, entry, name)
            for place, entry in enumerate(self._matching.pairs)
            if wanted.keeps(*self._named(entry))
            for name in self._names(entry)
        ]
        return tuple(sorted(rows, key=_rank))

    def _named(self, entry: Matched) -> tuple[list[str], list[str]]:
        nodes = [self._one.source(entry.a)]
        nodes += [self._other.source(entry.b)] if isinstance(self._other, Stage) else []
        names = [entry.a, entry.b, *(node.name for node in nodes if node is not None)]
        return names, [self._one.operator(node) for node in nodes if node is not None]

    def _names(self, entry: Matched) -> list[str]:
        """What has a row of its own: a tensor, and each part of an output."""
        return list(dict.fromkeys([entry.b, *(part.name for part in self._parts.get(entry.b, ()))]))

    def _row(self, place: int, entry: Matched, name: str) -> LayerError:
        walk, step = self._walk, self._step(entry)
        ours = self._one.source(entry.a)
        theirs = self._other.source(entry.b) if isinstance(self._other, Stage) else ours
        figures = walk.found[name].accumulated.figures(walk.means.power(name), step)
        alone = self._alone.get(name)
        return LayerError(
            layer=theirs.name if theirs is not None else "",
            op=self._one.operator(theirs),
            tensor=name,
            a_tensor=entry.a,
            a_layer=ours.name if ours is not None else "",
            a_op=self._one.operator(ours),
            how=entry.how,
            place=place,
            output=entry.a in self._one.outputs,
            step=step,
            accumulated=figures,
            isolated=alone,
            predicted_db=self.predicted.get(theirs.name if theirs is not None else ""),
            causes=self._suspicions.of(entry) if self._suspicions is not None else (),
            under=missed(self._bounds, figures, alone),
        )

    def nonfinite(self) -> tuple[NonFinite, ...]:
        """The first operator of each model that makes NaN or Inf."""
        entries = []
        matched = {"A": {e.a for e in self._matching.pairs}, "B": {e.b for e in self._matching.pairs}}
        for label, stage in (("A", self._one), ("B", self._other)):
            for entry in self._matching.pairs:
                measured = self._walk.found[entry.b]
                sample = measured.unborn if label == "A" else measured.broken
                if sample is None:
                    continue
                name = entry.a if label == "A" else entry.b
                count = measured.accumulated.skipped if label == "A" else measured.accumulated.nonfinite
                layer, op = "", ""
                if isinstance(stage, Stage):
                    near = segment_of(stage, name, matched[label]).nodes
                    made = first_maker(stage, name, list(near), sample.feeds)
                    if made is not None:
                        layer, op = made[0].name, stage.operator(made[0])
                entries.append(NonFinite(label, name, layer, op, sample.index, sample.where, count))
                break
        return tuple(entries)


def _rank(row: LayerError) -> tuple[int, float, float, int]:
    alone = row.isolated if row.isolated is not None else row.accumulated
    return (
        severity(row.causes),
        math.inf if alone.sqnr_db is None else alone.sqnr_db,
        math.inf if row.accumulated.sqnr_db is None else row.accumulated.sqnr_db,
        row.place,
    )


def _drift(rows: Sequence[LayerError], level: float) -> str | None:
    for row in sorted(rows, key=lambda row: row.place):
        if row.accumulated.sqnr_db is not None and row.accumulated.sqnr_db < level:
            return row.tensor
    return None


def _share(matching: Matching, wanted: Filter) -> MatchedShare:
    by = {how: sum(entry.how == how for entry in matching.pairs) for how in ("name", "node", "structure")}
    left_a, left_b = (
        tuple(one for one in side if wanted.keeps([one.tensor, one.node], [one.op]))
        for side in (matching.left_a, matching.left_b)
    )
    return MatchedShare(len(matching.pairs), by, matching.share, left_a, left_b)


def _side_by_side(worst: WorstSample, matching: Matching) -> WorstOutputs:
    names = {entry.b: entry.a for entry in matching.pairs}
    outputs = []
    for name, (ours, theirs) in worst.outputs.items():  # or parts of outputs
        if ours.shape != theirs.shape or not ours.size:
            continue
        one, other = (array.astype(np.float64) for array in (ours, theirs))
        with np.errstate(invalid="ignore"):
            apart = np.abs(other - one).reshape(-1)
        apart[np.isnan(apart)] = np.inf
        both_nan = (np.isnan(one) & np.isnan(other)).reshape(-1) | (one == other).reshape(-1)
        apart[both_nan] = 0.0
        first = np.argsort(-apart, kind="stable")[:_SIDE_BY_SIDE]
        values = tuple(
            ValueBeside(
                tuple(int(i) for i in np.unravel_index(place, one.shape)),
                float(one.reshape(-1)[place]),
                float(other.reshape(-1)[place]),
            )
            for place in first
        )
        best = int(np.nanargmax(one)) if not np.isnan(one).all() else 0
        theirs_best = int(np.nanargmax(other)) if not np.isnan(other).all() else 0
        outputs.append(OutputBeside(names.get(name, name), tuple(ours.shape), (best, theirs_best), values))
    return WorstOutputs(worst.index, worst.where, worst.sqnr_db, tuple(outputs))
