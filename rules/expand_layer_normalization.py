"""Write `LayerNormalization` as what it is defined by, for a TensorRT that does not know it.

TensorRT before 8.6 has no importer for it:

    No importer registered for op: LayerNormalization

    before    y = LayerNormalization(x, scale, b)
    after     y = (x - mean) / Sqrt(variance + epsilon) * scale + b

Half precision is computed in float32, as the operator does. (ONNX's own body takes the variance as a difference of
two squares, which loses digits.) The sums may have another order.
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
    float32_only,
    op,
    operands,
    required,
    rule,
)

_FLOAT = 1  # onnx.TensorProto.FLOAT


@rule("LayerNormalization", stage="compat", lacks="LayerNormalization")
def expand_layer_normalization(node: Node) -> Except:
    (x, scale), b = required(node, 2), operands(node, 3)[2]
    if x.rank is None:
        raise Skip(f"the rank of {x.name!r} is not known")
    axes = list(range(int(node.attr("axis")) % x.rank, x.rank))
    wide = x if x.dtype in (np.float32, np.float64) else op.Cast(x, to=_FLOAT)
    mean = reduced(node, "ReduceMean", wide, axes, keepdims=1)
    centered = op.Sub(wide, mean)
    variance = reduced(node, "ReduceMean", op.Mul(centered, centered), axes, keepdims=1)
    kind = np.float64 if x.dtype == np.float64 else np.float32
    deviation = float32_only(op.Sqrt(op.Add(variance, kind(node.attr("epsilon")))))
    normal: Value = op.Div(centered, deviation)
    y = op.Mul(normal if wide is x else op.CastLike(normal, x), scale)
    statistics: list[Value] = [mean, op.Reciprocal(deviation)]
    if x.dtype == np.float64:
        statistics = [op.Cast(value, to=_FLOAT) for value in statistics]  # as the operator's are
    given = dict(enumerate([y if b is None else op.Add(y, b), *statistics]))
    read = [index for index, tensor in enumerate(node.outputs) if tensor.users or tensor.is_output]
    return Except(
        Close({index: given[index] for index in read}),
        "extreme-input",
        "of what overflows no variance is known",
    )


_NET = """<ir_version: 8, opset_import: ["" : 17]>
    g (%s[N, 3, 4] x, %s[4] s, %s[4] b) => (y) { y = LayerNormalization %s (%s) }"""

EXAMPLES = [
    Fires(
        _NET % (*["float"] * 3, "", "x, s, b"),
        becomes="""_1 = ReduceMean <axes = [2], keepdims = 1> (x); _2 = Sub (x, _1); _3 = Mul (_2, _2)
        _4 = ReduceMean <axes = [2], keepdims = 1> (_3); _5 = Add (_4, 1e-05); _6 = Sqrt (_5)
        _7 = Div (_2, _6); _8 = Mul (_7, s); y = Add (_8, b)""",
    ),
    Fires(_NET % (*["float16"] * 3, "<epsilon = 0.01>", "x, s"), gone="LayerNormalization"),
    Fires(
        (_NET % (*["double"] * 3, "<axis = -1>", "x, s")).replace("(y) { y =", "(y, m, d) { y, m, d ="),
        gone="LayerNormalization",
    ),
    Skips((_NET % (*["float"] * 3, "", "x, s")).replace("[N, 3, 4] x", "[] x"), because="rank"),
    Skips((_NET % (*["float"] * 3, "", "x, s")).replace("LayerNormalization  (x, s)", "Mul (x, s)")),
]
