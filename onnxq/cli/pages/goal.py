"""The section on a goal: whether it is met, what that took, and what is missing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from onnxq.cli.pages.words import FEW, counted, within, within_db
from onnxq.cli.screen import Page, shorten

if TYPE_CHECKING:
    from onnxq.documents.accuracy import GateMeasured, GoalPart, GoalSearch, ScoresPart

_UNITS = {"sqnr": " dB", "agreement": " %", "drop": ""}
RAISED = {"agreement": " %", "drop": " of the score"}
COSTS = {"macs": "multiply-accumulates", "bytes": "bytes", "given": "by the costs given"}


def goal_section(page: Page, goal: GoalPart, format: str) -> None:
    """What was asked for, what is reached, and at what price in layers of a number format."""
    gates, search = goal.gates, goal.search
    for number, gate in enumerate(gates):
        page.section("Goal" if number == 0 else "", gate_text(gate), "" if gate.met else "bold red")
        if gate.tells and not gate.undecided:
            page.entry(gate.tells)
        before = next((one for one in goal.default if one.kind == gate.kind), None)
        if search is not None and before is not None:
            page.entry(f"without layers in float for it: {_figure(before)}")
    if goal.scores is not None:
        scores_section(page, goal.scores, format, headed=bool(gates))
    if search is not None:
        _search(page, search, format)
    if goal.cut:
        page.entry(goal.cut, style="yellow")
    if goal.kept:
        page.entry(f"what is measured so far is kept in {goal.kept}: the same command goes on from there")
    for text in goal.mismatch:
        page.entry(text, style="yellow")
    for text in goal.missing:
        page.entry(text, style="yellow")
    for text in goal.notes:
        page.entry(text, style="yellow")


def _figure(gate: GateMeasured) -> str:
    if gate.measured is None:
        return "not measured"
    spread = within_db(gate.interval) if gate.kind == "sqnr" else within(gate.interval)
    return f"{_number(gate.measured, gate.kind)}{_UNITS[gate.kind]}{spread}"


def _number(value: float, kind: str) -> str:
    """A figure in so few digits that it does not look like another one."""
    return f"{value:.4g}" if kind == "drop" else f"{value:.2f}"


def gate_text(gate: GateMeasured) -> str:
    """One thing that was asked for, and whether it is met."""
    of = f" of {shorten(gate.of, 40)}" if gate.of else ""
    most = "at most" if gate.kind == "drop" else "at least"
    unit = _UNITS[gate.kind]
    text = f"{gate.what}{of}: {_figure(gate)}, {most} {gate.goal:g}{unit} asked for"
    if gate.met:
        return f"met: {text}"
    missing = gate.missing
    more = "" if not missing else f": {_number(missing, gate.kind)}{unit} are missing"
    if gate.kind == "drop" and missing:
        more = f": {_number(missing, 'drop')} too much"
    return f"{'not decidable' if gate.undecided else 'not met'}: {text}{more}"


def scores_section(page: Page, scores: ScoresPart, format: str, *, headed: bool) -> None:
    """The user's scores: of the float model, of that in a number format, and of what is written."""
    one, other = scores.names or ("float", format)
    text = f"{shorten(scores.function, 60)}: {one} {scores.floating:.6g}, {other} {scores.int8:.6g}"
    if scores.result is not None and scores.result != scores.int8:
        text += f", with layers in float {scores.result:.6g}"
    if headed:
        page.entry(text)
    else:
        page.section("Score", text)
    if scores.same_samples:
        page.entry(
            'the same samples chose and judged: give the function a second parameter, which is "choose" or '
            '"verify", and other samples for each',
            style="yellow",
        )


def _search(page: Page, search: GoalSearch, format: str) -> None:
    """Which layers went to float, why, and for what."""
    left = search.floats
    share = f"{100 * search.share_of_int8_macs:.3g} % of the {format} multiply-accumulates"
    if left:
        cost = "" if search.unit == "macs" else f", costs {search.cost:,.6g} ({COSTS[search.unit]})"
        beside = "" if len(left) == 1 else ", with what each gains beside the others"
        page.entry(f"{counted(len(left), 'layer')} left in float for it, {share}{cost}{beside}:")
    else:
        page.entry("no layer is left in float for it")
    for entry in left[:FEW]:
        text = f"{shorten(entry.node)}: {entry.gain_db:.1f} dB for {_cost(entry.cost, search.unit)}"
        page.entry(text, 2)
    if len(left) > FEW:
        page.entry(f"+{len(left) - FEW} more in the report", 2, "dim")
    apart = " apart" if search.apart else ""
    page.entry(
        f"{counted(len(search.trials), 'set')} tried on {counted(search.samples, 'sample')}{apart}; "
        f"{counted(search.sources, 'source')} of noise, {search.runs_per_source:.2f} runs each"
    )
    if search.margin_db:
        page.entry(
            f"aimed {search.margin_db:.2f} dB higher than asked for, one standard error: samples that "
            "chose nothing may differ by that"
        )
    if search.few:
        page.entry(search.few, style="yellow")
    if search.raised:
        raised = ", ".join(f"{more:.3g}{RAISED[kind]}" for kind, more in search.raised.items())
        page.entry(
            f"{raised} more than is asked for was aimed at: the first choice fell short where confirmed"
        )
    if not search.reliable:
        page.entry(f"the body's noise is near that of {format}: predictions are rough", style="yellow")


def _cost(cost: float, unit: str) -> str:
    return f"{cost_text(cost)} {COSTS[unit]}" if unit != "given" else cost_text(cost)


def cost_text(cost: float) -> str:
    """A cost, in any unit."""
    return f"{cost:,.0f}" if cost >= 1000 else f"{cost:.4g}"
