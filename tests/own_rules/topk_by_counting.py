"""Find the K largest floats without a TopK, where K is more than the target's takes.

    TopK: K exceeds the maximum value allowed (3840)

    before    v, i = TopK<K>(x)
    after     place = how many of x come before each; i = the K elements of the first places; v = x of them

Each element is compared with all others of its row: of rows up to 512. What comes of a row with a NaN is the
sort's own affair, in TensorRT another one than in onnxruntime.
"""

import numpy as np

from onnxq.rule import Except, Fires, Node, Skip, Skips, constant, is_float, op, operands, rule

_INT64, _MOST = 7, 512


@rule("TopK", stage="compat")
def topk_by_counting(node: Node) -> Except | None:
    x, k = operands(node, 2)
    most, count = node.limit("topk-k"), constant(k)
    if node.opset < 13 or most is None or count is None or count[0] <= most:
        return None
    if (
        x is None
        or not is_float(x.dtype)
        or x.shape is None
        or node.attr("axis") not in (-1, len(x.shape) - 1)
    ):
        return None
    size = x.shape[-1]
    if not isinstance(size, int) or size > _MOST or not node.attr("sorted"):
        raise Skip(f"rows of {size or '?'} elements")
    one, other = op.Unsqueeze(x, np.array([-1])), op.Unsqueeze(x, np.array([-2]))
    first = op.Greater(other, one) if node.attr("largest") else op.Less(other, one)
    tied = op.And(op.Equal(other, one), np.tri(size, k=-1, dtype=bool))
    place = op.Einsum(op.Cast(op.Or(first, tied), to=_INT64), equation="...ij->...i")
    numbers = op.Expand(np.arange(size), op.Shape(x))
    order = op.ScatterElements(numbers, place, numbers, axis=-1)
    chosen = op.Slice(order, np.array([0]), count, np.array([-1]))
    results = {0: op.GatherElements(x, chosen, axis=-1), 1: chosen}
    return Except(results, "nan-input", "no order of a NaN is defined")


def _net(k: int, attributes: str = "", kind: str = "float", size: int = 12) -> str:
    return f"""<ir_version: 8, opset_import: ["" : 17]>
        g ({kind}[N, {size}] x) => ({kind}[N, {k}] v, int64[N, {k}] i) <int64[1] k = {{{k}}}> {{
            v, i = TopK {attributes} (x, k) }}"""


EXAMPLES = [
    Fires(_net(9), gone="TopK", limits={"topk-k": 4}),
    Fires(_net(12, "<largest = 0>", "float16"), gone="TopK", limits={"topk-k": 11}),
    Fires(_net(80, size=90), gone="TopK", limits={"topk-k": 70}),
    Skips(_net(4), limits={"topk-k": 4}),
    Skips(_net(9)),
    Skips(_net(9, kind="int32"), limits={"topk-k": 4}),
    Skips(_net(9, size=1000), because="rows of 1000", limits={"topk-k": 4}),
]
