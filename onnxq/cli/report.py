"""`onnxq report`: a report as a page, or two runs side by side."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from onnxq.base.errors import UserError
from onnxq.cli import options as flags
from onnxq.cli.chosen import Chosen
from onnxq.cli.screen import Screen

_B = "The report of the run to judge: shows how it differs from A, and writes a page only with -o or --open."


def report(
    screen: Screen,
    chosen: Chosen,
    report: Annotated[
        Path, typer.Argument(metavar="A.report.json", help="The report of a run.", show_default=False)
    ],
    compare: Annotated[Path | None, typer.Argument(metavar="[B.report.json]", help=_B)] = None,
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", metavar="X.html", help="The page of A; A.report.html by default."),
    ] = None,
    analysis: Annotated[
        Path | None,
        typer.Option(metavar="F.json", help="Errors of A's layers, for the page: `onnxq analyze --json`."),
    ] = None,
    show: Annotated[bool, typer.Option("--open", help="Open the page in your browser.")] = False,
    all_rows: Annotated[bool, typer.Option("--all", help="With B: show all rows, not the first ten.")] = False,
    strict: Annotated[bool, typer.Option("--strict", help="With B: exit with 1 if B is worse.")] = False,
    *,
    choice: flags.ChoiceFlags,
    table: flags.TableFlags,
) -> int:
    """Write a report as one HTML page, or show how a second run differs from it.

    The page has the verdict, the noise step by step (changes of the graph, scales, each repair, half
    precision), and the layers, each with a view of its own. It also has errors and memory along the network,
    changes with proofs, checks, and how to reproduce the run. It loads nothing from elsewhere, so you can
    send it as it is.

    With B, compare two versions of onnxq, two methods or two settings, the worst first: accuracy, goal,
    engine, plan with reasons, scales, changes with proofs, repair, files and settings, node by node. It opens
    reports of earlier versions, and says what they lack. --match, --op, --csv and --config are for this, too.
    """
    import onnxq
    from onnxq.analysis.diff.rows import RunDifference
    from onnxq.cli.pages.diff import diff_page
    from onnxq.cli.pages.words import say, size_text
    from onnxq.cli.screen import Page

    has_page = compare is None or output is not None or show
    of_two = {
        "--all": all_rows, "--strict": strict, "--match": choice.match, "--op": choice.op, "--csv": table.csv,
        "--config": chosen.again(),
    }  # fmt: skip
    for flag, value in of_two.items():
        if compare is None and value:
            raise UserError(
                f"{flag} is about the difference of two runs, and one report is given",
                hint="give a second report, as in onnxq report A.report.json B.report.json, or leave it out",
            )
    if analysis is not None and not has_page:
        raise UserError("--analysis is about the page, and none is written", hint="give -o X.html or --open")
    table.check(RunDifference)
    found = compare and onnxq.diff(report, compare, match=choice.globs, ops=choice.ops, **chosen.keywords())
    page = Page() if found is None else diff_page(found, full=all_rows, choice=choice)
    if has_page:
        with screen.progress() as observe:
            written = onnxq.report(
                report, output, analysis=analysis, compare=compare, open=show, force=table.force,
                observe=observe,
            )  # fmt: skip
        beside = "" if found is None else f", {say('diff.page')}"
        page.section("Page", f"{written.page}  {size_text(written.bytes)}{beside}")
    if found is None:
        screen.result(written, lambda: page)
        return 0
    table.save(RunDifference, found.differences)
    screen.result(found, lambda: page)
    return int(strict and found.worse > 0)
