"""`onnxq statistics`: what activations, weights and memory hold, by layer."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from onnxq.base.errors import UserError
from onnxq.cli import options as flags
from onnxq.cli.chosen import Chosen
from onnxq.cli.screen import Screen
from onnxq.options import settings

HELP = "Show what activations, weights and memory hold."


def activations(
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
    from onnxq.cli.pages.statistics import tensors_page

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
    from onnxq.cli.pages.statistics import weights_page

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


@dataclass(frozen=True)
class _Rows(flags.RowFlags):
    all_rows: Annotated[bool, typer.Option("--all", help="Show all, not the largest ten.")] = False


def memory(
    screen: Screen,
    chosen: Chosen,
    model: flags.ModelPath,
    against: Annotated[
        Path | None,
        typer.Option(metavar="OTHER", help="Another form of the model, for example the quantized one."),
    ] = None,
    *,
    rows: _Rows,
) -> None:
    """Show what a model holds in memory: activations in the order of its nodes, weights by type.

    Dynamic sizes are those of --shape and --assume, else 1. The CSV has the steps of MODEL, or of OTHER if
    it is given.
    """
    import onnxq
    from onnxq.analysis.memory import MemoryStep
    from onnxq.cli.pages.statistics import memory_page

    rows.check(MemoryStep, model)
    inputs = chosen.group(settings.Inputs)
    with screen.progress() as observe:
        found = onnxq.memory(
            model, against, shapes=inputs.shapes, assume=inputs.assume, match=rows.globs,
            ops=rows.ops, observe=observe,
        )  # fmt: skip
    rows.save(MemoryStep, (found.after or found.before).steps)
    screen.result(found, lambda: memory_page(found, full=rows.all_rows))
