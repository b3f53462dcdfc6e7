"""Write EyeLike as a comparison of row and column numbers where its size is dynamic.

TensorRT's wants a known size:

    Eyelike does not work for dynamically shaped tensors.

    before    y = EyeLike<k>(x)                                       x: [N, M]
    after     y = Cast(Range(0, N, 1)[:, None] + k == Range(0, M, 1))
"""

import numpy as np
from _integers import CODE

from onnxq.rule import Fires, Node, Skips, Value, is_static, op, required, rule


@rule("EyeLike", stage="compat", lacks="dynamic-eyelike")
def eyelike_by_range(node: Node) -> Value | None:
    (source,) = required(node, 1)
    if is_static(source.shape) or node.outputs[0].dtype is None:
        return None
    code = node.attr("dtype") or CODE.get(node.outputs[0].dtype.name)
    shape, one, diagonal = op.Shape(source), np.array(1), np.array(int(node.attr("k", 0)))
    height, width = op.Gather(shape, np.array(0)), op.Gather(shape, np.array(1))
    rows = op.Add(op.Range(np.array(0), height, one), diagonal)
    same = op.Equal(op.Reshape(rows, np.array([-1, 1])), op.Range(np.array(0), width, one))
    return same if code == CODE["bool"] else op.Cast(same, to=code)


def _net(attributes: str = "", shape: str = "N, M", kind: str = "float", opset: int = 17) -> str:
    return f"""<ir_version: 8, opset_import: ["" : {opset}]>
    g (float[{shape}] x) => ({kind}[{shape}] y) {{ y = EyeLike {attributes} (x) }}"""


EXAMPLES = [
    Fires(
        _net(),
        becomes="""_1 = Shape (x); _2 = Gather (_1, 0); _3 = Range (0, _2, 1); _4 = Add (_3, 0)
                  _5 = Reshape (_4, {-1, 1}); _6 = Gather (_1, 1); _7 = Range (0, _6, 1)
                  _8 = Equal (_5, _7); y = Cast <to = 1> (_8)""",
    ),
    Fires(_net("<k = -1, dtype = 7>", "N, 3", "int64", 13), gone="EyeLike"),
    Fires(_net("<k = 2, dtype = 10>", kind="float16"), gone="EyeLike"),
    Skips(_net(shape="2, 3")),
]
