"""Weights as float constants that Q/DQ pairs quantize, for builders that take no constants of codes.

Measured with TensorRT 8.6.0 on an H100: with constants of codes in front of a DequantizeLinear its builder
ends in internal errors, of the MatMuls of transformers ("convertMyelinWeightsToFp32") and of a detector with
two like Convs on one tensor ("chooseHigherPrecision"); most convolutional nets build. With float weights and
pairs, as NVIDIA's tools of that time wrote them, the transformers build. The codes are the same, the file is
larger.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from onnxq.graph.model import Model
from onnxq.graph.pairs import QUANTIZE, Pair, PairIndex
from onnxq.graph.wiring import new_tensor, replace_input


def set_float_weights(model: Model) -> int:
    """Puts float constants and a QuantizeLinear in the place of constants of codes, in place.

    Args:
        model: a quantized model.

    Returns:
        How many constants; one whose floats would not give the same codes again stays.
    """
    made: dict[tuple[str, ...], Any] = {}
    for pair in PairIndex.of(model, bodies=False).dequantizing:
        floats, codes, node = _floats(pair), pair.codes, pair.node.node
        if floats is None or codes is None or pair.scales is None:
            continue
        key = (*(tensor.name for tensor in node.inputs), str(pair.axis))
        if key not in made:
            source = model.new_constant(f"{codes.name.removesuffix('_int8')}_float", floats)
            made[key] = new_tensor(model.unique(f"{codes.name}_quantized"), codes.dtype, floats.shape)
            attrs = {"axis": pair.axis} if pair.is_per_channel else {}
            inputs, name = [source, *node.inputs[1:3]], f"{codes.name}_{QUANTIZE}"
            if pair.zero is None:  # which is 0 of the codes' type in what dequantizes, and of uint8 here
                zeros = np.zeros(pair.scales.shape, codes.dtype)
                inputs[2:] = [model.new_constant(f"{codes.name}_zero_point", zeros)]
            model.add_nodes([model.new_node(QUANTIZE, inputs, [made[key]], attrs, name=name)])
        replace_input(node, 0, made[key])
    model.sort()
    return len(made)


def _floats(pair: Pair) -> np.ndarray | None:
    """What constant codes are dequantized to; None where there are none, or others would come out again."""
    codes = None if pair.codes is None else pair.codes.constant
    if codes is None or pair.ends is None or pair.block:  # int32 is that of biases
        return None
    grid = pair.grid(codes.shape)
    if grid is None or pair.scale is None:
        return None
    scales, zeros = grid
    with np.errstate(all="ignore"):
        floats = ((codes.astype(np.float32) - zeros) * scales).astype(pair.scale.dtype)
        back = np.rint(floats.astype(np.float32) / scales) + zeros
    return floats if np.array_equal(back, codes) else None
