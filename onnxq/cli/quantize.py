"""`onnxq quantize`: repairs the graph and quantizes it."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from onnxq.base import interrupts
from onnxq.base.errors import UserError
from onnxq.base.reason import say
from onnxq.cli import options as flags
from onnxq.cli.chosen import Chosen, given, repairs_of
from onnxq.cli.screen import Screen
from onnxq.options.settings import Compilation, Format, Goal, Outcome, Papers

if TYPE_CHECKING:
    from onnxq.base.progress import Observer
    from onnxq.documents.report import Report
    from onnxq.pipeline.result import Result
    from onnxq.targets import Target


Budget = Annotated[
    str | None,
    typer.Option(
        metavar="RUNS or MINUTESm",
        help="Try what the advice would try, keep the best: so many runs at most, or minutes, as in 20m.",
    ),
]


def quantize(
    screen: Screen,
    chosen: Chosen,
    model: flags.ModelPath,
    output: flags.Output = None,
    force: flags.Force = False,
    budget: Budget = None,
) -> int:
    """Repair a model and quantize it to INT8, or FP8.

    It writes three files: X.onnx with Q/DQ pairs, X.report.json, and the same report as a page,
    X.report.html. A target without Q/DQ pairs gets the repaired float model and a calibration cache.

    With a goal (--min-sqnr, --min-agreement, --max-drop) layers stay in float until the goal is met. If
    nothing meets it, onnxq writes the nearest model.

    The exit code is 1 if the answer is "do not ship it", or a goal is missed. --strict makes it 1 with "not
    known", too.

    With --budget it quantizes again as the advice says, and keeps the best. It tries nothing that changes
    what the model is fed.
    """
    import onnxq
    from onnxq.cli.advise import advise
    from onnxq.cli.kept import kept
    from onnxq.cli.pages.end import end_screen
    from onnxq.cli.pages.short import short_screen
    from onnxq.emit.files import check_output
    from onnxq.emit.serving import check_servers, serving_path
    from onnxq.targets import load_target

    repairs, compilation = repairs_of(chosen), chosen.group(Compilation)
    format, outcome = chosen.group(Format), chosen.group(Outcome)
    target = load_target(repairs.target)
    path = flags.written(output, chosen.made(model))
    if outcome.strict:
        _check_strict(target, no_engine=not compilation.compile)
    papers = chosen.group(Papers)
    check_servers(papers.servers, target)
    check_output(
        path, model, force=force, cache=format.cache or not target.explicit, page=papers.page,
        beside=[serving_path(path, name) for name in papers.servers],
    )  # fmt: skip
    asked = chosen.asked(model, output and path, force=force)
    if budget is not None:
        return advise(screen, chosen, model, path, asked, budget)
    data, keywords = given(chosen)
    state = path.with_name(f"{path.name}.part") if chosen.group(Goal).is_set else None
    with kept(state), screen.progress() as observe:
        saving = _Saving(path, asked, chosen.settings_file, state, papers, observe, force=force)
        result = onnxq.quantize(
            model, data, **keywords, state=state, ready=saving.final, observe=saving.observe
        )
        saving.rest(result)
    report = result.report
    screen.result(report, lambda: end_screen(report) if screen.verbose else short_screen(report))
    return outcome.exit_code(result.advice.answer, missed=report.goal is not None and not report.goal.met)


@dataclass(slots=True)
class _Saving:
    """Writes a run's files as soon as they are final; what is missing then is said if it is interrupted."""

    path: Path
    asked: list[list[str]]
    config: str | None
    state: Path | None
    papers: Papers
    watching: Observer
    force: bool = False
    result: Result | None = None
    saved: Report | None = None

    def observe(self, step: str, done: int | None, total: int | None) -> None:
        """Hears the steps; what is known since the model is written goes into its report."""
        self._told()
        self.watching(step, done, total)

    def final(self, result: Result) -> None:
        """Saves the model, which is final; what comes after it is told and shown."""
        from onnxq.pipeline.pursuit import forget, tell_cut
        from onnxq.pipeline.result import save_made

        asked = tuple(map(tuple, self.asked))
        result.report = replace(result.report, config=self.config, asked=asked)
        if self.state is not None:
            result.report = tell_cut(result.report, self.state)
        self.watching("write", None, None)
        save_made(result, self.path, self.papers, force=self.force)
        self.result, self.saved = result, result.report
        goal = result.report.goal
        if self.state is not None and (goal is None or not goal.cut):  # else it goes on when repeated
            forget(self.state)
        self._stands()

    def rest(self, result: Result) -> None:
        """Saves what came after it, and the page."""
        from onnxq.pipeline.result import save_page

        self._told()
        if self.papers.page:
            self.watching("page", None, None)
            save_page(result)
        interrupts.stands("")

    def _told(self) -> None:
        """Writes the report once more where more is known."""
        from onnxq.pipeline.result import save_told

        if self.result is not None and self.result.report is not self.saved:
            save_told(self.result)
            self.saved = self.result.report
            self._stands()

    def _stands(self) -> None:
        from onnxq.documents.analysis import ENDED
        from onnxq.emit.files import report_path

        assert self.saved is not None
        report, missing = self.saved, list[str]()
        if report.layer_errors is not None and report.layer_errors.why_not == ENDED:
            if not report.accuracy and report.calibration and report.calibration.held_out_code != "none":
                missing.append(say("ended.accuracy"))
            missing.append(say("ended.layers"))
        if self.papers.page:
            missing.append(say("ended.page", report=shlex.quote(str(report_path(self.path)))))
        words = " and ".join(filter(None, [", ".join(missing[:-1]), *missing[-1:]]))
        interrupts.stands(say("ended.written", file=self.path, missing=words))


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
