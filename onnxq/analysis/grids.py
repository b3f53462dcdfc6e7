"""The scales that a model's pairs give to tensors, and those that its report knows beside them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from onnxq.analysis.reports import number
from onnxq.analysis.tensors import CodeGrid
from onnxq.graph.model import Model
from onnxq.graph.view import Node

_NARROW = {"int4": (-8, 7), "uint4": (0, 15), "int2": (-2, 1), "uint2": (0, 3)}


def grids_of(model: Model, report: Mapping[str, Any] | None = None) -> dict[str, CodeGrid]:
    """How each tensor that a QuantizeLinear reads is quantized, casts looked through.

    Pairs with computed scales, or with one for each channel, have no single step and are left out.

    Args:
        model: the quantized model.
        report: what onnxq wrote beside it: the scales of tensors that have no pair of their own.
    """
    found: dict[str, CodeGrid] = {}
    for graph in model.graphs():
        for raw in graph.nodes:
            node = Node(model, raw)
            grid = _grid(node) if node.op == "QuantizeLinear" else None
            tensor = node.inputs[0] if grid is not None else None
            while grid is not None and tensor is not None and not tensor.is_constant:
                found.setdefault(tensor.name, grid)
                maker = tensor.producer
                tensor = maker.inputs[0] if maker is not None and maker.op == "Cast" else None
    for name, scale in _scales(report).items():
        found.setdefault(name, CodeGrid(scale, 0, -128, 127, "report"))
    return found


def _grid(node: Node) -> CodeGrid | None:
    _, scale, zero = node.operands(3)
    if scale is None or scale.constant is None or scale.constant.size != 1:
        return None
    step = float(scale.constant.reshape(-1)[0])
    if not (math.isfinite(step) and step > 0):
        return None
    ends = code_ends((zero if zero is not None else node.outputs[0]).dtype)
    if ends is None:
        return None
    offset = 0
    if zero is not None:
        if zero.constant is None or zero.constant.size != 1:
            return None
        offset = int(zero.constant.reshape(-1)[0])
    return CodeGrid(step, offset, *ends, node.name)


def code_ends(dtype: np.dtype | None) -> tuple[int, int] | None:
    """The least and the greatest code of a type; None where it is not known or none of short integers."""
    if dtype is None:
        return None
    if str(dtype) in _NARROW:
        return _NARROW[str(dtype)]
    if dtype.kind not in "iu" or dtype.itemsize > 2:
        return None
    ends = np.iinfo(dtype)
    return int(ends.min), int(ends.max)


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
