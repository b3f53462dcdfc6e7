"""Mistakes in Q/DQ pairs that a model already holds, as TensorRT sees them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from onnxq.graph.layers import WEIGHTED
from onnxq.graph.model import Model
from onnxq.graph.pairs import is_dequantized, is_quantized_constant
from onnxq.graph.view import Node

_QDQ = ("QuantizeLinear", "DequantizeLinear")


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that the target rejects or computes otherwise than the model says.

    Attributes:
        node: the node's name.
        op: its operator.
        reason: what is wrong.
        advice: what to do.
    """

    node: str
    op: str
    reason: str
    advice: str


def lint_qdq(model: Model) -> list[Finding]:
    """Finds Q/DQ pairs that TensorRT rejects, reads otherwise, or cannot fuse."""
    findings: list[Finding] = []
    for graph in model.graphs():
        for raw in graph.nodes:
            node = Node(model, raw)
            if node.op in _QDQ and node.domain in ("", "com.microsoft"):
                findings += [Finding(node.name, node.op, *text) for text in _pair(node)]
            elif node.op in WEIGHTED and not node.domain:
                findings += [Finding(node.name, node.op, *text) for text in _layer(node)]
    return findings


def lint_pairs(model: Model) -> list[Finding]:
    """Those of them that are about the Q/DQ nodes themselves: TensorRT refuses or misreads them."""
    return [finding for finding in lint_qdq(model) if finding.op in _QDQ]


def _pair(node: Node) -> list[tuple[str, str]]:
    source, scale, zero = node.operands(3)
    found: list[tuple[str, str]] = []
    if node.op == "DequantizeLinear" and source is not None and source.dtype == np.int32:
        found.append(
            (
                "it dequantizes int32: TensorRT rejects quantized biases",
                "keep biases in float (onnxruntime: QuantizeBias=False)",
            )
        )
    if node.op == "QuantizeLinear" and zero is None and node.attr("output_dtype", 0) == 0:
        found.append(
            (
                "it has no zero point: that is uint8 in ONNX, TensorRT builds int8",
                "give an explicit int8 zero point of 0",
            )
        )
    codes = zero.dtype if zero is not None else None
    if codes is not None and codes.kind == "u" and codes.itemsize == 1:
        found.append(
            (
                "its zero point is uint8: TensorRT treats the values as int8, above 127 they saturate",
                "quantize symmetrically to int8",
            )
        )
    elif codes is not None and codes.itemsize == 2 and codes.kind in "iu":
        found.append((f"{codes} is no quantized type of TensorRT", "quantize to int8"))
    if zero is not None and zero.is_constant:
        values = np.asarray(zero.constant).astype(np.float32)
        if np.any(values != 0):
            found.append(("its zero point is not 0: TensorRT is symmetric", "quantize symmetrically"))
    if scale is not None and scale.shape == (1,) and not node.attr("block_size", 0):
        found.append(
            (
                "its scale has the shape [1]: to TensorRT that is one a channel; what reads it runs in float",
                "give a scalar, as onnxq sanitize does",
            )
        )
    if scale is not None and scale.is_constant:
        if not np.all(np.asarray(scale.constant, np.float64) > 0):
            found.append(("a scale is not positive", "calibrate again; a dead channel may have scale 1"))
    elif scale is not None:
        found.append(("its scale is computed: the compiler fails on that", "use constant scales"))
    return found


def _layer(node: Node) -> list[tuple[str, str]]:
    data, weight = node.operands(2)
    if data is None or weight is None:
        return []
    one, other = is_dequantized(data), is_dequantized(weight)
    if other and not one and is_quantized_constant(weight):
        return [
            (
                "its weights are quantized, its input is not: they are dequantized at every inference",
                "quantize the input too, or neither",
            )
        ]
    if one and weight.is_constant and not other:
        return [
            (
                "its input is quantized, its weights are not: it runs in float after quantizing",
                "quantize the weights too, or neither",
            )
        ]
    return []
