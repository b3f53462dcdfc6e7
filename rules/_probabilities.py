"""Which Concats put probabilities beside what is orders of magnitude greater: scores beside boxes in pixels."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from onnxq.rule import MOVES, Node, Tensor, constant, made_by

_BOUNDED = ("Sigmoid", "Softmax", "HardSigmoid")
"""What gives values from 0 to 1."""

_ARITHMETIC = ("Add", "Sub", "Mul", "Div", "Sum", "Pow", "Exp", "Sqrt", "Neg", "Max", "Min", "Clip")
"""What decodes boxes."""

_PIXELS = 16.0
"""A constant from which on what it is added to or multiplied with is in pixels: strides, grids, anchors, sizes."""


_LAYERS = ("Conv", "ConvTranspose", "Gemm", "MatMul")


def mixes_scales(concat: Node) -> bool:
    """Whether some inputs of a Concat are probabilities, and others are boxes.

    Those are what is decoded with constants of pixels; in a Concat that reaches an output of the model, moved at
    most, also what a layer gives without an activation, as a factor may be in its weights.
    """
    given = [tensor for tensor in concat.inputs if tensor is not None and not tensor.is_constant]
    if not any(map(_is_probability, given)):
        return False
    return any(map(_is_in_pixels, given)) or (any(map(_is_linear, given)) and _reaches_an_output(concat))


def cut_from_a_mixture(tensor: Tensor | None) -> bool:
    """Whether a tensor comes from a Concat that mixes scales, moved at most."""
    return tensor is not None and _any_behind(
        tensor, (), lambda node: node.op == "Concat" and mixes_scales(node)
    )


def _is_probability(tensor: Tensor) -> bool:
    """Whether a tensor holds what gives values from 0 to 1, moved at most."""
    return _any_behind(tensor, _BOUNDED, lambda node: node.op in _BOUNDED)


def _is_in_pixels(tensor: Tensor) -> bool:
    return _any_behind(tensor, _ARITHMETIC, _with_pixels)


def _is_linear(tensor: Tensor) -> bool:
    """Whether a tensor comes from a layer by movement and arithmetic alone."""
    return _any_behind(tensor, (*_ARITHMETIC, *_LAYERS), lambda node: node.op in _LAYERS)


def _reaches_an_output(node: Node) -> bool:
    todo, seen = [*node.outputs], set[Tensor]()
    while todo:
        tensor = todo.pop()
        if tensor.is_output:
            return True
        if tensor not in seen:
            seen.add(tensor)
            for user in tensor.users:
                todo += user.outputs if user.op in (*MOVES, "Concat") and not user.domain else ()
    return False


def _with_pixels(node: Node) -> bool:
    """Whether a node adds or multiplies with a great constant, or divides by a small one."""
    if node.op not in ("Add", "Sub", "Mul", "Div", "Sum"):
        return False
    for index, value in enumerate(map(constant, node.inputs)):
        if value is None or not value.size or value.dtype.kind != "f":
            continue
        most = float(np.abs(value).max())
        divides = node.op == "Div" and index == 1
        if (0 < most <= 1 / _PIXELS) if divides else most >= _PIXELS:
            return True
    return False


def _any_behind(tensor: Tensor, passed: Sequence[str], told: Callable[[Node], bool]) -> bool:
    """Whether a node tells something, of those that make a tensor by movement and by `passed` operators."""
    todo: list[Tensor | None] = [tensor]
    seen: set[Tensor] = set()
    while todo:
        value = todo.pop()
        maker = made_by(value, *MOVES, "Concat", *passed)
        if value is None or value in seen or maker is None:
            continue
        seen.add(value)
        if told(maker):
            return True
        if maker.op not in _BOUNDED:
            todo += maker.inputs[:1] if maker.op in MOVES else maker.inputs
    return False
