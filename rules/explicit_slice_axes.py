"""Write out the axes and steps of a Slice of some dimensions.

Where a Slice leaves out its axes, or has int32 starts and leaves out its steps, TensorRT takes as many
as there are dimensions:

    The shape of input starts misaligns with the shape of input axes.
    Slice steps length 4 does not equal starts length 1.

and it takes none that is left out by an empty name, of which it says no more than `Invalid Node`.

    before    y = Slice(x, [1], [4])                     x: [4, 6]
    after     y = Slice(x, [1], [4], [0], [1])
"""

import numpy as np

from onnxq.rule import Fires, Node, Skip, Skips, Value, operands, remake, required, rule


@rule("Slice", stage="compat", lacks="slice-defaults")
def explicit_slice_axes(node: Node) -> Value | None:
    if node.opset < 10:  # they are attributes
        return None
    data, starts, ends = required(node, 3)
    axes, steps = operands(node, 5)[3:]
    left_out = None in node.inputs  # by an empty name
    if axes is not None and (steps is not None or (starts.dtype != np.int32 and not left_out)):
        return None
    count = starts.shape[0] if starts.shape else None
    if not isinstance(count, int):
        raise Skip("how many dimensions it slices is not known")
    if data.rank == count and not left_out:
        return None
    return remake(
        node,
        *(data, starts, ends),
        np.arange(count, dtype=starts.dtype) if axes is None else axes,
        np.ones(count, starts.dtype) if steps is None else steps,
    )


def _net(call: str, opset: int = 17) -> str:
    return f"""<ir_version: 8, opset_import: ["" : {opset}]>
    g (float[N, 6, 5] x, int64[k] r) => (y) <int64[1] s = {{1}}, int64[1] e = {{5}}, int64[1] t = {{2}}, int64[2] s2 = {{0, 2}},
        int64[2] e2 = {{3, 4}}, int64[3] s3 = {{0, 2, 1}}, int64[3] e3 = {{3, 4, 3}}, int32[1] a = {{1}}, int32[1] b = {{5}}> {{ y = {call} }}"""


EXAMPLES = [
    Fires(_net("Slice (x, s, e)"), becomes="y = Slice (x, {1}, {5}, {0}, {1})"),
    Fires(_net("Slice (x, s, e, , t)"), becomes="y = Slice (x, {1}, {5}, {0}, {2})"),
    Fires(_net("Slice (x, s2, e2)"), becomes="y = Slice (x, {0, 2}, {3, 4}, {0, 1}, {1, 1})"),
    Fires(_net("Slice (x, a, b)"), becomes="y = Slice (x, int32 {1}, int32 {5}, int32 {0}, int32 {1})"),
    Fires(_net("Slice (x, s3, e3, , )"), becomes="y = Slice (x, {0, 2, 1}, {3, 4, 3}, {0, 1, 2}, {1, 1, 1})"),
    Fires(_net("Slice (x, a, b, a)"), becomes="y = Slice (x, int32 {1}, int32 {5}, int32 {1}, int32 {1})"),
    Skips(_net("Slice (x, s, e, s)")),
    Skips(_net("Slice (x, a, b, a, a)")),
    Skips(_net("Slice (x, s3, e3)")),
    Skips(_net("Slice (x, r, r)"), because="not known"),
    Skips(_net("Slice <starts = [1], ends = [3]> (x)", 9)),
]
