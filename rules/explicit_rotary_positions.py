"""Give onnxruntime's `RotaryEmbedding` a position for each token, and the number of its heads.

One position means that of the first token; of three dimensions the number of heads follows from the caches:

    parseNode: INVALID_NODE: Invalid Node - n0
    num_heads attribute is required for 3D input tensors.

    before    y = com.microsoft.RotaryEmbedding(x, first, cosines, sines)                first: [1]
    after     ids = Expand(first + Range(0, tokens, 1), [batch, tokens])
              y = com.microsoft.RotaryEmbedding<num_heads=n>(x, ids, cosines, sines)

A constant position and known sizes give a constant. The result is bit-equal.
"""

import numpy as np
from _opsets import size_of

from onnxq.rule import Fires, Node, Skip, Skips, Tensor, Value, constant, op, remake, required, rule


@rule("com.microsoft.RotaryEmbedding", stage="compat", lacks="onnxruntime-fusions")
def explicit_rotary_positions(node: Node) -> Value | None:
    x, ids, cosines, sines = required(node, 4)
    lacks_heads = x.rank == 3 and not node.attr("num_heads", 0)
    if ids.rank != 1 and not lacks_heads:
        return None
    if x.rank not in (3, 4):
        raise Skip(f"the rank of {x.name!r} is not known")
    positions = _positions(node, x, ids) if ids.rank == 1 else ids
    heads = {"num_heads": _heads(x, cosines)} if lacks_heads else {}
    value: Value = remake(node, x, positions, cosines, sines, **heads)
    return value


def _positions(node: Node, x: Tensor, ids: Tensor) -> Value | np.ndarray:
    batch, tokens = size_of(node, x, 0), size_of(node, x, 1 if x.rank == 3 else 2)
    first = constant(ids)
    if first is not None and isinstance(batch, np.int64) and isinstance(tokens, np.int64):
        known: np.ndarray = np.broadcast_to(first + np.arange(tokens), (int(batch), int(tokens))).copy()
        return known
    zero, one = np.int64(0), np.array([1])
    sizes = op.Concat(*(op.Reshape(size, one) for size in (batch, tokens)), axis=0)
    return op.Expand(op.Add(ids, op.Range(zero, tokens, np.int64(1))), sizes)


def _heads(x: Tensor, cosines: Tensor) -> int:
    hidden, half = (x.shape or (None,))[-1], (cosines.shape or (None,))[-1]
    if not isinstance(hidden, int) or not isinstance(half, int) or half == 0 or hidden % (2 * half):
        raise Skip(f"its heads of 2 * {half} numbers do not divide {hidden}")
    return hidden // (2 * half)


_NET = """<ir_version: 8, opset_import: ["" : 17, "com.microsoft" : 1]>
    g (float[%s] x, float[9, 2] c, float[9, 2] s, int64[A, B] p, int64[K] k) => (y) <int64[1] i = {2}, int64[2, 3] j = {1, 2, 3, 0, 1, 2}> {
        y = com.microsoft.RotaryEmbedding %s (x, %s, c, s) }"""

EXAMPLES = [
    Fires(
        _NET % ("2, 1, 3, 4", "<interleaved = 1>", "i"),
        becomes="""y = com.microsoft.RotaryEmbedding <interleaved = 1> (x, [2, 3] {2, 3, 4, 2, 3, 4}, c, s)""",
    ),
    Fires(
        _NET % ("N, T, 8", "<num_heads = 2>", "i"),
        becomes="""_1 = Shape (x); _2 = Gather (_1, 1); _3 = Range (0, _2, 1); _4 = Add ({2}, _3)
        _5 = Shape (x); _6 = Gather (_5, 0); _7 = Reshape (_6, {1}); _8 = Reshape (_2, {1})
        _9 = Concat <axis = 0> (_7, _8); _10 = Expand (_4, _9)
        y = com.microsoft.RotaryEmbedding <num_heads = 2> (x, _10, c, s)""",
    ),
    Fires(
        _NET % ("2, 3, 8", "", "j"),
        becomes="y = com.microsoft.RotaryEmbedding <num_heads = 2> (x, [2, 3] {1, 2, 3, 0, 1, 2}, c, s)",
    ),
    Skips(_NET % ("2, 1, 3, 4", "", "j")),
    Skips(_NET % ("2, 3, 8", "<num_heads = 2>", "j")),
    Skips((_NET % ("2, 3, 8", "", "j")).replace("float[9, 2] c", "float[9, C] c"), because="do not divide"),
]
