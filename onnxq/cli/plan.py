"""`onnxq plan`: what quantize would do, as a file that can be edited."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from onnxq.cli import options as flags
from onnxq.cli.chosen import Chosen
from onnxq.cli.screen import Screen
from onnxq.options import settings


def plan(
    screen: Screen,
    chosen: Chosen,
    model: flags.ModelPath,
    output: Annotated[
        Path | None,
        typer.Option(
            "-o", "--output", metavar="X.toml", help="The plan to write.", parser=flags.file_or_folder
        ),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace an existing plan.")] = False,
) -> int:
    """Write what quantize would do into a file, with every reason; edit it, then quantize --plan.

    Without --calib and --stats the file says what is quantized; quantize --plan then measures the ranges.
    With them the file is complete, and quantize --plan needs data only to verify.
    """
    import onnxq
    from onnxq.cli.pages.planned import planned_page
    from onnxq.pipeline.planning import check_plan_output

    calibration = chosen.calibration()
    path = flags.written(output, f"{model.stem}.plan.toml")
    check_plan_output(path, model, force=force)
    chosen.refuse_ignored(calibration.stats, without_data=not chosen.has_data)
    with screen.progress() as observe:
        result = onnxq.plan(
            model,
            chosen.source() if chosen.has_data else None,
            **chosen.keywords(),
            layers=chosen.layers,
            observe=observe,
        )
        result.report = replace(result.report, config=chosen.settings_file)
        result.save(path, force=force)
    report = result.report
    again = chosen.again(settings.Repairs, settings.Inputs, without=("target", "prove"))
    screen.result(report, lambda: planned_page(report, again))
    return 0
