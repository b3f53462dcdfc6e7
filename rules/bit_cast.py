"""Write a BitCast between integers of one width as a Cast.

No TensorRT has an importer for it:

    No importer registered for op: BitCast

A Cast between integer types of one width keeps the bits: what does not fit is read as the other type reads the same
bits (two's complement), which is what a BitCast says. To the type that it has, it is nothing at all, and of a constant it
is another constant. Bits of floats have no such form.

    before    y = BitCast<uint8>(x)            x: int8
    after     y = Cast<uint8>(x)
"""

import numpy as np
from _integers import CODE, INTEGERS, name_of

from onnxq.rule import Fires, Node, Skip, Skips, Value, constant, op, required, rule


@rule("BitCast", stage="compat", lacks="BitCast")
def bit_cast(node: Node) -> Value | np.ndarray:
    (source,) = required(node, 1)
    name = name_of(source)
    other = next((one for one, code in CODE.items() if code == node.attr("to")), "another type")
    if name == other:
        return op.Identity(source)
    fits = other in CODE and "bool" not in (name, other)
    if fits and (values := constant(source)) is not None:
        return values.view(other)
    if not fits or name not in INTEGERS or other not in INTEGERS:
        raise Skip(f"the bits of {name or 'an unknown type'} as {other} are no arithmetic that TensorRT has")
    return op.Cast(source, to=CODE[other])


def _net(source: str, to: int, result: str, body: str = "y = BitCast <to = {}> (x)") -> str:
    return f"""<ir_version: 12, opset_import: ["" : 26]>
    g ({source}[N, 4] x) => ({result}[N, 4] y) <float[4] c = {{1, 2, -3, 0.5}},
        bool[4] b = {{1, 0, 1, 1}}, float16[4] h = {{1, 2, 3, 4}}> {{ {body.format(to)} }}"""


EXAMPLES = [
    Fires(_net("uint8", 3, "int8"), becomes="y = Cast <to = 3> (x)"),
    Fires(_net("int32", 12, "uint32"), becomes="y = Cast <to = 12> (x)"),
    Fires(_net("int64", 13, "uint64"), becomes="y = Cast <to = 13> (x)"),
    Fires(_net("float", 1, "float", "a = BitCast <to = {}> (x)  y = Neg (a)"), gone="BitCast"),
    Fires(
        _net("int32", 6, "int32", "a = BitCast <to = {}> (c)  y = Add (x, a)"),
        becomes="y = Add (x, int32 {1065353216, 1073741824, -1069547520, 1056964608})",
    ),
    Skips(_net("float", 6, "int32"), because="float32 as int32"),
    Skips(_net("bool", 2, "uint8"), because="bool as uint8"),
    Skips(_net("uint8", 9, "bool"), because="uint8 as bool"),
    Skips(_net("int32", 1, "float"), because="int32 as float32"),
    Skips(_net("uint8", 2, "uint8", "a = BitCast <to = {}> (b)  y = Add (x, a)"), because="bool as uint8"),
    Skips(
        _net("bfloat16", 16, "bfloat16", "a = BitCast <to = {}> (h)  y = Add (x, a)"), because="another type"
    ),
    Skips(_net("float", 0, "float", "y = Neg (x)")),
]
