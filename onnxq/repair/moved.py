"""What edits make of the statistics of a model's activations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction

import numpy as np

from onnxq.calib.stats import Stats, TensorStats
from onnxq.graph.model import Model
from onnxq.graph.view import Node
from onnxq.quant.draft.edits import ChannelMap, FloatEdit
from onnxq.repair.lattice import Lattice

_UNITS = 2**149
"""In a value: units of the sums in `TensorStats`."""


def moved(stats: Stats, maps: Mapping[str, ChannelMap], model: Model | None = None) -> Stats:
    """Statistics after edits.

    What a number scales and another one shifts, the same for all channels, is known as before. Of what else
    they change the ends alone are, which hold all values, and perhaps more.

    Args:
        stats: of the model before them.
        maps: what became of its tensors.
        model: the edited one, of whose new tensors the ends follow from what they are made of; None: there
            are none.
    """
    added = {
        name: _moved(stats.tensors[change.was or name], change)
        for name, change in maps.items()
        if (change.was or name) in stats.tensors and not change.wide
    }
    tensors = {**stats.tensors, **added}
    for node in model.nodes if model is not None else ():
        out, source = node.outputs[0] if node.outputs else None, node.inputs[0] if node.inputs else None
        if out is None or source is None or out.name in tensors or source.name not in tensors or node.domain:
            continue
        new = _made(tensors[source.name], node)
        if new is not None:
            tensors[out.name] = added[out.name] = new
    return replace(stats, tensors=tensors) if added else stats


def of_report(after: Stats, seen: Stats, edits: Sequence[FloatEdit]) -> tuple[Stats, dict[str, str]]:
    """The statistics that a report shows: those after edits, and where these are ends alone those before.

    Args:
        after: what `moved` gives, or what was seen of the edited model.
        seen: those before the edits.
        edits: the edits.

    Returns:
        The statistics, and by which edit the tensors of which they are of before are changed.
    """
    kinds = {edit.tensor: edit.kind for edit in edits}
    # what a lattice quantizes is made of its tensor, which stays as it is
    before = {edit.tensor: edit.kind for edit in edits if isinstance(edit, Lattice)}
    tensors = dict(after.tensors)
    for name, entry in seen.tensors.items():
        if name in tensors and _is_known(entry) and not _is_known(tensors[name]):
            tensors[name] = entry
            before[name] = kinds.get(name, "repair")
    return replace(after, tensors=tensors), {name: kind for name, kind in before.items() if name in tensors}


def _is_known(entry: TensorStats) -> bool:
    return entry.total is not None or entry.histogram is not None


def _made(first: TensorStats, node: Node) -> TensorStats | None:
    """What the nodes give that edits put in; None for others."""
    held = first.lows <= first.highs
    lows, highs = first.lows, first.highs
    if node.op == "Reshape":
        pass
    elif node.op == "Pad" and node.attr("mode", "constant") == "constant" and len(node.inputs) == 2:
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


def _moved(stats: TensorStats, change: ChannelMap) -> TensorStats:
    scale, offset = np.atleast_1d(change.scale), np.atleast_1d(change.offset)
    held = stats.lows <= stats.highs
    ends = np.stack([end[:, None] * scale + offset for end in (stats.lows, stats.highs)])
    lows = np.where(held, ends.min((0, 2)), stats.lows).astype(np.float32)
    highs = np.where(held, ends.max((0, 2)), stats.highs).astype(np.float32)
    ends_alone = TensorStats(lows, highs, stats.size, None, None)
    if change.scale.ndim or change.offset.ndim or change.index is not None:
        return ends_alone
    return _uniform(stats, ends_alone, Fraction(float(change.scale)), Fraction(float(change.offset)))


def _uniform(stats: TensorStats, ends: TensorStats, scale: Fraction, offset: Fraction) -> TensorStats:
    """Statistics of `values * scale + offset`; the ends alone where magnitudes do not tell the values."""
    below, above = bool(np.all(stats.highs <= 0)), bool(np.all(stats.lows >= 0))
    if stats.total is None or stats.squares is None or (offset and not (below or above)):
        return ends
    sign = -1 if below and not above else 1
    drawn = stats.histogram.affine(sign * float(scale), float(offset)) if stats.histogram else None
    return replace(
        ends,
        total=round(scale * stats.total + offset * stats.size * _UNITS),
        squares=round(
            scale**2 * stats.squares + 2 * scale * offset * stats.total + offset**2 * stats.size * _UNITS
        ),
        step=stats.step,
        spread=stats.spread,
        histogram=drawn,
    )
