"""Small drawings: curves and bars as the coordinates of an SVG path."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

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
