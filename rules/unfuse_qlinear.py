"""Write onnxruntime's quantized operators as the float ones, between DequantizeLinear and QuantizeLinear.

Its quantizer makes them of Add, Mul, Concat, Sigmoid, LeakyRelu, pooling, Softmax and Where;
TensorRT reads quantized models as Q/DQ pairs only:

    Plugin not found, are the plugin name, version, and namespace correct?

    before    y = com.microsoft.QLinearAdd(a, as, az, b, bs, bz, ys, yz)
    after     y = QuantizeLinear(Add(DequantizeLinear(a, as, az), DequantizeLinear(b, bs, bz)), ys, yz)

The result is rounded to a code in the end; where the float one lies between two codes, it may be the other one.
TensorRT has int8 only of codes around 0, or uint8 around 128. Of others a sum, a product and a mean over a whole map
are computed of the codes themselves, in the order in which onnxruntime does:

    after     y = Cast(Clip(Round((Cast(a) - az) * (as / ys) + (Cast(b) - bz) * (bs / ys) + yz), 0, 255))
"""

import numpy as np
from _quantized import STEP, are_pairs, coded, read_out, recoded, stated
from _sums_of_codes import centred

from onnxq.rule import Fires, Node, Skip, Skips, Tensor, Value, Within, constant, is_static, op, rule

_NAMES = (
    "Add",
    "Mul",
    "Sigmoid",
    "LeakyRelu",
    "GlobalAveragePool",
    "AveragePool",
    "Softmax",
    "Concat",
    "Where",
)
_POOLING = ("auto_pad", "ceil_mode", "count_include_pad", "kernel_shape", "pads", "strides")


@rule(*(f"com.microsoft.QLinear{name}" for name in _NAMES), stage="compat", lacks="onnxruntime-fusions")
def unfuse_qlinear(node: Node) -> Within:
    name = node.op.removeprefix("QLinear")
    if node.opset < 10:
        raise Skip(f"opset {node.opset} has no QuantizeLinear")
    given = list(node.inputs)
    if name == "Concat":
        out, given = given[:2], given[2:]
    elif name == "Where":
        given, out = given[1:7], given[7:9]
    else:
        count = 6 if name in ("Add", "Mul") else 3
        given, out = given[:count], [*given, None][count : count + 2]
    given += [None] * (-len(given) % 3)
    scale, zero = (*out, None, None)[:2]
    operands_ = [given[i : i + 3] for i in range(0, len(given), 3)]
    if scale is None or any(codes is None or step is None for codes, step, _ in operands_):
        raise Skip(f"{node.op} lacks an input that it needs")
    stated(scale, *(step for _, step, _ in operands_))
    first = operands_[0][0]
    every = [*((codes, shift) for codes, _, shift in operands_), (node.outputs[0], zero)]
    if not all(codes is not None and are_pairs(node, codes, shift) for codes, shift in every):
        whole = _whole(node, name, operands_, scale, zero)
        if whole is not None:
            return Within(whole, 1, STEP)
    floats = [read_out(codes, step, shift, node) for codes, step, shift in operands_ if codes and step]
    return Within(coded(_computed(node, name, floats, first), scale, zero, first), 1, STEP)


def _whole(
    node: Node, name: str, given: list[list[Tensor | None]], scale: Tensor, zero: Tensor | None
) -> Value | None:
    """The codes of what is computed of the codes themselves, as onnxruntime does; None where it does not."""
    like, first = given[0][0], given[0][1]
    if like is None or first is None or name not in ("Add", "Mul", "GlobalAveragePool"):
        return None
    sides = [centred(codes, shift) for codes, _, shift in given if codes is not None]
    out = _one(scale)
    ratios = [_one(step) / out for _, step, _ in given if step is not None]
    if name == "Add":
        return recoded(
            op.Add(*(op.Mul(side, ratio) for side, ratio in zip(sides, ratios, strict=True))),
            None,
            zero,
            like,
            node.opset,
            inside=True,
        )
    if name == "Mul":
        steps = ratios[0] * _one(given[1][1])
        return recoded(op.Mul(*sides), steps, zero, like, node.opset, inside=True)
    axes = [1, 2] if node.attr("channels_last", 0) else [2, 3]
    sizes = [like.shape[axis] for axis in axes] if like.rank == 4 and like.shape is not None else [None]
    if not is_static(sizes):
        return None
    total = op.ReduceSum(sides[0], np.array(axes)) if node.opset >= 13 else op.ReduceSum(sides[0], axes=axes)
    count = np.float32(np.prod([int(size or 1) for size in sizes]))
    return recoded(total, _one(first) / (out * count), zero, like, node.opset)


def _one(scale: Tensor | None) -> np.ndarray:
    """A constant scale."""
    numbers = constant(scale)
    if numbers is None or numbers.size != 1:
        raise Skip("it has several scales")
    return numbers.reshape(())


