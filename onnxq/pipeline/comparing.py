"""How near a model is to the float one, as it is written: its outputs, its body, its layers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from onnxq.advice.advise import advise
from onnxq.advice.causes import FEW_SAMPLES, MORE_DO_NOT_HELP, MORE_HELP, calibrated
from onnxq.analysis.reports import part_of
from onnxq.base.errors import UserError
from onnxq.base.reason import noted
from onnxq.base.shown import decibels
from onnxq.documents.analysis import LayerErrors
from onnxq.documents.body import BodyPart, Int8Operators
from onnxq.documents.calibration import CalibrationPart
from onnxq.documents.report import Report
from onnxq.formats import INT8
from onnxq.graph.spool import LARGE, weight_bytes
from onnxq.pipeline.body import body_part
from onnxq.pipeline.building import Built
from onnxq.pipeline.layer_errors import layer_errors
from onnxq.pipeline.result import Result
from onnxq.pipeline.run import Run
from onnxq.pipeline.searches.scales import with_scales
from onnxq.pipeline.starting import is_large
from onnxq.pipeline.verifying import BODY_SAMPLES, recorded, verify
from onnxq.run.compare import OutputAccuracy
from onnxq.run.fusions import int8_operators
from onnxq.run.ort import RunError

_FAR_OFF = ("answers", "level", "lost")
_LEAST, _HELPS_DB = 4, 1.0


def verified(run: Run) -> Run:
    """With how near its outputs are, on samples that decided nothing."""
    if run.verified is not None:
        return run
    assert run.request.pursuit is not None
    found = run.request.pursuit.verified(
        run.sampling, run.built, run.references.verifying,
        crossed=run.crossing(run.built) if run.request.pursues else (),
    )  # fmt: skip
    return replace(run, verified=found)


def crossed(run: Run) -> Run:
    """Likewise, on samples that fitted or chose, too: by what others fitted. Of a goal `verified` says it."""
    pursuit, crossing = run.request.pursuit, () if run.request.pursues else run.crossing(run.built)
    assert pursuit is not None
    if not crossing:
        return run
    found = pursuit.verified(run.sampling, run.built, run.references.verifying, crossed=crossing)
    return replace(run, verified=found)


def judged_body(run: Run) -> BodyPart:
    """The report's part on the body of the result, of a run that is verified."""
    built, sampling, expected = run.built, run.sampling, run.references.verifying
    job, made, decision = built.job, built.written, built.draft.body.decision
    assert run.verified is not None
    if not built.emulates:
        body = body_part(built.draft.body, made, run.verified.accuracy, (), ())
        return replace(body, onnxruntime=_recognised(built))
    int8 = verify(job, sampling, built.proto, expected)
    alone: Sequence[OutputAccuracy] = ()
    settled = decision.settled if decision is not None else None
    if decision is not None and settled is not None:
        if expected is not None and decision.refitted:
            expected = recorded(job, sampling, decision.reference(built.floats.model).to_proto())
        proto = settled.body.model.to_proto()
        alone = verify(job, sampling, proto, expected, emulate=True, most=BODY_SAMPLES)
    body = body_part(built.draft.body, made, int8, alone, run.verified.accuracy)
    return replace(body, onnxruntime=_recognised(built))


def _recognised(built: Built) -> Int8Operators | None:
    """How many of the int8 layers onnxruntime makes int8 operators of; none of a large model."""
    proto, plan = built.written.proto, built.draft.plan
    planned = plan.planned
    if not planned or plan.formats != (INT8,) or weight_bytes(proto) >= LARGE:
        return None
    try:
        operators = int8_operators(proto, built.floats.model.data_dir)
    except RunError:
        return None
    return Int8Operators(operators, len(planned))


def asked_of_samples(run: Run, report: Report) -> Report:
    """The report, with whether more samples would help where outputs are far off and these are few."""
    request, job, parts = run.request, run.built.job, run.sampling.parts
    again = parts is not None and parts.used is not None and not parts.shared
    if not again or request.file is not None or request.given is not None or not _worth_asking(report, run):
        return report
    if job.limit.is_over or is_large(job):
        return report
    try:
        told = _told_of_half(run)
    except UserError as error:  # the run is for what is written
        told = noted("more-samples-not-measured", error=error)
    part = part_of(CalibrationPart, report.calibration)
    return replace(report, calibration=replace(part, notes=(*part.notes, told))) if told else report


def _worth_asking(report: Report, run: Run) -> bool:
    """Whether few samples calibrated a result that is far off, as they may be the cause."""
    return (
        run.measured.samples >= _LEAST
        and calibrated(report) < FEW_SAMPLES
        and any(one.code in _FAR_OFF and one.weight == "bad" for one in advise(report).findings)
    )


def _told_of_half(run: Run) -> str:
    """What scales of half of the samples leave beside those of all; "" where it cannot be measured.

    Nothing is repaired on either side.

    Raises:
        UserError: the model does not run on a sample.
    """
    job, levels = run.built.job, []
    for stats in (run.ranging.of_half(), run.measured):
        ranges, prepared = run.ranging.ranges(stats), run.prepared
        built = with_scales(job, run.request.options, prepared.draft, prepared.floats, ranges)
        near = verify(job, run.sampling, built.proto, run.references.verifying)
        levels.append(min((one.sqnr_db for one in near if one.sqnr_db is not None), default=None))
    half, whole = levels
    if half is None or whole is None:
        return ""
    said = MORE_HELP if whole - half >= _HELPS_DB else MORE_DO_NOT_HELP
    return noted("half-samples", said=said, half=decibels(half), all=decibels(whole))


def errors_by_layer(run: Run, result: Result) -> LayerErrors | None:
    """The errors by layer of the result; None where nothing of it runs, or nothing is quantized."""
    built = run.built
    if not built.draft.plan.pairs or not built.floats.whole or run.sampling.parts is None:
        return None
    if built.job.limit.is_over:
        return LayerErrors(f"{built.job.limit} is reached")
    layer_samples = run.request.details.layer_samples
    return layer_errors(built.job, run.sampling, layer_samples, built.written, result.report)
