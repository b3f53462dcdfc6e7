"""`onnxq memory`: activations along the schedule, weights by type."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from onnxq.cli import options as flags
from onnxq.cli.chosen import Chosen
from onnxq.cli.screen import Screen
from onnxq.options import settings


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
    from onnxq.cli.pages.memory import memory_page

    rows.check(MemoryStep, model)
    inputs = chosen.group(settings.Inputs)
    with screen.progress() as observe:
        found = onnxq.memory(
            model, against, shapes=inputs.shapes, assume=inputs.assume, match=rows.globs,
            ops=rows.ops, observe=observe,
        )  # fmt: skip
    rows.save(MemoryStep, (found.after or found.before).steps)
    screen.result(found, lambda: memory_page(found, full=rows.all_rows))
