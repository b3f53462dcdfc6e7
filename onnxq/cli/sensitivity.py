"""`onnxq sensitivity`: what causes the error, ranked, and settings that take the best."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from onnxq.cli import options as flags
from onnxq.cli.chosen import Chosen, takes
from onnxq.cli.screen import Screen
from onnxq.options import settings


@takes(
    settings.DataPlace, settings.Feeding, settings.ImageOptions, settings.Calibration,
    settings.AccuracyRepair, settings.Format,
    settings.Goal, settings.Ranking, settings.Division, settings.Repairs, settings.Inputs, settings.Runtime,
    without=("allow_interface_changes", "shard", "cache", "min_sqnr", "min_agreement", "max_drop",
             "time_limit"),
    config=True,
)  # fmt: skip
def sensitivity(
    screen: Screen,
    chosen: Chosen,
    model: flags.ModelPath,
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", metavar="X.toml", help="Settings that take the best, to write."),
    ] = None,
    force: flags.Force = False,
) -> int:
    """Rank what can be left in float by what that gains, with what it costs.

    Each source of noise runs alone on samples that calibrated nothing; the first decisions are confirmed by
    measuring. A run that was interrupted goes on when it is repeated. Nothing is quantized: -o X.toml is for
    quantize --config X.toml.
    """
    import onnxq
    from onnxq.cli.kept import kept
    from onnxq.cli.pages.sensitivity import sensitivity_page
    from onnxq.pipeline.decision_ranking import check_settings_output
    from onnxq.pipeline.goals import forget

    calibration = chosen.calibration()
    if output is not None:
        check_settings_output(output, model, force=force)
    if calibration.stats is not None:
        chosen.refuse_with_stats(Path(calibration.stats), without_data=False)
    state = (output or Path(model.name)).with_suffix(".sensitivity.part")
    with kept(state), screen.progress() as observe:
        result = onnxq.sensitivity(
            model,
            chosen.source(),
            feeding=chosen.group(settings.Feeding),
            images=chosen.images,
            calibration=calibration,
            accuracy=chosen.group(settings.AccuracyRepair),
            layers=chosen.layers,
            format=chosen.group(settings.Format),
            goal=chosen.group(settings.Goal),
            ranking=chosen.group(settings.Ranking),
            division=chosen.group(settings.Division),
            repairs=chosen.group(settings.Repairs),
            inputs=chosen.group(settings.Inputs),
            state=state,
            observe=observe,
        )
        result.report = replace(result.report, config=chosen.settings_file)
        if output is not None:
            result.save(output, force=force)
    forget(state)
    report = result.report
    if not screen.quiet:
        again = chosen.again(
            settings.DataPlace, settings.Feeding, settings.ImageOptions, settings.Calibration,
            settings.Format, settings.Repairs, settings.Inputs, settings.Runtime,
        )  # fmt: skip
        screen.show(sensitivity_page(report, again))
    screen.document(report.to_dict())
    return 0
