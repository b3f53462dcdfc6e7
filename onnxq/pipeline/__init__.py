"""The main jobs, one step after another: load, sanitize, plan, calibrate, insert, verify, compile."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from numpy.typing import ArrayLike

from onnxq import remarks
from onnxq import report as reporting
from onnxq.calib.shards import check_main
from onnxq.calib.stats_file import StatsFile
from onnxq.config import LayerRule
from onnxq.data.image_options import ImageOptions, image_options
from onnxq.data.sources import DataSource
from onnxq.errors import UserError, unknown_name
from onnxq.graph.load import ModelSource
from onnxq.heap import steady_heap, uncollected
from onnxq.pipeline.calibration import METHODS, Calibration, Given
from onnxq.pipeline.compilation import Compilation
from onnxq.pipeline.job import Job
from onnxq.pipeline.quantization import Quantization
from onnxq.pipeline.result import Result
from onnxq.pipeline.runtime import refuse_invalid
from onnxq.pipeline.stated_sizes import refuse_sizes
from onnxq.pipeline.statistics import check_output, merge_stats, take_statistics
from onnxq.progress import Observer
from onnxq.rewrite.engine import Prove
from onnxq.run import ort
from onnxq.run.profiles import Profile
from onnxq.target import load_target

__all__ = ["Result", "calibrate", "merge_stats", "quantize", "sanitize"]


def sanitize(
    model: ModelSource,
    *,
    target: str = "tensorrt-11",
    shapes: Mapping[str, Sequence[int | str]] | None = None,
    assume: Mapping[str, int] | None = None,
    freeze: Mapping[str, ArrayLike] | None = None,
    rules: Sequence[str | os.PathLike[str]] = (),
    prove: Prove = "when-possible",
    enable: Sequence[str] = (),
    skip: Sequence[str] = (),
    allow_interface_changes: bool = False,
    ort_ops: Sequence[str | os.PathLike[str]] = (),
    observe: Observer | None = None,
) -> Result:
    """Repairs a model so that the target takes it; what it computes does not change.

    Args:
        model: a path or a ModelProto, which is not modified.
        target: the TensorRT version, see `onnxq.target.NAMES`.
        shapes: shapes of inputs, to give dynamic dimensions a size or a symbol.
        assume: sizes of dimension symbols that the user states; recorded in the report.
        freeze: values of inputs that become constants.
        rules: folders of the user's own rules; their Python is run.
        prove: `always` keeps only changes that are proved, `when-possible` lists the others,
            `never` proves nothing.
        enable: rules to turn on whatever the target lacks.
        skip: rules to leave out.
        allow_interface_changes: whether rules may give inputs and outputs another type or shape.
        ort_ops: libraries of custom operators for onnxruntime, which runs the model for the proofs.
        observe: is told the steps.

    Raises:
        UserError: the model or an argument cannot be used; neither onnxruntime nor NVIDIA's parser takes it.
        Fault: a fault of onnxq.
    """
    with remarks.heard(), ort.custom_ops(ort_ops):
        result = sanitize_any(
            model,
            target=target,
            shapes=shapes,
            assume=assume,
            freeze=freeze,
            rules=rules,
            prove=prove,
            enable=enable,
            skip=skip,
            allow_interface_changes=allow_interface_changes,
            observe=observe,
        )
        refuse_invalid(result)
    return result


def sanitize_any(
    model: ModelSource,
    *,
    target: str,
    shapes: Mapping[str, Sequence[int | str]] | None,
    assume: Mapping[str, int] | None,
    freeze: Mapping[str, ArrayLike] | None,
    rules: Sequence[str | os.PathLike[str]],
    prove: Prove,
    enable: Sequence[str],
    skip: Sequence[str],
    observe: Observer | None,
    allow_interface_changes: bool = False,
) -> Result:
    """The same as `sanitize`, but a model that nobody takes is not refused."""
    with uncollected():
        run = Job(model, target, rules, enable, skip, prove, observe, allow_interface_changes)
        run.bind(shapes, assume, freeze)
        run.sanitize()
        refuse_sizes(run)
        part = {"engine": reporting.engine_not_run("sanitize does not compile")}
        return run.result(run.model.to_proto(), part)


def quantize(
    model: ModelSource,
    data: DataSource | None = None,
    *,
    images: ImageOptions | Mapping[str, Any] | None = None,
    skip_bad: bool = False,
    input_names: Mapping[str, str] | None = None,
    target: str = "tensorrt-11",
    shapes: Mapping[str, Sequence[int | str]] | None = None,
    assume: Mapping[str, int] | None = None,
    freeze: Mapping[str, ArrayLike] | None = None,
    rules: Sequence[str | os.PathLike[str]] = (),
    prove: Prove = "when-possible",
    method: Literal["auto", "minmax", "average", "percentile", "entropy", "mse"] = "auto",
    percentile: float = 99.99,
    constant: float = 0.01,
    search: bool = False,
    exact: bool = False,
    stats: str | os.PathLike[str] | None = None,
    partial: bool = False,
    cache: bool = False,
    body: Literal["fp32"] = "fp32",
    samples: int = 512,
    seed: int = 0,
    keep_float: Sequence[str] = (),
    layers: Sequence[LayerRule] = (),
    plan: None = None,
    enable: Sequence[str] = (),
    skip: Sequence[str] = (),
    ort_ops: Sequence[str | os.PathLike[str]] = (),
    sm: int = 89,
    profiles: Mapping[str, Profile] | None = None,
    compile: bool = True,
    observe: Observer | None = None,
) -> Result:
    """Sanitizes a model and quantizes it to INT8: with explicit Q/DQ pairs, or a calibration cache.

    Args:
        model: a path or a ModelProto, which is not modified.
        data: calibration data: a path, or `{input: array}` for each sample; None: `stats` is all there is.
        images: how image files become input values: `ImageOptions`, or a mapping of its fields.
        skip_bad: leave out samples that are bad; they are counted in the report.
        input_names: `{input: name}`, what the data call inputs of the model that have another name there.
        target: the TensorRT version, see `onnxq.target.NAMES`. For one that takes no Q/DQ pairs the
            result is the sanitized float model, and a calibration cache.
        shapes: as in `sanitize`.
        assume: as in `sanitize`.
        freeze: as in `sanitize`.
        rules: as in `sanitize`.
        prove: as in `sanitize`.
        method: how ranges are chosen, see `onnxq.quant.thresholds`; `auto` takes the method whose outputs
            are nearest to the float model's on samples that calibration did not see, then other
            thresholds for the tensors that quantization hurts most.
        percentile: of method `percentile`, above 0 and at most 100.
        constant: of the moving average, above 0 and at most 1.
        search: choose the percentile by the outputs, as `auto` chooses the method.
        exact: make histograms of all values instead of some millions of each tensor.
        stats: what `calibrate` wrote, or a TensorRT calibration cache.
        partial: take statistics that lack samples, those of some shards; else they are refused.
        cache: also write a calibration cache, for TensorRT's implicit quantization.
        body: the type of what stays in float; `fp32` so far.
        samples: how many samples calibrate at most.
        seed: chooses them where there are more.
        keep_float: names of nodes to keep in float, as globs.
        layers: what is different for some layers, see `onnxq.config`.
        plan: reserved for plan files.
        enable: as in `sanitize`.
        skip: as in `sanitize`.
        ort_ops: as in `sanitize`; without them the part of the model that runs is calibrated.
        sm: the compute capability to compile for, 89 for 8.9.
        profiles: smallest, usual and largest shape of dynamic inputs, for the compiler.
        compile: whether to compile the result where NVIDIA's compiler is installed. Where it does not compile
            and the original does, `report["engine"]["regressed"]` is true, and `["regression"]` says why.
        observe: is told the steps.

    Raises:
        UserError: the model, the data or an argument cannot be used.
        Fault: a fault of onnxq.
    """
    steady_heap()
    _check_choices(method, body, plan)
    options = Calibration(
        method, percentile, constant, search, exact, samples, seed, tuple(layers), stats, skip_bad
    )
    _check_cache(target, cache)
    given = Given.read(stats, partial=partial) if stats is not None else None
    if partial and given is None:
        raise UserError("partial statistics are to be taken, but none are given", hint="give --stats FILE")
    with remarks.heard(), ort.custom_ops(ort_ops):
        with uncollected():
            job = Job(model, target, rules, enable, skip, prove, observe)
            job.bind(shapes, assume, freeze)
            source = None
            if data is not None:
                source = job.open_data(data, image_options(images), skip_bad, input_names)
            quantization = Quantization(job, options, source, given, cache)
            job.sanitize()
            refuse_sizes(job)
        return quantization.run(keep_float, Compilation(compile, sm, profiles or {}))


def _check_choices(method: str, body: str, plan: Any) -> None:
    for flag, value, known in (("method", method, METHODS), ("body", body, ("fp32",))):
        if value not in known:
            if value in ("fp16", "bf16"):
                raise UserError(f"{flag} {value!r} is not there yet", hint=f"this version has {known[0]!r}")
            raise unknown_name(flag, value, known)
    if plan is not None:
        raise UserError("plan files are not read yet", hint="leave it out")


def _check_cache(target: str, cache: bool) -> None:
    known = load_target(target)
    if cache and known.cache is None:
        raise UserError(
            f"{known.title} reads no calibration caches: implicit quantization was removed",
            hint="leave the cache out: its INT8 is in the model's Q/DQ pairs",
        )


def calibrate(
    model: ModelSource,
    data: DataSource,
    output: str | os.PathLike[str],
    *,
    force: bool = False,
    images: ImageOptions | Mapping[str, Any] | None = None,
    skip_bad: bool = False,
    input_names: Mapping[str, str] | None = None,
    target: str = "tensorrt-11",
    shapes: Mapping[str, Sequence[int | str]] | None = None,
    assume: Mapping[str, int] | None = None,
    freeze: Mapping[str, ArrayLike] | None = None,
    rules: Sequence[str | os.PathLike[str]] = (),
    exact: bool = False,
    samples: int = 512,
    seed: int = 0,
    shard: tuple[int, int] = (1, 1),
    workers: int = 1,
    enable: Sequence[str] = (),
    skip: Sequence[str] = (),
    ort_ops: Sequence[str | os.PathLike[str]] = (),
    observe: Observer | None = None,
) -> StatsFile:
    """Takes the statistics that every calibration method asks for, and writes them.

    A call that was interrupted goes on where it was when it is repeated.

    Args:
        model: as in `quantize`.
        data: as in `quantize`; what can be read only once (an iterator, a loader script) is taken in one
            go: not in shards, not by several workers, and anew after an interruption.
        output: the file to write, `X.stats.npz`.
        force: replace a file that holds no statistics; the model itself is never replaced.
        images: as in `quantize`.
        skip_bad: as in `quantize`.
        input_names: as in `quantize`.
        target: as in `quantize`.
        shapes: as in `sanitize`.
        assume: as in `sanitize`.
        freeze: as in `sanitize`.
        rules: as in `sanitize`.
        exact: as in `quantize`.
        samples: how many samples calibrate at most, all shards together.
        seed: chooses them where there are more.
        shard: `(i, n)`: take every n-th of them only, from the i-th on (from 1); the statistics of all
            shards are merged with `onnxq.merge_stats`.
        workers: how many processes; more than one needs data that is a path.
        enable: as in `sanitize`.
        skip: as in `sanitize`.
        ort_ops: as in `sanitize`.
        observe: is told the steps.

    Returns:
        What was written.

    Raises:
        UserError: the model, the data or an argument cannot be used.
        Fault: a fault of onnxq.
    """
    check_main(workers)
    steady_heap()
    options = Calibration(exact=exact, samples=samples, seed=seed, skip_bad=skip_bad)
    with ort.custom_ops(ort_ops):
        with uncollected():
            job = Job(model, target, rules, enable, skip, "when-possible", observe)
            check_output(Path(output), job.model.path, force=force)
            job.bind(shapes, assume, freeze)
            chosen = image_options(images)
            source = job.open_data(data, chosen, skip_bad, input_names)
            job.sanitize()
            refuse_sizes(job)
        return take_statistics(job, options, source, data, chosen, output, shard, workers)
