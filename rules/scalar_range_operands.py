"""Give `Range` scalars.

ONNX asks for scalars; exporters also write tensors of shape [1]. onnxruntime takes one that is computed, and
refuses the model as soon as it is a constant:

    [ShapeInferenceError] Input to 'Range' op should be scalars

    before    r = Range(start, limit, delta)                      with start of shape [1]
    after     r = Range(Reshape(start, []), limit, delta)
"""

import numpy as np

from onnxq.rule import Fires, Node, Skips, Value, op, required, rule


@rule("Range", stage="clean")
def scalar_range_operands(node: Node) -> Value | None:
    numbers = required(node, 3)
    if all(number.shape != (1,) for number in numbers):
        return None
    scalar = np.zeros(0, np.int64)
    return op.Range(*(op.Reshape(n, scalar) if n.shape == (1,) else n for n in numbers))


EXAMPLES = [
    Fires(
        """<ir_version: 8, opset_import: ["" : 17]>
        g (float[N, 4] x) => (int64[M] y) <int64[1] first = {0}, int64 zero = {0}, int64 one = {1}> {
            s = Shape (x)  n = Gather (s, first)  y = Range (zero, n, one) }""",
        becomes="s = Shape (x); n = Gather (s, {0}); _1 = Reshape (n, {}); y = Range (0, _1, 1)",
    ),
    Fires(
        """<ir_version: 8, opset_import: ["" : 13]>
        g (int32[1] a, int32 b, int32[1] c) => (int32[M] y) { y = Range (a, b, c) }""",
        becomes="_1 = Reshape (a, {}); _2 = Reshape (c, {}); y = Range (_1, b, _2)",
    ),
    Skips("""<ir_version: 8, opset_import: ["" : 17]>
        g (float[N, 4] x) => (int64[M] y) <int64 first = {0}, int64 zero = {0}, int64 one = {1}> {
            s = Shape (x)  n = Gather (s, first)  y = Range (zero, n, one) }"""),
]
