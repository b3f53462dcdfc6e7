"""Histograms drawn with letters: a column an octave, the darker the more values."""

from __future__ import annotations

import math
from collections.abc import Sequence

from onnxq.analysis.octaves import Octaves
from onnxq.cli.screen import Page

_SHADES = " .:-=+*#%@"
"""From none to the most; a column that is not empty has a dot at least."""

_WIDE = 32
"""Letters of a name in front of a histogram."""


def range_of(drawn: Sequence[Octaves]) -> tuple[int, int] | None:
    """The first and the last octave that any of them has, as powers of two; None where all are empty."""
    ends = [(math.log2(one.edges[0]), math.log2(one.edges[-1])) for one in drawn if one.counts]
    return (round(min(low for low, _ in ends)), round(max(high for _, high in ends))) if ends else None


def row_of(octaves: Octaves, first: int, last: int) -> str:
    """A histogram as a row of letters.

    Args:
        octaves: the histogram.
        first: the power of two with which the first column begins.
        last: the power of two with which the last one ends.
    """
    begin = round(math.log2(octaves.edges[0])) if octaves.counts else first
    most = max(octaves.counts, default=0)
    row = []
    for power in range(first, last):
        place = power - begin
        count = octaves.counts[place] if 0 <= place < len(octaves.counts) else 0
        row.append(_SHADES[math.ceil(count / most * (len(_SHADES) - 1))] if most else " ")
    return "".join(row)


def entry_of(page: Page, name: str, octaves: Octaves, ends: tuple[int, int], note: str = "") -> None:
    """An entry with a histogram behind a name; `ends`: as of `range_of`."""
    page.entry(f"{name:{_WIDE}} |{row_of(octaves, *ends)}|{'  ' * bool(note)}{note}")
