"""Write `AffineGrid` as the sums that it is defined by.

TensorRT has no importer for it:

    No importer registered for op: AffineGrid. (...) UNSUPPORTED_NODE: false

    before    grid = AffineGrid(theta, [N, C, H, W])
    after     grid = theta[:, :, 0] * xs + theta[:, :, 1] * ys + theta[:, :, 2]

The places xs and ys of the columns and rows, from -1 to 1, are constants where the size is one. No product of
matrices: TensorRT may round its factors to TF32. The places stay float32 (`float32_only`); the sums may have another
order.
"""

import numpy as np

from onnxq.rule import (
    Close,
    Except,
    Fires,
    Node,
    Skip,
    Skips,
    Tensor,
    Value,
    float32_only,
    known_elements,
    op,
    required,
    rule,
)

_FLOAT = 1  # onnx.TensorProto.FLOAT


@rule("AffineGrid", stage="compat", lacks="AffineGrid")
def affine_grid(node: Node) -> Except:
    theta, size = required(node, 2)
    last = (theta.shape or (None,))[-1]
    if last not in (3, 4) or theta.dtype not in (np.float32, np.float64):
        raise Skip(f"the shape or the type of {theta.name!r} is {theta.shape}, {theta.dtype}")
    rank = int(last) - 1  # of the picture; its axes are z, y, x and the factors of theta x, y, z
    total: Value | None = None
    for axis in reversed(range(rank)):
        shape = [1] * (rank + 2)
        shape[1 + axis] = -1
        given = _places(node, size, 2 + axis)
        if isinstance(given, np.ndarray):
            places = float32_only(given.reshape(shape))
        else:
            places = float32_only(op.Reshape(given, np.array(shape)))
        factor = op.Reshape(
            op.Gather(theta, np.array(rank - 1 - axis), axis=2), np.array([-1, *[1] * rank, rank])
        )
        if theta.dtype == np.float64:
            places = op.CastLike(places, theta)
        part = op.Mul(factor, places)
        total = part if total is None else op.Add(total, part)
    shift = op.Reshape(op.Gather(theta, np.array(rank), axis=2), np.array([-1, *[1] * rank, rank]))
    return Except(Close(op.Add(total, shift)), "extreme-input", "of what overflows no place is known")


def _places(node: Node, size: Tensor, axis: int) -> Value | np.ndarray:
    """The places of the pixels of an axis, from -1 to 1: float32, of rank 1."""
    is_aligned, known = bool(node.attr("align_corners", 0)), known_elements(size)
    count = None if known is None else known[axis]
    if isinstance(count, int | np.integer):
        if is_aligned and count == 1:
            raise Skip("one pixel has no corners to align")
        places = np.linspace(-1, 1, count) if is_aligned else (2 * np.arange(count) + 1) / count - 1
        return np.asarray(places, np.float32)
    number = op.Gather(size, np.array(axis))
    steps = op.Cast(op.Range(0, number, 1), to=_FLOAT)
    wide = op.Cast(number, to=_FLOAT)
    if is_aligned:
        return op.Sub(op.Mul(steps, op.Div(np.float32(2), op.Sub(wide, np.float32(1)))), np.float32(1))
    return op.Sub(op.Div(op.Add(op.Mul(steps, np.float32(2)), np.float32(1)), wide), np.float32(1))


_NET = """<ir_version: 9, opset_import: ["" : 20]>
    g (float[2, %s] t, int64[4] n) => (y) <int64[4] s = {2, 3, 3, 4}, int64[5] d = {2, 3, 2, 3, 4}> {
        y = AffineGrid %s (t, %s) }"""

EXAMPLES = [
    Fires(
        _NET % ("2, 3", "", "s"),
        becomes="""_1 = Gather <axis = 2> (t, 0); _2 = Reshape (_1, {-1, 1, 1, 2})
        _3 = Mul (_2, [1, 1, 4, 1] {-0.75, -0.25, 0.25, 0.75}); _4 = Gather <axis = 2> (t, 1)
        _5 = Reshape (_4, {-1, 1, 1, 2}); _6 = Mul (_5, [1, 3, 1, 1] {-0.6666667, 0.0, 0.6666667})
        _7 = Add (_3, _6); _8 = Gather <axis = 2> (t, 2); _9 = Reshape (_8, {-1, 1, 1, 2}); y = Add (_7, _9)""",
    ),
    Fires(_NET % ("3, 4", "<align_corners = 1>", "d"), gone="AffineGrid"),
    Skips(_NET % ("2, K", "", "s"), because="the shape or the type"),
]
