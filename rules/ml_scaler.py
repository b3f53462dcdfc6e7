"""Write scikit-learn's `Scaler` as a difference and a product.

TensorRT has no operators of ai.onnx.ml:

    Plugin not found, are the plugin name, version, and namespace correct?

    before    y = ai.onnx.ml.Scaler<offset=o, scale=s>(x)
    after     y = Mul(Sub(x, o), s)
"""

import numpy as np
from _classical import in_float

from onnxq.rule import Fires, Node, Skips, Value, op, required, rule


@rule("ai.onnx.ml.Scaler", stage="compat", lacks="classical-operators")
def ml_scaler(node: Node) -> Value:
    (x,) = required(node, 1)
    offset = np.array(node.attr("offset", [0.0]), np.float32)
    scale = np.array(node.attr("scale", [1.0]), np.float32)
    return op.Mul(op.Sub(in_float(x), offset), scale)


_NET = """<ir_version: 8, opset_import: ["" : 17, "ai.onnx.ml" : 1]>
    g (%s[N, 3] x) => (float[N, 3] y) { y = ai.onnx.ml.Scaler <offset = [1.0, -0.5, 2.0], scale = [0.3, -2.0, 0.7]> (x) }"""

EXAMPLES = [
    Fires(_NET % "float", becomes="_1 = Sub (x, {1.0, -0.5, 2.0}); y = Mul (_1, {0.3, -2.0, 0.7})"),
    Fires(
        _NET % "int64",
        becomes="""_1 = Cast <to = 1> (x); _2 = Sub (_1, {1.0, -0.5, 2.0})
        y = Mul (_2, {0.3, -2.0, 0.7})""",
    ),
    Skips(_NET % "double", because="float64"),
]
