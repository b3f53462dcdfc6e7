"""`onnxq compare`: the outputs of two models, side by side."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from onnxq.cli.chosen import Chosen
from onnxq.cli.screen import Screen


def compare(
    screen: Screen,
    chosen: Chosen,
    reference: Annotated[Path, typer.Argument(metavar="A", help="The reference model.", show_default=False)],
    candidate: Annotated[Path, typer.Argument(metavar="B", help="The model to compare.", show_default=False)],
    samples: Annotated[
        int | None, typer.Option(metavar="N", help="Number of samples, at most; all by default.")
    ] = None,
) -> int:
    """Compare the outputs of two models on data.

    A is the float model. The exit code is 1 if --min-sqnr, --min-agreement or --max-drop is not met.
    """
    import onnxq
    from onnxq.cli.pages.accuracy import accuracy_page

    with screen.progress() as observe:
        found = onnxq.compare(
            reference, candidate, chosen.source(), samples=samples, **chosen.keywords(), observe=observe
        )
    path = chosen.place.script or str(chosen.place.path)
    found = replace(found, data=replace(found.data, path=path))
    screen.result(found, lambda: accuracy_page(found))
    return int(not found.met)
