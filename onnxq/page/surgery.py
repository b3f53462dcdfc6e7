"""What surgery changed, with proofs; what it nearly changed, and what it relies on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from onnxq.analysis.reports import OpenedReport, names, number, text
from onnxq.page.graphs import GraphDrawing, graph_drawing
from onnxq.page.words import figure
from onnxq.rewrite.sketch import SketchedNode

_FEW = 6
_DRAWN = 12
_SHOWN = 100


@dataclass(frozen=True, slots=True)
class ShownChange:
    """A change of a rule.

    Attributes:
        node: where.
        before: the nodes that went, the first few.
        more_before: how many more.
        after: the nodes that came.
        more_after: how many more.
        verdict: of the proof.
        proof: how it was proved.
        drawn: before and after as small graphs; None where the report has none.
    """

    node: str
    before: tuple[str, ...]
    more_before: int
    after: tuple[str, ...]
    more_after: int
    verdict: str
    proof: str
    drawn: tuple[GraphDrawing | None, GraphDrawing | None] | None


@dataclass(frozen=True, slots=True)
class RuleChanges:
    """All changes of a rule.

    Attributes:
        rule: the rule.
        stage: its stage.
        count: how many changes.
        proofs: how many have each verdict, in words.
        changes: the first of them.
        more: how many are not listed.
    """

    rule: str
    stage: str
    count: int
    proofs: str
    changes: tuple[ShownChange, ...]
    more: int


@dataclass(frozen=True, slots=True)
class SurgeryView:
    """The section.

    Attributes:
        before: how many nodes there were.
        after: how many there are.
        rules: what changed, rule by rule.
        rejected: changes that their proof rejected.
        whole: the whole model against the original, stage by stage.
        misses: where a rule nearly matched, and what was missing.
        assumptions: what was assumed.
        interface: inputs and outputs that are others now.
    """

    before: str
    after: str
    rules: tuple[RuleChanges, ...]
    rejected: tuple[str, ...]
    whole: tuple[str, ...]
    misses: tuple[str, ...]
    assumptions: tuple[str, ...]
    interface: tuple[str, ...]


def surgery_view(report: OpenedReport) -> SurgeryView | None:
    """What changed; None where nothing did and nothing nearly did."""
    by_rule: dict[str, list[Mapping[str, Any]]] = {}
    for change in report.entries("changes"):
        by_rule.setdefault(text(change.get("rule")), []).append(change)
    view = SurgeryView(
        before=text(report.at("nodes_before")),
        after=text(report.at("nodes")),
        rules=tuple(_rule(rule, changes) for rule, changes in by_rule.items()),
        rejected=tuple(
            f"{text(one.get('rule'))} on {text(one.get('node'))}: {text(_proof(one).get('why'))}"
            for one in report.entries("rejected")
        ),
        whole=tuple(map(_whole, report.entries("whole_model"))),
        misses=tuple(
            f"{text(one.get('node'))}: {text(one.get('reason'))} ({text(one.get('rule'))})"
            for one in report.entries("near_misses")
        ),
        assumptions=tuple(
            "{} {}={}: {}".format(*(text(one.get(key)) for key in ("flag", "name", "value", "why")))
            for one in report.entries("assumptions")
        ),
        interface=tuple(
            f"{text(one.get('tensor'))}: {text(one.get('was'))} → {text(one.get('now'))}"
            for one in report.entries("interface_changes")
        ),
    )
    found = (view.rules, view.rejected, view.misses, view.assumptions, view.interface)
    return view if any(found) else None


def _proof(change: Mapping[str, Any]) -> Mapping[str, Any]:
    proof = change.get("proof")
    return proof if isinstance(proof, Mapping) else {}


def _rule(rule: str, changes: list[Mapping[str, Any]]) -> RuleChanges:
    verdicts: dict[str, int] = {}
    for change in changes:
        verdict = text(_proof(change).get("verdict"))
        verdicts[verdict] = verdicts.get(verdict, 0) + 1
    return RuleChanges(
        rule=rule,
        stage=text(changes[0].get("stage")),
        count=len(changes),
        proofs=", ".join(f"{count} {verdict}" for verdict, count in verdicts.items()),
        changes=tuple(map(_change, changes[:_SHOWN])),
        more=max(0, len(changes) - _SHOWN),
    )


def _change(change: Mapping[str, Any]) -> ShownChange:
    proof, removed, added = _proof(change), names(change.get("removed")), names(change.get("added"))
    inputs = number(proof.get("inputs"))
    said = [f"checked on {inputs:.0f} inputs" if inputs else ""]
    most, bound = number(proof.get("max_abs")), number(proof.get("bound"))
    if most:
        said.append(f"max difference {figure(most)}" + (f" of {figure(bound)} allowed" if bound else ""))
    said.append(text(proof.get("why")))
    return ShownChange(
        node=text(change.get("node")),
        before=removed[:_FEW],
        more_before=max(0, len(removed) - _FEW),
        after=added[:_FEW],
        more_after=max(0, len(added) - _FEW),
        verdict=text(proof.get("verdict")),
        proof=", ".join(part for part in said if part),
        drawn=_drawn(change.get("sketch")),
    )


def _drawn(sketch: Any) -> tuple[GraphDrawing | None, GraphDrawing | None] | None:
    if not isinstance(sketch, Mapping):
        return None
    before, after = (graph_drawing(_nodes(sketch.get(key))) for key in ("before", "after"))
    return (before, after) if before is not None or after is not None else None


def _nodes(listed: Any) -> list[SketchedNode]:
    found = [one for one in listed if isinstance(one, Mapping)] if isinstance(listed, list) else []
    return [
        SketchedNode(
            text(one.get("name")), text(one.get("op")), names(one.get("inputs")), names(one.get("outputs"))
        )
        for one in found[:_DRAWN]
    ]


def _whole(one: Mapping[str, Any]) -> str:
    most = number(one.get("max_abs"))
    parts = [text(one.get("verdict")), f"max difference {figure(most)}" if most else "", text(one.get("why"))]
    return f"after {text(one.get('stage'))}: {', '.join(part for part in parts if part)}"
