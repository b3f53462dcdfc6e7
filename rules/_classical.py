"""What the rules for operators of ai.onnx.ml share."""

from __future__ import annotations

import numpy as np
from _opsets import reduced

from onnxq.rule import Node, Skip, Tensor, Value, op

_FLOAT = 1


def in_float(x: Tensor) -> Value:
    """The input in float32, in which these operators compute."""
    if x.dtype is None:
        raise Skip(f"the type of {x.name!r} is not known")
    if x.dtype.kind not in "fiu":
        raise Skip(f"{x.name!r} holds {x.dtype}, not numbers")
    if x.dtype == np.float64:
        raise Skip(f"{x.name!r} is float64, in which it computes: cast it to float32 in front of it")
    return x if x.dtype == np.float32 else op.Cast(x, to=_FLOAT)


def transformed(node: Node, scores: Value) -> Value:
    """What `post_transform` makes of scores [N, classes]."""
    how = node.attr("post_transform", "NONE")
    if how == "NONE":
        return scores
    if how == "LOGISTIC":
        return op.Sigmoid(scores)
    if how == "SOFTMAX":
        return op.Softmax(scores, axis=-1)
    if how == "SOFTMAX_ZERO":
        return _softmax_zero(node, scores)
    raise Skip(f"its post_transform is {how}")


def _softmax_zero(node: Node, scores: Value) -> Value:
    """A softmax in which a score of zero stays one."""
    top = reduced(node, "ReduceMax", scores, [1], keepdims=1)
    small = op.Less(op.Abs(scores), np.float32(1e-7))
    powers = op.Where(small, op.Mul(scores, op.Exp(op.Neg(top))), op.Exp(op.Sub(scores, top)))
    return op.Div(powers, reduced(node, "ReduceSum", powers, [1], keepdims=1))


def of_texts(node: Node, *names: str) -> None:
    """Refuses attributes that are texts.

    Raises:
        Skip: one is there.
    """
    for name in names:
        if node.attr(name):
            raise Skip(
                f"its {name} are texts, which TensorRT does not know: train with numbers as labels, or end the "
                "model in front of it and look the texts up on the host"
            )
