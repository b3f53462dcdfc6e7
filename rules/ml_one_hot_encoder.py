"""Write scikit-learn's `OneHotEncoder` as a comparison with its categories.

TensorRT has no operators of ai.onnx.ml:

    Plugin not found, are the plugin name, version, and namespace correct?

    before    y = ai.onnx.ml.OneHotEncoder<cats_int64s=c>(x)
    after     y = Cast(Equal(Unsqueeze(x, -1), c))
"""

import numpy as np
from _classical import of_texts
from _opsets import unsqueezed

from onnxq.rule import Fires, Node, Skip, Skips, Value, op, required, rule


@rule("ai.onnx.ml.OneHotEncoder", stage="compat", lacks="classical-operators")
def ml_one_hot_encoder(node: Node) -> Value:
    (x,) = required(node, 1)
    of_texts(node, "cats_strings")
    if x.rank is None or x.dtype is None or x.dtype.kind not in "fi" or x.dtype == np.float64:
        raise Skip(f"the type or the rank of {x.name!r} is not known, or no number's")
    if node.attr("zeros") == 0:
        raise Skip("it fails at what is no category (zeros=0), which TensorRT cannot")
    whole = x if x.dtype == np.int64 else op.Cast(x, to=7)
    return op.Cast(
        op.Equal(unsqueezed(node, whole, [x.rank]), np.array(node.attr("cats_int64s"), np.int64)), to=1
    )


_NET = """<ir_version: 8, opset_import: ["" : 17, "ai.onnx.ml" : 1]>
    g (int64[N, 2] x) => (float[N, 2, 3] y) { y = ai.onnx.ml.OneHotEncoder <cats_int64s = [4, 1, 0]%s> (x) }"""

EXAMPLES = [
    Fires(_NET % "", becomes="_1 = Unsqueeze (x, {2}); _2 = Equal (_1, {4, 1, 0}); y = Cast <to = 1> (_2)"),
    Fires(
        (_NET % "").replace("int64[N, 2]", "float[N, 2]"),
        becomes="_1 = Cast <to = 7> (x); _2 = Unsqueeze (_1, {2}); _3 = Equal (_2, {4, 1, 0}); y = Cast <to = 1> (_3)",
    ),
    Skips((_NET % "").replace("int64[N, 2]", "int64[]"), because="the rank of 'x'"),
    Skips((_NET % "").replace("int64[N, 2]", "double[N, 2]"), because="no number's"),
    Skips(_NET % ", zeros = 0", because="zeros=0"),
]
