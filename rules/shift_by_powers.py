"""Write BitShift as a product with, or a quotient by, a power of two.

TensorRT has no importer for it:

    No importer registered for op: BitShift
    checkBitShift: UNSUPPORTED_NODE

    before    y = BitShift<LEFT>(x, s)         y = BitShift<RIGHT>(x, s)
    after     y = (x * 2^s) mod 2^bits         y = x / 2^s

In integers that hold every product, so it is exact; a uint64 is computed as the int64 of the same bits. Shifts are
constants less than the number of bits: no more is defined.
"""

import numpy as np
from _integers import CODE, LACKED, name_of, wrapped

from onnxq.rule import Fires, Node, Skip, Skips, Value, constant, op, required, rule


@rule("BitShift", stage="compat", lacks="BitShift")
def shift_by_powers(node: Node) -> Value:
    source, shift = required(node, 2)
    name, steps = name_of(source), constant(shift)
    if name not in LACKED:
        raise Skip(f"the type of {source.name!r} is not known")
    bits = 8 * np.dtype(name).itemsize
    if steps is None:
        advice = f" (onnxq sanitize --freeze {shift.name}=1, or another value)" if shift.is_input else ""
        raise Skip(f"the shift {shift.name!r} is computed at run time{advice}")
    if steps.size and steps.max() >= bits:
        raise Skip(f"no shift of {name} by {steps.max()} bits is defined")
    kind = "int32" if bits <= 16 else "int64"
    number, steps = op.Cast(source, to=CODE[kind]), steps.astype(np.int64)
    powers = (np.uint64(1) << steps.astype(np.uint64)).astype(kind)
    if node.attr("direction") == "LEFT":
        shifted = wrapped(op.Mul(number, powers), name)
    elif name == "uint64":
        shifted = _right(number, steps)
    else:
        shifted = op.Div(number, powers)
    return op.Cast(shifted, to=CODE[name])


def _right(number: Value, steps: np.ndarray) -> Value:
    """The bits of an int64 to the right, with zeros from the left; by 63 in two steps, as 2^63 does not fit."""
    first = steps.clip(max=62)
    power = np.left_shift(1, first)
    down = op.Div(op.Sub(number, op.Mod(number, power)), power)
    half = np.where(first > 0, np.left_shift(1, 63 - first), 0)
    up = op.Where(op.Less(number, np.array(0)), op.Add(op.Add(down, half), half), down)
    return op.Div(up, np.left_shift(1, steps - first)) if (steps > 62).any() else up


def _net(kind: str, direction: str, by: str = "s") -> str:
    return f"""<ir_version: 8, opset_import: ["" : 17]>
    g ({kind}[N, 4] x, {kind}[4] s) => ({kind}[N, 4] y) <{kind} c = {{3}}, {kind}[4] d = {{0, 7, 1, 5}}> {{
        y = BitShift <direction = "{direction}"> (x, {by}) }}"""


EXAMPLES = [
    Fires(
        _net("uint8", "LEFT", "c"),
        becomes="""_1 = Cast <to = 6> (x); _2 = Mul (_1, int32 8); _3 = Mod (_2, int32 256)
        y = Cast <to = 2> (_3)""",
    ),
    Fires(
        _net("uint32", "RIGHT", "d"),
        becomes="""_1 = Cast <to = 7> (x); _2 = Div (_1, {1, 128, 2, 32})
        y = Cast <to = 12> (_2)""",
    ),
    Fires(_net("uint32", "LEFT", "d"), gone="BitShift"),
    Fires(_net("uint64", "LEFT", "d"), gone="BitShift"),
    Fires(
        _net("uint64", "RIGHT", "c"),
        becomes="""_1 = Cast <to = 7> (x); _2 = Less (_1, 0); _3 = Mod (_1, 8); _4 = Sub (_1, _3); _5 = Div (_4, 8)
        _6 = Add (_5, 1152921504606846976); _7 = Add (_6, 1152921504606846976); _8 = Where (_2, _7, _5)
        y = Cast <to = 13> (_8)""",
    ),
    Fires(_net("uint64", "RIGHT", "d").replace("{0, 7, 1, 5}", "{0, 63, 1, 62}"), gone="BitShift"),
    Skips(_net("uint8", "LEFT"), because="run time"),
    Skips(_net("uint8", "LEFT", "d").replace("7", "8"), because="by 8 bits"),
    Skips(_net("uint8", "LEFT", "c").replace('BitShift <direction = "LEFT">', "Add")),
]
