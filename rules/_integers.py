"""What rules know of integer types: which ones TensorRT lacks, how they wrap, how large values can be."""

import numpy as np
from _quantized import MOVED

from onnxq.rule import MOVES, Node, Tensor, Value, constant, op

CODE = {
    "float32": 1, "uint8": 2, "int8": 3, "uint16": 4, "int16": 5, "int32": 6, "int64": 7, "bool": 9,
    "float16": 10, "float64": 11, "uint32": 12, "uint64": 13,
}  # fmt: skip
"""The numbers of ONNX's types."""

LACKED = ("uint8", "int16", "uint16", "uint32", "uint64")
"""The integer types that TensorRT does not compute in."""

INTEGERS = ("bool", "uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64", "int64")

# What gives elements of its inputs (those of the type of its output), and nothing else.
CHOOSES = frozenset({
    *MOVES, "GatherElements", "GatherND", "Concat", "Where", "Max", "Min", "ReduceMax", "ReduceMin", "ScatterND",
    "ScatterElements", "Scatter", "ReverseSequence", "TopK", "Upsample",
})  # fmt: skip

_INDEXED = ("Gather", "GatherElements", "GatherND", "ScatterND", "ScatterElements", "Scatter")
_DEPTH = 4  # so far back a proof looks
_FAR = 24


def name_of(value: Value | None) -> str:
    """A value's type by name, "" where it is not known or left out."""
    return "" if value is None or value.dtype is None else value.dtype.name


def wide(name: str) -> str:
    """The integer type in which one that is lacked is computed; uint64 as the int64 of the same bits."""
    return "int64" if name in ("uint32", "uint64") else "int32"


def wrapped(value: Value, name: str) -> Value:
    """What an integer type makes of wider numbers: the lowest bits (those of uint64 stay int64)."""
    if name in ("uint64", "int64"):
        return value
    kind = name_of(value)
    low, high = int(np.iinfo(name).min), int(np.iinfo(name).max)
    span = np.array(high - low + 1, kind)
    if not low:
        return op.Mod(value, span)
    half = np.array(-low, kind)
    return op.Sub(op.Mod(op.Add(value, half), span), half)


def bounds(value: Value | None, depth: int = _DEPTH) -> tuple[int, int] | None:
    """The least and the largest integer that a value can hold; None where they are not known.

    A float has bounds where it holds integers only.
    """
    if value is None:
        return None
    array = constant(value)
    if array is not None:
        whole = array.size and (array.dtype.kind in "iub" or bool((array == np.rint(array)).all()))
        return (int(array.min()), int(array.max())) if whole else None
    made = value.producer
    found = None if made is None or made.domain or not depth else _of_node(made, value, depth - 1)
    kind = name_of(value)
    if kind not in INTEGERS:
        return found
    limits = (0, 1) if kind == "bool" else (int(np.iinfo(kind).min), int(np.iinfo(kind).max))
    inside = found is not None and limits[0] <= found[0] and found[1] <= limits[1]
    return found if inside else limits


def _of_node(node: Node, value: Value, depth: int) -> tuple[int, int] | None:
    given = [one for one in node.inputs if one is not None]
    if node.op == "Cast":
        return bounds(given[0], depth)
    if node.op == "Mod" and not node.attr("fmod", 0):
        span = constant(given[1])
        return (0, int(span.max()) - 1) if span is not None and span.size and span.min() > 0 else None
    if node.op in ("Add", "Sub"):
        first, second = bounds(given[0], depth), bounds(given[1], depth)
        if first is None or second is None:
            return None
        low, high = second if node.op == "Add" else (-second[1], -second[0])
        return first[0] + low, first[1] + high
    if node.op in _INDEXED and constant(node.operands(2)[1]) is None:
        return None  # a proof draws indices that are none
    if node.op == "Resize" and node.attr("mode", "nearest") == "nearest":
        given = given[:1]
    elif node.op not in CHOOSES:
        return None
    found = [bounds(one, depth) for one in given if one.dtype == value.dtype]
    if not found or None in found:
        return None
    return min(one[0] for one in found if one), max(one[1] for one in found if one)


def fits(value: Value | None, name: str) -> bool:
    """Whether all that a value can hold is in the range of an integer type."""
    found = bounds(value)
    return found is not None and np.iinfo(name).min <= found[0] and found[1] <= np.iinfo(name).max


_CODES = ("QuantizeLinear", "DynamicQuantizeLinear", "DequantizeLinear", "MatMulInteger", "ConvInteger")


def _is_code(node: Node) -> bool:
    return node.op in _CODES or node.op.startswith(("QLinear", "DynamicQuantize")) or bool(node.domain)


def holds_codes(tensor: Tensor, depth: int = _FAR) -> bool:
    """Whether a tensor holds the codes of a quantized one: they are for the rules of Q/DQ pairs."""
    return _written_by_codes(tensor, depth) or _read_as_codes(tensor, depth)


def _written_by_codes(tensor: Tensor, depth: int) -> bool:
    made = tensor.producer
    if made is None or not depth:
        return False
    if _is_code(made):
        return True
    inputs = made.inputs if made.op in MOVED else ()
    return any(
        one is not None and one.dtype == tensor.dtype and _written_by_codes(one, depth - 1) for one in inputs
    )


def _read_as_codes(tensor: Tensor, depth: int) -> bool:
    for user in tensor.users:
        if _is_code(user):
            return True
        if depth and user.op in MOVED and any(_read_as_codes(out, depth - 1) for out in user.outputs):
            return True
    return False
