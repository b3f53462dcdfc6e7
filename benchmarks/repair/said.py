"""What the report says of its outputs beside what samples say that no tool saw."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks.repair import intervals
from benchmarks.repair.nets import Net
from benchmarks.repair.printing import table
from benchmarks.repair.rows import Row, Rows


def printed(nets: Sequence[Net], rows: Rows, before: str) -> None:
    """Each split of all nets."""
    lines, inside = [], {tool: list[bool]() for tool in ("none", before, "auto")}
    for net in nets:
        for tool, hits in inside.items():
            for split, row in enumerate(rows.of(net, tool)):
                line, hit = _line(row)
                if line:
                    lines.append([net.title, str(split), tool, *line])
                    hits += [] if hit is None else [hit]
    print(
        "\nSQNR about the mean, dB: what the report says of its own samples, and what those say that judge\n"
    )
    table(
        ["net", "split", "tool", "said by", "said", "judged", "said - judged", "interval said", "inside"],
        lines,
    )
    for tool, hits in inside.items():
        if hits:
            print(f"{tool}: {sum(hits)} of {len(hits)} intervals hold what was judged")


def _line(row: Row) -> tuple[list[str], bool | None]:
    """A row's cells, and whether the interval holds what was judged; None where there is none."""
    about = row.get("about_mean") or {}
    level = about.get("sqnr_about_mean_db")
    if level is None or "noise" not in row:
        return [], None
    judged = intervals.of([row], intervals.sqnr).value
    cells = [str(about.get("samples", "")), f"{level:.2f}", f"{judged:.2f}", f"{level - judged:+.2f}"]
    bounds = _interval(about)
    if bounds is None:
        return [*cells, "", ""], None
    hit = bounds[0] <= judged <= bounds[1]
    return [*cells, f"{bounds[0]:.2f} to {bounds[1]:.2f}", "yes" if hit else "no"], hit


def _interval(about: Mapping[str, Any]) -> tuple[float, float] | None:
    """That of the report, of whatever version; None where it has none."""
    found = about.get("interval")
    if not isinstance(found, Mapping) or found.get("low") is None or found.get("high") is None:
        return None
    return float(found["low"]), float(found["high"])
