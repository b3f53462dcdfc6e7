"""What surgery changed, with proofs; what it nearly changed, and what it relies on."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from onnxq.analysis.reports import number
from onnxq.base.grouped import grouped
from onnxq.documents.report import Report
from onnxq.page.words import figure
from onnxq.rewrite.change_sketch import ChangeSketch, SketchedNode
from onnxq.rewrite.changes import Change
from onnxq.rewrite.whole import WholeProof

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


def surgery_view(report: Report) -> SurgeryView | None:
    """What changed; None where nothing did and nothing nearly did."""
    by_rule = grouped((change.rule, change) for change in report.changes)
    view = SurgeryView(
        before=_count(report.nodes_before),
        after=_count(report.nodes),
        rules=tuple(_rule(rule, changes) for rule, changes in by_rule.items()),
        rejected=tuple(f"{one.rule} on {one.node}: {one.proof.why}" for one in report.rejected),
        whole=tuple(map(_whole, report.whole_model)),
        misses=tuple(f"{one.node}: {one.reason} ({one.rule})" for one in report.near_misses),
        assumptions=tuple(
            f"{one.flag} {one.name}={_value(one.value)}: {one.why}" for one in report.assumptions
        ),
        interface=tuple(f"{one.tensor}: {one.was} → {one.now}" for one in report.interface_changes),
    )
    parts = (view.rules, view.rejected, view.misses, view.assumptions, view.interface)
    return view if any(parts) else None


def _count(nodes: int | None) -> str:
    return "" if nodes is None else str(nodes)


def _value(value: object) -> str:
    """A stated value as it is in the report: a text, else JSON."""
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _rule(rule: str, changes: Sequence[Change]) -> RuleChanges:
    verdicts = Counter(change.proof.verdict for change in changes)
    return RuleChanges(
        rule=rule,
        stage=changes[0].stage,
        count=len(changes),
        proofs=", ".join(f"{count} {verdict}" for verdict, count in verdicts.items()),
        changes=tuple(map(_change, changes[:_SHOWN])),
        more=max(0, len(changes) - _SHOWN),
    )


def _change(change: Change) -> ShownChange:
    proof, removed, added = change.proof, change.removed, change.added
    inputs = number(proof.inputs)
    said = [f"checked on {inputs:.0f} inputs" if inputs else ""]
    most, bound = number(proof.max_abs), number(proof.bound)
    if most:
        said.append(f"max difference {figure(most)}" + (f" of {figure(bound)} allowed" if bound else ""))
    said.append(proof.why)
    return ShownChange(
        node=change.node,
        before=removed[:_FEW],
        more_before=max(0, len(removed) - _FEW),
        after=added[:_FEW],
        more_after=max(0, len(added) - _FEW),
        verdict=proof.verdict,
        proof=", ".join(part for part in said if part),
        drawn=None if change.sketch is None else _drawn(change.sketch),
    )


def _drawn(sketch: ChangeSketch) -> tuple[GraphDrawing | None, GraphDrawing | None] | None:
    before, after = (graph_drawing(nodes[:_DRAWN]) for nodes in (sketch.before, sketch.after))
    return (before, after) if before is not None or after is not None else None


def _whole(one: WholeProof) -> str:
    most = number(one.max_abs)
    parts = [one.verdict, f"max difference {figure(most)}" if most else "", one.why]
    return f"after {one.stage}: {', '.join(part for part in parts if part)}"


# Small graphs as drawings: nodes in layers, what they read above them, edges between.

_WIDE, _HIGH, _GAP_X, _GAP_Y = 150, 36, 14, 26


@dataclass(frozen=True, slots=True)
class DrawnBox:
    """A box.

    Attributes:
        x: its left side.
        y: its upper side.
        title: the operator, "" for a tensor from or to elsewhere.
        label: the name.
    """

    x: int
    y: int
    title: str
    label: str


@dataclass(frozen=True, slots=True)
class GraphDrawing:
    """A graph, drawn.

    Attributes:
        width: of the view box.
        height: of the view box.
        boxes: nodes, and tensors that come from elsewhere or go there.
        edges: the `d` of an SVG path each.
        box: width and height of each box.
    """

    width: int
    height: int
    boxes: tuple[DrawnBox, ...]
    edges: tuple[str, ...]
    box: tuple[int, int] = (_WIDE, _HIGH)


def graph_drawing(nodes: Sequence[SketchedNode]) -> GraphDrawing | None:
    """Nodes from top to bottom, each below what it reads; None for no nodes."""
    if not nodes:
        return None
    maker = {name: place for place, node in enumerate(nodes) for name in node.outputs}
    read = {name for node in nodes for name in node.inputs}
    sources = tuple(dict.fromkeys(name for node in nodes for name in node.inputs if name not in maker))
    ends = tuple(name for node in nodes for name in node.outputs if name not in read)
    depth = _depths(nodes, maker)
    last = max(depth) + 1
    layers: list[list[tuple[str, int, str]]] = [[] for _ in range(last + 2)]
    layers[0] = [("in", at, name) for at, name in enumerate(sources)]
    for place in range(len(nodes)):
        layers[depth[place] + 1].append(("node", place, nodes[place].name))
    layers[-1] = [("out", at, name) for at, name in enumerate(ends)]
    layers = [layer for layer in layers if layer]
    widest = max(map(len, layers))
    width = widest * (_WIDE + _GAP_X) + _GAP_X
    spots: dict[tuple[str, int], tuple[int, int]] = {}
    boxes = []
    for row, layer in enumerate(layers):
        left = (width - len(layer) * (_WIDE + _GAP_X) + _GAP_X) // 2
        for column, (kind, place, name) in enumerate(layer):
            x, y = left + column * (_WIDE + _GAP_X), 6 + row * (_HIGH + _GAP_Y)
            spots[kind, place] = (x, y)
            boxes.append(DrawnBox(x, y, nodes[place].op if kind == "node" else "", name))
    edges = []
    for place, node in enumerate(nodes):
        for name in dict.fromkeys(node.inputs):
            start = ("node", maker[name]) if name in maker else ("in", sources.index(name))
            edges.append(_edge(spots[start], spots["node", place]))
        edges += [_edge(spots["node", place], spots["out", ends.index(n)]) for n in node.outputs if n in ends]
    return GraphDrawing(width, 12 + len(layers) * (_HIGH + _GAP_Y) - _GAP_Y, tuple(boxes), tuple(edges))


def _depths(nodes: Sequence[SketchedNode], maker: dict[str, int]) -> list[int]:
    """How many nodes stand above each at least, by the longest way; what is no graph ends all the same."""
    depth = [0] * len(nodes)
    for _ in nodes:
        for place, node in enumerate(nodes):
            above = [depth[maker[n]] + 1 for n in node.inputs if n in maker and maker[n] != place]
            depth[place] = min(max(above, default=0), len(nodes) - 1)
    return depth


def _edge(start: tuple[int, int], end: tuple[int, int]) -> str:
    x1, y1, x2, y2 = start[0] + _WIDE // 2, start[1] + _HIGH, end[0] + _WIDE // 2, end[1]
    middle = (y1 + y2) // 2
    return f"M{x1} {y1}C{x1} {middle} {x2} {middle} {x2} {y2}"
