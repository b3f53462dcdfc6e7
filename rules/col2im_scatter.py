"""Write `Col2Im` as a sum of each block element's columns, padded to their places.

`F.fold` exports it; TensorRT has no importer:

    checkCol2Im: UNSUPPORTED_NODE: false

    before    y = Col2Im(x, [4, 4], [2, 2])                       x: [N, C * 2 * 2, L]
    after     r = Reshape(x, [N, C, 2, 2, 3, 3])                  blocks, and where they are
              y = Pad(r[:, :, 0, 0]) + Pad(r[:, :, 0, 1]) + ...   each where its element falls

With strides, zeros are put between the columns first. At most 64 elements in a block. Sums, and no
convolution with ones, which TensorRT would round to 11 bits (TF32).
"""

from typing import Any

import numpy as np
from _opsets import padded, sliced

from onnxq.rule import Close, Except, Fires, Node, Skip, Skips, Value, constant, op, required, rule

_MOST = 64


@rule("Col2Im", stage="compat", lacks="Col2Im")
def col2im_scatter(node: Node) -> Any:
    x, image, block = required(node, 3)
    sizes, kernel = constant(image), constant(block)
    if sizes is None or kernel is None:
        raise Skip("the size of its image or of its blocks is computed")
    dims, count = len(kernel), int(np.prod(kernel))
    if x.shape is None or not isinstance(x.shape[1], int) or x.dtype is None:
        raise Skip(f"dimension 1 of {x.name!r}, or its type, is not known")
    if count > _MOST:
        raise Skip(f"its blocks have {count} elements, more than {_MOST}")
    strides, dilations = node.attr("strides", [1] * dims), node.attr("dilations", [1] * dims)
    before, behind = np.reshape(node.attr("pads", [0] * 2 * dims), (2, dims)).tolist()
    spans = [(int(k) - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True)]
    wide = [int(size) + before[a] + behind[a] for a, size in enumerate(sizes)]
    columns = [(wide[a] - spans[a]) // strides[a] + 1 for a in range(dims)]
    channels = x.shape[1] // count
    zero = np.array(0, x.dtype)
    given = op.Reshape(x, np.array([0, channels, count, *columns], np.int64))
    total: Value | None = None
    for number, place in enumerate(np.ndindex(*(int(k) for k in kernel))):
        part: Any = op.Gather(given, np.int64(number), axis=2)
        for axis in range(dims):
            part = _apart(node, part, channels, columns, strides, axis, zero)
        begin = [0, 0] + [p * d for p, d in zip(place, dilations, strict=True)]
        long = [(columns[a] - 1) * strides[a] + 1 for a in range(dims)]
        end = [0, 0] + [wide[a] - long[a] - begin[a + 2] for a in range(dims)]
        part = padded(node, part, begin, end, zero)
        total = part if total is None else op.Add(total, part)
    assert total is not None
    if any(before + behind):
        ends = [before[a] + int(sizes[a]) for a in range(dims)]
        total = sliced(node, total, before, ends, list(range(2, dims + 2)))
    return Except(Close(total), "infinite-input", "infinities cancel in any order of a sum")


def _apart(
    node: Node, part: Any, channels: int, columns: list[int], strides: list[int], axis: int, zero: np.ndarray
) -> Any:
    """Puts stride - 1 zeros between neighbours of an axis; those in front are done already."""
    if strides[axis] == 1 or columns[axis] == 1:
        return part
    done = [(columns[a] - 1) * strides[a] + 1 if a < axis else columns[a] for a in range(len(columns))]
    apart = [*done[: axis + 1], 1, *done[axis + 1 :]]
    apart[axis] = columns[axis]
    part = op.Reshape(part, np.array([0, channels, *apart], np.int64))
    end = [0] * (len(apart) + 2)
    end[axis + 3] = strides[axis] - 1
    part = padded(node, part, [0] * len(end), end, zero)
    joined = list(done)
    joined[axis] = columns[axis] * strides[axis]
    part = op.Reshape(part, np.array([0, channels, *joined], np.int64))
    return sliced(node, part, [0], [(columns[axis] - 1) * strides[axis] + 1], [axis + 2])


def _net(shape: str, image: str, block: str, attributes: str = "") -> str:
    dims = image.count(",") + 1
    return f"""<ir_version: 8, opset_import: ["" : 18]>
        g (float[{shape}] x) => (y) <int64[{dims}] s = {{{image}}}, int64[{dims}] b = {{{block}}}> {{
            y = Col2Im {attributes} (x, s, b) }}"""


EXAMPLES = [
    Fires(
        _net("N, 4, 4", "3, 3", "2, 2"),
        becomes="""y: float32[N, 1, 3, 3]; _1 = Reshape (x, {0, 1, 4, 2, 2})
                                           _2 = Gather <axis = 2> (_1, 0)
                                           _3 = Pad (_2, {0, 0, 0, 0, 0, 0, 1, 1}, 0.0)
                                           _4 = Gather <axis = 2> (_1, 1)
                                           _5 = Pad (_4, {0, 0, 0, 1, 0, 0, 1, 0}, 0.0)
                                           _6 = Add (_3, _5); _7 = Gather <axis = 2> (_1, 2)
                                           _8 = Pad (_7, {0, 0, 1, 0, 0, 0, 0, 1}, 0.0)
                                           _9 = Add (_6, _8); _10 = Gather <axis = 2> (_1, 3)
                                           _11 = Pad (_10, {0, 0, 1, 1, 0, 0, 0, 0}, 0.0)
                                           y = Add (_9, _11)""",
    ),
    Fires(
        _net("N, 3, 6", "5, 6", "1, 3", "<strides = [2, 2], pads = [0, 1, 1, 0], dilations = [1, 2]>"),
        gone="Col2Im",
    ),
    Skips(_net("N, C, 4", "3, 3", "2, 2"), because="dimension 1"),
    Skips(_net("N, 65, 1", "5, 13", "5, 13"), because="65"),
    Skips(
        _net("N, 4, 4", "3, 3", "2, 2")
        .replace("x) =>", "x, int64[2] i) =>")
        .replace("(x, s, b)", "(x, i, b)"),
        because="computed",
    ),
]
