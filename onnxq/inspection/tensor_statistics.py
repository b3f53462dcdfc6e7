"""Statistics of a model's activations: measured on data, or read from what `calibrate` wrote."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Unpack

import numpy as np

from onnxq.analysis.asked_rows import wanted_rows
from onnxq.analysis.octaves import WhichChannels
from onnxq.analysis.reports import part_of
from onnxq.analysis.tensor_pass import TensorPass, written_tensors
from onnxq.analysis.tensors import CodeGrid, TensorRow, TensorTable, Written, lacks_of_file, row_of_stats
from onnxq.base.errors import UserError, unknown_name
from onnxq.base.progress import Observer, told
from onnxq.base.reason import noted
from onnxq.calib.stats_file import read
from onnxq.calib.trt_cache import is_cache
from onnxq.data.samples import Sample, specs_of
from onnxq.data.sources import DataSource
from onnxq.documents.calibration import CalibrationPart
from onnxq.documents.plan import PlanPart
from onnxq.documents.repair import RepairPart
from onnxq.documents.report import Report
from onnxq.emit.recorded import report_beside
from onnxq.formats import FORMATS, INT8, NumberFormat
from onnxq.graph.load import ModelSource
from onnxq.graph.model import Model
from onnxq.graph.pairs import Pair, PairIndex
from onnxq.inspection.opened_data import open_data
from onnxq.options.call_options import StatisticsOptions
from onnxq.options.grouped import Options
from onnxq.options.keywords import takes_options
from onnxq.run import ort
from onnxq.run.versions import refuse_unreadable

__all__ = ["statistics"]


@takes_options
def statistics(
    model: ModelSource,
    data: DataSource | None = None,
    *,
    stats: str | os.PathLike[str] | None = None,
    against: ModelSource | None = None,
    samples: int | None = None,
    channels: bool = True,
    histograms: WhichChannels = "worst",
    integers: bool = False,
    match: Sequence[str] = (),
    ops: Sequence[str] = (),
    observe: Observer | None = None,
    **options: Unpack[StatisticsOptions],
) -> TensorTable:
    """What the activations of a model hold, by tensor and by channel.

    Args:
        model: a path or a ModelProto, which is not modified; float or quantized.
        data: what is run; memory does not grow with the samples.
        stats: in place of data: what `calibrate` wrote. What it does not hold is None, and said.
        against: the quantized model whose scales are looked at; the model itself by default. The report
            beside its file tells the scales of tensors that have no pair of their own.
        samples: how many samples at most; None: all.
        channels: whether channels have rows, too.
        histograms: of which channels there are histograms: of the two worst of each tensor, or of all.
        integers: whether codes are counted, of tensors that have a scale.
        match: patterns: only tensors of which one fits the name, or that of the node that writes them.
        ops: only tensors that these operators write; `input` for the inputs.
        observe: is told the progress.
        options: groups of options, or fields of these as keywords of their own: `skip_bad=True`.

    Raises:
        UserError: the model, data or statistics cannot be used; there is no such name or operator.
        TypeError: there is no such keyword.
    """
    asked = Options.of("statistics", options)
    if (data is None) == (stats is None):
        which = "neither data nor a statistics file is given" if data is None else "both are given"
        raise UserError(f"statistics of what is not said: {which}", hint="give --calib DATA or --stats S")
    if samples is not None and (samples < 1 or stats is not None):
        why = "there must be at least 1" if samples < 1 else "the statistics file says which"
        raise UserError(f"--samples {samples}: {why}")
    if integers and stats is not None:
        raise UserError(
            "codes are asked for, and a statistics file holds none", hint="give --calib DATA in its place"
        )
    opened = Model.open(model)
    refuse_unreadable(opened.source, "the model")
    quantized = opened if against is None else Model.open(against)
    grids = grids_of(quantized, None if quantized.path is None else report_beside(quantized.path))
    written = written_tensors(opened)
    wanted = wanted_rows(written, lambda one: (one.tensor, one.node), lambda one: one.op, match, ops)
    scales = "" if not grids else "the model" if quantized.path is None else str(quantized.path)
    name = "" if opened.path is None else str(opened.path)
    if stats is not None:
        return _of_file(name, scales, Path(stats), wanted, written, grids)
    with ort.running(asked.runtime):
        assert data is not None
        work = TensorPass(
            opened, written, {one.tensor for one in wanted}, grids, channels=channels, codes=integers
        )
        skipped = _run(work, opened, data, samples, asked, observe)
    rows: list[TensorRow] = []
    for one in wanted:
        rows += work.tallies[one.tensor].rows(one, channels=channels, histograms=histograms)
    return TensorTable(
        "statistics", 1, name, "data", scales, work.samples, tuple(rows), work.not_finite(),
        tuple(_lacks(rows, wanted, work, channels=channels, integers=integers)), tuple(skipped),
    )  # fmt: skip


def _run(
    work: TensorPass,
    model: Model,
    data: DataSource,
    samples: int | None,
    asked: Options,
    observe: Observer | None,
) -> list[str]:
    """Runs the samples; returns those that were left out, and why."""
    tell = told(observe)
    source, chosen, progress = open_data(data, specs_of(model), asked, samples, tell, "statistics")
    skipped: list[str] = []

    def skip(sample: Sample, error: UserError) -> None:
        skipped.append(f"{sample.where}: {error}")

    tell("statistics", None, None)
    try:
        work.take(chosen, progress=progress, skip=skip if asked.feeding.skip_bad else None)
    except ort.RunError as error:
        raise UserError(
            f"onnxruntime does not run the model: {error}",
            hint="onnxq sanitize may repair it; --ort-ops LIB or --ops X.py brings custom operators",
        ) from error
    if not work.samples:
        raise UserError("there is no good sample", hint="check the data")
    return [*(f"{where}: {why}" for where, why in source.skipped), *skipped]


def _of_file(
    name: str,
    scales: str,
    path: Path,
    wanted: Sequence[Written],
    written: Sequence[Written],
    grids: Mapping[str, CodeGrid],
) -> TensorTable:
    if is_cache(path):
        raise UserError(
            f"{str(path)!r} is a calibration cache: it holds scales, no statistics",
            hint="give a file that `onnxq calibrate` wrote",
        )
    file = read(path, hint="give a file that `onnxq calibrate` wrote")
    held = file.stats.tensors
    names = {one.tensor for one in written}
    if held and names.isdisjoint(held):
        raise unknown_name("tensor of the statistics in the model named", next(iter(held)), sorted(names))
    here = [one for one in wanted if one.tensor in held]
    rows = [row_of_stats(held[one.tensor], one, grids.get(one.tensor)) for one in here]
    lacks = lacks_of_file(rows)
    others = [one.tensor for one in wanted if one.tensor not in held]
    if others:
        lacks.append(noted("table-lacks.of-model", tensors=_tensors(others), first=others[0]))
    away = sorted(set(held) - names)
    if away:
        lacks.append(noted("table-lacks.of-file", tensors=_tensors(away), first=away[0]))
    lacks += _without_scale(rows)
    skipped = tuple(why if where in why else f"{where}: {why}" for where, why in file.skipped)
    return TensorTable(
        "statistics", 1, name, "file", scales, file.stats.samples, tuple(rows), (), tuple(lacks), skipped
    )


def _lacks(
    rows: Sequence[TensorRow], wanted: Sequence[Written], work: TensorPass, *, channels: bool, integers: bool
) -> list[str]:
    lacks = _without_scale(rows)
    if integers and not any(row.codes is not None for row in rows):
        lacks.append(noted("table-lacks.codes"))
    lost = [one.tensor for one in wanted if work.tallies[one.tensor].collapsed]
    if channels and lost:
        lacks.append(noted("table-lacks.channels", tensors=_tensors(lost), first=lost[0]))
    return lacks


def _without_scale(rows: Sequence[TensorRow]) -> list[str]:
    none = [row for row in rows if row.channel is None and row.scale is None]
    return [noted("table-lacks.scales", tensors=_tensors(none))] if none else []


def _tensors(entries: Sequence[object]) -> str:
    return f"{len(entries)} tensor{'s' * (len(entries) != 1)}"


def grids_of(model: Model, report: Report | None = None) -> dict[str, CodeGrid]:
    """How each tensor that a QuantizeLinear reads is quantized, casts looked through.

    Pairs with computed scales, or with one for each channel, have no single step and are left out.

    Args:
        model: the quantized model.
        report: what onnxq wrote beside it: the scales of tensors that have no pair of their own.
    """
    grids: dict[str, CodeGrid] = {}
    for pair in PairIndex.of(model).quantizing:
        grid, tensor = _grid(pair), pair.source
        while grid is not None and tensor is not None and not tensor.is_constant:
            grids.setdefault(tensor.name, grid)
            maker = tensor.producer
            tensor = maker.inputs[0] if maker is not None and maker.op == "Cast" else None
    formats = _formats(report)
    for name, scale in _scales(report).items():
        assert report is not None  # it has scales
        grids.setdefault(name, _of_format(scale, 0, FORMATS[formats.get(name, INT8.name)]))
    return grids


def _formats(report: Report | None) -> dict[str, str]:
    """The number format of each tensor with a scale, by what onnxq wrote."""
    plan = part_of(PlanPart, None if report is None else report.plan)
    of_group = {site.group: site.format for site in plan.sites}
    return {name: of_group[one.id] for one in plan.groups if one.id in of_group for name in one.tensors}


def _grid(pair: Pair) -> CodeGrid | None:
    scales, format, zero = pair.scales, pair.format, pair.zero
    if scales is None or scales.size != 1 or format is None or (format.even and pair.ends is None):
        return None
    step, offset = float(scales.reshape(-1)[0]), 0
    if not (math.isfinite(step) and step > 0):
        return None
    if zero is not None:
        if zero.constant is None or zero.constant.size != 1:
            return None
        offset = int(zero.constant.reshape(-1)[0])
    return _of_format(step, offset, format)


def _of_format(scale: float, zero: int, format: NumberFormat) -> CodeGrid:
    reach = 0.0 if format.even else float(format.gaps(np.array(format.greatest))) / 2
    return CodeGrid(scale, zero, *format.ends, reach)


def _scales(report: Report | None) -> dict[str, float]:
    """The scales of a report, but for those of tensors that repair moves or scales: theirs are others."""
    if report is None:
        return {}
    edited = {edit.tensor for edit in part_of(RepairPart, report.repair).edits}
    scales = part_of(CalibrationPart, report.calibration).scales
    return {name: scale for name, scale in scales.items() if 0 < scale < math.inf and name not in edited}
