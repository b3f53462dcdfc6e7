"""Write the forms of onnxruntime's `MultiHeadAttention` that TensorRT does not take as products.

It takes queries, keys and values of three dimensions and one size, with what is added to the scores, and one output:

    MultiHeadAttention bias input is not supported by TensorRT-RTX.
    MultiHeadAttention key_padding_mask input is not supported by TensorRT-RTX.
    TensorRT-RTX only supports MultiHeadAttention with a single context output.
    TensorRT-RTX MultiHeadAttention requires query, key, and value inputs.

    before    y, key, value = com.microsoft.MultiHeadAttention<num_heads=n>(q, k, v, bias, mask, added, past, past)
    after     q, k, v = heads of each + its part of the bias,  k and v behind those of the past
              y = Softmax(q · kᵀ / √size + mask + added) · v

A mask [batch, keys] is 0 where a key is not read; a mask [batch] says how many keys are. What is not read has
`mask_filter_value` added, in float32. Close: sums in another order.
"""

import numpy as np
from _opsets import sliced, unsqueezed

from onnxq.rule import (
    Close,
    Except,
    Fires,
    Node,
    Skip,
    Skips,
    Tensor,
    Value,
    limits,
    op,
    operands,
    rule,
)

_FLOAT = 1  # onnx.TensorProto.FLOAT
_FLOAT16 = 10


