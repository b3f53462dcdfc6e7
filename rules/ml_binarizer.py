"""Write scikit-learn's `Binarizer` as a comparison.

TensorRT has no operators of ai.onnx.ml:

    Plugin not found, are the plugin name, version, and namespace correct?

    before    y = ai.onnx.ml.Binarizer<threshold=0.5>(x)
    after     y = Cast(Greater(x, 0.5))
"""

import numpy as np

from onnxq.rule import Fires, Node, Skip, Skips, Value, op, required, rule


@rule("ai.onnx.ml.Binarizer", stage="compat", lacks="classical-operators")
def ml_binarizer(node: Node) -> Value:
    (x,) = required(node, 1)
    if x.dtype != np.float32:  # onnxruntime has it for no other
        raise Skip(f"the type of {x.name!r} is {x.dtype or 'not known'}")
    return op.Cast(op.Greater(x, np.float32(node.attr("threshold", 0.0))), to=1)


_NET = """<ir_version: 8, opset_import: ["" : 17, "ai.onnx.ml" : 1, "com.microsoft" : 1]>
    g (%s[N, 2] x) => (%s[N, 2] y) { y = ai.onnx.ml.Binarizer <threshold = 0.5> (x) }"""

EXAMPLES = [
    Fires(_NET % ("float", "float"), becomes="_1 = Greater (x, 0.5); y = Cast <to = 1> (_1)"),
    Skips(
        (_NET % ("float", "float"))
        .replace("{ y", "{ h = com.microsoft.QuickGelu (x) y")
        .replace("> (x)", "> (h)"),
        because="not known",
    ),
]
