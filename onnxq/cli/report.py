"""`onnxq report`: a report as a page, or two runs side by side."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from onnxq.base.errors import UserError
from onnxq.cli import options as flags
from onnxq.cli.chosen import Chosen
from onnxq.cli.screen import Page, Screen


@dataclass(frozen=True)
class _PageFlags:
    """What is on the page, and where it is."""

    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", metavar="X.html", help="The page; X.report.html by default."),
    ] = None
    analysis: Annotated[
        Path | None,
        typer.Option(metavar="F.json", help="Errors of its layers, for the page: `onnxq analyze --json`."),
    ] = None
    show: Annotated[bool, typer.Option("--open", help="Open the page in your browser.")] = False


def report(
    screen: Screen,
    chosen: Chosen,
    report: Annotated[
        Path, typer.Argument(metavar="A.report.json", help="The report of a run.", show_default=False)
    ],
    compare: Annotated[
        Path | None,
        typer.Argument(
            metavar="B.report.json", help="That of the run to judge: shows how it differs from A."
        ),
    ] = None,
    *,
    of_page: _PageFlags,
    strict: Annotated[bool, typer.Option("--strict", help="Exit with 1 if B is worse.")] = False,
    rows: flags.RowFlags,
) -> int:
    """Write a report as one HTML page, or show how a second run differs from it.

    The page has the verdict, the noise step by step (changes of the graph, scales, each repair, half
    precision), and the layers, each with a view of its own. It also has errors and memory along the network,
    changes with proofs, checks, and how to reproduce the run. It loads nothing from elsewhere, so you can
    send it as it is.

    With B, compare two versions of onnxq, two methods or two settings, the worst first: accuracy, goal,
    engine, plan with reasons, scales, changes with proofs, repair, files and settings, node by node. It opens
    reports of earlier versions, and says what they lack. --strict, --match, --op, --all and --csv are for
    this alone. The page is then written only with -o or --open: it is B's, and says the same.
    """
    import onnxq
    from onnxq.analysis.diff.rows import RunDifference
    from onnxq.cli.pages.diff import diff_page
    from onnxq.cli.pages.words import say, size_text

    has_page = compare is None or of_page.output is not None or of_page.show
    _refuse_ignored(of_page, rows, strict=strict, has_b=compare is not None, has_page=has_page)
    rows.check(RunDifference)
    found = (
        None
        if compare is None
        else onnxq.diff(report, compare, match=rows.globs, ops=rows.ops, **chosen.keywords())
    )
    page = Page() if found is None else diff_page(found, rows)
    if has_page:
        with screen.progress() as observe:
            written = onnxq.report(
                compare or report, of_page.output, compare=report if found else None,
                analysis=of_page.analysis, open=of_page.show, force=rows.force, observe=observe,
            )  # fmt: skip
        page.section(
            "Page", f"{written.page}  {size_text(written.bytes)}" + (f", {say('diff.page')}" if found else "")
        )
    rows.save(RunDifference, found.differences if found else ())
    screen.result(found or written, lambda: page)
    return int(strict and found is not None and found.worse > 0)


def _refuse_ignored(
    of_page: _PageFlags, rows: flags.RowFlags, *, strict: bool, has_b: bool, has_page: bool
) -> None:
    """Refuses flags about what is not shown, or not written.

    Raises:
        UserError: there is one.
    """
    of_two = {
        "--strict": strict, "--all": rows.all_rows, "--match": rows.match, "--op": rows.op, "--csv": rows.csv,
    }  # fmt: skip
    for flag in () if has_b else (flag for flag, value in of_two.items() if value):
        raise UserError(
            f"{flag} is about how two runs differ, and one report is given",
            hint="give the second one, as in onnxq report A.report.json B.report.json, or leave it out",
        )
    if of_page.analysis is not None and not has_page:
        raise UserError("--analysis is about the page, and none is written", hint="give -o X.html, too")
