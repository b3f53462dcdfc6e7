"""`onnxq split`: cuts a model into pieces that run one after another."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from onnxq.cli import options as flags
from onnxq.cli.chosen import Chosen
from onnxq.cli.screen import Screen


def split(
    screen: Screen,
    chosen: Chosen,
    model: flags.ModelPath,
    at: Annotated[
        list[str] | None,
        typer.Option(metavar="TENSOR[,TENSOR]", help="Put all that these tensors depend on into a piece."),
    ] = None,
    at_op: Annotated[
        list[str] | None,
        typer.Option(metavar="OP", help="Put the nodes of this operator into pieces of their own."),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "-o",
            "--output",
            metavar="X",
            help="Path that the names of the files begin with.",
            parser=flags.file_or_folder,
        ),
    ] = None,
    force: flags.Force = False,
) -> None:
    """Cut a model into pieces that run one after another.

    It writes X.0.onnx, X.1.onnx, ... and the manifest X.split.json for `onnxq run`. You can give each flag
    several times.
    """
    import onnxq
    from onnxq.cli.pages.pieces import split_page

    with screen.progress() as observe:
        result = onnxq.split(
            model,
            at=[flags.names(entry) for entry in at or ()],
            at_op=at_op or (),
            **chosen.keywords(),
            observe=observe,
        )
        prefix = flags.written(output, model.stem)
        written = result.save(prefix, force=force)
    manifest = next(path for path in written if path.name.endswith(".split.json"))
    screen.result(result.manifest, lambda: split_page(model, manifest, result.manifest))
