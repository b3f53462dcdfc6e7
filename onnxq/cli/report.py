"""`onnxq report`: a report as a page."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from onnxq.cli import options as flags
from onnxq.cli.screen import Screen


def report(
    screen: Screen,
    report: Annotated[
        Path, typer.Argument(metavar="X.report.json", help="The report of a run.", show_default=False)
    ],
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", metavar="X.html", help="The page to write; X.report.html by default."),
    ] = None,
    analysis: Annotated[
        Path | None,
        typer.Option(metavar="A.json", help="Errors of the layers: the output of `onnxq analyze --json`."),
    ] = None,
    compare: Annotated[
        Path | None, typer.Option(metavar="B.report.json", help="Another run to compare with.")
    ] = None,
    show: Annotated[bool, typer.Option("--open", help="Open it in your browser.")] = False,
    force: flags.Force = False,
) -> None:
    """Write a report as one HTML page.

    The page has the verdict, the noise step by step (changes of the graph, scales, each repair, half
    precision), and the layers, each with a view of its own. It also has errors and memory along the network,
    changes with proofs, checks, and how to reproduce the run. It loads nothing from elsewhere, so you can
    send it as it is.
    """
    import onnxq
    from onnxq.cli.pages.words import size_text
    from onnxq.cli.screen import Page

    with screen.progress() as observe:
        found = onnxq.report(
            report, output, analysis=analysis, compare=compare, open=show, force=force, observe=observe
        )
    page = Page()
    page.section("Page", f"{found.page}  {size_text(found.bytes)}")
    screen.result(found, lambda: page)
