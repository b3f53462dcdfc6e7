"""`onnxq memory`: activations along the schedule, weights by type."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from onnxq.cli import options as flags
from onnxq.cli.chosen import Chosen
from onnxq.cli.screen import Screen
from onnxq.options import settings


def memory(
    screen: Screen,
    chosen: Chosen,
    model: flags.ModelPath,
    against: Annotated[
        Path | None, typer.Option(metavar="OTHER", help="Another form of the model: the quantized one, say.")
    ] = None,
    match: flags.Match = None,
    op: flags.Operator = None,
    all_rows: Annotated[bool, typer.Option("--all", help="Show all, not the greatest ten.")] = False,
    csv: flags.Csv = None,
    force: flags.Force = False,
) -> None:
    """Show what a model holds in memory: activations in the order of its nodes, weights by type.

    Open sizes are those of --shape and --assume, else 1. CSV has the steps of MODEL, or of OTHER if given.
    """
    import onnxq
    from onnxq.analysis.memory import MemoryStep
    from onnxq.base.plain import to_json
    from onnxq.cli.pages.memory import memory_page
    from onnxq.emit.table_csv import check_csv_output, save_csv

    if csv is not None:
        check_csv_output(csv, MemoryStep, model, force=force)
    inputs = chosen.group(settings.Inputs)
    with screen.progress() as observe:
        found = onnxq.memory(
            model, against, shapes=inputs.shapes, assume=inputs.assume, match=tuple(match or ()),
            ops=tuple(op or ()), observe=observe,
        )  # fmt: skip
    if csv is not None:
        save_csv(csv, MemoryStep, (found.after or found.before).steps)
    if not screen.quiet:
        screen.show(memory_page(found, full=all_rows))
    screen.document(to_json(found))
