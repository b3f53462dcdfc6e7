"""Write a `Compress` of a constant condition as a Gather.

TensorRT has no importer for it:

    checkCompress: UNSUPPORTED_NODE: false

    before    y = Compress<axis=0>(x, {true, false, true})
    after     y = Gather<axis=0>(x, {0, 2})

Bit-equal; without an axis of x in one dimension. A condition that is computed makes an output of a size that nobody
knows: where it is an input, `--freeze` gives its values.
"""

import math

import numpy as np

from onnxq.rule import Fires, Node, Skip, Skips, Value, constant, op, required, rule


@rule("Compress", stage="compat", lacks="Compress")
def compress_to_gather(node: Node) -> Value:
    x, condition = required(node, 2)
    known = constant(condition)
    if known is None:
        unknown = f"the values of {condition.name!r} are not known before the model runs"
        raise Skip(
            f"{unknown}: give them with --freeze '{condition.name}=[...]'"
            if condition.is_input
            else f"{unknown}, which computes them"
        )
    places = np.flatnonzero(known)
    axis = node.attr("axis")
    shape = (None,) if x.shape is None else x.shape if axis is None else (x.shape[axis],)
    sizes = [size for size in shape if isinstance(size, int)]
    if len(sizes) < len(shape) or math.prod(sizes) < known.size:
        raise Skip(
            f"the sizes of {x.name!r} that it takes from are not known, or too small ({shape}): --shape"
        )
    if axis is None:
        return op.Gather(op.Reshape(x, np.array([-1])), places, axis=0)
    return op.Gather(x, places, axis=axis)


def _net(attributes: str, condition: str = "c", shape: str = "3, N", before: str = "") -> str:
    return f"""<ir_version: 8, opset_import: ["" : 17]>
    g (float[{shape}] x, bool[K] k) => (y) <bool[3] c = {{1, 0, 1}}> {{ {before} y = Compress {attributes} (x, {condition}) }}"""


EXAMPLES = [
    Fires(_net("<axis = 0>"), becomes="y: float32[2, N]; y = Gather <axis = 0> (x, {0, 2})"),
    Fires(_net("<axis = -1>", shape="N, 3"), becomes="y: float32[N, 2]; y = Gather <axis = -1> (x, {0, 2})"),
    Fires(
        _net("", shape="2, 2"),
        becomes="y: float32[2]; _1 = Reshape (x, {-1}); y = Gather <axis = 0> (_1, {0, 2})",
    ),
    Skips(_net("", shape="N, 3"), because="--shape"),
    Skips(_net("<axis = 0>", shape="2, N"), because="too small"),
    Skips(_net("<axis = 0>", "k"), because="--freeze 'k="),
    Skips(_net("<axis = 0>", "n", before="n = Not (k)"), because="computes"),
    Skips(_net("<axis = 0>", shape=""), because="--shape"),
]
