"""Compute in int32 or int64 what is in an integer type that TensorRT does not compute in.

It takes a uint8 input that a Cast reads, and a uint8 output that a Cast writes, and nothing between; int16, uint16,
uint32 and uint64 it does not know:

    Found unsupported input type of UINT8
    the parsed type is int32 which does not match the ONNX specification type uint8
    first input has type UInt8 but must have type Float, Half, BFloat16, FP8, E8M0, FP4, Int4, Int8, Int64, Int32, or Bool
    ElementWiseOperation SUM requires inputs with type kFLOAT, kHALF, kBF16, kFP8, or kINT8, kINT32, or kINT64
    This version of TensorRT does not support the given operator ABS with the given input data type UINT8
    convertOnnxWeights(initializer, &weights): Failed to import initializer
    Quantized constant (w) is only allowed before DQ

The numbers are the same, and arithmetic keeps the lowest bits, as the narrow type does:

    before    y = Transpose(x)                  y = Add(x, z)
    after     y = Cast(Transpose(Cast(x)))      y = Cast(Mod(Add(Cast(x), Cast(z)), 256))

`drop_narrow_cast` then takes out the casts between one such node and the next. Resize, MaxPool and
DepthToSpace, which are for floats, run in float32: of 8 and 16 bits. Codes of quantized tensors are left to the rules of Q/DQ pairs. int8
and bool are such types only where an operator has no kernel for them, or reads a constant of int8.
"""

from typing import Any

import numpy as np
from _integers import CHOOSES, CODE, LACKED, holds_codes, name_of, wide, wrapped

from onnxq.rule import Fires, Node, Skip, Skips, Tensor, Value, constant, op, remake, rule

_ARITHMETIC = (
    "MatMul",
    "Add",
    "Sub",
    "Mul",
    "Div",
    "Neg",
    "Abs",
    "ReduceSum",
    "ReduceProd",
    "ReduceSumSquare",
    "ReduceL1",
    "CumSum",
)
_FLOATS = ("Resize", "Upsample", "MaxPool")
_BLOCKS = ("DepthToSpace", "SpaceToDepth")  # onnxruntime has them for floats
_OTHERS = ("Mod", "Sign", "Equal", "Greater", "Less", "GreaterOrEqual", "LessOrEqual", "ArgMax", "ArgMin", "OneHot",
           "Clip", "Pad", "Trilu", "EyeLike", "Range", "ConstantOfShape")  # fmt: skip
_NO_BOOL = ("ReduceMax", "ReduceMin", "DepthToSpace", "SpaceToDepth", "Resize")
_NO_ORDER = ("Div", "Mod", "Abs", "Sign", "Greater", "Less", "GreaterOrEqual", "LessOrEqual", "ArgMax", "ArgMin", "TopK",
             "Max", "Min", "ReduceMax", "ReduceMin", "Clip", "OneHot", "Range", *_FLOATS)  # fmt: skip


@rule(*sorted({*_ARITHMETIC, *_OTHERS, *_FLOATS, *CHOOSES}), stage="compat", lacks="small-integers")
def widen_integers(node: Node) -> dict[int, Value] | None:
    narrow = [t for t in (*node.inputs, *node.outputs) if t is not None and _is_lacked(node, t)]
    if not narrow or _is_taken(node):
        return None
    if any(holds_codes(tensor) for tensor in narrow):
        return None
    names = {name_of(tensor) for tensor in narrow}
    if "uint64" in names and node.op in _NO_ORDER:
        raise Skip("uint64 holds numbers that int64 does not; cast to int64 before the export")
    to = wide(max(names, key=lambda name: np.dtype(name).itemsize))
    if node.op in _FLOATS or node.op in _BLOCKS:
        if names & {"uint32", "uint64"} or (
            node.op in ("Resize", "Upsample") and node.attr("mode", "nearest") != "nearest"
        ):
            raise Skip(f"float32 does not hold what {node.op} makes of {', '.join(sorted(names))}")
        to = "float32"
    results = _computed(node, to)
    return {
        i: _restored(node, value, node.outputs[i]) for i, value in enumerate(results) if node.outputs[i].name
    }


