"""The weights of a model's layers, against a quantized model or what int8 would make of them."""

from __future__ import annotations

from collections.abc import Sequence

from onnxq.analysis.choosing_rows import wanted_rows
from onnxq.analysis.weights import WeightTable, weight_rows
from onnxq.base.errors import UserError
from onnxq.base.progress import Observer, told
from onnxq.graph.load import ModelSource
from onnxq.graph.model import Model
from onnxq.options.flag_words import tells_keywords

__all__ = ["weights"]


@tells_keywords
def weights(
    model: ModelSource,
    against: ModelSource | None = None,
    *,
    channels: bool = True,
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
        opened, other, channels=channels, progress=lambda done, total: tell("weights", done, total)
    )
    if not rows and not left:
        raise UserError(
            "the model has no layer with constant weights",
            hint="Conv, ConvTranspose, Gemm and MatMul are looked at",
        )
    kept = wanted_rows(rows, lambda row: (row.layer, row.weight), lambda row: row.op, match, ops)
    names = [None if one is None else "" if one.path is None else str(one.path) for one in (opened, other)]
    return WeightTable("weights", 1, names[0] or "", names[1] or "", compared, tuple(kept), tuple(left))
