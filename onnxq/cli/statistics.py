"""`onnxq statistics`: what the activations of a model hold."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from onnxq.base.errors import UserError
from onnxq.cli import options as flags
from onnxq.cli.chosen import Chosen
from onnxq.cli.screen import Screen


def statistics(
    screen: Screen,
    chosen: Chosen,
    model: flags.ModelPath,
    stats: Annotated[
        Path | None,
        typer.Option(metavar="X.stats.npz", help="A file of onnxq calibrate, in place of data."),
    ] = None,
    against: Annotated[
        Path | None,
        typer.Option(metavar="X.int8.onnx", help="The model whose scales are shown; MODEL by default."),
    ] = None,
    samples: Annotated[
        int | None, typer.Option(metavar="N", help="Number of samples, at most; all by default.")
    ] = None,
    integers: Annotated[
        bool, typer.Option("--integers", help="Count the integer codes of tensors that have a scale.")
    ] = False,
    *,
    rows: flags.ChannelRowFlags,
) -> None:
    """Show what activations hold: ranges, clipping, zeros, NaN, dead channels, what dominates a range.

    It measures them on data (--calib), or reads a statistics file (--stats). The worst come first.
    """
    import onnxq
    from onnxq.analysis.tensors import TensorRow
    from onnxq.cli.pages.tensors import tensors_page

    if stats is not None and chosen.has_data:
        raise UserError("--stats and --calib exclude each other", hint="leave one of them out")
    if stats is not None:
        chosen.refuse_ignored(stats, without_data=True)
    rows.check(TensorRow, model)
    with screen.progress() as observe:
        found = onnxq.statistics(
            model, None if stats is not None else chosen.source(), stats=stats, against=against,
            samples=samples, channels=rows.channels, histograms=rows.histograms, integers=integers,
            match=rows.globs, ops=rows.ops, **chosen.keywords(), observe=observe,
        )  # fmt: skip
    rows.save(TensorRow, found.rows)
    screen.result(found, lambda: tensors_page(found, full=rows.all_rows))
