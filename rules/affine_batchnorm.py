"""Make a BatchNormalization whose parameters are computed one multiplication and one addition.

A BatchNorm without learned parameters over a flattened map exports ones and zeros by ConstantOfShape. Written
out they would double the file (see `fold_constants`), and TensorRT merges the four parameters only where
all are constants:

    before    y = BatchNormalization(x, ConstantOfShape([76800]), ConstantOfShape([76800]), mean, var)
    after     y = Add(Mul(x, s), B - mean * s)          s = scale / sqrt(var + epsilon)

The parameters are merged in double precision. What they repeat is stored once (see `drop_broadcast`).
"""

import numpy as np

from onnxq.rule import Close, Fires, Node, Skips, computed, op, required, rule


@rule("BatchNormalization", stage="clean")
def affine_batchnorm(node: Node) -> Close | None:
    source, *parameters = required(node, 5)
    if source.rank is None or source.dtype is None or node.opset < 7:
        return None
    if node.attr("training_mode") or any(tensor.users for tensor in node.outputs[1:]):
        return None  # before opset 14 its other outputs say that it is in training
    if all(parameter.is_constant for parameter in parameters):
        return None  # TensorRT merges constants itself
    values = [computed(parameter) for parameter in parameters]
    if any(value is None or value.ndim != 1 for value in values):
        return None
    scale, offset, mean, variance = (np.asarray(value, np.float64) for value in values)
    shape = (-1, *[1] * (source.rank - 2))
    with np.errstate(all="ignore"):  # a negative variance gives NaN
        factor = scale / np.sqrt(variance + node.attr("epsilon"))
        times, plus = (v.astype(source.dtype).reshape(shape) for v in (factor, offset - mean * factor))
    if not all(np.isfinite(merged).all() for merged in (times, plus)):
        return None
    return Close(op.Add(op.Mul(source, times), plus))


_NET = """<ir_version: 8, opset_import: ["" : 17]>
    g (float[N, 6000] x) => (y) <int64[1] size = {6000}, float zero = {0}, float one = {1}, float end = {6000}> {
        r = Range (zero, end, one)  o = ConstantOfShape <value = float[1] {2}> (size)
        z = ConstantOfShape <value = float[1] {3}> (size)  y = BatchNormalization (x, o, z, %s) }"""

EXAMPLES = [
    Fires(
        _NET % "r, o",
        gone="BatchNormalization",
        after=("fold_constants",),
        becomes="_1 = Mul (x, float32 [6000]); y = Add (_1, float32 [6000])",
    ),
    Fires(
        _NET % "z, r",
        gone="BatchNormalization",
        after=("fold_constants",),
        becomes="_1 = Mul (x, float32 [6000]); y = Add (_1, float32 [6000])",
    ),
    Fires(
        _NET % "z, o",
        gone="ConstantOfShape",
        after=("fold_constants", "drop_broadcast"),
        becomes="_1 = Mul (x, {1.4142101}); y = Add (_1, {-1.2426301}); r = Range (0.0, 6000.0, 1.0)",
    ),
    Skips(
        """<ir_version: 8, opset_import: ["" : 17]>
        g (float[N, 2] x) => (y) <float[2] s = {1, 2}> { y = BatchNormalization (x, s, s, s, s) }"""
    ),
    Fires(
        (_NET % "r, o").replace("tion (x", "tion <epsilon = 0.5> (x"),
        becomes="_1 = Mul (x, float32 [6000]); y = Add (_1, float32 [6000])",
        after=("fold_constants",),
    ),
    Fires(
        (_NET % "r, o").replace("[N, 6000]", "[N, 6000, 1]"),
        becomes="_1 = Mul (x, float32 [6000, 1]); y = Add (_1, float32 [6000, 1])",
        after=("fold_constants",),
    ),
    *(
        Skips(model, after=("fold_constants",))
        for model in (
            (_NET % "r, o").replace("[N, 6000]", "[]"),
            (_NET % "r, d").replace("x) =>", "x, float[6000] d) =>"),
            # it overflows
            (_NET % "r, o")
            .replace("float[1] {2}", "float[1] {1e38}")
            .replace("o)", "v)")
            .replace("z = C", "v = ConstantOfShape <value = float[1] {0.00001}> (size)  z = C"),
            (_NET % "r, o").replace("value = float[1] {2}", "value = float[1] {-0.00001}"),
            (_NET % "r, o").replace("value = float[1] {2}", "value = float[1] {-2}"),
            (_NET % "r, o").replace("(x, o", "<training_mode = 1> (x, o").replace("y = B", "y, m, v = B"),
            (_NET % "r, o").replace("6000", "60"),
        )
    ),
]
