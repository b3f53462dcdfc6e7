"""The weights of a model's layers, against a quantized model or what int8 would make of them."""

from __future__ import annotations

import os
from collections.abc import Sequence

from onnxq.analysis.asked_rows import wanted_rows
from onnxq.analysis.figures import Metric
from onnxq.analysis.octaves import WhichChannels
from onnxq.analysis.weights import WeightTable, weight_rows
from onnxq.base.errors import UserError
from onnxq.base.progress import Observer, told
from onnxq.graph.load import ModelSource
from onnxq.graph.model import Model
from onnxq.graph.shared import shared_weights
from onnxq.inspection.analyzing import own_metric
from onnxq.options.flag_words import tells_keywords

__all__ = ["weights"]


@tells_keywords
def weights(
    model: ModelSource,
    against: ModelSource | None = None,
    *,
    channels: bool = True,
    histograms: WhichChannels = "worst",
    metric: str | os.PathLike[str] | Metric | None = None,
    match: Sequence[str] = (),
    ops: Sequence[str] = (),
    observe: Observer | None = None,
) -> WeightTable:
    """The weights of layers and channels, float against quantized.

    Args:
        model: a path or a ModelProto, which is not modified. Float weights without `against` are compared
            with what int8 would make of them; of quantized ones the codes are looked at.
        against: the quantized model.
        channels: whether channels have rows, too.
        histograms: of which channels there are histograms: of those that are outliers, or of all.
        metric: the user's own figure of a layer. It is a function of its weights and the quantized ones,
            float64 arrays of one shape, which returns a number. Or it is `FILE.py:FUNCTION`, whose Python is
            run.
        match: patterns: only layers of which the node's or the tensor's name fits one.
        ops: only layers of these operators.
        observe: is told the steps.

    Raises:
        UserError: a model cannot be read; there is no layer with constant weights, no such name or operator.
    """
    tell = told(observe)
    tell("load", None, None)
    opened, other = Model.open(model), None if against is None else Model.open(against)
    tell("weights", None, None)
    compared, rows, left = weight_rows(
        opened, other, channels=channels, histograms=histograms, metric=own_metric(metric),
        progress=lambda done, total: tell("weights", done, total),
    )  # fmt: skip
    if not rows and not left:
        raise UserError(
            "the model has no layer with constant weights",
            hint="Conv, ConvTranspose, Gemm and MatMul are looked at",
        )
    kept = wanted_rows(rows, lambda row: (row.layer, row.weight), lambda row: row.op, match, ops)
    names = [None if one is None else "" if one.path is None else str(one.path) for one in (opened, other)]
    return WeightTable(
        "weights",
        2,
        names[0] or "",
        names[1] or "",
        compared,
        tuple(kept),
        tuple(left),
        shared_weights(opened),
    )
