"""Give onnxruntime's `GroupQueryAttention` the scale that it leaves out.

A scale of 0, or none, means one over the root of the head's size; TensorRT wants the number:

    parseNode: INVALID_NODE: Invalid Node - n0
    scale != 0: scale is invalid.

    before    y, ... = com.microsoft.GroupQueryAttention<num_heads=n>(query, ...)        query: [batch, tokens, n * 64]
    after     y, ... = com.microsoft.GroupQueryAttention<num_heads=n, scale=0.125>(query, ...)

The result is bit-equal.
"""

import numpy as np

from onnxq.rule import Fires, Node, Skip, Skips, Value, operands, remake, required, rule


@rule("com.microsoft.GroupQueryAttention", stage="compat", lacks="onnxruntime-fusions")
def explicit_grouped_query_scale(node: Node) -> dict[int, Value] | None:
    if node.attr("scale", 0.0):
        return None
    scale = float(np.float32(1) / np.sqrt(np.float32(_head_size(node))))
    made = remake(node, *node.inputs, scale=scale, outputs=len(node.outputs))
    return dict(enumerate(made))


def _head_size(node: Node) -> int:
    (query,), (_, key, _, past) = required(node, 1), operands(node, 4)
    cached = None if past is None else (past.shape or (None,))[-1]
    if isinstance(cached, int):
        return cached
    heads, pairs = int(node.attr("num_heads")), int(node.attr("kv_num_heads"))
    count = heads if key is not None else heads + 2 * pairs  # all three in one tensor
    hidden = (query.shape or (None,))[-1]
    if not isinstance(hidden, int):
        raise Skip("the size of its heads is not known")
    return hidden // count


def _net(query: str, reads: str, attributes: str = "", past: str = "r") -> str:
    """The size of the heads is that of r and q; that of a Gelu's results is not known."""
    return f"""<ir_version: 10, opset_import: ["" : 18, "com.microsoft" : 1]>
    g (float[{query}] q, float[1, 3, 8] k, float[1, 1, 0, 8] r) => (y, a, b) <int32[1] n = {{2}}, int32 t = {{3}}> {{
        p = com.microsoft.QuickGelu (r)  o = com.microsoft.QuickGelu (q)
        y, a, b = com.microsoft.GroupQueryAttention <num_heads = 2, kv_num_heads = 1{attributes}> (
            {reads}, {past}, {past}, n, t) }}"""


_MADE = (
    "y, a, b = com.microsoft.GroupQueryAttention <kv_num_heads = 1, num_heads = 2, scale = 0.35355338> "
    "(%s, int32 {2}, int32 3)"
)

_P, _O = "p = com.microsoft.QuickGelu (r)", "o = com.microsoft.QuickGelu (q)"

EXAMPLES = [
    Fires(_net("1, 3, 16", "o, k, k"), becomes=f"{_O}; {_MADE % 'o, k, k, r, r'}; {_P}"),
    Fires(
        _net("1, 3, 16", "q, k, k", ", scale = 0.0", "p"), becomes=f"{_P}; {_MADE % 'q, k, k, p, p'}; {_O}"
    ),
    Fires(_net("1, 3, 32", "q, , ", past="p"), becomes=f"{_P}; {_MADE % 'q, , , p, p'}; {_O}"),
    Skips(_net("1, 3, 16", "q, k, k", ", scale = 0.5")),
    Skips(_net("1, 3, 16", "o, k, k", past="p"), because="size of its heads"),
]
