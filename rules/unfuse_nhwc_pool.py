"""Write `NhwcMaxPool` as a MaxPool between Transposes.

onnxruntime's optimizer makes it of quantized MaxPools, with channels last; TensorRT has no importer for it:

    Plugin not found, are the plugin name, version, and namespace correct?

    before    y = com.microsoft.NhwcMaxPool(x)                  x: uint8 or int8, [batch, height, width, channels]
    after     y = Cast<to=uint8>(Transpose(MaxPool(Transpose(Cast<to=float>(x)))))

The maximum of codes is one of them, and float32 holds all of them.
"""

import numpy as np
from _quantized import FLOAT, TYPES

from onnxq.rule import Fires, Node, Skip, Skips, Value, op, required, rule


@rule("com.microsoft.NhwcMaxPool", stage="compat", lacks="onnxruntime-fusions")
def unfuse_nhwc_pool(node: Node) -> Value:
    (x,) = required(node, 1)
    if x.rank is None or x.dtype not in (np.uint8, np.int8):
        raise Skip(f"the type or the rank of {x.name!r} is not known")
    middle = list(range(1, x.rank - 1))
    first = op.Transpose(op.Cast(x, to=FLOAT), perm=[0, x.rank - 1, *middle])
    pooled = op.MaxPool(first, **node.attrs)
    return op.Cast(op.Transpose(pooled, perm=[0, *(i + 1 for i in middle), 1]), to=TYPES[x.dtype.name])


_NET = """<ir_version: 8, opset_import: ["" : 13, "com.microsoft" : 1]>
    g (%s x) => (y) { y = %s }"""

EXAMPLES = [
    Fires(
        _NET
        % ("int8[N, 5, 4, 2]", "com.microsoft.NhwcMaxPool <kernel_shape = [2, 2], pads = [1, 0, 0, 1]> (x)"),
        gone="NhwcMaxPool",
        becomes="""_1 = Cast <to = 1> (x); _2 = Transpose <perm = [0, 3, 1, 2]> (_1)
        _3 = MaxPool <kernel_shape = [2, 2], pads = [1, 0, 0, 1]> (_2)
        _4 = Transpose <perm = [0, 2, 3, 1]> (_3); y = Cast <to = 3> (_4)""",
    ),
    Fires(
        _NET
        % ("uint8[N, 5, 4, 2]", "com.microsoft.NhwcMaxPool <kernel_shape = [3, 2], strides = [2, 1]> (x)"),
        gone="NhwcMaxPool",
    ),
    Skips(
        _NET % ("uint8[]", "com.microsoft.NhwcMaxPool <kernel_shape = [2, 2]> (x)"), because="the rank of 'x'"
    ),
    Skips(_NET % ("uint8[N, 2, 5, 4]", "MaxPool <kernel_shape = [2, 2]> (x)")),
]
