"""Slices of a tensor that meet in a Concat: their pairs get a scale that is one step from the tensor's own.

A cost volume is a Concat of many slices of one tensor, each shifted further. Where all of its pairs have one
scale, TensorRT-RTX 1.7.1 takes out those in between, and moves int8 in a kernel for each slice with a Pad in
front; where the slices' pairs have another scale, there is something to compute, and one kernel does it all.
(The body in half precision: 68 kernels and 88.3 MB become 45 and 86.0 in a stereo net, 25 and 28.3 become 10
and 26.8 in a volume of 16 shifts.) Three slices are enough for that; other Concats of slices (focus layers,
patch merging, rolls, shifts in time, windows) have as many kernels either way, and no more bytes.

The other scale is the next float32: a code divided by it is rounded to the same code, so that what reads the
Concat reads the same codes of the same scale. So only slices are taken whose values are all quantized with
the tensor's scale again before anything but a movement reads them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from onnxq.base.grouped import reached
from onnxq.graph.model import Model
from onnxq.graph.moves import MOVES
from onnxq.graph.pairs import DEQUANTIZE, QDQ, QUANTIZE
from onnxq.graph.view import Node, Tensor
from onnxq.graph.wiring import replace_input

_MOVED = (*MOVES, "Pad", "Cast", *QDQ)
_FORWARD = (*MOVES, "Concat", "Pad", "Cast")


def set_slices_apart(model: Model, least: int) -> dict[str, str]:
    """Gives the pairs of slices that meet in a Concat the next scale, in place.

    Args:
        model: a quantized model, before it is converted to half precision.
        least: of how many slices of one tensor in one Concat; 0: of none.

    Returns:
        The names of the slices' tensors, each with the name of the Concat.
    """
    if not least:
        return {}
    met: dict[tuple[Tensor, Node], list[tuple[Tensor, Node]]] = {}
    for node in model.nodes:
        if node.op != "Slice" or node.domain or node.inputs[0] is None:
            continue
        source, pair = _source(node.inputs[0]), _pair(node.outputs[0])
        concat = None if pair is None else _meets(pair)
        if pair is not None and concat is not None:
            met.setdefault((source, concat), []).append((node.outputs[0], pair))
    apart: dict[str, str] = {}
    scales: dict[str, Any] = {}
    for (_, concat), slices in met.items():
        if len(slices) < least:
            continue
        for tensor, pair in slices:
            scale = pair.inputs[1]
            assert scale is not None
            assert scale.constant is not None
            if scale.name not in scales:
                up = np.nextafter(scale.constant, np.float32(np.inf))
                scales[scale.name] = model.new_constant(f"{scale.name}_apart", up)
            for node in (pair, *pair.outputs[0].users):
                replace_input(node.node, 1, scales[scale.name])
            apart[tensor.name] = concat.name
    return apart


def _source(tensor: Tensor) -> Tensor:
    """What a tensor is moved from, through the pairs on the way."""
    while (maker := tensor.producer) is not None and maker.op in _MOVED and not maker.domain:
        before = maker.inputs[0]
        if before is None:
            break
        tensor = before
    return tensor


def _pair(tensor: Tensor) -> Node | None:
    """The QuantizeLinear of one float32 scale through which all read a tensor; None: there is none."""
    quantize: Node | None = None
    while quantize is None:
        users = tensor.users
        if len(users) != 1 or tensor.is_output or users[0].op not in (QUANTIZE, "Cast"):
            return None
        if users[0].op == QUANTIZE:
            quantize = users[0]
        tensor = users[0].outputs[0]
    scale = quantize.inputs[1]
    values = None if scale is None else scale.constant
    if values is None or values.size != 1 or values.dtype != np.float32 or tensor.is_output:
        return None
    same = all(user.op == DEQUANTIZE and user.inputs[1] == scale for user in tensor.users)
    return quantize if same and tensor.users else None


def _meets(pair: Node) -> Node | None:
    """The last Concat that reads a pair, where all its values are quantized with the pair's scale behind."""

    def again(user: Node) -> bool:
        return user.op == QUANTIZE and user.inputs[1] == pair.inputs[1]

    def onward(tensor: Tensor) -> list[Tensor]:
        return [out for user in tensor.users for out in (_behind(user) if again(user) else user.outputs)]

    concat: Node | None = None
    for tensor in reached((out for user in pair.outputs[0].users for out in user.outputs), onward):
        if tensor.is_output or not tensor.users:
            return None
        for user in tensor.users:
            if not again(user):
                if user.domain or user.op not in _FORWARD:
                    return None
                concat = user if user.op == "Concat" else concat
    return concat


def _behind(quantize: Node) -> Iterator[Tensor]:
    """What only movements read of a pair: it may be on its way to another Concat."""
    for dequantize in quantize.outputs[0].users:
        for out in dequantize.outputs:
            if out.users and all(user.op in _FORWARD and not user.domain for user in out.users):
                yield out
