"""`onnxq extract`: takes a part out of a model."""

from __future__ import annotations

from typing import Annotated

import typer

from onnxq.cli import options as flags
from onnxq.cli.chosen import Chosen
from onnxq.cli.screen import Screen


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
