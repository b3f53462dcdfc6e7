"""Rules that are right, each with a model in which it must be kept.

Some are right bit for bit, NaN and both zeros included; some for a reason that lies upstream of what the
replacement reads; some for a size that is known; some reorder float sums, and say `Close`. Those that a rule
cannot say yet name what they need.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from wrong_rules import END, FLOAT, INT8, INT32, F, before, floats, ints, net, x_of

from onnxq.rule import Close, Node, constant, op, remake


@dataclass(frozen=True)
class RightRule:
    """A rule that is right.

    Attributes:
        name: its name.
        root: the operator whose nodes it replaces.
        function: the rule.
        model: ONNX text, or a function that makes a model; the rule fires once in it.
        close: whether it reorders float sums; else it is bit-equal.
        needs: an answer that rules cannot give yet: `except-nan` (equal but where the original is NaN),
            `except-zero-sign` (equal but for the sign of a zero), `within-steps` (integers one step apart).
        bounds: the lowest and the highest value of an input for which the original is defined.
    """

    name: str
    root: str
    function: Callable[[Node], Any]
    model: str | Callable[[], onnx.ModelProto]
    close: bool
    needs: str = ""
    bounds: Mapping[str, tuple[int, int]] = field(default_factory=dict)


RIGHT: list[RightRule] = []


def right(
    root: str, model: str, close: bool = False, needs: str = "", **bounds: tuple[int, int]
) -> Callable[[Callable[[Node], Any]], Callable[[Node], Any]]:
    """Makes a function one of the right rules."""

    def decorate(function: Callable[[Node], Any]) -> Callable[[Node], Any]:
        RIGHT.append(RightRule(function.__name__, root, function, model, close, needs, bounds))
        return function

    return decorate


def weights(name: str, *shape: int) -> str:
    """A constant of ordinary numbers, in ONNX text."""
    values = np.sin(np.arange(np.prod(shape)) * 1.7 + len(name))
    return f"float{list(shape)} {name} = {{{', '.join(f'{value:.6f}' for value in values)}}}"


def behind(node: Node) -> Node:
    """The node that writes the first input."""
    found = before(node)
    assert found is not None
    return found


# -- equal for all inputs --------------------------------------------------------------------------


@right("Neg", net("float[N, 4] x", "a = Neg (x)  r = Neg (a)  y = Reciprocal (r)"))
def two_negations(node: Node) -> Any:
    return x_of(node) if before(node) else None


@right("Mul", net("float[N, 4] x", "r = Mul (x, c)  y = Reciprocal (r)", "float c = {1}"))
def times_one(node: Node) -> Any:
    return node.inputs[0]


@right("Add", net("float[N, 4] x", "r = Add (x, c)  y = Reciprocal (r)", "float c = {-0.0}"))
def plus_minus_zero(node: Node) -> Any:
    return node.inputs[0]


@right("Mul", net("float[N, 4] x", "r = Mul (x, c)  y = Reciprocal (r)", "float c = {2}"))
def twice_is_a_sum(node: Node) -> Any:
    return op.Add(node.inputs[0], node.inputs[0])


@right("Div", net("float[N, 4] x", "r = Div (x, c)  y = Neg (r)", "float c = {4}"))
def a_quarter_is_a_product(node: Node) -> Any:
    return op.Mul(node.inputs[0], 0.25)


@right("Equal", net("float[N] x", "r = Equal (x, x)  y = Not (r)"))
def equal_to_itself_is_not_nan(node: Node) -> Any:
    return op.Not(op.IsNaN(node.inputs[0]))


@right("Greater", net("float[N] x", "r = Greater (x, x)  y = Not (r)"))
def nothing_is_greater_than_itself(node: Node) -> Any:
    return op.ConstantOfShape(op.Shape(node.inputs[0]), value=onnx.numpy_helper.from_array(np.array([False])))


@right("Less", net("float[N] x, float[N] z", "r = Less (x, z)  y = Not (r)"))
def less_is_greater_the_other_way(node: Node) -> Any:
    return op.Greater(node.inputs[1], node.inputs[0])


@right("LessOrEqual", net("float[N] x", "r = LessOrEqual (x, c)  y = Not (r)", "float c = {12.5}"))
def less_or_equal_is_either(node: Node) -> Any:
    return op.Or(op.Less(*node.inputs), op.Equal(*node.inputs))


@right(
    "Greater",
    net("float[N] x, float[N] z", "d = Sub (x, z)  r = Greater (d, c)  y = Not (r)", "float c = {0}"),
)
def positive_difference_is_greater(node: Node) -> Any:
    return op.Greater(*behind(node).inputs)


@right("Neg", net("float[N, 4] x", "a = Neg (x)  b = Floor (a)  r = Neg (b)  y = Reciprocal (r)"))
def ceil_is_a_floor_upside_down(node: Node) -> Any:
    return op.Ceil(x_of(node)) if before(node) else None


@right("Where", net("int32[N, 4] x, bool[N, 4] c", "r = Where (c, x, x)  y = Neg (r)"))
def both_sides_are_the_same(node: Node) -> Any:
    return node.inputs[1]


@right("Where", net("int32[N] x, int32[N] z, bool[N] c", "n = Not (c)  r = Where (n, x, z)  y = Neg (r)"))
def other_side_of_not(node: Node) -> Any:
    return op.Where(behind(node).inputs[0], node.inputs[2], node.inputs[1])


@right("Sum", net("float[N, 4] x, float[N, 4] z", "r = Sum (x, z)  y = Reciprocal (r)"))
def sum_of_two(node: Node) -> Any:
    return op.Add(*node.inputs)


@right("Cast", net("float[N] x", "a = Cast <to = 11> (x)  r = Cast <to = 1> (a)  y = Reciprocal (r)"))
def double_holds_every_float(node: Node) -> Any:
    return x_of(node) if before(node) else None


@right("Cast", net("int32[N] x", "a = Cast <to = 11> (x)  r = Cast <to = 6> (a)  y = Neg (r)"))
def double_holds_every_int32(node: Node) -> Any:
    return x_of(node) if before(node) else None


@right("Cast", net("int64[N] x", "a = Cast <to = 6> (x)  r = Cast <to = 2> (a)  y = Cast <to = 6> (r)"))
def low_bits_of_low_bits(node: Node) -> Any:
    return op.Cast(x_of(node), to=2) if node.attr("to") == 2 else None


@right("Div", net("uint32[N] x", "r = Div (x, c)  y = Cast <to = 7> (r)", "uint32 c = {8}"))
def unsigned_division_is_a_shift(node: Node) -> Any:
    return op.BitShift(node.inputs[0], np.uint32(3), direction="RIGHT")


@right(
    "Xor",
    net(
        "float[N] x",
        "c = Greater (x, z)  r = Xor (c, t)  y = Cast <to = 1> (r)",
        "float z = {3}, bool t = {1}",
    ),
)
def xor_with_true_is_not(node: Node) -> Any:
    return op.Not(node.inputs[0])


@right(
    "Transpose",
    net(
        "float[N, M, K] x",
        "a = Transpose <perm = [1, 2, 0]> (x)  r = Transpose <perm = [2, 0, 1]> (a)  y = Neg (r)",
    ),
)
def transposes_cancel(node: Node) -> Any:
    return x_of(node) if before(node) else None


@right(
    "Slice",
    net(
        "float[N, 4] x",
        "r = Slice (x, b, e, a)  y = Neg (r)",
        f"int64[1] a = {{0}}, int64[1] b = {{0}}, int64[1] e = {{{END}}}",
    ),
)
def slice_to_the_end(node: Node) -> Any:
    return node.inputs[0]


@right(
    "Concat",
    net(
        "float[N, 4] x",
        "p = Slice (x, b, m)  q = Slice (x, m, e)  r = Concat <axis = 0> (p, q)  y = Neg (r)",
        f"int64[1] b = {{0}}, int64[1] m = {{6}}, int64[1] e = {{{END}}}",
    ),
)
def two_parts_are_the_whole(node: Node) -> Any:
    return x_of(node)


@right("Concat", net("float[N, 4] x", "r = Concat <axis = 0> (x)  y = Neg (r)"))
def concat_of_one(node: Node) -> Any:
    return node.inputs[0]


@right("Clip", net("float[N, 4] x", "r = Clip (x, l, h)  y = Neg (r)", "float l = {-inf}, float h = {inf}"))
def infinite_bounds(node: Node) -> Any:
    return node.inputs[0]


@right(
    "If",
    net(
        "float[N, 4] x, bool c",
        "r = If (c) <then_branch = b1 () => (p) { p = Abs (x) }, else_branch = b2 () => (q) { q = Abs (x) }>"
        "  y = Neg (r)",
    ),
)
def branches_are_the_same(node: Node) -> Any:
    first = node.body("then_branch")[0].producer
    assert first is not None
    return op.Abs(first.inputs[0])


@right(
    "Loop",
    net(
        "float[N, 4] x",
        "r = Loop (t, k, x) <body = b (int64 i, bool g, float[N, 4] v) => (bool h, float[N, 4] w)"
        " { h = Identity (g)  w = Add (v, v) }>  y = Neg (r)",
        "bool k = {1}, int64 t = {3}",
    ),
)
def three_iterations(node: Node) -> Any:
    value = x_of(node)
    for _ in range(3):
        value = op.Add(value, value)
    return value


@right(
    "Resize",
    net("float[1, 1, L] x", 'r = Resize <mode = "nearest"> (x, , s)  y = Neg (r)', "float[3] s = {1, 1, 2}"),
)
def nearest_by_two(node: Node) -> Any:
    return remake(
        node,
        node.inputs[0],
        None,
        node.inputs[2],
        coordinate_transformation_mode="asymmetric",
        nearest_mode="floor",
    )


# -- equal because of a size that is known ---------------------------------------------------------


@right(
    "Slice",
    net(
        "float[N, 8] x",
        "r = Slice (x, b, e, a)  y = Neg (r)",
        "int64[1] a = {1}, int64[1] b = {0}, int64[1] e = {100}",
    ),
)
def first_100_of_8_columns(node: Node) -> Any:
    return node.inputs[0]


@right("ReduceMax", net("float[N, 1, 4] x", "r = ReduceMax <axes = [1]> (x)  y = Reciprocal (r)"))
def maximum_of_one(node: Node) -> Any:
    return node.inputs[0]


@right("Transpose", net("float[1, N] x", "r = Transpose (x)  y = Neg (r)"))
def a_row_becomes_a_column(node: Node) -> Any:
    return op.Reshape(node.inputs[0], ints(-1, 1))


@right(
    "DepthToSpace",
    net("float[N, 4, H, W] x", 'r = DepthToSpace <blocksize = 2, mode = "DCR"> (x)  y = Neg (r)'),
)
def one_channel_of_depth(node: Node) -> Any:
    return remake(node, node.inputs[0], mode="CRD")


@right("Gather", net("float[N, 1] x", "r = Gather <axis = 1> (x, i)  y = Neg (r)", "int64[1] i = {-1}"))
def last_of_one(node: Node) -> Any:
    return node.inputs[0]


@right(
    "If",
    net(
        "float[N, 1, 4] x",
        "s = Shape (x)  d = Gather (s, one)  c = Equal (d, one)"
        "  r = If (c) <then_branch = b1 () => (p) { p = Squeeze (x, at) },"
        " else_branch = b2 () => (q) { q = Identity (x) }>  y = Neg (r)",
        "int64 one = {1}, int64[1] at = {1}",
    ),
)
def size_decides_the_branch(node: Node) -> Any:
    return op.Squeeze(x_of(node), ints(1))


@right("Min", net("float[N, 5] x", "a = ArgMax <axis = 1> (x)  r = Min (a, c)  y = Neg (r)", "int64 c = {4}"))
def index_is_below_the_size(node: Node) -> Any:
    return node.inputs[0]


# -- equal because of what is upstream -------------------------------------------------------------


@right("Relu", net("float[N, 4] x", "a = Relu (x)  r = Relu (a)  y = Neg (r)"))
def relu_behind_relu(node: Node) -> Any:
    return node.inputs[0] if before(node) else None


@right(
    "Clip",
    net(
        "float[N, 4] x",
        "a = Clip (x, l, h)  r = Clip (a, l, h)  y = Neg (r)",
        "float l = {-1}, float h = {6}",
    ),
)
def clip_behind_the_same_clip(node: Node) -> Any:
    return node.inputs[0] if before(node) else None


@right("Abs", net("float[N, 4] x", "a = Exp (x)  r = Abs (a)  y = Neg (r)"))
def abs_behind_exp(node: Node) -> Any:
    return node.inputs[0]


@right("Add", net("float[N, 4] x", "a = Abs (x)  r = Add (a, z)  y = Reciprocal (r)", "float z = {0}"))
def plus_zero_behind_abs(node: Node) -> Any:
    return node.inputs[0]


@right("Max", net("float[N, 4] x", "a = Sigmoid (x)  r = Max (a, z)  y = Neg (r)", "float z = {0}"))
def maximum_with_zero_behind_sigmoid(node: Node) -> Any:
    return node.inputs[0]


@right(
    "Clip",
    net(
        "float[N, 4] x",
        "a = HardSigmoid (x)  r = Clip (a, l, h)  y = Neg (r)",
        "float l = {0}, float h = {1}",
    ),
)
def clip_behind_hard_sigmoid(node: Node) -> Any:
    return node.inputs[0]


@right(
    "Floor", net("float[N, 4] x", "a = Cast <to = 6> (x)  b = Cast <to = 1> (a)  r = Floor (b)  y = Neg (r)")
)
def floor_behind_an_integer(node: Node) -> Any:
    return node.inputs[0]


@right("Round", net("float[N, 4] x", "a = Floor (x)  r = Round (a)  y = Cast <to = 7> (r)"))
def round_behind_floor(node: Node) -> Any:
    return node.inputs[0]


@right("Cast", net("float[N, 4] x", "a = Abs (x)  b = Floor (a)  r = Cast <to = 6> (b)  y = Neg (r)"))
def floor_of_positive_before_a_cast(node: Node) -> Any:
    return op.Cast(behind(node).inputs[0], to=INT32)


@right("Mod", net("int64[N] x", "a = Mod (x, c)  r = Mod (a, c)  y = Neg (r)", "int64 c = {7}"))
def mod_behind_mod(node: Node) -> Any:
    return node.inputs[0] if before(node) else None


@right(
    "Slice",
    net(
        "float[N, 4] x",
        "a = Slice (x, b, e)  r = Slice (a, b, e)  y = Neg (r)",
        "int64[1] b = {0}, int64[1] e = {8}",
    ),
)
def slice_behind_the_same_slice(node: Node) -> Any:
    return node.inputs[0] if before(node) else None


@right(
    "Reshape",
    net("float[N, M, 2] x", "a = Reshape (x, s)  r = Reshape (a, s)  y = Neg (r)", "int64[2] s = {-1, 8}"),
)
def reshape_behind_the_same_reshape(node: Node) -> Any:
    return node.inputs[0] if before(node) else None


@right(
    "Slice",
    net("float[N, 4] x", "s = Shape <end = 1> (x)  r = Slice (x, b, s)  y = Neg (r)", "int64[1] b = {0}"),
)
def slice_to_the_size(node: Node) -> Any:
    return node.inputs[0]


@right("Max", net("float[N, 4] x", "s = Shape (x)  r = Max (s, z)  y = Neg (r)", "int64 z = {0}"))
def sizes_are_not_negative(node: Node) -> Any:
    return node.inputs[0]


@right(
    "Where",
    net(
        "float[N, 4] x, bool[N, 4] c",
        "n = And (c, f)  r = Where (n, z, x)  y = Neg (r)",
        "bool f = {0}, float z = {7}",
    ),
)
def a_condition_that_is_never_true(node: Node) -> Any:
    return node.inputs[2]


@right(
    "Where",
    net(
        "float[N, 4] x",
        "c = IsNaN (x)  a = Where (c, z, x)  d = IsNaN (a)  r = Where (d, z, a)  y = Neg (r)",
        "float z = {0}",
    ),
)
def nan_is_gone_already(node: Node) -> Any:
    condition = node.inputs[0]
    assert condition is not None
    assert condition.producer is not None
    inner = condition.producer.inputs[0]
    return inner if inner is not None and inner.producer else None


@right(
    "MaxPool",
    net(
        "int32[N, 2, L] x",
        "f = Cast <to = 1> (x)  a = Abs (f)  r = MaxPool <kernel_shape = [3], pads = [1, 1]> (a)"
        "  y = Neg (r)",
    ),
)
def padding_of_zero_behind_abs(node: Node) -> Any:
    return remake(node, op.Pad(node.inputs[0], ints(0, 0, 1, 0, 0, 1)), pads=None)


@right(
    "Gather",
    net(
        "int64[N] x",
        "a = Mod (x, c)  b = Clip (a, l, h)  r = Gather (t, b)  y = Neg (r)",
        f"int64 c = {{5}}, int64 l = {{0}}, int64 h = {{4}}, {weights('t', 5, 2)}",
    ),
)
def index_is_in_the_table(node: Node) -> Any:
    return op.Gather(node.inputs[0], op.Mod(x_of(node), np.int64(5)))


@right("Sign", net("float[N] x", "a = Sign (x)  r = Sign (a)  y = Reciprocal (r)"))
def sign_behind_sign(node: Node) -> Any:
    return node.inputs[0] if before(node) else None


# -- sums in another order -------------------------------------------------------------------------

_BATCH_NORM = (
    "float[3] s = {1, 0.5, -2}, float[3] o = {0, 1, 2}, float[3] v = {1, 4, 0.25}, "
    + weights("w", 3, 2, 3, 3)
    + ", float[3] b = {1, 0, -1}, float[3] m = {%s}"
)
_CONV_NORM = "c = Conv (x, w, b)  r = BatchNormalization (c, s, o, m, v)  y = Neg (r)"


def _folded(node: Node) -> Any:
    conv = behind(node)
    x, *given = conv.inputs
    w, bias, scale, offset, mean, variance = (
        np.asarray(constant(one), np.float64) for one in (*given, *node.inputs[1:])
    )
    factor = scale / np.sqrt(variance + node.attr("epsilon"))
    new_bias = (bias - mean) * factor + offset
    sizes = np.abs(factor) * (np.sqrt((w**2).sum((1, 2, 3))) + np.abs(bias) + np.abs(mean)) + np.abs(offset)
    new = remake(conv, x, (w * factor.reshape(-1, 1, 1, 1)).astype(F), new_bias.astype(F))
    return Close(new, w[0].size + 2, sizes)


@right(
    "BatchNormalization", net("float[N, 2, 6, 6] x", _CONV_NORM, _BATCH_NORM % "0.5, 0, -0.25"), close=True
)
def batch_normalization_into_conv(node: Node) -> Any:
    return _folded(node)


@right(
    "BatchNormalization",
    net("float[N, 2, 6, 6] x", _CONV_NORM, _BATCH_NORM % "1.001, -0.001, -1.001"),
    close=True,
)
def batch_normalization_whose_mean_cancels_the_bias(node: Node) -> Any:
    return _folded(node)


@right(
    "BatchNormalization",
    net(
        "float[N, 2, 6, 6] x",
        "a = Abs (x)  e = Add (a, k)  " + _CONV_NORM.replace("Conv (x", "Conv (e"),
        (_BATCH_NORM % "180, 180, 180").replace(
            weights("w", 3, 2, 3, 3), "float[3, 2, 3, 3] w = {" + ", ".join(["0.1"] * 54) + "}"
        )
        + ", float k = {100}",
    ),
    close=True,
)
def batch_normalization_whose_mean_cancels_the_sum(node: Node) -> Any:
    return _folded(node)


_PRODUCT = "float[5] s = {2, 3, 0.5, -1, 0.3}, float[5] c = {1, 0, -1, 2, 0.1}, " + weights("w", 8, 5)


@right("Mul", net("float[N, 8] x", "a = MatMul (x, w)  r = Mul (a, s)  y = Neg (r)", _PRODUCT), close=True)
def scale_into_matmul(node: Node) -> Any:
    x, w = behind(node).inputs
    return Close(op.MatMul(x, constant(w) * constant(node.inputs[1])), 9, axis=-1)


@right("Add", net("float[N, 8] x", "a = MatMul (x, w)  r = Add (a, c)  y = Neg (r)", _PRODUCT), close=True)
def matmul_and_bias_as_gemm(node: Node) -> Any:
    return Close(op.Gemm(*behind(node).inputs, node.inputs[1]), 9)


def _pointwise(v: str, w: str) -> str:
    return net("float[N, 4, 5, 5] x", "a = Conv (x, v)  r = Conv (a, w)  y = Neg (r)", f"{v}, {w}")


def _joined(node: Node) -> Any:
    if before(node) is None:
        return None
    first, second = (np.asarray(constant(one.inputs[1]), np.float64) for one in (behind(node), node))
    product = second[:, :, 0, 0] @ first[:, :, 0, 0]
    return Close(op.Conv(x_of(node), product.astype(F)[:, :, None, None]), 24)


@right(
    "Conv",
    _pointwise(weights("v", 6, 4, 1, 1).replace("-", ""), weights("w", 3, 6, 1, 1).replace("-", "")),
    close=True,
)
def two_pointwise_convs(node: Node) -> Any:
    return _joined(node)


# of an infinity the first makes infinities of both signs, and the second NaN of them
@right("Conv", _pointwise(weights("v", 6, 4, 1, 1), weights("w", 3, 6, 1, 1)), close=True, needs="except-nan")
def two_pointwise_convs_of_both_signs(node: Node) -> Any:
    return _joined(node)


@right(
    "Add",
    net(
        "float[N, 4] x",
        "a = Add (x, b)  r = Add (a, c)  y = Neg (r)",
        f"{weights('b', 4)}, {weights('c', 4)}",
    ),
    close=True,
)
def two_biases(node: Node) -> Any:
    if before(node) is None:
        return None
    return Close(op.Add(x_of(node), constant(behind(node).inputs[1]) + constant(node.inputs[1])), 3)


@right(
    "ReduceMean", net("float[N, 3, 4, 5] x", "r = ReduceMean <axes = [2, 3]> (x)  y = Neg (r)"), close=True
)
def mean_is_global_average_pool(node: Node) -> Any:
    return Close(op.GlobalAveragePool(node.inputs[0]), 20)


@right(
    "AveragePool",
    net("float[N, 3, 4, 5] x", "r = AveragePool <kernel_shape = [4, 5]> (x)  y = Neg (r)"),
    close=True,
)
def average_over_all_is_a_mean(node: Node) -> Any:
    return Close(op.ReduceMean(node.inputs[0], axes=[2, 3]), 20)


@right(
    "ReduceSum",
    net(
        "float[N, 3, 4, 5] x",
        "a = ReduceSum (x, i)  r = ReduceSum (a, j)  y = Neg (r)",
        "int64[1] i = {3}, int64[1] j = {2}",
    ),
    close=True,
)
def two_sums_are_one(node: Node) -> Any:
    return Close(op.ReduceSum(x_of(node), ints(2, 3)), 20) if before(node) else None


@right("ReduceL2", net("float[N, 8] x", "r = ReduceL2 <axes = [1]> (x)  y = Neg (r)"), close=True)
def norm_as_a_root(node: Node) -> Any:
    x = node.inputs[0]
    return Close(op.Sqrt(op.ReduceSum(op.Mul(x, x), ints(1))), 8)


def _normalized(x: Any, axis: int, epsilon: float) -> Any:
    centered = op.Sub(x, op.ReduceMean(x, axes=[axis]))
    variance = op.ReduceMean(op.Mul(centered, centered), axes=[axis])
    return op.Div(centered, op.Sqrt(op.Add(variance, epsilon)))


@right(
    "LayerNormalization",
    net(
        "float[N, 8] x",
        "r = LayerNormalization (x, s, b)  y = Neg (r)",
        f"{weights('s', 8)}, {weights('b', 8)}",
    ),
    close=True,
)
def layer_normalization_in_two_passes(node: Node) -> Any:
    y = op.Mul(_normalized(node.inputs[0], -1, 1e-5), node.inputs[1])
    return Close(op.Add(y, node.inputs[2]), 12)


@right(
    "InstanceNormalization",
    net(
        "float[N, 2, 9] x",
        "r = InstanceNormalization (x, s, b)  y = Neg (r)",
        "float[2] s = {1, -2}, float[2] b = {0, 1}",
    ),
    close=True,
)
def instance_normalization_in_two_passes(node: Node) -> Any:
    y = op.Mul(_normalized(node.inputs[0], 2, 1e-5), floats(1, -2).reshape(2, 1))
    return Close(op.Add(y, floats(0, 1).reshape(2, 1)), 12)


@right("Softmax", net("float[N, 6] x", "r = Softmax (x)  y = Neg (r)"), close=True)
def softmax_less_its_maximum(node: Node) -> Any:
    x = node.inputs[0]
    e = op.Exp(op.Sub(x, op.ReduceMax(x, axes=[1])))
    return Close(op.Div(e, op.ReduceSum(e, ints(1))), 8)


@right(
    "Gemm",
    net("float[N, 8] x", "r = Gemm <alpha = 0.3, beta = 0.7> (x, w, c)  y = Neg (r)", _PRODUCT),
    close=True,
)
def factors_into_gemm(node: Node) -> Any:
    x, w, c = (node.inputs[0], constant(node.inputs[1]), constant(node.inputs[2]))
    return Close(op.Gemm(x, w * F(0.3), c * F(0.7)), 10)


@right("Div", net("float[N, 4] x", "r = Div (x, c)  y = Neg (r)", "float c = {3}"), close=True)
def a_third_is_a_product(node: Node) -> Any:
    return Close(op.Mul(node.inputs[0], 1 / 3), 2)


# -- what a rule cannot say yet --------------------------------------------------------------------


@right("Sub", net("float[N, 4] x", "r = Sub (x, x)  y = Neg (r)"), needs="except-nan")
def x_minus_x_is_zero(node: Node) -> Any:
    return op.ConstantOfShape(op.Shape(node.inputs[0]))


@right("Max", net("float[N, 4] x", "r = Max (x, z)  y = Neg (r)", "float z = {0}"), needs="except-nan")
def maximum_with_zero_selects(node: Node) -> Any:
    x = node.inputs[0]
    return op.Where(op.Greater(x, 0.0), x, 0.0)


@right("Min", net("float[N, 4] x", "r = Min (x, c)  y = Neg (r)", "float c = {6}"), needs="except-nan")
def minimum_with_six_selects(node: Node) -> Any:
    x = node.inputs[0]
    return op.Where(op.Not(op.Less(x, 6.0)), 6.0, x)


@right("Abs", net("float[N, 4] x", "a = Relu (x)  r = Abs (a)  y = Neg (r)"), needs="except-zero-sign")
def abs_behind_relu(node: Node) -> Any:
    return node.inputs[0]


@right(
    "Where",
    net("float[N, 4] x", "c = Less (x, z)  n = Neg (x)  r = Where (c, n, x)  y = Neg (r)", "float z = {0}"),
    needs="except-zero-sign",
)
def selected_is_absolute(node: Node) -> Any:
    return op.Abs(node.inputs[2])


@right(
    "QuantizeLinear",
    net(
        "float[N, 4] x",
        "r = QuantizeLinear (x, s, z)  y = Cast <to = 6> (r)",
        "float s = {0.1}, int8 z = {0}",
    ),
    needs="within-steps",
    x=(-1000, 1000),
)
def quantize_by_the_reciprocal(node: Node) -> Any:
    steps = op.Round(op.Mul(node.inputs[0], 10.0))
    return op.Cast(op.Clip(steps, -128.0, 127.0), to=INT8)


@right(
    "QuantizeLinear",
    net(
        "uint8[N, 4] x",
        "f = Cast <to = 1> (x)  r = QuantizeLinear (f, s, z)  y = Cast <to = 6> (r)",
        "float s = {2}, uint8 z = {0}",
    ),
    needs="within-steps",
)
def quantize_rounds_half_up(node: Node) -> Any:
    return op.Cast(op.Floor(op.Add(op.Mul(op.Cast(x_of(node), to=FLOAT), 0.5), 0.5)), to=2)
