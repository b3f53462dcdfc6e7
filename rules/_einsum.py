"""Einsum's equations, and products of integers by them."""

import math
from collections.abc import Sequence

import numpy as np

from onnxq.rule import Skip, Value, op

_MOST, _MOST_DYNAMIC = 1 << 22, 1 << 16
"""So many elements a product has at most before it is summed; of the known sizes where another is not."""


def labels_of(equation: str, ranks: Sequence[int]) -> tuple[list[list[str]], list[str]]:
    """The labels of each operand and of the result; those of an ellipsis are numbers, aligned at the right.

    Raises:
        Skip: the equation does not fit the operands.
    """
    left, _, right = explicit(equation).partition("->")
    terms = left.split(",")
    if len(terms) != len(ranks):
        raise Skip(f"the equation {equation!r} is for {len(terms)} operands")
    widths = [rank - len(term.replace("...", "")) for term, rank in zip(terms, ranks, strict=True)]
    most = max((width for term, width in zip(terms, widths, strict=True) if "..." in term), default=0)
    inputs = []
    for term, width in zip(terms, widths, strict=True):
        if width < 0 or (width and "..." not in term):
            raise Skip(
                f"the equation {equation!r} does not fit operands of {', '.join(map(str, ranks))} dimensions"
            )
        inputs.append(_spelled(term, [str(number) for number in range(most - width, most)]))
    return inputs, _spelled(right, [str(number) for number in range(most)])


def _spelled(term: str, dots: list[str]) -> list[str]:
    before, found, after = term.partition("...")
    return [*before, *(dots if found else ()), *after]


def explicit(equation: str) -> str:
    """An equation with its result, without spaces."""
    left, arrow, right = equation.replace(" ", "").partition("->")
    if arrow:
        return f"{left}->{right}"
    once = sorted(letter for letter in set(left) if letter.isalpha() and left.count(letter) == 1)
    return f"{left}->{'...' if '...' in left else ''}{''.join(once)}"


def summed_product(
    operands: Sequence[Value], inputs: Sequence[Sequence[str]], output: Sequence[str], opset: int
) -> Value:
    """Einsum's result as a product of all operands, summed: exact for integers.

    Raises:
        Skip: a label is repeated within an operand, or the product is too large.
    """
    if any(len(set(term)) < len(term) for term in inputs):
        raise Skip("an operand has the same label twice: a diagonal")
    inner = [
        label for label in dict.fromkeys(label for term in inputs for label in term) if label not in output
    ]
    order = [*output, *inner]
    sizes: dict[str, int | str | None] = {}
    for operand, term in zip(operands, inputs, strict=True):
        for label, size in zip(term, operand.shape or (), strict=True):
            sizes[label] = size if sizes.get(label, 1) == 1 else sizes[label]
    known = math.prod(size for size in sizes.values() if isinstance(size, int))
    dynamic = sorted({str(size) for size in sizes.values() if not isinstance(size, int)})
    if known > (_MOST_DYNAMIC if dynamic else _MOST):
        hint = f", of known sizes; give --assume for {', '.join(dynamic)}" if dynamic else ""
        raise Skip(f"the product would have {known:,} elements{hint}")
    product: Value | None = None
    for operand, term in zip(operands, inputs, strict=True):
        aligned = _aligned(operand, term, order, opset)
        product = aligned if product is None else op.Mul(product, aligned)
    assert product is not None
    for label in reversed(inner):
        product = _summed(product, order.index(label), sizes[label], opset)
    return product


def _aligned(operand: Value, term: Sequence[str], order: Sequence[str], opset: int) -> Value:
    """An operand with a dimension for each label, those that it does not have of size 1."""
    perm = [term.index(label) for label in order if label in term]
    value = operand if perm == sorted(perm) else op.Transpose(operand, perm=perm)
    axes = [axis for axis, label in enumerate(order) if label not in term]
    if not axes:
        return value
    return op.Unsqueeze(value, np.array(axes)) if opset >= 13 else op.Unsqueeze(value, axes=axes)


def _summed(value: Value, axis: int, size: int | str | None, opset: int) -> Value:
    """The sum over the last dimension, in halves: onnxruntime's ReduceSum of integers goes through double."""
    if not isinstance(size, int):
        raise Skip(f"{size} integers are summed: give --assume {size}=16, or another size")
    rest: list[Value] = []
    while size > 1:
        half = size // 2
        rest += [_part(value, axis, 2 * half, size)] if size % 2 else []
        value = op.Add(_part(value, axis, 0, half), _part(value, axis, half, 2 * half))
        size = half
    for one in rest:
        value = op.Add(value, one)
    return op.Squeeze(value, np.array([axis])) if opset >= 13 else op.Squeeze(value, axes=[axis])


def _part(value: Value, axis: int, start: int, end: int) -> Value:
    return op.Slice(value, np.array([start]), np.array([end]), np.array([axis]), np.array([1]))
