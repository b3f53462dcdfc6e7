"""Write `Affine` as a product and a sum.

Converters of Core ML models wrote it, an operator that ONNX has withdrawn: no TensorRT and no opset
from 10 on has it.

    before    y = Affine <alpha = a, beta = b> (x)
    after     y = x * a + b
"""

import numpy as np

from onnxq.rule import Fires, Node, Skips, Value, op, required, rule


@rule("Affine", stage="clean")
def expand_affine(node: Node) -> Value | None:
    (x,) = required(node, 1)
    if x.dtype != np.float32:
        return None
    return op.Add(op.Mul(x, np.float32(node.attr("alpha", 1.0))), np.float32(node.attr("beta", 0.0)))


EXAMPLES = [
    Fires(
        """<ir_version: 4, opset_import: ["" : 9]>
        g (float[N, 3] x) => (float[N, 3] y) { y = Affine <alpha = 150.0, beta = -2.5> (x) }""",
        gone="Affine",
        becomes="_1 = Mul (x, 150.0); y = Add (_1, -2.5)",
    ),
    Fires(
        """<ir_version: 4, opset_import: ["" : 9]>
        g (float[N, 3] x) => (float[N, 3] y) { y = Affine (x) }""",
        becomes="_1 = Mul (x, 1.0); y = Add (_1, 0.0)",
    ),
    Skips(
        """<ir_version: 4, opset_import: ["" : 9]>
        g (float[N, 3] x) => (float[N, 3] y) { y = Relu (x) }"""
    ),
]
