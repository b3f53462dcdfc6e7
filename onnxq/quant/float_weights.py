"""Weights as floats with a Q/DQ pair, for compilers that take no constants of codes everywhere.

TensorRT 8.6.0 builds convolutions whose weights are int8 constants behind a DequantizeLinear. It stops at
such constants in transformers, and in one net of convolutions (measured on an H100, docs/verdict.md):

    graphOptimizer.cpp::convertMyelinWeightsToFp32
    Assertion params.weights.type() != DataType::kINT8 failed
    graphOptimizer.cpp::chooseHigherPrecision
    Assertion dt1 == DataType::kFLOAT || dt1 == DataType::kHALF failed

A float that is a code times its scale is rounded to the same code: nothing else changes but the file's size.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from onnxq.formats import INT8
from onnxq.graph.model import Model
from onnxq.graph.pairs import DEQUANTIZE, QUANTIZE
from onnxq.graph.view import Node, Tensor, main_nodes
from onnxq.graph.wiring import new_tensor, replace_input


def float_weights(model: Model) -> tuple[str, ...]:
    """Gives each int8 constant that is dequantized a QuantizeLinear of floats instead, in place.

    Returns:
        The names of the constants.
    """
    made: dict[tuple[Any, ...], Any] = {}
    names: dict[str, None] = {}
    for node in [*main_nodes(model)]:
        if node.op != DEQUANTIZE or node.domain or node.attr("block_size", 0):
            continue
        codes, scale, zero = node.operands(3)
        floats = _floats(node, codes, scale, zero)
        if floats is None:
            continue
        assert codes is not None
        assert scale is not None
        assert scale.constant is not None
        axis = node.attr("axis", 1)
        key = (*(one and one.name for one in (codes, scale, zero)), axis)
        if key not in made:
            weights = model.new_constant(f"{codes.name.removesuffix('_int8')}_float", floats)
            made[key] = new_tensor(model.unique(f"{codes.name}_quantized"), INT8.dtype, codes.shape)
            inputs = [weights, *node.node.inputs[1:]]
            attrs = {} if scale.constant.size == 1 else {"axis": axis}
            model.graph.nodes.append(
                model.new_node(QUANTIZE, inputs, [made[key]], attrs, name=f"{codes.name}_{QUANTIZE}")
            )
        replace_input(node.node, 0, made[key])
        names[codes.name] = None
    model.sort()
    return tuple(names)


def _floats(node: Node, codes: Tensor | None, scale: Tensor | None, zero: Tensor | None) -> np.ndarray | None:
    """What a DequantizeLinear of int8 constants gives; None of what is none, or is not rounded back to it."""
    read = [None if one is None else one.constant for one in (codes, scale, zero)]
    values, steps, offset = read
    if values is None or steps is None or values.dtype != INT8.dtype or zero is None or offset is None:
        return None
    if steps.size > 1:
        shape = [1] * values.ndim
        shape[node.attr("axis", 1)] = -1
        steps, offset = steps.reshape(shape), offset.reshape(shape)
    shifted = values.astype(steps.dtype) - offset.astype(steps.dtype)
    floats = (shifted * steps).astype(steps.dtype)
    with np.errstate(divide="ignore", invalid="ignore"):
        again = np.rint(floats / steps)
    return floats if np.array_equal(again, shifted) else None
