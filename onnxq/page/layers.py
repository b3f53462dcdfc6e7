"""The layers: what each runs in and why, its scales and ranges, errors, kernels, weights, neighbours."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from onnxq.analysis.reports import OpenedReport, names, number, objects, text
from onnxq.page.kernels import KernelRow
from onnxq.page.words import counted

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
        planned: by the plan `int8`, where it reads pairs, or `float`; "" of what the plan says nothing of.
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
        amax: the threshold: int8 covers as much to both sides.
        range_because: what found it.
        group: its scale group, by id.
        mean: its mean.
        deviation: the root of its variance.
        top: the upper end of the histogram.
        counts: the histogram's counts, as text; "" for none.
        channels: how many channels a weight has, 0 for what has one scale.
        scales: some of their scales, sorted, as text.
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
    known = [field.name for field in fields(kind)]
    return {"fields": known, "rows": [[_plain(getattr(row, name)) for name in known] for row in rows]}


def _plain(value: Any) -> Any:
    if isinstance(value, float):
        if value.is_integer():
            return int(value)
        return float(f"{value:.5g}") if math.isfinite(value) else None
    return value


def layers_view(
    report: OpenedReport, analysis: Mapping[str, Any] | None, kernels: Sequence[KernelRow]
) -> LayersView | None:
    """The layers of a report; None where it has none.

    Args:
        report: the report.
        analysis: the document of `onnxq analyze --json`, or None.
        kernels: the engine's.
    """
    known = _Known(report, analysis, kernels)
    layers = tuple(known.rows())
    if not layers:
        return None
    return LayersView(
        layers,
        known.tensors,
        _groups(report),
        tuple(kernels),
        known.graph,
        bool(known.errors),
        _said(analysis),
    )


def _said(analysis: Mapping[str, Any] | None) -> str:
    if analysis is None:
        return "Errors of layers are not in this report."
    if analysis.get("why_not"):
        return f"Errors of layers were not measured: {text(analysis['why_not'])}."
    samples = counted(_whole(analysis.get("samples"), 0), "sample")
    return (
        f"Errors of layers against float, on {samples}: alone, each layer on the float model's values; "
        "accumulated, both models run whole."
    )


def _groups(report: OpenedReport) -> tuple[GroupLine, ...]:
    return tuple(
        GroupLine(_whole(one.get("id")), names(one.get("tensors")), names(one.get("reasons")))
        for one in report.entries("plan", "groups")
        if len(names(one.get("tensors"))) > 1
    )


def _whole(value: Any, otherwise: int = -1) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else otherwise


def _level(value: Any) -> Level:
    found = number(value)
    return found if found is None or math.isfinite(found) else ("inf" if found > 0 else "-inf")


class _Known:
    """What a report says of layers, by node."""

    def __init__(
        self, report: OpenedReport, analysis: Mapping[str, Any] | None, kernels: Sequence[KernelRow]
    ) -> None:
        self._report, self._kernels = report, kernels
        self._kept = report.by("node", "plan", "kept_float")
        self._planned = report.by("node", "plan", "layers")
        self._not_int8 = frozenset(names(report.at("engine", "not_int8")))
        self._outline = report.entries("outline")
        self._places = {text(one.get("name")): place for place, one in enumerate(self._outline)}
        self.graph = tuple(
            GraphLine(
                text(one.get("name")),
                text(one.get("op")),
                tuple(
                    r for r in _listed(one.get("reads")) if isinstance(r, int) and 0 <= r < len(self._outline)
                ),
            )
            for one in self._outline
        )
        self.tensors = tuple(_tensors(report))
        self._reads: dict[str, list[int]] = {}
        for place, site in enumerate(report.entries("plan", "sites")):
            for reader in objects(site.get("readers")):
                self._reads.setdefault(text(reader.get("node")), []).append(place)
        self._in_kernels: dict[str, list[int]] = {}
        for place, kernel in enumerate(kernels):
            for node in kernel.nodes:
                self._in_kernels.setdefault(node, []).append(place)
        rows = analysis.get("rows") if isinstance(analysis, Mapping) else None
        self.errors = {text(row.get("layer")): row for row in objects(rows) if row.get("layer")}
        self._gains = report.by("node", "goal", "search", "float")
        self._noise = report.by("name", "goal", "search", "noise", "layers")

    def rows(self) -> Iterator[LayerLine]:
        """Layers, and what else reads pairs, stays in float or was analysed, in the order of the model."""
        wanted = dict.fromkeys([*self._planned, *self._kept, *self._reads, *self.errors])
        last = len(self._outline)
        for name in sorted(wanted, key=lambda name: self._places.get(name, last)):
            if name:
                yield self._row(name)

    def _row(self, name: str) -> LayerLine:
        planned, kept = self._planned.get(name, {}), self._kept.get(name, {})
        error = self.errors.get(name, {})
        place = self._places.get(name, -1)
        node = self._outline[place] if place >= 0 else {}
        read = tuple(dict.fromkeys(self._reads.get(name, ())))
        pairs = [self.tensors[at] for at in read]
        kernels = tuple(self._in_kernels.get(name, ()))
        format = text(planned.get("format")) or ("float" if kept else "int8" if read else "")
        why = text(kept.get("because")) or next((one.because for one in pairs), "")
        clips = [clip for one in pairs if (clip := _clip(one)) is not None]
        return LayerLine(
            name=name,
            op=text(planned.get("op") or kept.get("op") or node.get("op") or error.get("op")),
            dtype=text(node.get("dtype")),
            shape=text(node.get("shape")),
            planned=format,
            compiled=self._compiled(name, format, kernels),
            because=why,
            code=text(kept.get("code")),
            macs=number(planned.get("macs")),
            weights=text(node.get("weights")),
            tensors=read,
            kernels=kernels,
            moved=sum(self._kernels[at].moved for at in kernels),
            clip=min(clips, default=None),
            isolated=_level(_at(error, "isolated")),
            accumulated=_level(_at(error, "accumulated")),
            noise=_level(error.get("predicted_db", self._noise.get(name, {}).get("alone_db"))),
            gain=number(self._gains.get(name, {}).get("gain_db")),
            causes=tuple(text(one.get("text")) for one in objects(error.get("causes"))),
            node=place,
        )

    def _compiled(self, name: str, format: str, kernels: tuple[int, ...]) -> str:
        if text(self._report.at("engine", "status")) != "compiled" or self._report.at("engine", "unread"):
            return ""
        if name in self._planned and format not in ("", "float") and name not in self._not_int8:
            return format
        own = [self._kernels[at] for at in kernels]
        products = [one for one in own if one.kind != "kgen"]
        return (products or own)[0].precision if own else ""


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _at(row: Mapping[str, Any], which: str) -> Any:
    figures = row.get(which)
    return figures.get("sqnr_db") if isinstance(figures, Mapping) else None


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


def _tensors(report: OpenedReport) -> Iterator[TensorLine]:
    found = {key: report.part("calibration", key) for key in
             ("scales", "ranges", "thresholds", "statistics", "histograms")}  # fmt: skip
    profiles, edits = report.part("weight_scales"), report.by("tensor", "repair", "edits")
    before = report.at("calibration", "before")
    if not isinstance(before, Mapping):  # an earlier version does not say it
        before = edits

    def of(key: str, name: str) -> Mapping[str, Any]:
        value = found[key].get(name)
        return value if isinstance(value, Mapping) else {}

    for site in report.entries("plan", "sites"):
        name = text(site.get("tensor"))
        span, threshold, seen = found["ranges"].get(name), of("thresholds", name), of("statistics", name)
        known = isinstance(span, list) and len(span) == 2
        variance = number(seen.get("variance"))
        drawn, profile = of("histograms", name), profiles.get(name)
        profile = profile if isinstance(profile, Mapping) else {}
        axis = site.get("axis")
        yield TensorLine(
            name=name,
            kind=text(site.get("kind")),
            because=text(site.get("because")),
            scale=number(found["scales"].get(name)),
            axis=axis if isinstance(axis, int) else None,
            low=number(span[0]) if known and span else None,
            high=number(span[1]) if known and span else None,
            amax=number(threshold.get("amax")),
            range_because=text(threshold.get("because")),
            group=_whole(site.get("group")),
            mean=number(seen.get("mean")),
            deviation=None if variance is None or variance < 0 else math.sqrt(variance),
            top=number(drawn.get("top")),
            counts=text(drawn.get("counts")),
            channels=_whole(profile.get("channels"), 0),
            scales=text(profile.get("values")),
            edited=text(before.get(name))
            if isinstance(before.get(name), str)
            else text(edits.get(name, {}).get("kind")),
            before=name in before,
        )
