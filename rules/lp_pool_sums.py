"""Write an `LpPool` of another norm than 1 and 2, of one dimension or dilated as powers and sums of slices.

    checkLpPool: UNSUPPORTED_NODE: (p == 1 || p == 2) && "Only L1 and L2 normalization are supported."
    INetworkDefinition::addPoolingNd: Error Code 3: API Usage Error (Parameter check failed, ...)
    (dilations[i] == 1) && "This version of TensorRT does not support dilations other than 1."

    before    y = LpPool<kernel_shape=[2], p=3>(x)
    after     a = Pow(Abs(x), 3);  y = Pow(Add(a[:, :, :-1], a[:, :, 1:]), 1/3)

It sums in another order.
"""

from typing import Any

import numpy as np
from _windows import float_type, pooled, spread, windows_of

from onnxq.rule import (
    Close,
    Except,
    Fires,
    Node,
    Skips,
    Value,
    float32_only,
    op,
    required,
    rule,
)


@rule("LpPool", stage="compat", lacks="lp-pools")
def lp_pool_sums(node: Node) -> Any:
    (x,) = required(node, 1)
    kernel = node.attr("kernel_shape")
    p = node.attr("p")
    if p in (1, 2) and len(kernel) > 1 and all(one == 1 for one in node.attr("dilations", [])):
        return None
    own = float_type(x)
    windows = windows_of(node, x)
    wide = own.itemsize < 4  # whose powers overflow soon
    given, kind = (op.Cast(x, to=1), np.dtype(np.float32)) if wide else (x, own)
    powers: Value
    if p == 1:
        powers = op.Abs(given)
    else:
        powers = op.Mul(given, given) if p == 2 else op.Pow(op.Abs(given), np.array(p, kind))
    y = pooled(node, spread(node, float32_only(powers), windows, np.array(0, kind)), windows, op.Add)
    if p > 1:
        y = float32_only(op.Sqrt(y) if p == 2 else op.Pow(y, np.array(1 / p, kind)))
    y = op.Cast(y, to=10 if own == np.float16 else 16) if wide else y
    return Except(
        Close(y), "nan-input", "whether a window with a NaN is NaN, onnxruntime decides by the processor"
    )


def _net(attributes: str, shape: str = "N, 2, H, W") -> str:
    return f"""<ir_version: 8, opset_import: ["" : 18]>
        g (float[{shape}] x) => (y) {{ y = LpPool <{attributes}> (x) }}"""


EXAMPLES = [
    Fires(
        _net("kernel_shape = [2, 1], p = 3"),
        becomes="""y: float32[N, 2, ?, W]; _1 = Abs (x); _2 = Pow (_1, 3.0)
        _3 = Slice (_2, {0}, {-1}, {2}, {1}); _4 = Slice (_2, {1}, {2147483647}, {2}, {1})
        _5 = Add (_3, _4); y = Pow (_5, 0.33333334)""",
    ),
    Fires(
        _net("kernel_shape = [3], strides = [2], pads = [1, 0]", "N, 2, L"),
        becomes="""_1 = Mul (x, x); _2 = Shape (_1); _3 = Gather (_2, 2); _4 = Sub ({2}, _3)
        _5 = Less (_4, 2); _6 = Max (_4, 0); _7 = Where (_5, _6, 0)
        _8 = Concat <axis = 0> ({0, 0, 0}, {0}, {0}, _7); _9 = Pad (_1, _8, 0.0)
        _10 = Pad (_9, {0, 0, 1, 0, 0, 0}, 0.0); _11 = Slice (_10, {0}, {-2}, {2}, {2})
        _12 = Slice (_10, {1}, {-1}, {2}, {2}); _13 = Add (_11, _12)
        _14 = Slice (_10, {2}, {2147483647}, {2}, {2}); _15 = Add (_13, _14); y = Sqrt (_15)""",
    ),
    Fires(_net("kernel_shape = [2, 2], p = 1, dilations = [1, 2]")),
    Fires(
        _net("kernel_shape = [2], p = 1", "1, 2, 3").replace("float[", "float16["),
        becomes="""_1 = Cast <to = 1> (x)
                                                                                      _2 = Abs (_1)
                                                                                      _3 = Slice (_2, {0}, {-1}, {2}, {1})
                                                                                      _4 = Slice (_2, {1}, {2147483647}, {2}, {1})
                                                                                      _5 = Add (_3, _4)
                                                                                      y = Cast <to = 10> (_5)""",
    ),
    Skips(_net("kernel_shape = [2, 2], p = 1, dilations = [1, 1]")),
    Skips(_net("kernel_shape = [33, 33], p = 3"), because="64"),
]
