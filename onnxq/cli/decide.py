"""`onnxq decide`: what a bundle that was measured on the device says."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from onnxq.cli import options as flags
from onnxq.cli.screen import Screen


def decide(
    screen: Screen,
    results: Annotated[
        Path,
        typer.Argument(
            metavar="results.json", help="What measure.py wrote, in its bundle.", show_default=False
        ),
    ],
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", metavar="X.plan.toml", help="Write the plan of the file to use."),
    ] = None,
    all_rows: Annotated[
        bool, typer.Option("--all", help="Show all layers, not only those that lose or gain most.")
    ] = False,
    force: flags.Force = False,
) -> None:
    """Say which file of a bundle to use, as it was measured on the device, and what each layer gains.

    Copy the .json files of the device back into the folder that `onnxq bundle` wrote. The plan makes the same
    file again: onnxq quantize --plan.
    """
    import onnxq
    from onnxq.cli.pages.bundled import decided_page

    found = onnxq.decide(results, output, force=force)
    screen.result(found, lambda: decided_page(found, full=all_rows))
