"""The screen of `sensitivity`: decisions by what they gain, and the best of them."""

from __future__ import annotations

import math
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from onnxq.cli.options import ALL_ROWS, ChoiceFlags
from onnxq.cli.pages.accuracy import about_mean_line
from onnxq.cli.pages.data import calibration_data_section
from onnxq.cli.pages.goal import COSTS, cost_text, scores_section
from onnxq.cli.pages.repair import repair_section
from onnxq.cli.pages.settings import settings_section
from onnxq.cli.pages.words import FEW, counted, decibels, size_text
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
    page.head(f"{report.model}: what causes the error of {part.format}")
    page.section("Target", f"{report.target}, done in {report.seconds:.1f} s")
    settings_section(page, report.config)
    calibration_data_section(page, part.calibration.data)
    for note in part.calibration.notes:
        page.entry(note, style="yellow")
    repair_section(page, part.repair)
    _noise(page, part)
    decisions = [one for one in part.decisions if choice.wants(one.nodes, one.op)]
    if len(decisions) < len(part.decisions):
        page.section("Shown", f"{len(decisions)} of {len(part.decisions)}: what is of {choice.said}")
    _ranked(page, part, decisions)
    _best(page, part)
    if part.scores is not None:
        scores_section(page, part.scores, part.format, headed=False)
    for number, file in enumerate(report.files):
        page.section("Files" if number == 0 else "", f"{file}  {size_text(Path(file).stat().st_size)}")
        if not part.best.nodes:
            page.entry("it leaves nothing in float: there is nothing to take")
    if report.files and part.best.nodes:
        command = ["onnxq", "quantize", str(report.model), "--config", report.files[0], *again]
        page.section("Next", "")
        page.code(shlex.join(command))
    return page


def _noise(page: Page, part: SensitivityPart) -> None:
    """How much there is, and what measuring it took."""
    page.section("Noise", f"{NAME}: {decibels(part.sqnr_about_mean_db)}")
    nothing = "nothing" if part.apart else "as well"
    page.entry(
        f"{counted(part.sources, 'source')} on {counted(part.samples, 'sample')} that calibrated "
        f"{nothing}, {part.runs_per_source:.2f} runs each; they add up to "
        f"{decibels(part.predicted_sqnr_db)}"
    )
    if part.few:
        page.entry(part.few, style="yellow")
    if not part.reliable:
        page.entry(f"the body's noise is near that of {part.format}: predictions are rough", style="yellow")
    for entry in part.left_out[:FEW]:
        page.entry(f"{shorten(entry.output, 40)} does not count: {entry.why}")


def _ranked(page: Page, part: SensitivityPart, decisions: Sequence[DecisionRanked]) -> None:
    """Decisions, the greatest gain first."""
    page.section("In float", "what each gains by itself, dB; the first ones are measured as well")
    unit = part.unit
    head = ["left in float", "gain", "measured", f"{part.format} MACs"]
    head += [f"cost, {COSTS[unit]}"] if unit != "macs" else []
    scored = any(entry.score is not None for entry in decisions)
    head += ["score", "score alone"] if scored else []
    rows = []
    for entry in decisions[:_SHOWN]:
        measured = entry.measured_gain_db
        row = [
            _name(entry.nodes),
            f"{entry.gain_db:+.2f}",
            "" if measured is None else f"{measured:+.2f}",
            f"{100 * entry.share_of_int8_macs:.1f} %",
        ]
        row += [cost_text(entry.cost)] if unit != "macs" else []
        if scored:
            row += ["" if one is None else f"{one:.6g}" for one in (entry.score, entry.score_alone)]
        rows.append(row)
    page.table(head, rows)
    if len(decisions) > _SHOWN:
        page.entry(f"+{len(decisions) - _SHOWN} more (--json)", style="dim")
    for entry in decisions[:1]:
        page.entry(f"the first: {entry.why}")


def _name(nodes: Sequence[str]) -> str:
    more = f" +{len(nodes) - 1}" if len(nodes) > 1 else ""
    return f"{shorten(nodes[0], 48)}{more}"


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
        judged = "samples that chose nothing" if alone else "the same samples"
        was = decibels(before.sqnr_about_mean_db, before.interval)
        page.entry(f"on {judged}, {about_mean_line(after)}; {part.format} {was}")


def _nothing(best: BestFloats, format: str) -> str:
    """Why nothing is best."""
    limit, least = best.max_float, best.smallest_share
    within = f"{100 * limit:.3g} % of the {format} MACs"
    if least is None or least <= limit:
        return f"none: what takes no more than {within} gains nothing (--max-float)"
    more = math.ceil(1000 * least) / 10
    return (
        f"none: no layer is small enough: no more than {within} may go to float, and the smallest takes "
        f"{100 * least:.3g} % (--max-float {more:g}%)"
    )


def _gain(part: SensitivityPart) -> str:
    return f"{part.sqnr_about_mean_db:.1f} -> {part.best.sqnr_about_mean_db:.1f}"
