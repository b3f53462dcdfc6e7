"""Write `DFT` as products with cosines and sines, and their sums.

`torch.fft` exports it; TensorRT has no importer:

    checkFallbackPluginImporter: INVALID_NODE: creator && "Plugin not found, are the plugin name, version, and namespace correct?"

    before    y = DFT<axis=1>(x)                                        x: [N, 8, 1], real
    after     y = Concat(ReduceSum(x * cos), ReduceSum(x * -sin))       cos: cos(2 pi j k / 8)

A length that is n1 * n2 takes two such steps, of n1 and of n2, and a rotation between them (Cooley-Tukey), so that it
needs memory for n1 or n2 times the tensor. No matrix product: TensorRT would round it to 11 bits (TF32), and the
frequencies with little in them would be lost.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from _opsets import padded, reduced, sliced, unsqueezed

from onnxq.rule import Close, Except, Fires, Node, Skip, Skips, Value, op, operands, required, rule

_DIRECT = 24
_MOST = 512


@rule("DFT", stage="compat", lacks="DFT")
def dft_sums(node: Node) -> Any:
    (x,) = required(node, 1)
    length, place = operands(node, 3)[1:]
    if x.dtype != np.float32 or x.shape is None or x.shape[-1] not in (1, 2):
        raise Skip(f"the type of {x.name!r} or the size of its last dimension is not known, or no float32's")
    rank = len(x.shape) - 1
    axis = node.attr("axis", 1) if node.opset < 20 else -2
    if place is not None:
        if place.scalar is None:
            raise Skip(f"its axis {place.name!r} is computed")
        axis = int(place.scalar)
    axis %= rank + 1
    size = x.shape[axis]
    count = size if length is None else length.scalar
    if not isinstance(size, int) or not isinstance(count, int):
        raise Skip(
            f"dimension {axis} of {x.name!r}, or its length, is dynamic: give it with --shape INPUT:SIZES"
        )
    inverse, onesided = bool(node.attr("inverse", 0)), bool(node.attr("onesided", 0))
    if inverse and onesided:
        raise Skip("it is the inverse of one side (IRFFT): the rule writes the inverse of both sides only")
    first = _first(count)
    if max(first, count // first) > _MOST:
        raise Skip(f"its length {count} has a prime factor over {_MOST}")
    if count > size:
        end = [0] * (rank + 1)
        end[axis] = count - size
        given: Any = padded(node, x, [0] * (rank + 1), end, np.float32(0))
    else:
        given = x if count == size else sliced(node, x, [0], [count], [axis])
    real = op.Gather(given, np.int64(0), axis=rank)
    other = op.Gather(given, np.int64(1), axis=rank) if x.shape[-1] == 2 else None
    sides = _transformed(node, real, other, axis, rank, count, inverse)
    if inverse:
        sides = tuple(op.Div(side, np.float32(count)) for side in sides)
    if onesided:
        sides = tuple(sliced(node, side, [0], [count // 2 + 1], [axis]) for side in sides)
    y = op.Concat(*(unsqueezed(node, side, [rank]) for side in sides), axis=rank)
    return Except(Close(y), "infinite-input", "infinities of either sign cancel in any order of a sum")


def _first(count: int) -> int:
    """The first factor of a length: 1, or the one nearest to its root."""
    if count <= _DIRECT:
        return 1
    return max(n for n in range(1, int(count**0.5) + 1) if count % n == 0)


def _transformed(
    node: Node, real: Value, other: Value | None, axis: int, rank: int, count: int, inverse: bool
) -> tuple[Value, ...]:
    sign = 1.0 if inverse else -1.0
    first = _first(count)
    if first == 1:
        return _step(node, real, other, axis, rank, count, sign)
    second = count // first
    sizes = list(real.shape or ())
    tail = [size if isinstance(size, int) else -1 for size in sizes[axis + 1 :]]
    if tail.count(-1) > 1:
        raise Skip("two dimensions behind its axis are dynamic: give them with --shape INPUT:SIZES")
    split = np.array([0] * axis + [first, second, *tail])
    parts = [op.Reshape(part, split) if part is not None else None for part in (real, other)]
    assert parts[0] is not None
    re, im = _step(node, parts[0], parts[1], axis, rank + 1, first, sign)
    turn = sign * 2 * np.pi * np.outer(np.arange(first), np.arange(second)) / count
    shape = [1] * (rank + 1)
    shape[axis], shape[axis + 1] = first, second
    cos, sin = (f(turn).astype(np.float32).reshape(shape) for f in (np.cos, np.sin))
    re, im = op.Sub(op.Mul(re, cos), op.Mul(im, sin)), op.Add(op.Mul(re, sin), op.Mul(im, cos))
    re, im = _step(node, re, im, axis + 1, rank + 1, second, sign)
    order = list(range(rank + 1))
    order[axis], order[axis + 1] = axis + 1, axis
    joined = np.array([0] * axis + [count, *tail])
    return tuple(op.Reshape(op.Transpose(part, perm=order), joined) for part in (re, im))


def _step(
    node: Node, real: Value, other: Value | None, axis: int, rank: int, count: int, sign: float
) -> tuple[Value, Value]:
    """The transform along an axis of `count` elements."""
    turn = sign * 2 * np.pi * (np.outer(np.arange(count), np.arange(count)) % count) / count
    shape = [1] * (rank + 1)
    shape[axis], shape[axis + 1] = count, count
    cos, sin = (f(turn).astype(np.float32).reshape(shape) for f in (np.cos, np.sin))

    def summed(value: Value, matrix: np.ndarray) -> Value:
        return reduced(node, "ReduceSum", op.Mul(unsqueezed(node, value, [axis + 1]), matrix), [axis])

    if other is None:
        return summed(real, cos), summed(real, sin)
    return (
        op.Sub(summed(real, cos), summed(other, sin)),
        op.Add(summed(real, sin), summed(other, cos)),
    )


def _net(shape: str, attributes: str, length: str = "", opset: int = 17) -> str:
    return f"""<ir_version: 9, opset_import: ["" : {opset}]>
        g (float[{shape}] x) => (y) <int64 n = {{{length or 1}}}> {{
            y = DFT <{attributes}> (x{", n" if length else ""}) }}"""


EXAMPLES = [
    Fires(
        _net("N, 4, 1", "axis = 1, onesided = 1"),
        gone="DFT",
        becomes="""_1 = Gather <axis = 2> (x, 0); _2 = Unsqueeze (_1, {2})
        _3 = Mul (_2, [1, 4, 4] {1.0, 1.0, 1.0, 1.0, 1.0, 6.123234e-17, -1.0, -1.8369701e-16, 1.0, -1.0, 1.0, -1.0, 1.0, -1.8369701e-16, -1.0, 6.123234e-17})
        _4 = ReduceSum <keepdims = 0> (_3, {1}); _5 = Slice (_4, {0}, {3}, {1}, {1})
        _6 = Unsqueeze (_5, {2}); _7 = Unsqueeze (_1, {2})
        _8 = Mul (_7, [1, 4, 4] {-0.0, -0.0, -0.0, -0.0, -0.0, -1.0, -1.2246469e-16, 1.0, -0.0, -1.2246469e-16, -0.0, -1.2246469e-16, -0.0, 1.0, -1.2246469e-16, -1.0})
        _9 = ReduceSum <keepdims = 0> (_8, {1}); _10 = Slice (_9, {0}, {3}, {1}, {1})
        _11 = Unsqueeze (_10, {2}); y = Concat <axis = 2> (_6, _11)""",
    ),
    Fires(_net("2, 3, 2", "inverse = 1"), gone="DFT"),
    Fires(_net("2, 3, 1", "onesided = 1", "5"), gone="DFT"),
    Fires(_net("1, 25, N, 2", "axis = 1"), gone="DFT"),
    Fires(_net("3, 2, 2", "inverse = 0", opset=20), gone="DFT"),
    Skips(_net("2, L, 1", "axis = 1", "4"), because="--shape"),
    Skips(
        _net("2, 4, 1", "axis = 1", "1").replace("x) =>", "x, int64 l) =>").replace(", n)", ", l)"),
        because="--shape",
    ),
    Skips(_net("1, 25, N, M, 1", "axis = 1"), because="two dimensions behind"),
    Skips(
        _net("2, 4, 1", "inverse = 0", "4", 20).replace("x) =>", "x, int64 a) =>").replace(", n)", ", n, a)"),
        because="'a' is computed",
    ),
    Skips(_net("2, 3, 2", "inverse = 1, onesided = 1"), because="writes the inverse of both sides only"),
    Skips(_net("2, 521, 1", "axis = 1"), because="521 has a prime factor over 512"),
]
