"""Compute what does not depend on the inputs.

A node whose inputs are all constants becomes its value, computed by onnxruntime. Shape arithmetic
is followed element by element, so that `Shape -> Gather -> Concat` chains fold wherever the sizes
that they pick are static, even in a model with other dynamic dimensions.

Left alone: random operators, Q/DQ (a quantized weight is meant to stay one), outputs that are
large and larger than what they are computed from.

    before    y = Reshape(x, Concat(Gather(Shape(x), 1), [-1]))      x: [N, 8, 4]
    after     y = Reshape(x, [8, -1])
"""

import numpy as np

from onnxq.rule import Fires, Node, Skip, Skips, evaluate, known_elements, rule

RANDOM = {"RandomNormal", "RandomUniform", "RandomNormalLike", "RandomUniformLike", "Multinomial"}
RANDOM |= {"Bernoulli", "Dropout"}
KEPT = {"QuantizeLinear", "DequantizeLinear", "DynamicQuantizeLinear", "Constant"}
WEIGHTED = {"Conv", "ConvTranspose", "Gemm", "MatMul"}
MAX_GROWTH = 1 << 20


@rule("*", stage="clean")
def fold_constants(node: Node) -> dict[int, np.ndarray] | None:
    if node.op in RANDOM | KEPT or node.has_body or not node.outputs or node.op == "Identity":
        return None
    if all(tensor is None or tensor.is_constant for tensor in node.inputs):
        arrays = evaluate(node)
        if arrays is None:
            raise Skip("onnxruntime does not compute it")
        before = sum(tensor.nbytes for tensor in node.inputs if tensor is not None)
        after = sum(array.nbytes for array in arrays)
        if after > MAX_GROWTH and after > before and not _is_weight(node):
            raise Skip(f"the constant would take {after:,} bytes, its inputs take {before:,}")
        written = [index for index, tensor in enumerate(node.outputs) if tensor.name]
        return dict(zip(written, arrays, strict=True))
    (out, *more) = node.outputs
    if more or out.dtype is None:
        return None
    elements = known_elements(out)
    if elements is None or any(e is None or isinstance(e, str) for e in elements.reshape(-1)):
        return None
    return {0: elements.astype(out.dtype)}


def _is_weight(node: Node) -> bool:
    """Whether a layer multiplies with the result: only a constant weight can be quantized."""
    (out, *_) = node.outputs
    return any(user.op in WEIGHTED and out in user.inputs[1:] for user in out.users)


EXAMPLES = [
    Fires(
        """<ir_version: 8, opset_import: ["" : 17]>
        g (float[N, 8, 4] x) => (float[8, M] y) <int64 one = {1}, int64[1] rest = {-1}, int64[1] zero = {0}> {
            s = Shape (x)  d = Gather (s, one)  u = Unsqueeze (d, zero)
            t = Concat <axis = 0> (u, rest)  y = Reshape (x, t) }""",
        gone="Shape",
    ),
    Fires(
        """<ir_version: 8, opset_import: ["" : 17]>
        g (float[2] x) => (float[2] y) <float[2] a = {1, 2}, float[2] b = {0.5, 4}> {
            c = Div (a, b)  y = Mul (x, c) }""",
        gone="Div",
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
]
