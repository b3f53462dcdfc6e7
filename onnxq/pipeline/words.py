"""What results say of themselves in an interpreter and in a notebook: made of their reports."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from onnxq.analysis.worth import worth_of
from onnxq.compiled.verdict import Verdict
from onnxq.documents.json_values import to_json
from onnxq.shown import Words, count, decibels
from onnxq.typed import typed

_ROWS = 10
_COLUMNS = ("layer", "operator", "MACs", "what")

Report = Mapping[str, Any]


def result_words(report: Report) -> Words:
    """Those of what `quantize` or `sanitize` made."""
    name = report["model"] or "a model in memory"
    plan = report["plan"]
    what = "quantized" if plan else "repaired"
    head = f"{what}: {name}, {count(report['nodes'], 'node')}, for {report['target']}"
    facts = [count(len(report["changes"]), "change"), _nearness(report), _share(plan), *_engine(report)]
    goal = report.get("goal")
    alarms = ["the goal is not met"] if goal is not None and not goal["met"] else []
    if report["engine"].get("regressed"):
        alarms.append(f"it does not compile, and the original does: {report['engine']['regression']}")
    return Words(head, facts, _COLUMNS, list(_floats(plan))[:_ROWS] if plan else [], alarms)


def _nearness(report: Report) -> str:
    """How near the outputs are about their mean, and the worst of several."""
    part = report.get("about_mean")
    if not part or part["sqnr_about_mean_db"] is None:
        return "accuracy not measured" if report["plan"] else ""
    text = f"{decibels(part['sqnr_about_mean_db'])} about the mean"
    if len(part["outputs"]) > 1:
        text += f", the worst output {part['worst_output']} {decibels(part['worst_output_db'])}"
    return text


def _share(plan: Report | None) -> str:
    if not plan or plan["int8_share_of_eligible_macs"] is None:
        return ""
    return f"int8 is {100 * plan['int8_share_of_eligible_macs']:.1f} % of the eligible MACs"


def _engine(report: Report) -> Iterator[str]:
    """What the compiler says of it, and what int8 moves."""
    engine, verdict = report["engine"], report["verdict"]
    worth = None if verdict is None else worth_of(typed(Verdict, to_json(verdict)))
    if engine["status"] == "compiled":
        yield f"{engine['int8']} of {engine['planned']} planned int8 layers run in int8"
    elif report["plan"]:
        yield f"engine: {engine['status']}" + (f" ({engine['reason']})" if engine["reason"] else "")
    if worth is not None:
        yield worth.said


def _floats(plan: Report) -> Iterator[tuple[str, str, str, str]]:
    """What stays in float, the largest first."""
    known = {layer["node"]: layer for layer in plan["layers"]}
    for entry in sorted(plan["kept_float"], key=lambda one: -(known.get(one["node"], {}).get("macs") or 0)):
        yield entry["node"], entry["op"], _macs(known.get(entry["node"], {})), f"float: {entry['because']}"


def _macs(layer: Report) -> str:
    return "" if layer.get("macs") is None else f"{layer['macs']:,}"


def planned_words(report: Report) -> Words:
    """Those of a plan; `report`: what was done on the way."""
    plan = report["plan"]
    int8 = sum(layer["format"] != "float" for layer in plan["layers"])
    head = f"plan of {report['model'] or 'a model in memory'}, for {report['target']}"
    facts = [f"{int8} of {count(len(plan['layers']), 'layer')} in int8", _share(plan)]
    return Words(head, facts, _COLUMNS, list(_floats(plan))[:_ROWS])


def sensitivity_words(report: Report) -> Words:
    """Those of a ranking."""
    part = report["sensitivity"]
    ranked = part["decisions"]
    head = f"sensitivity of {report['model'] or 'a model in memory'}, for {report['target']}"
    facts = [
        f"{decibels(part['sqnr_about_mean_db'])} about the mean",
        f"{count(len(ranked), 'decision')} ranked on {count(part['samples'], 'sample')}",
    ]
    rows = [(", ".join(one["nodes"]), _signed(one["gain_db"])) for one in ranked[:_ROWS]]
    return Words(head, facts, ("left in float", "gains"), rows)


def _signed(level: object) -> str:
    return f"{level:+.2f} dB" if isinstance(level, int | float) else str(level)
