"""Resize integers in two halves, as floats.

TensorRT's Resize is for floats:

    first input has type Int32 but must have type Float, Half, BFloat16, FP8, E8M0, FP4, Int4, or Int8

float32 holds 16 bits of an integer exactly, and the nearest neighbour is only moved:

    before    y = Resize<nearest>(x)
    after     low = x mod 65536    high = (x - low) / 65536    y = 65536 * Resize(high) + Resize(low)
"""

import numpy as np
from _integers import CODE, name_of

from onnxq.rule import Fires, Node, Skip, Skips, Value, op, remake, required, rule


@rule("Resize", "Upsample", stage="compat", lacks="integer-resize")
def integer_resize(node: Node) -> Value | None:
    (source,) = required(node, 1)
    if name_of(source) != "int32":
        return None
    if node.attr("mode", "nearest") != "nearest":
        raise Skip(f"the mode {node.attr('mode')} computes with integers: cast to float before it")
    half = np.array(1 << 16, np.int32)
    low = op.Mod(source, half)
    high = op.Div(op.Sub(source, low), half)
    moved = [
        op.Cast(remake(node, op.Cast(part, to=CODE["float32"]), *node.inputs[1:]), to=CODE["int32"])
        for part in (high, low)
    ]
    return op.Add(op.Mul(moved[0], half), moved[1])


def _net(attributes: str, kind: str = "int32", opset: int = 17) -> str:
    return f"""<ir_version: 8, opset_import: ["" : {opset}]>
    g ({kind}[N, 2, 3] x) => ({kind}[N, 2, M] y) <float[3] s = {{1, 1, 2}}> {{ y = Resize <{attributes}> (x, , s) }}"""


EXAMPLES = [
    Fires(
        _net('mode = "nearest", coordinate_transformation_mode = "asymmetric", nearest_mode = "floor"'),
        becomes="""_1 = Mod (x, int32 65536)
                                                                                                           _2 = Sub (x, _1)
                                                                                                           _3 = Div (_2, int32 65536)
                                                                                                           _4 = Cast <to = 1> (_3)
                                                                                                           _5 = Resize <coordinate_transformation_mode = "asymmetric", mode = "nearest", nearest_mode = "floor"> (_4, , {1.0, 1.0, 2.0})
                                                                                                           _6 = Cast <to = 6> (_5)
                                                                                                           _7 = Mul (_6, int32 65536)
                                                                                                           _8 = Cast <to = 1> (_1)
                                                                                                           _9 = Resize <coordinate_transformation_mode = "asymmetric", mode = "nearest", nearest_mode = "floor"> (_8, , {1.0, 1.0, 2.0})
                                                                                                           _10 = Cast <to = 6> (_9)
                                                                                                           y = Add (_7, _10)""",
    ),
    Skips(_net('mode = "linear"'), because="linear"),
    Skips(_net('mode = "nearest"', "float")),
]
