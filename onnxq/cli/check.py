"""`onnxq check`: what is wrong with a model, and what onnxq would do about it."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Annotated

import typer

from onnxq import settings
from onnxq.cli import options as flags
from onnxq.cli.chosen import Chosen, takes
from onnxq.cli.screen import Screen


@takes(
    settings.Repairs, settings.Inputs, settings.Compilation, settings.Runtime,
    without=("allow_interface_changes", "fastest"), config=True,
)  # fmt: skip
def check(
    screen: Screen,
    chosen: Chosen,
    model: flags.ModelPath,
    report: Annotated[
        Path | None, typer.Option("-o", "--report", metavar="FILE", help="Write all that is found, as JSON.")
    ] = None,
    strict: Annotated[bool, typer.Option("--strict", help="Exit 1 on warnings too.")] = False,
    force: flags.Force = False,
) -> int:
    """Say what the target does not take; change nothing.

    Also says what sanitize would change, and finds mistakes in existing Q/DQ pairs. Where NVIDIA's compiler
    is installed, and speaks for the target, the model is compiled as it is and as sanitize would write it,
    and the engine is asked about each mistake. The exit code is 1 where there are errors.
    """
    from onnxq.cli.pages.check import check_page
    from onnxq.emit import files
    from onnxq.pipeline.checking import check as find
    from onnxq.reporting import to_json

    if report is not None:
        files.check_output(report, model, force=force, record=report)
    with screen.progress() as observe:
        found = find(
            model,
            repairs=chosen.group(settings.Repairs),
            inputs=chosen.group(settings.Inputs),
            compilation=chosen.group(settings.Compilation),
            observe=observe,
        )
    document = to_json(dataclasses.asdict(found))
    chosen.tell(document)
    if report is not None:
        files.save_models(report.parent, {}, None, {report.name: document})
    screen.show(check_page(document, report))
    screen.document(document)
    return found.exit_code(strict=strict)
