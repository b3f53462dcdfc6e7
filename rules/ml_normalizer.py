"""Write scikit-learn's `Normalizer` as a division by each row's norm.

TensorRT has no operators of ai.onnx.ml:

    Plugin not found, are the plugin name, version, and namespace correct?

    before    y = ai.onnx.ml.Normalizer<norm="L1">(x)
    after     n = ReduceSum(Abs(x), axis=1);  y = Where(n == 0, x, Div(x, n))

`MAX` divides by the largest element, signed, as onnxruntime does. L1 and L2 sum in another order.
"""

from typing import Any

import numpy as np
from _classical import in_float
from _opsets import reduced

from onnxq.rule import Close, Except, Fires, Node, Skip, Skips, op, required, rule


@rule("ai.onnx.ml.Normalizer", stage="compat", lacks="classical-operators")
def ml_normalizer(node: Node) -> Any:
    (x,) = required(node, 1)
    if x.rank not in (1, 2):
        raise Skip(f"{x.name!r} has {'an unknown number of' if x.rank is None else x.rank} dimensions")
    given, axes, norm = in_float(x), [x.rank - 1], node.attr("norm")
    if norm == "L2":
        squares = op.Mul(given, given)
        size = reduced(node, "ReduceSum", squares, axes, keepdims=1)
        root = op.Sqrt(op.Div(squares, size))
        quotient = op.Where(op.Less(given, np.float32(0)), op.Neg(root), root)
    else:
        how, sized = ("ReduceSum", op.Abs(given)) if norm == "L1" else ("ReduceMax", given)
        size = reduced(node, how, sized, axes, keepdims=1)
        quotient = op.Div(given, size)
    y = op.Where(op.Equal(size, np.float32(0)), given, quotient)
    return Except(Close(y), "infinite-input", "an infinite norm")


_NET = """<ir_version: 8, opset_import: ["" : 17, "ai.onnx.ml" : 1]>
    g (%s x) => (float[N, 3] y) { y = ai.onnx.ml.Normalizer <norm = "%s"> (x) }"""

EXAMPLES = [
    Fires(
        _NET % ("float[N, 3]", "MAX"),
        becomes="""_1 = ReduceMax <axes = [1], keepdims = 1> (x); _2 = Equal (_1, 0.0); _3 = Div (x, _1)
        y = Where (_2, x, _3)""",
    ),
    Fires(_NET % ("float[N, 3]", "L1")),
    Fires(
        _NET % ("float[N, 3]", "L2"),
        becomes="""_1 = Mul (x, x); _2 = ReduceSum <keepdims = 1> (_1, {1}); _3 = Equal (_2, 0.0); _4 = Less (x, 0.0)
        _5 = Div (_1, _2); _6 = Sqrt (_5); _7 = Neg (_6); _8 = Where (_4, _7, _6); y = Where (_3, x, _8)""",
    ),
    Fires(_NET % ("int64[N, 3]", "L1")),
    Skips(_NET % ("float[]", "L1"), because="dimensions"),
]
