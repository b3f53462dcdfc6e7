"""Along the network: errors by depth, memory by the schedule, kernels by kind."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from onnxq.analysis.reports import number, part_of
from onnxq.compiled.verdict import Verdict
from onnxq.documents.analysis import Analysis, Figures, LayerError
from onnxq.documents.calibration import CalibrationPart
from onnxq.documents.layer_errors import ErrorLine, LayerErrors, ShortFigures
from onnxq.documents.report import Report
from onnxq.page.charts import Chart, chart
from onnxq.page.kernels import KernelRow, KindOfKernel, kinds_of, memory_along
from onnxq.page.words import counted, figure, level, size

_MOST_DB = 120.0


@dataclass(frozen=True, slots=True)
class DepthView:
    """The section.

    Attributes:
        errors: the curve of errors, None where no analysis is given.
        ranges: the curves of the least and the greatest value of each tensor, None where none is known.
        drift: where the error passes its threshold first, "" for nowhere.
        memory: the curve of memory, None where there is no engine.
        peak: the greatest of it, in words.
        kinds: the kernels by kind.
        total: all of them, in words.
    """

    errors: Chart | None
    ranges: Chart | None
    drift: str
    memory: Chart | None
    peak: str
    kinds: tuple[KindOfKernel, ...]
    total: str


def depth_view(
    report: Report, analysis: Analysis | LayerErrors | None, kernels: Sequence[KernelRow]
) -> DepthView | None:
    """What there is along the network; None where nothing is."""
    (errors, drift), ranges = _errors(analysis), _ranges(report)
    along = memory_along(report.engine)
    memory = chart(
        "memory of activations, MB, kernel by kernel",
        [("alive", [size / 1e6 for size in along])],
        ("first kernel", "last kernel"),
        zero=True,
        steps=True,
    )
    if errors is None and ranges is None and not kernels:
        return None
    moved = sum(kernel.moved for kernel in kernels) or 1.0
    total = (
        f"{counted(len(kernels), 'kernel')}, {size(moved)} moved in a run{_form(report.verdict)}"
        if kernels
        else ""
    )
    peak = ""
    if along:
        place = max(range(len(along)), key=along.__getitem__)
        at = kernels[place].nodes
        peak = f"{size(along[place])} at most, at kernel {place + 1} of {len(along)}"
        peak += f" ({at[0]})" if at else ""
    return DepthView(errors, ranges, drift, memory, peak, kinds_of(kernels), total)


def _form(verdict: Verdict | None) -> str:
    """Why the section on the verdict has another figure, where it has."""
    merged = verdict.merged if verdict is not None and verdict.form == "merged" else None
    moved = None if merged is None else number(merged.int8.moved_mb)
    if moved is None:
        return " as built by TensorRT-RTX"
    return (
        f" as built by TensorRT-RTX; merged, as TensorRT builds on a GPU, {size(moved * 1e6)}: it does what "
        "follows a product in the product's kernel, and that figure is the verdict's"
    )


def _ranges(report: Report) -> Chart | None:
    """The ends of all tensors that were compared with those of the result, else of those that calibrated."""
    errors, calibration = (
        part_of(LayerErrors, report.layer_errors),
        part_of(CalibrationPart, report.calibration),
    )
    if errors.ranges:
        found, of = errors.ranges, counted(errors.samples or 0, "sample")
    else:
        found, of = calibration.ranges, f"{counted(calibration.samples or 0, 'sample')} that calibrated"
    known = [(name, number(low), number(high)) for name, (low, high) in found.items()]
    tops = [max(abs(low), abs(high)) for _, low, high in known if low is not None and high is not None]
    sound = sorted(top for top in tops if 0 < top < math.inf)
    if not sound:
        return None
    return chart(
        f"range of each tensor of the float model, in the order of the model, on {of}; from "
        f"{figure(_bend(sound))} on logarithmic",
        [("greatest", [high for _, _, high in known]), ("least", [low for _, low, _ in known])],
        (known[0][0], known[-1][0]),
        bend=_bend(sound),
    )


def _bend(tops: Sequence[float]) -> float:
    """Where the axis bends: a tenth of what nearly all tensors reach; `tops`: sorted."""
    return tops[len(tops) // 20] / 10


def _errors(analysis: Analysis | LayerErrors | None) -> tuple[Chart | None, str]:
    if analysis is None or not analysis.rows:
        return None, ""
    rows: Sequence[LayerError | ErrorLine] = analysis.rows
    ordered = sorted(rows, key=lambda row: row.place or 0)
    series = [("accumulated", [_db(row.accumulated) for row in ordered]),
              ("alone", [_db(row.isolated) for row in ordered])]  # fmt: skip
    ends = ordered[0].layer, ordered[-1].layer
    drawn = chart("SQNR of each layer against float, dB, in the order of the model", series, ends, " dB")
    drift = analysis.drift or ""
    if drift:
        limit = level(number(analysis.drift_db))
        drift = f"{drift} is the first tensor whose accumulated error is worse than {limit}"
    return drawn, drift


def _db(figures: Figures | ShortFigures | None) -> float | None:
    value = None if figures is None else number(figures.sqnr_db)
    return None if value is None or math.isinf(value) else min(value, _MOST_DB)
