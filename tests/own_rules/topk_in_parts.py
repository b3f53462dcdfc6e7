"""Cut a TopK that asks for more than the target takes into several.

TensorRT's takes K up to 3840:

    TopK: K exceeds the maximum value allowed (3840)

    before    v, i = TopK<K>(x)
    after     v0, i0 = TopK<limit>(x)   v1, i1 = TopK<K - limit>(x without i0)   ...   concatenated

What is taken is overwritten by a number that x cannot hold: int32 is computed as int64. Floats have none,
and no order of NaN; such a TopK stays.
"""

import numpy as np

from onnxq.rule import Fires, Node, Skip, Skips, Value, constant, float32_only, limits, op, operands, rule

_INT32, _INT64 = 6, 7


@rule("TopK", stage="compat")
def topk_in_parts(node: Node) -> dict[int, Value] | None:
    x, k = operands(node, 2)
    most, count = node.limit("topk-k"), constant(k)
    if node.opset < 11 or most is None or count is None or count[0] <= most:
        return None
    if x.dtype != np.int32:
        raise Skip(f"K is {count[0]} and the target takes {most}, but nothing is less than all of {x.dtype}")
    if not node.attr("sorted"):
        raise Skip("the order of its values is open")
    axis, largest = node.attr("axis"), node.attr("largest")
    low, high = (int(limit) for limit in limits(x.dtype))
    taken = float32_only(np.array([low - 1 if largest else high + 1], np.int64))
    left, values, indices = op.Cast(x, to=_INT64), [], []
    for start in range(0, int(count[0]), most):
        part = np.array([min(most, int(count[0]) - start)])
        value, index = op.TopK(left, part, axis=axis, largest=largest, sorted=1, outputs=2)
        left = op.ScatterElements(left, index, op.Expand(taken, op.Shape(index)), axis=axis)
        values.append(value)
        indices.append(index)
    return {0: op.Cast(op.Concat(*values, axis=axis), to=_INT32), 1: op.Concat(*indices, axis=axis)}


def _net(k: int, attributes: str = "", kind: str = "int32") -> str:
    return f"""<ir_version: 8, opset_import: ["" : 17]>
        g ({kind}[N, 12] x) => ({kind}[N, {k}] v, int64[N, {k}] i) <int64[1] k = {{{k}}}> {{
            v, i = TopK {attributes} (x, k) }}"""


EXAMPLES = [
    Fires(_net(9), limits={"topk-k": 4}),
    Fires(_net(8, "<largest = 0, axis = 1>"), limits={"topk-k": 4}),
    Skips(_net(4), limits={"topk-k": 4}),
    Skips(_net(9)),
    Skips(_net(9, kind="float"), because="nothing is less", limits={"topk-k": 4}),
    Skips(_net(9, "<sorted = 0>"), because="order", limits={"topk-k": 4}),
]
