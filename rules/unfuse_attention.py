"""Write onnxruntime's `Attention` as the products that it is made of.

onnxruntime's optimizer joins them; TensorRT has no importer for that:

    Plugin not found, are the plugin name, version, and namespace correct?

    before    y, present = com.microsoft.Attention<num_heads=n>(x, W, b, mask, past)
    after     q, k, v = heads of x · W + b,  k and v behind those of the past
              y = Softmax(q · kᵀ / √size + mask) · v

A mask is 0 where a key is not read, 1 where it is: [batch, keys] or [batch, queries, keys]; of one dimension it
is how many keys of each row are read, [batch], or where they end and, behind that, begin, [2 * batch]. With
`unidirectional` a query reads no later key. Both are large negative numbers that are added, in float32:
float16 cannot hold them.
"""

import numpy as np

from onnxq.rule import (
    Close,
    Fires,
    Node,
    Skip,
    Skips,
    Tensor,
    Value,
    is_static,
    limits,
    op,
    operands,
    required,
    rule,
)

_FLOAT = 1  # onnx.TensorProto.FLOAT
_INT32, _FLOAT16 = 6, 10


@rule("com.microsoft.Attention", stage="compat", lacks="onnxruntime-fusions")
def unfuse_attention(node: Node) -> Close:
    x, weights = required(node, 2)
    bias, mask, past, added = operands(node, 6)[2:]
    reason = _reason(node)
    if reason is not None:
        raise Skip(reason)
    heads = node.attr("num_heads")
    size = int((weights.shape or ())[1] or 0) // 3 // heads
    short = weights.dtype == np.float16
    projected = _wide(op.Add(op.MatMul(x, weights), bias), short)
    apart = op.Transpose(op.Reshape(projected, np.array([0, 0, 3, heads, size])), perm=[2, 0, 3, 1, 4])
    new = op.Slice(apart, np.array([1]), np.array([3]), np.array([0]))
    present = new if past is None else op.Concat(_wide(past, short), new, axis=3)
    query, key, value = (op.Gather(t, i, axis=0) for t, i in ((apart, 0), (present, 0), (present, 1)))
    scores = op.MatMul(query, op.Transpose(key, perm=[0, 1, 3, 2]))
    scores = op.Mul(scores, np.float32(node.attr("scale", 0) or 1 / np.sqrt(size)))
    for penalty in (added if added is None else _wide(added, short), _penalty(node, scores, mask)):
        scores = scores if penalty is None else op.Add(scores, penalty)
    read = op.Transpose(op.MatMul(op.Softmax(scores, axis=3), value), perm=[0, 2, 1, 3])
    results = {0: op.Reshape(read, np.array([0, 0, heads * size]))}
    if len(node.outputs) > 1:
        results[1] = present
    if short:
        results = {index: op.Cast(result, to=_FLOAT16) for index, result in results.items()}
    return Close(results)


def _reason(node: Node) -> str | None:
    """Why an Attention is left alone; None where it is written as products."""
    _, weights, bias, mask, _, _, length = operands(node, 7)
    shape = weights.shape if weights is not None else None
    if bias is None:
        return "it has no bias, without which onnxruntime crashes"
    if length is not None or node.attr("past_present_share_buffer", 0):
        return "past and present share their memory"
    if node.attr("do_rotary", 0):
        return "it rotates queries and keys (do_rotary)"
    if mask is not None and mask.rank not in (2, 3) and _bounds(node) is None:
        return f"the shape of its mask is {mask.shape}, not [batch], [batch, keys] or [batch, queries, keys]"
    if weights is None or weights.dtype not in (np.float32, np.float16):
        return "the type of its weights is not float32 or float16"
    if shape is None or not is_static(shape) or len(set(node.attr("qkv_hidden_sizes", []))) > 1:
        return "queries, keys and values are of different or dynamic sizes"
    return None


