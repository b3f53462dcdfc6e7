"""`onnxq weights`: the weights of layers, float against quantized."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from onnxq.cli import options as flags
from onnxq.cli.screen import Screen


def weights(
    screen: Screen,
    model: flags.ModelPath,
    against: Annotated[
        Path | None,
        typer.Option(metavar="X.int8.onnx", help="The quantized model; else what int8 would make of it."),
    ] = None,
    channels: flags.Channels = True,
    match: flags.Match = None,
    op: flags.Operator = None,
    all_rows: flags.AllRows = False,
    csv: flags.Csv = None,
    force: flags.Force = False,
) -> None:
    """Show the weights of layers and channels: ranges, outliers, dead rows, float against quantized.

    Of a quantized MODEL alone: its own codes and scales.
    """
    import onnxq
    from onnxq.analysis.weights import WeightRow
    from onnxq.base.plain import to_json
    from onnxq.cli.pages.weights import weights_page
    from onnxq.emit.table_csv import check_csv_output, save_csv

    if csv is not None:
        check_csv_output(csv, WeightRow, model, force=force)
    with screen.progress() as observe:
        found = onnxq.weights(
            model, against, channels=channels, match=tuple(match or ()), ops=tuple(op or ()), observe=observe
        )
    if csv is not None:
        save_csv(csv, WeightRow, found.rows)
    if not screen.quiet:
        screen.show(weights_page(found, full=all_rows))
    screen.document(to_json(found))
