"""What repair gains and costs: `python -m benchmarks.repair [--only GLOB ...] [--tables accuracy,...]`.

    python -m benchmarks.repair --samples 16 64 200 --tree ../before

Rows are kept in a folder as they are measured (--rows, out/repair/rows by default): what was interrupted goes
on where it stopped, and what is there is not measured again; `--again auto` measures such rows anew. `--tree`
measures repair of another checkout as well, on the same samples; its rows are kept as `auto@LABEL`.
"""

from __future__ import annotations

import argparse
import platform
from pathlib import Path

from benchmarks.repair import accuracy, cost, published, said, steps, tools, written
from benchmarks.repair.nets import FITTING, MOST, nets
from benchmarks.repair.rows import Rows
from onnxq.run import trt

TABLES = ("float", "accuracy", "said", "steps", "written", "spent", "cost")
FOLDER = tools.ROOT / "out/repair/rows"


def main() -> None:
    given = _arguments()
    wanted = given.tables.split(",")
    peers = tools.peers()
    versions = "; ".join(f"{tool} {peers.get(row, 'is not installed')}" for row, tool in tools.PEERS.items())
    print(f"{platform.machine()}, {trt.installed() or 'no compiler'}, sm 89; {versions}")
    before = f"auto@{given.label}"
    trees = {} if given.tree is None else {before: tools.prepared(given.tree.resolve())}
    rows, chosen = Rows(given.rows, trees), [*nets(given.only, given.samples)]
    rows.forget(chosen, given.again)
    if not given.print and {"accuracy", "said", "spent"} & {*wanted}:
        tools.prepared(tools.ROOT)
        every = ("none", *trees, "auto", *peers)
        rows.measure(chosen, [tool for tool in every if tool in (given.tools or every)], given.splits)
    if "float" in wanted:
        published.printed(chosen)
    if "accuracy" in wanted:
        accuracy.printed(chosen, rows, before)
    if "said" in wanted:
        said.printed(chosen, rows, before)
    if "spent" in wanted:
        cost.spent(chosen, rows, before)
    if "steps" in wanted:
        several = [net for net in chosen if net.splits > 1 and not net.great]
        if not given.print:
            rows.measure(several, ("none", "auto", *tools.SETS), splits=1)
        steps.printed(several, rows)
    if "written" in wanted:
        written.printed(chosen)
    if "cost" in wanted:
        cost.printed()


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.repair")
    parser.add_argument("--only", nargs="+", default=["*"], metavar="GLOB", help="nets of these names")
    parser.add_argument("--samples", nargs="+", type=int, default=[FITTING], metavar="COUNT",
                        help=f"so many samples fit, {MOST} at most; a row for each number")  # fmt: skip
    parser.add_argument("--splits", type=int, metavar="COUNT", help="so many splits of a net at most")
    parser.add_argument("--tools", nargs="+", metavar="TOOL", help="measure no others")
    parser.add_argument("--tree", type=Path, metavar="DIR", help="measure repair of this checkout, too")
    parser.add_argument("--label", default="before", help="what its rows are called behind `auto@`")
    parser.add_argument("--tables", default=",".join(TABLES), help="by default all")
    parser.add_argument("--rows", type=Path, default=FOLDER, metavar="DIR")
    parser.add_argument("--again", nargs="+", default=[], metavar="TOOL", help="measure these anew")
    parser.add_argument("--print", action="store_true", help="measure no row that is missing")
    given = parser.parse_args()
    if not all(1 <= count <= MOST for count in given.samples):
        parser.error(f"--samples: from 1 to {MOST}")
    return given


if __name__ == "__main__":
    main()
