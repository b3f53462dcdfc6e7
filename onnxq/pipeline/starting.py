"""What a run starts from: its samples, the plan, and scales by the method."""

from __future__ import annotations

import functools
from dataclasses import replace

from onnxq.base import remarks
from onnxq.base.errors import UserError
from onnxq.base.reason import noted
from onnxq.graph.spool import LARGE, weight_bytes
from onnxq.pipeline.body import bounded
from onnxq.pipeline.calibration import Prepared, prepare
from onnxq.pipeline.deploying import worths
from onnxq.pipeline.file_pairs import as_measured, kept_inexact
from onnxq.pipeline.job import Job
from onnxq.pipeline.preparation import MOST, AsTrained, preparation_seen
from onnxq.pipeline.ranging import Ranging
from onnxq.pipeline.run import Run, RunRequest
from onnxq.pipeline.sampling import Sampling
from onnxq.pipeline.searches.repair import enough, stated_part
from onnxq.pipeline.searches.scales import with_scales
from onnxq.pipeline.verifying import references, verify
from onnxq.quant.draft.from_file import check_body
from onnxq.run.compare import Recording
from onnxq.run.finding_parts import LOOKS
from onnxq.task.known import NO_TASK, KnownTask


def is_large(job: Job) -> bool:
    """Whether a second model would be too much for the memory."""
    return weight_bytes(job.model.to_proto(weights=False)) >= LARGE


def samples_of(request: RunRequest, *, chooses: bool = False, decides: bool = False) -> Sampling:
    """The samples: where there is repair, some are kept apart to choose.

    Args:
        request: what is asked for.
        chooses: they are, whatever there is.
        decides: others, too, to confirm what is chosen.

    Raises:
        UserError: there are none, or they or the model are not those of the given statistics.
    """
    source, repair = request.source, request.repair
    count = source.count if source is not None else None
    repairs = bool(repair.steps) and request.job.target.explicit
    if repair.is_auto and count is not None and not enough(count):
        repairs = False
    decides |= request.format.loud == "auto" or request.mixes
    return Sampling(
        request.job, request.options, source, request.given,
        chooses=chooses or repairs or decides, confirms=decides or request.loud == "default",
        keeps=repair.repair_samples if repairs else 0,
    )  # fmt: skip


def calibrated(request: RunRequest, sampling: Sampling, *, quantizes: bool = True) -> Run:
    """Plans, looks at the data, takes statistics, and inserts pairs with the scales of the method.

    Args:
        request: what is asked for.
        sampling: its samples.
        quantizes: whether anything is to be quantized.

    Raises:
        UserError: the data, the statistics or an argument cannot be used.
    """
    job, options, file, deployed = request.job, request.options, request.file, sampling.deployed
    deployments = deployed.deployments
    if file is not None and file.sizes and not deployments[0].name:
        deployments = (replace(deployments[0], usual=file.shapes),)
    prepared = prepare(
        job, deployments, request.format, options.layers, request.body, file, quantizes=quantizes,
        usual=deployed.usual,
    )  # fmt: skip
    if file is not None:
        check_body(file, prepared.floats.model)
    worth = worths(prepared.floats.model, deployed.deployments)
    if request.pursuit is not None:
        seen = functools.partial(sampling.looking, LOOKS)
        request = replace(request, pursuit=request.pursuit.begun(job, prepared, lambda: job.feeds(seen())))
    task = _task(request, prepared)
    _look_at_data(job, sampling, prepared, task)
    with job.step("calibrate"):
        ranging = Ranging(
            job, options, sampling, request.given, prepared, bounded(prepared), halved=task.is_rare,
        )  # fmt: skip
        stats = ranging.statistics(cache=request.cache is not None)
        ranging = ranging.without(stats.without_values(prepared.measured), stats.samples)
        draft, ranges = ranging.prepared.draft, ranging.ranges(stats)
        confirms = sampling.confirms and request.pursues
        job, expected = references(job, options, sampling, prepared.unedited, confirms=confirms)
        job.notes.extend([*sampling.deployed.notes, *sampling.deployed.not_calibrated()])
    asked = options.method != "auto" or options.search
    if file is not None and asked and not any(map(ranges.is_free, draft.plan.measured)):
        job.notes.append(noted("method-not-used", method=options.default))
    built = with_scales(job, options, draft, prepared.floats, ranges)
    part = stated_part(built) if request.states_repair else None
    return Run(
        request, sampling, ranging, built, ranges, stats, stats, expected, worth, task, repair=part,
    )  # fmt: skip


def _task(request: RunRequest, prepared: Prepared) -> KnownTask:
    """What is known of the model's task."""
    if request.pursuit is not None and request.pursuit.bound is not None:
        return request.pursuit.bound.task
    outputs = [info.name for info in prepared.unedited.graph.output]
    return KnownTask.of(None, request.job.model, outputs) if outputs else NO_TASK


def _look_at_data(job: Job, sampling: Sampling, prepared: Prepared, known: KnownTask) -> None:
    """Asks the float model whether its pictures are prepared as it was trained."""
    floats = prepared.unedited
    if job.glance is None or sampling.source is None or not floats.graph.output:
        return
    model, count = AsTrained.of(floats, job.model, known.layout, job.glance.norms), sampling.source.count
    with job.step("data"):
        samples = job.feeds(sampling.looking(MOST))
        job.glance.look = preparation_seen(model, job.glance.inputs, samples, count)


def tell_of_pairs(request: RunRequest, sampling: Sampling, file: Recording | None) -> None:
    """What adopting or dropping the file's pairs comes to, where they are kept and cost float arithmetic.

    Measured as calibrated, without what searches for more.

    Args:
        request: what is asked for.
        sampling: its samples.
        file: what the file gives; None: nothing is measured.
    """
    job, source, told = request.job, request.source, []
    if not job.inexact:
        return
    measures = source is not None and source.count is not None and file is not None
    for pairs in ("adopt", "drop") if measures and not job.limit.is_over and not is_large(job) else ():
        try:
            with remarks.heard(), job.step("pairs"):
                other = RunRequest.of(
                    job.with_pairs(pairs), request.options, source, None, request.format,
                    repair=request.repair,
                )  # fmt: skip
                built = calibrated(other, samples_of(other, decides=sampling.confirms)).built
            near = verify(built.job, sampling, built.proto, file)
            told.append(as_measured(pairs, near, built.floats.model, built.draft.plan))
        except UserError as error:  # the run is for what is kept
            job.notes.append(f"--pairs {pairs} was not measured: {error}")
    job.notes.append(kept_inexact(job.inexact, told))
