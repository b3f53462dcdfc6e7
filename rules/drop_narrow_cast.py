"""Take out a cast to an integer type that TensorRT does not have, where the next cast leaves it again.

Between input and output TensorRT has neither uint8 nor int16, uint16, uint32 and uint64:

    TensorRT does not support UINT8 types for intermediate tensors.
    Unsupported data type for the Cast operator!

What such a cast does to the numbers, it keeps their lowest bits, Mod does too; to numbers that are known to fit it
does nothing:

    before    y = Cast<float>(Cast<uint8>(x))           y = Cast<float>(Cast<uint8>(Transpose(Cast<int32>(uint8 x))))
    after     y = Cast<float>(Mod(Cast<int32>(x), 256)) y = Cast<float>(Transpose(Cast<int32>(x)))

Floats that do not fit have no defined value; they get the one of onnxruntime, whose casts go through an integer
of 32 or 64 bits.
"""

import numpy as np
from _integers import CODE, LACKED, bounds, fits, name_of, wide, wrapped

from onnxq.rule import Fires, Node, Skips, Tensor, Value, is_float, made_by, op, required, rule


@rule("Cast", stage="compat", lacks="small-integers")
def drop_narrow_cast(node: Node) -> Value | None:
    (narrow,) = required(node, 1)
    before = made_by(narrow, "Cast")
    name = name_of(narrow)
    if before is None or not (name in LACKED or name == "int8"):
        return None
    (source,) = required(before, 1)
    kind = name_of(source)
    if kind not in CODE or (name == "int8" and not fits(source, name)):
        return None
    to = node.attr("to")
    if name == "uint64":
        return _from_64_bits(source, to)
    if fits(source, name):
        return _cast(source, to)
    whole: Value = source
    if is_float(source.dtype) or kind not in ("int32", "int64"):
        whole = op.Cast(source, to=CODE["int64" if kind == "uint64" else wide(name)])
    elif kind == "int32" and name == "uint32":
        whole = op.Cast(source, to=CODE["int64"])
    return _cast(wrapped(whole, name), to)


def _cast(value: Value, to: int) -> Value:
    return (
        value if CODE.get(name_of(value)) == to and not isinstance(value, Tensor) else op.Cast(value, to=to)
    )


def _from_64_bits(source: Value, to: int) -> Value | None:
    """What uint64 is cast to: its bits are those of int64, whose negative numbers are its largest ones."""
    bits = source
    if is_float(source.dtype):
        top = np.array(2.0**63, source.dtype) if name_of(source) != "float16" else None
        bits = op.Cast(source, to=CODE["int64"])
        if top is not None:
            high = op.Add(op.Cast(op.Sub(source, top), to=CODE["int64"]), np.array(np.iinfo(np.int64).min))
            bits = op.Where(op.GreaterOrEqual(source, top), high, bits)
    elif name_of(source) != "int64":
        bits = op.Cast(source, to=CODE["int64"])
    found = bounds(source)
    if to not in (CODE["float32"], CODE["float64"], CODE["float16"]) or (found is not None and found[0] >= 0):
        return op.Cast(bits, to=to)
    odd = op.Mod(bits, np.array(2))
    half = op.Add(op.Div(op.Sub(bits, odd), np.array(2)), np.array(2**62))
    half = op.Add(half, np.array(2**62))  # 2^63 more, in two steps that fit
    sticky = op.Max(
        op.Mod(half, np.array(2)), odd
    )  # the last bit, so that it rounds as the whole number does
    half = op.Add(op.Sub(half, op.Mod(half, np.array(2))), sticky)
    twice = op.Cast(half, to=to)
    return op.Where(op.Less(bits, np.array(0)), op.Add(twice, twice), op.Cast(bits, to=to))


def _net(kind: str, body: str, out: str = "float") -> str:
    return f"""<ir_version: 8, opset_import: ["" : 17]> g ({kind}[N, 4] x) => ({out}[N, M] y) {{ {body} }}"""


EXAMPLES = [
    Fires(
        _net("float", "c = Cast <to = 2> (x)  y = Cast <to = 1> (c)"),
        becomes="_1 = Cast <to = 6> (x); _2 = Mod (_1, int32 256); y = Cast <to = 1> (_2)",
    ),
    Fires(
        _net("int32", "c = Cast <to = 2> (x)  y = Cast <to = 9> (c)", "bool"),
        becomes="_1 = Mod (x, int32 256); y = Cast <to = 9> (_1)",
    ),
    Fires(_net("bool", "c = Cast <to = 2> (x)  y = Cast <to = 1> (c)"), becomes="y = Cast <to = 1> (x)"),
    Fires(
        _net(
            "uint8", "i = Cast <to = 6> (x)  t = Transpose (i)  c = Cast <to = 2> (t)  y = Cast <to = 1> (c)"
        ),
        becomes="i = Cast <to = 6> (x); t = Transpose (i); y = Cast <to = 1> (t)",
    ),
    Fires(_net("int64", "c = Cast <to = 5> (x)  y = Cast <to = 1> (c)")),
    Fires(
        _net("int32", "c = Cast <to = 12> (x)  y = Cast <to = 7> (c)", "int64"),
        becomes="_1 = Cast <to = 7> (x); y = Mod (_1, 4294967296)",
    ),
    Fires(_net("int64", "c = Cast <to = 13> (x)  y = Cast <to = 1> (c)")),
    Fires(_net("float", "c = Cast <to = 13> (x)  y = Cast <to = 7> (c)", "int64")),
    Skips(_net("uint8", "y = Cast <to = 1> (x)")),
    Skips(_net("float", "c = Cast <to = 3> (x)  y = Cast <to = 1> (c)")),
    Skips(_net("float", "c = Cast <to = 6> (x)  y = Cast <to = 1> (c)")),
]
