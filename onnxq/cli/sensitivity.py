"""`onnxq sensitivity`: what causes the error, ranked, and settings that take the best."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from onnxq.cli import options as flags
from onnxq.cli.chosen import Chosen
from onnxq.cli.screen import Screen
from onnxq.options import settings


def sensitivity(
    screen: Screen,
    chosen: Chosen,
    model: flags.ModelPath,
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", metavar="X.toml", help="Settings that take the best, to write."),
    ] = None,
    force: flags.Force = False,
    *,
    choice: flags.ChoiceFlags,
) -> int:
    """Rank layers to leave in float by what that gains, with its cost.

    Each source of noise runs alone, on samples that calibrated nothing. Then the first decisions are
    confirmed by measuring. If it is interrupted, run it again: it continues. It writes no model: -o X.toml
    is for quantize --config X.toml.
    """
    import onnxq
    from onnxq.cli.kept import kept
    from onnxq.cli.pages.sensitivity import sensitivity_page
    from onnxq.pipeline.decision_ranking import check_settings_output
    from onnxq.pipeline.pursuit import forget

    calibration = chosen.calibration()
    if output is not None:
        check_settings_output(output, model, force=force)
    chosen.refuse_ignored(calibration.stats, without_data=False)
    state = (output or Path(model.name)).with_suffix(".sensitivity.part")
    with kept(state), screen.progress() as observe:
        result = onnxq.sensitivity(
            model,
            chosen.source(),
            **chosen.keywords(),
            layers=chosen.layers,
            state=state,
            observe=observe,
        )
        result.report = replace(result.report, config=chosen.settings_file)
        if output is not None:
            result.save(output, force=force)
    forget(state)
    report = result.report
    again = chosen.again(
        settings.DataPlace, settings.Feeding, settings.ImageOptions, settings.Calibration,
        settings.Format, settings.Repairs, settings.Inputs, settings.Runtime, without=("prove",),
    )  # fmt: skip
    screen.result(report, lambda: sensitivity_page(report, again, choice))
    return 0
