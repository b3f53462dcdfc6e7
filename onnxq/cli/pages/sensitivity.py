"""The screen of `sensitivity`: decisions by what they gain, and the best of them."""

from __future__ import annotations

import math
import shlex
from collections.abc import Sequence
from typing import TYPE_CHECKING

from onnxq.cli.options import ALL_ROWS, ChoiceFlags
from onnxq.cli.pages.accuracy import about_mean_line
from onnxq.cli.pages.data import calibration_data_section
from onnxq.cli.pages.goal import cost_text, scores_section
from onnxq.cli.pages.repair import repair_section
from onnxq.cli.pages.size import files_section
from onnxq.cli.pages.words import FEW, counted, decibels, first_of, say
from onnxq.cli.screen import Page, shorten
from onnxq.judge.about_mean import NAME

if TYPE_CHECKING:
    from onnxq.documents.report import BestFloats, SensitivityPart, SensitivityReport
    from onnxq.noise.ranking import DecisionRanked

_SHOWN = 12


def sensitivity_page(report: SensitivityReport, again: Sequence[str], choice: ChoiceFlags = ALL_ROWS) -> Page:
    """What causes the error.

    Args:
        report: what was measured.
        again: the flags that `quantize` needs as well.
        choice: of which layers the decisions are shown.
    """
    page = Page()
    part = report.sensitivity
    page.head(say("in-float.title", model=report.model, format=part.format))
    page.section("Target", f"{report.target}, done in {report.seconds:.1f} s")
    page.sections("Settings", filter(None, [report.config]))
    calibration_data_section(page, part.calibration.data)
    for note in part.calibration.notes:
        page.entry(note, style="yellow")
    repair_section(page, part.repair)
    _noise(page, part)
    decisions = [one for one in part.decisions if choice.wants(one.nodes, one.op)]
    if len(decisions) < len(part.decisions):
        page.section(
            "Shown", say("shown-of", shown=len(decisions), all=len(part.decisions), choice=choice.said)
        )
    _ranked(page, part, decisions)
    _best(page, part)
    if part.scores is not None:
        scores_section(page, part.scores, part.format, headed=False)
    files_section(page, report.files)
    if report.files and not part.best.nodes:
        page.entry(say("in-float.no-file"))
    elif report.files:
        command = ["onnxq", "quantize", str(report.model), "--config", report.files[0], *again]
        page.section("Next", "")
        page.code(shlex.join(command))
    return page


def _noise(page: Page, part: SensitivityPart) -> None:
    """How much there is, and what measuring it took."""
    page.section("Noise", f"{NAME}: {decibels(part.sqnr_about_mean_db)}")
    page.entry(
        say(
            "in-float.sources", sources=counted(part.sources, "source"),
            samples=counted(part.samples, "sample"), what="nothing" if part.apart else "as well",
            runs=part.runs_per_source, level=decibels(part.predicted_sqnr_db),
        )
    )  # fmt: skip
    if part.few:
        page.entry(part.few, style="yellow")
    if not part.reliable:
        page.entry(say("rough-predictions", format=part.format), style="yellow")
    for entry in part.left_out[:FEW]:
        page.entry(f"{shorten(entry.output, 40)} does not count: {entry.why}")


def _ranked(page: Page, part: SensitivityPart, decisions: Sequence[DecisionRanked]) -> None:
    """Decisions, the greatest gain first."""
    page.section("In float", say("in-float.ranked"))
    unit, price = part.unit, say(f"costs.{part.unit}")
    head = ["left in float", "gain", "measured", f"{part.format} MACs"]
    head += [f"cost, {price}"] if unit != "macs" else []
    scored = any(entry.score is not None for entry in decisions)
    head += ["score", "score alone"] if scored else []
    rows = []
    for entry in decisions[:_SHOWN]:
        measured = entry.measured_gain_db
        row = [
            first_of(entry.nodes, 48),
            f"{entry.gain_db:+.2f}",
            "" if measured is None else f"{measured:+.2f}",
            f"{100 * entry.share_of_int8_macs:.1f} %",
        ]
        row += [cost_text(entry.cost)] if unit != "macs" else []
        if scored:
            row += ["" if one is None else f"{one:.6g}" for one in (entry.score, entry.score_alone)]
        rows.append(row)
    page.table(head, rows)
    page.more(len(decisions) - _SHOWN, "(--json)")
    for entry in decisions[:1]:
        page.entry(f"the first: {entry.why}")


def _best(page: Page, part: SensitivityPart) -> None:
    """The best of them together."""
    best = part.best
    floats = best.nodes
    if not floats:
        page.section("Best", _nothing(best, part.format))
        return
    share = f"{100 * best.share_of_int8_macs:.3g} % of the {part.format} MACs"
    page.section("Best", f"{counted(len(floats), 'layer')} together, {share}: {_gain(part)} dB")
    page.names(floats, shown=FEW, level=1)
    before, after = best.verified_before, best.verified
    if after.sqnr_about_mean_db is not None:
        alone = part.calibration.held_out_code == "apart"
        was = decibels(before.sqnr_about_mean_db, before.interval)
        figure = f"{about_mean_line(after)}; {part.format} {was}"
        page.entry(say("in-float.apart" if alone else "in-float.same", figure=figure))


def _nothing(best: BestFloats, format: str) -> str:
    """Why nothing is best."""
    limit, least = best.max_float, best.smallest_share
    within = f"{100 * limit:.3g} % of the {format} MACs"
    if least is None or least <= limit:
        return say("in-float.gains-nothing", limit=within)
    more = math.ceil(1000 * least) / 10
    return say("in-float.too-small", limit=within, least=100 * least, more=more)


def _gain(part: SensitivityPart) -> str:
    return f"{part.sqnr_about_mean_db:.1f} -> {part.best.sqnr_about_mean_db:.1f}"
