"""The scales that a model's pairs give to tensors, and those that its report knows beside them."""

from __future__ import annotations

import math

import numpy as np

from onnxq.analysis.reports import part_of
from onnxq.analysis.tensors import CodeGrid
from onnxq.documents.calibration import CalibrationPart
from onnxq.documents.repair import RepairPart
from onnxq.documents.report import Report
from onnxq.graph.model import Model
from onnxq.graph.view import Node

_NARROW = {"int4": (-8, 7), "uint4": (0, 15), "int2": (-2, 1), "uint2": (0, 3)}


def grids_of(model: Model, report: Report | None = None) -> dict[str, CodeGrid]:
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


def _scales(report: Report | None) -> dict[str, float]:
    """The scales of a report, but for those of tensors that repair moves or scales: theirs are others."""
    if report is None:
        return {}
    edited = {edit.tensor for edit in part_of(RepairPart, report.repair).edits}
    scales = part_of(CalibrationPart, report.calibration).scales
    return {name: scale for name, scale in scales.items() if 0 < scale < math.inf and name not in edited}
