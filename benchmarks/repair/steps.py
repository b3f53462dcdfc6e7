"""Each step alone, and all but it, on one split of each net: which are on by default follows from it."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.repair import intervals, tools
from benchmarks.repair.nets import Net
from benchmarks.repair.printing import table
from benchmarks.repair.rows import Row, Rows
from onnxq.options.settings import STEPS


def printed(nets: Sequence[Net], rows: Rows) -> None:
    """All nets."""
    lines = [_line(net, rows) for net in nets if rows.of(net, tools.ALL)]
    print("\nSQNR about the mean on samples that judge alone, dB, first split")
    print("'+': what a step adds to no repair (shift and gptq: with bias, to bias alone)")
    print("'-': what is lost where it is left out of all (bias: with shift and gptq)\n")
    titles = [
        "net",
        "none",
        "all",
        "auto",
        *(f"+{s}" for s in STEPS),
        *(f"-{s}" for s in STEPS),
    ]
    table(titles, lines)


def _line(net: Net, rows: Rows) -> list[str]:
    def first(tool: str) -> Row | None:
        found = rows.of(net, tool)
        return found[0] if found and "error" not in found[0] else None

    def more(row: Row | None, other: Row | None) -> str:
        if row is None or other is None:
            return ""
        return f"{intervals.difference([row], [other], intervals.sqnr).value:+.2f}"

    none, every, auto = (first(tool) for tool in ("none", tools.ALL, "auto"))
    levels = ["" if row is None else f"{intervals.of([row], intervals.sqnr).value:.2f}"
              for row in (none, every, auto)]  # fmt: skip
    alone = [
        more(first(tools.ALONE[step]), first(tools.ALONE["bias"]) if tools.NEEDS[step] else none)
        for step in STEPS
    ]
    return [net.title, *levels, *alone, *(more(first(tools.LEFT_OUT[step]), every) for step in STEPS)]
