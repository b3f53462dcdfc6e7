"""The steps of each verb that quantizes: from a sanitized model to what it is asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from onnxq.base.plain import extended
from onnxq.base.reason import noted
from onnxq.documents.calibration import NotCalibrated
from onnxq.documents.plan import FormatsTried
from onnxq.documents.report import PlanReport
from onnxq.formats import in_words
from onnxq.options.settings import Goal
from onnxq.pipeline.accuracy import Accuracy, Asked
from onnxq.pipeline.body import body_part
from onnxq.pipeline.building import Built
from onnxq.pipeline.calibration import prepare
from onnxq.pipeline.comparing import asked_of_samples, crossed, errors_by_layer, judged_body, verified
from onnxq.pipeline.decision_ranking import MAX_FLOAT, Sensitivity, sensitivity_of
from onnxq.pipeline.deploying import deployment_parts, worths
from onnxq.pipeline.gates import Verified
from onnxq.pipeline.job import Job
from onnxq.pipeline.planning import Planned, planned
from onnxq.pipeline.pursuit import Measurement, Pursuit
from onnxq.pipeline.reporting import cache_of, calibration_part, compared, plan_part, reported
from onnxq.pipeline.result import Result
from onnxq.pipeline.run import ModelSearch, Run, RunRequest, searched
from onnxq.pipeline.sampling import Sampling
from onnxq.pipeline.searches import COMPILED, PLANNED, WRITTEN
from onnxq.pipeline.searches.body import BODY, decided, last_form, of_bounds
from onnxq.pipeline.searches.formats import in_formats
from onnxq.pipeline.searches.loud import stated
from onnxq.pipeline.searches.repair import untried
from onnxq.pipeline.starting import calibrated, samples_of, tell_of_pairs
from onnxq.pipeline.verifying import verify
from onnxq.run.deployment import Deployment


def quantized(request: RunRequest, ready: Callable[[Result], object] = lambda result: None) -> Result:
    """The model with its pairs, compared and compiled.

    Args:
        request: what is asked for.
        ready: is given the result as soon as the model is final: its outputs may not be compared yet.

    Raises:
        UserError: the data, the statistics or an argument cannot be used.
    """
    job = request.job
    job.deployments()  # refuses what does not fit before the data is read
    if request.pursuit is None:
        request = replace(request, pursuit=Pursuit.of(Goal(), Measurement()))
    sampling = samples_of(request, decides=request.pursues)
    as_float = None if job.target.explicit else job.result(job.model.to_proto())
    run = calibrated(request, sampling)
    tell_of_pairs(request, sampling, run.references.verifying)
    run = _searched((*PLANNED, *WRITTEN), run)
    if request.compilation.compile or request.pursues:
        run = verified(run)
    run = searched(COMPILED, run)  # the compiler has a say
    result, cache = _written(run, as_float)
    ready(result)  # the model is what it will be
    before, run = run.verified, verified(run)
    body = judged_body(run)
    run = crossed(run)
    report, job = result.report, run.built.job
    if run.verified is not before:
        report = replace(report, **compared(run, cache))
    result.report = job.finished(asked_of_samples(run, replace(report, body=body)))
    job.observe("layers", None, None)
    errors = errors_by_layer(run, result)
    result.report = job.finished(replace(result.report, layer_errors=errors))
    return result


def _written(run: Run, as_float: Result | None) -> tuple[Result, str | None]:
    """The result with what its report says by then, and its calibration cache.

    `as_float`: the result of a target that takes no pairs; None: it takes them.
    """
    job, made, cache = run.built.job, run.built.written, cache_of(run)
    if cache is not None and not run.ranges.tensors and run.request.file is not None:
        job.notes.append(noted("cache-alone"))
    result = (as_float or job.result(made.proto, made.model)).deployed(run.sampling.deployments)
    result.cache = cache
    result.report = reported(run, result.report, cache)
    return result, cache


def _searched(searches: Sequence[ModelSearch], run: Run) -> Run:
    """What searches come to; behind those of a plan alone, where several number formats are asked for."""
    if run.request.mixes:
        run, searches = in_formats(PLANNED, run), searches[len(PLANNED) :]
        deployments = run.sampling.deployed.deployments
        run = replace(run, worth=worths(run.built.floats.model, deployments))
    return searched(searches, run)


def plan_of(request: RunRequest) -> Planned:
    """The steps up to the scales; without data and statistics, up to the plan.

    Raises:
        UserError: the data, the statistics or an argument cannot be used.
    """
    job, sampling = request.job, samples_of(request)
    tell_of_pairs(request, sampling, None)
    if request.source is None and request.given is None:
        return _plan_without_ranges(request, sampling)
    run = _searched((*PLANNED, BODY), calibrated(request, sampling))
    built = run.built.finished()
    draft, made = built.draft, built.written
    calibration = calibration_part(run, built)
    report = extended(
        PlanReport,
        job.run(built.floats.model, "plan"),
        plan=plan_part(request, draft.plan, run.heads, run.formats),
        calibration=replace(calibration, measured=True),
        **deployment_parts(sampling.deployments, run.worth),
        repair=run.repair,
        body=body_part(draft.body, made, (), (), ()),
    )
    samples = f", {run.stats.samples} samples" if run.stats.samples else ""
    origin = f"{calibration.method}{samples}"
    return planned(job, draft, built.floats.model, sampling.deployments, origin, report, made.post_scaled)


def _plan_without_ranges(request: RunRequest, sampling: Sampling) -> Planned:
    job, repair = request.job, request.repair
    deployments = sampling.deployed.deployments if sampling.deployment.is_known else ()
    prepared = prepare(
        job, deployments or (Deployment(),), request.format, request.options.layers, request.body
    )
    draft, model = prepared.draft, prepared.floats.model
    notes = [*job.notes, *([] if deployments else _unknown_sizes(job))]
    taken = job.taken if job.taken is not None and job.taken.adopted else None
    wanted = set(draft.plan.measured)
    known = taken is not None and bool(wanted) and wanted <= taken.ranges(draft.plan).keys()
    why = noted("no-samples-for-formats", format=draft.plan.format_names)
    formats = FormatsTried(why=why) if request.mixes else None
    report = extended(
        PlanReport,
        job.run(job.model, "plan"),
        plan=plan_part(request, draft.plan, stated(model, draft.plan, request.loud), formats),
        repair=untried(repair, noted("no-samples-to-repair")) if repair.steps else None,
        calibration=NotCalibrated(measured=known, notes=tuple(notes)),
        **deployment_parts(sampling.deployments, worths(model, sampling.deployments)),
        body=body_part(request.body, None, (), (), ()),
    )
    origin = noted("plan-ranges.file" if known else "plan-ranges")
    return planned(job, draft, model, deployments, origin, report, settled=False)


def _unknown_sizes(job: Job) -> Iterator[str]:
    """That layers were judged without knowing how large they are."""
    dynamic = [
        spec.name for spec in job.input_specs() if not all(isinstance(d, int) for d in spec.shape or "?")
    ]
    if dynamic:
        yield noted("unknown-sizes", input=dynamic[0], formats=in_words(job.model.formats))


def accuracy_of(request: RunRequest, asked: Asked) -> Accuracy:
    """The steps up to the scales, and then what causes the error.

    Raises:
        UserError: the data or an argument cannot be used, or there are no data.
    """
    return _accuracy(_to_rank(request), asked)


def _to_rank(request: RunRequest) -> Run:
    """The scales of what is ranked: whatever is loud is in int8."""
    request = replace(request, ranks=True)
    sampling = samples_of(request, chooses=True)
    tell_of_pairs(request, sampling, None)
    return _searched(PLANNED, calibrated(request, sampling))


def _accuracy(run: Run, asked: Asked) -> Accuracy:
    accuracy = Accuracy(run.sampling, run.built, asked)
    accuracy.measure_body(decided(run.built, run.stats, run.sampling).draft.body.decision)
    return accuracy


def ranked(request: RunRequest, top: int) -> Sensitivity:
    """The same, ranked.

    Args:
        request: what is asked for.
        top: how many decisions are confirmed by measuring.

    Raises:
        UserError: the data or an argument cannot be used, there are no data, or nothing is quantized.
    """
    run = _to_rank(request)
    pursuit = run.request.pursuit
    assert pursuit is not None
    asked = pursuit.asked()
    limit = MAX_FLOAT if asked.max_float is None else asked.max_float
    accuracy = _accuracy(run, replace(asked, max_float=limit))

    def near(built: Built) -> Verified:
        as_written = last_form(built, run.stats, run.sampling)
        return pursuit.verified(run.sampling, as_written, run.references.verifying)

    return sensitivity_of(
        request.job, accuracy, pursuit, near, calibration_part(run, run.built), run.repair, top
    )


def converted(request: RunRequest) -> Result:
    """The model with another body, and nothing quantized; without data by what bounds its tensors.

    Raises:
        UserError: the data or the statistics cannot be used, or the model cannot have this body.
    """
    job = request.job
    sampling = Sampling(job, request.options, request.source, request.given)
    run = calibrated(request, sampling, quantizes=False)
    if request.source is None and request.given is None and request.body.kind is not None:
        built, accuracy = of_bounds(run.built, run.stats, sampling)
    else:
        built = searched((BODY,), run).built.finished()
        accuracy = verify(built.job, sampling, built.written.proto, run.references.verifying, emulate=True)
    made = built.written
    result = job.result(made.proto, made.model).deployed(sampling.deployments)
    result.report = replace(result.report, body=body_part(built.draft.body, made, (), accuracy, ()))
    return result
