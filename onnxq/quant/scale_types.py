"""One type of scales a layer.

NVIDIA's compiler does not build a product of two pairs whose scales differ in type. Whether it comes to that
depends on the order of the nodes (measured with TensorRT-RTX 1.7.1: a third of random nets of such pairs):

    CHECK_EQ(lhs_scale->type(), rhs_scale->type()) failed. type mismatch between matmul operand scales

So the float16 scales of a model's own pairs become float32 where they meet float32 ones, with a Cast behind.
It is the same number: codes times scale is exact in float32, and rounded once either way.
"""

from __future__ import annotations

import numpy as np

from onnxq.graph.layers import WEIGHTED
from onnxq.graph.model import Model
from onnxq.graph.pairs import pair_of
from onnxq.graph.types import elem_type_of, is_float
from onnxq.graph.view import Node
from onnxq.graph.wiring import new_tensor, replace_input, replace_output

_FLOAT = np.dtype(np.float32)


def unify_scale_types(model: Model) -> list[str]:
    """Gives the pairs of each layer of the main graph scales of one type.

    A pair of several layers carries its type on to the next.

    Returns:
        The names of the nodes that have float32 scales now.
    """
    layers = [node for node in model.nodes if node.op in WEIGHTED and not node.domain]
    changed: dict[Node, None] = {}
    while narrow := dict.fromkeys(node for layer in layers for node in _narrow(layer)):
        for node in narrow:
            _widen(model, node)
        changed |= narrow
    model.sort()
    return [node.name for node in changed]


def _narrow(layer: Node) -> list[Node]:
    """What dequantizes the operands of a layer by other scales than float32, where their types differ."""
    types: dict[Node, np.dtype | None] = {}
    for tensor in layer.inputs[:2]:
        pair = pair_of(tensor) if tensor is not None else None
        scale = pair.scale if pair is not None else None
        if pair is not None and scale is not None and scale.is_constant and is_float(scale.dtype):
            types[pair.node] = scale.dtype
    if len(set(types.values())) < 2:
        return []
    return [node for node, dtype in types.items() if dtype != _FLOAT]


def _widen(model: Model, node: Node) -> None:
    """Gives a DequantizeLinear float32 scales; what it gives keeps its name and its type."""
    scale = node.operands(2)[1]
    assert scale is not None
    assert scale.constant is not None
    wide = model.new_constant(f"{scale.name}_float", scale.constant.astype(_FLOAT))
    replace_input(node.node, 1, wide)
    (values,) = node.outputs
    if values.dtype is None or node.attr("output_dtype", 0):  # it says its type itself
        return
    out = new_tensor(model.unique(f"{values.name}_float"), _FLOAT, values.shape)
    replace_output(node.node, 0, out)
    to = {"to": elem_type_of(values.dtype)}
    model.add_nodes([model.new_node("Cast", [out], [values.tensor], to, name=out.name)])
