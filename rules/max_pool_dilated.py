"""Write a dilated `MaxPool` as maxima of slices.

TensorRT rejects it:

    poolingCheckHelper: UNSUPPORTED_NODE: (dilations[i] == 1) && "This version of TensorRT does not support
    dilations other than 1."

    before    y = MaxPool<kernel_shape=[2, 2], dilations=[2, 2]>(x)
    after     r = Max(x[:, :, :-2], x[:, :, 2:]);  y = Max(r[:, :, :, :-2], r[:, :, :, 2:])

Axis by axis: as many slices as the sizes of the kernel together, 64 at most. It is bit-equal.
"""

from typing import Any

import numpy as np
from _windows import float_type, pooled, spread, windows_of

from onnxq.rule import Except, Fires, Node, Skips, Tensor, Value, op, required, rule


@rule("MaxPool", stage="compat", lacks="dilated-pools")
def max_pool_dilated(node: Node) -> Any:
    (x,) = required(node, 1)
    if all(one == 1 for one in node.attr("dilations", [])) or len(node.outputs) > 1:
        return None
    float_type(x)
    windows = windows_of(node, x)
    y: Value = pooled(node, spread(node, x, windows, lowest(x)), windows, op.Max)
    answer = Except(y, "zero-sign", "which of two zeros is the larger is not defined")
    return Except(
        answer, "infinite-input", "the maximum of no number is minus infinity, or the lowest number"
    )


def lowest(x: Tensor) -> np.ndarray:
    """What no maximum takes."""
    assert x.dtype is not None
    return np.array(-np.inf, x.dtype)


def _net(attributes: str, shape: str = "N, 2, H, W", opset: int = 18) -> str:
    return f"""<ir_version: 8, opset_import: ["" : {opset}]>
        g (float[{shape}] x) => (y) {{ y = MaxPool <{attributes}> (x) }}"""


EXAMPLES = [
    Fires(
        _net("kernel_shape = [2, 1], dilations = [2, 1]"),
        becomes="""y: float32[N, 2, ?, W]; _1 = Slice (x, {0}, {-2}, {2}, {1})
        _2 = Slice (x, {2}, {2147483647}, {2}, {1}); y = Max (_1, _2)""",
    ),
    Fires(
        _net("kernel_shape = [3], dilations = [2], strides = [2], pads = [2, 1]", "2, N, L"),
        becomes="""_1 = Shape (x); _2 = Gather (_1, 2); _3 = Sub ({2}, _2); _4 = Less (_3, 2)
        _5 = Max (_3, 0); _6 = Where (_4, _5, 0)
        _7 = Concat <axis = 0> ({0, 0, 0}, {0}, {0}, _6); _8 = Pad (x, _7, -inf)
        _9 = Pad (_8, {0, 0, 2, 0, 0, 1}, -inf); _10 = Slice (_9, {0}, {-4}, {2}, {2})
        _11 = Slice (_9, {2}, {-2}, {2}, {2}); _12 = Max (_10, _11)
        _13 = Slice (_9, {4}, {2147483647}, {2}, {2}); y = Max (_12, _13)""",
    ),
    Fires(_net("kernel_shape = [2, 2], dilations = [2, 1], strides = [2, 2], ceil_mode = 1", "1, N, 6, 7")),
    Skips(_net("kernel_shape = [2, 2]")),
    Skips(_net("kernel_shape = [2, 2], dilations = [2, 2]").replace("float[", "uint8["), because="uint8"),
    Skips(
        _net('kernel_shape = [2, 2], dilations = [2, 2], strides = [2, 2], auto_pad = "SAME_LOWER"'),
        because="unlike",
    ),
    Skips(
        _net("kernel_shape = [2, 2], dilations = [2, 1], strides = [3, 3], ceil_mode = 1"), because="--shape"
    ),
    Skips(_net("kernel_shape = [33, 33], dilations = [2, 2]"), because="64"),
]
