"""`onnxq analyze`: two stages of a model against each other, layer by layer."""

from __future__ import annotations

import gc
import itertools
import math
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from onnxq.analysis.causes import Suspicions, severity
from onnxq.analysis.changes import Recorded, recorded
from onnxq.analysis.figures import Figures, Metric
from onnxq.analysis.filters import Filter
from onnxq.analysis.layerwise import NotAlone, Walk, Walker, WorstSample
from onnxq.analysis.match import Matched, Matching, match, match_saved
from onnxq.analysis.nonfinite import first_maker
from onnxq.analysis.quantizers import Quantizer, quantizers_of
from onnxq.analysis.rows import (
    Analysis,
    LayerError,
    MatchedShare,
    NonFinite,
    OutputBeside,
    ValueBeside,
    WorstOutputs,
)
from onnxq.analysis.segments import segment_of
from onnxq.analysis.stages import Saved, Stage, open_stage
from onnxq.analysis.thresholds import checked, missed
from onnxq.data.image_options import image_options
from onnxq.data.samples import Sample, named
from onnxq.data.sources import DataSource, Source, open_source
from onnxq.errors import UserError, unknown_name
from onnxq.graph.load import ModelSource
from onnxq.keywords import takes_options
from onnxq.pipeline.predicting import NOTE, predicted_db
from onnxq.pipeline.siblings import report_of, sibling_of
from onnxq.progress import Observer
from onnxq.progress import told as steps
from onnxq.reporting import peak_memory_mb
from onnxq.run import ort
from onnxq.settings import Feeding, ImageOptions, Keywords, Runtime
from onnxq.user_code import CodeForm, load_function

DRIFTED_DB = 20.0
"""Under this accumulated SQNR a tensor has drifted, where no threshold says otherwise."""

SAMPLES = 64
"""How many samples are run at most, where nobody says."""

_SIDE_BY_SIDE = 8
_METRIC = CodeForm(
    "metric script", "def distance(a, b): ...; return a number (a, b: float64 arrays of one shape)",
    "FILE.py:FUNCTION",
)  # fmt: skip

Values = Mapping[str, Any]


