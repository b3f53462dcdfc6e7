"""Tables in Markdown, so that they can be pasted, and claims."""

from __future__ import annotations

from collections.abc import Sequence


def table(titles: Sequence[str], lines: Sequence[Sequence[str]]) -> None:
    """Prints a table; the first column is text, the others are figures."""
    widths = [max(len(line[place]) for line in (titles, *lines)) for place in range(len(titles))]
    rule = ["-" * widths[0], *("-" * (width - 1) + ":" for width in widths[1:])]
    for line in (titles, rule, *lines):
        cells = [cell.rjust(width) if place else cell.ljust(width)
                 for place, (cell, width) in enumerate(zip(line, widths, strict=True))]  # fmt: skip
        print(f"| {' | '.join(cells)} |", flush=True)


def claim(what: str, holds: bool, found: str) -> None:
    """Prints what has to be so, and whether it is."""
    print(f"{'ok    ' if holds else 'MISSED'} {what}: {found}", flush=True)
