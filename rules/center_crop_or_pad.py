"""Write `CenterCropPad` as a Slice and a Pad.

TensorRT has no importer for it:

    No importer registered for op: CenterCropPad. (...) UNSUPPORTED_NODE: false

    before    y = CenterCropPad<axes=[1, 2]>(x, [4, 9])         x is [2, 7, 4]
    after     y = Pad(Slice(x, [1], [5], [1]), [0, 0, 2, 0, 0, 3])

Of an odd difference the smaller half is at the beginning. Values are only moved: equal bit for bit. Sizes that are
not known are computed.
"""

import numpy as np

from onnxq.rule import Fires, Node, Skip, Skips, Tensor, Value, constant, op, required, rule


@rule("CenterCropPad", stage="compat", lacks="CenterCropPad")
def center_crop_or_pad(node: Node) -> Value:
    x, target = required(node, 2)
    if x.shape is None:
        raise Skip(f"the rank of {x.name!r} is not known")
    axes = [int(axis) % len(x.shape) for axis in node.attr("axes", range(len(x.shape)))]
    sizes, wanted = [x.shape[axis] for axis in axes], constant(target)
    if wanted is None:
        raise Skip(f"the sizes {target.name!r} are not known before the model runs")
    wanted = wanted.ravel()
    if not all(isinstance(size, int) for size in sizes):
        return _computed(x, wanted, axes)
    value: Value = x
    amounts = [(axis, int(size or 0), int(new)) for axis, size, new in zip(axes, sizes, wanted, strict=True)]
    cropped = [(axis, (size - new) // 2, new) for axis, size, new in amounts if new < size]
    padded = [(axis, (new - size) // 2, new - size) for axis, size, new in amounts if new > size]
    if cropped:
        starts = [start for _, start, _ in cropped]
        ends = [start + new for _, start, new in cropped]
        value = op.Slice(value, np.array(starts), np.array(ends), np.array([axis for axis, *_ in cropped]))
    if padded:
        pads = np.zeros((2, len(x.shape)), np.int64)
        for axis, before, more in padded:
            pads[:, axis] = before, more - before
        value = op.Pad(value, pads.ravel())
    return op.Identity(x) if value is x else value


def _computed(x: Tensor, target: np.ndarray, axes: list[int]) -> Value:
    size = op.Gather(op.Shape(x), np.array(axes))
    more, less = op.Max(op.Sub(target, size), 0), op.Max(op.Sub(size, target), 0)
    start, before = op.Div(less, 2), op.Div(more, 2)
    inner = op.Slice(x, start, op.Sub(op.Add(start, size), less), np.array(axes))
    return op.Pad(inner, op.Concat(before, op.Sub(more, before), axis=0), None, np.array(axes))


_NET = """<ir_version: 8, opset_import: ["" : 18]>
    g (%s x, int64[2] n) => (y) <int64[2] s = {4, 9}> { y = CenterCropPad <axes = [1, -1]> (x, %s) }"""

EXAMPLES = [
    Fires(
        _NET % ("float[2, 7, 4]", "s"),
        becomes="_1 = Slice (x, {1}, {5}, {1}); y = Pad (_1, {0, 0, 2, 0, 0, 3})",
    ),
    Fires(_NET % ("int32[2, 3, 11]", "s"), gone="CenterCropPad"),
    Fires(
        _NET % ("float[N, H, W]", "s"),
        becomes="""_1 = Shape (x); _2 = Gather (_1, {1, 2})
                                          _3 = Sub (_2, {4, 9}); _4 = Max (_3, 0); _5 = Div (_4, 2)
                                          _6 = Add (_5, _2); _7 = Sub (_6, _4)
                                          _8 = Slice (x, _5, _7, {1, 2}); _9 = Sub ({4, 9}, _2)
                                          _10 = Max (_9, 0); _11 = Div (_10, 2)
                                          _12 = Sub (_10, _11); _13 = Concat <axis = 0> (_11, _12)
                                          y = Pad (_8, _13, , {1, 2})""",
    ),
    Fires(
        """<ir_version: 8, opset_import: ["" : 18]> g (float[N, 7] x) => (y) <int64 s = {4}> {
            y = CenterCropPad <axes = [1]> (x, s) }""",
        becomes="y = Slice (x, {1}, {5}, {1})",
    ),
    Fires(_NET % ("float[2, 4, 9]", "s"), becomes="y = Identity (x)"),
    Skips(_NET % ("float[2, 7, 4]", "n"), because="the sizes 'n'"),
]