@rule("com.microsoft.MultiHeadAttention", stage="compat", lacks="onnxruntime-fusions")
def unfuse_multi_head_attention(node: Node) -> Close | Except | None:
    q, k, v, bias, mask, added, past_key, past_value = operands(node, 8)[:8]
    if q is None or k is None or v is None:
        raise Skip("queries, keys and values are one tensor")
    more = [tensor for tensor in (bias, mask, past_key, past_value) if tensor is not None]
    if not more and not any(tensor.name for tensor in node.outputs[1:]) and _is_one_size(k, v):
        return None
    if any(tensor is not None for tensor in operands(node, 10)[8:]):
        raise Skip("past and present share their memory")
    if len(node.outputs) > 3 and node.outputs[3].name:
        raise Skip("its scores are read (output 3)")
    if any(tensor.rank != 3 for tensor in (q, k, v)):
        raise Skip("its queries, keys and values are not of three dimensions")
    if q.dtype not in (np.float32, np.float16) or not isinstance((q.shape or (None,))[-1], int):
        raise Skip(f"the type or the size of {q.name!r} is not known")
    if mask is not None and (mask.rank not in (1, 2, 3) or (mask.rank == 1 and not _is_a_row_each(mask, q))):
        raise Skip(f"the shape of its mask is {mask.shape}")
    causal = bool(node.attr("unidirectional", 0))
    if causal and (q.shape or (None,) * 3)[1] != (k.shape or (0, 0))[1]:
        raise Skip(f"it is unidirectional with {k.name!r} of another length than {q.name!r}")
    short = q.dtype == np.float16
    count, hidden = node.attr("num_heads"), int((q.shape or ())[-1] or 0)
    starts = [0, hidden, 2 * hidden, (1 << 62)]
    parts = []
    for index, tensor in enumerate((q, k, v)):
        value = _wide(tensor, short)
        if bias is not None:
            own = sliced(node, bias, [starts[index]], [starts[index + 1]], [0])
            value = op.Add(value, _wide(own, short))
        apart = op.Reshape(value, np.array([0, 0, count, -1]))
        parts.append(op.Transpose(apart, perm=[0, 2, 1, 3]))
    query, key, value = parts
    if past_key is not None and past_value is not None:
        key = op.Concat(_wide(past_key, short), key, axis=2)
        value = op.Concat(_wide(past_value, short), value, axis=2)
    scale = np.float32(node.attr("scale", 0) or 1 / np.sqrt(hidden // count))
    scores = op.Mul(op.MatMul(query, op.Transpose(key, perm=[0, 1, 3, 2])), scale)
    if added is not None:
        scores = op.Add(scores, _wide(added, short))
    if mask is not None:
        closed = np.float32(node.attr("mask_filter_value", -10000.0))
        scores = op.Add(scores, op.Where(_read(node, mask, scores), np.float32(0), closed))
    if causal:
        scores = op.Where(_later(scores, past_key), limits(np.dtype(np.float32))[0], scores)
    read = op.Transpose(op.MatMul(op.Softmax(scores, axis=3), value), perm=[0, 2, 1, 3])
    found = [op.Reshape(read, np.array([0, 0, -1])), key, value]
    given = {
        index: op.Cast(found[index], to=_FLOAT16) if short else found[index]
        for index, tensor in enumerate(node.outputs)
        if tensor.name
    }
    if causal or mask is not None:
        return Except(Close(given), "extreme-input", "a score that is no number is of no key")
    return Close(given)


def _is_one_size(k: Tensor, v: Tensor) -> bool:
    sizes = [None if tensor.shape is None else tensor.shape[-1] for tensor in (k, v)]
    return sizes[0] == sizes[1] or None in sizes


def _is_a_row_each(mask: Tensor, q: Tensor) -> bool:
    rows = [None if tensor.shape is None else tensor.shape[0] for tensor in (mask, q)]
    return rows[0] is not None and rows[0] == rows[1]


def _wide(value: Value, short: bool) -> Value:
    return op.Cast(value, to=_FLOAT) if short else value


def _read(node: Node, mask: Tensor, scores: Value) -> Value:
    """Whether a key is read: bool [batch, 1, 1 or queries, keys]."""
    if mask.rank == 1:
        keys = op.Cast(op.Range(np.int64(0), op.Gather(op.Shape(scores), np.int64(3)), np.int64(1)), to=6)
        return op.Less(keys, op.Reshape(mask, np.array([-1, 1, 1, 1])))
    return unsqueezed(node, op.Greater(mask, np.array(0, np.int32)), [1, 2] if mask.rank == 2 else [1])


def _later(scores: Value, past: Tensor | None) -> Value:
    """Whether a key is after a query: bool [queries, keys]."""
    shape = op.Shape(scores)
    queries, keys = op.Gather(shape, np.int64(2)), op.Gather(shape, np.int64(3))
    places = op.Reshape(op.Range(np.int64(0), queries, np.int64(1)), np.array([-1, 1]))
    if past is not None:
        places = op.Add(places, op.Gather(op.Shape(past), np.int64(2)))
    return op.Greater(op.Range(np.int64(0), keys, np.int64(1)), places)


_NET = """<ir_version: 8, opset_import: ["" : %s, "com.microsoft" : 1]>
    g (%s[N, S, 4] q, %s[N, T, 4] k, %s[N, T, %s] v, %s[%s] b, int32[N, T] m, int32[N] n, %s[1, 2, S, T] d, %s[N, 2, P, 2] p) => (%s) {
        %s = com.microsoft.MultiHeadAttention <num_heads = 2 %s> (%s) }"""


def _net(
    inputs: str, attributes: str = "", outputs: str = "y", opset: int = 17, kind: str = "float", size: int = 4
) -> str:
    kinds = [kind] * 3 + [size, kind, 8 + size, kind, kind]
    return _NET % (opset, *kinds, outputs, outputs, attributes and f", {attributes}", inputs)


EXAMPLES = [
    Fires(
        _net("q, k, v, b"),
        gone="MultiHeadAttention",
        becomes="""_1 = Slice (b, {0}, {4}, {0}, {1}); _2 = Add (q, _1); _3 = Reshape (_2, {0, 0, 2, -1})
        _4 = Transpose <perm = [0, 2, 1, 3]> (_3); _5 = Slice (b, {4}, {8}, {0}, {1}); _6 = Add (k, _5)
        _7 = Reshape (_6, {0, 0, 2, -1}); _8 = Transpose <perm = [0, 2, 1, 3]> (_7)
        _9 = Transpose <perm = [0, 1, 3, 2]> (_8); _10 = MatMul (_4, _9); _11 = Mul (_10, 0.70710677)
        _12 = Softmax <axis = 3> (_11); _13 = Slice (b, {8}, {4611686018427387904}, {0}, {1})
        _14 = Add (v, _13); _15 = Reshape (_14, {0, 0, 2, -1})
        _16 = Transpose <perm = [0, 2, 1, 3]> (_15); _17 = MatMul (_12, _16)
        _18 = Transpose <perm = [0, 2, 1, 3]> (_17); y = Reshape (_18, {0, 0, -1})""",
    ),
    Fires(
        _net("q, k, v, , m", "mask_filter_value = -50.0, unidirectional = 1", opset=11).replace(
            "N, S, 4", "N, T, 4"
        ),
        gone="MultiHeadAttention",
    ),
    Fires(_net("q, k, v, b, n, d"), gone="MultiHeadAttention"),
    Fires(
        _net("q, k, v, , , , p, p", "unidirectional = 1, scale = 0.3", "y, r, s")
        .replace("N, S, 4", "N, T, 4")
        .replace("N, T] m", "N, U] m"),
        gone="MultiHeadAttention",
    ),
    Fires(_net("q, k, v, b", kind="float16"), gone="MultiHeadAttention"),
    Fires(_net("q, k, v, b", size=6), gone="MultiHeadAttention"),
    Skips(_net("q, k, v, b, n").replace("int32[N] n", "int32[K] n"), because="the shape of its mask"),
    Skips(_net("q, k, v, b").replace("[N, S, 4] q", "[N, S, D] q"), because="size of 'q'"),
    Skips(_net("q, k, v, b", "unidirectional = 1"), because="another length"),
    Skips(_net("q, k, v")),
    Skips(_net("q, k, v, , , d", "unidirectional = 1")),
]
