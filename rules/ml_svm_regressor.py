"""Write scikit-learn's `SVMRegressor` as differences from its support vectors and sums.

TensorRT has no operators of ai.onnx.ml:

    Plugin not found, are the plugin name, version, and namespace correct?

    before    y = ai.onnx.ml.SVMRegressor<kernel_type="RBF", kernel_params=[gamma, ...], ...>(x)
    after     k = Exp(-gamma * ReduceSum((Unsqueeze(x, 1) - vectors)^2, axis=2));  y = ReduceSum(k * w) + rho

The kernels LINEAR, POLY and SIGMOID take products instead. It sums in another order. It takes memory for all
differences: at most 2**22 numbers a row.
"""

from typing import Any

import numpy as np
from _classical import in_float
from _opsets import reduced, unsqueezed

from onnxq.rule import Close, Except, Fires, Node, Skip, Skips, Value, op, required, rule

_MOST = 1 << 22


@rule("ai.onnx.ml.SVMRegressor", stage="compat", lacks="classical-operators")
def ml_svm_regressor(node: Node) -> Any:
    (x,) = required(node, 1)
    weights = np.array(node.attr("coefficients", []), np.float32)
    count = node.attr("n_supports", 0)
    rho = np.array(node.attr("rho", [0.0]), np.float32)[:1]
    if x.rank != 2 or not weights.size:
        raise Skip(f"{x.name!r} is not known to have 2 dimensions, or it has no coefficients")
    if not count:
        sums = reduced(node, "ReduceSum", op.Mul(in_float(x), weights), [1], keepdims=1)
    else:
        vectors = np.array(node.attr("support_vectors", []), np.float32).reshape(count, -1)
        if vectors.size > _MOST or weights.size != count:
            raise Skip(
                f"it has {vectors.size} numbers in its support vectors, or not one coefficient for each"
            )
        sums = reduced(
            node, "ReduceSum", op.Mul(_kernel(node, in_float(x), vectors), weights), [1], keepdims=1
        )
    y: Value = op.Add(sums, rho)
    if node.attr("post_transform") == "PROBIT":  # of one score onnxruntime applies no other
        raise Skip("its post_transform is PROBIT")
    if node.attr("one_class", 0):
        y = op.Where(op.Greater(y, np.float32(0)), np.float32(1), np.float32(-1))
    return Except(Close(y), "infinite-input", "infinities cancel in any order of a sum")


def _kernel(node: Node, x: Value, vectors: np.ndarray) -> Value:
    """What the kernel says of each row and support vector: [N, count]."""
    kind = node.attr("kernel_type", "LINEAR")
    given = [*node.attr("kernel_params", []), 0.0, 0.0, 0.0]
    gamma, shift, degree = (np.float32(number) for number in given[:3])
    if kind == "RBF":
        apart = op.Sub(unsqueezed(node, x, [1]), vectors)
        return op.Exp(op.Mul(reduced(node, "ReduceSum", op.Mul(apart, apart), [2]), -gamma))
    dots = op.MatMul(x, np.ascontiguousarray(vectors.T))
    if kind == "LINEAR":
        return dots
    inner = op.Add(op.Mul(dots, gamma), shift)
    if kind == "POLY":
        return op.Pow(inner, degree)
    if kind == "SIGMOID":
        return op.Tanh(inner)
    raise Skip(f"its kernel is {kind}")


_NET = """<ir_version: 8, opset_import: ["" : 17, "ai.onnx.ml" : 1]>
    g (float[%s] x) => (float[N, 1] y) { y = ai.onnx.ml.SVMRegressor <kernel_type = "%s", n_supports = 2,
        kernel_params = [0.5, 0.25, 2.0], support_vectors = [1.0, 2.0, -0.5, 0.25, 0.0, 1.5],
        coefficients = [0.5, -1.0], rho = [0.3]> (x) }"""

EXAMPLES = [
    Fires(_NET % ("N, 3", "RBF"), gone="SVMRegressor"),
    Fires(_NET % ("N, 3", "POLY"), gone="SVMRegressor"),
    Fires(
        (_NET % ("N, 3", "LINEAR")).replace('kernel_type = "LINEAR", ', ""),
        becomes="""_1 = MatMul (x, [3, 2] {1.0, 0.25, 2.0, 0.0, -0.5, 1.5}); _2 = Mul (_1, {0.5, -1.0})
        _3 = ReduceSum <keepdims = 1> (_2, {1}); y = Add (_3, {0.3})""",
    ),
    Fires(_NET % ("N, 3", "SIGMOID"), gone="SVMRegressor"),
    Skips(_NET % ("", "RBF"), because="2 dimensions"),
]
