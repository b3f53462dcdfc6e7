"""The main jobs, one step after another: load, sanitize, plan, calibrate, insert, verify, compile.

Their options travel in groups (`settings.py`); each may also be given as a keyword of its own, which wins.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Unpack

from onnxq.base import remarks
from onnxq.base.errors import UserError
from onnxq.base.heap import uncollected
from onnxq.base.progress import Observer
from onnxq.calib.shards import check_main
from onnxq.calib.stats_file import StatsFile
from onnxq.calib.trt_cache import is_cache
from onnxq.data.image_options import image_options
from onnxq.data.sources import DataSource
from onnxq.graph.load import ModelSource
from onnxq.noise.measure import Submit
from onnxq.options.call_options import (
    CalibrateOptions,
    PlanOptions,
    QuantizeOptions,
    SanitizeOptions,
    SensitivityOptions,
)
from onnxq.options.config import LayerRule
from onnxq.options.exclusions import refuse_with_stats
from onnxq.options.keywords import takes_options
from onnxq.options.settings import (
    DEPLOYED,
    AccuracyRepair,
    Calibration,
    Compilation,
    Details,
    Division,
    Feeding,
    Format,
    Goal,
    ImageOptions,
    Inputs,
    Keywords,
    PathLike,
    Ranking,
    Repairs,
    Runtime,
)
from onnxq.pipeline.accuracy import Accuracy, Asked
from onnxq.pipeline.calibration import Calibrating, Given
from onnxq.pipeline.compilation import check_compiler
from onnxq.pipeline.decision_ranking import Sensitivity
from onnxq.pipeline.goals import Measurement, Pursuit
from onnxq.pipeline.job import Job
from onnxq.pipeline.planning import Planned, take_plan
from onnxq.pipeline.quantization import Quantization, obeying
from onnxq.pipeline.result import Result
from onnxq.pipeline.runtime import refuse_invalid
from onnxq.pipeline.stated_sizes import refuse_sizes
from onnxq.pipeline.statistics import check_output, merge_stats, take_statistics
from onnxq.run import ort
from onnxq.targets import load_target

__all__ = [
    "Planned",
    "Result",
    "Sensitivity",
    "calibrate",
    "merge_stats",
    "plan",
    "quantize",
    "sanitize",
    "sensitivity",
]

_OF_METHODS = ("method", "stats", "partial")
_OF_SCALES = ("method", "exact", "samples", "seed", "partial")
_OF_INT8 = ("keep_float", "heads", "scale_form", "cache", "plan")
_GATES = ("min_sqnr", "min_agreement", "max_drop", "time_limit")
_COMMON = (Calibration, Feeding, Format, Repairs, Inputs, Runtime, AccuracyRepair)

Values = Mapping[str, Any]
"""Fields of a group by name, in the place of the group."""


@takes_options(
    Repairs, Inputs, Runtime, Feeding, Format, Calibration, without=(*_OF_INT8, *_OF_SCALES, *DEPLOYED)
)
def sanitize(
    model: ModelSource,
    data: DataSource | None = None,
    *,
    calibration: Calibration | Values | None = None,
    feeding: Feeding | Values | None = None,
    images: ImageOptions | Values | None = None,
    format: Format | Values | None = None,
    repairs: Repairs | Values | None = None,
    inputs: Inputs | Values | None = None,
    runtime: Runtime | Values | None = None,
    observe: Observer | None = None,
    **options: Unpack[SanitizeOptions],
) -> Result:
    """Repairs a model so that the target takes it; what it computes does not change.

    Args:
        model: a path or a ModelProto, which is not modified.
        data: as in `quantize`, for a body of half precision: it says what such a type holds.
        calibration: its `stats`, in the place of data or beside it.
        feeding: how samples become inputs.
        images: how image files do.
        format: its `body` and `io`; without them no type changes.
        repairs: how it is repaired, and what for.
        inputs: what is stated about its inputs.
        runtime: what onnxruntime runs it with, for the proofs.
        observe: is told the steps.
        options: fields of these groups, each as a keyword of its own: `target="tensorrt-8.6"`.

    Raises:
        UserError: the model or an option cannot be used; neither onnxruntime nor NVIDIA's parser takes it.
        TypeError: there is no such keyword.
        Fault: a fault of onnxq.
    """
    keywords = Keywords("sanitize", options)
    repairs = keywords.group(Repairs, repairs)
    inputs = keywords.group(Inputs, inputs, without=DEPLOYED)
    runtime = keywords.group(Runtime, runtime)
    feeding, chosen = keywords.group(Feeding, feeding), image_options(images)
    format = keywords.group(Format, format, without=_OF_INT8)
    calibration = keywords.group(Calibration, calibration, without=_OF_SCALES)
    keywords.end()
    if format.body is None and format.io in (None, "fp32"):
        with remarks.heard(), ort.custom_ops(runtime.ort_ops):
            result = sanitize_any(model, repairs, inputs, observe)
            refuse_invalid(result)
        return result
    if data is None and calibration.stats is None and format.body != "fp32":
        raise UserError(
            f"what {format.body or format.io} holds of this model is not known: its ranges were not measured",
            hint="give --calib DATA, or --stats FILE, which `onnxq calibrate` wrote",
        )
    calibration = replace(calibration, method="minmax")
    groups = _Groups(repairs, inputs, feeding, chosen, calibration, runtime)
    with _sanitized(model, data, groups, (), format, observe) as quantization:
        result = quantization.convert()
        refuse_invalid(result)
    return result


def sanitize_any(model: ModelSource, repairs: Repairs, inputs: Inputs, observe: Observer | None) -> Result:
    """The same as `sanitize`, but a model that nobody takes is not refused."""
    with uncollected():
        run = Job.of(model, repairs, inputs, observe).sanitized()
        refuse_sizes(run)
        return run.result(run.model.to_proto())


@takes_options(*_COMMON, Compilation, Goal, Division, Details, without=("allow_interface_changes", "shard"))
def quantize(
    model: ModelSource,
    data: DataSource | None = None,
    *,
    calibration: Calibration | Values | None = None,
    layers: Sequence[LayerRule] = (),
    feeding: Feeding | Values | None = None,
    images: ImageOptions | Values | None = None,
    format: Format | Values | None = None,
    repairs: Repairs | Values | None = None,
    inputs: Inputs | Values | None = None,
    compilation: Compilation | Values | None = None,
    goal: Goal | Values | None = None,
    division: Division | Values | None = None,
    details: Details | Values | None = None,
    runtime: Runtime | Values | None = None,
    accuracy: AccuracyRepair | Values | None = None,
    state: str | os.PathLike[str] | None = None,
    submit: Submit | None = None,
    ready: Callable[[Result], object] = lambda result: None,
    observe: Observer | None = None,
    **options: Unpack[QuantizeOptions],
) -> Result:
    """Sanitizes a model and quantizes it to INT8: with explicit Q/DQ pairs, or a calibration cache.

    Args:
        model: a path or a ModelProto, which is not modified.
        data: calibration data: a path, or `{input: array}` for each sample; None: `calibration.stats` or
            `format.plan` is all there is.
        calibration: how it is calibrated.
        layers: what is different for some layers, see `onnxq.options.config`.
        feeding: how samples become inputs.
        images: how image files do.
        format: what is quantized, and what is written. For a target that takes no Q/DQ pairs the result is
            the sanitized float model, and a calibration cache.
        repairs: how it is repaired, and what for; without `allow_interface_changes`.
        inputs: what is stated about its inputs.
        compilation: how the result is compiled.
        goal: how near the outputs have to be, and what layers in float cost: they are left in float until
            `report.goal.met`. Where nothing meets it the result is what is nearest.
        division: its `workers`: how many processes measure for the goal.
        details: what the report has of each layer.
        state: a file that keeps what is measured for the goal: a call that was interrupted goes on there.
        submit: `submit` of an executor that measures for the goal in the place of `workers`.
        ready: is given the result as soon as it is final, before the errors of its layers are measured:
            who saves it there has it, whatever ends the call after that.
        runtime: what onnxruntime runs it with; without the custom operators of the model, the part that
            runs is calibrated.
        accuracy: which steps win back the accuracy that int8 costs.
        observe: is told the steps.
        options: fields of these groups but those of `images`, each as a keyword of its own: `method="mse"`.

    Raises:
        UserError: the model, the data or an option cannot be used.
        TypeError: there is no such keyword.
        Fault: a fault of onnxq.
    """
    keywords = Keywords("quantize", options)
    format = keywords.group(Format, format)
    compilation = keywords.group(Compilation, compilation)
    goal = keywords.group(Goal, goal)
    division = keywords.group(Division, division, without=("shard",))
    shown = keywords.group(Details, details)
    groups = _Groups.of(keywords, repairs, inputs, feeding, images, calibration, runtime)
    repair = keywords.group(AccuracyRepair, accuracy)
    keywords.end()
    _check_cache(groups.repairs.target, format.cache)
    if data is None and groups.calibration.stats is None and format.plan is None:
        raise UserError("there is no calibration data", hint="give --calib DATA, or --stats FILE")
    _check_goal(goal, groups.repairs.target, data is not None)
    if load_target(groups.repairs.target).explicit:
        check_compiler(compilation)
    pursuit = Pursuit(goal, _measurement(state, division.workers, submit))
    with _sanitized(model, data, groups, layers, format, observe, pursuit, repair, shown) as quantization:
        return quantization.run(compilation, shown, ready)


@takes_options(*_COMMON, without=("allow_interface_changes", "cache", "plan"))
def plan(
    model: ModelSource,
    data: DataSource | None = None,
    *,
    calibration: Calibration | Values | None = None,
    layers: Sequence[LayerRule] = (),
    feeding: Feeding | Values | None = None,
    images: ImageOptions | Values | None = None,
    format: Format | Values | None = None,
    repairs: Repairs | Values | None = None,
    inputs: Inputs | Values | None = None,
    runtime: Runtime | Values | None = None,
    accuracy: AccuracyRepair | Values | None = None,
    observe: Observer | None = None,
    **options: Unpack[PlanOptions],
) -> Planned:
    """What `quantize` would do with a model, as a file that can be edited and that `quantize` obeys.

    Args:
        model: as in `quantize`.
        data: as in `quantize`; without data and statistics the plan says what is quantized, and its ranges
            are measured when it is obeyed.
        calibration: as in `quantize`.
        layers: as in `quantize`.
        feeding: as in `quantize`.
        images: as in `quantize`.
        format: as in `quantize`, without `cache` and `plan`.
        repairs: as in `quantize`; give `quantize` the same.
        inputs: likewise.
        runtime: as in `quantize`.
        accuracy: as in `quantize`.
        observe: is told the steps.
        options: as in `quantize`.

    Raises:
        UserError: the model, the data or an option cannot be used.
        TypeError: there is no such keyword.
        Fault: a fault of onnxq.
    """
    keywords = Keywords("plan", options)
    format = keywords.group(Format, format, without=("cache", "plan"))
    groups = _Groups.of(keywords, repairs, inputs, feeding, images, calibration, runtime)
    repair = keywords.group(AccuracyRepair, accuracy)
    keywords.end()
    with _sanitized(model, data, groups, layers, format, observe, repair=repair) as quantization:
        return quantization.plan()


@contextlib.contextmanager
def accuracy(
    model: ModelSource,
    data: DataSource | None = None,
    asked: Asked | None = None,
    *,
    calibration: Calibration | Values | None = None,
    layers: Sequence[LayerRule] = (),
    feeding: Feeding | Values | None = None,
    images: ImageOptions | Values | None = None,
    format: Format | Values | None = None,
    repairs: Repairs | Values | None = None,
    inputs: Inputs | Values | None = None,
    runtime: Runtime | Values | None = None,
    accuracy: AccuracyRepair | Values | None = None,
    observe: Observer | None = None,
    **options: Any,
) -> Iterator[Accuracy]:
    """What causes the error of the model that `quantize` would write; it is measured when it is asked for.

    Args:
        model: as in `quantize`.
        data: as in `quantize`; there have to be some.
        asked: how the noise is measured.
        calibration: as in `quantize`; a quarter of the samples, at most 128, is kept apart by any method.
        layers: as in `quantize`.
        feeding: as in `quantize`.
        images: as in `quantize`.
        format: as in `quantize`, without `cache`.
        repairs: as in `quantize`.
        inputs: likewise.
        runtime: as in `quantize`.
        accuracy: as in `quantize`.
        observe: is told the steps; `sources` and `goal` are those of the measurement.
        options: as in `quantize`.

    Raises:
        UserError: the model, the data or an option cannot be used.
        TypeError: there is no such keyword.
        Fault: a fault of onnxq.
    """
    keywords = Keywords("accuracy", options)
    format = keywords.group(Format, format, without=("cache",))
    groups = _Groups.of(keywords, repairs, inputs, feeding, images, calibration, runtime)
    repair = keywords.group(AccuracyRepair, accuracy)
    keywords.end()
    with _sanitized(model, data, groups, layers, format, observe, repair=repair) as quantization:
        yield quantization.accuracy(asked or Asked())


@takes_options(
    *_COMMON, Goal, Ranking, Division, without=("allow_interface_changes", "cache", "shard", *_GATES)
)
def sensitivity(
    model: ModelSource,
    data: DataSource | None = None,
    *,
    calibration: Calibration | Values | None = None,
    layers: Sequence[LayerRule] = (),
    feeding: Feeding | Values | None = None,
    images: ImageOptions | Values | None = None,
    format: Format | Values | None = None,
    repairs: Repairs | Values | None = None,
    inputs: Inputs | Values | None = None,
    goal: Goal | Values | None = None,
    ranking: Ranking | Values | None = None,
    division: Division | Values | None = None,
    runtime: Runtime | Values | None = None,
    accuracy: AccuracyRepair | Values | None = None,
    state: str | os.PathLike[str] | None = None,
    submit: Submit | None = None,
    observe: Observer | None = None,
    **options: Unpack[SensitivityOptions],
) -> Sensitivity:
    """What causes the error of the model that `quantize` would write, and what leaving it in float gains.

    Args:
        model: as in `quantize`.
        data: as in `quantize`; there have to be some.
        calibration: as in `quantize`; a quarter of the samples, at most 128, is kept apart by any method.
        layers: as in `quantize`.
        feeding: as in `quantize`.
        images: as in `quantize`.
        format: as in `quantize`, without `cache`.
        repairs: as in `quantize`.
        inputs: likewise.
        goal: its `eval`, `max_float` (5 % where it says nothing), `costs`, `weigh` and `measure`.
        ranking: how many decisions are confirmed.
        division: its `workers`.
        runtime: as in `quantize`.
        accuracy: as in `quantize`.
        state: as in `quantize`.
        submit: as in `quantize`.
        observe: is told the steps.
        options: as in `quantize`.

    Raises:
        UserError: the model, the data or an option cannot be used, or nothing is quantized.
        TypeError: there is no such keyword.
        Fault: a fault of onnxq.
    """
    keywords = Keywords("sensitivity", options)
    format = keywords.group(Format, format, without=("cache",))
    goal = keywords.group(Goal, goal, without=_GATES)
    ranking = keywords.group(Ranking, ranking)
    division = keywords.group(Division, division, without=("shard",))
    groups = _Groups.of(keywords, repairs, inputs, feeding, images, calibration, runtime)
    repair = keywords.group(AccuracyRepair, accuracy)
    keywords.end()
    if data is None:
        raise UserError("there are no samples to measure noise with", hint="give --calib DATA")
    pursuit = Pursuit(goal, _measurement(state, division.workers, submit))
    with _sanitized(model, data, groups, layers, format, observe, pursuit, repair) as quantization:
        return quantization.sensitivity(ranking.top)


@dataclass(frozen=True, slots=True)
class _Groups:
    """The options that `plan` and `quantize` have in common."""

    repairs: Repairs
    inputs: Inputs
    feeding: Feeding
    images: ImageOptions | None
    calibration: Calibration
    runtime: Runtime

    @classmethod
    def of(
        cls,
        keywords: Keywords,
        repairs: Repairs | Values | None,
        inputs: Inputs | Values | None,
        feeding: Feeding | Values | None,
        images: ImageOptions | Values | None,
        calibration: Calibration | Values | None,
        runtime: Runtime | Values | None,
    ) -> _Groups:
        """The groups of a call, with the options among its keywords.

        Raises:
            UserError: a value makes no sense, or would be ignored.
        """
        found = cls(
            keywords.group(Repairs, repairs, without=("allow_interface_changes",)),
            keywords.group(Inputs, inputs),
            keywords.group(Feeding, feeding),
            image_options(images),
            keywords.group(Calibration, calibration),
            keywords.group(Runtime, runtime),
        )
        stats = found.calibration.stats
        if stats is not None and not is_cache(Path(stats)):
            refuse_with_stats(keywords.given[Calibration], Path(stats), str)
        return found


@contextlib.contextmanager
def _sanitized(
    model: ModelSource,
    data: DataSource | None,
    groups: _Groups,
    layers: Sequence[LayerRule],
    format: Format,
    observe: Observer | None,
    pursuit: Pursuit | None = None,
    repair: AccuracyRepair | None = None,
    details: Details | None = None,
) -> Iterator[Quantization]:
    """The quantization of a model that is sanitized."""
    calibration, target = groups.calibration, groups.repairs.target
    course = Calibrating.of(calibration, layers, groups.feeding)
    file = take_plan(format.plan, target) if format.plan is not None else None
    stats = calibration.stats
    given = Given.read(stats, partial=calibration.partial) if stats is not None else None
    with remarks.heard(), ort.custom_ops(groups.runtime.ort_ops):
        with uncollected():
            job = Job.of(model, groups.repairs, groups.inputs, observe)
            pictures = details is not None and details.pictures
            source = None
            if data is not None:
                job, source = job.with_data(data, groups.images, groups.feeding, pictures=pictures)
            if file is not None:
                job = obeying(job, file, repair, sizes=source is None and given is None)
            job = job.sanitized()
            refuse_sizes(job)
        yield Quantization(job, course, source, given, format, file, pursuit, repair)


def _check_goal(goal: Goal, target: PathLike, data: bool) -> None:
    """Refuses a goal that nothing can be measured for, and what is about none.

    Raises:
        UserError: it is one, or something is.
    """
    known = load_target(target)
    alone = {
        "there is a share that may go to float": goal.max_float is not None,
        "there are costs of layers": goal.costs != "macs",
        "it is said how many samples measure": goal.measure != Goal().measure,
        "there is a time limit of the search": goal.time_limit is not None,
    }
    given = [said for said, is_given in alone.items() if is_given]
    if given and not goal.is_set:
        raise UserError(
            f"{given[0]} and no goal"
            if given[0].startswith("there")
            else f"{given[0]}, and there is no goal",
            hint="give one: --min-sqnr, --min-agreement or --max-drop",
        )
    if goal.is_set and not known.explicit:
        raise UserError(
            f"{known.title} calibrates by itself, and no layer can be left in float for a goal",
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


def _check_cache(target: PathLike, cache: bool) -> None:
    known = load_target(target)
    if cache and known.cache is None:
        raise UserError(
            f"{known.title} reads no calibration caches: implicit quantization was removed",
            hint="leave the cache out: its INT8 is in the model's Q/DQ pairs",
        )


@takes_options(
    Division,
    Repairs,
    Inputs,
    Feeding,
    Runtime,
    Calibration,
    without=("prove", "allow_interface_changes", *_OF_METHODS),
)
def calibrate(
    model: ModelSource,
    data: DataSource,
    output: str | os.PathLike[str],
    *,
    force: bool = False,
    calibration: Calibration | Values | None = None,
    division: Division | Values | None = None,
    feeding: Feeding | Values | None = None,
    images: ImageOptions | Values | None = None,
    repairs: Repairs | Values | None = None,
    inputs: Inputs | Values | None = None,
    runtime: Runtime | Values | None = None,
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
        calibration: its `exact`, `samples` and `seed`; the samples are those of all shards together.
        division: the part that is taken, and by how many processes.
        feeding: as in `quantize`.
        images: as in `quantize`.
        repairs: as in `quantize`; without `prove`.
        inputs: as in `quantize`.
        runtime: as in `quantize`.
        observe: is told the steps.
        options: as in `quantize`.

    Returns:
        What was written.

    Raises:
        UserError: the model, the data or an option cannot be used.
        TypeError: there is no such keyword.
        Fault: a fault of onnxq.
    """
    keywords = Keywords("calibrate", options)
    division = keywords.group(Division, division)
    check_main(division.workers)
    repairs = keywords.group(Repairs, repairs, without=("prove", "allow_interface_changes"))
    inputs, feeding = keywords.group(Inputs, inputs), keywords.group(Feeding, feeding)
    runtime = keywords.group(Runtime, runtime)
    calibration = keywords.group(Calibration, calibration, without=_OF_METHODS)
    keywords.end()
    with ort.custom_ops(runtime.ort_ops):
        with uncollected():
            job = Job.of(model, repairs, inputs, observe)
            check_output(Path(output), job.model.path, force=force)
            chosen = image_options(images)
            job, source = job.with_data(data, chosen, feeding)
            job = job.sanitized()
            refuse_sizes(job)
        course = Calibrating.of(calibration, (), feeding)
        return take_statistics(job, course, source, data, chosen, output, division)
