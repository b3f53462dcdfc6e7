"""The layers: what each runs in and why, its scales and ranges, errors, kernels, weights, neighbours."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from typing import Any

from onnxq.analysis.reports import number, part_of
from onnxq.base.grouped import grouped
from onnxq.documents.accuracy import GoalPart, GoalSearch
from onnxq.documents.analysis import Analysis, ErrorLine, Figures, LayerError, LayerErrors, ShortFigures
from onnxq.documents.calibration import CalibrationPart, DrawnHistogram, TensorMoments, Threshold
from onnxq.documents.plan import PlanPart
from onnxq.documents.repair import RepairPart
from onnxq.documents.report import Report
from onnxq.graph.outline import NodeOutline
from onnxq.page.kernels import KernelRow
from onnxq.page.words import counted, say
from onnxq.quant.plan import KeptFloat

Level = float | str | None
"""A level in dB: infinities are the texts "inf" and "-inf"."""


@dataclass(frozen=True, slots=True)
class LayerLine:
    """A layer, as a row of the table.

    Attributes:
        name: its node.
        op: its operator, "" where the report does not say it.
        dtype: the type of what it gives in the float model.
        shape: the shape of that.
        planned: by the plan its number format, where it reads pairs, or `float`; "" where it says nothing.
        compiled: what it runs in by the engine, "" where nobody knows.
        because: why it is in float, or why its input has a pair.
        code: a word for that, for filters.
        macs: its multiply-accumulates, None where they are not known.
        weights: the shape of its weights, "" for none.
        tensors: the places, in `LayersView.tensors`, of the pairs that it reads.
        kernels: the places, in `LayersView.kernels`, of the kernels that list it.
        moved: bytes that these read and write.
        clip: its input's threshold over its greatest magnitude, the least of several; None for none.
        isolated: SQNR of the layer alone, dB; of an analysis.
        accumulated: SQNR of all up to it, dB; of an analysis.
        noise: what its noise alone leaves of the outputs by the noise model, dB about the mean; of an
            analysis, or of a search for a goal.
        gain: what leaving it in float for a goal gains, dB.
        causes: what is suspicious about it; of an analysis.
        node: its place in `LayersView.graph`, -1 where it is not there.
    """

    name: str
    op: str
    dtype: str
    shape: str
    planned: str
    compiled: str
    because: str
    code: str
    macs: float | None
    weights: str
    tensors: tuple[int, ...]
    kernels: tuple[int, ...]
    moved: float
    clip: float | None
    isolated: Level
    accumulated: Level
    noise: Level
    gain: float | None
    causes: tuple[str, ...]
    node: int


@dataclass(frozen=True, slots=True)
class TensorLine:
    """A quantized tensor.

    Attributes:
        name: its name.
        kind: `activation` or `weight`.
        because: why it has a pair.
        scale: of an activation; None for a scale a channel, and where it is not known.
        axis: the channel axis of a weight, None for one scale.
        low: the least value that was seen.
        high: the greatest.
        amax: the threshold: its codes cover as much to both sides.
        range_because: what found it.
        group: its scale group, by id.
        mean: its mean.
        deviation: the root of its variance.
        top: the upper end of the histogram.
        counts: the histogram's counts, as text; "" for none.
        channels: how many channels a weight has, 0 for what has one scale.
        scales: some of their scales, sorted, as text.
        octaves: of an activation all channels (null) and those with the greatest values: which one, the power
            of two with which the first octave begins, and the counts of octaves, as text.
        widest: of a weight the channel with the greatest value; None where it is not known.
        widest_counts: the counts of that channel, as text; "" for none.
        edited: the repair whose edit the scale is of; "" where it is of the tensor as it is.
        before: whether what was seen, and the histogram, are of the tensor before that edit.
    """

    name: str
    kind: str
    because: str
    scale: float | None
    axis: int | None
    low: float | None
    high: float | None
    amax: float | None
    range_because: str
    group: int
    mean: float | None
    deviation: float | None
    top: float | None
    counts: str
    channels: int
    scales: str
    octaves: tuple[tuple[int | None, int, str], ...]
    widest: int | None
    widest_counts: str
    edited: str
    before: bool


@dataclass(frozen=True, slots=True)
class GroupLine:
    """Tensors with one scale.

    Attributes:
        id: its number.
        tensors: its members.
        reasons: why they share.
    """

    id: int
    tensors: tuple[str, ...]
    reasons: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class GraphLine:
    """A node of the graph, for the drawing around a layer.

    Attributes:
        name: its name.
        op: its operator.
        reads: the places of the nodes that it reads.
    """

    name: str
    op: str
    reads: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class LayersView:
    """The section.

    Attributes:
        layers: the rows, in the order of the model.
        tensors: all quantized tensors.
        groups: those of several tensors.
        kernels: the engine's.
        graph: the nodes.
        analysed: whether errors of layers are known.
        errors: on how many samples they were measured, or why they were not.
    """

    layers: tuple[LayerLine, ...]
    tensors: tuple[TensorLine, ...]
    groups: tuple[GroupLine, ...]
    kernels: tuple[KernelRow, ...]
    graph: tuple[GraphLine, ...]
    analysed: bool
    errors: str

    @property
    def packed(self) -> dict[str, Any]:
        """All of it as plain data: each list as the names of its fields, once, and rows of values."""
        lists: dict[str, tuple[type, Sequence[Any]]] = {
            "layers": (LayerLine, self.layers),
            "tensors": (TensorLine, self.tensors),
            "groups": (GroupLine, self.groups),
            "kernels": (KernelRow, self.kernels),
            "graph": (GraphLine, self.graph),
        }
        return {name: _packed(kind, rows) for name, (kind, rows) in lists.items()}


def _packed(kind: type, rows: Sequence[Any]) -> dict[str, Any]:
    names = [field.name for field in fields(kind)]
    return {"fields": names, "rows": [[_plain(getattr(row, name)) for name in names] for row in rows]}


def _plain(value: Any) -> Any:
    if isinstance(value, float):
        if value.is_integer():
            return int(value)
        return float(f"{value:.5g}") if math.isfinite(value) else None
    return value


def layers_view(
    report: Report, analysis: Analysis | LayerErrors | None, kernels: Sequence[KernelRow]
) -> LayersView | None:
    """The layers of a report; None where it has none.

    Args:
        report: the report.
        analysis: the errors of the layers, or None.
        kernels: the engine's.
    """
    lines = _Known(report, analysis, kernels)
    layers = tuple(lines.rows())
    if not layers:
        return None
    return LayersView(
        layers,
        lines.tensors,
        _groups(part_of(PlanPart, report.plan)),
        tuple(kernels),
        lines.graph,
        bool(lines.errors),
        _said(analysis),
    )


def _said(analysis: Analysis | LayerErrors | None) -> str:
    if analysis is None:
        return say("layer-errors.none")
    if isinstance(analysis, LayerErrors) and analysis.why_not:
        return say("layer-errors.not", why=analysis.why_not)
    return say("layer-errors", samples=counted(analysis.samples or 0, "sample"))


def _groups(plan: PlanPart) -> tuple[GroupLine, ...]:
    return tuple(GroupLine(one.id, one.tensors, one.reasons) for one in plan.groups if len(one.tensors) > 1)


def _level(value: float | None) -> Level:
    level = number(value)
    return level if level is None or math.isfinite(level) else ("inf" if level > 0 else "-inf")


class _Known:
    """What a report says of layers, by node."""

    def __init__(
        self, report: Report, analysis: Analysis | LayerErrors | None, kernels: Sequence[KernelRow]
    ) -> None:
        plan, self._kernels, self._engine = part_of(PlanPart, report.plan), kernels, report.engine
        self._formats = [site.format for site in plan.sites]
        self._kept = {one.node: one for one in plan.kept_float}
        self._planned = {one.node: one for one in plan.layers}
        self._not_int8 = frozenset(report.engine.not_int8)
        self._outline = report.outline or ()
        self._places = {one.name: place for place, one in enumerate(self._outline)}
        last = len(self._outline)
        self.graph = tuple(
            GraphLine(one.name, one.op, tuple(place for place in one.reads if 0 <= place < last))
            for one in self._outline
        )
        self.tensors = tuple(_tensors(report))
        self._reads = grouped(
            (edge.node, place) for place, site in enumerate(plan.sites) for edge in site.readers
        )
        self._in_kernels = grouped(
            (node, place) for place, kernel in enumerate(kernels) for node in kernel.nodes
        )
        rows: Sequence[LayerError | ErrorLine] = () if analysis is None else analysis.rows
        self.errors = {row.layer: row for row in rows if row.layer}
        search = part_of(GoalSearch, part_of(GoalPart, report.goal).search)
        self._gains = {one.node: one.gain_db for one in search.floats}
        self._noise = {one.name: one.alone_db for one in search.noise.layers}

    def rows(self) -> Iterator[LayerLine]:
        """Layers, and what else reads pairs, stays in float or was analysed, in the order of the model."""
        nodes = dict.fromkeys([*self._planned, *self._kept, *self._reads, *self.errors])
        last = len(self._outline)
        for name in sorted(nodes, key=lambda name: self._places.get(name, last)):
            if name:
                yield self._row(name)

    def _row(self, name: str) -> LayerLine:
        planned, kept = self._planned.get(name), part_of(KeptFloat, self._kept.get(name))
        error, place = self.errors.get(name), self._places.get(name, -1)
        node = part_of(NodeOutline, self._outline[place] if place >= 0 else None)
        read = tuple(dict.fromkeys(self._reads.get(name, ())))
        pairs = [self.tensors[at] for at in read]
        kernels = tuple(self._in_kernels.get(name, ()))
        unplanned = "float" if name in self._kept else self._formats[read[0]] if read else ""
        format = unplanned if planned is None else planned.format
        clips = [clip for one in pairs if (clip := _clip(one)) is not None]
        ops = (one.op for one in (planned, kept, node, error) if one is not None)
        return LayerLine(
            name=name,
            op=next(filter(None, ops), ""),
            dtype=node.dtype,
            shape=node.shape,
            planned=format,
            compiled=self._compiled(name, format, kernels),
            because=kept.because or next((one.because for one in pairs), ""),
            code=kept.code,
            macs=None if planned is None else number(planned.macs),
            weights=node.weights,
            tensors=read,
            kernels=kernels,
            moved=sum(self._kernels[at].moved for at in kernels),
            clip=min(clips, default=None),
            isolated=_level(_sqnr(error.isolated) if error is not None else None),
            accumulated=_level(_sqnr(error.accumulated) if error is not None else None),
            noise=_level(error.predicted_db if isinstance(error, LayerError) else self._noise.get(name)),
            gain=number(self._gains.get(name)),
            causes=() if error is None else tuple(cause.text for cause in error.causes),
            node=place,
        )

    def _compiled(self, name: str, format: str, kernels: tuple[int, ...]) -> str:
        if self._engine.status != "compiled" or self._engine.unread:
            return ""
        if name in self._planned and format not in ("", "float") and name not in self._not_int8:
            return format
        own = [self._kernels[at] for at in kernels]
        products = [one for one in own if one.kind != "kgen"]
        return (products or own)[0].precision if own else ""


def _sqnr(figures: Figures | ShortFigures | None) -> float | None:
    return None if figures is None else figures.sqnr_db


def _clip(tensor: TensorLine) -> float | None:
    if (
        tensor.kind != "activation"
        or tensor.before
        or tensor.amax is None
        or tensor.low is None
        or tensor.high is None
    ):
        return None
    most = max(abs(tensor.low), abs(tensor.high))
    return tensor.amax / most if 0 < most < math.inf else None


def _tensors(report: Report) -> Iterator[TensorLine]:
    calibration, profiles = part_of(CalibrationPart, report.calibration), report.weight_scales or {}
    errors = part_of(LayerErrors, report.layer_errors)
    edits = {edit.tensor: edit.kind for edit in part_of(RepairPart, report.repair).edits}
    for site in part_of(PlanPart, report.plan).sites:
        name = site.tensor
        low, high = calibration.ranges.get(name, (None, None))
        threshold = part_of(Threshold, calibration.thresholds.get(name))
        seen = part_of(TensorMoments, calibration.statistics.get(name))
        variance, profile = number(seen.variance), profiles.get(name)
        drawn = calibration.histograms.get(name) or (None if profile is None else profile.drawn)
        drawn = part_of(DrawnHistogram, drawn)
        yield TensorLine(
            name=name,
            kind=site.kind,
            because=site.because,
            scale=number(calibration.scales.get(name)),
            axis=site.axis,
            low=number(low),
            high=number(high),
            amax=number(threshold.amax),
            range_because=threshold.because,
            group=site.group,
            mean=number(seen.mean),
            deviation=None if variance is None or variance < 0 else math.sqrt(variance),
            top=number(drawn.top),
            counts=drawn.counts,
            channels=0 if profile is None else profile.channels,
            scales="" if profile is None else profile.values,
            octaves=tuple((one.channel, one.first, one.counts) for one in errors.channels.get(name, ())),
            widest=None if profile is None else profile.widest,
            widest_counts="" if profile is None else profile.of_widest,
            edited=calibration.before.get(name) or edits.get(name, ""),
            before=name in calibration.before,
        )