def _bounds(node: Node) -> int | None:
    """Of a mask of one dimension: 1 where it says how many keys are read, 2 where it says from which, too."""
    x, mask = operands(node, 4)[0], operands(node, 4)[3]
    if mask is None or mask.rank != 1 or x is None or x.shape is None or mask.shape is None:
        return None
    size, batch = mask.shape[0], x.shape[0]
    if size is None or batch is None:
        return None
    if size == batch:
        return 1
    return 2 if isinstance(size, int) and isinstance(batch, int) and size == 2 * batch else None


def _within(node: Node, mask: Tensor, scores: Value) -> Value:
    """Whether a key is before the end of its row, and not before the start: bool [batch, 1, 1, keys]."""
    keys = op.Cast(op.Range(0, op.Gather(op.Shape(scores), 3), 1), to=_INT32)
    bounds = op.Reshape(mask, np.array([_bounds(node), -1, 1, 1, 1]))
    inside = op.Less(keys, op.Gather(bounds, 0))
    return inside if _bounds(node) == 1 else op.And(inside, op.GreaterOrEqual(keys, op.Gather(bounds, 1)))


def _wide(value: Value, short: bool) -> Value:
    return op.Cast(value, to=_FLOAT) if short else value


def _penalty(node: Node, scores: Value, mask: Tensor | None) -> Value | None:
    """What is added to scores [batch, heads, queries, keys]: float32; None where all keys are read."""
    penalty: Value | None = None
    closed = np.float32(node.attr("mask_filter_value", -10000.0))
    if mask is not None and mask.rank == 1:
        penalty = op.Where(_within(node, mask, scores), np.float32(0), closed)
    elif mask is not None:
        is_read = op.Greater(mask, np.array(0, np.int32))
        if mask.rank == 2:  # a mask of one key for all says nothing
            is_read = op.Or(is_read, op.Equal(op.Gather(op.Shape(mask), 1), 1))
        is_read = _unsqueezed(node, is_read, [1, 2] if mask.rank == 2 else [1])
        penalty = op.Where(is_read, np.float32(0), closed)
    if node.attr("unidirectional", 0):
        lowest, _ = limits(np.dtype(np.float32))
        penalty = op.Where(_later(scores), lowest, np.float32(0) if penalty is None else penalty)
    return penalty


def _later(scores: Value) -> Value:
    """Whether a key comes after a query, the last ones of the keys: bool [queries, keys]."""
    shape = op.Shape(scores)
    queries, keys = op.Gather(shape, 2), op.Gather(shape, 3)
    places = op.Reshape(op.Range(op.Sub(keys, queries), keys, 1), np.array([-1, 1]))
    return op.Greater(op.Range(0, keys, 1), places)


def _unsqueezed(node: Node, value: Value, axes: list[int]) -> Value:
    return op.Unsqueeze(value, axes=axes) if node.opset < 13 else op.Unsqueeze(value, np.array(axes))


_NET = """<ir_version: 8, opset_import: ["" : %s, "com.microsoft" : 1]>
    g (float[N, T, 4] x, int32[N, T] m, int32[N, T, T] c, int32[K] n, int32[N] e, float[2, N, 2, P, 3] p, int32[N, A] a,
       float[4, 18] w, float[18] b, float[N, 2, T, T] d) => (%s) {
        %s = com.microsoft.Attention <num_heads = 2 %s> (%s) }"""


def _net(inputs: str, attributes: str = "", outputs: str = "y", opset: int = 17) -> str:
    return _NET % (opset, outputs, outputs, attributes and f", {attributes}", inputs)


