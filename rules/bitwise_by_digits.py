"""Write BitwiseAnd, BitwiseOr and BitwiseXor with tables of hexadecimal digits.

TensorRT has no importer for them:

    No importer registered for op: BitwiseAnd
    checkBitwiseAnd: UNSUPPORTED_NODE

A number's digits stand on a new last axis, two a byte; a table of 16 x 16 entries gives those of the result:

    before    y = BitwiseXor(a, b)
    after     y = ReduceSum(table[16 * digits(a) + digits(b)] * [1, 16, 256, ...])    digits(a) = (a - a mod p) / p mod 16

Integers throughout, so it is exact for any value, negative ones included: their first digit counts from -8. It takes
2 x 4 (int32), 2 x 8 (int64) times the memory of its result. What is masked with 2^k - 1 becomes Mod 2^k.
"""

import numpy as np
from _integers import CODE, INTEGERS, name_of

from onnxq.rule import Fires, Node, Skip, Skips, Tensor, Value, constant, op, required, rule

_OF = {"BitwiseAnd": np.bitwise_and, "BitwiseOr": np.bitwise_or, "BitwiseXor": np.bitwise_xor}


@rule(*_OF, stage="compat", lacks="BitwiseAnd")
def bitwise_by_digits(node: Node) -> Value:
    first, second = required(node, 2)
    name = name_of(first)
    if name not in INTEGERS:
        raise Skip(f"the type of {first.name!r} is not known")
    kind = np.dtype("int64" if name in ("uint32", "uint64", "int64") else "int32")
    if node.op == "BitwiseAnd":
        for source, mask in ((first, second), (second, first)):
            span = _low_bits(mask, kind)
            if span is not None:
                return _back(op.Mod(_as(source, kind), span), name)
    count = 2 * np.dtype(name).itemsize
    table = np.array([_OF[node.op](i, j) for i in range(16) for j in range(16)])
    offset = np.zeros(count, kind)
    if name == "uint64" or not name.startswith("u"):  # the first digit has the sign
        table = np.concatenate([table, (table + 8) % 16 - 8])
        offset[-1] = 256
    places = np.array([16**i for i in range(count)], kind)
    index = op.Add(
        op.Add(op.Mul(_digits(first, places), np.array(16, kind)), _digits(second, places)), offset
    )
    ranks = [tensor.rank for tensor in (first, second)]
    if None in ranks:  # of a tensor without elements, onnxruntime does not reduce axis -1
        raise Skip("how many dimensions it has is not known (onnxq sanitize --shape)")
    axes = np.array([max(rank or 0 for rank in ranks)])
    digits = op.Gather(table.astype(kind), index)
    if count <= 8:
        return _back(op.ReduceSum(op.Mul(digits, places), axes, keepdims=0), name)
    halves = op.Split(digits, np.array([8, 8]), axis=-1, outputs=2)  # onnxruntime sums int64 as double
    low, high = (op.ReduceSum(op.Mul(half, places[:8]), axes, keepdims=0) for half in halves)
    return _back(op.Add(op.Mul(high, np.array(1 << 32)), low), name)


def _low_bits(mask: Tensor, kind: np.dtype) -> np.ndarray | None:
    """2^k, where a mask is 2^k - 1."""
    values = constant(mask)
    if values is None or values.size != 1:
        return None
    span = int(values.reshape(-1)[0]) + 1
    fits = 1 < span <= np.iinfo(kind).max and not span & (span - 1)
    return np.full(values.shape, span, kind) if fits else None


def _as(tensor: Tensor, kind: np.dtype) -> Value:
    return tensor if tensor.dtype == kind else op.Cast(tensor, to=CODE[kind.name])


def _back(value: Value, name: str) -> Value:
    return value if name in ("int32", "int64") else op.Cast(value, to=CODE[name])


def _digits(tensor: Tensor, places: np.ndarray) -> Value | np.ndarray:
    """The digits of a tensor's values, on a new last axis; the lowest one first."""
    kind, base = places.dtype, np.array(16, places.dtype)
    values = constant(tensor)
    if values is not None:
        return np.asarray(np.mod(np.floor_divide(values.astype(kind)[..., None], places), base))
    number = op.Unsqueeze(_as(tensor, kind), np.array([-1]))
    return op.Mod(op.Div(op.Sub(number, op.Mod(number, places)), places), base)


def _net(kind: str, operator: str, other: str = "x") -> str:
    return f"""<ir_version: 8, opset_import: ["" : 18]>
    g ({kind}[N, 4] x, {kind}[4] z) => ({kind}[N, 4] y) <{kind} c = {{7}}, {kind}[4] d = {{100, 3, 9, 77}}> {{
        y = {operator} (z, {other}) }}"""


EXAMPLES = [
    Fires(_net("int32", "BitwiseAnd"), gone="BitwiseAnd"),
    Fires(_net("int64", "BitwiseOr"), gone="BitwiseOr"),
    Fires(_net("uint8", "BitwiseXor"), gone="BitwiseXor"),
    Fires(_net("int16", "BitwiseXor", "d"), gone="BitwiseXor"),
    Fires(_net("int32", "BitwiseAnd", "c"), becomes="y = Mod (z, int32 8)"),
    Fires(_net("int32", "BitwiseAnd", "d"), gone="BitwiseAnd"),
    Skips(_net("int32", "Add")),
]
