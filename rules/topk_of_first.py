"""Ask a TopK for no more than is read of it, where it asks for more than the target takes.

    ITopKLayer: K exceeds the maximum value allowed (3840)

    before    v, i = TopK<5000>(x)   w = Slice(v, 0, 100)
    after     w = TopK<100>(x)

It happens where Slices along its axis are all that reads it, and what they read is within the limit.
"""

import numpy as np
from _topk import asked, first_only, is_cut

from onnxq.rule import Except, Fires, Node, Skips, op, required, rule


@rule("Slice", stage="compat")
def topk_of_first(node: Node) -> Except | None:
    found = first_only(node)
    if found is None:
        return None
    source, end = found
    if (asked(source) or 0) <= (source.limit("topk-k") or np.inf) or not is_cut(source):
        return None
    (data,) = required(source, 1)
    axis, largest = source.attr("axis"), source.attr("largest")
    first = op.TopK(data, np.array([end]), axis=axis, largest=largest, sorted=1, outputs=2)
    which = source.outputs.index(required(node, 1)[0])
    return Except(first[which], "nan-input", "no order of a NaN is defined")


def _net(k: int, end: str = "e", axis: str = "a", out: str = "w, j", attributes: str = "") -> str:
    return f"""<ir_version: 8, opset_import: ["" : 17]>
        g (float[N, 9] x) => ({out}) <int64[1] k = {{{k}}}, int64[1] o = {{0}}, int64[1] a = {{1}}, int64[1] b = {{0}},
            int64[1] e = {{2}}, int64[1] f = {{6}}, int64[1] l = {{-1}}> {{
            v, i = TopK {attributes} (x, k)  w = Slice (v, o, {end}, {axis})  j = Slice (i, o, {end}, {axis}) }}"""


EXAMPLES = [
    Fires(
        _net(9),
        limits={"topk-k": 4},
        becomes="w, _1 = TopK <axis = -1, largest = 1, sorted = 1> (x, {2}); _2, j = TopK <axis = -1, largest = 1, sorted = 1> (x, {2})",
    ),
    Skips(_net(4), limits={"topk-k": 4}),
    Skips(_net(9)),
    Skips(_net(9, "f"), limits={"topk-k": 4}),
    Skips(_net(9, "l"), limits={"topk-k": 4}),
    Skips(_net(9, axis="b"), limits={"topk-k": 4}),
    Skips(_net(9, out="w, j, v"), limits={"topk-k": 4}),
    Skips(_net(9, attributes="<sorted = 0>"), limits={"topk-k": 4}),
]