@takes_options(Feeding, Runtime)
def analyze(
    a: ModelSource,
    b: ModelSource | None = None,
    data: DataSource | None = None,
    *,
    layers: Sequence[str] = (),
    ops: Sequence[str] = (),
    metric: str | os.PathLike[str] | Metric | None = None,
    thresholds: Mapping[str, float] | None = None,
    samples: int | None = None,
    isolated: bool = True,
    histogram: bool = True,
    noise: bool = False,
    feeding: Feeding | Values | None = None,
    images: ImageOptions | Values | None = None,
    runtime: Runtime | Values | None = None,
    observe: Observer | None = None,
    **options: Any,
) -> Analysis:
    """Compares two stages of a model, tensor by tensor, accumulated and each layer alone.

    Memory knows neither how many layers nor how many samples there are: both models run once a sample, in
    parts whose tensors fit, and what is kept is sums.

    Args:
        a: the reference: the path of a model, or a ModelProto.
        b: the other one, or the `.json` that `polygraphy run --save-outputs` wrote. None: `a` is what onnxq
            quantized; the report beside it names the original, which becomes the reference, and the data.
        data: samples, as `onnxq.quantize` takes them, for the inputs of the reference. None: those that the
            report beside the quantized model names, of which those that calibrated nothing are run.
        layers: globs of the names of nodes and tensors; the rows that fit one. Nothing: all.
        ops: operators; the rows of one of them.
        metric: the user's own figure: a function of a tensor of A and that of B, float64 arrays of one shape,
            which returns a number; or `FILE.py:FUNCTION`, whose Python is run.
        thresholds: the least or greatest value of figures, as `{"sqnr": 20, "isolated.max_steps": 4}`:
            cosine, sqnr, sqnr_about_mean at least; mse, l1, kl, max_abs, max_steps, rms_steps and metric at
            most. Without `isolated.` in front they are of the accumulated figures.
        samples: how many at most; None: 64, or all that verified.
        isolated: whether each layer is run alone on the reference's values as well.
        histogram: whether histograms are counted, for the divergence.
        noise: whether the noise model is measured too, of the plan that `onnxq.quantize` makes of the
            reference: about half a run of it for each layer and sample.
        feeding: how samples become inputs.
        images: how image files do.
        runtime: libraries of custom operators.
        observe: is told the steps.
        options: fields of `feeding` and `runtime`, each as a keyword of its own: `skip_bad=True`.

    Returns:
        Rows, what is suspicious first; see `Analysis`.

    Raises:
        UserError: a model, the data, the metric or a threshold cannot be used; there are no samples; or
            nothing of the two is the same.
        TypeError: there is no such keyword.
    """
    start = time.monotonic()
    keywords = Keywords("analyze", options)
    feeding, runtime = keywords.group(Feeding, feeding), keywords.group(Runtime, runtime)
    keywords.end((
        "layers", "ops", "metric", "thresholds", "samples", "isolated", "histogram", "noise", "feeding",
        "images", "runtime", "observe",
    ))  # fmt: skip
    if samples is not None and samples < 1:
        raise UserError(f"{samples} samples are to be run", hint="give at least 1")
    bounds = checked(thresholds or {}, metric is not None)
    own = _metric(metric)
    tell = steps(observe)
    asked = _Asked.of(a, b, data, feeding, image_options(images))
    with ort.custom_ops(runtime.ort_ops):
        tell("open", None, None)
        one, other = open_stage(asked.a), open_stage(asked.b)
        if isinstance(one, Saved):
            raise UserError(
                f"{one.name!r} is what was saved, and the reference has to be a model",
                hint="give the model first: onnxq analyze MODEL SAVED.json --data D",
            )
        gc.collect()  # the graphs of both models, which nobody needs any more
        source = asked.opened(one, other)
        told = asked.told(one)
        matching = _matching(one, other, told)
        limit = samples if samples is not None else None if asked.held_out is not None else SAMPLES
        total = asked.count(source, limit)
        read = itertools.islice(asked.read(source), limit)
        first = next(read, None)
        if first is None:
            raise UserError("there are zero samples to compare with", hint="check the data")
        one.set_sizes({name: array.shape for name, array in first.feeds.items()})

        def walked(alone: bool) -> Walk:
            walker = Walker(
                one, other, matching.pairs, isolated=alone, histogram=histogram, metric=own, maps=told.maps
            )
            return walker.walk(itertools.chain([first], read), lambda done: tell("compare", done, total))

        try:
            walk = walked(isolated)
        except NotAlone as error:
            isolated, walk = False, walked(False)
            walk.notes.append(f"layers are not run alone: {error}")
        tell("causes", None, None)
        found = _Rows(one, other, matching, walk, told, bounds, isolated and isinstance(other, Stage))
        if noise:
            found.predicted = predicted_db(asked.a, asked.data, asked.feeding, asked.images, tell)
            walk.notes.append(NOTE)
        wanted = Filter(tuple(layers), tuple(ops))
        rows = found.rows(wanted)
        bad = found.nonfinite()
    drift_db = bounds.get("sqnr", DRIFTED_DB)
    return Analysis(
        kind="analysis",
        schema=1,
        a=one.name,
        b=other.name,
        runner=other.runner if isinstance(other, Saved) else "",
        data=os.fspath(asked.data) if isinstance(asked.data, str | os.PathLike) else "",
        data_lines=tuple(source.lines),
        samples=walk.samples,
        held_out=asked.held_out is not None,
        emulated=one.half or (isinstance(other, Stage) and other.half),
        rows=rows,
        drift=_drift(rows, drift_db),
        drift_db=drift_db,
        thresholds=bounds,
        under=sum(bool(row.under) for row in rows),
        suspicious=sum(bool(row.causes) for row in rows),
        match=_share(matching, wanted),
        nonfinite=bad,
        worst=None if walk.worst is None else _beside(walk.worst, matching),
        notes=(*walk.notes, *source.notes),
        seconds=round(time.monotonic() - start, 3),
        groups=walk.groups,
        peak_memory_mb=peak_memory_mb(),
    )


@dataclass(frozen=True, slots=True)
class _Asked:
    """What is compared, on which samples."""

    a: ModelSource
    b: ModelSource
    data: DataSource
    feeding: Feeding
    images: ImageOptions | None
    held_out: tuple[int, ...] | None

    @classmethod
    def of(
        cls,
        a: ModelSource,
        b: ModelSource | None,
        data: DataSource | None,
        feeding: Feeding,
        images: ImageOptions | None,
    ) -> _Asked:
        """As it is given, completed by the report beside the quantized model."""
        if b is not None and data is not None:
            return cls(a, b, data, feeding, images, None)
        quantized = a if b is None else b
        if isinstance(quantized, onnx.ModelProto) or str(quantized).endswith(".json"):
            raise UserError("there are no samples to compare with", hint="give --data DATA")
        known = sibling_of(Path(quantized))
        if data is not None:
            return cls(known.original, quantized, data, feeding, images, None)
        if known.data is None:
            raise UserError(
                f"the report of {str(quantized)!r} names no data that are there",
                hint="give --data DATA",
            )
        if images is None and known.images:
            images = image_options(known.images)
        if not feeding.input_names and known.input_names:
            feeding = replace(feeding, input_names=known.input_names)
        feeding = replace(feeding, skip_bad=feeding.skip_bad or known.skip_bad)
        first = known.original if b is None else a
        return cls(first, quantized, known.data, feeding, images, known.held_out)

    def opened(self, one: Stage, other: Stage | Saved) -> Source:
        """The data, for the inputs of the reference."""
        for name in other.inputs if isinstance(other, Stage) else ():
            if name not in one.inputs:
                raise unknown_name(f"input of {one.name!r} named", name, one.inputs)
        return open_source(
            self.data,
            named(one.fed, self.feeding.input_names),
            options=self.images,
            skip_bad=self.feeding.skip_bad,
        )

    def read(self, source: Source) -> Iterator[Sample]:
        """The samples."""
        if self.held_out is None:
            return iter(source)
        there = [n for n in self.held_out if source.count is not None and n < source.count]
        return source.good(there) if there else iter(source)

    def count(self, source: Source, limit: int | None) -> int | None:
        """How many there are, where that is known."""
        known = source.count if self.held_out is None else len(self.held_out)
        return limit if known is None else known if limit is None else min(known, limit)

    def told(self, one: Stage) -> Recorded:
        """What the report beside B tells of how it was made of A."""
        if isinstance(self.b, onnx.ModelProto) or str(self.b).endswith(".json"):
            return Recorded()
        return recorded(report_of(Path(self.b)))


