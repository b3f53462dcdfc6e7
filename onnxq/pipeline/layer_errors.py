"""The errors by layer of what was made: what `onnxq analyze` measures, on a few samples, at the end of a run.

It costs a small share of the run, or it is of fewer samples, or left out.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import onnx

from onnxq.analysis.changes import recorded
from onnxq.analysis.octaves import ChannelSpread
from onnxq.analysis.reports import part_of
from onnxq.analysis.stages import Stage
from onnxq.analysis.tensor_pass import written_tensors
from onnxq.analysis.tensors import WORST
from onnxq.base import interrupts, remarks
from onnxq.base.errors import UserError, fault_of
from onnxq.base.heap import collected
from onnxq.base.reason import noted, reason
from onnxq.documents.analysis import ChannelDrawn, LayerErrors, lines_of
from onnxq.documents.plan import PlanPart
from onnxq.documents.report import Report
from onnxq.graph.external import externalize
from onnxq.graph.model import Model
from onnxq.graph.rooted import read_beside
from onnxq.graph.spool import LARGE, weight_bytes
from onnxq.pipeline.building import Finished
from onnxq.pipeline.job import Job
from onnxq.pipeline.sampling import Sampling
from onnxq.pipeline.stage_comparison import How, beside

SAMPLES, SHARE = 4, 0.15
"""How many samples are run where nobody says, and what share of the whole run they may take at most."""

_FREE = 1.0
"""Seconds that they may take in any case, of a run that is over at once."""

_LOOK = 0.3
"""The share of that after which it is looked at how far they are: the first parts alone tell little."""

_ROWS = 1.2
"""What all of it takes, in what the samples take: causes and rows come after them.

