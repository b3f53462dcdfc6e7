"""Unsqueeze and Squeeze, whose axes are an attribute before opset 13."""

import numpy as np

from onnxq.rule import Node, Value, op


def unsqueezed(node: Node, value: Value, axis: int) -> Value:
    """A value with one dimension more, in the node's opset."""
    return op.Unsqueeze(value, axes=[axis]) if node.opset < 13 else op.Unsqueeze(value, np.array([axis]))


def squeezed(node: Node, value: Value, axis: int) -> Value:
    """A value without a dimension of one element, in the node's opset."""
    return op.Squeeze(value, axes=[axis]) if node.opset < 13 else op.Squeeze(value, np.array([axis]))
