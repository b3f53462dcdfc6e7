"""ONNX's `Attention` as the products that it is defined by."""

from dataclasses import dataclass

import numpy as np

from onnxq.rule import Close, Except, Node, Skip, Tensor, Value, is_static, limits, op, operands, required

FLOAT = 1  # onnx.TensorProto.FLOAT
SHORT = {"float16": 10, "bfloat16": 16}
_TABLE = 1 << 16  # a causal mask of so many elements is a constant


@dataclass(frozen=True, slots=True)
class Heads:
    """Queries, keys and values by heads, [batch, heads, length, size], the past before the keys and values."""

    query: Value
    key: Value
    value: Value
    count: int
    of_keys: int


def products(node: Node) -> Except:
    """What computes the outputs of an Attention that are read.

    Raises:
        Skip: it has a size or an attribute that is not known here.
    """
    q, k, v = required(node, 3)
    mask, past_key, past_value, lengths = operands(node, 7)[3:]
    if q.dtype is None or not all(tensor.rank in (3, 4) for tensor in (q, k, v)):
        raise Skip(f"the type or the rank of {q.name!r} is not known")
    if node.attr("left_window_size", -1) != -1 or node.attr("right_window_size", -1) != -1:
        raise Skip("it has a sliding window")
    short = SHORT.get(str(q.dtype))
    heads = _heads(node, short, past_key, past_value)
    groups = heads.count != heads.of_keys
    query = op.Reshape(heads.query, np.array([0, heads.of_keys, -1, 0])) if groups else heads.query
    scaled = op.Mul(query, np.float32(_scale(node, q)))
    raw = op.MatMul(scaled, op.Transpose(heads.key, perm=[0, 1, 3, 2]))
    raw = op.Reshape(raw, np.array([0, heads.count, -1, 0])) if groups else raw
    cap = node.attr("softcap", 0.0)
    capped = op.Mul(op.Tanh(op.Mul(raw, np.float32(1 / cap))), np.float32(cap)) if cap else raw
    total = op.Gather(op.Shape(heads.key), 2)
    masked, is_open = _masked(node, capped, heads, mask, total, lengths)
    shares = op.Softmax(masked, axis=-1)
    for one in is_open:  # a query that reads no key gives zeros
        shares = op.Where(one, shares, np.float32(0))
    read = op.Reshape(shares, np.array([0, heads.of_keys, -1, 0])) if groups else shares
    y = op.MatMul(read, heads.value)
    y = op.Reshape(y, np.array([0, heads.count, -1, 0])) if groups else y
    if q.rank == 3:
        y = op.Reshape(op.Transpose(y, perm=[0, 2, 1, 3]), np.array([0, 0, -1]))
    stages = [raw, capped, masked, shares]
    found = [y, heads.key, heads.value, stages[node.attr("qk_matmul_output_mode", 0)]]
    given = {
        index: found[index] if short is None else op.Cast(found[index], to=short)
        for index, tensor in enumerate(node.outputs)
        if tensor.name
    }
    return Except(Close(given), "extreme-input", "a score that is no number is of no key")


def _heads(node: Node, short: int | None, past_key: Tensor | None, past_value: Tensor | None) -> Heads:
    q, k, v = required(node, 3)
    counts = [node.attr(name, 0) for name in ("q_num_heads", "kv_num_heads", "kv_num_heads")]
    found: list[Value] = []
    for index, tensor in enumerate((q, k, v)):
        value: Value = tensor if short is None else op.Cast(tensor, to=FLOAT)
        if tensor.rank == 3:
            value = op.Transpose(op.Reshape(value, np.array([0, 0, counts[index], -1])), perm=[0, 2, 1, 3])
        else:
            counts[index] = (tensor.shape or ())[1]
        found.append(value)
    if not all(isinstance(count, int) and count > 0 for count in counts) or counts[0] % counts[1]:
        raise Skip(f"its numbers of heads are {counts[0]} and {counts[1]}")
    for index, past in ((1, past_key), (2, past_value)):
        if past is not None:
            before = past if short is None else op.Cast(past, to=FLOAT)
            found[index] = op.Concat(before, found[index], axis=2)
    query, key, value = found
    return Heads(query, key, value, counts[0], counts[1])


