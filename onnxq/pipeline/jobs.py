"""The jobs with data, one step after another: load, sanitize, plan, calibrate, insert, verify, compile.

Their options travel in groups, as `Options`; each may also be given as a keyword of its own, which wins.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Unpack

from onnxq.base import remarks
from onnxq.base.errors import UserError
from onnxq.base.executors import Executor, Submit, submit_of
from onnxq.base.heap import uncollected
from onnxq.base.progress import Observer
from onnxq.calib.shards import check_main
from onnxq.calib.stats_file import StatsFile
from onnxq.calib.trt_cache import is_cache
from onnxq.data.sources import DataSource
from onnxq.formats import INT8, in_words
from onnxq.graph.load import ModelSource
from onnxq.options.call_options import (
    CalibrateOptions,
    PlanOptions,
    QuantizeOptions,
    SensitivityOptions,
)
from onnxq.options.config import LayerRule
from onnxq.options.exclusions import refuse_with_stats
from onnxq.options.grouped import Options
from onnxq.options.keywords import takes_options
from onnxq.options.settings import (
    Calibration,
    Compilation,
    Format,
    Goal,
)
from onnxq.pipeline.accuracy import Accuracy, Asked
from onnxq.pipeline.calibration import Calibrating, Given
from onnxq.pipeline.compiler import check_device, check_format
from onnxq.pipeline.decision_ranking import Sensitivity
from onnxq.pipeline.job import Job
from onnxq.pipeline.planning import Planned, formats_of_plan, obeying, take_plan
from onnxq.pipeline.pursuit import Measurement, Pursuit
from onnxq.pipeline.quantizing import accuracy_of, plan_of, quantized, ranked
from onnxq.pipeline.result import Result
from onnxq.pipeline.run import RunRequest, repair_beside
from onnxq.pipeline.stated_sizes import refuse_sizes
from onnxq.pipeline.statistics import check_output, merge_stats, take_statistics
from onnxq.run import ort
from onnxq.targets import Target, load_target

__all__ = [
    "Planned",
    "Result",
    "Sensitivity",
    "calibrate",
    "merge_stats",
    "plan",
    "quantize",
    "sensitivity",
]


@takes_options
def quantize(
    model: ModelSource,
    data: DataSource | None = None,
    *,
    layers: Sequence[LayerRule] = (),
    state: str | os.PathLike[str] | None = None,
    executor: Executor | Callable[[], Executor] | None = None,
    submit: Submit | None = None,
    ready: Callable[[Result], object] = lambda result: None,
    observe: Observer | None = None,
    **options: Unpack[QuantizeOptions],
) -> Result:
    """Sanitizes a model and quantizes it to INT8: with explicit Q/DQ pairs, or a calibration cache.

    For a target that takes no Q/DQ pairs the result is the sanitized float model, and a calibration cache.
    With a goal layers are left in float until `report.goal.met`; where nothing meets it the result is what
    is nearest.

    Args:
        model: a path or a ModelProto, which is not modified.
        data: calibration data: a path, arrays, or samples in a list, a dataset or a loader (docs/data.md);
            None: `stats`, `plan` or the file's own pairs (`pairs="adopt"`) are all there is.
        layers: what is different for some layers, see `onnxq.options.config`.
        state: a file that keeps what is measured for the goal: a call that was interrupted goes on there.
        executor: what measures for the goal in the place of `workers`: an object whose `submit(function,
            *arguments)` answers an object with `result()`, of `concurrent.futures` or Dask; or a function
            that makes one, which is asked again where one is broken.
        submit: the same by its `submit` alone.
        ready: a function that gets the result as soon as the model is final, before the errors of its layers
            are measured, and where nothing is compiled and no goal is set before its outputs are compared. If
            it saves the result, the model is safe, whatever ends the call after that.
        observe: is told the steps.
        options: groups of options, or fields of these, but those of `images`, as keywords of their own:
            `method="mse"`.

    Raises:
        UserError: the model, the data or an option cannot be used.
        TypeError: there is no such keyword.
        Fault: a fault of onnxq.
    """
    asked = _asked("quantize", options)
    target = load_target(asked.repairs.target)
    _check_cache(target, asked.format)
    stated = asked.format.plan is not None or asked.repairs.pairs == "adopt"
    if data is None and asked.calibration.stats is None and not stated:
        raise UserError("there is no calibration data", hint="give --calib DATA, or --stats FILE")
    _check_goal(asked.goal, target, data is not None)
    check_device(asked.compilation, target)
    pursuit = Pursuit.of(asked.goal, _measurement(state, asked.division.workers, submit_of(executor, submit)))
    pictures = asked.details.pictures
    with sanitized(
        model, data, asked, observe, layers, pursuit, pictures=pictures, compilation=asked.compilation
    ) as request:
        return quantized(replace(request, details=asked.details), ready)


@takes_options
def plan(
    model: ModelSource,
    data: DataSource | None = None,
    *,
    layers: Sequence[LayerRule] = (),
    observe: Observer | None = None,
    **options: Unpack[PlanOptions],
) -> Planned:
    """What `quantize` would do with a model, as a file that can be edited and that `quantize` obeys.

    Args:
        model: as in `quantize`.
        data: as in `quantize`; without data and statistics the plan says what is quantized, and its ranges
            are measured when it is obeyed.
        layers: as in `quantize`.
        observe: is told the steps.
        options: as in `quantize`; give `quantize` the same `repairs` and `inputs`.

    Raises:
        UserError: the model, the data or an option cannot be used.
        TypeError: there is no such keyword.
        Fault: a fault of onnxq.
    """
    asked = _asked("plan", options)
    compilation = replace(asked.compilation, compile=False)
    check_device(compilation, load_target(asked.repairs.target))
    with sanitized(model, data, asked, observe, layers, compilation=compilation) as request:
        return plan_of(request)


@contextlib.contextmanager
def accuracy(
    model: ModelSource,
    data: DataSource | None = None,
    asked: Asked | None = None,
    *,
    layers: Sequence[LayerRule] = (),
    observe: Observer | None = None,
    **options: Any,
) -> Iterator[Accuracy]:
    """What causes the error of the model that `quantize` would write; it is measured when it is asked for.

    Args:
        model: as in `quantize`.
        data: as in `quantize`; there have to be some. A quarter of the samples, at most 128, is kept apart by
            any method of calibration.
        asked: how the noise is measured.
        layers: as in `quantize`.
        observe: is told the steps; `sources` and `goal` are those of the measurement.
        options: as in `sensitivity`, of which those about its goal, ranking and workers say nothing here.

    Raises:
        UserError: the model, the data or an option cannot be used.
        TypeError: there is no such keyword.
        Fault: a fault of onnxq.
    """
    with sanitized(model, data, _asked("sensitivity", options), observe, layers) as request:
        yield accuracy_of(request, asked or Asked())


@takes_options
def sensitivity(
    model: ModelSource,
    data: DataSource | None = None,
    *,
    layers: Sequence[LayerRule] = (),
    state: str | os.PathLike[str] | None = None,
    executor: Executor | Callable[[], Executor] | None = None,
    submit: Submit | None = None,
    observe: Observer | None = None,
    **options: Unpack[SensitivityOptions],
) -> Sensitivity:
    """What causes the error of the model that `quantize` would write, and what leaving it in float gains.

    Args:
        model: as in `quantize`.
        data: as in `quantize`; there have to be some. A quarter of the samples, at most 128, is kept apart by
            any method of calibration.
        layers: as in `quantize`.
        state: as in `quantize`.
        executor: as in `quantize`.
        submit: as in `quantize`.
        observe: is told the steps.
        options: as in `quantize`; where `max_float` says nothing it is 5 %.

    Raises:
        UserError: the model, the data or an option cannot be used, or nothing is quantized.
        TypeError: there is no such keyword.
        Fault: a fault of onnxq.
    """
    asked = _asked("sensitivity", options)
    if data is None:
        raise UserError("there are no samples to measure noise with", hint="give --calib DATA")
    pursuit = Pursuit.of(asked.goal, _measurement(state, asked.division.workers, submit_of(executor, submit)))
    with sanitized(model, data, asked, observe, layers, pursuit) as request:
        return ranked(request, asked.ranking.top)


def _asked(function: str, options: Mapping[str, Any]) -> Options:
    """What a call asks for that calibrates.

    Raises:
        UserError: a value makes no sense, or would be ignored.
    """
    asked = Options.of(function, options)
    stats = asked.calibration.stats
    if stats is not None and not is_cache(Path(stats)):
        refuse_with_stats(asked.given[Calibration], Path(stats), str)
    return asked


@contextlib.contextmanager
def sanitized(
    model: ModelSource,
    data: DataSource | None,
    asked: Options,
    observe: Observer | None,
    layers: Sequence[LayerRule] = (),
    pursuit: Pursuit | None = None,
    *,
    pictures: bool = False,
    compilation: Compilation | None = None,
) -> Iterator[RunRequest]:
    """What is asked of a model, which is sanitized; `compilation`: how it is compiled, None: it is not."""
    calibration, format = asked.calibration, asked.format
    calibrating = Calibrating.of(calibration, layers, asked.feeding)
    file = take_plan(format.plan, asked.repairs.target) if format.plan is not None else None
    stats = calibration.stats
    given = Given.read(stats, partial=calibration.partial) if stats is not None else None
    formats = format.formats
    if file is not None:
        formats = formats_of_plan(file, formats)
    with remarks.heard(), ort.running(asked.runtime):
        with uncollected():
            job = Job.of(model, asked.repairs, asked.inputs, observe, asked.goal.time_limit, formats)
            if compilation is not None:
                check_format(compilation, job.target, format.body)
            source = None
            if data is not None:
                job, source = job.with_data(data, asked.images, asked.feeding, pictures=pictures)
            if file is not None:
                job = obeying(job, file, sizes=source is None and given is None)
                repair_beside(file, asked.accuracy)  # refused before the long work
            job = job.sanitized()
            refuse_sizes(job)
        request = RunRequest.of(job, calibrating, source, given, format, file, asked.accuracy)
        yield replace(request, pursuit=pursuit, compilation=compilation or request.compilation)


def _check_goal(goal: Goal, target: Target, data: bool) -> None:
    """Refuses a goal that nothing can be measured for, and what is about none.

    Raises:
        UserError: it is one, or something is.
    """
    alone = {
        "there is a share that may go to float": goal.max_float is not None,
        "there are costs of layers": goal.costs != "macs",
        "it is said how many samples measure": goal.measure != Goal().measure,
    }
    stated = [said for said, is_given in alone.items() if is_given]
    if stated and not goal.is_set:
        raise UserError(
            f"{stated[0]} and no goal"
            if stated[0].startswith("there")
            else f"{stated[0]}, and there is no goal",
            hint="give one: --min-sqnr, --min-agreement or --max-drop",
        )
    if goal.is_set and not target.explicit:
        raise UserError(
            f"{target.title} calibrates by itself, and no layer can be left in float for a goal",
            hint="leave the goal out, or give a --target that takes Q/DQ pairs",
        )
    if (goal.is_set or goal.eval is not None) and not data:
        raise UserError("a goal is measured on samples, and there are none", hint="give --calib DATA")


def _measurement(
    state: str | os.PathLike[str] | None, workers: int, submit: Submit | None = None
) -> Measurement:
    if workers < 1:
        raise UserError(f"{workers} workers are to measure", hint="give at least 1")
    check_main(workers)
    return Measurement(None if state is None else Path(state), workers, submit)


def _check_cache(target: Target, format: Format) -> None:
    if format.cache and format.formats not in ((), (INT8.name,)):
        raise UserError(
            f"a calibration cache is of int8, and the format is to be {in_words(format.formats)}",
            hint="leave the cache out: the scales are in the model's Q/DQ pairs",
        )
    if format.cache and target.cache is None:
        raise UserError(
            f"{target.title} reads no calibration caches: implicit quantization was removed",
            hint="leave the cache out: its INT8 is in the model's Q/DQ pairs",
        )


@takes_options
def calibrate(
    model: ModelSource,
    data: DataSource,
    output: str | os.PathLike[str],
    *,
    force: bool = False,
    executor: Executor | Callable[[], Executor] | None = None,
    observe: Observer | None = None,
    **options: Unpack[CalibrateOptions],
) -> StatsFile:
    """Takes the statistics that every calibration method asks for, and writes them.

    A call that was interrupted goes on where it was when it is repeated.

    Args:
        model: as in `quantize`.
        data: as in `quantize`; what can be read only once (an iterator, a loader script) is taken in one
            go: not in shards, not by several workers, and anew after an interruption.
        output: the file to write, `X.stats.npz`.
        force: replace a file that holds no statistics; the model itself is never replaced.
        executor: as in `quantize`; its tasks bring the model and the samples.
        observe: is told the steps.
        options: as in `quantize`; `samples` are those of all shards together.

    Returns:
        What was written.

    Raises:
        UserError: the model, the data or an option cannot be used.
        TypeError: there is no such keyword.
        Fault: a fault of onnxq.
    """
    asked = Options.of("calibrate", options)
    check_main(asked.division.workers)
    submit = submit_of(executor, None)
    with ort.running(asked.runtime):
        with uncollected():
            job = Job.of(model, asked.repairs, asked.inputs, observe)
            check_output(Path(output), job.model.path, force=force)
            job, source = job.with_data(data, asked.images, asked.feeding)
            job = job.sanitized()
            refuse_sizes(job)
        calibrating = Calibrating.of(asked.calibration, (), asked.feeding)
        return take_statistics(job, calibrating, source, data, asked.images, output, asked.division, submit)
