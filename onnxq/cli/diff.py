"""`onnxq diff`: two runs side by side, by their reports."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from onnxq.cli import options as flags
from onnxq.cli.chosen import Chosen
from onnxq.cli.screen import Screen


def diff(
    screen: Screen,
    chosen: Chosen,
    one: Annotated[
        Path, typer.Argument(metavar="A.report.json", help="The report of a run.", show_default=False)
    ],
    other: Annotated[
        Path,
        typer.Argument(metavar="B.report.json", help="The report of the run to judge.", show_default=False),
    ],
    all_rows: Annotated[bool, typer.Option("--all", help="Show all rows, not the first ten.")] = False,
    strict: Annotated[bool, typer.Option("--strict", help="Exit with 1 if B is worse.")] = False,
    *,
    choice: flags.ChoiceFlags,
    table: flags.TableFlags,
) -> int:
    """Show how a run differs from another one, the worst first.

    Compare two versions of onnxq, two methods or two settings: accuracy, goal, engine, plan with reasons,
    scales, changes with proofs, repair, files and settings, node by node. It opens reports of earlier
    versions, and says what they lack.
    """
    import onnxq
    from onnxq.analysis.diff.rows import RunDifference
    from onnxq.cli.pages.diff import diff_page

    table.check(RunDifference)
    found = onnxq.diff(one, other, match=choice.globs, ops=choice.ops, **chosen.keywords())
    table.save(RunDifference, found.differences)
    screen.result(found, lambda: diff_page(found, full=all_rows, choice=choice))
    return int(strict and found.worse > 0)
