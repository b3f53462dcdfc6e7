"""The Q/DQ pairs that a model holds."""

from __future__ import annotations

from onnxq.graph.view import Tensor

# A dequantized tensor that these only move is dequantized still.
_MOVES = ("Transpose", "Reshape", "Identity")


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


def own_pair(tensor: Tensor) -> Tensor | None:
    """The dequantized tensor, where a pair of the model quantizes this one for somebody."""
    for user in tensor.users:
        if user.op == "QuantizeLinear" and user.inputs[0] == tensor:
            for reader in user.outputs[0].users:
                if reader.op == "DequantizeLinear":
                    return reader.outputs[0]
    return None


def _codes(tensor: Tensor) -> Tensor | None:
    """What the DequantizeLinear reads that a tensor comes from."""
    producer = tensor.producer
    while producer is not None and producer.op in _MOVES and not producer.domain:
        source = producer.inputs[0]
        producer = source.producer if source is not None else None
    return producer.inputs[0] if producer is not None and producer.op == "DequantizeLinear" else None
