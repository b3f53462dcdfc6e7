"""What repair gains and costs: `python -m benchmarks.repair [--only GLOB ...] [--tables accuracy,...]`.

Rows are kept in a folder as they are measured (--rows, out/repair/rows by default): what was interrupted goes
on where it stopped, and what is there is not measured again; `--again auto` measures such rows anew.
"""

from __future__ import annotations

import argparse
import platform
from pathlib import Path

from benchmarks.repair import accuracy, cost, steps, tools, written
from benchmarks.repair.nets import nets
from benchmarks.repair.rows import Rows
from onnxq.run import trt

TABLES = ("accuracy", "steps", "written", "cost")
FOLDER = Path(__file__).resolve().parents[2] / "out" / "repair" / "rows"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.repair")
    parser.add_argument("--only", nargs="+", default=["*"], metavar="GLOB", help="nets of these names")
    parser.add_argument("--tables", default=",".join(TABLES), help="by default all")
    parser.add_argument("--rows", type=Path, default=FOLDER, metavar="DIR")
    parser.add_argument("--again", nargs="+", default=[], metavar="TOOL", help="measure these anew")
    parser.add_argument("--print", action="store_true", help="measure no row that is missing")
    given = parser.parse_args()
    wanted = given.tables.split(",")
    peers = tools.peers()
    said = "; ".join(f"{tool} {peers.get(row, 'is not installed')}" for row, tool in tools.PEERS.items())
    print(f"{platform.machine()}, {trt.installed() or 'no compiler'}, sm 89; {said}")
    rows, found = Rows(given.rows), [*nets(given.only)]
    rows.forget(found, given.again)
    if "accuracy" in wanted:
        if not given.print:
            rows.measure(found, (*tools.OURS, *peers))
        accuracy.printed(found, rows)
    if "steps" in wanted:
        several = [net for net in found if net.splits > 1]
        if not given.print:
            rows.measure(several, ("none", "auto", *tools.SETS), splits=1)
        steps.printed(several, rows)
    if "written" in wanted:
        written.printed(found)
    if "cost" in wanted:
        cost.printed()


if __name__ == "__main__":
    main()
