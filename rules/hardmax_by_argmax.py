"""Write Hardmax as a comparison with ArgMax where its size is not known before the engine runs.

TensorRT's is a OneHot, which wants a constant depth:

    Assertion depthInterval.isSingleInt64() failed. Depth input of IOneHotLayer must be a build time constant

    before    y = Hardmax(x)
    after     y = Cast(Range(0, size, 1) == ArgMax(x))
"""

import numpy as np
from _integers import CODE

from onnxq.rule import Except, Fires, Node, Skip, Skips, float32_only, is_static, op, required, rule


@rule("Hardmax", stage="compat", lacks="dynamic-hardmax")
def hardmax_by_argmax(node: Node) -> Except | None:
    (source,) = required(node, 1)
    if is_static(source.shape):
        return None
    if source.shape is None or str(source.dtype) not in CODE:
        raise Skip(f"the rank or the type of {source.name!r} is not known (onnxq sanitize --shape)")
    rank = len(source.shape)
    axis = int(node.attr("axis")) % rank
    flat = node.opset < 13 and not all(size == 1 for size in source.shape[axis + 1 :])
    if flat:
        dims = ", ".join(str(size) for size in source.shape if not isinstance(size, int))
        raise Skip(
            f"it is of opset {node.opset}, all dimensions from {axis} on: give --shape or --assume for {dims}"
        )
    if isinstance(source.shape[axis], int):
        return None
    size = op.Gather(op.Shape(source), np.array(axis))
    places = op.Reshape(
        op.Range(np.array(0), size, np.array(1)), np.array([-1 if i == axis else 1 for i in range(rank)])
    )
    largest = float32_only(op.ArgMax(source, axis=axis - rank, keepdims=1))
    result = op.Cast(op.Equal(largest, places), to=CODE[str(source.dtype)])
    no_order = Except(result, "nan-input", "no order of a NaN is defined, and no largest of nothing")
    return Except(no_order, "empty-input", no_order.why)


def _net(shape: str, attributes: str = "", opset: int = 17) -> str:
    return f"""<ir_version: 8, opset_import: ["" : {opset}]>
    g (float[{shape}] x) => (float[{shape}] y) {{ y = Hardmax {attributes} (x) }}"""


EXAMPLES = [
    Fires(
        _net("2, N"),
        becomes="""_1 = ArgMax <axis = -1, keepdims = 1> (x); _2 = Shape (x)
                        _3 = Gather (_2, 1); _4 = Range (0, _3, 1); _5 = Reshape (_4, {1, -1})
                        _6 = Equal (_1, _5); y = Cast <to = 1> (_6)""",
    ),
    Fires(_net("N, 3, 2", "<axis = 0>", 13), gone="Hardmax"),
    Skips(_net("2, N").replace("float[", "bfloat16["), because="type"),
    Skips(
        _net("N, 3, M", "<axis = 1>", 11),
        because="opset 11, all dimensions from 1 on: give --shape or --assume for N, M",
    ),
    Fires(_net("2, N, 1", "<axis = 1>", 11), gone="Hardmax"),
    Skips(_net("N, 3")),
    Skips(_net("2, 3, 4", "<axis = 1>", 11)),
]
