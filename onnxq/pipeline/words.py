"""What results say of themselves in an interpreter and in a notebook: made of their documents."""

from __future__ import annotations

from collections.abc import Iterator

from onnxq.advice.worth import worth_of
from onnxq.analysis.reports import part_of
from onnxq.base.catalogue import Fact
from onnxq.base.reason import say
from onnxq.base.shown import Words, count, decibels, model_name
from onnxq.documents.plan import PlanPart
from onnxq.documents.report import PlanReport, Report, SensitivityReport

_ROWS = 10
_COLUMNS = ("layer", "operator", "MACs", "what")


def result_words(report: Report) -> Words:
    """Those of what `quantize` or `sanitize` made."""
    name, plan, engine = model_name(report.model), report.plan, report.engine
    what = "quantized" if plan else "repaired"
    head = f"{what}: {name}, {count(report.nodes, 'node')}, for {report.target}"
    share = _share(plan) if plan else ""
    kept = [one.said for one in report.task.figures[:1]] if report.task is not None else []
    facts = [count(len(report.changes), "change"), _nearness(report), *kept, share, *_engine(report)]
    goal = report.goal
    alarms = [] if goal is None else [*goal.mismatch, *([say("goal-missed")] if not goal.met else [])]
    if engine.regressed and engine.regression is not None:
        alarms.append(Fact("regressed", values={"why": engine.regression.reason}).text("answers"))
    return Words(head, facts, _COLUMNS, list(_floats(plan))[:_ROWS] if plan else [], alarms)


def _nearness(report: Report) -> str:
    """How near the outputs are about their mean, and the worst of several."""
    part = report.about_mean
    if part is None or part.sqnr_about_mean_db is None:
        return "accuracy not measured" if report.plan else ""
    text = f"{decibels(part.sqnr_about_mean_db, part.interval)} about the mean"
    if len(part.outputs) > 1:
        worst = decibels(part.worst_output_db, part.worst_interval)
        text += f", the worst output {part.worst_output} {worst}"
    return text


def _share(plan: PlanPart) -> str:
    share = plan.int8_share_of_eligible_macs
    return "" if share is None else say("share-of-work", format=plan.format, percent=100 * share)


def _engine(report: Report) -> Iterator[str]:
    """What the compiler says of it, and what int8 moves."""
    engine, worth = report.engine, worth_of(report.verdict)
    if engine.status == "compiled":
        yield part_of(PlanPart, report.plan).said_to_run(engine)
    elif report.plan:
        yield f"engine: {engine.status}" + (f" ({engine.reason})" if engine.reason else "")
    if worth is not None:
        yield worth.said


def _floats(plan: PlanPart) -> Iterator[tuple[str, str, str, str]]:
    """What stays in float, the largest first."""
    macs = {layer.node: layer.macs for layer in plan.layers}
    for entry in sorted(plan.kept_float, key=lambda one: -(macs.get(one.node) or 0)):
        size = macs.get(entry.node)
        yield entry.node, entry.op, "" if size is None else f"{size:,}", f"float: {entry.because}"


def planned_words(report: PlanReport) -> Words:
    """Those of a plan; `report`: what was done on the way."""
    plan = report.plan
    quantized = sum(layer.quantized for layer in plan.layers)
    head = f"plan of {model_name(report.model)}, for {report.target}"
    each = f" ({plan.in_words()})" if plan.is_mixed else ""
    facts = [f"{quantized} of {count(len(plan.layers), 'layer')} in {plan.format}{each}", _share(plan)]
    return Words(head, facts, _COLUMNS, list(_floats(plan))[:_ROWS])


def sensitivity_words(report: SensitivityReport) -> Words:
    """Those of a ranking."""
    part = report.sensitivity
    head = f"sensitivity of {model_name(report.model)}, for {report.target}"
    facts = [
        f"{decibels(part.sqnr_about_mean_db)} about the mean",
        f"{count(len(part.decisions), 'decision')} ranked on {count(part.samples, 'sample')}",
    ]
    rows = [(", ".join(one.nodes), f"{one.gain_db:+.2f} dB") for one in part.decisions[:_ROWS]]
    return Words(head, facts, ("left in float", "gains"), rows)
