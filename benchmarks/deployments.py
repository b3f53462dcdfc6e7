"""What the batch decides: `python -m benchmarks.deployments` compiles nets at batches of 1, 8 and 32.

Nets are those of `benchmarks.nets` with a dynamic batch, fed as they are there, without repair. Shares are
of all multiply-accumulates; bytes are those that the kernels of TensorRT-RTX move (sm 89, merged form), and
kernels, beside those of the same model in plain float16.
"""

from __future__ import annotations

import argparse

from rich.console import Console
from rich.table import Table

import onnxq
from benchmarks.nets import NETS
from benchmarks.nets.feeds import feeds
from onnxq.analysis.reports import part_of
from onnxq.documents.plan import PlanPart
from onnxq.documents.report import Report

_NETS = ("mobilenet_v2", "resnet18", "vit_s16", "bert")
_BATCHES = (1, 8, 32)
_SAMPLES = 16


def main() -> None:
    """Prints a line for each net and batch, a Markdown table at the end."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nets", nargs="+", default=_NETS)
    parser.add_argument("--batches", nargs="+", type=int, default=_BATCHES)
    parser.add_argument("--small", action="store_true", help="the small nets")
    asked = parser.parse_args()
    table = Table("net", "batch", "int8 of all work", "bytes / float16", "kernels", "of float16")
    rows = []
    for name in asked.nets:
        model = NETS[name](small=asked.small)
        for batch in asked.batches:
            data = list(feeds(name, 0, _SAMPLES, small=asked.small))
            report = onnxq.quantize(
                model, data, batch=(batch,) * 3, repair="none", prove="never", layer_samples=0
            ).report
            rows.append((name, str(batch), *_figures(report)))
            table.add_row(*rows[-1])
            print(*rows[-1], flush=True)
    Console().print(table)
    for row in rows:
        print(f"| {' | '.join(row)} |")


def _figures(report: Report) -> tuple[str, ...]:
    share = f"{part_of(PlanPart, report.plan).int8_share_of_all_macs:.1%}"
    compared = report.verdict.compared if report.verdict is not None else None
    if compared is None:
        return share, report.engine.status, "", ""
    ours, plain = compared.int8, compared.fp16
    moved = [one.moved_mb + one.weights_mb for one in (ours, plain)]
    return share, f"{moved[0] / moved[1]:.2f}", str(ours.kernels), str(plain.kernels)


if __name__ == "__main__":
    main()
