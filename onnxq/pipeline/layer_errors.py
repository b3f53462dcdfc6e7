"""The errors by layer of what was made: what `onnxq analyze` measures, on a few samples, at the end of a run.

It costs a small share of the run or is left out; what it costs is counted in runs of the model.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import onnx

from onnxq import interrupts
from onnxq.analysis.changes import recorded
from onnxq.analysis.layer_errors import LayerErrors, lines_of
from onnxq.analysis.stages import Stage
from onnxq.errors import UserError
from onnxq.graph.external import externalize
from onnxq.graph.load import read
from onnxq.graph.model import Model
from onnxq.graph.spool import LARGE, weight_bytes
from onnxq.heap import collected
from onnxq.pipeline.beside import How, beside
from onnxq.pipeline.body import Finished
from onnxq.pipeline.job import Job
from onnxq.pipeline.sampling import Sampling
from onnxq.repair.workload import beside_runs

SAMPLES, SHARE = 4, 0.25
"""How many samples are run where nobody says, and what of the runs before that may cost at most."""

_A_SAMPLE = 5.0
"""Runs that a sample takes: both models, the layers alone, and the figures of all their tensors.

Measured: 3.7 of ResNet-18, 5 of UltraFace 320."""

_OPENED, _OF_A_BYTE = 0.1, 7.5e-9
"""What opening both models takes: of all that is done once, and of that for each byte of weights.

Measured: 0.5 CPU seconds of `digits`, 0.7 of UltraFace 320, 0.9 of ResNet-18 (45 MB)."""


_HEAVY = 1 << 23  # bytes of weights that are worth the files they are written to


@dataclass(frozen=True, slots=True)
class WorkDone:
    """What a run has done, in runs of its model.

    Attributes:
        macs: the multiply-accumulates of each layer, None where they are not known.
        runs: of calibration, choosing, verifying and repair.
    """

    macs: tuple[int | None, ...]
    runs: float

    @property
    def before(self) -> float:
        """All of it, with what is done once."""
        return self.runs + beside_runs(self.macs)

    def cost(self, samples: int, weights: int) -> float:
        """What errors by layer take on so many samples, of a model of so many bytes of weights."""
        return _A_SAMPLE * samples + beside_runs(self.macs) * (_OPENED + _OF_A_BYTE * weights)


def to_run(asked: int | None, held: int, weights: int, work: WorkDone) -> tuple[int, str]:
    """How many samples are run, and why none is: "" where some are.

    Args:
        asked: how many are asked for; 0: none; None: `SAMPLES`, or as many as may be for their cost.
        held: how many there are.
        weights: bytes of the result's.
        work: what the run has done.
    """
    if asked is not None:
        return (min(held, asked), "") if asked else (0, "left out")
    count, most = min(held, SAMPLES), SHARE * work.before
    while count > 1 and work.cost(count, weights) > most:
        count -= 1
    cost = work.cost(count, weights)
    if weights >= LARGE:
        return count, "the model is large"
    if cost > most:
        return count, (
            f"it would take {cost:.0f} runs of the model, more than {SHARE:.0%} of the {work.before:.0f} "
            "before it"
        )
    return count, ""


def layer_errors(
    job: Job, sampling: Sampling, asked: int | None, made: Finished, report: Mapping[str, Any], work: WorkDone
) -> LayerErrors | None:
    """The errors by layer of a result; None without samples.

    Args:
        job: of the model.
        sampling: gives the samples that verify.
        asked: how many are run; 0: none; None: `SAMPLES`, or as many as may be for their cost.
        made: the result.
        report: what is known of how it was made.
        work: what the run has done.
    """
    if sampling.parts is None:
        return None
    weights = weight_bytes(made.proto)
    count, why = to_run(asked, sampling.parts.held or SAMPLES, weights, work)
    cost, before = round(work.cost(count, weights) if asked != 0 else 0.0, 1), round(work.before, 1)
    if why:
        return LayerErrors(why, runs=cost, runs_before=before)
    with job.step("layers"):
        try:
            return _measured(job, sampling, count, made, report, cost, before)
        except UserError as error:  # the result stands without it: custom operators, say
            why = str(error)
        except Exception as error:
            why = f"it ends in a fault of onnxq ({type(error).__name__}: {error})"
    return LayerErrors(why, runs=cost, runs_before=before)


def _measured(
    job: Job,
    sampling: Sampling,
    count: int,
    made: Finished,
    report: Mapping[str, Any],
    cost: float,
    before: float,
) -> LayerErrors:
    def tell(step: str, done: int | None) -> None:
        job.observe("layers", done, None if done is None else count)

    with interrupts.Folder() as name:
        one = _stage(job.original(), Path(name) / "original")
        other = _stage(Model(made.proto, None, made.model.data_dir), Path(name) / "result")
        if one.data_dir is not None or other.data_dir is not None:  # weights in files, of heavy models
            collected()  # the graphs of both, which nobody needs any more
        samples = itertools.islice(sampling.held_out(silent=True), count)
        how = How(histogram=False, by_parts=True, parts=job.parts)
        found = beside(one, other, recorded(report), samples, how, tell)
    return LayerErrors(
        samples=found.samples, runs=cost, runs_before=before, rows=lines_of(found.rows), drift=found.drift,
        drift_db=found.drift_db, nonfinite=found.nonfinite, worst=found.worst, notes=found.notes,
    )  # fmt: skip


def _stage(source: Path | onnx.ModelProto | Model, folder: Path) -> Stage:
    """A model, opened; heavy weights are in files of a folder, and in memory where they are read alone."""
    if isinstance(source, Model):
        proto, path, data_dir = source.to_proto(), source.path, source.data_dir
    elif isinstance(source, Path):
        proto, path, data_dir = read(source), source, source.parent
    else:
        proto, path, data_dir = source, None, None
    if weight_bytes(proto) <= _HEAVY:
        return Stage(source)
    folder.mkdir()
    return Stage(Model(externalize(proto, folder / "weights", data_dir), path, folder))