def _scale(node: Node, q: Tensor) -> float:
    given = node.attr("scale")
    if given is not None:
        return float(given)
    size = (q.shape or (None,))[-1]
    if not isinstance(size, int):
        raise Skip(f"the size of its heads is not known ({size})")
    return float(1 / np.sqrt(size if q.rank == 4 else size // node.attr("q_num_heads")))


def _masked(
    node: Node, scores: Value, heads: Heads, mask: Tensor | None, total: Value, lengths: Tensor | None
) -> tuple[Value, list[Value | np.ndarray]]:
    """Scores of which those of closed keys are the lowest number, and for each mask what it leaves open."""
    is_open: list[Value | np.ndarray] = []
    if mask is not None and mask.dtype == np.dtype(bool):
        is_open.append(_fitted(mask, mask, False, heads, total))
    elif mask is not None:
        wide = mask if mask.dtype == np.float32 else op.Cast(mask, to=FLOAT)
        added = _fitted(mask, wide, np.float32(-np.inf), heads, total)
        scores = op.Add(scores, added)
        is_open.append(op.GreaterOrEqual(added, np.float32(limits(np.dtype(np.float32))[0])))
    if lengths is not None:
        is_open.append(op.Less(op.Range(0, total, 1), op.Reshape(lengths, np.array([-1, 1, 1, 1]))))
    if node.attr("is_causal", 0):
        is_open.append(_earlier(heads, operands(node, 5)[4], total, lengths))
    for one in is_open:
        scores = op.Where(one, scores, np.float32(limits(np.dtype(np.float32))[0]))
    return scores, is_open


def _earlier(heads: Heads, past: Tensor | None, total: Value, lengths: Tensor | None) -> Value | np.ndarray:
    """Whether a key is not after a query: bool [queries, keys], or [batch, 1, queries, keys] with lengths."""
    sizes = (heads.query.shape or (None,) * 4)[2], (heads.key.shape or (None,) * 4)[2]
    before = 0 if past is None else (past.shape or (None,) * 4)[2]
    if lengths is None and isinstance(before, int) and all(isinstance(size, int) for size in sizes):
        queries, keys = (int(size or 0) for size in sizes)
        if queries * keys <= _TABLE:
            return np.tri(queries, keys, before, dtype=bool)
    count = op.Gather(op.Shape(heads.query), 2)
    places: Value = op.Reshape(op.Range(0, count, 1), np.array([-1, 1]))
    if lengths is not None:
        places = op.Add(places, op.Sub(op.Reshape(lengths, np.array([-1, 1, 1, 1])), count))
    elif past is not None:
        places = op.Add(places, op.Gather(op.Shape(past), 2))
    return op.LessOrEqual(op.Range(0, total, 1), places)


def _fitted(mask: Tensor, value: Value, closed: bool | np.float32, heads: Heads, total: Value) -> Value:
    """A mask of as many keys as there are: the last ones that it does not speak of are closed."""
    own, keys = (mask.shape or (None,))[-1], (heads.key.shape or (None,) * 4)[2]
    if own is not None and own == keys:
        return value
    shape = op.Shape(value)
    rest = op.Sub(op.Reshape(total, np.array([1])), op.Slice(shape, np.array([-1]), np.array([1 << 62])))
    sizes = op.Concat(op.Slice(shape, np.array([0]), np.array([-1])), rest, axis=0)
    return op.Concat(value, op.Expand(np.array(closed), sizes), axis=-1)


def has_kernel(node: Node) -> bool:
    """Whether the compiler has a kernel for a node without a second output, softcap and the like (measured).

    In half precision for heads of more than 8 and up to 256 and more than one query; else where nothing is
    masked or repeated, of three dimensions of known sizes.
    """
    q, k, v = required(node, 3)
    if node.attr("softcap", 0.0) or any(tensor.name for tensor in node.outputs[1:]) or k == q or v == q:
        return False
    if k.shape is None or q.shape is None or v.shape != k.shape or operands(node, 7)[6] is not None:
        return False
    size, queries = q.shape[-1], q.shape[-2]
    heads = (node.attr("q_num_heads", 1), node.attr("kv_num_heads", 1))
    if isinstance(size, int) and q.rank == 3:
        size //= heads[0]
    if queries == 1 or any(tensor is not None for tensor in operands(node, 6)[4:]):
        return False
    if str(q.dtype) in SHORT and isinstance(size, int) and 8 < size <= 256:
        return True
    plain = operands(node, 4)[3] is None and not node.attr("is_causal", 0) and heads[0] == heads[1]
    return plain and q.rank == 3 and is_static(q.shape) and is_static(k.shape)
