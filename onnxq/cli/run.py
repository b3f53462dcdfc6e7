"""`onnxq run`: runs the pieces of a model in a chain."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated

import typer

from onnxq.base.errors import UserError
from onnxq.cli.chosen import Chosen
from onnxq.cli.screen import Screen


def run(
    screen: Screen,
    chosen: Chosen,
    manifest: Annotated[
        Path, typer.Argument(metavar="X.split.json", help="What onnxq split wrote.", show_default=False)
    ],
    original: Annotated[
        Path | None,
        typer.Option(metavar="MODEL", help="The original; by default the one that the manifest names."),
    ] = None,
    use: Annotated[
        list[str] | None,
        typer.Option(metavar="N=X.onnx", help="Run this file as piece N: a quantized one, say."),
    ] = None,
    samples: Annotated[
        int | None, typer.Option(metavar="N", help="How many samples at most; all by default.")
    ] = None,
    tolerance: Annotated[
        float | None,
        typer.Option(metavar="DB", help="The least SQNR of a float output; without it all must be equal."),
    ] = None,
    save: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Write each sample's tensors, calibration data for the pieces."),
    ] = None,
) -> int:
    """Run pieces in a chain and compare with the original.

    Everything runs in onnxruntime without its optimizations, so that the outputs are equal bit for bit. The
    exit code is 1 if they are not.
    """
    import onnxq
    from onnxq.cli.pages.pieces import chain_page

    if samples is not None and samples < 1:
        raise UserError(f"--samples {samples}: there must be at least 1")
    replaced = _numbered(use or [])
    with screen.progress() as observe:
        found = onnxq.run_pieces(
            manifest, chosen.source(), original=original, use=replaced, samples=samples, tolerance=tolerance,
            **chosen.keywords(), save=save, observe=observe,
        )  # fmt: skip
    screen.show(chain_page(found))
    screen.document(found)
    return 1 if found.within is False else 0


def _numbered(entries: list[str]) -> dict[int, Path]:
    found = {}
    for entry in entries:
        match = re.fullmatch(r"(\d+)=(.+)", entry)
        if match is None:
            raise UserError(f"--use {entry!r} is not understood", hint="the form is --use N=X.onnx")
        found[int(match[1])] = Path(match[2])
    return found
