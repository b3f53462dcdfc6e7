"""Draw random numbers of double precision in float32.

TensorRT draws no others:

    Unsupported data type in randomUniform
    Unsupported data type in randomNormal

    before    y = RandomUniformLike<dtype=DOUBLE>(x)
    after     y = Cast<to=DOUBLE>(RandomUniformLike<dtype=FLOAT>(x))

The numbers are other ones in each run, as before; they have the same distribution, in steps of float32.
"""

import numpy as np

from onnxq.rule import Except, Fires, Node, Skips, op, remake, rule

_FLOAT, _DOUBLE = 1, 11  # onnx.TensorProto.DataType


@rule(
    "RandomUniform",
    "RandomNormal",
    "RandomUniformLike",
    "RandomNormalLike",
    stage="compat",
    lacks="random-double",
)
def random_in_float32(node: Node) -> Except | None:
    if node.outputs[0].dtype != np.float64:
        return None
    drawn = remake(node, *node.inputs, dtype=_FLOAT)
    return Except(op.Cast(drawn, to=_DOUBLE), "random", "its values are other ones in each run")


_NET = """<ir_version: 8, opset_import: ["" : 17]>
    g (%s[N, 3] x) => (double[N, 3] y) { %s }"""

EXAMPLES = [
    Fires(
        _NET % ("float", "y = RandomUniformLike <dtype = 11, high = 3.0> (x)"),
        becomes="_1 = RandomUniformLike <dtype = 1, high = 3.0> (x); y = Cast <to = 11> (_1)",
    ),
    Fires(_NET % ("double", "r = RandomNormal <shape = [3], dtype = 11> ()  y = Add (x, r)")),
    Skips(_NET % ("float", "r = RandomNormalLike (x)  y = Cast <to = 11> (r)")),
]
