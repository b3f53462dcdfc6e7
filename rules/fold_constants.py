"""Compute what does not depend on the inputs.

A node whose inputs are all constants becomes its value, computed by onnxruntime. Shape arithmetic
is followed element by element, so that `Shape -> Gather -> Concat` chains fold wherever the sizes
that they pick are static, even in a model with other dynamic dimensions.

Left alone: random operators, and Q/DQ (a quantized weight is meant to stay one).

A file must not outgrow its float original by what is folded, as int8 would be no gain then. So a
result of more than 16 KiB is compared with the constants that nobody reads any more once it is there.
16 KiB always fold: shape arithmetic is smaller, and so is a vector of 4,096 channels, which a
convolution takes up. Where a larger result is larger than those constants,

- it is folded if it is a weight or a bias: int8 needs weights that are constants, importers need biases;
- it stays computed if its operator fills, repeats, moves or does arithmetic, and so do its readers, as
  every TensorRT computes these while it builds. What is made of it folds where that is small again;
- else it is folded up to 1 MiB: its operator may have no importer, or its readers may want constants.

    before    y = Reshape(x, Concat(Gather(Shape(x), 1), [-1]))      x: [N, 8, 4]
    after     y = Reshape(x, [8, -1])
"""

import math

import numpy as np

from onnxq.rule import (
    RANDOM,
    Fires,
    Node,
    Skip,
    Skips,
    evaluate,
    is_computed,
    known_elements,
    replaced_bytes,
    rule,
)

KEPT = {"QuantizeLinear", "DequantizeLinear", "DynamicQuantizeLinear", "Constant"}
WEIGHTED = {"Conv", "ConvTranspose", "Gemm", "MatMul"}
SMALL, LARGE, HUGE = 1 << 14, 1 << 20, 1 << 26

# What may stay computed: importers of every TensorRT, which take operands that are no constants.
COMPUTED = {"Add", "Cast", "Concat", "ConstantOfShape", "Div", "Expand", "Flatten", "Gather", "Identity"}
COMPUTED |= {"Max", "Min", "Mul", "Neg", "Range", "Reshape", "Slice", "Squeeze", "Sub", "Tile", "Transpose"}
COMPUTED |= {"Unsqueeze", "Where"}
READERS = COMPUTED | {"BatchNormalization", "PRelu", "Pow", "ScatterND", "Equal", "Greater", "Less"}
TYPES = ("float32", "float16", "int32", "int64")


@rule("*", stage="clean")
def fold_constants(node: Node) -> dict[int, np.ndarray] | None:
    if node.op in RANDOM | KEPT or node.has_body or not node.outputs or node.op == "Identity":
        return None
    if all(tensor is None or is_computed(tensor) for tensor in node.inputs):
        arrays = evaluate(node)
        if arrays is None:
            raise Skip(_why_not(node))
        after = sum(array.nbytes for array in arrays)
        if after > SMALL and not _is_weight(node) and after > (before := replaced_bytes(node)):
            if _stays_computed(node):
                return None
            if after > LARGE:
                raise Skip(f"the constant would take {after:,} bytes, what it replaces takes {before:,}")
        written = [index for index, tensor in enumerate(node.outputs) if tensor.name]
        return dict(zip(written, arrays, strict=True))
    (out, *more) = node.outputs
    if more or out.dtype is None:
        return None
    elements = known_elements(out)
    if elements is None or any(e is None or isinstance(e, str) for e in elements.reshape(-1)):
        return None
    return {0: elements.astype(out.dtype)}


def _why_not(node: Node) -> str:
    """Why a constant is not computed."""
    (out, *_) = node.outputs
    if out.dtype is not None and out.shape is not None and all(isinstance(size, int) for size in out.shape):
        after = out.dtype.itemsize * math.prod(size for size in out.shape if isinstance(size, int))
        if after > HUGE:
            return f"its result {out.name!r} would take {after:,} bytes"
    return "onnxruntime does not compute it"


def _is_weight(node: Node) -> bool:
    """Whether a layer multiplies with the result, or takes it up: only a constant weight can be quantized."""
    users = [(user, out) for out in node.outputs for user in out.users]
    return any(out in user.inputs[1:] and (user.op in WEIGHTED or _is_taken_up(user)) for user, out in users)


def _is_taken_up(node: Node) -> bool:
    """Whether a node is a normalization that the layer in front of it takes up."""
    data = node.inputs[0]
    before = data.producer if data is not None and node.op == "BatchNormalization" else None
    return before is not None and before.op in WEIGHTED


def _stays_computed(node: Node) -> bool:
    (out, *more) = node.outputs
    operators = [(user.op, user.domain) for user in out.users]
    return (
        not more
        and node.op in COMPUTED
        and not node.domain
        and str(out.dtype) in TYPES
        and all(op in READERS and not domain for op, domain in operators)
    )


