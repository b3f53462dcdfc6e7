"""The scales that a model's pairs give to tensors, and those that its report knows beside them."""

from __future__ import annotations

import math

import numpy as np

from onnxq.analysis.reports import part_of
from onnxq.analysis.tensors import CodeGrid
from onnxq.documents.calibration import CalibrationPart
from onnxq.documents.plan import PlanPart
from onnxq.documents.repair import RepairPart
from onnxq.documents.report import Report
from onnxq.formats import FORMATS, INT8, NumberFormat
from onnxq.graph.model import Model
from onnxq.graph.pairs import Pair, PairIndex


def grids_of(model: Model, report: Report | None = None) -> dict[str, CodeGrid]:
    """How each tensor that a QuantizeLinear reads is quantized, casts looked through.

    Pairs with computed scales, or with one for each channel, have no single step and are left out.

    Args:
        model: the quantized model.
        report: what onnxq wrote beside it: the scales of tensors that have no pair of their own.
    """
    grids: dict[str, CodeGrid] = {}
    for pair in PairIndex.of(model).quantizing:
        grid, tensor = _grid(pair), pair.source
        while grid is not None and tensor is not None and not tensor.is_constant:
            grids.setdefault(tensor.name, grid)
            maker = tensor.producer
            tensor = maker.inputs[0] if maker is not None and maker.op == "Cast" else None
    formats = _formats(report)
    for name, scale in _scales(report).items():
        assert report is not None  # it has scales
        grids.setdefault(name, _of_format(scale, 0, FORMATS[formats.get(name, INT8.name)]))
    return grids


def _formats(report: Report | None) -> dict[str, str]:
    """The number format of each tensor with a scale, by what onnxq wrote."""
    plan = part_of(PlanPart, None if report is None else report.plan)
    of_group = {site.group: site.format for site in plan.sites}
    return {name: of_group[one.id] for one in plan.groups if one.id in of_group for name in one.tensors}


def _grid(pair: Pair) -> CodeGrid | None:
    scales, format, zero = pair.scales, pair.format, pair.zero
    if scales is None or scales.size != 1 or format is None or (format.even and pair.ends is None):
        return None
    step, offset = float(scales.reshape(-1)[0]), 0
    if not (math.isfinite(step) and step > 0):
        return None
    if zero is not None:
        if zero.constant is None or zero.constant.size != 1:
            return None
        offset = int(zero.constant.reshape(-1)[0])
    return _of_format(step, offset, format)


def _of_format(scale: float, zero: int, format: NumberFormat) -> CodeGrid:
    reach = 0.0 if format.even else float(format.gaps(np.array(format.greatest))) / 2
    return CodeGrid(scale, zero, *format.ends, reach)


def _scales(report: Report | None) -> dict[str, float]:
    """The scales of a report, but for those of tensors that repair moves or scales: theirs are others."""
    if report is None:
        return {}
    edited = {edit.tensor for edit in part_of(RepairPart, report.repair).edits}
    scales = part_of(CalibrationPart, report.calibration).scales
    return {name: scale for name, scale in scales.items() if 0 < scale < math.inf and name not in edited}
