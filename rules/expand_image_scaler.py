"""Write `ImageScaler` as a product and a sum.

Converters of Core ML models wrote it, an operator that ONNX has withdrawn: no TensorRT since 8 and no
opset from 10 on has it.

    before    y = ImageScaler <scale = s, bias = [b0, b1, b2]> (x)
    after     y = x * s + b                                             b: [3, 1, 1]
"""

import numpy as np

from onnxq.rule import Fires, Node, Skips, Value, op, required, rule


@rule("ImageScaler", stage="clean")
def expand_image_scaler(node: Node) -> Value | None:
    (x,) = required(node, 1)
    if x.dtype != np.float32:
        return None
    bias = np.array(node.attr("bias", []), np.float32).reshape(-1, 1, 1)
    return op.Add(op.Mul(x, np.float32(node.attr("scale", 1.0))), bias)


_NET = """<ir_version: 4, opset_import: ["" : 9]>
    g (%s[N, 3, 4, 5] x) => (%s[N, 3, 4, 5] y) { y = ImageScaler <scale = 0.25, bias = [1.0, -2.0, 0.5]> (x) }"""

EXAMPLES = [
    Fires(
        _NET % ("float", "float"),
        gone="ImageScaler",
        becomes="_1 = Mul (x, 0.25); y = Add (_1, [3, 1, 1] {1.0, -2.0, 0.5})",
    ),
    Fires(
        """<ir_version: 4, opset_import: ["" : 9]>
        g (float[N, 2, 4, 5] x) => (float[N, 2, 4, 5] y) { y = ImageScaler <bias = [1.0, -2.0]> (x) }""",
        becomes="_1 = Mul (x, 1.0); y = Add (_1, [2, 1, 1] {1.0, -2.0})",
    ),
    Skips(
        """<ir_version: 4, opset_import: ["" : 9]>
        g (float[N, 3] x) => (float[N, 3] y) { y = Relu (x) }"""
    ),
]
