"""What a release of the target is known to compute wrongly, without a word."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from onnxq.checks import Fact, Subject, check
from onnxq.graph.pairs import NOTHING, pair_of
from onnxq.graph.view import Node, Tensor
from onnxq.targets import load_target

# What can stand between a convolution and the Add in one kernel. x * Sigmoid(x) is not among them: it is
# fused otherwise, and networks of it were measured to be right.
_ACTIVATIONS = ("Relu", "LeakyRelu", "Clip", "Tanh", "Elu", "HardSwish", "HardSigmoid", "Gelu", "Sigmoid")
_TANH_PARTS = ("Mul", "Add", "Div", "Tanh")
_MOST_PARTS = 6


@check(
    "residual-view", needs="file",
    kind="miscompile",
)  # fmt: skip
def residual_views(subject: Subject) -> Iterator[Fact]:
    """A float16 convolution, activation and residual Add whose other operand is a part of a later Concat."""
    if "residual-view" not in load_target(subject.target).miscomputes:
        return
    for node in subject.nodes:
        if node.op != "Add" or node.domain or node.outputs[0].dtype != np.float16:
            continue
        one, other = node.operands(2)
        for view, branch in ((one, other), (other, one)):
            joined = _joined_later(view, node) if view is not None else None
            if joined is not None and branch is not None and _activated_conv(branch, view):
                assert view is not None
                yield Fact(
                    "residual-view",
                    (node.name, node.op, view.name),
                    {"view": view.name, "concat": joined.name},
                )


def _joined_later(tensor: Tensor, add: Node) -> Node | None:
    """The Concat, not along the outermost axis, that reads a tensor beside an Add."""
    if tensor.is_constant or tensor.producer is None:
        return None
    for user in tensor.users:
        if user.op == "Concat" and not user.domain and user != add:
            shape = user.outputs[0].shape
            axis = int(user.attr("axis", 0))
            if shape is None or axis % len(shape) != 0:
                return user
    return None


def _activated_conv(tensor: Tensor, view: Tensor | None) -> bool:
    """Whether a tensor is the activation of a convolution in float16, read by the Add alone."""
    maker = tensor.producer
    if maker is None or maker.domain or len(tensor.users) != 1:
        return False
    if maker.op in _ACTIVATIONS:
        source = maker.inputs[0]
        return source is not None and _float_conv(source.producer)
    return _tanh_silu(tensor)


def _tanh_silu(tensor: Tensor) -> bool:
    """Whether a tensor is made of a convolution by Tanh, Mul and Add, as in x * (tanh(x / 2) + 1) / 2."""
    todo, seen, tanh = [tensor], set[Tensor](), False
    conv = False
    while todo and len(seen) < 2 * _MOST_PARTS:
        operand = todo.pop()
        maker = operand.producer
        if operand in seen or operand.is_constant or maker is None:
            continue
        seen.add(operand)
        if maker.op in _TANH_PARTS and not maker.domain:
            tanh = tanh or maker.op == "Tanh"
            todo += [read for read in maker.inputs if read is not None]
        elif _float_conv(maker):
            conv = True
        else:
            return False
    return tanh and conv


def _float_conv(node: Node | None) -> bool:
    if node is None or node.op != "Conv" or node.domain or node.outputs[0].dtype != np.float16:
        return False
    data = node.inputs[0]
    return data is not None and pair_of(data, NOTHING) is None
