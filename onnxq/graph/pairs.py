"""The Q/DQ pairs that a model holds."""

from __future__ import annotations

from collections.abc import Container

import numpy as np

from onnxq.graph.moves import REARRANGES
from onnxq.graph.types import is_float
from onnxq.graph.view import Node, Tensor

# A dequantized tensor that these move or cast is dequantized still.
_MOVES = (*REARRANGES, "Cast")


def dequantizer(tensor: Tensor) -> Node | None:
    """The DequantizeLinear that a tensor comes from, moved or cast at most; None where there is none."""
    producer = tensor.producer
    while producer is not None and producer.op in _MOVES and not producer.domain:
        source = producer.inputs[0]
        producer = source.producer if source is not None else None
    return producer if producer is not None and producer.op == "DequantizeLinear" else None


def is_dequantized(tensor: Tensor) -> bool:
    """Whether a tensor is what a DequantizeLinear gives."""
    return _codes(tensor) is not None


def is_quantized_constant(tensor: Tensor) -> bool:
    """Whether a tensor is dequantized from a constant: of codes, or of floats that are quantized."""
    codes = _codes(tensor)
    if codes is None or codes.is_constant:
        return codes is not None
    maker = codes.producer
    if maker is None or maker.op != "QuantizeLinear" or maker.inputs[0] is None:
        return False
    return maker.inputs[0].is_constant


def other_codes(tensor: Tensor) -> str:
    """What codes a tensor is dequantized from, where a product in int8 cannot read them; "" else.

    It reads int8 and uint8, with one scale or one a channel.
    """
    node = dequantizer(tensor)
    codes = node.inputs[0] if node is not None else None
    if node is None or codes is None or codes.dtype is None:
        return ""
    block = node.attr("block_size", 0)
    if codes.dtype.name in ("int8", "uint8") and not block:
        return ""
    return f"{codes.dtype.name} in blocks of {block}" if block else codes.dtype.name


def own_pair(tensor: Tensor, nodes: Container[Node]) -> Tensor | None:
    """The dequantized tensor, where a pair of the model quantizes this one for somebody.

    In a model that is not float32 there may be casts around the pair. A pair whose scales are computed,
    or differ between the two nodes, serves nobody else.

    Args:
        tensor: a tensor.
        nodes: the nodes of its graph: a pair in a subgraph body is not for readers outside.
    """
    for quantize in _users(tensor, "QuantizeLinear"):
        for dequantize in _users(quantize.outputs[0], "DequantizeLinear"):
            if not _is_symmetric(quantize, dequantize):
                continue
            out = dequantize.outputs[0]
            casts = [user.outputs[0] for user in out.users if user.op == "Cast"]
            for found in (out, *casts):
                if found.dtype == tensor.dtype and found.producer in nodes:
                    return found
    return None


def _users(tensor: Tensor, op: str) -> list[Node]:
    """The nodes of an operator that read a tensor first, itself or cast."""
    cast = [u.outputs[0] for u in tensor.users if u.op == "Cast" and is_float(u.outputs[0].dtype)]
    return [user for one in (tensor, *cast) for user in one.users if user.op == op and user.inputs[0] == one]


def _is_symmetric(quantize: Node, dequantize: Node) -> bool:
    """Whether the one node undoes the other: the same constant scales and zero points, along one axis."""
    if quantize.attr("axis", 1) != dequantize.attr("axis", 1):
        return False
    for one, other in zip(quantize.operands(3)[1:], dequantize.operands(3)[1:], strict=True):
        if one is None and other is None:
            continue
        if one is None or other is None or one.constant is None or other.constant is None:
            return False
        if not np.array_equal(one.constant, other.constant):
            return False
    return True


def _codes(tensor: Tensor) -> Tensor | None:
    """What the DequantizeLinear reads that a tensor comes from."""
    node = dequantizer(tensor)
    return node.inputs[0] if node is not None else None
