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
        Path | None, typer.Option("-o", "--output", metavar="X.html", help="The page; X.report.html.")
    ] = None,
    analysis: Annotated[
        Path | None,
        typer.Option(metavar="A.json", help="What `onnxq analyze --json` printed: errors of the layers."),
    ] = None,
    compare: Annotated[
        Path | None, typer.Option(metavar="B.report.json", help="Another run, to be set beside it.")
    ] = None,
    show: Annotated[bool, typer.Option("--open", help="Show it in your browser.")] = False,
    force: flags.Force = False,
) -> None:
    """Write a report as one HTML page.

    The verdict, the ledger of noise, the layers with their own views, errors and memory along the network,
    surgery with proofs, checks, and how to reproduce. It loads nothing from elsewhere: send it as it is.
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
