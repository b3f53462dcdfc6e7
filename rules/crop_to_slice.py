"""Write `Crop` as a Slice.

Converters of Core ML models wrote it, an operator that ONNX has withdrawn: no TensorRT and no opset
from 10 on has it. It takes a border off an image, or `scale` = (height, width) from its top left.

    before    y = Crop <border = [left, top, right, bottom]> (x)        x: [N, C, H, W]
    after     y = Slice(x, [top, left], [-bottom, -right], axes = [2, 3])
"""

import numpy as np

from onnxq.rule import Fires, Node, Skips, Value, op, required, rule

_TO_THE_END = np.iinfo(np.int32).max


@rule("Crop", stage="clean")
def crop_to_slice(node: Node) -> Value | None:
    (x,), border, size = required(node, 1), node.attr("border"), node.attr("scale")
    if border is None or len(border) != 4 or node.opset >= 10:
        return None
    left, top, right, bottom = border
    ends = [-bottom or _TO_THE_END, -right or _TO_THE_END]
    if size is not None:
        ends = [top + size[0], left + size[1]]
    return op.Slice(x, starts=[top, left], ends=ends, axes=[2, 3])


_NET = """<ir_version: 4, opset_import: ["" : 9]>
    g (float[N, 2, 6, 7] x) => (y) { y = Crop <%s> (x) }"""

EXAMPLES = [
    Fires(
        _NET % "border = [1, 2, 3, 1]",
        gone="Crop",
        becomes="y = Slice <axes = [2, 3], ends = [-1, -3], starts = [2, 1]> (x)",
    ),
    Fires(
        _NET % "border = [0, 2, 0, 0]",
        gone="Crop",
        becomes="y = Slice <axes = [2, 3], ends = [2147483647, 2147483647], starts = [2, 0]> (x)",
    ),
    Fires(
        _NET % "border = [1, 2, 0, 0], scale = [3, 4]",
        gone="Crop",
        becomes="y = Slice <axes = [2, 3], ends = [5, 5], starts = [2, 1]> (x)",
    ),
    Skips(
        """<ir_version: 4, opset_import: ["" : 9]>
        g (float[N, 2, 6, 7] x) => (y) { y = Slice <starts = [1], ends = [2]> (x) }"""
    ),
]
