"""Small models of Q/DQ pairs: for each check one with the mistake, and one like it without."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import onnx
import onnx.parser
from onnx import numpy_helper

_HEAD = '<ir_version: 10, opset_import: ["" : {opset}]> net '
_CONV = "(float[1, 32, 16, 16] x) => (float[1, {out}] y)"


def _weights(*shape: int, dtype: type = np.int8, seed: int = 0) -> np.ndarray:
    values = np.random.default_rng(seed).integers(-127, 128, shape)
    return values.astype(dtype) if dtype == np.int8 else (values / 1270).astype(dtype)


CONSTANTS: Mapping[str, np.ndarray] = {
    "s": np.array(0.05, np.float32), "t": np.array(0.07, np.float32), "s1": np.array([0.05], np.float32),
    "neg": np.array(-0.05, np.float32), "h": np.array(0.05, np.float16), "tiny": np.array(3e-7, np.float16),
    "z": np.array(0, np.int8), "z1": np.array([0], np.int8), "z3": np.array(3, np.int8),
    "u": np.array(0, np.uint8), "u3": np.array(3, np.uint8), "i16": np.array(0, np.int16),
    "z32": np.array(0, np.int32),
    "c": np.linspace(0.001, 0.002, 32).astype(np.float32), "c0": np.zeros(32, np.int8),
    "c64": np.linspace(0.001, 0.002, 64).astype(np.float32), "c640": np.zeros(64, np.int8),
    "ch": np.linspace(0.001, 0.002, 64).astype(np.float16), "chs": np.full(64, 4e-6, np.float16),
    "w": _weights(32, 32, 3, 3), "wf": _weights(32, 32, 3, 3, dtype=np.float32),
    "wd": _weights(32, 1, 3, 3), "w1": _weights(1, 32, 1, 1), "w64": _weights(32, 64, 3, 3),
    "m": _weights(64, 64), "mf": _weights(64, 64, dtype=np.float32), "m128": _weights(64, 128),
    "small": (np.arange(64 * 64).reshape(64, 64) % 3 - 1).astype(np.int8),
    "b32": np.arange(32, dtype=np.int32),
    "blocks": np.linspace(0.001, 0.002, 256).reshape(4, 64).astype(np.float32),
    "blocks0": np.zeros((4, 64), np.int8),
    "half": np.array(0.5, np.float32), "halfh": np.array(0.5, np.float16), "oneh": np.array(1, np.float16),
    "eighth": np.array(0.125, np.float32), "twice": np.array([1, 1, 2, 2], np.float32),
    "wh": _weights(32, 32, 3, 3, dtype=np.float16),
}  # fmt: skip


def net(body: str, *, opset: int = 21) -> onnx.ModelProto:
    """A model of a signature and nodes, with those of `CONSTANTS` that it names."""
    head, _, nodes = body.partition("{")
    model = onnx.parser.parse_model(_HEAD.format(opset=opset) + head + "{" + nodes)
    used = {name for node in model.graph.node for name in node.input}
    model.graph.initializer.extend(
        numpy_helper.from_array(values, name) for name, values in CONSTANTS.items() if name in used
    )
    for number, node in enumerate(model.graph.node):
        node.name = node.name or f"n{number}"
    return onnx.shape_inference.infer_shapes(model)


def conv(data: str, weight: str = "v = DequantizeLinear <axis = 0> (w, c, c0)", more: str = "") -> str:
    """A convolution of `d`, which `data` gives, with `v`."""
    return f"""(float[1, 32, 16, 16] x) => (y) {{ {data}  {weight}
        [l] y0 = Conv <pads = [1, 1, 1, 1]> (d, v)  {more or "y = Relu (y0)"} }}"""


def matmul(data: str, weight: str, kind: str = "float") -> str:
    """A product of `d` and `v`."""
    return f"({kind}[64, 64] x) => (y) {{ {data}  {weight}  [l] y = MatMul (d, v) }}"


def pair(name: str, out: str, scale: str = "s", zero: str = "z") -> str:
    """A pair on a tensor."""
    given = f"{scale}, {zero}"
    return f"{out}q = QuantizeLinear ({name}, {given})  {out} = DequantizeLinear ({out}q, {given})  "


X = pair("x", "d")
M = "v = DequantizeLinear <axis = 1> (m, c64, c640)"
ATTENTION = """(float[1, 2, {keys}, {size}] a, float[1, 2, {size}, {keys}] b, float[1, 2, {keys}, {size}] e)
    => (y) {{ {q} {k} [one] s0 = MatMul (qd, kd)  s1x = Mul (s0, eighth)  p = Softmax (s1x)  {p} {v}
    [two] o = MatMul (pd, vd)  {o}  y = Add (od, e) }}"""


def attention(parts: str, keys: int = 64, size: int = 32) -> str:
    """Attention with pairs on some of q, k, p, v, o."""
    names = {"q": "a", "k": "b", "p": "p", "v": "e", "o": "o"}
    text = {
        part: pair(name, f"{part}d") if part in parts else f"{part}d = Identity ({name})"
        for part, name in names.items()
    }
    return ATTENTION.format(keys=keys, size=size, **text)


def residual(activation: str, kind: str = "float16", weight: str = "wh") -> str:
    """A convolution, an activation and an Add of a half of a Split that a Concat reads too."""
    return f"""({kind}[1, 64, 16, 16] x) => (y) {{ a, b = Split <axis = 1, num_outputs = 2> (x)
        [conv] k = Conv <pads = [1, 1, 1, 1]> (b, {weight})  {activation}  [add] r = Add (b, t0)
        [cat] y = Concat <axis = 1> (a, b, r) }}"""


TANH = "k2 = Mul (k, halfh)  k3 = Tanh (k2)  k4 = Add (k3, oneh)  t0 = Mul (k2, k4)"
SUMS = """(float[3, 4] x) => (y, z) {{ a = Constant <value_int = 0> ()  b = Constant <value_int = 1> ()
    y = CumSum (x, a)  [l] z = CumSum {1} (x, {0}) }}"""

BRANCHED = """(bool yes, float[1, 1, {sizes}] x, int64[4] size) => (y) {{ {before}
    g = If (yes) <then_branch = one () => (float[1, 1, {sizes}] p) {{ p = Neg ({chosen}) }},
                  else_branch = two () => (float[1, 1, {sizes}] q) {{ q = Abs ({chosen}) }}>
    {behind}  [l] y = Resize <mode = "cubic"> (r, , , size) }}"""

TURN = "{} = Transpose <perm = [0, 1, 3, 2]> ({})"

SAMPLED = """(float[1, 16, 64] x, float[1, 4, 4, 2] p) => (y) {{ k = {0}  r = Transpose <perm = [0, 2, 1]> (k)
    n1 = Constant <value_ints = [1, 64, 4, 4]> ()  i = Reshape (r, n1)  g = Tanh (p)
    [l] e = GridSample (i, g)  n2 = Constant <value_ints = [1, 64, 16]> ()  y = Reshape (e, n2) }}"""

REDUCED = """(float[{0}, 64, 32] x) => (y) {{ r = Transpose <perm = [0, 2, 1]> (x)
    n1 = Constant <value_ints = [{0}, 32, 8, 8]> ()  i = Reshape (r, n1)
    e = Conv <strides = [{1}, {1}], pads = [1, 1, 1, 1]> (i, wf)
    n2 = Constant <value_ints = [{0}, 32, -1]> ()  k = Reshape (e, n2)
    v = Transpose <perm = [0, 2, 1]> (k)  [l] q = MatMul (x, k)  p = Softmax (q)  y = MatMul (p, v) }}"""

GROUPED = "v = DequantizeLinear <axis = 0> (wd, c, c0)"


MIXED = """(float16[64, 64] x) => (y) {
    dq = QuantizeLinear (x, h, z)  d = DequantizeLinear (dq, h, z)
    v0 = DequantizeLinear <axis = 1> (m, c64, c640)  v = Cast <to = 10> (v0)  [l] y = MatMul (d, v) }"""


MISTAKES: Mapping[str, tuple[str, str]] = {
    "int32-dequantize": (
        conv(X, more="b = DequantizeLinear (b32, s, z32)  t0 = ReduceMax (b)  y = Add (y0, t0)"),
        conv(X),
    ),
    "zero-point": (conv(pair("x", "d", "s", "z3")), conv(X)),
    "uint8": (conv(pair("x", "d", "s", "u")), conv(X)),
    "no-zero-point": (conv("dq = QuantizeLinear (x, s)  d = DequantizeLinear (dq, s)"), conv(X)),
    "16-bit": (conv(pair("x", "d", "s", "i16")), conv(X)),
    "scale-sign": (conv(pair("x", "d", "neg")), conv(X)),
    "computed-scale": (conv("t0 = ReduceMax <keepdims = 0> (x)  " + pair("x", "d", "t0")), conv(X)),
    "one-element-scale": (
        conv(pair("x", "d", "s1", "z1")),
        conv(X, "v = DequantizeLinear <axis = 0> (w, s1, z1)"),
    ),
    "scale-types": (MIXED, matmul(X, M)),
    "fp16-scale": (
        matmul(pair("x", "d", "h"), "v = DequantizeLinear (m, tiny, z)", "float16"),
        matmul(pair("x", "d", "tiny"), "v = DequantizeLinear (m, h, z)", "float16"),
    ),
    "fp16-product": (
        matmul(pair("x", "d", "h"), "v = DequantizeLinear <axis = 1> (m, ch, c640)", "float16"),
        matmul(pair("x", "d", "h"), "v = DequantizeLinear (m, h, z)", "float16"),
    ),
    "activation-axis": (conv(pair("x", "d", "c", "c0")), conv(X)),
    "weight-axis": (conv(X, "v = DequantizeLinear <axis = 1> (w, c, c0)"), conv(X)),
    "weight-blocks": (
        matmul(X, "v = DequantizeLinear <axis = 0, block_size = 16> (m, blocks, blocks0)"),
        matmul(X, M),
    ),
    "weights-only": (
        conv("d = Identity (x)"),
        conv(pair("x", "f") + "d = MaxPool <kernel_shape = [1, 1]> (f)"),
    ),
    "input-only": (conv(X, "").replace("(d, v)", "(d, wf)"), conv(X)),
    "half-product": (
        "(float[1, 2, 64, 32] a, float[1, 2, 32, 64] b) => (y) { "
        + pair("a", "d") + "[l] y = MatMul (d, b) }",
        "(float[1, 2, 64, 32] a, float[1, 2, 32, 64] b) => (y) { "
        + pair("a", "d") + pair("b", "e") + "[l] y = MatMul (d, e) }",
    ),
    "concat-scales": (
        conv("i, j = Split <axis = 1, num_outputs = 2> (x) " + pair("i", "k") + pair("j", "n", "t")
             + "d = Concat <axis = 1> (k, n)"),
        conv("i, j = Split <axis = 1, num_outputs = 2> (x) " + pair("i", "k") + pair("j", "n")
             + "d = Concat <axis = 1> (k, n)"),
    ),
    "half-attention": (attention("qkp"), attention("qkpvo")),
    "attention-size": (attention("qkpvo", size=48), attention("qkpvo")),
    "ignored-pairs": (
        conv(X, "v = DequantizeLinear <axis = 1> (w, c, c0)").replace("Conv <", "ConvTranspose <"),
        conv(X),
    ),
    "padded-groups": (conv(X, GROUPED).replace("<pads", "<group = 32, pads"), conv(X)),
    "few-rows": (
        matmul(X, M).replace("[64, 64] x", "[1, 64] x"),
        matmul(X, M),
    ),
    "idle-pair": (conv(X, more=pair("y0", "e") + "y = Sigmoid (e)"), conv(X)),
    "quantized-output": (conv(X, more=pair("y0", "y")), conv(X)),
    "residual-view": (
        residual(TANH),
        residual("k2 = Sigmoid (k)  t0 = Mul (k, k2)"),
    ),
    "cumsum-settings": (
        SUMS.format("b", ""),
        SUMS.format("a", "<exclusive = 1>"),
    ),
    "if-transposed": (
        BRANCHED.format(before="", chosen="x", behind=TURN.format("r", "g"), sizes="H, W"),
        BRANCHED.format(
            before=TURN.format("f", "x"), chosen="f", behind="r = Identity (g)", sizes="H, W"),
    ),
    "deformable-samples": (SAMPLED.format("MatMul (x, mf)"), SAMPLED.format("Sigmoid (x)")),
    "reduced-attention": (REDUCED.format(2, 2), REDUCED.format(1, 2)),
    "later-release": (
        "(float[1, 2, 4, 4, 4] x, float[1, 4, 4, 4, 3] g) => (y) { [l] y = GridSample (x, g) }",
        "(float[1, 2, 4, 4] x, float[1, 4, 4, 2] g) => (y) { [l] y = GridSample (x, g) }",
    ),
    "size-step": (
        "(float[N, 4, H, 8] x) => (float[N, 4, I, 8] y) <float[4] by = {1., 1., 2., 1.}> "
        "{ a = MaxPool <kernel_shape = [1, 1], strides = [2, 1]> (x)  "
        "b = Resize (a, , by)  [l] y = Add (b, x) }",
        "(float[N, 4, H, 8] x) => (float[N, 4, I, 8] y) { a = MaxPool <kernel_shape = [1, 1]> (x)  "
        "[l] y = Add (a, x) }",
    ),
    "baked-size": (
        "(float[N, 4, 4] x) => (y) { k = Constant <value_ints = [1, 16]> ()  [l] y = Reshape (x, k) }",
        "(float[N, 4, 4] x) => (y) { k = Constant <value_ints = [-1, 16]> ()  [l] y = Reshape (x, k) }",
    ),
}  # fmt: skip
"""By check: the mistake, and a model in which the check has to be silent."""
