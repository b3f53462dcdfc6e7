"""`onnxq check`: what is wrong with a model, and what onnxq would do about it."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from onnxq.base.errors import UserError, unknown_name
from onnxq.cli import options as flags
from onnxq.cli.chosen import Chosen
from onnxq.cli.screen import Screen
from onnxq.options import settings

if TYPE_CHECKING:
    from onnxq.inspection.checking import Checks


_FORMS: Mapping[str, Callable[[Checks], list[str]]] = {
    "github": lambda found: found.annotations(),
    "sarif": lambda found: [json.dumps(found.sarif(), indent=1)],
}
"""What is printed for programs of others."""

_ALL_FORMS = ("text", "json", *_FORMS)


def _forms(incomplete: str) -> list[str]:
    """The forms that begin so, for the shell to complete."""
    return [name for name in _ALL_FORMS if name.startswith(incomplete)]


def check(
    screen: Screen,
    chosen: Chosen,
    model: flags.ModelPath,
    report: Annotated[
        Path | None, typer.Option("-o", "--report", metavar="FILE", help="Write all findings as JSON.")
    ] = None,
    form: Annotated[
        str,
        typer.Option(
            "--as",
            metavar="FORM",
            help="Form of the output: text, json, github (annotations) or sarif.",
            autocompletion=_forms,
        ),
    ] = "text",
    strict: Annotated[bool, typer.Option("--strict", help="Exit with 1 on warnings, too.")] = False,
    checks: Annotated[
        list[str] | None,
        typer.Option(
            "--check",
            metavar="X.py",
            help="A file of your own checks, or one check, X.py:FUNC. Its Python is run. Repeatable.",
        ),
    ] = None,
    force: flags.Force = False,
    *,
    choice: flags.ChoiceFlags,
) -> int:
    """Say what the target does not take; change nothing.

    It also says what sanitize would change, and finds mistakes in existing Q/DQ pairs. If NVIDIA's compiler
    is installed, and the target is one that it compiles for, onnxq compiles the model as it is and as
    sanitize would write it. It also asks the engine about each mistake in the pairs.

    With --calib or --stats it also checks scales: those of the model's own pairs, else those that quantize
    would begin with. The exit code is 1 if there are errors, also if --match and --op hide them. Each
    output form has all findings, with node, reason and command. Prose goes to standard error, except for
    text.
    """
    from onnxq.cli.pages.check import check_page
    from onnxq.emit import files
    from onnxq.inspection.checking import check as find

    _speak(screen, form)
    if report is not None:
        files.check_output(report, model, force=force, record=report)
    stats, with_data = _data(chosen)
    unasked = {} if with_data else {"feeding": None, "images": None}
    if not with_data and stats is None:
        unasked["calibration"] = None
    with screen.progress() as observe:
        found = find(
            model,
            chosen.source() if with_data else None,
            checks=checks or (),
            **chosen.keywords(**unasked),
            again=chosen.again(*_OF_QUANTIZE, without=("stats", "prove")),
            observe=observe,
        )
    found = replace(found, config=chosen.settings_file)
    if report is not None:
        files.save_models(report.parent, {}, None, {report.name: found.to_dict()})
    screen.show(check_page(found, report, choice))
    if form in _FORMS:
        screen.output(_FORMS[form](found))
    screen.document(found)
    return found.exit_code(strict=strict)


def _speak(screen: Screen, form: str) -> None:
    """Has the screen be for people or programs, as it is asked for.

    Raises:
        UserError: there is no such form, or another one is asked for by --json.
    """
    if form not in _ALL_FORMS:
        raise unknown_name("form", form, _ALL_FORMS)
    if screen.json and form in _FORMS:
        raise UserError(
            f"standard output is to be JSON (--json) and {form} (--as)", hint="leave one of them out"
        )
    if form != "text":
        screen.for_programs(json=form == "json")


_OF_QUANTIZE = (
    settings.Repairs, settings.Inputs, settings.Calibration, settings.Feeding, settings.ImageOptions,
)  # fmt: skip
"""What `quantize` is to be told again, where a finding advises it."""


def _data(chosen: Chosen) -> tuple[Path | None, bool]:
    """The statistics, and whether there are data: what flags say, and not the file, so that nobody waits.

    Raises:
        UserError: flags that would be ignored.
    """
    stats = chosen.flags(settings.Calibration).get("stats")
    with_data = bool(chosen.flags(settings.DataPlace))
    chosen.refuse_ignored(stats, without_data=not with_data)
    return stats, with_data
