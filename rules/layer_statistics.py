"""Compute the mean and the deviation that a LayerNormalization gives as outputs beside it.

TensorRT's importer knows its first output only (its spelling):

    This version of TensorRT doesn't support mode than 1 outputs for LayerNormalization nodes!

    before    y, mean, inverse = LayerNormalization(x, scale, b)
    after     y = LayerNormalization(x, scale, b), mean = ReduceMean(x), inverse = 1 / Sqrt(variance + epsilon)

Both are float32, as the operator's are. The sums may have another order.
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
    float32_only,
    op,
    remake,
    required,
    rule,
)

_FLOAT = 1  # onnx.TensorProto.FLOAT
_WHY = "of what overflows no variance is known"


@rule("LayerNormalization", stage="compat", lacks="layer-normalization-statistics")
def layer_statistics(node: Node) -> Except | None:
    x, _ = required(node, 2)
    read = [index for index, tensor in enumerate(node.outputs) if tensor.users or tensor.is_output]
    if len(node.outputs) == 1 or not read:
        return None
    if x.rank is None:
        raise Skip(f"the rank of {x.name!r} is not known")
    if read == [0]:
        return Except(remake(node, *node.inputs), "extreme-input", _WHY)
    axes = list(range(int(node.attr("axis")) % x.rank, x.rank))
    wide = x if x.dtype in (np.float32, np.float64) else op.Cast(x, to=_FLOAT)
    value = float32_only(reduced(node, "ReduceMean", wide, axes, keepdims=1))
    if read[-1] == 2:  # one after the other, each with a proof of its own
        centered = op.Sub(wide, value)
        variance = float32_only(reduced(node, "ReduceMean", op.Mul(centered, centered), axes, keepdims=1))
        kind = np.float64 if x.dtype == np.float64 else np.float32
        value = op.Reciprocal(op.Sqrt(op.Add(variance, kind(node.attr("epsilon")))))
    if x.dtype == np.float64:
        value = op.Cast(value, to=_FLOAT)  # as the operator's are
    return Except(Close({read[-1]: value}), "extreme-input", _WHY)


_NET = """<ir_version: 8, opset_import: ["" : %d]>
    g (%s[N, 3, 4] x, %s[4] s, %s[3, 4] t) => (%s) { y, m, d = LayerNormalization %s (x, %s) }"""


def _net(outputs: str, call: str = "", scale: str = "s", opset: int = 17, kind: str = "float") -> str:
    return _NET % (opset, kind, kind, kind, outputs, call, scale)


EXAMPLES = [
    Fires(
        _net("y, m"), becomes="y = LayerNormalization (x, s); m = ReduceMean <axes = [2], keepdims = 1> (x)"
    ),
    Fires(
        _net("d", "<axis = 1, epsilon = 0.01>", "t", 18),
        becomes="""_1 = ReduceMean <keepdims = 1> (x, {1, 2}); _2 = Sub (x, _1); _3 = Mul (_2, _2)
        _4 = ReduceMean <keepdims = 1> (_3, {1, 2}); _5 = Add (_4, 0.01); _6 = Sqrt (_5)
        d = Reciprocal (_6)""",
    ),
    Fires(_net("y, m, d", kind="float16")),
    Fires(_net("d", kind="double"), gone="LayerNormalization"),
    Skips(_net("y, m").replace("[N, 3, 4] x", "[] x"), because="rank"),
    Skips(_net("y").replace("y, m, d =", "y =")),
]
