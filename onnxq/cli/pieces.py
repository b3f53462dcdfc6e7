"""`onnxq pieces`: cuts a model into pieces, runs them, takes one out."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated

import typer

from onnxq.base.errors import UserError
from onnxq.cli import options as flags
from onnxq.cli.chosen import Chosen
from onnxq.cli.screen import Screen

HELP = "Cut a model into pieces, run them in a chain, take a part out."


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
    until_compiles: Annotated[
        bool,
        typer.Option(
            "--until-compiles", help="Cut around what NVIDIA's compiler refuses, until each engine compiles."
        ),
    ] = False,
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
) -> int:
    """Cut a model into pieces that run one after another.

    It writes X.0.onnx, X.1.onnx, ... and the manifest X.split.json for `onnxq pieces run`. You can give --at
    and --at-op several times. With --until-compiles the exit code is 1 if no piece compiles.
    """
    import onnxq
    from onnxq.cli.pages.pieces import split_page

    with screen.progress() as observe:
        result = onnxq.split(
            model,
            chosen.source() if chosen.has_data else None,
            at=[flags.names(entry) for entry in at or ()],
            at_op=at_op or (),
            until_compiles=until_compiles,
            **chosen.keywords(),
            observe=observe,
        )
        prefix = flags.written(output, model.stem)
        written = result.save(prefix, force=force)
    manifest = next(path for path in written if path.name.endswith(".split.json"))
    screen.result(result.manifest, lambda: split_page(model, manifest, result.manifest))
    return 0 if result.manifest.compiles else 1


def run(
    screen: Screen,
    chosen: Chosen,
    manifest: Annotated[
        Path,
        typer.Argument(metavar="X.split.json", help="What onnxq pieces split wrote.", show_default=False),
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


def extract(
    screen: Screen,
    chosen: Chosen,
    model: flags.ModelPath,
    start: Annotated[
        list[str] | None,
        typer.Option(
            "--from",
            metavar="TENSOR[,TENSOR]",
            help="Tensors that become inputs; the model's own by default.",
        ),
    ] = None,
    end: Annotated[
        list[str] | None,
        typer.Option("--to", metavar="TENSOR[,TENSOR]", help="Tensors that become outputs."),
    ] = None,
    node: Annotated[
        str | None, typer.Option(metavar="NAME", help="One node with its weights, instead of --to.")
    ] = None,
    output: flags.Output = None,
    force: flags.Force = False,
) -> None:
    """Take a part out of a model, for debugging.

    The part is what the tensors of --to need, back to the tensors of --from. It writes X.onnx and
    X.report.json.
    """
    import onnxq
    from onnxq.cli.pages.pieces import extract_page
    from onnxq.emit.files import check_output

    path = flags.written(output, f"{model.stem}.piece.onnx")
    check_output(path, model, force=force)
    first, last = (
        [name for entry in entries or () for name in flags.names(entry)] for entries in (start, end)
    )
    with screen.progress() as observe:
        result = onnxq.extract(model, start=first, end=last, node=node, **chosen.keywords(), observe=observe)
        result.save(path, force=force)
    report = result.report
    screen.result(report, lambda: extract_page(report))
