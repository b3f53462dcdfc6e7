"""What edits make of the statistics of a model's activations."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from onnxq.calib.stats import Stats, TensorStats
from onnxq.graph.model import Model
from onnxq.graph.view import Node
from onnxq.repair.affine import ChannelMap


def moved(stats: Stats, maps: Mapping[str, ChannelMap], model: Model | None = None) -> Stats:
    """Statistics after edits: of what they change the ends alone, which hold all values, and perhaps more.

    Args:
        stats: of the model before them.
        maps: what became of its tensors.
        model: the edited one, of whose new tensors the ends follow from what they are made of; None: there
            are none.
    """
    found = {
        name: _moved(stats.tensors[change.was or name], change)
        for name, change in maps.items()
        if (change.was or name) in stats.tensors and not change.wide
    }
    known = {**stats.tensors, **found}
    for raw in model.graph.nodes if model is not None else ():
        node = Node(model, raw)  # type: ignore[arg-type]
        out, source = node.outputs[0] if node.outputs else None, node.inputs[0] if node.inputs else None
        if out is None or source is None or out.name in known or source.name not in known or node.domain:
            continue
        new = _made(known[source.name], node)
        if new is not None:
            known[out.name] = found[out.name] = new
    return replace(stats, tensors=known) if found else stats


def _made(first: TensorStats, node: Node) -> TensorStats | None:
    """What the nodes give that edits put in; None for others."""
    held = first.lows <= first.highs
    lows, highs = first.lows, first.highs
    if node.op == "Pad" and node.attr("mode", "constant") == "constant" and len(node.inputs) == 2:
        lows, highs = np.minimum(lows, 0), np.maximum(highs, 0)
    elif node.op in ("Add", "Sub", "Mul") and node.inputs[1] is not None:
        values = node.inputs[1].constant
        if values is None or not values.size:
            return None
        wide = values.astype(np.float64).reshape(-1, 1)
        work = {"Add": np.add, "Sub": np.subtract, "Mul": np.multiply}[node.op]
        ends = np.concatenate([work(end.astype(np.float64), wide) for end in (lows, highs)])
        lows, highs = ends.min(0), ends.max(0)
    else:
        return None
    return TensorStats(
        np.where(held, lows, first.lows).astype(np.float32),
        np.where(held, highs, first.highs).astype(np.float32),
        first.size,
        None,
        None,
    )


def _moved(found: TensorStats, change: ChannelMap) -> TensorStats:
    scale, offset = np.atleast_1d(change.scale), np.atleast_1d(change.offset)
    held = found.lows <= found.highs
    ends = np.stack([end[:, None] * scale + offset for end in (found.lows, found.highs)])
    lows = np.where(held, ends.min((0, 2)), found.lows).astype(np.float32)
    highs = np.where(held, ends.max((0, 2)), found.highs).astype(np.float32)
    return TensorStats(lows, highs, found.size, None, None)
