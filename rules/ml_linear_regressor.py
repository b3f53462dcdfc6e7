"""Write scikit-learn's `LinearRegressor` as a Gemm.

TensorRT has no operators of ai.onnx.ml:

    Plugin not found, are the plugin name, version, and namespace correct?

    before    y = ai.onnx.ml.LinearRegressor<coefficients=w, intercepts=b, targets=2>(x)
    after     y = Gemm(x, w, b)

It may sum in another order.
"""

from typing import Any

import numpy as np
from _classical import in_float, transformed

from onnxq.rule import Close, Except, Fires, Node, Skip, Skips, op, required, rule


@rule("ai.onnx.ml.LinearRegressor", stage="compat", lacks="classical-operators")
def ml_linear_regressor(node: Node) -> Any:
    (x,) = required(node, 1)
    weights = np.array(node.attr("coefficients", []), np.float32)
    targets = node.attr("targets", 1)
    if x.rank != 2:
        raise Skip(f"{x.name!r} has {'an unknown number of' if x.rank is None else x.rank} dimensions")
    if not weights.size or weights.size % targets:
        raise Skip(f"it has {weights.size} coefficients for {targets} targets")
    matrix = np.ascontiguousarray(weights.reshape(targets, -1).T)
    bias = node.attr("intercepts")
    if node.attr("post_transform") == "PROBIT":
        raise Skip("its post_transform is PROBIT")
    y = op.Gemm(in_float(x), matrix, *([np.array(bias, np.float32)] if bias else []))
    return Except(
        Close(transformed(node, y) if targets > 1 else y),
        "infinite-input",
        "infinities cancel in any order of a sum",
    )


_NET = """<ir_version: 8, opset_import: ["" : 17, "ai.onnx.ml" : 1]>
    g (%s x) => (float[N, %s] y) { y = ai.onnx.ml.LinearRegressor <coefficients = [0.5, -1.0, 2.0, 0.25, 3.0, -0.7], %s> (x) }"""

EXAMPLES = [
    Fires(
        _NET % ("float[N, 3]", 2, "targets = 2, intercepts = [0.5, -2.0]"),
        becomes="y = Gemm (x, [3, 2] {0.5, 0.25, -1.0, 3.0, 2.0, -0.7}, {0.5, -2.0})",
    ),
    Fires(
        _NET % ("float[N, 6]", 1, 'post_transform = "LOGISTIC"'),
        becomes="y = Gemm (x, [6, 1] {0.5, -1.0, 2.0, 0.25, 3.0, -0.7})",
    ),
    Skips(_NET % ("float[N, 6]", 1, 'post_transform = "PROBIT"'), because="PROBIT"),
    Skips(_NET % ("float[N, 3]", 4, "targets = 4"), because="6 coefficients for 4 targets"),
    Skips(_NET % ("float[]", 1, "targets = 1"), because="dimensions"),
]