Measured: 1.1 of YOLOv8n and ResNet-18, 1.3 of UltraFace 320."""

_HEAVY = 1 << 23  # bytes of weights that are worth the files they are written to


class Fewer(Exception):
    """There is time for fewer samples than are run.

    Attributes:
        samples: for how many; 0: for none.
    """

    def __init__(self, samples: int) -> None:
        super().__init__(samples)
        self.samples = samples


class Allowance:
    """What errors by layer may take: `SHARE` of the run with them, of the clock and of the processors.

    All samples run through a part of the model before the next part. What that takes is measured, and how far
    it is, is told by the bytes of the tensors that were compared: so it is known early what all of it takes.
    Where that is too much, they begin again with fewer samples; no layer is ever left out. While there is
    time enough nothing depends on how fast the machine is.
    """

    def __init__(self, spent: Callable[[], tuple[float, float]]) -> None:
        """Begins; `spent`: what the run has taken so far, seconds of the clock and of the processors."""
        self._spent, self._first = spent, spent()
        self._limits = [max(_FREE, SHARE / (1 - SHARE) * before) for before in self._first]
        self._again = self._taken()

    def _taken(self) -> list[float]:
        return [now - first for now, first in zip(self._spent(), self._first, strict=True)]

    def pace(self, share: float, samples: int) -> None:
        """Hears which share of the work of so many samples is done, 0 to 1: 0 where it begins.

        Raises:
            Fewer: the rest of it would take too long.
        """
        now = self._taken()
        if not share:
            self._again = now
            return
        fit = [
            self._fitting(limit, again, taken, share, samples)
            for limit, again, taken in zip(self._limits, self._again, now, strict=True)
        ]
        if min(fit) < samples:
            raise Fewer(max(0, min(fit)))

    def _fitting(self, limit: float, again: float, taken: float, share: float, samples: int) -> int:
        """How many samples fit into a limit, of which some was taken before this attempt began."""
        whole = (taken - again) / share * _ROWS
        if taken - again < _LOOK * (limit - again) or again + whole <= limit:
            return samples
        return min(samples - 1, int((limit - taken) / whole * samples))


def to_run(asked: int | None, held: int, weights: int) -> tuple[int, str]:
    """How many samples are run, and why none is: "" where some are.

    Args:
        asked: how many are asked for; 0: none; None: `SAMPLES`.
        held: how many there are.
        weights: bytes of the result's.
    """
    if asked is not None:
        return (min(held, asked), "") if asked else (0, "left out")
    return min(held, SAMPLES), reason("large-model") if weights >= LARGE else ""


def layer_errors(
    job: Job, sampling: Sampling, asked: int | None, made: Finished, report: Report
) -> LayerErrors | None:
    """The errors by layer of a result; None without samples.

    Args:
        job: of the model.
        sampling: gives the samples that verify.
        asked: how many are run; 0: none; None: `SAMPLES`, or as many as there is time for.
        made: the result.
        report: what is known of how it was made.
    """
    if sampling.parts is None:
        return None
    count, why = to_run(asked, sampling.parts.held or SAMPLES, weight_bytes(made.proto))
    if why:
        return LayerErrors(why)
    with job.step("layers"):
        try:
            return _measured(job, sampling, count, made, report, limited=asked is None)
        except UserError as error:  # the result stands without it: custom operators, say
            why = str(error)
        except Exception as error:
            why = f"it ends in {fault_of(error)}"
            remarks.remark(noted("layer-errors.not-measured", why=why))
    return LayerErrors(why)


def _measured(
    job: Job, sampling: Sampling, wanted: int, made: Finished, report: Report, *, limited: bool
) -> LayerErrors:
    def tell(step: str, done: int | None) -> None:
        job.observe("layers", done, None if done is None else count)

    how = How(histogram=False, by_parts=True, parts=job.parts, axes=_axes(job, report))
    if limited:
        how = replace(how, pace=Allowance(job.spent).pace)
    with interrupts.Folder() as name:
        original = _stage(job.original(), Path(name) / "original")
        other = _stage(Model(made.proto, None, made.model.data_dir), Path(name) / "result")
        if original.data_dir is not None or other.data_dir is not None:  # weights in files, of heavy models
            collected()  # the graphs of both, which nobody needs any more
        count, compared = wanted, None
        while compared is None and count:
            samples = itertools.islice(sampling.held_out(silent=True), count)
            try:
                compared = beside(original, other, recorded(report), samples, how, tell)
            except Fewer as error:
                count = error.samples
    if compared is None:
        return LayerErrors(reason("long-sample", share=SHARE))
    notes = () if count == wanted else (noted("layer-errors.few", share=SHARE),)
    return LayerErrors(
        samples=compared.samples, rows=lines_of(compared.rows), drift=compared.drift,
        drift_db=compared.drift_db, nonfinite=compared.nonfinite, worst=compared.worst,
        notes=(*notes, *compared.notes), ranges=compared.ranges,
        channels={name: drawn for name, spread in compared.spreads.items() if (drawn := _drawn(spread))},
    )  # fmt: skip


def _axes(job: Job, report: Report) -> dict[str, int]:
    """The axes of the channels of quantized activations."""
    wanted = {site.tensor for site in part_of(PlanPart, report.plan).sites if site.kind == "activation"}
    written = written_tensors(job.model)
    return {one.tensor: one.axis for one in written if one.tensor in wanted and one.axis is not None}


def _drawn(spread: ChannelSpread) -> tuple[ChannelDrawn, ...]:
    """All channels, and those with the greatest values; none where all is 0."""
    found = spread.widest(WORST)
    return tuple(
        ChannelDrawn(channel, round(math.log2(own.edges[0])), " ".join(map(str, own.counts)))
        for channel, own in found.items()
        if own.counts
    )


def _stage(source: Path | onnx.ModelProto | Model, folder: Path) -> Stage:
    """A model, opened; heavy weights are in files of a folder, and in memory where they are read alone."""
    if isinstance(source, Model):
        proto, path, data_dir = source.to_proto(), source.path, source.data_dir
    elif isinstance(source, Path):
        (proto, data_dir), path = read_beside(source), source
    else:
        proto, path, data_dir = source, None, None
    if weight_bytes(proto) <= _HEAVY:
        return Stage(source)
    folder.mkdir()
    return Stage(Model(externalize(proto, folder / "weights", data_dir), path, folder))
