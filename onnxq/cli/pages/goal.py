"""The section on a goal: whether it is met, what that took, and what is missing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from onnxq.cli.pages.words import FEW, counted, say, within, within_db
from onnxq.cli.screen import Page, shorten

if TYPE_CHECKING:
    from onnxq.documents.accuracy import GateMeasured, GoalPart, GoalSearch, ScoresPart

_UNITS = {"sqnr": " dB", "agreement": " %", "drop": ""}
RAISED = {"agreement": " %", "drop": " of the score"}


def goal_section(page: Page, goal: GoalPart, format: str) -> None:
    """What was asked for, what is reached, and at what price in layers of a number format."""
    gates, search = goal.gates, goal.search
    for number, gate in enumerate(gates):
        page.section("Goal" if number == 0 else "", gate_text(gate), "" if gate.met else "bold red")
        if gate.tells and not gate.undecided:
            page.entry(gate.tells)
        before = next((one for one in goal.default if one.kind == gate.kind), None)
        if search is not None and before is not None:
            page.entry(say("for-goal.without", figure=_figure(before)))
    if goal.scores is not None:
        scores_section(page, goal.scores, format, headed=bool(gates))
    if search is not None:
        _search(page, search, format)
    if goal.cut:
        page.entry(goal.cut, style="yellow")
    if goal.kept:
        page.entry(say("for-goal.kept", folder=goal.kept))
    for text in (*goal.mismatch, *goal.missing, *goal.notes):
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
        text += f", {say('for-goal.result', score=scores.result)}"
    if headed:
        page.entry(text)
    else:
        page.section("Score", text)
    if scores.same_samples:
        page.entry(say("no-score-apart"), style="yellow")


def _search(page: Page, search: GoalSearch, format: str) -> None:
    """Which layers went to float, why, and for what."""
    left = search.floats
    share = f"{100 * search.share_of_int8_macs:.3g} % of the {format} multiply-accumulates"
    if left:
        cost = "" if search.unit == "macs" else f", costs {search.cost:,.6g} ({say(f'costs.{search.unit}')})"
        code = "for-goal.left" if len(left) == 1 else "for-goal.several"
        page.entry(say(code, layers=counted(len(left), "layer"), share=share, cost=cost))
    else:
        page.entry(say("for-goal.none"))
    for entry in left[:FEW]:
        text = f"{shorten(entry.node)}: {entry.gain_db:.1f} dB for {_cost(entry.cost, search.unit)}"
        page.entry(text, 2)
    page.more(len(left) - FEW, "in the report", 2)
    apart = " apart" if search.apart else ""
    sets, sources = counted(len(search.trials), "set"), counted(search.sources, "source")
    on, runs = f"{counted(search.samples, 'sample')}{apart}", search.runs_per_source
    page.entry(say("for-goal.tried", sets=sets, samples=on, sources=sources, runs=runs))
    if search.margin_db:
        page.entry(say("for-goal.margin", db=search.margin_db))
    if search.few:
        page.entry(search.few, style="yellow")
    if search.raised:
        raised = ", ".join(f"{more:.3g}{RAISED[kind]}" for kind, more in search.raised.items())
        page.entry(say("for-goal.raised", raised=raised))
    if not search.reliable:
        page.entry(say("rough-predictions", format=format), style="yellow")


def _cost(cost: float, unit: str) -> str:
    return f"{cost_text(cost)} {say(f'costs.{unit}')}" if unit != "given" else cost_text(cost)


def cost_text(cost: float) -> str:
    """A cost, in any unit."""
    return f"{cost:,.0f}" if cost >= 1000 else f"{cost:.4g}"
