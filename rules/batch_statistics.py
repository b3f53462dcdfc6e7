"""Write a BatchNormalization that trains with the mean and the variance of its batch.

A model that was exported without `model.eval()`. TensorRT says

    This version of TensorRT does not support training_mode == 1 in BatchNormalization.

    before    y, running_mean, running_var = BatchNormalization<training_mode=1>(x, scale, b, mean, var)
    after     y = (x - m) / Sqrt(v + epsilon) * scale + b, with m and v of x along all axes but that of the channels
              running_mean = mean * momentum + m * (1 - momentum), running_var likewise

It computes what it computed; what was meant is likely the statistics of training. The sums may have another order;
half precision is computed in float32.
"""

import numpy as np
from _opsets import reduced

from onnxq.rule import (
    Close,
    Except,
    Fires,
    Node,
    Skip,
    Skips,
    Value,
    constant,
    float32_only,
    op,
    required,
    rule,
)

_FLOAT, _FLOAT16, _DOUBLE = 1, 10, 11  # onnx.TensorProto.DataType


@rule("BatchNormalization", stage="compat", lacks="training-mode")
def batch_statistics(node: Node) -> Except | None:
    if not node.attr("training_mode", 0):
        return None
    x, scale, b, mean, var = required(node, 5)
    if x.rank is None or x.rank < 2 or x.dtype not in (np.float16, np.float32, np.float64):
        raise Skip(f"the rank or the type of {x.name!r} is not known, or no float's")
    short = x.dtype == np.float16
    wide = op.Cast(x, to=_FLOAT) if short else x
    axes = [axis for axis in range(x.rank) if axis != 1]
    m = _mean(node, wide, wide, axes)
    centered = op.Sub(wide, m)
    v = _mean(node, wide, op.Mul(centered, centered), axes)
    kind = np.float32 if short else x.dtype.type
    factor, shift, *running = (_wide(one, kind) for one in (scale, b, mean, var))
    root = op.Sqrt(op.Add(v, kind(node.attr("epsilon", 1e-5))))
    shape = np.array([-1] + [1] * (x.rank - 2))
    y = op.Add(op.Mul(op.Div(centered, root), _shaped(factor, shape)), _shaped(shift, shape))
    given: dict[int, Value] = {0: y}
    keep = node.attr("momentum", 0.9)
    for index, (now, was) in enumerate(zip((m, v), running, strict=True), 1):
        if index < len(node.outputs) and node.outputs[index].name:
            new = op.Mul(op.Reshape(now, np.array([-1])), kind(1 - keep))
            given[index] = op.Add(op.Mul(was, kind(keep)), new)
    for index, value in given.items():
        if short and node.outputs[index].dtype != np.float32:
            given[index] = op.Cast(value, to=_FLOAT16)
    return Except(Close(given), "extreme-input", "of what overflows no variance is known")


def _mean(node: Node, x: Value, values: Value, axes: list[int]) -> Value:
    """The mean along axes; of no elements it is NaN, where that is read."""
    if not any(tensor.users or tensor.is_output for tensor in node.outputs[1:]):
        return reduced(node, "ReduceMean", values, axes, keepdims=1)
    if x.shape is not None and all(isinstance(x.shape[axis], int) for axis in axes):
        return reduced(node, "ReduceMean", values, axes, keepdims=1)
    count = reduced(node, "ReduceProd", op.Gather(op.Shape(x), np.array(axes)), [0])
    kind = _FLOAT if values.dtype == np.float32 else _DOUBLE
    return op.Div(reduced(node, "ReduceSum", values, axes, keepdims=1), float32_only(op.Cast(count, to=kind)))


def _wide(value: Value, kind: type) -> Value:
    return value if value.dtype == kind else op.Cast(value, to=_FLOAT)


def _shaped(value: Value, shape: np.ndarray) -> Value | np.ndarray:
    array = constant(value)
    return op.Reshape(value, shape) if array is None else array.reshape(shape)


_NET = """<ir_version: 8, opset_import: ["" : %d]>
    g (float[%s] x, float[3] s, float[3] b, float[3] m, float[3] v) => (%s) <float[3] c = {1, -2, 0.5}> {
        y, n, w = BatchNormalization <training_mode = %d, momentum = 0.75> (x, %s, b, m, v) }"""

EXAMPLES = [
    Fires(
        _NET % (15, "N, 3, 4", "y", 1, "c"),
        becomes="""_1 = ReduceMean <axes = [0, 2], keepdims = 1> (x); _2 = Sub (x, _1); _3 = Mul (_2, _2)
        _4 = ReduceMean <axes = [0, 2], keepdims = 1> (_3); _5 = Add (_4, 1e-05); _6 = Sqrt (_5)
        _7 = Div (_2, _6); _8 = Mul (_7, [3, 1] {1.0, -2.0, 0.5}); _9 = Reshape (b, {-1, 1})
        y = Add (_8, _9)""",
    ),
    Fires(_NET % (15, "N, 3, 4", "y, n, w", 1, "s"), gone="BatchNormalization"),
    Fires(_NET % (18, "2, 3, 4, 5", "y, n, w", 1, "s"), gone="BatchNormalization"),
    Fires(
        (_NET % (15, "2, 3, 4", "y, n", 1, "s"))
        .replace(" <float[3] c = {1, -2, 0.5}>", "")
        .replace("float[", "float16["),
        gone="BatchNormalization",
    ),
    Skips((_NET % (15, "N, 3, 4", "y", 0, "s")).replace("y, n, w =", "y =")),
]