def _metric(given: str | os.PathLike[str] | Metric | None) -> Metric | None:
    """The user's own figure; what it returns is checked."""
    if given is None:
        return None
    if not isinstance(given, str | os.PathLike) and not callable(given):
        raise UserError(f"the metric is {given!r}", hint=f"give a function, or {_METRIC.path_form}")
    function = load_function(given, _METRIC) if isinstance(given, str | os.PathLike) else None
    call = function.call if function is not None else given
    name = str(function) if function is not None else getattr(given, "__name__", "the metric")

    def measured(a: np.ndarray, b: np.ndarray) -> float:
        if function is not None:
            with function.running():
                value = function.call(a, b)
        else:
            value = call(a, b)  # type: ignore[operator]
        try:
            return float(value)
        except (TypeError, ValueError) as error:
            raise UserError(
                f"{name} returned {type(value).__name__}, not a number", hint=f"the form is {_METRIC.form}"
            ) from error

    return measured


def _matching(one: Stage, other: Stage | Saved, told: Recorded) -> Matching:
    found = match_saved(one, other) if isinstance(other, Saved) else match(one, other, told.removed)
    if not found.pairs:
        raise UserError(
            f"{one.name!r} and {other.name!r} have no tensor in common: none of a name, a node or a place",
            hint="give two stages of one model",
        )
    return found


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
    ) -> None:
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
                entry.b: walk.found[entry.b].isolated.figures(walk.means.power(entry.b), self._step(entry))
                for entry in matching.pairs
            }
            self._suspicions = Suspicions(
                one, other, matching.pairs, walk, self._alone, self._quantizers, told
            )

    def _step(self, entry: Matched) -> float | None:
        if not isinstance(self._other, Stage):
            return None
        several = self._quantizers.get(self._other.base(entry.b), ())
        return min((one.step for one in several), default=None)

    def rows(self, wanted: Filter) -> tuple[LayerError, ...]:
        """Those that are wanted, what is suspicious first."""
        rows = [
            row
            for place, entry in enumerate(self._matching.pairs)
            if wanted.keeps(*self._named(entry)) and (row := self._row(place, entry)) is not None
        ]
        return tuple(sorted(rows, key=_rank))

    def _named(self, entry: Matched) -> tuple[list[str], list[str]]:
        nodes = [self._one.source(entry.a)]
        nodes += [self._other.source(entry.b)] if isinstance(self._other, Stage) else []
        names = [entry.a, entry.b, *(node.name for node in nodes if node is not None)]
        return names, [self._one.operator(node) for node in nodes if node is not None]

    def _row(self, place: int, entry: Matched) -> LayerError:
        walk, step = self._walk, self._step(entry)
        ours = self._one.source(entry.a)
        theirs = self._other.source(entry.b) if isinstance(self._other, Stage) else ours
        figures = walk.found[entry.b].accumulated.figures(walk.means.power(entry.b), step)
        alone = self._alone.get(entry.b)
        return LayerError(
            layer=theirs.name if theirs is not None else "",
            op=self._one.operator(theirs),
            tensor=entry.b,
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
        found = []
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
                found.append(NonFinite(label, name, layer, op, sample.index, sample.where, count))
                break
        return tuple(found)


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


def _beside(worst: WorstSample, matching: Matching) -> WorstOutputs:
    names = {entry.b: entry.a for entry in matching.pairs}
    outputs = []
    for name, (ours, theirs) in worst.outputs.items():
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
        outputs.append(OutputBeside(names[name], tuple(ours.shape), (best, theirs_best), values))
    return WorstOutputs(worst.index, worst.where, worst.sqnr_db, tuple(outputs))
