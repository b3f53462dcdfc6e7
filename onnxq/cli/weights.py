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
    metric: flags.Metric = None,
    *,
    rows: flags.ChannelRowFlags,
) -> None:
    """Show the weights of layers and channels: ranges, outliers, dead rows, float against quantized.

    Of a quantized MODEL alone: its own codes and scales.
    """
    import onnxq
    from onnxq.analysis.weights import WeightRow
    from onnxq.cli.pages.weights import weights_page

    rows.check(WeightRow, model)
    with screen.progress() as observe:
        found = onnxq.weights(
            model,
            against,
            channels=rows.channels,
            histograms=rows.histograms,
            metric=metric,
            match=rows.globs,
            ops=rows.ops,
            observe=observe,
        )
    rows.save(WeightRow, found.rows)
    screen.result(found, lambda: weights_page(found, full=rows.all_rows))
