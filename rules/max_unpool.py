"""Write `MaxUnpool` as a scatter into zeros.

`MaxUnpool2d` of segmentation nets exports it; TensorRT has no importer:

    checkMaxUnpool: UNSUPPORTED_NODE: false

    before    y = MaxUnpool<kernel_shape=[2, 2], strides=[2, 2]>(x, i)
    after     y = Reshape(ScatterElements(zeros, Reshape(i, [-1]), Reshape(x, [-1])), shape)

The indices count all elements of the output. It is bit-equal.
"""

from typing import Any

import numpy as np
from _opsets import size_of

from onnxq.rule import Fires, Node, Skip, Skips, Value, op, operands, required, rule


@rule("MaxUnpool", stage="compat", lacks="MaxUnpool")
def max_unpool(node: Node) -> Value:
    x, indices = required(node, 2)
    wanted = operands(node, 3)[2]
    if x.shape is None or x.dtype is None:
        raise Skip(f"the type or the rank of {x.name!r} is not known")
    kernel = node.attr("kernel_shape")
    count = len(kernel)
    strides, pads = node.attr("strides", [1] * count), node.attr("pads", [0] * 2 * count)
    sizes: list[Any] = [size_of(node, x, 0), size_of(node, x, 1)]
    for axis in range(count):
        size, more = (
            size_of(node, x, axis + 2),
            kernel[axis] - strides[axis] - pads[axis] - pads[axis + count],
        )
        if isinstance(size, Value):
            size = op.Mul(size, np.int64(strides[axis]))
            sizes.append(op.Add(size, np.int64(more)) if more else size)
        else:
            sizes.append(np.int64(int(size) * strides[axis] + more))
    shape: Any = wanted
    if shape is None and any(isinstance(size, Value) for size in sizes):
        shape = op.Concat(
            *[op.Reshape(s, np.array([1])) if isinstance(s, Value) else np.array([int(s)]) for s in sizes],
            axis=0,
        )
    elif shape is None:
        shape = np.array(sizes, np.int64)
    total = np.array([np.prod(shape)]) if isinstance(shape, np.ndarray) else op.ReduceProd(shape, keepdims=1)
    flat = np.array([-1])
    zeros = op.Expand(np.zeros(1, x.dtype), total)
    y = op.ScatterElements(zeros, op.Reshape(indices, flat), op.Reshape(x, flat), axis=0)
    return op.Reshape(y, shape)


_NET = """<ir_version: 8, opset_import: ["" : 18]>
    g (float[%s] x) => (y) <int64[4] s = {1, 1, 6, 5}> {
        p, i = MaxPool <kernel_shape = [2, 2], strides = [2, 2]> (x)  q = Relu (p)
        y = MaxUnpool <kernel_shape = [2, 2], strides = [2, 2]> (q, i%s) }"""

EXAMPLES = [
    Fires(
        _NET % ("1, 2, 4, 6", ""),
        becomes="""_1 = Expand ({0.0}, {48})
                                     p, i = MaxPool <kernel_shape = [2, 2], strides = [2, 2]> (x)
                                     _2 = Reshape (i, {-1}); q = Relu (p); _3 = Reshape (q, {-1})
                                     _4 = ScatterElements <axis = 0> (_1, _2, _3)
                                     y = Reshape (_4, {1, 2, 4, 6})""",
    ),
    Fires(_NET % ("N, 2, H, W", ""), gone="MaxUnpool"),
    Fires(_NET % ("1, 1, 6, 5", ", s"), gone="MaxUnpool"),
    Fires(
        (_NET % ("1, 1, 4, 3", "")).replace("strides = [2, 2]", "strides = [2, 1], pads = [1, 0, 1, 0]"),
        gone="MaxUnpool",
    ),
    Skips((_NET % ("", "")), because="rank"),
]
