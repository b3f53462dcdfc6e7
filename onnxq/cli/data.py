"""`onnxq data`: shows data as the model will see them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from onnxq.cli import options as flags
from onnxq.cli.chosen import Chosen
from onnxq.cli.screen import Screen
from onnxq.options import settings


def data(
    screen: Screen,
    chosen: Chosen,
    model: flags.ModelPath,
    sheet: Annotated[
        Path | None,
        typer.Option(
            "-o", "--sheet", metavar="X.png", help="The contact sheet to write; MODEL.data.png by default."
        ),
    ] = None,
    force: flags.Force = False,
) -> None:
    """Show data as the model will see them.

    It shows shapes and ranges of each input, and a contact sheet of images. It warns if the data do not
    look as the model expects. Bad samples are left out, with a warning.
    """
    import onnxq
    from onnxq.cli.pages.data import data_page

    with screen.progress() as observe:
        found = onnxq.look(
            model, chosen.source(), samples=chosen.group(settings.Look).samples, sheet=sheet or True,
            force=force, **chosen.keywords(), observe=observe,
        )  # fmt: skip
    place = chosen.place
    path = None if place.path is None else str(place.path)
    read = replace(found.data, path=path, script=place.script)
    found = replace(found, data=read, config=chosen.settings_file)
    screen.show(data_page(found))
    screen.document(found)
