"""`onnxq analyze`: two stages of a model against each other, layer by layer."""

from __future__ import annotations

import gc
import itertools
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Unpack

import numpy as np
import onnx

from onnxq.analysis.asked_rows import Filter, checked
from onnxq.analysis.changes import Recorded, recorded
from onnxq.analysis.figures import Metric
from onnxq.analysis.stages import Saved, Stage, open_stage
from onnxq.base.errors import UserError, unknown_name
from onnxq.base.process import peak_memory_mb
from onnxq.base.progress import Observer
from onnxq.base.progress import told as steps
from onnxq.base.reason import noted
from onnxq.base.user_code import CodeForm, load_function
from onnxq.body.emulate import Emulated
from onnxq.data.samples import Sample, named
from onnxq.data.sources import DataSource, Source, open_source
from onnxq.documents.analysis import (
    Analysis,
)
from onnxq.emit.recorded import recorded_report
from onnxq.graph.load import ModelSource
from onnxq.graph.model import Model
from onnxq.graph.spool import LARGE, weight_bytes
from onnxq.graph.types import Shape
from onnxq.judge.output_parts import OutputParts
from onnxq.judge.sqnr import limited_db
from onnxq.options.call_options import AnalyzeOptions
from onnxq.options.grouped import Options, image_options
from onnxq.options.keywords import takes_options
from onnxq.options.settings import Feeding, ImageOptions
from onnxq.pipeline.accuracy import Asked
from onnxq.pipeline.jobs import accuracy
from onnxq.pipeline.recorded_run import recorded_run
from onnxq.pipeline.stage_comparison import How, beside
from onnxq.run import ort
from onnxq.run.finding_parts import LOOKS, find_parts

SAMPLES = 64
"""How many samples are run at most, where nobody says."""


@takes_options
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
    observe: Observer | None = None,
    **options: Unpack[AnalyzeOptions],
) -> Analysis:
    """Compares two stages of a model, tensor by tensor, accumulated and each layer alone.

    Memory does not grow with the number of layers or samples. Both models run once a sample, in parts whose
    tensors fit, and only sums are kept.

    Args:
        a: the reference: the path of a model, or a ModelProto.
        b: the other one, or the `.json` that `polygraphy run --save-outputs` wrote. None: `a` is what onnxq
            quantized; the report beside it names the original, which becomes the reference, and the data.
        data: samples, as `onnxq.quantize` takes them, for the inputs of the reference. None: those that the
            report beside the quantized model names, of which those that calibrated nothing are run.
        layers: globs of the names of nodes and tensors; the rows that fit one. Nothing: all.
        ops: operators; the rows of one of them.
        metric: the user's own figure. It is a function of a tensor of A and that of B, float64 arrays of one
            shape, which returns a number. Or it is `FILE.py:FUNCTION`, whose Python is run.
        thresholds: the least or greatest value of figures, as `{"sqnr": 20, "isolated.max_steps": 4}`:
            cosine, sqnr, sqnr_about_mean at least; mse, l1, kl, max_abs, max_steps, rms_steps and metric at
            most. Without `isolated.` in front they are of the accumulated figures.
        samples: how many at most; None: 64, or all that verified.
        isolated: whether each layer is run alone on the reference's values as well.
        histogram: whether histograms are counted, for the divergence.
        noise: whether the noise model is measured too, of the plan that `onnxq.quantize` makes of the
            reference: about half a run of it for each layer and sample.
        observe: is told the steps.
        options: groups of options, or fields of these as keywords of their own: `skip_bad=True`.

    Returns:
        Rows, what is suspicious first; see `Analysis`.

    Raises:
        UserError: a model, the data, the metric or a threshold cannot be used; there are no samples; or
            nothing of the two is the same.
        TypeError: there is no such keyword.
    """
    start = time.monotonic()
    groups = Options.of("analyze", options)
    if samples is not None and samples < 1:
        raise UserError(f"{samples} samples are to be run", hint="give at least 1")
    bounds = checked(thresholds or {}, metric is not None)
    own = own_metric(metric)
    tell = steps(observe)
    asked = _Asked.of(a, b, data, groups.feeding, groups.images)
    with ort.running(groups.runtime):
        tell("open", None, None)
        reference, candidate = open_stage(asked.a), open_stage(asked.b)
        if isinstance(reference, Saved):
            raise UserError(
                f"{reference.name!r} is what was saved, and the reference has to be a model",
                hint="give the model first: onnxq analyze MODEL SAVED.json --data D",
            )
        gc.collect()  # the graphs of both models, which nobody needs any more
        source = asked.opened(reference, candidate)
        told = asked.told()
        limit = samples if samples is not None else None if asked.held_out is not None else SAMPLES
        total = asked.count(source, limit)
        parts, read = _parts(asked, reference, asked.read(source))
        how = How(
            isolated=isolated,
            histogram=histogram,
            metric=own,
            bounds=bounds,
            wanted=Filter(tuple(layers), tuple(ops)),
            predict=(
                lambda: (
                    predicted_db(asked.a, asked.data, asked.feeding, asked.images, tell),
                    noted("predicted-noise"),
                )
            )
            if noise
            else None,
            parts=parts,
        )
        compared = beside(
            reference, candidate, told, itertools.islice(read, limit), how,
            lambda step, done: tell(step, done, None if done is None else total),
        )  # fmt: skip
    return Analysis(
        kind="analysis",
        schema=1,
        a=reference.name,
        b=candidate.name,
        runner=candidate.runner if isinstance(candidate, Saved) else "",
        data=os.fspath(asked.data) if isinstance(asked.data, str | os.PathLike) else "",
        data_lines=tuple(source.lines),
        samples=compared.samples,
        held_out=asked.held_out is not None,
        emulated=reference.half or (isinstance(candidate, Stage) and candidate.half),
        rows=compared.rows,
        drift=compared.drift,
        drift_db=compared.drift_db,
        thresholds=bounds,
        under=sum(bool(row.under) for row in compared.rows),
        suspicious=sum(bool(row.causes) for row in compared.rows),
        match=compared.match,
        nonfinite=compared.nonfinite,
        worst=compared.worst,
        notes=(*compared.notes, *source.notes),
        seconds=round(time.monotonic() - start, 3),
        groups=compared.groups,
        peak_memory_mb=peak_memory_mb(),
    )


