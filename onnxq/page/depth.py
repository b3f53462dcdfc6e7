"""Along the network: errors by depth, memory by the schedule, kernels by kind."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from onnxq.analysis.reports import number, part_of
from onnxq.compiled.verdict import Verdict
from onnxq.documents.analysis import Analysis, ErrorLine, Figures, LayerError, LayerErrors, ShortFigures
from onnxq.documents.calibration import CalibrationPart
from onnxq.documents.report import Report
from onnxq.page.kernels import KernelRow, KindOfKernel, kinds_of, memory_along
from onnxq.page.words import counted, figure, level, say, size

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
        say("curve.memory"),
        [("alive", [size / 1e6 for size in along])],
        ("first kernel", "last kernel"),
        zero=True,
        steps=True,
    )
    if errors is None and ranges is None and not kernels:
        return None
    moved = sum(kernel.moved for kernel in kernels) or 1.0
    total = _total(report.verdict, counted(len(kernels), "kernel"), size(moved)) if kernels else ""
    peak = ""
    if along:
        place = max(range(len(along)), key=along.__getitem__)
        at = kernels[place].nodes
        peak = say("kernels.peak", size=size(along[place]), place=place + 1, kernels=len(along))
        peak += f" ({at[0]})" if at else ""
    return DepthView(errors, ranges, drift, memory, peak, kinds_of(kernels), total)


def _total(verdict: Verdict | None, kernels: str, moved: str) -> str:
    """What all kernels move; and why the section on the verdict has another figure, where it has."""
    merged = verdict.merged if verdict is not None and verdict.form == "merged" else None
    other = None if merged is None else number(merged.int8.moved_mb)
    code = "kernels" if other is None else "kernels.merged"
    return say(code, kernels=kernels, size=moved, merged=size((other or 0.0) * 1e6))


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
        say("curve.ranges", samples=of, bend=figure(_bend(sound))),
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
    drawn = chart(say("curve.errors"), series, ends, " dB")
    drift = analysis.drift or ""
    if drift:
        limit = level(number(analysis.drift_db))
        drift = say("drift.page", tensor=drift, level=limit)
    return drawn, drift


def _db(figures: Figures | ShortFigures | None) -> float | None:
    value = None if figures is None else number(figures.sqnr_db)
    return None if value is None or math.isinf(value) else min(value, _MOST_DB)


WIDTH, HEIGHT = 1000, 220
"""The units of a curve's view box."""

_MOST = 1500
_MARKS = 4


@dataclass(frozen=True, slots=True)
class Mark:
    """A line across a chart, with its value.

    Attributes:
        y: where it is.
        text: its value.
    """

    y: float
    text: str


@dataclass(frozen=True, slots=True)
class Stroke:
    """A curve.

    Attributes:
        name: what it is of.
        path: the `d` of an SVG path in `WIDTH` x `HEIGHT`.
    """

    name: str
    path: str


@dataclass(frozen=True, slots=True)
class Chart:
    """Curves over the same places.

    Attributes:
        title: what is drawn, in words.
        lines: the curves.
        marks: lines across, the highest first.
        first: what the left end is.
        last: what the right end is.
        width: of the view box.
        height: of the view box.
    """

    title: str
    lines: tuple[Stroke, ...]
    marks: tuple[Mark, ...]
    first: str
    last: str
    width: int = WIDTH
    height: int = HEIGHT


def chart(
    title: str,
    series: Sequence[tuple[str, Sequence[float | None]]],
    ends: tuple[str, str],
    unit: str = "",
    *,
    zero: bool = False,
    steps: bool = False,
    bend: float = 0.0,
) -> Chart | None:
    """A chart of series of one length; None where they have fewer than two values.

    Args:
        title: what is drawn.
        series: a name and the values of each curve; None and what is not finite are gaps.
        ends: what stands below the first and the last place.
        unit: of the values, for the marks.
        zero: whether the axis begins at 0.
        steps: whether a value holds until the next place.
        bend: the magnitude from which on the axis is logarithmic, to both sides of 0; 0: it is linear.
    """
    shown = series if not bend else [(name, [_bent(v, bend) for v in values]) for name, values in series]
    finite = [v for _, values in shown for v in values if v is not None and math.isfinite(v)]
    if len(finite) < 2:
        return None
    low, high = (0.0 if zero else min(finite)), max(finite)
    if high <= low:
        low, high = low - 1, high + 1
    scale = (HEIGHT - 20) / (high - low)

    def y(value: float) -> float:
        return round(HEIGHT - 10 - (value - low) * scale, 1)

    lines = []
    for name, values in shown:
        across = WIDTH / max(1, len(values) - (0 if steps else 1))
        lines.append(Stroke(name, _path(_thinned(values, abs if bend else float.__neg__), across, y, steps)))
    marks = [low + (high - low) * part / (_MARKS - 1) for part in reversed(range(_MARKS))]
    told = [(mark, math.sinh(mark) * bend if bend else mark) for mark in marks]
    return Chart(title, tuple(lines), tuple(Mark(y(m), f"{value:.3g}{unit}") for m, value in told), *ends)


def _bent(value: float | None, bend: float) -> float | None:
    return None if value is None else math.asinh(value / bend)


def _thinned(
    values: Sequence[float | None], notable: Callable[[float], float]
) -> list[tuple[int, float | None]]:
    """The places and values of a curve; of very many the most notable of each few."""
    every = -(-len(values) // _MOST)
    if every == 1:
        return list(enumerate(values))
    points: list[tuple[int, float | None]] = []
    for start in range(0, len(values), every):
        here = [(p, v) for p, v in enumerate(values[start : start + every], start) if v is not None]
        points.append(max(here, key=lambda point: notable(point[1])) if here else (start, None))
    return points


def _path(points: Sequence[tuple[int, float | None]], across: float, y: object, steps: bool) -> str:
    assert callable(y)
    parts, broken = [], True
    for place, value in points:
        if value is None or not math.isfinite(value):
            broken = True
            continue
        x = place * across
        parts.append(f"{'M' if broken else 'L'}{x:.1f} {y(value)}")
        if steps:
            parts.append(f"H{x + across:.1f}")
        broken = False
    return "".join(parts)