EXAMPLES = [
    Fires(
        _net("x, w, b"),
        gone="Attention",
        becomes="""_1 = MatMul (x, w); _2 = Add (_1, b); _3 = Reshape (_2, {0, 0, 3, 2, 3})
        _4 = Transpose <perm = [2, 0, 3, 1, 4]> (_3); _5 = Gather <axis = 0> (_4, 0)
        _6 = Slice (_4, {1}, {3}, {0}); _7 = Gather <axis = 0> (_6, 0)
        _8 = Transpose <perm = [0, 1, 3, 2]> (_7); _9 = MatMul (_5, _8); _10 = Mul (_9, 0.57735026)
        _11 = Softmax <axis = 3> (_10); _12 = Gather <axis = 0> (_6, 1); _13 = MatMul (_11, _12)
        _14 = Transpose <perm = [0, 2, 1, 3]> (_13); y = Reshape (_14, {0, 0, 6})""",
    ),
    Fires(_net("x, w, b, m"), gone="Attention"),
    Fires(_net("x, w, b, c", opset=11), gone="Attention"),
    Fires(_net("x, w, b, , , d", "scale = 0.3"), gone="Attention"),
    Fires(_net("x, w, b", "unidirectional = 1", opset=11), gone="Attention"),
    Fires(_net("x, w, b, m", "unidirectional = 1, mask_filter_value = -50.0", "y, z"), gone="Attention"),
    Fires(_net("x, w, b, , p", "unidirectional = 1", "y, z"), gone="Attention"),
    Fires(
        _net("x, w, b, a, p", "unidirectional = 1, mask_filter_value = -100000000.0", "y, z", 13),
        gone="Attention",
        becomes="""_1 = MatMul (x, w); _2 = Add (_1, b); _3 = Reshape (_2, {0, 0, 3, 2, 3})
        _4 = Transpose <perm = [2, 0, 3, 1, 4]> (_3); _5 = Gather <axis = 0> (_4, 0)
        _6 = Slice (_4, {1}, {3}, {0}); z = Concat <axis = 3> (p, _6); _7 = Gather <axis = 0> (z, 0)
        _8 = Transpose <perm = [0, 1, 3, 2]> (_7); _9 = MatMul (_5, _8); _10 = Mul (_9, 0.57735026)
        _11 = Shape (_10); _12 = Gather (_11, 3); _13 = Range (0, _12, 1); _14 = Gather (_11, 2)
        _15 = Sub (_12, _14); _16 = Range (_15, _12, 1); _17 = Reshape (_16, {-1, 1})
        _18 = Greater (_13, _17); _19 = Greater (a, int32 0); _20 = Shape (a); _21 = Gather (_20, 1)
        _22 = Equal (_21, 1); _23 = Or (_19, _22); _24 = Unsqueeze (_23, {1, 2})
        _25 = Where (_24, 0.0, -100000000.0); _26 = Where (_18, -3.4028235e+38, _25); _27 = Add (_10, _26)
        _28 = Softmax <axis = 3> (_27); _29 = Gather <axis = 0> (z, 1); _30 = MatMul (_28, _29)
        _31 = Transpose <perm = [0, 2, 1, 3]> (_30); y = Reshape (_31, {0, 0, 6})""",
    ),
    Fires(
        """<ir_version: 8, opset_import: ["" : 17, "com.microsoft" : 1]>
        g (float16[N, T, 4] x, float16[4, 12] w, float16[12] b, float16[2, N, 2, P, 2] p) => (y, z) {
            y, z = com.microsoft.Attention <num_heads = 2> (x, w, b, , p) }""",
        gone="Attention",
    ),
    Fires(_net("x, w, b, e"), gone="Attention"),
    Fires(
        """<ir_version: 8, opset_import: ["" : 17, "com.microsoft" : 1]>
        g (float[2, 3, 4] x, float[4, 12] w, float[12] b) => (y) <int32[4] m = {3, 2, 1, 0}> {
            y = com.microsoft.Attention <num_heads = 2, mask_filter_value = -9.0> (x, w, b, m) }""",
        gone="Attention",
    ),
    Skips(_net("x, w, b, n"), because="the shape of its mask is"),
    Skips(_net("x, w, b", "qkv_hidden_sizes = [4, 4, 10]"), because="different"),
    Skips(_net("x, w, b", "do_rotary = 1"), because="do_rotary"),
    Skips(_net("x, w"), because="no bias"),
]
