"""Rules that are wrong somewhere, each with a model and an input that shows it.

They are written from the operators' definitions: as far as that is possible each is right for ordinary
inputs, and wrong for a size, a value, NaN, overflow, a scale, a branch, a dtype. A proof must reject all of
them. Each is run for one change only.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx

from onnxq.rule import Close, Node, Value, constant, op, remake

F = np.float32
END = 2**63 - 1
INT32, INT64, BOOL, HALF, FLOAT, UINT8, INT8 = 6, 7, 9, 10, 1, 2, 3  # onnx.TensorProto.DataType


@dataclass(frozen=True)
class WrongRule:
    """A rule that is wrong somewhere.

    Attributes:
        name: its name.
        root: the operator whose nodes it replaces.
        function: the rule.
        model: ONNX text, or a function that makes a model; the rule fires once in it.
        because: on which input it is wrong.
        witness: such an input.
    """

    name: str
    root: str
    function: Callable[[Node], Any]
    model: str | Callable[[], onnx.ModelProto]
    because: str
    witness: Mapping[str, np.ndarray]


WRONG: list[WrongRule] = []


def wrong(
    root: str, model: str, because: str, **witness: np.ndarray
) -> Callable[[Callable[[Node], Any]], Callable[[Node], Any]]:
    """Makes a function one of the wrong rules."""

    def decorate(function: Callable[[Node], Any]) -> Callable[[Node], Any]:
        WRONG.append(WrongRule(function.__name__, root, function, model, because, witness))
        return function

    return decorate


def net(inputs: str, body: str, constants: str = "", outputs: str = "y", opset: int = 17) -> str:
    given = f"<{constants}>" if constants else ""
    return f'<ir_version: 8, opset_import: ["" : {opset}]> g ({inputs}) => ({outputs}) {given} {{ {body} }}'


def ints(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


def floats(*values: Any) -> np.ndarray:
    return np.array(values, F)


def full(value: float, *shape: int) -> np.ndarray:
    return np.full(shape, value, F)


def ramp(*shape: int) -> np.ndarray:
    """1, 2, 3, ..."""
    return (np.arange(np.prod(shape), dtype=F) + 1).reshape(shape)


def x_of(node: Node) -> Value:
    """The input `x` of the model."""
    return input_of(node, "x")


def input_of(node: Node, name: str) -> Value:
    """An input of the model that a node depends on."""
    todo = [node]
    while todo:
        for tensor in todo.pop().inputs:
            if tensor is not None and tensor.name == name:
                return tensor
            if tensor is not None and tensor.producer is not None:
                todo.append(tensor.producer)
    raise ValueError(name)


def before(node: Node, index: int = 0) -> Node | None:
    """The node that writes an input, None for inputs of the model."""
    source = node.inputs[index]
    return None if source is None else source.producer


# -- a size ----------------------------------------------------------------------------------------


def _rows(begin: int, end: int) -> str:
    return net(
        "float[N, 4] x",
        "r = Slice (x, b, e, z)  y = Neg (r)",
        f"int64[1] b = {{{begin}}}, int64[1] e = {{{end}}}, int64[1] z = {{0}}",
    )


@wrong("Slice", _rows(0, 8), "N = 9", x=ramp(9, 4))
def first_8_rows_are_all(node: Node) -> Any:
    return node.inputs[0]


@wrong("Slice", _rows(0, 100), "N = 101", x=ramp(101, 4))
def first_100_rows_are_all(node: Node) -> Any:
    return node.inputs[0]


@wrong("Slice", _rows(0, 1000), "N = 1001", x=ramp(1001, 4))
def first_1000_rows_are_all(node: Node) -> Any:
    return node.inputs[0]


@wrong("Slice", _rows(-10, END), "N = 11", x=ramp(11, 4))
def last_10_rows_are_all(node: Node) -> Any:
    return node.inputs[0]


@wrong("Slice", _rows(0, 16), "N = 16: the last row is lost", x=ramp(16, 4))
def first_16_rows_end_one_early(node: Node) -> Any:
    return op.Slice(node.inputs[0], ints(0), ints(15), ints(0))


@wrong(
    "Slice",
    _rows(-32, END),
    "16 < N < 32: N - 32 is negative and counts from the end; for smaller N it is clamped",
    x=ramp(20, 4),
)
def last_32_rows_from_the_shape(node: Node) -> Any:
    x = node.inputs[0]
    return op.Slice(x, op.Sub(op.Shape(x, start=0, end=1), ints(32)), ints(END), ints(0))


@wrong(
    "Concat",
    net(
        "float[N, 4] x",
        "t = Slice (x, b, e, z)  r = Concat <axis = 0> (x, t)  y = Neg (r)",
        f"int64[1] b = {{8}}, int64[1] e = {{{END}}}, int64[1] z = {{0}}",
    ),
    "N = 9: the rows behind the 8th are not empty",
    x=ramp(9, 4),
)
def rows_behind_the_8th_are_none(node: Node) -> Any:
    return node.inputs[0]


@wrong(
    "TopK",
    net("float[M] x", "s = Shape (x)  k = Min (s, c)  v, i = TopK (x, k)  y = Neg (v)", "int64[1] c = {16}"),
    "M = 17",
    x=ramp(17),
)
def topk_of_16_takes_all(node: Node) -> Any:
    value, _ = op.TopK(node.inputs[0], op.Shape(node.inputs[0]), outputs=2)
    return {0: value}


def _resized(mode: str, coordinates: str, scale: float) -> str:
    return net(
        "float[1, 1, L] x",
        f'r = Resize <mode = "{mode}", coordinate_transformation_mode = "{coordinates}"> (x, , s)'
        "  y = Neg (r)",
        f"float[3] s = {{1, 1, {scale}}}",
    )


@wrong(
    "Resize",
    _resized("linear", "pytorch_half_pixel", 0.125),
    "8 <= L < 16: the only output of pytorch_half_pixel is the first element",
    x=ramp(1, 1, 8),
)
def pytorch_half_pixel_is_half_pixel(node: Node) -> Any:
    return remake(node, node.inputs[0], None, node.inputs[2], coordinate_transformation_mode="half_pixel")


@wrong(
    "Resize",
    _resized("nearest", "half_pixel", 1.03125),
    "L >= 32: one more element; from L = 17 on another element",
    x=ramp(1, 1, 40),
)
def resize_by_about_one(node: Node) -> Any:
    return node.inputs[0]


_COUNT = "s = Shape <start = 0, end = 1> (x)  n = Squeeze (s)  i = Range (zero, n, one)"


@wrong(
    "Range",
    net("float[N, 4] x", f"{_COUNT}  y = Neg (i)", "int64 zero = {0}, int64 one = {1}"),
    "N = 65",
    x=ramp(65, 4),
)
def range_from_a_table_of_64(node: Node) -> Any:
    end = op.Shape(x_of(node), start=0, end=1)
    return op.Slice(np.arange(64, dtype=np.int64), ints(0), end, ints(0))


@wrong(
    "Mod",
    net(
        "float[N, 4] x",
        f"{_COUNT}  r = Mod (i, c)  y = Neg (r)",
        "int64 zero = {0}, int64 one = {1}, int64 c = {50}",
    ),
    "N = 51",
    x=ramp(51, 4),
)
def positions_are_below_50(node: Node) -> Any:
    end = op.Squeeze(op.Shape(x_of(node), start=0, end=1))
    return op.Range(np.int64(0), end, np.int64(1))


@wrong(
    "Gather",
    net(
        "float[N, 4] x",
        f"{_COUNT}  j = Min (i, c)  p = Cast <to = 1> (t)  r = Gather (p, j)  y = Neg (r)",
        "int64 zero = {0}, int64 one = {1}, int64 c = {20}, int64[21] t = {"
        + ", ".join(map(str, range(21)))
        + "}",
    ),
    "N = 22: the last position is none of the table's",
    x=ramp(22, 4),
)
def positions_are_in_the_table(node: Node) -> Any:
    end = op.Squeeze(op.Shape(x_of(node), start=0, end=1))
    return op.Gather(node.inputs[0], op.Range(np.int64(0), end, np.int64(1)))


_EXPANDED = net("float[N, 4] x", "r = Expand (x, e)  y = Neg (r)", "int64[2] e = {8, 4}")


@wrong("Expand", _EXPANDED, "N = 8: the Tile has 64 rows", x=ramp(8, 4))
def expand_to_8_repeats_8_times(node: Node) -> Any:
    return op.Tile(node.inputs[0], ints(8, 1))


@wrong("Expand", _EXPANDED, "N = 1: the Expand has 8 rows", x=ramp(1, 4))
def expand_to_8_does_nothing(node: Node) -> Any:
    return node.inputs[0]


@wrong(
    "Reshape",
    net(
        "float[N, 4] x",
        "s = Shape <start = 0, end = 1> (x)  n = Min (s, c)  t = Concat <axis = 0> (n, m)  r = Reshape (x, t)"
        "  y = Neg (r)",
        "int64[1] c = {8}, int64[1] m = {-1}",
    ),
    "N = 10: [8, 5] (at N = 9 the original does not run)",
    x=ramp(10, 4),
)
def reshape_to_at_most_8_rows(node: Node) -> Any:
    return node.inputs[0]


@wrong(
    "Div",
    net(
        "float[N, 4] x",
        "t = ReduceSum <keepdims = 0> (x, z)  s = Shape <start = 0, end = 1> (x)  n = Max (s, one)"
        "  f = Cast <to = 1> (n)  r = Div (t, f)  y = Neg (r)",
        "int64[1] z = {0}, int64[1] one = {1}",
    ),
    "N = 0: 0 / 0",
    x=ramp(0, 4),
)
def mean_needs_no_guard(node: Node) -> Any:
    count = op.Shape(x_of(node), start=0, end=1)
    return op.Div(node.inputs[0], op.Cast(count, to=FLOAT))


@wrong(
    "Shape",
    net("float[N, 4] x, float[M, 4] z", "a = Add (x, z)  r = Shape (a)  y = Neg (r)"),
    "N = 1, M = 3: broadcast",
    x=ramp(1, 4),
    z=ramp(3, 4),
)
def sum_has_the_shape_of_its_first_operand(node: Node) -> Any:
    return op.Shape(x_of(node))


@wrong(
    "Squeeze",
    net("float[N, 1, 4] x", "r = Squeeze (x)  y = Neg (r)"),
    "N = 1 is squeezed too",
    x=ramp(1, 1, 4),
)
def squeeze_takes_the_static_dimension(node: Node) -> Any:
    return op.Squeeze(node.inputs[0], ints(1))


@wrong(
    "Pad",
    net(
        "float[N, 4] x",
        "s = Shape <start = 0, end = 1> (x)  d = Sub (c, s)  m = Max (d, z)"
        "  p = Concat <axis = 0> (z, z, m, z)  r = Pad (x, p)  y = Neg (r)",
        "int64[1] c = {12}, int64[1] z = {0}",
    ),
    "N = 13: a negative pad crops",
    x=ramp(13, 4),
)
def pad_up_to_12_rows(node: Node) -> Any:
    missing = op.Sub(ints(12), op.Shape(node.inputs[0], start=0, end=1))
    return op.Pad(node.inputs[0], op.Concat(ints(0, 0), missing, ints(0), axis=0))


@wrong(
    "Pad",
    net(
        "float[N, 4] x",
        "s = Shape <start = 0, end = 1> (x)  a = Mod (s, c)  b = Sub (c, a)  m = Mod (b, c)"
        "  p = Concat <axis = 0> (z, z, m, z)  r = Pad (x, p)  y = Neg (r)",
        "int64[1] c = {32}, int64[1] z = {0}",
    ),
    "N = 32 (and 0): it is padded by 32 rows",
    x=ramp(32, 4),
)
def pad_to_a_multiple_of_32(node: Node) -> Any:
    rest = op.Mod(op.Shape(node.inputs[0], start=0, end=1), ints(32))
    return op.Pad(node.inputs[0], op.Concat(ints(0, 0), op.Sub(ints(32), rest), ints(0), axis=0))


@wrong(
    "Gather",
    net("float[N, 4] x", "r = Gather (x, c)  y = Neg (r)", "int64[1] c = {9}"),
    "N = 11: row 9 is not the last (below N = 10 the original does not run)",
    x=ramp(11, 4),
)
def row_9_is_the_last(node: Node) -> Any:
    return op.Gather(node.inputs[0], ints(-1))


@wrong(
    "Sub",
    net(
        "float[N, M] x",
        "n = Shape <start = 0, end = 1> (x)  m = Shape <start = 1, end = 2> (x)  e = Equal (n, m)"
        "  f = Cast <to = 1> (e)  r = Sub (x, f)  y = Neg (r)",
    ),
    "N = M",
    x=ramp(5, 5),
)
def dimensions_are_never_equal(node: Node) -> Any:
    return node.inputs[0]


@wrong(
    "EyeLike",
    net("float[N, M] x", "r = EyeLike (x)  y = Neg (r)"),
    "N = 2, M = 3: it is not square",
    x=ramp(2, 3),
)
def eye_is_square(node: Node) -> Any:
    count = op.Squeeze(op.Shape(node.inputs[0], start=0, end=1))
    index = op.Range(np.int64(0), count, np.int64(1))
    return op.Cast(op.Equal(op.Unsqueeze(index, ints(0)), op.Unsqueeze(index, ints(1))), to=FLOAT)


@wrong(
    "Div",
    net(
        "float[N, M] x",
        "t = ReduceSum <keepdims = 0> (x, one)  m = Shape <start = 1, end = 2> (x)  f = Cast <to = 1> (m)"
        "  r = Div (t, f)  y = Neg (r)",
        "int64[1] one = {1}",
    ),
    "N = 2, M = 3: divided by the wrong size",
    x=ramp(2, 3),
)
def mean_over_the_other_dimension(node: Node) -> Any:
    return op.Div(node.inputs[0], op.Cast(op.Shape(x_of(node), start=0, end=1), to=FLOAT))


@wrong(
    "Transpose",
    net("float[N, M] x", "r = Transpose (x)  y = Neg (r)"),
    "N = M = 2: the elements move (neither size is 1)",
    x=ramp(2, 2),
)
def transpose_is_a_reshape(node: Node) -> Any:
    x = node.inputs[0]
    return op.Reshape(x, op.Concat(op.Shape(x, start=1), op.Shape(x, end=1), axis=0), allowzero=1)


@wrong(
    "Trilu",
    net("float[N, M] x", "r = Trilu <upper = 0> (x, k)  y = Neg (r)", "int64 k = {12}"),
    "N = 1, M = 14: an element above the 12th diagonal",
    x=ramp(1, 14),
)
def twelve_diagonals_are_all(node: Node) -> Any:
    return node.inputs[0]


@wrong(
    "MaxPool",
    net(
        "float[N, 1, L] x",
        "r = MaxPool <kernel_shape = [16], strides = [16], ceil_mode = 1> (x)  y = Neg (r)",
    ),
    "L = 17: two windows",
    x=ramp(1, 1, 17),
)
def one_window_of_16(node: Node) -> Any:
    return op.ReduceMax(node.inputs[0], axes=[2])


@wrong(
    "Min",
    net("float[N, 3] x", "a = ArgMax <axis = 0> (x)  r = Min (a, c)  y = Neg (r)", "int64 c = {20}"),
    "N = 22 and the maximum in row 21",
    x=ramp(22, 3),
)
def maximum_is_in_the_first_20_rows(node: Node) -> Any:
    return op.ArgMax(x_of(node), axis=0)


def _sliced_by(cast: int) -> str:
    return net(
        "float[N] x",
        f"s = Shape (x)  f = Cast <to = {cast}> (s)  e = Cast <to = 7> (f)  r = Slice (x, z, e)  y = Neg (r)",
        "int64[1] z = {0}",
    )


@wrong("Slice", _sliced_by(HALF), "N = 2049 is 2048 in half precision", x=ramp(2049))
def size_in_half_precision(node: Node) -> Any:
    return node.inputs[0]


@wrong("Slice", _sliced_by(UINT8), "N = 256 is 0 in 8 bits", x=ramp(256))
def size_in_8_bits(node: Node) -> Any:
    return node.inputs[0]


@wrong(
    "Slice",
    net(
        "float[N] x",
        "s = Shape (x)  d = Div (s, c)  e = Sub (s, d)  r = Slice (x, z, e)  y = Neg (r)",
        "int64[1] z = {0}, int64[1] c = {64}",
    ),
    "N = 64: N / 64 is 1",
    x=ramp(64),
)
def sixtyfourth_of_the_size_is_0(node: Node) -> Any:
    return node.inputs[0]


# -- a value ---------------------------------------------------------------------------------------


@wrong(
    "If",
    net(
        "float[N, 4] x",
        "s = ReduceSum <keepdims = 0> (x)  c = Greater (s, t)"
        "  r = If (c) <then_branch = b1 () => (p) { p = Neg (x) },"
        " else_branch = b2 () => (q) { q = Exp (x) }>  y = Neg (r)",
        "float t = {5000}",
    ),
    "a sum of 6000",
    x=full(6000, 1, 4) / F(4),
)
def sum_is_at_most_5000(node: Node) -> Any:
    return op.Exp(x_of(node))


@wrong(
    "Where",
    net(
        "float[N, 4] x",
        "c = Equal (x, t)  r = Where (c, o, x)  y = Neg (r)",
        "float t = {0.3}, float o = {7}",
    ),
    "x = 0.3",
    x=floats([0.3, 1, 2, 3]),
)
def nothing_equals_0_3(node: Node) -> Any:
    return x_of(node)


@wrong("Less", net("float[N] x", "r = Less (x, t)  y = Not (r)", "float t = {2.5}"), "x = 2.5", x=floats(2.5))
def less_is_less_or_equal(node: Node) -> Any:
    return op.LessOrEqual(*node.inputs)


@wrong(
    "GreaterOrEqual",
    net(
        "float[N] x", "m = Mul (x, f)  r = GreaterOrEqual (m, t)  y = Not (r)", "float f = {4}, float t = {3}"
    ),
    "x = 0.75",
    x=floats(0.75),
)
def greater_or_equal_is_greater(node: Node) -> Any:
    return op.Greater(x_of(node), 0.75)


@wrong(
    "Greater",
    net("float[N] x", "m = Add (x, x)  r = Greater (m, t)  y = Not (r)", "float t = {9}"),
    "x = 4.5, a number that stands nowhere",
    x=floats(4.5),
)
def greater_of_the_double_is_greater_or_equal(node: Node) -> Any:
    x = x_of(node)
    return op.GreaterOrEqual(op.Add(x, x), 9.0)


def _clipped(low: float, high: float) -> str:
    return net(
        "float[N, 4] x", "r = Clip (x, l, h)  y = Neg (r)", f"float l = {{{low}}}, float h = {{{high}}}"
    )


@wrong("Clip", _clipped(0, 100), "x = 101", x=full(101, 1, 4))
def nothing_is_above_100(node: Node) -> Any:
    return op.Clip(node.inputs[0], 0.0)


@wrong("Clip", _clipped(-1000, 1000), "x = -1001", x=full(-1001, 1, 4))
def nothing_is_beyond_1000(node: Node) -> Any:
    return node.inputs[0]


@wrong("Clip", _clipped(-1, 6), "x = 7", x=full(7, 1, 4))
def clip_at_6_5_for_6(node: Node) -> Any:
    return op.Clip(node.inputs[0], -1.0, 6.5)


@wrong("Clip", _clipped(-65504, 65504), "x = 1e5", x=full(1e5, 1, 4))
def everything_is_in_half_range(node: Node) -> Any:
    return node.inputs[0]


@wrong(
    "Clip",
    net("float[N, 4] x, float l, float h", "r = Clip (x, l, h)  y = Neg (r)"),
    "the lowest bound is above the highest: the highest wins",
    x=ramp(1, 4),
    l=np.array(3, F),
    h=np.array(1, F),
)
def clip_ends_with_its_lowest_bound(node: Node) -> Any:
    x, low, high = node.inputs
    return op.Max(op.Min(x, high), low)


@wrong(
    "Where",
    net(
        "float[N, 4] x",
        "c = Greater (x, t)  r = Where (c, o, x)  y = Neg (r)",
        "float t = {37.5}, float o = {0}",
    ),
    "x = 38",
    x=full(38, 1, 4),
)
def nothing_is_above_37_5(node: Node) -> Any:
    return x_of(node)


@wrong(
    "And",
    net(
        "float[N] x",
        "a = Greater (x, l)  b = Less (x, h)  r = And (a, b)  y = Not (r)",
        "float l = {11}, float h = {11.5}",
    ),
    "x = 11.25",
    x=floats(11.25),
)
def nothing_is_between_11_and_11_5(node: Node) -> Any:
    x = x_of(node)
    return op.Less(x, x)


@wrong(
    "Where",
    net(
        "float[N] x",
        "m = Mul (x, f)  a = Greater (m, l)  b = Less (m, h)  c = And (a, b)"
        "  r = Where (c, o, x)  y = Neg (r)",
        "float f = {8}, float l = {37}, float h = {38}, float o = {0}",
    ),
    "4.625 < x < 4.75, which no number in the graph is",
    x=floats(4.7),
)
def eight_times_nothing_is_between_37_and_38(node: Node) -> Any:
    return x_of(node)


@wrong(
    "Where",
    net(
        "float[N] x",
        "m = Mul (x, x)  c = Greater (m, t)  r = Where (c, o, x)  y = Neg (r)",
        "float t = {1000000}, float o = {0}",
    ),
    "x = -1001",
    x=floats(-1001),
)
def no_square_is_above_a_million(node: Node) -> Any:
    return x_of(node)


@wrong(
    "Mod", net("int64[N] x", "r = Mod (x, c)  y = Neg (r)", "int64 c = {5}"), "x = -3: 2, not -3", x=ints(-3)
)
def mod_has_the_sign_of_the_dividend(node: Node) -> Any:
    return remake(node, *node.inputs, fmod=1)


@wrong(
    "Mod",
    net("float[N] x", "r = Mod <fmod = 1> (x, c)  y = Neg (r)", "float c = {4}"),
    "x = -3: -3, not 1",
    x=floats(-3),
)
def fmod_rounds_down(node: Node) -> Any:
    x = node.inputs[0]
    return op.Sub(x, op.Mul(op.Floor(op.Div(x, 4.0)), 4.0))


@wrong(
    "Mod",
    net("float[N] x", "r = Mod <fmod = 1> (x, c)  y = Neg (r)", "float c = {360}"),
    "x = 361",
    x=floats(361),
)
def every_angle_is_below_360(node: Node) -> Any:
    return node.inputs[0]


@wrong(
    "Div",
    net("int32[N] x", "r = Div (x, c)  y = Neg (r)", "int32 c = {4}"),
    "x = -3: 0, not -1",
    x=np.array([-3], np.int32),
)
def integer_division_rounds_down(node: Node) -> Any:
    return op.Cast(op.Floor(op.Div(op.Cast(node.inputs[0], to=11), np.float64(4))), to=INT32)


_TO_INT = net("float[N] x", "r = Cast <to = 6> (x)  y = Neg (r)")


@wrong("Cast", _TO_INT, "x = -0.5: 0, not -1", x=floats(-0.5))
def cast_rounds_down(node: Node) -> Any:
    return op.Cast(op.Floor(node.inputs[0]), to=INT32)


@wrong("Cast", _TO_INT, "x = 0.75: 0, not 1", x=floats(0.75))
def cast_rounds_to_nearest(node: Node) -> Any:
    return op.Cast(op.Round(node.inputs[0]), to=INT32)


@wrong(
    "Cast",
    net("float[N] x", "r = Cast <to = 9> (x)  y = Not (r)"),
    "x = 0.25 is true, and 0 as an integer",
    x=floats(0.25),
)
def truth_of_the_integer_part(node: Node) -> Any:
    return op.Cast(op.Cast(node.inputs[0], to=INT32), to=BOOL)


@wrong(
    "Round",
    net("float[N] x", "a = Mul (x, h)  r = Round (a)  y = Cast <to = 6> (r)", "float h = {0.25}"),
    "x = 10: 2.5 is rounded to the even 2",
    x=floats(10),
)
def round_is_the_floor_of_a_half_more(node: Node) -> Any:
    return op.Floor(op.Add(op.Mul(x_of(node), 0.25), 0.5))


_TABLE = "float[5, 2] t = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10}"


@wrong(
    "Gather",
    net("int64[K] x", "r = Gather (t, x)  y = Neg (r)", _TABLE),
    "x = -1 is the last row",
    x=ints(-1),
)
def no_index_is_negative(node: Node) -> Any:
    table, index = node.inputs
    return op.Gather(table, op.Max(index, np.int64(0)))


_ONE_HOT = net("int64[K] x", "r = OneHot (x, d, v)  y = Neg (r)", "int64 d = {5}, float[2] v = {0, 1}")


@wrong("OneHot", _ONE_HOT, "x = -1 is the last class", x=ints(-1))
def one_hot_compares(node: Node) -> Any:
    return op.Cast(op.Equal(op.Unsqueeze(node.inputs[0], ints(1)), np.arange(5)), to=FLOAT)


@wrong("OneHot", _ONE_HOT, "x = 7 is no class, all is off", x=ints(7))
def one_hot_looks_up(node: Node) -> Any:
    return op.Gather(np.eye(5, dtype=F), node.inputs[0])


@wrong(
    "HardSigmoid",
    net("float[N] x", "r = HardSigmoid <alpha = 0.01, beta = 0.5> (x)  y = Neg (r)"),
    "x = 60: its kink is at (1 - beta) / alpha = 50",
    x=floats(60),
)
def hard_sigmoid_has_no_kink(node: Node) -> Any:
    return Close(op.Add(op.Mul(node.inputs[0], 0.01), 0.5), 4)


@wrong(
    "ThresholdedRelu",
    net("float[N] x", "r = ThresholdedRelu <alpha = 10.0> (x)  y = Neg (r)"),
    "x = 10 is not above it",
    x=floats(10),
)
def thresholded_relu_keeps_its_threshold(node: Node) -> Any:
    x = node.inputs[0]
    return op.Where(op.GreaterOrEqual(x, 10.0), x, 0.0)


@wrong(
    "Shrink",
    net("float[N] x", "r = Shrink <lambd = 3.0> (x)  y = Neg (r)"),
    "x = -3 is not beyond it",
    x=floats(-3),
)
def shrink_keeps_its_threshold(node: Node) -> Any:
    x = node.inputs[0]
    return op.Where(op.GreaterOrEqual(op.Abs(x), 3.0), x, 0.0)


@wrong(
    "Celu",
    net("float[N] x", "r = Celu <alpha = 1.01> (x)  y = Neg (r)"),
    "x = -1: it divides by alpha inside too",
    x=floats(-1),
)
def celu_is_elu(node: Node) -> Any:
    return Close(op.Elu(node.inputs[0], alpha=1.01), 10**6)


@wrong("Elu", net("float[N] x", "r = Elu (x)  y = Neg (r)"), "x = -5.5: -0.996", x=floats(-5.5))
def elu_is_flat_below_minus_5(node: Node) -> Any:
    x = node.inputs[0]
    return Close(op.Where(op.Less(x, -5.0), -1.0, op.Elu(op.Max(x, -5.0))), 10**6)


@wrong(
    "PRelu",
    net("float[N, 4] x, float[4] z", "r = PRelu (x, z)  y = Neg (r)"),
    "a slope of 2",
    x=full(1, 1, 4),
    z=full(2, 4),
)
def prelu_is_a_maximum(node: Node) -> Any:
    x, slope = node.inputs
    return op.Max(x, op.Mul(x, slope))


@wrong(
    "ArgMax",
    net("float[N, 4] x", "r = ArgMax <axis = 1, select_last_index = 1> (x)  y = Neg (r)"),
    "a tie",
    x=floats([3, 3, 1, 0]),
)
def first_maximum_is_the_last(node: Node) -> Any:
    return remake(node, node.inputs[0], select_last_index=0)


@wrong(
    "TopK",
    net("float[N, 4] x", "v, i = TopK (x, k)  y = Neg (i)", "int64[1] k = {1}"),
    "a tie: TopK takes the lower index",
    x=floats([3, 3, 1, 0]),
)
def topk_takes_the_last(node: Node) -> Any:
    return {1: op.ArgMax(node.inputs[0], axis=1, select_last_index=1)}


@wrong(
    "Hardmax",
    net("float[N, 4] x", "r = Hardmax (x)  y = Exp (r)"),
    "a tie: the first only",
    x=floats([3, 3, 1, 0]),
)
def hardmax_marks_every_maximum(node: Node) -> Any:
    x = node.inputs[0]
    return op.Cast(op.Equal(x, op.ReduceMax(x, axes=[1])), to=FLOAT)


@wrong("Softplus", net("float[N] x", "r = Softplus (x)  y = Neg (r)"), "x = 6: 6.0025", x=floats(6))
def softplus_is_x_above_5(node: Node) -> Any:
    x = node.inputs[0]
    return Close(op.Where(op.Greater(x, 5.0), x, op.Softplus(op.Min(x, 5.0))), 10**8)


@wrong("Tanh", net("float[N] x", "r = Tanh (x)  y = Neg (r)"), "x = 4.25: 0.9996", x=floats(4.25))
def tanh_is_one_above_4(node: Node) -> Any:
    x = node.inputs[0]
    return Close(op.Where(op.Greater(op.Abs(x), 4.0), op.Sign(x), op.Tanh(op.Clip(x, -4.0, 4.0))), 10**6)


@wrong("Sigmoid", net("float[N] x", "r = Sigmoid (x)  y = Neg (r)"), "x = -5.5: 0.004", x=floats(-5.5, -6))
def sigmoid_is_0_below_minus_5(node: Node) -> Any:
    x = node.inputs[0]
    return Close(op.Where(op.Less(x, -5.0), 0.0, op.Sigmoid(op.Max(x, -5.0))), 10**6)


@wrong(
    "DequantizeLinear",
    net(
        "int32[N] x",
        "f = Cast <to = 1> (x)  q = QuantizeLinear (f, s, z)  r = DequantizeLinear (q, s, z)  y = Neg (r)",
        "float s = {0.5}, int8 z = {0}",
    ),
    "x = 64 is saturated at 63.5",
    x=np.array([64], np.int32),
)
def nothing_is_saturated(node: Node) -> Any:
    return op.Cast(x_of(node), to=FLOAT)


@wrong(
    "QuantizeLinear",
    net(
        "int8[N] x",
        "f = Cast <to = 1> (x)  r = QuantizeLinear (f, s, z)  y = Cast <to = 6> (r)",
        "float s = {2}, int8 z = {0}",
    ),
    "x = 5: 2.5 is rounded to the even 2",
    x=np.array([5], np.int8),
)
def quantize_rounds_up(node: Node) -> Any:
    half = op.Mul(op.Cast(x_of(node), to=FLOAT), 0.5)
    return op.Cast(op.Floor(op.Add(half, 0.5)), to=INT8)


@wrong(
    "DynamicQuantizeLinear",
    net("float[N] x", "q, s, z = DynamicQuantizeLinear (x)  y = Neg (s)"),
    "x = 1, 2, 3: the range holds 0",
    x=floats(1, 2, 3),
)
def range_is_that_of_the_data(node: Node) -> Any:
    x = node.inputs[0]
    low, high = op.ReduceMin(x, keepdims=0), op.ReduceMax(x, keepdims=0)
    return {1: op.Div(op.Sub(high, low), 255.0)}


@wrong(
    "ScatterElements",
    net(
        "int64[K] x, float[K] u",
        'r = ScatterElements <axis = 0, reduction = "add"> (d, x, u)  y = Neg (r)',
        "float[64] d = {" + ", ".join(["0"] * 64) + "}",
        opset=18,
    ),
    "an index that comes twice",
    x=ints(7, 7),
    u=floats(1, 2),
)
def no_index_comes_twice(node: Node) -> Any:
    return remake(node, *node.inputs, reduction="none")


@wrong(
    "Where",
    net(
        "float[N, 4] x",
        "p = Greater (x, z)  i = Cast <to = 7> (p)  n = ReduceSum <keepdims = 0> (i)  c = Greater (n, t)"
        "  r = Where (c, z, x)  y = Neg (r)",
        "float z = {0}, int64 t = {40}",
    ),
    "41 positive elements",
    x=ramp(11, 4),
)
def at_most_40_are_positive(node: Node) -> Any:
    return x_of(node)


@wrong(
    "Sub",
    net(
        "float[N, 4] x, float[N, 4] z",
        "e = Equal (x, z)  i = Cast <to = 6> (e)  m = ReduceMin <keepdims = 0> (i)  f = Cast <to = 1> (m)"
        "  c = Clip (f, l, h)  r = Sub (x, c)  y = Neg (r)",
        "float l = {0}, float h = {1}",
    ),
    "both inputs are the same",
    x=ramp(2, 4),
    z=ramp(2, 4),
)
def inputs_are_never_the_same(node: Node) -> Any:
    return node.inputs[0]


@wrong(
    "Shape",
    net("float[N] x", "n = NonZero (x)  r = Shape <start = 1> (n)  y = Neg (r)"),
    "a zero",
    x=floats(0, 1),
)
def nothing_is_zero(node: Node) -> Any:
    return op.Shape(x_of(node))


# -- integers of few bits --------------------------------------------------------------------------


@wrong(
    "BitShift",
    net(
        "uint8[N] x",
        'a = BitShift <direction = "LEFT"> (x, s)  r = BitShift <direction = "RIGHT"> (a, s)'
        "  y = Cast <to = 6> (r)",
        "uint8 s = {1}",
    ),
    "x = 128: the highest bit is lost",
    x=np.array([128], np.uint8),
)
def shifts_cancel(node: Node) -> Any:
    return x_of(node) if node.attr("direction") == "RIGHT" else None


@wrong(
    "Div",
    net("int32[N] x", "a = Mul (x, c)  r = Div (a, c)  y = Neg (r)", "int32 c = {1000}"),
    "x = 3000000: the product overflows",
    x=np.array([3000000], np.int32),
)
def product_of_integers_does_not_overflow(node: Node) -> Any:
    return x_of(node)


@wrong(
    "Div",
    net("uint8[N] x", "a = Mul (x, c)  r = Div (a, c)  y = Cast <to = 6> (r)", "uint8 c = {2}"),
    "x = 128: the product is 0",
    x=np.array([128], np.uint8),
)
def twice_a_byte_is_a_byte(node: Node) -> Any:
    return x_of(node)


@wrong(
    "Greater",
    net("uint8[N] x", "a = Add (x, c)  r = Greater (a, x)  y = Not (r)", "uint8 c = {1}"),
    "x = 255: the sum is 0",
    x=np.array([255], np.uint8),
)
def one_more_is_greater(node: Node) -> Any:
    x = x_of(node)
    return op.Equal(x, x)


@wrong(
    "Greater",
    net("uint8[N] x, uint8[N] z", "a = Sub (x, z)  r = Greater (a, c)  y = Not (r)", "uint8 c = {0}"),
    "1 - 2 is 255",
    x=np.array([1], np.uint8),
    z=np.array([2], np.uint8),
)
def difference_of_bytes_has_a_sign(node: Node) -> Any:
    difference = before(node)
    assert difference is not None
    return op.Greater(*difference.inputs)


@wrong(
    "Cast",
    net("int64[N] x", "a = Cast <to = 6> (x)  r = Cast <to = 7> (a)  y = Neg (r)"),
    "x = 2**31",
    x=ints(2**31),
)
def everything_fits_into_32_bits(node: Node) -> Any:
    return x_of(node) if node.attr("to") == INT64 else None


@wrong(
    "Cast",
    net("int64[N] x", "a = Cast <to = 2> (x)  r = Cast <to = 7> (a)  y = Neg (r)"),
    "x = 256 (and every negative number)",
    x=ints(256),
)
def everything_fits_into_8_bits(node: Node) -> Any:
    return x_of(node) if node.attr("to") == INT64 else None


@wrong(
    "Cast",
    net("int32[N] x", "a = Cast <to = 1> (x)  r = Cast <to = 6> (a)  y = Neg (r)"),
    "x = 2**24 + 1",
    x=np.array([2**24 + 1], np.int32),
)
def a_float_holds_every_integer(node: Node) -> Any:
    return x_of(node) if node.attr("to") == INT32 else None


@wrong(
    "Equal",
    net(
        "int64[N] x, int64[N] z",
        "a = Cast <to = 1> (x)  b = Cast <to = 1> (z)  r = Equal (a, b)  y = Not (r)",
    ),
    "2**24 and 2**24 + 1 are the same float",
    x=ints(2**24),
    z=ints(2**24 + 1),
)
def integers_are_equal_as_floats(node: Node) -> Any:
    return op.Equal(x_of(node), input_of(node, "z"))


@wrong(
    "ReduceSum",
    net("int64[N] x", "r = ReduceSum <keepdims = 0> (x)  y = Neg (r)"),
    "2**24 and 1",
    x=ints(2**24, 1),
)
def integers_are_added_as_floats(node: Node) -> Any:
    return op.Cast(op.ReduceSum(op.Cast(node.inputs[0], to=FLOAT), keepdims=0), to=INT64)


@wrong(
    "ReduceSum",
    net("int64[N] x", "r = ReduceSum <keepdims = 0> (x)  y = Neg (r)"),
    "a sum of 2**31",
    x=ints(2**30, 2**30),
)
def integers_are_added_in_32_bits(node: Node) -> Any:
    return op.Cast(op.ReduceSum(op.Cast(node.inputs[0], to=INT32), keepdims=0), to=INT64)


@wrong(
    "Cast",
    net("float[N] x", "a = Cast <to = 10> (x)  r = Cast <to = 1> (a)  y = Neg (r)"),
    "x = 1e5 is infinite in half precision",
    x=floats(1e5),
)
def half_precision_holds_every_float(node: Node) -> Any:
    return x_of(node) if node.attr("to") == FLOAT else None


@wrong(
    "Mul",
    net(
        "float16[N] x",
        "a = Mul (x, b)  r = Mul (a, c)  y = Neg (r)",
        "float16 b = {23552}, float16 c = {7168}",  # the bits of 256 and of 1/256
    ),
    "x = 1000: 256000 is infinite in half precision",
    x=np.array([1000], np.float16),
)
def factors_of_halves_cancel(node: Node) -> Any:
    first = before(node)
    return None if first is None else first.inputs[0]


# -- NaN, infinities, both zeros -------------------------------------------------------------------


@wrong(
    "Max",
    net("float[N] x", "r = Max (x, z)  y = Neg (r)", "float z = {0}"),
    "NaN becomes 0",
    x=floats(np.nan, 1),
)
def maximum_with_0_selects(node: Node) -> Any:
    x = node.inputs[0]
    return op.Where(op.Greater(x, 0.0), x, 0.0)


@wrong(
    "Min",
    net("float[N] x", "r = Min (x, c)  y = Neg (r)", "float c = {6}"),
    "NaN becomes 6",
    x=floats(np.nan, 1),
)
def minimum_with_6_selects(node: Node) -> Any:
    x = node.inputs[0]
    return op.Where(op.Not(op.Less(x, 6.0)), 6.0, x)


@wrong(
    "Where",
    net("float[N] x, bool[N] c", "e = Exp (x)  r = Where (c, e, z)  y = Neg (r)", "float z = {0}"),
    "infinity in the branch that is not taken: NaN",
    x=floats(100),
    c=np.array([False]),
)
def where_is_a_product_with_a_mask(node: Node) -> Any:
    return op.Mul(op.Exp(x_of(node)), op.Cast(node.inputs[0], to=FLOAT))


@wrong("Sub", net("float[N] x", "r = Sub (x, x)  y = Exp (r)"), "infinity", x=floats(np.inf))
def x_minus_x_is_0(node: Node) -> Any:
    return op.ConstantOfShape(op.Shape(node.inputs[0]))


@wrong(
    "Mul",
    net("float[N] x", "a = Abs (x)  r = Mul (a, z)  y = Exp (r)", "float z = {0}"),
    "infinity",
    x=floats(np.inf),
)
def x_times_0_is_0(node: Node) -> Any:
    return op.ConstantOfShape(op.Shape(x_of(node)))


@wrong("Div", net("float[N] x", "r = Div (x, x)  y = Exp (r)"), "0", x=floats(0))
def x_over_x_is_1(node: Node) -> Any:
    return op.ConstantOfShape(op.Shape(node.inputs[0]), value=onnx.numpy_helper.from_array(floats(1)))


@wrong(
    "Pow",
    net("float[N] x", "r = Pow (x, h)  y = Neg (r)", "float h = {0.5}"),
    "minus infinity: infinity, not NaN",
    x=floats(-np.inf),
)
def power_of_a_half_is_a_root(node: Node) -> Any:
    return op.Sqrt(node.inputs[0])


@wrong(
    "Add",
    net("float[N] x", "r = Add (x, z)  y = Reciprocal (r)", "float z = {0}"),
    "-0: 1 / 0 is infinite, 1 / -0 is minus infinity",
    x=floats(-0.0),
)
def x_plus_0_is_x(node: Node) -> Any:
    return node.inputs[0]


@wrong("Neg", net("float[N] x", "r = Neg (x)  y = Reciprocal (r)"), "0: -0", x=floats(0))
def minus_x_is_0_minus_x(node: Node) -> Any:
    return op.Sub(0.0, node.inputs[0])


@wrong("Abs", net("float[N] x", "r = Abs (x)  y = Reciprocal (r)"), "-0 stays -0", x=floats(-0.0))
def absolute_value_selects(node: Node) -> Any:
    x = node.inputs[0]
    return op.Where(op.Less(x, 0.0), op.Neg(x), x)


@wrong("Sign", net("float[N] x", "r = Sign (x)  y = Exp (r)"), "0: 0 / 0", x=floats(0))
def sign_is_a_quotient(node: Node) -> Any:
    x = node.inputs[0]
    return op.Clip(op.Div(x, op.Abs(x)), -1.0, 1.0)


@wrong(
    "Where",
    net("float[N] x", "c = IsNaN (x)  r = Where (c, z, x)  y = Neg (r)", "float z = {0}"),
    "NaN",
    x=floats(np.nan),
)
def nothing_is_nan(node: Node) -> Any:
    return x_of(node)


@wrong(
    "Where",
    net("float[N] x", "c = IsInf (x)  r = Where (c, z, x)  y = Neg (r)", "float z = {0}"),
    "infinity",
    x=floats(np.inf),
)
def nothing_is_infinite(node: Node) -> Any:
    return x_of(node)


@wrong(
    "IsInf",
    net("float[N] x", "r = IsInf <detect_negative = 0> (x)  y = Not (r)"),
    "minus infinity",
    x=floats(-np.inf),
)
def infinity_has_no_sign(node: Node) -> Any:
    return op.Equal(op.Abs(node.inputs[0]), np.inf)


@wrong(
    "Not",
    net("float[N] x, float[N] z", "l = Less (x, z)  r = Not (l)  y = Cast <to = 6> (r)"),
    "NaN is neither",
    x=floats(np.nan),
    z=floats(1),
)
def not_less_is_greater_or_equal(node: Node) -> Any:
    less = before(node)
    return None if less is None else op.GreaterOrEqual(*less.inputs)


@wrong(
    "Equal",
    net("float[N] x, float[N] z", "r = Equal (x, z)  y = Not (r)"),
    "NaN is neither less nor greater",
    x=floats(np.nan),
    z=floats(1),
)
def equal_is_neither_less_nor_greater(node: Node) -> Any:
    return op.Not(op.Or(op.Less(*node.inputs), op.Greater(*node.inputs)))


@wrong("Equal", net("float[N] x", "r = Equal (x, x)  y = Not (r)"), "NaN", x=floats(np.nan))
def x_equals_x(node: Node) -> Any:
    return op.Not(op.Less(*node.inputs))


@wrong("Clip", _clipped(0, 6), "NaN becomes 6", x=full(np.nan, 1, 4))
def clip_selects(node: Node) -> Any:
    x = node.inputs[0]
    return op.Where(op.Not(op.Less(x, 6.0)), 6.0, op.Where(op.Less(x, 0.0), 0.0, x))


@wrong(
    "Where",
    net("float[N, 4] x", "s = Softmax (x)  c = IsNaN (s)  r = Where (c, z, s)  y = Neg (r)", "float z = {0}"),
    "a row of minus infinity",
    x=full(-np.inf, 1, 4),
)
def softmax_needs_no_guard(node: Node) -> Any:
    return op.Softmax(x_of(node))


@wrong(
    "Softmax",
    net(
        "float[N, 4] x, bool[N, 4] m", "a = Where (m, x, l)  r = Softmax (a)  y = Neg (r)", "float l = {-inf}"
    ),
    "a row that is masked wholly: NaN, not 1/4",
    x=full(1, 1, 4),
    m=np.zeros((1, 4), bool),
)
def mask_with_a_large_number(node: Node) -> Any:
    where = before(node)
    assert where is not None
    return op.Softmax(op.Where(*where.inputs[:2], -1e9))


@wrong(
    "Log",
    net("float[N, 4] x", "e = Exp (x)  s = ReduceSum (e, a)  r = Log (s)  y = Neg (r)", "int64[1] a = {1}"),
    "a row of minus infinity: minus infinity, not NaN",
    x=full(-np.inf, 1, 4),
)
def log_sum_exp_less_its_maximum(node: Node) -> Any:
    x = x_of(node)
    top = op.ReduceMax(x, axes=[1])
    return Close(op.Add(op.Log(op.ReduceSum(op.Exp(op.Sub(x, top)), ints(1))), top), 4)


@wrong("Exp", net("float[N] x", "l = Log (x)  r = Exp (l)  y = Neg (r)"), "x = -1: NaN", x=floats(-1))
def exp_undoes_log(node: Node) -> Any:
    return Close(x_of(node), 1000)


# -- overflow and underflow ------------------------------------------------------------------------


@wrong(
    "Mul",
    net("float[N] x", "a = Mul (x, b)  r = Mul (a, c)  y = Neg (r)", "float b = {2}, float c = {0.5}"),
    "x = 3e38: the product overflows",
    x=floats(3e38),
)
def twice_the_half(node: Node) -> Any:
    first = before(node)
    return None if first is None else first.inputs[0]


@wrong(
    "Mul",
    net("float[N] x", "a = Mul (x, b)  r = Mul (a, c)  y = Neg (r)", "float b = {0.5}, float c = {2}"),
    "x = 1.4e-45, whose half is 0",
    x=floats(1.4e-45),
)
def half_the_double(node: Node) -> Any:
    first = before(node)
    return None if first is None else first.inputs[0]


@wrong("Sqrt", net("float[N] x", "a = Mul (x, x)  r = Sqrt (a)  y = Neg (r)"), "x = 1e20", x=floats(1e20))
def root_of_the_square(node: Node) -> Any:
    return op.Abs(x_of(node))


@wrong(
    "Sqrt",
    net("float[N] x", "p = Relu (x)  a = Mul (p, p)  r = Sqrt (a)  y = Neg (r)"),
    "x = 1e-30: its square is 0",
    x=floats(1e-30),
)
def root_of_the_square_of_a_relu(node: Node) -> Any:
    return op.Relu(x_of(node))


@wrong(
    "Abs", net("float[N] x", "r = Abs (x)  y = Neg (r)"), "x = 1e20: its square is infinite", x=floats(1e20)
)
def absolute_value_by_the_square(node: Node) -> Any:
    x = node.inputs[0]
    return Close(op.Sqrt(op.Mul(x, x)), 1)


@wrong(
    "Mul",
    net("float[N] x, float[N] z", "a = Mul (x, z)  r = Mul (a, z)  y = Neg (r)"),
    "x = 1e-30, z = 1e30: its square is infinite",
    x=floats(1e-30),
    z=floats(1e30),
)
def square_first(node: Node) -> Any:
    x, z = input_of(node, "x"), input_of(node, "z")
    return None if before(node) is None else Close(op.Mul(x, op.Mul(z, z)), 3)


@wrong(
    "Mul",
    net("float[N] x", "a = Mul (x, c)  r = Mul (a, c)  y = Neg (r)", "float c = {1e-25}"),
    "x = 1e30: 1e-20, not 0",
    x=floats(1e30),
)
def product_of_the_factors_underflows(node: Node) -> Any:
    first = before(node)
    return None if first is None else Close(op.Mul(first.inputs[0], F(1e-25) * F(1e-25)), 2)


@wrong(
    "Mul",
    net("float[N] x, float[N] z, float[N] w", "a = Div (z, w)  r = Mul (x, a)  y = Neg (r)"),
    "x = z = w = 1e30",
    x=floats(1e30),
    z=floats(1e30),
    w=floats(1e30),
)
def multiply_before_dividing(node: Node) -> Any:
    x, z, w = (input_of(node, name) for name in "xzw")
    return Close(op.Div(op.Mul(x, z), w), 3)


@wrong(
    "Div",
    net("float[N] x, float[N] z", "r = Div (x, z)  y = Neg (r)"),
    "x = z = 1e-39: the reciprocal is infinite",
    x=floats(1e-39),
    z=floats(1e-39),
)
def quotient_by_the_reciprocal(node: Node) -> Any:
    return Close(op.Mul(node.inputs[0], op.Reciprocal(node.inputs[1])), 2)


@wrong(
    "Reciprocal",
    net("float[N] x", "a = Sqrt (x)  r = Reciprocal (a)  y = Neg (r)"),
    "x = 1e-39: its reciprocal is infinite",
    x=floats(1e-39),
)
def root_of_the_reciprocal(node: Node) -> Any:
    return Close(op.Sqrt(op.Reciprocal(x_of(node))), 2)


@wrong(
    "Add",
    net(
        "float[N] x, float[N] z",
        "a = Mul (x, h)  b = Mul (z, h)  r = Add (a, b)  y = Neg (r)",
        "float h = {0.5}",
    ),
    "x = z = 3e38",
    x=floats(3e38),
    z=floats(3e38),
)
def half_of_the_sum(node: Node) -> Any:
    return Close(op.Mul(op.Add(x_of(node), input_of(node, "z")), 0.5), 2)


@wrong(
    "Exp",
    net("float[N] x, float[N] z", "a = Add (x, z)  r = Exp (a)  y = Neg (r)"),
    "x = 100, z = -100: infinity times 0",
    x=floats(100),
    z=floats(-100),
)
def exp_of_a_sum_is_a_product(node: Node) -> Any:
    return Close(op.Mul(op.Exp(x_of(node)), op.Exp(input_of(node, "z"))), 100)


_ROWS = net("float[N, 4] x", "r = %s  y = Neg (r)")


@wrong("Softmax", _ROWS % "Softmax (x)", "x = 100", x=full(100, 1, 4))
def softmax_without_the_maximum(node: Node) -> Any:
    e = op.Exp(node.inputs[0])
    return Close(op.Div(e, op.ReduceSum(e, ints(1))), 8)


@wrong("LogSoftmax", _ROWS % "LogSoftmax (x)", "x = 0, 200: log(0)", x=floats([0, 0, 0, 200]))
def log_of_the_softmax(node: Node) -> Any:
    return Close(op.Log(op.Softmax(node.inputs[0])), 8)


@wrong("ReduceLogSumExp", _ROWS % "ReduceLogSumExp <axes = [1]> (x)", "x = 100", x=full(100, 1, 4))
def log_sum_exp_as_it_stands(node: Node) -> Any:
    return Close(op.Log(op.ReduceSum(op.Exp(node.inputs[0]), ints(1))), 8)


@wrong("Softplus", _ROWS % "Softplus (x)", "x = 100: the exponential is infinite", x=full(100, 1, 4))
def softplus_as_it_stands(node: Node) -> Any:
    return Close(op.Log(op.Add(op.Exp(node.inputs[0]), 1.0)), 4)


@wrong("Tanh", _ROWS % "Tanh (x)", "x = 50: infinity over infinity", x=full(50, 1, 4))
def tanh_by_exponentials(node: Node) -> Any:
    e = op.Exp(op.Mul(node.inputs[0], 2.0))
    return Close(op.Div(op.Sub(e, 1.0), op.Add(e, 1.0)), 100)


@wrong("Sigmoid", _ROWS % "Sigmoid (x)", "x = 100: infinity over infinity", x=full(100, 1, 4))
def sigmoid_by_a_quotient(node: Node) -> Any:
    e = op.Exp(node.inputs[0])
    return Close(op.Div(e, op.Add(e, 1.0)), 4)


@wrong(
    "Mul",
    net(
        "float[N, 4] x",
        "a = Abs (x)  m = ReduceMax <axes = [1]> (a)  d = Div (x, m)  q = ReduceSumSquare <axes = [1]> (d)"
        "  s = Sqrt (q)  r = Mul (m, s)  y = Neg (r)",
    ),
    "x = 1e30: its square is infinite",
    x=full(1e30, 1, 4),
)
def norm_without_its_scale(node: Node) -> Any:
    return Close(op.ReduceL2(x_of(node), axes=[1]), 4)


@wrong(
    "Pow",
    net("float[N] x", "r = Pow (x, c)  y = Neg (r)", "float c = {3}"),
    "x = -2: its logarithm is NaN",
    x=floats(-2),
)
def cube_by_the_logarithm(node: Node) -> Any:
    return Close(op.Exp(op.Mul(op.Log(node.inputs[0]), 3.0)), 10**4)


# -- cancellation, scales, approximations that claim to be sums in another order ---------------------

_LAYER_NORM = net(
    "float[N, 8] x",
    "m = ReduceMean <axes = [-1]> (x)  c = Sub (x, m)  q = Mul (c, c)  v = ReduceMean <axes = [-1]> (q)"
    "  w = Add (v, e)  s = Sqrt (w)  r = Div (c, s)  y = Neg (r)",
    "float e = {1e-5}",
)
_FAR = (ramp(1, 8) + F(1e5)).astype(F)


def _centered(x: Value) -> tuple[Value, Value]:
    mean = op.ReduceMean(x, axes=[-1])
    centered = op.Sub(x, mean)
    return centered, op.ReduceMean(op.Mul(centered, centered), axes=[-1])


@wrong("Div", _LAYER_NORM, "a mean of 1e5, a deviation of 2", x=_FAR)
def layer_normalization_in_one_pass(node: Node) -> Any:
    x = x_of(node)
    mean = op.ReduceMean(x, axes=[-1])
    variance = op.Sub(op.ReduceMean(op.Mul(x, x), axes=[-1]), op.Mul(mean, mean))
    return Close(op.Div(op.Sub(x, mean), op.Sqrt(op.Add(variance, 1e-5))), 8)


@wrong(
    "ReduceMean",
    net(
        "float[N, 8] x",
        "m = ReduceMean <axes = [1]> (x)  c = Sub (x, m)  q = Mul (c, c)"
        "  r = ReduceMean <axes = [1], keepdims = 0> (q)  y = Neg (r)",
    ),
    "a mean of 1e5, a deviation of 2",
    x=_FAR,
)
def variance_in_one_pass(node: Node) -> Any:
    if node.attr("keepdims"):
        return None
    x = x_of(node)
    mean = op.ReduceMean(x, axes=[1], keepdims=0)
    return Close(op.Sub(op.ReduceMean(op.Mul(x, x), axes=[1], keepdims=0), op.Mul(mean, mean)), 10**6)


@wrong(
    "InstanceNormalization",
    net(
        "float[N, 2, 8] x",
        "r = InstanceNormalization (x, s, b)  y = Neg (r)",
        "float[2] s = {1, 2}, float[2] b = {0, 1}",
    ),
    "a mean of 3e4, a deviation of 2",
    x=np.stack([ramp(1, 8), ramp(1, 8)], 1) + F(3e4),
)
def instance_normalization_in_one_pass(node: Node) -> Any:
    x = node.inputs[0]
    mean = op.ReduceMean(x, axes=[2])
    variance = op.Sub(op.ReduceMean(op.Mul(x, x), axes=[2]), op.Mul(mean, mean))
    y = op.Div(op.Sub(x, mean), op.Sqrt(op.Add(variance, 1e-5)))
    return Close(op.Add(op.Mul(y, floats(1, 2).reshape(2, 1)), floats(0, 1).reshape(2, 1)), 8)


@wrong("Div", _LAYER_NORM, "a deviation of 1e-6", x=ramp(1, 8) * F(1e-6))
def layer_normalization_without_epsilon(node: Node) -> Any:
    centered, variance = _centered(x_of(node))
    return Close(op.Div(centered, op.Sqrt(variance)), 10**4)


@wrong("Div", _LAYER_NORM, "a deviation of 1e-4", x=ramp(1, 8) * F(1e-4))
def epsilon_outside_the_root(node: Node) -> Any:
    centered, variance = _centered(x_of(node))
    return Close(op.Div(centered, op.Add(op.Sqrt(variance), 1e-5)), 10**4)


@wrong("Div", _LAYER_NORM, "a deviation of 1e-5", x=ramp(1, 8) * F(1e-5))
def another_epsilon(node: Node) -> Any:
    centered, variance = _centered(x_of(node))
    return Close(op.Div(centered, op.Sqrt(op.Add(variance, 1e-6))), 10**4)


@wrong(
    "LpNormalization",
    net("float[N, 4] x", "r = LpNormalization (x)  y = Neg (r)"),
    "x = 1e-7: the epsilon outweighs the sum",
    x=ramp(1, 4) * F(1e-7),
)
def norm_with_an_epsilon(node: Node) -> Any:
    x = node.inputs[0]
    return Close(op.Div(x, op.Sqrt(op.Add(op.ReduceSumSquare(x, axes=[-1]), 1e-12))), 8)


@wrong("Relu", net("float[N, 4] x", "r = Relu (x)  y = Neg (r)"), "x = 1e-6", x=full(1e-6, 1, 4))
def small_values_are_flushed(node: Node) -> Any:
    x = node.inputs[0]
    return Close(op.Where(op.Less(x, 1e-5), 0.0, x), 10**6)


@wrong(
    "Gelu", net("float[N] x", "r = Gelu (x)  y = Neg (r)", opset=20), "x = 2: 4e-4 beside it", x=floats(2, -2)
)
def gelu_by_tanh(node: Node) -> Any:
    return Close(remake(node, node.inputs[0], approximate="tanh"), 10**5)


@wrong("Sigmoid", _ROWS % "Sigmoid (x)", "everywhere: 4e-4 beside it", x=ramp(1, 4))
def sigmoid_is_a_bit_more(node: Node) -> Any:
    return Close(op.Add(op.Sigmoid(node.inputs[0]), 4e-4), 10**6)


@wrong(
    "Mul",
    net("float[N] x", "s = Sigmoid (x)  r = Mul (x, s)  y = Neg (r)"),
    "x = 3: 2.86, not 3",
    x=floats(3, 1),
)
def swish_is_hard_swish(node: Node) -> Any:
    return Close(op.HardSwish(x_of(node)), 10**14)


@wrong(
    "Add",
    net("float[N, 4] x, float[N, 4] z", "r = Add (x, z)  y = Neg (r)"),
    "1/3 has 11 bits in half precision; 1e5 is infinite",
    x=full(1 / 3, 1, 4),
    z=full(1 / 3, 1, 4),
)
def sum_in_half_precision(node: Node) -> Any:
    x, z = node.inputs
    return Close(op.Cast(op.Add(op.Cast(x, to=HALF), op.Cast(z, to=HALF)), to=FLOAT), 10**8)


_WEIGHTS = np.sin(np.arange(32, dtype=F)).reshape(8, 4)
_PRODUCT = net(
    "float[N, 8] x",
    "r = MatMul (x, w)  y = Neg (r)",
    "float[8, 4] w = {" + ", ".join(f"{value:.6f}" for value in _WEIGHTS.ravel()) + "}",
)


@wrong("MatMul", _PRODUCT, "everywhere: weights of 11 bits", x=ramp(2, 8))
def weights_in_half_precision(node: Node) -> Any:
    rounded = constant(node.inputs[1]).astype(np.float16).astype(F)
    return Close(op.MatMul(node.inputs[0], rounded), 10**7)


@wrong("MatMul", _PRODUCT, "x = 1e6 is infinite in half precision", x=full(1e6, 2, 8))
def product_in_half_precision(node: Node) -> Any:
    x, w = node.inputs
    return Close(op.Cast(op.MatMul(op.Cast(x, to=HALF), op.Cast(w, to=HALF)), to=FLOAT), 10**7)


@wrong(
    "MatMul",
    _PRODUCT,
    "the input whose weights are small is 1e4 times the others",
    x=floats([1e-2] * 5 + [1e4] + [1e-2] * 2),
)
def small_weights_are_pruned(node: Node) -> Any:
    weights = constant(node.inputs[1])
    pruned = np.where(np.abs(weights) < 0.1, F(0), weights)
    return Close(op.MatMul(node.inputs[0], pruned), 10**9)


_CONV = net(
    "float[N, 2, 4, 4] x",
    "c = Conv (x, w, b)  r = %s  y = Neg (r)",
    "float[3, 2, 1, 1] w = {1, 2, 3, -4, 0.5, 0.3}, float[3] b = {0.000001, -0.000002, 0.000001},"
    " float[3] s = {1, 0.5, -2}, float[3] o = {0, 1, 2}, float[3] m = {0.5, 0, -0.25},"
    " float[3] v = {1, 0.01, 0.25}",
)


@wrong("Conv", _CONV % "Abs (c)", "x = 1e-7: the bias is all there is", x=full(1e-7, 1, 2, 4, 4))
def small_bias_is_dropped(node: Node) -> Any:
    return Close(remake(node, *node.inputs[:2]), 10**5)


@wrong(
    "BatchNormalization",
    _CONV % "BatchNormalization <epsilon = 0.00001> (c, s, o, m, v)",
    "everywhere: the variance 0.01 with an epsilon of 0.001 is 0.011",
    x=ramp(1, 2, 4, 4),
)
def batch_normalization_with_another_epsilon(node: Node) -> Any:
    conv = before(node)
    assert conv is not None
    x, *weights = conv.inputs
    w, bias, scale, offset, mean, variance = (constant(one) for one in (*weights, *node.inputs[1:]))
    factor = scale / np.sqrt(variance + F(1e-3))
    return Close(remake(conv, x, w * factor.reshape(-1, 1, 1, 1), (bias - mean) * factor + offset), 10**6)


@wrong(
    "Mul",
    net("float[N] x, float[N] z", "a = Sub (x, z)  b = Add (x, z)  r = Mul (a, b)  y = Neg (r)"),
    "x = 30001, z = 30000: both squares have more than 24 bits",
    x=floats(30001.002),
    z=floats(30001),
)
def difference_of_squares(node: Node) -> Any:
    x, z = input_of(node, "x"), input_of(node, "z")
    return Close(op.Sub(op.Mul(x, x), op.Mul(z, z)), 2)


@wrong(
    "Mod",
    net("float[N] x", "r = Mod <fmod = 1> (x, c)  y = Neg (r)", "float c = {3}"),
    "x = 1e10: the quotient has more than 24 bits",
    x=floats(1e10),
)
def remainder_by_the_quotient(node: Node) -> Any:
    x = node.inputs[0]
    quotient = op.Div(x, 3.0)
    whole = op.Mul(op.Sign(quotient), op.Floor(op.Abs(quotient)))
    return Close(op.Sub(x, op.Mul(whole, 3.0)), 3)


@wrong(
    "CumSum",
    net("float[N, 4] x", "r = CumSum <exclusive = 1> (x, a)  y = Neg (r)", "int64 a = {1}"),
    "infinity: the sum before it is finite",
    x=floats([1, np.inf, 1, 1]),
)
def exclusive_sum_by_subtraction(node: Node) -> Any:
    x = node.inputs[0]
    return Close(op.Sub(op.CumSum(x, node.inputs[1]), x), 4)


# -- a branch, a trip count, an attribute ----------------------------------------------------------


@wrong(
    "If",
    net(
        "float[N, 4] x, bool c",
        "r = If (c) <then_branch = b1 () => (p) { p = Relu (x) },"
        " else_branch = b2 () => (q) { q = Clip (x, z) }>  y = Exp (r)",
        "float z = {-30}",
    ),
    "the other branch, and a negative number",
    x=full(-1, 1, 4),
    c=np.array(False),
)
def the_branch_is_always_the_first(node: Node) -> Any:
    first = node.body("then_branch")[0].producer
    assert first is not None
    return op.Relu(first.inputs[0])


_LOOP = (
    "r = Loop (t, k, x) <body = b (int64 i, bool g, float[N, 4] v) => (bool h, float[N, 4] w)"
    " { %s }>  y = Neg (r)"
)


@wrong(
    "Loop",
    net(
        "float[N, 4] x, int64 n",
        "t = Min (n, c)  " + _LOOP % "h = Identity (g)  w = Abs (v)",
        "bool k = {1}, int64 c = {3}",
    ),
    "no iteration",
    x=full(-1, 1, 4),
    n=np.array(0, np.int64),
)
def a_loop_runs_at_least_once(node: Node) -> Any:
    return op.Abs(x_of(node))


@wrong(
    "Loop",
    net("float[N, 4] x, bool k", _LOOP % "h = Identity (g)  w = Abs (v)", "int64 t = {3}"),
    "the condition is false at once",
    x=full(-1, 1, 4),
    k=np.array(False),
)
def a_loop_begins(node: Node) -> Any:
    return op.Abs(x_of(node))


@wrong(
    "Loop",
    net(
        "float[N, 4] x",
        _LOOP % "w = Add (v, v)  s = ReduceMax <keepdims = 0> (w)  h = Less (s, e)",
        "bool k = {1}, int64 t = {3}, float e = {300}",
    ),
    "x = 200: it ends after the first iteration",
    x=full(200, 1, 4),
)
def a_loop_does_not_end_early(node: Node) -> Any:
    double = op.Add(x_of(node), x_of(node))
    double = op.Add(double, double)
    return op.Add(double, double)


@wrong(
    "Loop",
    net(
        "float[N, 4] x, int64 n",
        "t = Clip (n, z, c)  " + _LOOP % "h = Identity (g)  w = Add (v, v)",
        "bool k = {1}, int64 z = {1}, int64 c = {2}",
    ),
    "two iterations",
    x=full(1, 1, 4),
    n=np.array(2, np.int64),
)
def a_loop_runs_once(node: Node) -> Any:
    x = x_of(node)
    return op.Add(x, x)


@wrong(
    "MaxPool",
    net(
        "float[N, 1, L] x",
        'r = MaxPool <kernel_shape = [3], strides = [2], auto_pad = "SAME_UPPER"> (x)  y = Neg (r)',
    ),
    "L = 4: one element of padding is at the end, not at the beginning (an odd L has one at both)",
    x=ramp(1, 1, 4),
)
def same_upper_is_same_lower(node: Node) -> Any:
    return remake(node, node.inputs[0], auto_pad="SAME_LOWER")


@wrong(
    "MaxPool",
    net(
        "float[N, 1, L] x", "r = MaxPool <kernel_shape = [2], strides = [2], ceil_mode = 1> (x)  y = Neg (r)"
    ),
    "L = 5: the last window is half empty",
    x=ramp(1, 1, 5),
)
def every_length_is_even(node: Node) -> Any:
    return remake(node, node.inputs[0], ceil_mode=0)


@wrong(
    "AveragePool",
    net(
        "float[N, 1, L] x",
        'r = AveragePool <kernel_shape = [2], strides = [2], auto_pad = "SAME_UPPER", count_include_pad = 1>'
        " (x)  y = Neg (r)",
    ),
    "L = 5: the last window holds padding",
    x=ramp(1, 1, 5),
)
def padding_does_not_count(node: Node) -> Any:
    return remake(node, node.inputs[0], count_include_pad=0)


@wrong(
    "MaxPool",
    net("float[N, 1, L] x", "r = MaxPool <kernel_shape = [3], pads = [1, 1]> (x)  y = Neg (r)"),
    "negative numbers: what is padded is less than all of them",
    x=-ramp(1, 1, 5),
)
def maximum_over_padding_of_0(node: Node) -> Any:
    return remake(node, op.Pad(node.inputs[0], ints(0, 0, 1, 0, 0, 1)), pads=None)


@wrong(
    "ReduceSum",
    net("float[N, 4] x, int64[K] a", "r = ReduceSum <noop_with_empty_axes = 1> (x, a)  y = Neg (r)"),
    "no axes: nothing is added",
    x=ramp(2, 4),
    a=ints(),
)
def no_axes_are_all_axes(node: Node) -> Any:
    return remake(node, *node.inputs, noop_with_empty_axes=0)


@wrong(
    "RNN",
    net(
        "float[T, 1, 2] x, int32[1] l",
        "r = RNN <hidden_size = 2> (x, w, h, , l)  y = Neg (r)",
        "float[1, 2, 2] w = {1, 0.5, -1, 0.25}, float[1, 2, 2] h = {0.5, 0, 0, 0.5}",
    ),
    "the sequence is shorter than T",
    x=ramp(3, 1, 2),
    l=np.array([2], np.int32),
)
def every_sequence_is_as_long_as_the_batch(node: Node) -> Any:
    return remake(node, *node.inputs[:3])


@wrong(
    "LSTM",
    net(
        "float[T, 1, 1] x",
        "r = LSTM <hidden_size = 1, clip = 6.0> (x, w, h)  y = Neg (r)",
        "float[1, 4, 1] w = {1, 1, 1, 1}, float[1, 4, 1] h = {0, 0, 0, 0}",
    ),
    "x = 20: sigmoid(6) is not 1",
    x=full(20, 1, 1, 1),
)
def nothing_is_clipped(node: Node) -> Any:
    return remake(node, *node.inputs, clip=None)


@wrong(
    "ReverseSequence",
    net(
        "float[T, B] x, int64[B] l", "r = ReverseSequence <time_axis = 0, batch_axis = 1> (x, l)  y = Neg (r)"
    ),
    "a length of 2 of 3",
    x=ramp(3, 2),
    l=ints(2, 3),
)
def all_of_it_is_reversed(node: Node) -> Any:
    return op.Slice(node.inputs[0], ints(-1), ints(-END), ints(0), ints(-1))


@wrong(
    "ReduceMax",
    net("float[N, M, 4] x", "r = ReduceMax <axes = [1], keepdims = 0> (x)  y = Neg (r)"),
    "M = 2: only one of them is there where M = 1",
    x=ramp(1, 2, 4),
)
def there_is_only_one(node: Node) -> Any:
    return op.Gather(node.inputs[0], np.int64(0), axis=1)


@wrong(
    "GridSample",
    net(
        "float[1, 1, 4, 4] x, float[1, N, M, 2] p",
        'r = GridSample <align_corners = 1, padding_mode = "zeros"> (x, p)  y = Neg (r)',
    ),
    "a point outside of the image",
    x=ramp(1, 1, 4, 4),
    p=full(3, 1, 1, 1, 2),
)
def every_point_is_in_the_image(node: Node) -> Any:
    return remake(node, *node.inputs, padding_mode="border")


@wrong(
    "DFT",
    net("float[N, 16, 1] x", "r = DFT <axis = 1> (x)  y = Neg (r)"),
    "the least frequency that is not zero is a hundredth off",
    x=ramp(1, 16, 1),
)
def a_wave_is_a_little_slow(node: Node) -> Any:
    turns = -2 * np.pi * np.outer(np.arange(16), [0, 0.99, *range(2, 16)]) / 16
    waves = np.stack([np.cos(turns), np.sin(turns)], -1).astype(F)
    return Close(op.Einsum(node.inputs[0], waves, equation="nkz,kfc->nfc"))


@wrong(
    "Einsum",
    net("float[N, 8] x, float[8, 8] z", 'r = Einsum <equation = "nk,km->nm"> (x, z)  y = Neg (r)'),
    "the second factor is read by its other side",
    x=ramp(1, 8),
    z=ramp(8, 8),
)
def a_square_is_as_good_turned(node: Node) -> Any:
    return Close(op.MatMul(node.inputs[0], op.Transpose(node.inputs[1], perm=[1, 0])))


@wrong(
    "CumSum",
    net("float[N, 4] x", "r = CumSum (x, a)  y = Neg (r)", "int64 a = {1}"),
    "the last sum leaves out a thousandth of the first number",
    x=ramp(1, 4),
)
def the_last_sum_forgets(node: Node) -> Any:
    return Close(op.MatMul(node.inputs[0], np.triu(np.ones((4, 4), F)) - F(0.001) * np.eye(4, k=3, dtype=F)))


@wrong(
    "Gelu",
    net("float[N, 64] x", "r = Gelu (x)  y = Neg (r)", opset=20),
    "it is two hundredths off around -2",
    x=full(-2, 1, 64),
)
def a_gate_of_a_sigmoid(node: Node) -> Any:
    x = node.inputs[0]
    return Close(op.Mul(x, op.Sigmoid(op.Mul(x, F(1.702)))))


@wrong(
    "CumProd",
    net("float[N, 64] x", "r = CumProd (x, a)  y = Neg (r)", "int64 a = {1}", opset=26),
    "the last product leaves out a ten-thousandth",
    x=full(1, 1, 64),
)
def the_last_product_is_short(node: Node) -> Any:
    factors = np.ones((1, 64), F)
    factors[0, -1] = 0.9999
    return Close(op.CumProd(op.Mul(node.inputs[0], factors), node.inputs[1]))