def _ramp(size: int, end: str) -> str:
    """A model that computes 0, 1, ..., size - 1 from three numbers."""
    return f"""<ir_version: 8, opset_import: ["" : 17]>
        g (float[N, {size}] x) => (y) <float low = {{0}}, float high = {{{size}}}, float step = {{1}},
            int64[2] to = {{{size}, 1}}, int64[1] first = {{1}}, int64[1] zero = {{0}}, int64[1] size = {{{size}}},
            int64[4] as_conv = {{{size}, 1, 1, 1}}, int64[4] as_deconv = {{1, {size}, 1, 1}}, bool yes = {{1}},
            int64[2] ones = {{1, 1}}, int64[2] one_row = {{1, {size}}}> {{
            r = Range (low, high, step)  {end} }}"""


_NORMALIZED = f"""<ir_version: 8, opset_import: ["" : 17]>
    g (float[N, 1] x) => (y) <float[1, 5000] w = {{{", ".join("1" * 5000)}}}, int64[1] size = {{5000}}> {{
        a = Gemm (x, w)  z = ConstantOfShape (size)  o = ConstantOfShape <value = float[1] {{1}}> (size)
        y = BatchNormalization (a, o, z, z, o) }}"""

EXAMPLES = [
    Fires(
        """<ir_version: 8, opset_import: ["" : 17]>
        g (float[N, 8, 4] x) => (float[8, M] y) <int64 one = {1}, int64[1] rest = {-1}, int64[1] zero = {0}> {
            s = Shape (x)  d = Gather (s, one)  u = Unsqueeze (d, zero)
            t = Concat <axis = 0> (u, rest)  y = Reshape (x, t) }""",
        gone="Shape",
        becomes="y = Reshape (x, {8, -1})",
    ),
    Fires(
        """<ir_version: 8, opset_import: ["" : 17]>
        g (float[2] x) => (float[2] y) <float[2] a = {1, 2}, float[2] b = {0.5, 4}> {
            c = Div (a, b)  y = Mul (x, c) }""",
        gone="Div",
        becomes="y = Mul (x, {2.0, 0.5})",
    ),
    Skips(
        """<ir_version: 8, opset_import: ["" : 17]>
        g (float[N, 8] x) => (int64[2] y) { y = Shape (x) }"""
    ),
    Skips(
        """<ir_version: 8, opset_import: ["" : 17]>
        g (float[4] x) => (float[4] y) <float s = {0.5}, int8 z = {0}, int8[4] w = {1, 2, 3, 4}> {
            d = DequantizeLinear (w, s, z)  y = Mul (x, d) }"""
    ),
    Fires(_ramp(1 << 12, "y = Add (x, r)"), gone="Range", becomes="y = Add (x, float32 [4096])"),
    Skips(_ramp((1 << 12) + 2, "d = Mul (r, r)  y = Add (x, d)")),
    Fires(
        _ramp(1 << 13, "s = Slice (r, zero, first)  y = Add (x, s)"),
        gone="Range",
        becomes="y = Add (x, {0.0})",
    ),  # small again
    Fires(
        _ramp(300_000, "w = Reshape (r, to)  y = MatMul (x, w)"),
        gone="Reshape",
        becomes="y = MatMul (x, float32 [300000, 1])",
    ),  # a weight
    Fires(
        _NORMALIZED,
        gone="ConstantOfShape",
        becomes="""a = Gemm (x, float32 [1, 5000])
        y = BatchNormalization (a, float32 [5000], float32 [5000], float32 [5000], float32 [5000])""",
    ),  # the layer takes it up
    Fires(
        _ramp(5000, "w = Reshape (r, as_conv)  y = Conv (z, w)").replace(
            "x) =>", "x, float[N, 1, 1, 1] z) =>"
        ),
        gone="Reshape",
    ),
    Fires(
        _ramp(5000, "w = Reshape (r, as_deconv)  y = ConvTranspose (z, w)").replace(
            "x) =>", "x, float[N, 1, 1, 1] z) =>"
        ),
        gone="Reshape",
    ),
    Skips(  # every operator that is computed while the engine is built
        _ramp(
            5000,
            "n = Neg (r)  c = Cast <to = 1> (n)  t = Reshape (c, to)  u = Transpose (t)  f = Flatten (u)"
            "  q = Squeeze (f, zero)  m = Max (q, low)  i = Min (m, high)  s = Slice (i, zero, size)"
            "  v = Unsqueeze (s, zero)  e = Expand (v, one_row)  k = Tile (e, ones)  b = Sub (k, step)"
            "  d = Div (b, high)  p = Mul (d, d)  w = Where (yes, p, low)  g = Gather (w, zero)"
            "  z = ConstantOfShape (size)  a = Concat <axis = 0> (z)  j = Identity (a)  l = Add (j, z)  o = Add (g, l)  y = Add (x, o)",
        )
    ),
    Skips(  # every operator that reads what is computed
        _ramp(
            5000,
            "a = PRelu (x, r)  b = Pow (x, r)  c = Equal (x, r)  d = Greater (x, r)  e = Less (x, r)"
            "  y = BatchNormalization (x, r, r, r, r)",
        ).replace("(y)", "(y, a, b, c, d, e)")
    ),
    *(
        Skips(
            _ramp(
                10000,
                f"h = Cast <to = {kind}> (r)  i = Cast <to = {kind}> (x)  m = Add (h, h)  y = Sub (i, m)",
            )
        )
        for kind in (6, 7, 10)
    ),
    *(
        Skips(
            f"""<ir_version: 8, opset_import: ["" : 17]>
            g (float[2] x) => (y, q) <float[2] c = {{1, 2}}, float s = {{0.5}}, uint8 z = {{0}}> {{ y = Neg (x)  {call} }}"""
        )
        for call in ("q = QuantizeLinear (c, s, z)", "q, a, b = DynamicQuantizeLinear (c)")
    ),
    Fires(  # OneHot has no importer in some versions
        """<ir_version: 8, opset_import: ["" : 17]>
        g (float[N, 5000] x) => (y) <int64[1] i = {7}, int64 depth = {5000}, float[2] of = {0, 1}> {
            h = OneHot (i, depth, of)  y = Add (x, h) }""",
        gone="OneHot",
        becomes="y = Add (x, float32 [1, 5000])",
    ),
    Fires(
        """<ir_version: 8, opset_import: ["" : 17]>
        g (float[N, 3] x) => (y) <int64[1] size = {300000}> { z = ConstantOfShape (size)  c = Cos (z)
            s = ReduceSum (c)  y = Add (x, s) }""",
        gone="ReduceSum",
        becomes="y = Add (x, {300000.0})",
    ),
    Skips(
        """<ir_version: 8, opset_import: ["" : 17]>
        g (float[N, 300000] x) => (y) <int64[1] size = {300000}> { z = ConstantOfShape (size)  c = Cos (z)
            y = Add (x, c) }""",
        because="1,200,000 bytes",
    ),
    Skips(_NORMALIZED.replace("y = B", "n = Neg (a)  y = B").replace("(a, o", "(n, o")),
    Skips(
        _ramp(5000, "a = ScatterND (r, i, u)  y = Add (x, a)").replace(
            "x) =>", "x, int64[1, 1] i, float[1] u) =>"
        )
    ),
    Skips(
        """<ir_version: 8, opset_import: ["" : 17]>
        g (float[2] x) => (y) <float[2] c = {1, 2}> { i = Identity (c)  y = Add (x, i) }"""
    ),
    Skips(
        """<ir_version: 8, opset_import: ["" : 17]>
        g (float[2] x) => (y) <float[2] c = {1, 2}, int64 far = {5}> { a = Gather (c, far)  y = Add (x, a) }""",
        because="does not compute it",
    ),
    Skips(
        """<ir_version: 8, opset_import: ["" : 17]>
        g (float[N, 8] x) => (y) { a = NonZero (x)  y = Shape (a) }"""
    ),
    Skips(  # so large a constant is not computed at all
        """<ir_version: 8, opset_import: ["" : 17]>
        g (float[N, 1] x) => (y) <float[2] c = {1, 2}, int64[1] many = {1000000000}> {
            t = Tile (c, many)  m = ReduceMax <keepdims = 0> (t)  y = Add (x, m) }""",
        because="its result 't' would take 8,000,000,000 bytes",
    ),
    Fires(  # no more than what it replaces
        _NORMALIZED[: _NORMALIZED.index("a = Gemm")].replace("[N, 1]", "[N, 5000]")
        + "n = Neg (w)  y = Add (x, n) }",
        gone="Neg",
    ),
    Skips(  # the first operand is no weight
        _ramp(300_000, "a = Reshape (r, one_row)  y = MatMul (a, z)").replace(
            "x) =>", "x, float[300000, 1] z) =>"
        ),
        because="bytes",
    ),
    Skips(  # a layer takes up no slopes
        _NORMALIZED[: _NORMALIZED.index("o = C")] + " y = PRelu (a, z) }"
    ),
    Fires(_ramp(5000, "h = Cast <to = 11> (r)  i = Cast <to = 11> (x)  y = Sub (i, h)"), gone="Range"),
    Fires(_ramp(5000, "y = Mod <fmod = 1> (x, r)"), gone="Range"),
]