def _computed(node: Node, name: str, floats: list[Value | np.ndarray], codes: Tensor | None) -> Value:
    """What the float operator gives."""
    x, rank = floats[0], codes.rank if codes is not None else None
    if name == "Where":
        return op.Where(node.inputs[0], *floats)
    if name == "Concat":
        return op.Concat(*floats, axis=node.attr("axis"))
    if name == "LeakyRelu":
        return op.LeakyRelu(x, alpha=node.attr("alpha", 0.01))
    if name == "Softmax":
        return _softmax(node, x, rank)
    if name in ("GlobalAveragePool", "AveragePool"):
        attrs = {key: value for key, value in node.attrs.items() if key in _POOLING and name == "AveragePool"}
        pool = op.AveragePool if name == "AveragePool" else op.GlobalAveragePool
        if not node.attr("channels_last", 0):
            pooled: Value = pool(x, **attrs)
            return pooled
        if rank is None:
            raise Skip("its channels come last, in a tensor of unknown rank")
        middle = list(range(1, rank - 1))
        first = op.Transpose(x, perm=[0, rank - 1, *middle])
        return op.Transpose(pool(first, **attrs), perm=[0, *(i + 1 for i in middle), 1])
    result: Value = getattr(op, name)(*floats)
    return result


def _softmax(node: Node, x: Value | np.ndarray, rank: int | None) -> Value:
    """A Softmax over one axis, or before opset 13 over all from this one on."""
    axis, was = node.attr("axis", -1), node.attr("opset", node.opset)
    if rank is None:
        raise Skip("it is the Softmax of a tensor of unknown rank")
    axis = axis + rank if axis < 0 else axis
    if axis == rank - 1 or (was < 13) == (node.opset < 13):
        return op.Softmax(x, axis=axis)
    if was < 13:
        return op.Reshape(op.Softmax(op.Flatten(x, axis=axis), axis=1), op.Shape(x))
    order = [*(i for i in range(rank) if i != axis), axis]
    back = [order.index(i) for i in range(rank)]
    return op.Transpose(op.Softmax(op.Transpose(x, perm=order), axis=rank - 1), perm=back)


def _net(call: str, opset: int = 17) -> str:
    return f"""<ir_version: 8, opset_import: ["" : {opset}, "com.microsoft" : 1]>
    g (uint8[N, 2, 4, 4] a, int8[N, 2, 4, 4] i, uint8[N, 4, 4, 2] l, bool[N, 1, 4, 4] c, float r) => (y) <float s = {{0.05}},
        uint8 z = {{114}}, float t = {{0.1}}, uint8 u = {{3}}, uint8[2, 1, 1] k = {{1, 200}}, int8 j = {{-5}}, uint8 o = {{0}},
        float h = {{0.00390625}}, uint8 w = {{9}}> {{ y = com.microsoft.QLinear{call} }}"""


EXAMPLES = [
    Fires(
        _net("Add (a, s, z, k, t, u, t, z)"),
        gone="QLinearAdd",
        becomes="""_1 = Cast <to = 1> (a); _2 = Sub (_1, 114.0); _3 = Mul (_2, 0.5)
        _4 = Mul ([2, 1, 1] {-2.0, 197.0}, 1.0); _5 = Add (_3, _4); _6 = Add (_5, 114.0)
        _7 = Round (_6); _8 = Clip (_7, 0.0, 255.0); y = Cast <to = 2> (_8)""",
    ),
    Fires(
        _net("Mul (i, s, j, i, s, j, t, j)"),
        gone="QLinearMul",
        becomes="""_1 = Cast <to = 1> (i); _2 = Sub (_1, -5.0); _3 = Cast <to = 1> (i); _4 = Sub (_3, -5.0)
        _5 = Mul (_2, _4); _6 = Mul (_5, 0.025); _7 = Add (_6, -5.0); _8 = Round (_7)
        _9 = Clip (_8, -128.0, 127.0); y = Cast <to = 3> (_9)""",
    ),
    Fires(_net("Concat <axis = 1> (t, u, a, s, z, a, t, u)"), gone="QLinearConcat"),
    Fires(_net("Sigmoid (i, s, j, h, j)"), gone="QLinearSigmoid"),
    Fires(_net("LeakyRelu <alpha = 0.2> (a, s, z, t, u)"), gone="QLinearLeakyRelu"),
    Fires(_net("GlobalAveragePool <channels_last = 1> (l, s, z, t, u)"), gone="QLinearGlobalAveragePool"),
    Fires(
        _net("AveragePool <kernel_shape = [3, 2], pads = [1, 0, 0, 1]> (a, s, z, t, u)"),
        gone="QLinearAveragePool",
    ),
    Fires(
        _net("AveragePool <kernel_shape = [3, 2], channels_last = 1> (l, s, z, t, u)"),
        gone="QLinearAveragePool",
        becomes="""_1 = DequantizeLinear (l, 0.05, uint8 114); _2 = Transpose <perm = [0, 3, 1, 2]> (_1)
        _3 = AveragePool <kernel_shape = [3, 2]> (_2); _4 = Transpose <perm = [0, 2, 3, 1]> (_3)
        y = QuantizeLinear (_4, 0.1, uint8 3)""",
    ),
    Fires(
        _net("Softmax <axis = 3, opset = 13> (a, s, z, h, o)"),
        gone="QLinearSoftmax",
        becomes="""_1 = DequantizeLinear (a, 0.05, uint8 114); _2 = Softmax <axis = 3> (_1)
        y = QuantizeLinear (_2, 0.00390625, uint8 0)""",
    ),
    Fires(_net("Softmax <axis = 2, opset = 12> (a, s, z, h, o)"), gone="QLinearSoftmax"),
    Fires(_net("Where (c, a, s, z, w, s, z, t, u)"), gone="QLinearWhere"),
    Skips(_net("Sigmoid (a, r, z, h, u)"), because="--freeze r=VALUE"),
    Skips(_net("Concat <axis = 1> (t, u, a, s, z, a, , u)"), because="lacks an input"),
]
