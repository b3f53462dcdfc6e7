"""Write onnxruntime's `CDist` as sums of squares and of products.

TensorRT has no importer for it:

    Plugin not found, are the plugin name, version, and namespace correct?

    before    y = com.microsoft.CDist<metric="sqeuclidean">(a, b)                a: [M, K], b: [N, K]
    after     ab = ReduceSum(Unsqueeze(a, 1) * Unsqueeze(b, 0), axis=2)
              y = Max(ReduceSum(a^2) + ReduceSum(b^2) - 2 * ab, 0)

It is what onnxruntime computes, without a MatMul, whose factors TensorRT rounds (TF32): what cancels leaves none of
those digits. It takes memory for M * N * K products. Close: sums in another order.
"""

from typing import Any

import numpy as np
from _opsets import reduced, unsqueezed

from onnxq.rule import Close, Except, Fires, Node, Skip, Skips, op, required, rule


@rule("com.microsoft.CDist", stage="compat", lacks="onnxruntime-fusions")
def unfuse_cdist(node: Node) -> Any:
    a, b = required(node, 2)
    metric = node.attr("metric", "sqeuclidean")
    if metric != "sqeuclidean":
        raise Skip(
            f"its metric is {metric}: a root of what is nearly zero has no digits that could be compared"
        )
    if a.dtype != np.float32:
        raise Skip(f"the type of {a.name!r} is {a.dtype or 'not known'}, not float32")
    wide, other = unsqueezed(node, a, [1]), unsqueezed(node, b, [0])
    first, second = (reduced(node, "ReduceSum", op.Mul(one, one), [2]) for one in (wide, other))
    products = op.Mul(reduced(node, "ReduceSum", op.Mul(wide, other), [2]), np.float32(-2))
    y = op.Max(op.Add(op.Add(products, first), second), np.float32(0))
    return Except(Close(y), "extreme-input", "squares that overflow cancel in any order of a sum")


_NET = """<ir_version: 8, opset_import: ["" : 17, "com.microsoft" : 1]>
    g (%s[M, 4] a, %s[N, 4] b) => (y) { y = com.microsoft.CDist <metric = "%s"> (a, b) }"""

EXAMPLES = [
    Fires(
        _NET % ("float", "float", "sqeuclidean"),
        becomes="""_1 = Unsqueeze (a, {1}); _2 = Unsqueeze (b, {0}); _3 = Mul (_1, _2)
        _4 = ReduceSum <keepdims = 0> (_3, {2}); _5 = Mul (_4, -2.0); _6 = Mul (_1, _1)
        _7 = ReduceSum <keepdims = 0> (_6, {2}); _8 = Add (_5, _7); _9 = Mul (_2, _2)
        _10 = ReduceSum <keepdims = 0> (_9, {2}); _11 = Add (_8, _10); y = Max (_11, 0.0)""",
    ),
    Fires((_NET % ("float", "float", "sqeuclidean")).replace(": 17", ": 12"), gone="CDist"),
    Skips(_NET % ("float", "float", "euclidean"), because="metric is euclidean"),
    Skips(_NET % ("double", "double", "sqeuclidean"), because="float64"),
]
