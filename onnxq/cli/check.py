"""`onnxq check`: what is wrong with a model, and what onnxq would do about it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from onnxq.cli import options as flags
from onnxq.cli.chosen import Chosen
from onnxq.cli.screen import Screen
from onnxq.options import settings


def check(
    screen: Screen,
    chosen: Chosen,
    model: flags.ModelPath,
    report: Annotated[
        Path | None, typer.Option("-o", "--report", metavar="FILE", help="Write all that is found, as JSON.")
    ] = None,
    strict: Annotated[bool, typer.Option("--strict", help="Exit 1 on warnings too.")] = False,
    checks: Annotated[
        list[str] | None,
        typer.Option(
            "--check",
            metavar="X.py",
            help="Your own checks, which are run; X.py:FUNC is one; repeatable.",
        ),
    ] = None,
    force: flags.Force = False,
    *,
    choice: flags.ChoiceFlags,
) -> int:
    """Say what the target does not take; change nothing.

    Also says what sanitize would change, and finds mistakes in existing Q/DQ pairs. Where NVIDIA's compiler
    is installed, and speaks for the target, the model is compiled as it is and as sanitize would write it,
    and the engine is asked about each mistake. With --calib or --stats the scales are looked at too: of the
    model's own pairs, else those that quantize would begin with. The exit code is 1 where there are errors,
    whatever of them --match and --op have shown.
    """
    from onnxq.base.plain import to_json
    from onnxq.cli.pages.check import check_page
    from onnxq.emit import files
    from onnxq.pipeline.checking import check as find

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
            again=chosen.again(*_OF_QUANTIZE, without=("stats", "partial")),
            observe=observe,
        )
    found = replace(found, config=chosen.settings_file)
    document = to_json(found)
    if report is not None:
        files.save_models(report.parent, {}, None, {report.name: document})
    screen.show(check_page(found, report, choice))
    screen.document(document)
    return found.exit_code(strict=strict)


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
