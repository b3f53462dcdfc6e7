"""Compute in float32 the activations that TensorRT has for float32 and float16 alone.

Of bfloat16 it says

    Only FLOAT32 or FLOAT16 input is supported for the Mish operator in this version of TensorRT. The current type = BF16.
    Only FLOAT, HALF or INT8 input is supported for the HardSwish operator in this version of TensorRT. The current type = BF16.

    before    y = Mish(x)
    after     y = Cast<to=BFLOAT16>(Mish(Cast<to=FLOAT>(x)))

float32 holds each number of bfloat16, and the result is rounded once.
"""

from onnxq.rule import Fires, Node, Skips, Value, op, remake, required, rule

_FLOAT, _BFLOAT16 = 1, 16  # onnx.TensorProto.DataType


@rule("HardSwish", "Mish", stage="compat", lacks="bfloat16-activations")
def bfloat16_activations(node: Node) -> Value | None:
    (x,) = required(node, 1)
    if str(x.dtype) != "bfloat16":
        return None
    return op.Cast(remake(node, op.Cast(x, to=_FLOAT)), to=_BFLOAT16)


_NET = """<ir_version: 10, opset_import: ["" : 22]>
    g (%s[N, 4] x) => (%s[N, 4] y) { y = %s (x) }"""

EXAMPLES = [
    Fires(
        _NET % ("bfloat16", "bfloat16", "Mish"),
        becomes="_1 = Cast <to = 1> (x); _2 = Mish (_1); y = Cast <to = 16> (_2)",
    ),
    Fires(
        _NET % ("bfloat16", "bfloat16", "HardSwish"),
        becomes="_1 = Cast <to = 1> (x); _2 = HardSwish (_1); y = Cast <to = 16> (_2)",
    ),
    Skips(_NET % ("float16", "float16", "Mish")),
]
