"""Whether more samples bring the outputs nearer: scales of half of them beside those of all."""

from __future__ import annotations

from onnxq.advice.advise import advise
from onnxq.advice.causes import FEW_SAMPLES, MORE_DO_NOT_HELP, MORE_HELP, calibrated
from onnxq.base.reason import noted
from onnxq.base.shown import decibels
from onnxq.documents.report import Report
from onnxq.pipeline.calibration import Calibrating
from onnxq.pipeline.job import Job
from onnxq.pipeline.ranging import Ranging
from onnxq.pipeline.sampling import Sampling
from onnxq.pipeline.searches.scales import with_scales
from onnxq.pipeline.state import RunState
from onnxq.pipeline.verifying import verify

_FAR_OFF = ("answers", "level", "lost")
_LEAST, _HELPS_DB = 4, 1.0


def worth_asking(report: Report, state: RunState) -> bool:
    """Whether few samples calibrated a result that is far off, as they may be the cause."""
    return (
        state.measured.samples >= _LEAST
        and calibrated(report) < FEW_SAMPLES
        and any(one.code in _FAR_OFF and one.weight == "bad" for one in advise(report).findings)
    )


def told_of_half(
    job: Job, options: Calibrating, sampling: Sampling, ranging: Ranging, state: RunState
) -> str:
    """What is said of more samples; "" where it cannot be measured. Nothing is repaired on either side.

    Args:
        job: of the float model.
        options: the method.
        sampling: the samples.
        ranging: what made ranges of statistics, of the plan as it was then.
        state: that of the run, with the statistics of all samples.

    Raises:
        UserError: the model does not run on a sample.
    """
    levels = []
    for stats in (ranging.of_half(), state.measured):
        built = with_scales(
            job, options, ranging.prepared.draft, ranging.prepared.floats, ranging.ranges(stats)
        )
        near = verify(job, sampling, built.proto, state.references.verifying)
        levels.append(min((one.sqnr_db for one in near if one.sqnr_db is not None), default=None))
    half, whole = levels
    if half is None or whole is None:
        return ""
    said = MORE_HELP if whole - half >= _HELPS_DB else MORE_DO_NOT_HELP
    return noted("half-samples", said=said, half=decibels(half), all=decibels(whole))
