"""`onnxq bundle`: one folder to copy to the device, which says there what is fastest."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from onnxq.cli import options as flags
from onnxq.cli.chosen import Chosen, given
from onnxq.cli.screen import Screen


def bundle(
    screen: Screen,
    chosen: Chosen,
    model: flags.ModelPath,
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", metavar="FOLDER", help="The folder to write.", show_default=False),
    ] = None,
    references: Annotated[
        int, typer.Option(metavar="N", help="How many samples have to give the same answers on the device.")
    ] = 4,
    also: Annotated[
        list[Path] | None,
        typer.Option(metavar="OTHER.onnx", help="A finished model to measure beside; repeatable."),
    ] = None,
) -> None:
    """Write a folder that is measured on the device: candidates, samples and a script.

    Copy it to the device and run `python3 measure.py` there. It builds each candidate with trtexec, compares
    its answers with the float model's, times all of them in turns, and says which file to use.
    """
    import onnxq
    from onnxq.cli.pages.bundled import bundled_page

    data, keywords = given(chosen)
    folder = output or Path(f"{model.stem}.bundle")
    with screen.progress() as observe:
        found = onnxq.bundle(
            model, data, folder, references=references, also=also or (), **keywords, observe=observe
        )
    screen.result(found, lambda: bundled_page(found))
