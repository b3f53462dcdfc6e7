"""Write BitwiseNot as a difference.

TensorRT has no importer for it:

    No importer registered for op: BitwiseNot
    checkBitwiseNot: UNSUPPORTED_NODE

    before    y = BitwiseNot(x)
    after     y = -1 - x           of signed integers
              y = highest - x      of unsigned ones
"""

import numpy as np
from _integers import INTEGERS, name_of

from onnxq.rule import Fires, Node, Skip, Skips, Value, op, required, rule


@rule("BitwiseNot", stage="compat", lacks="BitwiseNot")
def bitwise_not_to_sub(node: Node) -> Value:
    (source,) = required(node, 1)
    name = name_of(source)
    if name not in INTEGERS:
        raise Skip(f"the type of {source.name!r} is not known")
    return op.Sub(np.array(np.iinfo(name).max if name.startswith("u") else -1, name), source)


_NET = """<ir_version: 8, opset_import: ["" : 18]> g (%s[N, 4] x) => (%s[N, 4] y) { y = %s (x) }"""

EXAMPLES = [
    Fires(_NET % ("int64", "int64", "BitwiseNot"), becomes="y = Sub (-1, x)"),
    Fires(_NET % ("uint8", "uint8", "BitwiseNot"), becomes="y = Sub (uint8 255, x)"),
    Skips(_NET % ("int64", "int64", "Neg")),
]