def _is_lacked(node: Node, tensor: Tensor) -> bool:
    name = name_of(tensor)
    if name == "bool":  # the values of what has no kernel for them, not the indices or a condition
        return node.op in _NO_BOOL
    if name == "int8":  # it has kernels for int8, but no constants
        return node.op == "Mod" or any(_is_int8_constant(t) for t in node.inputs)
    return name in LACKED


def _is_int8_constant(tensor: Tensor | None) -> bool:
    return tensor is not None and tensor.is_constant and name_of(tensor) == "int8"


def _is_taken(node: Node) -> bool:
    """Whether it compiles as it is: of uint8, constants are int32, and Equal of two inputs."""
    read = [t for t in node.inputs if t is not None and name_of(t) in (*LACKED, "int8")]
    if any(name_of(tensor) != "uint8" for tensor in read):
        return False
    if node.op in ("Equal", "Identity"):
        return all(tensor.is_input for tensor in read)
    if node.op == "Gather" and any(tensor.is_output for tensor in node.outputs):
        return False  # the rows of a constant are int32, and so would be the output
    return bool(read) and all(tensor.is_constant for tensor in read)


def _computed(node: Node, to: str) -> tuple[Value, ...]:
    if node.op == "ConstantOfShape":
        value = np.asarray(node.attr("value")).reshape(()).astype(to)
        return (op.Expand(value, node.inputs[0]),)
    count = max(i + 1 for i, tensor in enumerate(node.outputs) if tensor.name)
    made: Any = remake(node, *(_widened(node, tensor, to) for tensor in node.inputs), outputs=count)
    return (made,) if count == 1 else made


def _widened(node: Node, tensor: Tensor | None, to: str) -> Value | np.ndarray | None:
    if tensor is None or not _is_lacked(node, tensor):
        return tensor
    array = constant(tensor)
    return op.Cast(tensor, to=CODE[to]) if array is None else array.astype(to)


def _restored(node: Node, value: Value, was: Tensor) -> Value:
    if not _is_lacked(node, was):
        return value
    name = name_of(was)
    unsigned = name.startswith("u")
    if node.op in _ARITHMETIC and not (unsigned and node.op in ("Div", "Abs")):
        value = wrapped(value, name)
    return op.Cast(value, to=CODE[name])


def _net(call: str, kind: str = "uint8", out: str = "", more: str = "", opset: int = 17) -> str:
    return f"""<ir_version: 8, opset_import: ["" : {opset}]>
    g ({kind}[N, 4] x{more}) => ({out or kind + "[N, M]"} y) <{kind}[1] c = {{3}}, int64[1] i = {{1}}, float[2] of = {{0, 1}},
        {kind} low = {{2}}, {kind} high = {{90}}, int64 d = {{5}}, float s = {{0.1}}, uint8 z = {{128}}> {{ {call} }}"""


