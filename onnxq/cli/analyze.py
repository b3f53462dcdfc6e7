"""`onnxq analyze`: two stages of a model against each other, layer by layer."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from onnxq.base.errors import UserError
from onnxq.cli import options as flags
from onnxq.cli.chosen import Chosen
from onnxq.cli.screen import Screen


@dataclass(frozen=True)
class _How:
    """What is measured."""

    threshold: Annotated[
        list[str] | None,
        typer.Option(metavar="FIGURE=X", help="Limit of a figure, as in sqnr=20 or isolated.max_steps=4."),
    ] = None
    metric: flags.Metric = None
    samples: Annotated[
        int | None, typer.Option(metavar="N", help="Number of samples, at most; 64 by default.")
    ] = None
    isolated: Annotated[
        bool, typer.Option("--isolated/--no-isolated", help="Run each layer alone on A's values, too.")
    ] = True
    noise: Annotated[
        bool, typer.Option("--noise", help="Add the noise model's figure of each layer; it takes longer.")
    ] = False


def analyze(
    screen: Screen,
    chosen: Chosen,
    models: Annotated[
        list[Path],
        typer.Argument(
            metavar="A B",
            help="The reference and the other model; or X.int8.onnx alone, with its report beside it.",
            show_default=False,
        ),
    ],
    choice: flags.ChoiceFlags,
    how: _How,
    table: flags.TableFlags,
) -> int:
    """Compare two stages of a model layer by layer.

    A stage is the float, sanitized, half-precision or quantized model, another tool's file, or the .json of
    polygraphy run --save-outputs. Each tensor is compared with accumulated errors, and each layer alone, on
    identical inputs. Suspicious layers come first, with their causes. The exit code is 1 if a --threshold
    is not met.
    """
    import onnxq
    from onnxq.cli.pages.analysis import analysis_page
    from onnxq.documents.analysis import LayerError

    if len(models) > 2:
        raise UserError(f"{len(models)} models are given", hint="give two, or one with its report beside it")
    table.check(LayerError, models[0])
    with screen.progress() as observe:
        result = onnxq.analyze(
            models[0],
            models[1] if len(models) > 1 else None,
            chosen.source() if chosen.has_data else None,
            layers=choice.globs,
            ops=choice.ops,
            metric=how.metric,
            thresholds=_bounds(how.threshold or []),
            samples=how.samples,
            isolated=how.isolated,
            noise=how.noise,
            **chosen.keywords(),
            observe=observe,
        )
        table.save(LayerError, result.rows)
    screen.result(result, lambda: analysis_page(result, table.csv))
    return int(result.under > 0)


def _bounds(given: list[str]) -> dict[str, float]:
    found: dict[str, float] = {}
    for entry in (one for text in given for one in text.split(",")):
        name, equals, value = entry.partition("=")
        try:
            number = float(value)
        except ValueError:
            number = math.nan
        if not equals or math.isnan(number):
            raise UserError(
                f"--threshold {entry!r} is not understood", hint="the form is FIGURE=X, as in sqnr=20"
            )
        found[name.strip()] = number
    return found
