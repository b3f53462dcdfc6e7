"""Which tensors of a kernel are the operands of its product, and how many multiply-accumulates it takes.

A generated kernel reads residuals, biases and scales beside the operands, in no fixed order, and may hold the
weights on either side. Their shapes tell: they fit each other and the result.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

TensorShape = tuple[int, ...]
Product = Literal["convolution", "deconvolution", "matmul"]


@dataclass(frozen=True, slots=True)
class Operands:
    """The operands of a product, as places in the inputs and then the constants.

    Attributes:
        firsts: tensors that fit as the activation: one, but for residuals of its shape.
        second: the weights, or the second activation.
        macs: multiply-accumulates; a dynamic size counts as 1.
    """

    firsts: tuple[int, ...]
    second: int
    macs: int


def operands(
    kind: Product,
    inputs: Sequence[TensorShape],
    constants: Sequence[TensorShape],
    outputs: Sequence[TensorShape],
) -> Operands | None:
    """The operands of a product, or None where no tensors fit each other.

    Args:
        kind: of the product.
        inputs: shapes of what the kernel reads, -1 where dynamic.
        constants: of what it holds.
        outputs: of what it writes.
    """
    shapes = [tuple(max(size, 1) for size in shape) for shape in (*inputs, *constants)]
    count = len(inputs)
    held = sorted(range(count, len(shapes)), key=lambda place: -math.prod(shapes[place]))
    for out in (tuple(max(size, 1) for size in shape) for shape in outputs):
        for second in (*held, *range(count)):
            fits = [place for place in range(count) if place != second]
            if kind == "matmul":
                found = _matrices(shapes, fits, second, out)
            else:
                found = _windows(shapes, fits, second, out, transposed=kind == "deconvolution")
            if found is not None:
                return found
    return None


def attention_places(inputs: Sequence[TensorShape], out: TensorShape) -> tuple[int, int, int] | None:
    """The places of queries, keys and values among what a fused attention reads, or None where none fit.

    Mostly they are the first two and the last, with masks in between; a mask may stand first as well. Keys
    and values may be fewer matrices than queries, each for a group of them (grouped-query attention): that
    is taken where as many do not fit, so that no mask is taken for keys.

    Args:
        inputs: shapes, -1 where dynamic.
        out: of what it writes.
    """
    last = len(inputs) - 1
    places = ((0, 1, last), *itertools.permutations(range(len(inputs)), 3)) if last >= 2 else ()
    for grouped in (False, True):
        for q, k, v in places:
            if _attends(inputs[q], inputs[k], inputs[v], out, grouped=grouped):
                return q, k, v
    return None


def _attends(
    queries: TensorShape, keys: TensorShape, values: TensorShape, out: TensorShape, *, grouped: bool
) -> bool:
    """Whether these may be the factors of softmax(Q K) V: as many matrices each, whose sides fit.

    Where it is grouped, a matrix of keys and one of values are for several of queries.
    """
    shapes = (queries, keys, values, out)
    if min(map(len, shapes)) < 2:
        return False
    asked, held, summed, given = (math.prod(shape[:-2]) for shape in shapes)
    if asked != given or held != summed or (not held or asked % held if grouped else asked != held):
        return False
    (rows, depth), (length, columns) = queries[-2:], values[-2:]
    return (rows, columns) == out[-2:] and keys[-2:] in ((depth, length), (length, depth))


def _matrices(shapes: list[TensorShape], firsts: list[int], second: int, out: TensorShape) -> Operands | None:
    sizes = {place: _inner(shapes[place], shapes[second], out) for place in firsts}
    fitting = tuple(place for place in firsts if sizes[place])
    if not fitting:
        return None
    return Operands(fitting, second, math.prod(out) * max(sizes.values()))


def _inner(one: TensorShape, other: TensorShape, out: TensorShape) -> int:
    """The size over which a product sums, 0 where these make none; either may be transposed or first."""
    if min(len(one), len(other), len(out)) < 2:
        return 0
    for a, b in ((one, other), (other, one)):
        for inner, rows in (a[-2:][::-1], a[-2:]):
            for same, columns in (b[-2:], b[-2:][::-1]):
                if (inner, rows, columns) == (same, *out[-2:]):
                    return inner
    return 0


def _windows(
    shapes: list[TensorShape], firsts: list[int], second: int, out: TensorShape, *, transposed: bool
) -> Operands | None:
    """Weights are [out, in of a group, *window], of a transposed one [in, out of a group, *window]."""
    weights = shapes[second]
    if len(weights) != len(out) or len(out) < 3:
        return None
    if (out[1] % weights[1] if transposed else out[1] != weights[0]) != 0:
        return None
    fitting = [place for place in firsts if len(shapes[place]) == len(out) and shapes[place][0] == out[0]]
    whole = weights[0] if transposed else weights[1]
    exact = [place for place in fitting if shapes[place][1] == whole]
    grouped = [place for place in fitting if not transposed and shapes[place][1] % whole == 0]
    taken = tuple(exact or grouped)
    if not taken:
        return None
    over = shapes[taken[0]] if transposed else out
    return Operands(taken, second, math.prod(over) * math.prod(weights[1:]))
