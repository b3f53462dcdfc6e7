"""Write Relu and PRelu of integers as what they are defined by.

TensorRT's are for floats:

    Found unsupported input type of INT32

    before    y = Relu(x)      y = PRelu(x, slope)
    after     y = Max(x, 0)    y = Where(x < 0, slope * x, x)
"""

import numpy as np

from onnxq.rule import Fires, Node, Skips, Value, op, required, rule


@rule("Relu", "PRelu", stage="compat", lacks="integer-activations")
def integer_activations(node: Node) -> Value | None:
    (source,) = required(node, 1)
    if source.dtype is None or source.dtype.kind != "i" or (node.op == "Relu" and source.dtype != np.int32):
        return None
    zero = np.zeros((), source.dtype)
    if node.op == "Relu":
        return op.Max(source, zero)
    return op.Where(op.Less(source, zero), op.Mul(required(node, 2)[1], source), source)


_NET = """<ir_version: 8, opset_import: ["" : 17]> g (%s[N, 4] x) => (%s[N, 4] y) <%s[4] s = {2, 0, -1, 3}> { y = %s }"""

EXAMPLES = [
    Fires(_NET % ("int32", "int32", "int32", "Relu (x)"), becomes="y = Max (x, int32 0)"),
    Fires(
        _NET % ("int32", "int32", "int32", "PRelu (x, s)"),
        becomes="""_1 = Less (x, int32 0)
        _2 = Mul (int32 {2, 0, -1, 3}, x); y = Where (_1, _2, x)""",
    ),
    Fires(_NET % ("int64", "int64", "int64", "PRelu (x, s)"), gone="PRelu"),
    Skips(_NET % ("float", "float", "float", "PRelu (x, s)")),
]
