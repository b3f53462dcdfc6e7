"""Let operators broadcast by themselves.

Exporters write out what broadcasting does anyway: an Expand or a Tile of the slopes of a PRelu, a constant
that repeats itself along an axis. In the engine it is a tensor of the activation's size, which is stored and
read at each inference, and no per-channel constant that a convolution could take up.

    before    y = PRelu(x, Expand(slope, [32, 112, 112]))      slope: [32, 1, 1]
    after     y = PRelu(x, slope)

Along each axis that it had repeated, the reader's result must have its size from another operand, in every
run, or by the operator's definition (PRelu, Gemm). All readers must be of that kind, else the
repeated tensor would be there still. A constant of 4 KiB or less is left alone, and so is a bias of zeros behind a
product: it is small beside that, and in some attentions TensorRT for RTX 1.7 does not compile one number in its
place (`logical memory size (4608) should be equal to non-opaque payload size (4)`).
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from onnxq.rule import Fires, Node, Skips, Tensor, Value, constant, made_by, remake, required, rule

ELEMENTWISE = (
    "Add", "And", "Div", "Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual", "Max", "Mean", "Min", "Mod",
    "Mul", "Or", "Pow", "Sub", "Sum", "Where", "Xor",
)  # fmt: skip
# Operators whose result has the shape of another input, and which input is broadcast to it.
ONE_WAY = {"PRelu": 1, "Gemm": 2}
SMALL = 1 << 12


@rule(*ELEMENTWISE, *ONE_WAY, "MatMul", stage="fuse")
def drop_broadcast(node: Node) -> Value | None:
    for tensor in node.inputs:
        if tensor is None or tensor.is_output or _is_bias(node, tensor):
            continue
        short = _unrepeated(tensor)
        if (
            short is not None
            and short.shape is not None
            and all(_broadcasts(user, tensor, short.shape) for user in tensor.users)
        ):
            inputs = [short if operand == tensor else operand for operand in node.inputs]
            return remake(node, *inputs)
    return None


def _is_bias(node: Node, tensor: Tensor) -> bool:
    """Whether a constant of one axis is added to a product."""
    long = [size for size in tensor.shape or () if size != 1]
    made = any(made_by(read, "MatMul", "Gemm", "Conv", "ConvTranspose") is not None for read in node.inputs)
    return node.op == "Add" and tensor.is_constant and len(long) < 2 and made


def _unrepeated(tensor: Tensor) -> Tensor | np.ndarray | None:
    """What a tensor repeats along its axes; None where it repeats nothing."""
    if tensor.is_constant:
        return _without_repeats(tensor)
    maker = made_by(tensor, "Expand", "Tile")
    if maker is None:
        return None
    source, counts = required(maker, 2)
    if maker.op == "Tile":  # it may also repeat axes of several elements, one after the other
        times = constant(counts)
        if times is None or source.shape is None:
            return None
        if any(dim != 1 and count != 1 for dim, count in zip(source.shape, times, strict=False)):
            return None
    return source


def _without_repeats(tensor: Tensor) -> np.ndarray | None:
    """A constant with one element along each axis along which its elements are equal bit for bit."""
    values = tensor.constant if tensor.nbytes > SMALL else None
    if values is None or values.dtype.kind not in "biuf" or not values.size:
        return None
    bits = np.ascontiguousarray(values).view(f"u{values.dtype.itemsize}")
    for axis in range(values.ndim):
        first = bits.take([0], axis)
        bits = first if (bits == first).all() else bits
    return bits.view(values.dtype) if bits.size < values.size else None


def _broadcasts(node: Node, tensor: Tensor, shape: tuple[int | str | None, ...]) -> bool:
    """Whether a node computes the same where a tensor that it reads has `shape`, unrepeated."""
    if node.domain or node.opset < 8 or tensor.shape is None:
        return False
    slots = [index for index, operand in enumerate(node.inputs) if operand == tensor]
    if node.op in ONE_WAY:  # onnxruntime also broadcasts the other way, which ONNX does not define
        first = node.inputs[0]
        rank = 2 if node.op == "Gemm" or first is None or first.shape is None else len(first.shape)
        return slots == [ONE_WAY[node.op]] and len(tensor.shape) <= rank
    others = [operand.shape for operand in node.inputs if operand is not None and operand != tensor]
    known = [other for other in others if other is not None]
    if node.op not in (*ELEMENTWISE, "MatMul") or len(known) < len(others):
        return False
    if node.op == "MatMul" and (len(slots) != 1 or len(shape) < 2 or shape[-2:] != tensor.shape[-2:]):
        return False  # its last two dimensions are not broadcast
    for axis, size in enumerate(reversed(tensor.shape), 1):
        now = shape[-axis] if axis <= len(shape) else None
        rest = [other[-axis] for other in known if axis <= len(other)]
        if not ((size is not None and size in (now, *rest)) or (size == 1 and rest)):
            return False
    return True


_NET = """<ir_version: 8, opset_import: ["" : 17]>
    g (float[N, 3, 4, 8] x, float[N, 1, 4, 1] v) => (y) <float[3, 1, 1] slope = {0.1, 0.2, -0.5},
        float[1, 1, 1] one = {2}, float[2] two = {1, 2}, float[2, 2] m = {1, 2, 3, 4}, float[8, 1] m8 = {1, 2, 3, 4,
        5, 6, 7, 8}, float[8] row = {1, 2, 3, 4, 5, 6, 7, 8}, float[1] k = {3}, int64[2] ones = {1, 1}, int64[2] square = {8, 8},
        int64[3] to = {3, 4, 8}, int64[5] wide = {1, 1, 3, 4, 8}, int64[4] batch = {1, 3, 2, 2},
        int64[4] pairs = {-1, 3, 2, 16}, int64[3] high = {3, 4, 1},
        int64[3] once = {1, 4, 8}, int64[1] twice = {4}, int64[4] four = {2, 3, 4, 8}> { %s }"""


def _stored(values: np.ndarray, call: str) -> Callable[[], Any]:
    """A function that makes a model of x [N, 32, 8, 8] and a constant c."""
    from onnx.numpy_helper import from_array
    from onnx.parser import parse_model

    def model() -> Any:
        made = parse_model(
            f'<ir_version: 8, opset_import: ["" : 17]> g (float[N, 32, 8, 8] x) => (y) {{ {call} }}'
        )
        made.graph.initializer.append(from_array(values, "c"))
        return made

    return model


def _slopes(last: float = 1.0) -> np.ndarray:
    """Slopes of 32 channels, written out for 8 x 8 positions; `last` is that of the last of all."""
    slopes = np.zeros((32, 8, 8), np.float32) + np.linspace(-1, 1, 32, dtype=np.float32)[:, None, None]
    slopes[-1, -1, -1] = last
    return slopes


EXAMPLES = [
    Fires(
        _NET % "e = Expand (slope, to)  y = PRelu (x, e)",
        gone="Expand",
        becomes="y = PRelu (x, [3, 1, 1] {0.1, 0.2, -0.5})",
    ),
    Fires(
        _NET % "e = Expand (slope, to)  a = PRelu (x, e)  b = Mul (e, x)  y = Add (a, b)",
        gone="Expand",
        becomes="""a = PRelu (x, [3, 1, 1] {0.1, 0.2, -0.5}); b = Mul ([3, 1, 1] {0.1, 0.2, -0.5}, x); y = Add (a, b)""",
    ),
    Fires(_NET % "s = Shape (x)  e = Expand (v, s)  y = Sub (e, x)", gone="Expand", becomes="y = Sub (v, x)"),
    Fires(  # as a mask is repeated for each head of attention
        (_NET % "e = Expand (slope, to)  r = Reshape (e, flat)  f = Reshape (r, to)  y = Add (x, f)").replace(
            "int64[3] to", "int64[2] flat = {3, 32}, int64[3] to"
        ),
        after=("merge_reshapes",),
        gone="Expand",
        becomes="y = Add (x, [3, 1, 1] {0.1, 0.2, -0.5})",
    ),
    Fires(
        _NET % "e = Tile (slope, once)  y = Add (x, e)",
        gone="Tile",
        becomes="y = Add (x, [3, 1, 1] {0.1, 0.2, -0.5})",
    ),
    Fires(
        _NET % "a = Reshape (x, pairs)  e = Expand (m, batch)  y = MatMul (e, a)",
        gone="Expand",
        becomes="a = Reshape (x, {-1, 3, 2, 16}); y = MatMul ([2, 2] {1.0, 2.0, 3.0, 4.0}, a)",
    ),
    Fires(
        _NET % "e = Expand (row, to)  c = Greater (x, e)  y = Where (c, x, e)",
        gone="Expand",
        becomes="""c = Greater (x, {1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0})
        y = Where (c, x, {1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0})""",
    ),
    Fires(
        _NET % "f = Flatten <axis = 3> (x)  e = Expand (k, ones)  y = Gemm (f, m8, e)",
        gone="Expand",
        becomes="""f = Flatten <axis = 3> (x); y = Gemm (f, [8, 1] {1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0}, {3.0})""",
    ),
    Fires(
        _NET % "e = Expand (slope, high)  y = Mul (v, e)",
        gone="Expand",
        becomes="y = Mul (v, [3, 1, 1] {0.1, 0.2, -0.5})",
    ),
    *(
        Fires(_NET % f"e = Expand (slope, to)  y = {name} (x, e)", gone="Expand")
        for name in (
            "Div",
            "Equal",
            "GreaterOrEqual",
            "Less",
            "LessOrEqual",
            "Max",
            "Mean",
            "Min",
            "Mod <fmod = 1>",
        )
    ),
    *(
        Fires(_NET % f"e = Expand (slope, to)  y = {name}", gone="Expand")
        for name in ("Pow (x, e)", "Sum (x, e, v)")
    ),
    *(
        Fires(
            _NET % f"n = Greater (x, v)  h = Cast <to = 9> (slope)  e = Expand (h, to)  y = {name} (n, e)",
            gone="Expand",
        )
        for name in ("And", "Or", "Xor")
    ),
    Fires(
        _NET.replace(": 17", ": 8") % "e = Expand (slope, to)  y = Add (x, e)",
        becomes="y = Add (x, [3, 1, 1] {0.1, 0.2, -0.5})",
    ),
    Skips(_NET.replace("[N, 3, 4, 8]", "[]") % "e = Expand (slope, to)  y = Add (x, e)"),
    Skips(_NET.replace("[N, 3, 4, 8]", "[]") % "e = Expand (slope, to)  y = PRelu (x, e)"),
    Skips((_NET % "e = Tile (slope, o)  y = Add (x, e)").replace("v) =>", "v, int64[3] o) =>")),
    Skips(  # 4 KiB
        _stored(
            np.zeros((32, 8, 4), np.float32),
            "z = MaxPool <kernel_shape = [1, 2], strides = [1, 2]> (x)  y = Add (z, c)",
        )
    ),
    Fires(_stored(_slopes(), "y = PRelu (x, c)"), becomes="y = PRelu (x, float32 [32, 1, 1])"),
    Fires(
        _stored(np.zeros((1, 32, 8, 8), np.float32), "y = Add (x, c)"),
        becomes="y = Add (x, [1, 1, 1, 1] {0.0})",
    ),
    Fires(
        _stored(np.zeros(2048, np.float32), "f = Flatten (x)  y = Add (f, c)"),
        becomes="f = Flatten (x); y = Add (f, {0.0})",
    ),
    Skips(  # a bias
        _stored(
            np.zeros(2048, np.float32),
            "f = Flatten (x)  t = Transpose (f)  m = MatMul (t, f)  y = Add (m, c)",
        )
    ),
    Skips(_stored(_slopes(7), "y = PRelu (x, c)")),
    Skips(_stored(_slopes(), "a = Abs (c)  b = Add (x, c)  y = Add (a, b)")),
    Skips(_stored(np.full((9, 1, 32, 8, 8), 2, np.float32), "y = Add (x, c)")),  # the result's own size
    Skips(_stored(np.zeros((32, 8, 1), np.float32), "y = Add (x, c)")),  # 1 KiB
    Skips(_NET % "e = Expand (slope, four)  y = Add (x, e)"),  # N may be 1
    Skips(_NET % "e = Expand (one, to)  y = Mul (e, e)"),
    Skips(_NET % "e = Expand (x, wide)  y = Mul (e, v)"),  # another rank
    Skips(_NET % "e = Expand (slope, to)  a = PRelu (x, e)  b = Abs (e)  y = Add (a, b)"),
    Skips(_NET % "e = Expand (slope, to)  y = PRelu (e, one)"),
    Skips(_NET % "e = Expand (m8, square)  y = MatMul (x, e)"),
    Skips(_NET % "e = Tile (two, twice)  y = Mul (x, e)"),  # 1 2 1 2 1 2 1 2
    Skips((_NET % "e = Expand (slope, to)  y = PRelu (x, e)").replace("(y)", "(y, e)")),
    Skips(_NET.replace(": 17", ": 7") % "e = Tile (slope, once)  y = Add (x, e)"),
    *(
        Skips(_NET.replace("1] v", "1] v, float[] u") % call)
        for call in (
            "e = Expand (u, to)  y = Add (x, e)",
            "e = Tile (u, once)  y = Add (x, e)",
            "e = Expand (slope, to)  y = Where (n, x, e)".replace("y =", "n = Greater (u, x)  y ="),
            "e = Expand (slope, to)  y = Sum (x, u, e)",
        )
    ),
    Skips(_NET % "e = Expand (m, batch)  y = MatMul (e, e)"),
    Skips(_NET % "e = Expand (row, square)  y = MatMul (x, e)"),
]
