"""Sanitizing with proofs, against a bare import and export with onnx-graphsurgeon."""

from __future__ import annotations

from statistics import median

import onnx_graphsurgeon as gs

from benchmarks import nets
from benchmarks.common import in_turns, print_row, ratio_of
from onnxq.documents.report import Report
from onnxq.pipeline.repairing import sanitize

NODES, ROUNDS, LONG_ROUNDS = 10_000, 5, 3


def main() -> None:
    one, four = nets.long_graph(NODES), nets.long_graph(4 * NODES)
    rewrites, proved = _changes_of(sanitize(one).report)  # this first run also loads what is loaded once
    spent = in_turns(
        {
            "bare": lambda: gs.export_onnx(gs.import_onnx(one)),
            "proofs": lambda: sanitize(one),
            "no proofs": lambda: sanitize(one, prove="never"),
        },
        ROUNDS,
    )
    longer = in_turns({"one": lambda: sanitize(one), "four": lambda: sanitize(four)}, LONG_ROUNDS)

    bare = median(spent["bare"])
    print(f"sanitize: {NODES:,} nodes, {rewrites:,} rewrites, {proved:,} of them proved; bare: {bare:.2f} s")
    for name, goal in (("proofs", 8.0), ("no proofs", None)):
        ratio, spread = ratio_of(spent[name], spent["bare"])
        detail = f"{median(spent[name]):.2f} s; {spread}"
        print_row(f"  {name} / onnx-graphsurgeon import + export", ratio, goal, detail)
    ratio, spread = ratio_of(longer["four"], longer["one"])
    print_row("  four times the nodes / one", ratio, 4.5, f"{median(longer['four']):.2f} s; {spread}")


def _changes_of(report: Report) -> tuple[int, int]:
    return len(report.changes), report.proved.exact + report.proved.close


if __name__ == "__main__":
    main()
