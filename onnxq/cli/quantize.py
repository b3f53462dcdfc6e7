"""`onnxq quantize`: repairs the graph and quantizes it."""

from __future__ import annotations

import shlex
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from onnxq.base import interrupts
from onnxq.base.errors import UserError
from onnxq.cli import options as flags
from onnxq.cli.chosen import Chosen
from onnxq.cli.screen import Screen
from onnxq.options import settings

if TYPE_CHECKING:
    from onnxq.targets import Target


def quantize(
    screen: Screen,
    chosen: Chosen,
    model: flags.ModelPath,
    output: flags.Output = None,
    force: flags.Force = False,
) -> int:
    """Repair a model and quantize it to INT8.

    Writes X.onnx, with explicit Q/DQ pairs and shared scales, X.report.json and the same as a page,
    X.report.html; for a target that takes no
    such pairs, the repaired float model and a calibration cache. Exit code 0 says nothing of the compiler
    without --strict. With a goal (--min-sqnr, --min-agreement, --max-drop) layers are left in float until it
    is met; where nothing meets it the nearest model is written, and the exit code is 1.
    """
    import onnxq
    from onnxq.cli.kept import kept
    from onnxq.cli.pages.end import end_screen
    from onnxq.emit.files import check_output, report_path
    from onnxq.pipeline.goals import forget, tell_cut
    from onnxq.pipeline.result import Result, save_made, save_page, save_told
    from onnxq.targets import load_target

    calibration = chosen.calibration()
    repairs, compilation = chosen.group(settings.Repairs), chosen.group(settings.Compilation)
    format, strict = chosen.group(settings.Format), chosen.group(settings.Outcome).strict
    named = {**chosen.file(settings.Repairs), **chosen.flags(settings.Repairs)}
    if format.plan is not None and "target" not in named:
        from onnxq.quant.plan_reading import read_plan

        repairs = replace(repairs, target=read_plan(Path(format.plan)).target)
    target = load_target(repairs.target)
    path = output or Path(f"{model.stem}.int8.onnx")
    if strict:
        _check_strict(target, no_engine=not compilation.compile)
    page = chosen.group(settings.Papers).page
    check_output(path, model, force=force, cache=format.cache or not target.explicit, page=page)
    known = calibration.stats is not None or format.plan is not None
    without_data = known and chosen.place == settings.DataPlace()
    if calibration.stats is None and without_data:
        chosen.refuse_without_data()
    if calibration.stats is not None:
        chosen.refuse_with_stats(Path(calibration.stats), without_data=without_data)
    goal = chosen.group(settings.Goal)
    if not goal.is_set and "workers" in chosen.flags(settings.Division):
        raise UserError(
            "--workers take part in measuring for a goal, and there is none",
            hint="give --min-sqnr, --min-agreement or --max-drop, or leave it out",
        )
    state = path.with_name(f"{path.name}.part") if goal.is_set else None
    written = f"{path} and its report are written; missing: "
    to_come = f"the page, which onnxq report {shlex.quote(str(report_path(path)))} writes"

    def ready(result: Result) -> None:
        """Saves what is final; what comes after it is told and shown, and interrupts cost nothing else."""
        asked = tuple(map(tuple, chosen.asked(model, output, force=force)))
        result.report = replace(result.report, config=chosen.settings_file, asked=asked)
        if state is not None:
            result.report = tell_cut(result.report, state)
        save_made(result, path, force=force, page=page)
        found = result.report.goal
        if state is not None and (found is None or not found.cut):  # else it goes on when repeated
            forget(state)
        interrupts.stands(written + "the errors of layers" + (f" and {to_come}" if page else ""))

    with kept(state), screen.progress() as observe:
        result = onnxq.quantize(
            model,
            None if without_data else chosen.source(),
            **chosen.keywords(repairs=repairs),
            layers=chosen.layers,
            state=state,
            ready=ready,
            observe=observe,
        )
        save_told(result)
        if page:
            interrupts.stands(written + to_come)
            save_page(result)
        interrupts.stands("")
    report = result.report
    screen.result(report, lambda: end_screen(report, estimated=screen.verbose or compilation.gpu is not None))
    failed = strict and (report.engine.regressed or report.engine.status == "not-run")
    return int(failed or (report.goal is not None and not report.goal.met))


def _check_strict(target: Target, *, no_engine: bool) -> None:
    """Refuses --strict where nothing is compiled."""
    from onnxq.run import trt

    why, hint = "", "leave --strict out"
    if no_engine:
        why = "with --no-engine nothing is"
    elif not target.explicit:
        why = f"{target.title} is not here"
    elif trt.installed() is None:
        why, _, hint = trt.missing().partition("; ")
    if why:
        raise UserError(f"--strict asks whether the result compiles, but {why}", hint=hint)
