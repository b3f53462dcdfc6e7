"""Write `ArrayFeatureExtractor` as a Gather.

TensorRT has no operators of ai.onnx.ml:

    Plugin not found, are the plugin name, version, and namespace correct?

    before    y = ai.onnx.ml.ArrayFeatureExtractor(x, i)
    after     y = Gather(x, Reshape(i, [-1]), axis=-1)                 x: [N, C]
"""

import numpy as np

from onnxq.rule import Fires, Node, Skip, Skips, Value, constant, op, required, rule


@rule("ai.onnx.ml.ArrayFeatureExtractor", stage="compat", lacks="classical-operators")
def ml_array_feature_extractor(node: Node) -> Value:
    x, indices = required(node, 2)
    if x.rank is None:
        raise Skip(f"the rank of {x.name!r} is not known")
    if x.dtype is None or x.dtype.kind not in "fiu":
        raise Skip(f"{x.name!r} holds text, or what is not known, not numbers")
    values = constant(indices)
    flat = op.Reshape(indices, np.array([-1])) if values is None else values.reshape(-1)
    y = op.Gather(x, flat, axis=x.rank - 1)
    return op.Reshape(y, np.array([1, -1])) if x.rank == 1 else y


_NET = """<ir_version: 8, opset_import: ["" : 17, "ai.onnx.ml" : 1]>
    g (%s x) => (%s y) <int64[1, 2] i = {2, 0}> { y = ai.onnx.ml.ArrayFeatureExtractor (x, i) }"""

EXAMPLES = [
    Fires(_NET % ("float[N, 3]", "float[N, 2]"), becomes="y = Gather <axis = 1> (x, {2, 0})"),
    Fires(
        _NET % ("int64[3]", "int64[1, 2]"),
        becomes="_1 = Gather <axis = 0> (x, {2, 0}); y = Reshape (_1, {1, -1})",
    ),
    Skips(_NET % ("string[N, 3]", "string[N, 2]"), because="not numbers"),
]
