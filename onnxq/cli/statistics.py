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
        typer.Option(metavar="X.stats.npz", help="In place of data: what onnxq calibrate wrote."),
    ] = None,
    against: Annotated[
        Path | None,
        typer.Option(metavar="X.int8.onnx", help="Whose scales are looked at; MODEL's own by default."),
    ] = None,
    samples: Annotated[
        int | None, typer.Option(metavar="N", help="How many samples at most; all by default.")
    ] = None,
    integers: Annotated[
        bool, typer.Option("--integers", help="Count the codes of tensors that have a scale.")
    ] = False,
    channels: flags.Channels = True,
    match: flags.Match = None,
    op: flags.Operator = None,
    all_rows: flags.AllRows = False,
    csv: flags.Csv = None,
    force: flags.Force = False,
) -> None:
    """Show what activations hold: ranges, clipping, zeros, NaN, dead channels, what dominates a range.

    From data (--calib), or without from a statistics file (--stats). The worst come first.
    """
    import onnxq
    from onnxq.analysis.tensors import TensorRow
    from onnxq.base.plain import to_json
    from onnxq.cli.pages.tensors import tensors_page
    from onnxq.emit.table_csv import check_csv_output, save_csv

    place = chosen.place
    given = place.path is not None or place.script is not None
    if stats is not None and given:
        raise UserError("--stats and --calib exclude each other", hint="leave one of them out")
    if stats is not None:
        chosen.refuse_with_stats(stats, without_data=True)
    if csv is not None:
        check_csv_output(csv, TensorRow, model, force=force)
    with screen.progress() as observe:
        found = onnxq.statistics(
            model, None if stats is not None else chosen.source(), stats=stats, against=against,
            samples=samples, channels=channels, integers=integers, match=tuple(match or ()),
            ops=tuple(op or ()), **chosen.keywords(), observe=observe,
        )  # fmt: skip
    if csv is not None:
        save_csv(csv, TensorRow, found.rows)
    if not screen.quiet:
        screen.show(tensors_page(found, full=all_rows))
    screen.document(to_json(found))
