"""`onnxq init`: the first `onnxq.toml` for a model and its data."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer

from onnxq.cli import options as flags
from onnxq.cli.chosen import Chosen
from onnxq.cli.screen import Screen


def init(
    screen: Screen,
    chosen: Chosen,
    model: flags.ModelPath,
    output: Annotated[
        Path, typer.Option("-o", "--output", metavar="X.toml", help="The file to write.", show_default=False)
    ] = Path("onnxq.toml"),
    force: Annotated[bool, typer.Option("--force", help="Replace an existing file.")] = False,
) -> None:
    """Write a commented onnxq.toml for a model and its data.

    The file has every option with its help and default. What the model or the data suggest stands there as
    a comment: remove the # to use it. Without -o it is ./onnxq.toml, which quantize, calibrate, sanitize and
    check read.
    """
    import onnxq
    from onnxq.cli.pages.first_settings import first_settings_page

    with screen.progress() as observe:
        found = onnxq.init(model, chosen.place.path, output, force=force, observe=observe)
    named = [] if output == Path("onnxq.toml") else ["--config", str(output)]
    data = [] if "calibration.data" in found.filled else ["--calib", "DATA"]
    command = shlex.join(["onnxq", "quantize", str(model), *data, *named])
    screen.result(found, lambda: first_settings_page(found, command))
