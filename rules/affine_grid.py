"""Write `AffineGrid` as the sum of scaled columns of theta.

`F.affine_grid` of spatial transformers exports it; TensorRT has no importer:

    checkAffineGrid: UNSUPPORTED_NODE: false

    before    grid = AffineGrid(theta, size)                                   theta: [N, 2, 3]
    after     grid = theta[:, :, 0] * x + theta[:, :, 1] * y + theta[:, :, 2]  x, y: from -1 to 1

Sums, and no matrix product, which TensorRT would round to 11 bits (TF32): places in an image need more.
"""

from typing import Any

import numpy as np
from _opsets import unsqueezed

from onnxq.rule import (
    Close,
    Except,
    Fires,
    Node,
    Skip,
    Skips,
    Value,
    float32_only,
    known_elements,
    op,
    required,
    rule,
)


@rule("AffineGrid", stage="compat", lacks="AffineGrid")
def affine_grid(node: Node) -> Any:
    theta, size = required(node, 2)
    if theta.dtype != np.float32 or theta.shape is None:
        raise Skip(f"the type or the rank of {theta.name!r} is not known, or no float32's")
    dims = theta.shape[1]
    if dims not in (2, 3):
        raise Skip(f"dimension 1 of {theta.name!r} is {dims or 'dynamic'}")
    counts, corners = known_elements(size), bool(node.attr("align_corners", 0))
    total: Value | None = None
    for number in range(dims):  # x, y (, z): the last dimension of the image first
        place = 1 + dims - number
        count = None if counts is None else counts[place]
        along: Any = (
            _steps(count, corners)
            if isinstance(count, int)
            else _computed(op.Gather(size, np.int64(place)), corners)
        )
        shape = [1] * (dims + 2)
        shape[place - 1] = -1
        along = op.Reshape(along, np.array(shape)) if isinstance(along, Value) else along.reshape(shape)
        column = op.Gather(theta, np.int64(number), axis=2)  # [N, dims]
        term = op.Mul(unsqueezed(node, column, range(1, dims + 1)), along)
        total = term if total is None else op.Add(total, term)
    assert total is not None
    last = unsqueezed(node, op.Gather(theta, np.int64(dims), axis=2), range(1, dims + 1))
    return Except(
        Close(op.Add(total, float32_only(last))), "infinite-input", "infinities cancel in any order of a sum"
    )


def _steps(count: int, corners: bool) -> np.ndarray:
    if corners:
        return np.linspace(-1, 1, count, dtype=np.float32)
    return ((2 * np.arange(count) + 1) / count - 1).astype(np.float32)


def _computed(count: Value, corners: bool) -> Value:
    places = op.Cast(op.Range(np.int64(0), count, np.int64(1)), to=1)
    size = op.Cast(count, to=1)
    if corners:
        size = op.Sub(size, np.float32(1))
        places = op.Div(op.Mul(places, np.float32(2)), op.Max(size, np.float32(1)))
    else:
        places = op.Div(op.Add(op.Mul(places, np.float32(2)), np.float32(1)), size)
    return float32_only(op.Sub(places, np.float32(1)))


def _net(theta: str, size: str, attributes: str = "align_corners = 0") -> str:
    return f"""<ir_version: 9, opset_import: ["" : 20]>
        g (float[{theta}] t) => (y) <int64[{size.count(",") + 1}] s = {{{size}}}> {{
            y = AffineGrid <{attributes}> (t, s) }}"""


_COMPUTED = """<ir_version: 9, opset_import: ["" : 20]> g (float[1, 2, 3] t, float[1, 1, H, W] x) => (y) {
    s = Shape (x)
    y = AffineGrid <align_corners = CORNERS> (t, s) }"""
EXAMPLES = [
    Fires(
        _net("2, 2, 3", "2, 1, 2, 3"),
        becomes="""_1 = Gather <axis = 2> (t, 0); _2 = Unsqueeze (_1, {1, 2})
                                         _3 = Mul (_2, [1, 1, 3, 1] {-0.6666667, 0.0, 0.6666667})
                                         _4 = Gather <axis = 2> (t, 1); _5 = Unsqueeze (_4, {1, 2})
                                         _6 = Mul (_5, [1, 2, 1, 1] {-0.5, 0.5}); _7 = Add (_3, _6)
                                         _8 = Gather <axis = 2> (t, 2); _9 = Unsqueeze (_8, {1, 2})
                                         y = Add (_7, _9)""",
    ),
    Fires(_net("1, 2, 3", "1, 1, 4, 3", "align_corners = 1"), gone="AffineGrid"),
    Fires(_net("3, 2, 3", "3, 3, 4, 7", "align_corners = 1"), gone="AffineGrid"),
    Fires(_net("2, 3, 4", "2, 1, 2, 3, 2"), gone="AffineGrid"),
    Fires(_COMPUTED.replace("CORNERS", "0"), gone="AffineGrid"),
    Fires(_COMPUTED.replace("CORNERS", "1"), gone="AffineGrid"),
    Skips(_net("2, 2, 3", "2, 1, 2, 3").replace("float[", "float16["), because="float32"),
    Skips(_net("2, M, 3", "2, 1, 2, 3"), because="is M"),
]
