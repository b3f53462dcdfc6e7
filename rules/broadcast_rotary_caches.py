"""Give ONNX's `RotaryEmbedding` cosines and sines for each sample of the batch.

Exporters write those of one sample for all of a dynamic batch:

    (node_RotaryEmbedding_546: cosCache has batch size 1 but must have the same batch size as input which is -1

    before    y = RotaryEmbedding(x, cosines, sines)                                 cosines: [1, tokens, half]
    after     y = RotaryEmbedding(x, Expand(cosines, [batch, 1, 1]), Expand(sines, [batch, 1, 1]))

onnxruntime refuses the original too, but for a batch of 1. There the result is bit-equal.
"""

import numpy as np
from _opsets import size_of

from onnxq.rule import Fires, Node, Skips, Value, op, operands, remake, rule


@rule("RotaryEmbedding", stage="compat")
def broadcast_rotary_caches(node: Node) -> Value | None:
    x, cosines, sines, ids = operands(node, 4)
    if x is None or cosines is None or sines is None or ids is not None or not x.shape:
        return None
    caches = [one.shape for one in (cosines, sines)]
    if x.shape[0] == 1 or any(shape is None or len(shape) != 3 or shape[0] != 1 for shape in caches):
        return None
    sizes = op.Concat(op.Reshape(size_of(node, x, 0), np.array([1])), np.array([1, 1]), axis=0)
    value: Value = remake(node, x, op.Expand(cosines, sizes), op.Expand(sines, sizes))
    return value


_NET = """<ir_version: 11, opset_import: ["" : 23]>
    g (float[%s] x, float[%s, T, 2] c, float[%s, T, 2] s) => (y) { y = RotaryEmbedding <num_heads = 3> (x, c, s) }"""

EXAMPLES = [
    Fires(
        _NET % ("N, 3, T, 4", 1, 1),
        becomes="""_1 = Shape (x); _2 = Gather (_1, 0); _3 = Reshape (_2, {1})
        _4 = Concat <axis = 0> (_3, {1, 1}); _5 = Expand (c, _4); _6 = Expand (s, _4)
        y = RotaryEmbedding <num_heads = 3> (x, _5, _6)""",
    ),
    Fires(_NET % ("N, T, 12", 1, 1)),
    Skips(_NET % ("1, 3, T, 4", 1, 1)),
    Skips(_NET % ("N, 3, T, 4", "N", "N")),
]
