"""Write scikit-learn's `Imputer` as a Where.

TensorRT has no operators of ai.onnx.ml:

    Plugin not found, are the plugin name, version, and namespace correct?

    before    y = ai.onnx.ml.Imputer<imputed_value_floats=v, replaced_value_float=nan>(x)
    after     y = Where(IsNaN(x), v, x)
"""

import numpy as np

from onnxq.rule import Fires, Node, Skip, Skips, Value, op, required, rule


@rule("ai.onnx.ml.Imputer", stage="compat", lacks="classical-operators")
def ml_imputer(node: Node) -> Value:
    (x,) = required(node, 1)
    if x.dtype not in (np.float32, np.int64):
        raise Skip(f"the type of {x.name!r} is {x.dtype or 'not known'}")
    name = "float" if x.dtype == np.float32 else "int64"
    values = np.array(node.attr(f"imputed_value_{name}s", []), x.dtype)
    replaced = node.attr(f"replaced_value_{name}", 0)
    if not values.size or x.rank is None:
        raise Skip("it says no value for what is missing, or the rank of its input is not known")
    missing = op.IsNaN(x) if np.isnan(replaced) else op.Equal(x, np.array(replaced, x.dtype))
    return op.Where(missing, values if values.size > 1 else values[0], x)


def _net(attributes: str, kind: str = "float") -> str:
    return f"""<ir_version: 8, opset_import: ["" : 17, "ai.onnx.ml" : 1]>
        g ({kind}[N, 2] x) => ({kind}[N, 2] y) {{ y = ai.onnx.ml.Imputer <{attributes}> (x) }}"""


EXAMPLES = [
    Fires(
        _net("imputed_value_floats = [1.5, -2.0], replaced_value_float = 0.5"),
        becomes="_1 = Equal (x, 0.5); y = Where (_1, {1.5, -2.0}, x)",
    ),
    Fires(
        _net("imputed_value_int64s = [7], replaced_value_int64 = 1", "int64"),
        becomes="_1 = Equal (x, 1); y = Where (_1, 7, x)",
    ),
    Skips(
        _net("imputed_value_floats = [1.5], replaced_value_float = 0.5").replace(
            "float[N, 2] x", "float[] x"
        ),
        because="rank",
    ),
]
