"""Take rows by their numbers where `Compress` knows which.

TensorRT has no Compress:

    checkCompress: UNSUPPORTED_NODE: false

    before    y = Compress<axis=0>(x, {true, false, true})
    after     y = Gather<axis=0>(x, {0, 2})

Without an axis it selects from the flattened tensor. It only moves values: bit-equal. The condition must be a
constant that selects something, and the size that it selects from must be known: a smaller one would have
fewer rows than the condition names. How a computed condition is done without: see `masked_reduce`.
"""

import math
from typing import Any

import numpy as np

from onnxq.rule import Fires, Node, Skip, Skips, Value, constant, op, required, rule


@rule("Compress", stage="compat", lacks="Compress")
def compress_to_gather(node: Node) -> Value | None:
    data, condition = required(node, 2)
    wanted, axis = constant(condition), node.attr("axis")
    if wanted is None:
        return None
    if data.shape is None:
        raise Skip(f"the rank of {data.name!r} is not known")
    sizes = list(data.shape) if axis is None else [data.shape[axis]]
    known = [size for size in sizes if isinstance(size, int)]
    if len(known) < len(sizes):
        raise Skip(f"the size of {data.name!r} that it selects from is dynamic: state it with --shape")
    places = np.flatnonzero(wanted[: math.prod(known)])
    if not len(places):
        raise Skip("its condition selects nothing")
    rows: Any = op.Reshape(data, np.array([-1])) if axis is None else data
    return op.Gather(rows, places.astype(np.int64), axis=axis or 0)


def _net(condition: str, attributes: str = "", shape: str = "2, 3", kind: str = "float") -> str:
    return f"""<ir_version: 8, opset_import: ["" : 17]>
    g ({kind}[{shape}] x, bool[3] b) => (y) <bool[3] c = {{{condition}}}> {{
        y = Compress {attributes} (x, {"c" if condition else "b"}) }}""".replace("<bool[3] c = {}>", "")


EXAMPLES = [
    Fires(_net("1, 0, 1", "<axis = 1>"), becomes="y: float32[2, 2]; y = Gather <axis = 1> (x, {0, 2})"),
    Fires(_net("1, 0, 1", "<axis = -2>", "4, N", "float16"), gone="Compress"),
    Fires(_net("0, 1, 1", "<axis = 0>", "2, N"), becomes="y: float32[1, N]; y = Gather <axis = 0> (x, {1})"),
    Fires(
        _net("0, 1, 1", shape="2, 2"),
        becomes="y: float32[2]; _1 = Reshape (x, {-1}); y = Gather <axis = 0> (_1, {1, 2})",
    ),
    Skips(_net("", "<axis = 1>")),
    Skips(_net("0, 0, 0", "<axis = 1>"), because="selects nothing"),
    Skips(_net("1, 0, 0", "<axis = 1>", "2, N"), because="--shape"),
    Skips(_net("1, 0, 0", shape="2, N"), because="--shape"),
]
