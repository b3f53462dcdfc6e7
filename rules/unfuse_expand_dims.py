"""Write onnxruntime's `ExpandDims` as an Unsqueeze.

TensorRT has no importer for it:

    Plugin not found, are the plugin name, version, and namespace correct?

    before    y = com.microsoft.ExpandDims(x, axis)          axis: a constant
    after     y = Unsqueeze(x, [axis])
"""

import numpy as np

from onnxq.rule import Fires, Node, Skip, Skips, Value, op, required, rule


@rule("com.microsoft.ExpandDims", stage="compat", lacks="onnxruntime-fusions")
def unfuse_expand_dims(node: Node) -> Value:
    x, axis = required(node, 2)
    place = axis.scalar
    if place is None:
        raise Skip(f"the axis {axis.name!r} is computed at run time")
    if node.opset < 13:
        return op.Unsqueeze(x, axes=[int(place)])
    return op.Unsqueeze(x, np.array([int(place)]))


def _net(axis: str, opset: int = 17) -> str:
    return f"""<ir_version: 8, opset_import: ["" : {opset}, "com.microsoft" : 1]>
    g (float[N, 4] x, int32 r) => (y) <int32 one = {{1}}, int32 last = {{-1}}> {{ y = com.microsoft.ExpandDims (x, {axis}) }}"""


EXAMPLES = [
    Fires(_net("one", 13), gone="ExpandDims", becomes="y = Unsqueeze (x, {1})"),
    Fires(_net("last", 11), gone="ExpandDims", becomes="y = Unsqueeze <axes = [-1]> (x)"),
    Skips(_net("r"), because="at run time"),
]