EXAMPLES = [
    Fires(
        _net("y = Transpose (x)"),
        becomes="_1 = Cast <to = 6> (x); _2 = Transpose (_1); y = Cast <to = 2> (_2)",
    ),
    Fires(
        _net("y = Add (x, c)"),
        becomes="""_1 = Cast <to = 6> (x); _2 = Add (_1, int32 {3}); _3 = Mod (_2, int32 256)
        y = Cast <to = 2> (_3)""",
    ),
    Fires(
        _net("y = Mul (x, n)", "int16", more=", int16[N, 4] n"),
        becomes="""_1 = Cast <to = 6> (x); _2 = Cast <to = 6> (n); _3 = Mul (_1, _2); _4 = Add (_3, int32 32768)
        _5 = Mod (_4, int32 65536); _6 = Sub (_5, int32 32768); y = Cast <to = 5> (_6)""",
    ),
    Fires(
        _net("y = Sub (x, c)", "uint32"),
        becomes="""_1 = Cast <to = 7> (x); _2 = Sub (_1, {3})
        _3 = Mod (_2, 4294967296); y = Cast <to = 12> (_3)""",
    ),
    Fires(_net("y = ArgMax (x)", out="int64[1, 4]"), becomes="_1 = Cast <to = 6> (x); y = ArgMax (_1)"),
    Fires(
        _net("y = Clip (x, low, high)"),
        becomes="""_1 = Cast <to = 6> (x); _2 = Clip (_1, int32 2, int32 90)
        y = Cast <to = 2> (_2)""",
    ),
    Fires(_net("y = Concat <axis = 0> (x, x)", "int16")),
    Fires(
        _net("y = Div (x, c)", "int8"),
        becomes="""_1 = Cast <to = 6> (x); _2 = Div (_1, int32 {3}); _3 = Add (_2, int32 128)
        _4 = Mod (_3, int32 256); _5 = Sub (_4, int32 128); y = Cast <to = 3> (_5)""",
    ),
    Fires(
        """<ir_version: 8, opset_import: ["" : 17]> g (uint8[N, 1, 4, 4] x) => (y) { y = MaxPool <kernel_shape = [2, 2]> (x) }""",
        becomes="_1 = Cast <to = 1> (x); _2 = MaxPool <kernel_shape = [2, 2]> (_1); y = Cast <to = 2> (_2)",
    ),
    Fires(
        """<ir_version: 8, opset_import: ["" : 17]> g (int64[2] n) => (y) { y = ConstantOfShape <value = uint8[1] {7}> (n) }""",
        becomes="_1 = Expand (int32 7, n); y = Cast <to = 2> (_1)",
    ),
    Fires(
        """<ir_version: 9, opset_import: ["" : 20]> g (bool[N, 4] x) => (bool[N, 1] y) <int64[1] a = {1}> { y = ReduceMax (x, a) }""",
        becomes="_1 = Cast <to = 6> (x); _2 = ReduceMax (_1, {1}); y = Cast <to = 9> (_2)",
    ),
    Skips(_net("y = Transpose (x)", "bool")),
    Skips(_net("y = Transpose (x)", "int32")),
    Skips(_net("y = Add (x, x)", "int8")),
    Fires(
        """<ir_version: 8, opset_import: ["" : 17]> g (bool[N] b) => (uint8[N] y) <uint8[2] c = {3, 9}> {
            n = Cast <to = 6> (b)  y = Gather (c, n) }""",
        becomes="n = Cast <to = 6> (b); _1 = Gather (int32 {3, 9}, n); y = Cast <to = 2> (_1)",
    ),
    Fires(
        """<ir_version: 8, opset_import: ["" : 17]> g (uint8[N, 4, 2, 2] x) => (y) { y = DepthToSpace <blocksize = 2> (x) }""",
        becomes="_1 = Cast <to = 1> (x); _2 = DepthToSpace <blocksize = 2> (_1); y = Cast <to = 2> (_2)",
    ),
    Skips(_net("t = Gather (c, n)  y = Cast <to = 1> (t)", more=", int64[M, K] n", out="float[M, K]")),
    Skips(_net("y = Equal (x, n)", out="bool[N, 4]", more=", uint8[N, 4] n")),
    Skips(_net("t = Transpose (x)  y = DequantizeLinear (t, s, z)", out="float[4, N]")),
    Skips(_net("q = QuantizeLinear (f, s, z)  y = Transpose (q)", more=", float[N, 4] f")),
    Skips(_net("y = Max (x, c)", "uint64"), because="uint64"),
    Skips(
        _net(
            "a = Less (x, c)  b = LessOrEqual (x, c)  e = Greater (x, c)  f = GreaterOrEqual (x, c)  y = And (a, b)",
            "uint64",
            "bool[N, 4]",
        ),
        because="uint64",
    ),
]
