"""Give inputs and outputs of int16, uint16, uint32 and uint64 a type that TensorRT knows.

It has no such bindings:

    Failed to convert ONNX date type to TensorRT data type.
    Unsupported data type for the Cast operator!

int32 holds all of int16 and uint16, int64 all of uint32; a uint64 is handed over as the int64 of the same bits (the
same number below 2^63).

    before    y = Neg(x)                            x, y: int16
    after     y = Cast<int32>(Neg(Cast<int16>(x)))  x, y: int32

Whoever runs the engine has to feed the other type: it happens with `--allow-interface-changes` only.
`widen_integers` and `drop_narrow_cast` then take out the casts inside.
"""

from _integers import CHOOSES, CODE, LACKED, name_of, wide

from onnxq.rule import Fires, Interface, Node, Skips, Tensor, op, rule

_READERS = ("Cast", "Identity", "Add", "Sub", "Mul", "Div", "Mod", "Neg", "Abs", "Sign", "Equal", "Greater", "Less",
            "GreaterOrEqual", "LessOrEqual", "ArgMax", "ArgMin", "OneHot", "Clip", "Pad", "Trilu", "EyeLike", "Range",
            "BitShift", "BitwiseAnd", "BitwiseOr", "BitwiseXor", "BitwiseNot", "ReduceSum", "CumSum", "MatMul", "Pow",
            "ConstantOfShape", "Shape", "Size", "Bernoulli", "Resize", "If", "Loop", "Scan")  # fmt: skip


@rule(*sorted({*_READERS, *CHOOSES}), stage="compat", lacks="small-integers")
def widen_interface(node: Node) -> Interface | None:
    ends = [t for t in node.inputs if t is not None and t.is_input]
    ends += [t for t in node.outputs if t.is_output]
    found = next((tensor for tensor in ends if _is_unknown(tensor)), None)
    if found is None:
        return None
    name, to = name_of(found), wide(name_of(found))
    return Interface(
        found,
        lambda value: op.Cast(value, to=CODE[to]),
        lambda value: op.Cast(value, to=CODE[name]),
        f"TensorRT has no {name}, {to} holds {'its bits' if name == 'uint64' else 'all of it'}",
    )


def _is_unknown(tensor: Tensor) -> bool:
    return name_of(tensor) in LACKED and name_of(tensor) != "uint8"


def _net(kind: str, call: str, out: str = "float") -> str:
    return f"""<ir_version: 8, opset_import: ["" : 17]> g ({kind}[N, 4] x) => ({out}[N, 4] y) {{ y = {call} (x) }}"""


EXAMPLES = [
    Fires(
        _net("uint16", "Cast <to = 1>"),
        becomes="x: int32[N, 4]; _1 = Cast <to = 4> (x); y = Cast <to = 1> (_1)",
    ),
    Fires(
        _net("float", "Cast <to = 5>", "int16"),
        becomes="y: int32[N, 4]; _1 = Cast <to = 5> (x); y = Cast <to = 6> (_1)",
    ),
    Fires(_net("uint64", "Identity", "uint64")),
    Fires(_net("uint32", "Cast <to = 7>", "int64")),
    Skips(_net("uint8", "Cast <to = 1>")),
    Skips(_net("int32", "Neg", "int32")),
]
