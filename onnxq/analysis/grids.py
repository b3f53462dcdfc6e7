"""The scales that a model's pairs give to tensors, and those that its report knows beside them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from onnxq.analysis.reports import number
from onnxq.analysis.tensors import CodeGrid
from onnxq.graph.model import Model
from onnxq.graph.pairs import Pair, PairIndex


def grids_of(model: Model, report: Mapping[str, Any] | None = None) -> dict[str, CodeGrid]:
    """How each tensor that a QuantizeLinear reads is quantized, casts looked through.

    Pairs with computed scales, or with one for each channel, have no single step and are left out.

    Args:
        model: the quantized model.
        report: what onnxq wrote beside it: the scales of tensors that have no pair of their own.
    """
    found: dict[str, CodeGrid] = {}
    for pair in PairIndex.of(model).quantizing:
        grid, tensor = _grid(pair), pair.source
        while grid is not None and tensor is not None and not tensor.is_constant:
            found.setdefault(tensor.name, grid)
            maker = tensor.producer
            tensor = maker.inputs[0] if maker is not None and maker.op == "Cast" else None
    for name, scale in _scales(report).items():
        found.setdefault(name, CodeGrid(scale, 0, -128, 127, "report"))
    return found


def _grid(pair: Pair) -> CodeGrid | None:
    scales, ends, zero = pair.scales, pair.ends, pair.zero
    if scales is None or scales.size != 1 or ends is None:
        return None
    step, offset = float(scales.reshape(-1)[0]), 0
    if not (math.isfinite(step) and step > 0):
        return None
    if zero is not None:
        if zero.constant is None or zero.constant.size != 1:
            return None
        offset = int(zero.constant.reshape(-1)[0])
    return CodeGrid(step, offset, *ends, pair.node.name)


def _scales(report: Mapping[str, Any] | None) -> dict[str, float]:
    part = report.get("calibration") if isinstance(report, Mapping) else None
    scales = part.get("scales") if isinstance(part, Mapping) else None
    if report is None or not isinstance(scales, Mapping):
        return {}
    edited = _edited(report)
    return {
        str(name): scale
        for name, given in scales.items()
        if (scale := number(given)) is not None and 0 < scale < math.inf and name not in edited
    }


def _edited(report: Mapping[str, Any]) -> set[str]:
    """The tensors that repair moves or scales: what the float model has is under other scales."""
    repair = report.get("repair")
    edits = repair.get("edits") if isinstance(repair, Mapping) else None
    known = edits if isinstance(edits, list) else []
    return {str(edit.get("tensor")) for edit in known if isinstance(edit, Mapping)}
