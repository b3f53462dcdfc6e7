"""Write a `LabelEncoder` of numbers as a comparison with its keys.

TensorRT has no operators of ai.onnx.ml:

    Plugin not found, are the plugin name, version, and namespace correct?

    before    y = ai.onnx.ml.LabelEncoder<keys_int64s=k, values_floats=v, default_float=d>(x)
    after     hit = Equal(Unsqueeze(x, -1), k);  y = Where(ReduceMax(hit), Gather(v, ArgMax(hit)), d)

Bit-equal; before ai.onnx.ml 4 no key is NaN. Texts stay: TensorRT knows none.
"""

from typing import Any

import numpy as np
from _classical import of_texts
from _opsets import reduced, unsqueezed

from onnxq.rule import Fires, Node, Skip, Skips, Value, op, required, rule

_DEFAULTS = {"floats": ("default_float", -0.0, np.float32), "int64s": ("default_int64", -1, np.int64)}


@rule("ai.onnx.ml.LabelEncoder", stage="compat", lacks="classical-operators")
def ml_label_encoder(node: Node) -> Value:
    (x,) = required(node, 1)
    of_texts(node, "classes_strings", "keys_strings", "values_strings")
    keys, values = _numbers(node, "keys"), _numbers(node, "values")
    if keys is None or values is None or keys[0].size != values[0].size or x.rank is None:
        raise Skip("its keys, its values or the rank of its input are not known as numbers")
    default: Any = np.array(node.attr(values[2], values[3]), values[0].dtype)
    given = node.attr("default_tensor")
    if isinstance(given, np.ndarray):
        default = given.reshape(-1)[0]
    names = keys[0].reshape(-1)
    wide = unsqueezed(node, x, [x.rank])
    hits = op.Equal(wide, names)
    if np.isnan(names).any() and node.model.versions["ai.onnx.ml"] >= 4:
        hits = op.Or(hits, op.And(op.IsNaN(wide), np.isnan(names)))
    marks = op.Cast(hits, to=1)  # of several equal keys the first
    found = op.Greater(reduced(node, "ReduceMax", marks, [x.rank]), np.float32(0))
    return op.Where(
        found, op.Gather(values[0].reshape(-1), op.ArgMax(marks, axis=x.rank, keepdims=0)), default
    )


def _numbers(node: Node, what: str) -> tuple[np.ndarray, str, str, Any] | None:
    """The array of the attribute `keys_...` or `values_...`, its ending, its default's name and value."""
    for ending, (name, usual, kind) in _DEFAULTS.items():
        given = node.attr(f"{what}_{ending}")
        if given:
            return np.array(given, kind), ending, name, usual
    tensor = node.attr(f"{what}_tensor")
    if not isinstance(tensor, np.ndarray) or tensor.dtype.kind not in "fi":
        return None
    return tensor, "tensor", "default_tensor", -1 if tensor.dtype.kind == "i" else -0.0


_NET = """<ir_version: 8, opset_import: ["" : 17, "ai.onnx.ml" : 2]>
    g (%s[N, 2] x) => (%s[N, 2] y) { y = ai.onnx.ml.LabelEncoder <%s> (x) }"""

EXAMPLES = [
    Fires(
        _NET % ("int64", "float", "keys_int64s = [1, 2, -3], values_floats = [0.5, 1.5, -2.0]"),
        becomes="""_1 = Unsqueeze (x, {2}); _2 = Equal (_1, {1, 2, -3}); _3 = Cast <to = 1> (_2)
        _4 = ReduceMax <axes = [2], keepdims = 0> (_3); _5 = Greater (_4, 0.0)
        _6 = ArgMax <axis = 2, keepdims = 0> (_3); _7 = Gather ({0.5, 1.5, -2.0}, _6)
        y = Where (_5, _7, -0.0)""",
    ),
    Fires(
        _NET
        % ("float", "int64", "keys_floats = [1.0, 0.5, 3.0], values_int64s = [7, 8, 9], default_int64 = 5")
    ),
    Fires(
        """<ir_version: 8, opset_import: ["" : 17, "ai.onnx.ml" : 3]> g (float[N, 2] x) => (float[N, 2] y) {
            y = ai.onnx.ml.LabelEncoder <keys_floats = [1.0, nan], values_floats = [3.0, 4.0]> (x) }""",
        gone="LabelEncoder",
    ),
    Fires(
        """<ir_version: 8, opset_import: ["" : 17, "ai.onnx.ml" : 4]> g (float[2] x) => (int64[2] y) {
            y = ai.onnx.ml.LabelEncoder <keys_floats = [1.0, nan], values_int64s = [3, 4]> (x) }""",
        gone="LabelEncoder",
    ),
    Skips(
        """<ir_version: 8, opset_import: ["" : 17, "ai.onnx.ml" : 4]> g (string[2] x) => (int64[2] y) {
            y = ai.onnx.ml.LabelEncoder <keys_tensor = string[2] {"a", "b"}, values_int64s = [3, 4]> (x) }""",
        because="not known as numbers",
    ),
    Fires(
        """<ir_version: 8, opset_import: ["" : 17, "ai.onnx.ml" : 4]> g (int64[2] x) => (int64[2] y) {
            y = ai.onnx.ml.LabelEncoder <keys_tensor = int64[2] {1, 2}, values_tensor = int64[2] {3, 4}> (x) }""",
        becomes="""_1 = Unsqueeze (x, {1}); _2 = Equal (_1, {1, 2}); _3 = Cast <to = 1> (_2)
        _4 = ReduceMax <axes = [1], keepdims = 0> (_3); _5 = Greater (_4, 0.0)
        _6 = ArgMax <axis = 1, keepdims = 0> (_3); _7 = Gather ({3, 4}, _6); y = Where (_5, _7, -1)""",
    ),
    Skips(_NET % ("int64", "string", 'keys_int64s = [1, 2], values_strings = ["a", "b"]'), because="texts"),
]