def _parts(
    asked: _Asked, stage: Stage, samples: Iterator[Sample]
) -> tuple[OutputParts | None, Iterator[Sample]]:
    """The parts of the reference's outputs, and all samples; each output is a whole of a large model."""
    if weight_bytes(stage.proto) >= LARGE:
        return None, samples
    first = list(itertools.islice(samples, LOOKS))
    model = Model.open(asked.a)
    try:
        session = (Emulated if stage.half else ort.load)(stage.proto, data_dir=stage.data_dir)
        parts = find_parts(model, session, [sample.feeds for sample in first])
    except ort.RunError:  # it is said where the samples run
        parts = None
    return parts, itertools.chain(first, samples)


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
        run = recorded_run(Path(quantized))
        if data is not None:
            return cls(run.original, quantized, data, feeding, images, None)
        place = run.place
        if place is None:
            raise UserError(
                f"the report of {str(quantized)!r} names no data that are there",
                hint="give --data DATA",
            )
        if images is None and place.images:
            images = image_options(place.images)
        if not feeding.input_names and place.input_names:
            feeding = replace(feeding, input_names=place.input_names)
        feeding = replace(feeding, skip_bad=feeding.skip_bad or place.skip_bad is True)
        first = run.original if b is None else a
        return cls(first, quantized, Path(place.path), feeding, images, place.held_out)

    def opened(self, one: Stage, other: Stage | Saved) -> Source:
        """The data, for the inputs of the reference; a size that it leaves open is the other's."""
        for name in other.inputs if isinstance(other, Stage) else ():
            if name not in one.inputs:
                raise unknown_name(f"input of {one.name!r} named", name, one.inputs)
        sizes = {spec.name: spec.shape for spec in other.fed} if isinstance(other, Stage) else {}
        fed = [replace(spec, shape=_bound(spec.shape, sizes.get(spec.name))) for spec in one.fed]
        return open_source(
            self.data,
            named(fed, self.feeding.input_names),
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
        count = source.count if self.held_out is None else len(self.held_out)
        return limit if count is None else count if limit is None else min(count, limit)

    def told(self) -> Recorded:
        """What the report beside B tells of how it was made of A."""
        if isinstance(self.b, onnx.ModelProto) or str(self.b).endswith(".json"):
            return Recorded()
        return recorded(recorded_report(Path(self.b)))


def _bound(shape: Shape | None, other: Shape | None) -> Shape | None:
    """A shape, where it is open with the sizes of another of its rank."""
    if shape is None or other is None or len(shape) != len(other):
        return shape
    pairs = zip(shape, other, strict=True)
    return tuple(
        theirs if isinstance(theirs, int) and not isinstance(own, int) else own for own, theirs in pairs
    )


# What the noise model gives each layer: how far the outputs are off by its quantization alone.

_NOISE_SAMPLES = 16
"""How many samples measure it at most."""


def predicted_db(
    original: ModelSource,
    data: DataSource,
    feeding: Feeding,
    images: ImageOptions | None,
    observe: Observer | None,
) -> dict[str, float]:
    """The SQNR about the mean of the outputs with the noise of one layer, dB, by the layer's node.

    Raises:
        UserError: nothing is quantized, or the data or the model cannot be used.
    """
    asked = Asked(samples=_NOISE_SAMPLES)
    with accuracy(
        original, data, asked, feeding=feeding, images=images, observe=observe, repair="none"
    ) as measured:
        model = measured.model
    entries = model.sources.entries
    nodes = dict.fromkeys(edge.node for entry in entries for edge in entry.edges)
    on = np.array([[any(e.node == node for e in entry.edges) for entry in entries] for node in nodes], bool)
    noises = model.noises(model.sources.closed(on))
    return {node: limited_db(float(noise)) for node, noise in zip(nodes, noises, strict=True)}


_METRIC = CodeForm(
    "metric script", "def distance(a, b): ...; return a number (a, b: float64 arrays of one shape)",
    "FILE.py:FUNCTION",
)  # fmt: skip


def own_metric(metric: str | os.PathLike[str] | Metric | None) -> Metric | None:
    """The user's own figure; what it returns is checked."""
    if metric is None:
        return None
    if not isinstance(metric, str | os.PathLike) and not callable(metric):
        raise UserError(f"the metric is {metric!r}", hint=f"give a function, or {_METRIC.path_form}")
    function = load_function(metric, _METRIC) if isinstance(metric, str | os.PathLike) else None
    call = function.call if function is not None else metric
    name = str(function) if function is not None else getattr(metric, "__name__", "the metric")

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
