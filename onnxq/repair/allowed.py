"""Which edits are left where some layers may not be changed so."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace

from onnxq.graph.model import Model
from onnxq.graph.view import Node
from onnxq.quant.plan import QuantPlan
from onnxq.repair.found_edits import FoundEdits


def permitted(proposed: FoundEdits, model: Model, plan: QuantPlan, barred: Collection[str]) -> FoundEdits:
    """What is proposed, but for edits around layers that may not be changed so.

    Args:
        proposed: the edits.
        model: that they are of.
        plan: its plan.
        barred: the names of those layers.
    """
    if not barred:
        return proposed
    layers = {layer.node for layer in plan.layers}
    nodes = {raw.name: Node(model, raw) for raw in model.graph.nodes}
    out = {
        edit.tensor: "a [[layer]] says that it is not to be changed so"
        for edit in proposed.edits
        if not _around(nodes.values(), edit.tensor, layers).isdisjoint(barred)
    }
    edits = tuple(edit for edit in proposed.edits if edit.tensor not in out)
    return replace(proposed, edits=edits, skipped={**proposed.skipped, **out})


def _around(nodes: Iterable[Node], tensor: str, layers: set[str]) -> set[str]:
    """The layers around a tensor: those that make it, and those that read it, with others between them."""
    makers: dict[str, Node] = {}
    readers: dict[str, list[Node]] = {}
    for node in nodes:
        for out in node.outputs:
            if out is not None:
                makers[out.name] = node
        for read in node.inputs:
            if read is not None and not read.is_constant:
                readers.setdefault(read.name, []).append(node)
    around: set[str] = set()
    for back in (True, False):
        todo, seen = [tensor], {tensor}
        while todo:
            name = todo.pop()
            ends = [makers[name]] if back and name in makers else [] if back else readers.get(name, [])
            for node in ends:
                if node.name in layers:
                    around.add(node.name)
                    continue
                beyond = node.inputs if back else node.outputs
                names = {t.name for t in beyond if t is not None and not t.is_constant} - seen
                seen |= names
                todo.extend(names)
    return around
