"""Small drawings: curves and bars as the coordinates of an SVG path."""

from __future__ import annotations

import math
from collections.abc import Sequence
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
) -> Chart | None:
    """A chart of series of one length; None where they have fewer than two values.

    Args:
        title: what is drawn.
        series: a name and the values of each curve; None and what is not finite are gaps.
        ends: what stands below the first and the last place.
        unit: of the values, for the marks.
        zero: whether the axis begins at 0.
        steps: whether a value holds until the next place.
    """
    finite = [v for _, values in series for v in values if v is not None and math.isfinite(v)]
    if len(finite) < 2:
        return None
    low, high = (0.0 if zero else min(finite)), max(finite)
    if high <= low:
        low, high = low - 1, high + 1
    scale = (HEIGHT - 20) / (high - low)

    def y(value: float) -> float:
        return round(HEIGHT - 10 - (value - low) * scale, 1)

    lines = []
    for name, values in series:
        across = WIDTH / max(1, len(values) - (0 if steps else 1))
        lines.append(Stroke(name, _path(_thinned(values), across, y, steps)))
    marks = [low + (high - low) * part / (_MARKS - 1) for part in reversed(range(_MARKS))]
    return Chart(title, tuple(lines), tuple(Mark(y(m), f"{m:.3g}{unit}") for m in marks), *ends)


def _thinned(values: Sequence[float | None]) -> list[tuple[int, float | None]]:
    """The places and values of a curve; of very many the least of each few, which is what one looks for."""
    every = -(-len(values) // _MOST)
    if every == 1:
        return list(enumerate(values))
    points: list[tuple[int, float | None]] = []
    for start in range(0, len(values), every):
        here = [(v, p) for p, v in enumerate(values[start : start + every], start) if v is not None]
        points.append((min(here)[1], min(here)[0]) if here else (start, None))
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
