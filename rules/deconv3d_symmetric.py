"""Give a 3-D ConvTranspose the same padding at both ends, and cut the output after it.

TensorRT before 8.4 has no other in 3-D. `ConvTranspose3d(3, stride=2, padding=1, output_padding=1)`
fails with one of:

    TensorRT does not support asymmetrical padding for 3D deconvolutions!
    output_padding.nbDims == 2 || (output_padding.nbDims == 3 && output_padding.d[0] == 0)

Padding is what a deconvolution cuts off its full output, output_padding what it leaves on at the end:

    before    y = ConvTranspose(x, W, b, pads=[1, 1], output_padding=1)      an axis of size L in full
    after     y = Slice(ConvTranspose(x, W, b, pads=[0, 0]), 1, L)           q = min(1, 1 - 1) = 0

Where more is left on than there is, zeros are added before the bias is. Old versions pad the last two
dimensions only, so that padding the depth is transposed there and back.
"""

import numpy as np

from onnxq.rule import Fires, Node, Skip, Skips, Tensor, Value, constant, op, required, rule

_TO_THE_END = np.iinfo(np.int32).max
_UNKNOWN = (None, None, None, None, None)  # the sizes of a tensor of unknown rank
_DEPTH_LAST, _DEPTH_FIRST = [0, 1, 3, 4, 2], [0, 1, 4, 2, 3]


@rule("ConvTranspose", stage="compat", lacks="deconv3d-asymmetric")
def deconv3d_symmetric(node: Node) -> Value | None:
    x, weight = required(node, 2)
    bias = node.operands(3)[2]
    if 5 not in (x.rank, weight.rank):
        return None
    cuts = [_cut(node, x, weight, axis) for axis in range(3)]
    if all(begin == end for begin, end in cuts) and not any(node.attr("output_padding", [])):
        return None
    pads = [max(min(cut), 0) for cut in cuts]
    begin, end = ([cut[side] - pad for cut, pad in zip(cuts, pads, strict=True)] for side in (0, 1))
    if min(begin) < 0:
        return None  # negative padding, which ONNX does not define
    lacking = min(end) < 0
    y = op.ConvTranspose(
        x,
        weight,
        *(() if bias is None or lacking else (bias,)),
        dilations=node.attr("dilations"),
        group=node.attr("group"),
        kernel_shape=node.attr("kernel_shape"),
        pads=pads * 2,
        strides=node.attr("strides"),
    )
    y = _sliced(node, y, begin, end)
    if lacking:
        y = _padded(node, y, [max(-n, 0) for n in end])
    return op.Add(y, _spread(bias)) if lacking and bias is not None else y


def _cut(node: Node, x: Tensor, weight: Tensor, axis: int) -> tuple[int, int]:
    """What of the full output is cut off at the begin and the end of an axis; negative: added."""
    mode, shape = node.attr("auto_pad"), node.attr("output_shape")
    more = _along(node, "output_padding", 0)[axis]
    if shape is None and mode in ("NOTSET", "VALID"):
        pads = _along(node, "pads" if mode == "NOTSET" else "no pads", 0)
        return pads[axis], pads[axis - 3] - more
    # Which end gets the odd one: as ONNX has it since opset 11, and onnxruntime in all opsets.
    kernel = node.attr("kernel_shape", (weight.shape or _UNKNOWN)[2:])[axis]
    stride, dilation = _along(node, "strides", 1)[axis], _along(node, "dilations", 1)[axis]
    if not isinstance(kernel, int):
        raise Skip(f"the size of its kernel {weight.name!r} is not known")
    if shape is None:  # SAME: the size of the output is that of the input times the stride
        over = (kernel - 1) * dilation + 1 - stride
        if over + more < 0:
            raise Skip(
                f"its kernel is smaller than its stride, where ONNX and onnxruntime read {mode} unlike"
            )
    else:
        size = (x.shape or _UNKNOWN)[axis + 2]
        if not isinstance(size, int):
            raise Skip(f"it has an output_shape, and dimension {axis + 2} of {x.name!r} is dynamic")
        over = stride * (size - 1) + (kernel - 1) * dilation + 1 - shape[axis - 3]
    padding = max(over + more, 0)
    begin = padding // 2 if mode == "SAME_UPPER" else padding - padding // 2
    return begin, over - begin


def _along(node: Node, name: str, usual: int) -> list[int]:
    """An attribute that has a number for each axis (or a begin and an end), else the usual number."""
    numbers: list[int] = node.attr(name, [usual] * 3)
    return numbers


def _sliced(node: Node, y: Value, begin: list[int], end: list[int]) -> Value:
    axes = [axis for axis in range(3) if begin[axis] > 0 or end[axis] > 0]
    starts = [max(begin[axis], 0) for axis in axes]
    ends = [-end[axis] if end[axis] > 0 else _TO_THE_END for axis in axes]
    axes = [axis + 2 for axis in axes]
    if not axes:
        return y
    if node.opset < 10:
        return op.Slice(y, starts=starts, ends=ends, axes=axes)
    return op.Slice(y, np.array(starts), np.array(ends), np.array(axes))


def _padded(node: Node, y: Value, more: list[int]) -> Value:
    depth, *others = more
    if any(others):
        y = _pad(node, y, [0, 0, 0, 0, 0, 0, 0, 0, *others])
    if depth:
        last = _pad(node, op.Transpose(y, perm=_DEPTH_LAST), [0, 0, 0, 0, 0, 0, 0, 0, 0, depth])
        y = op.Transpose(last, perm=_DEPTH_FIRST)
    return y


def _pad(node: Node, y: Value, pads: list[int]) -> Value:
    return op.Pad(y, pads=pads) if node.opset < 11 else op.Pad(y, np.array(pads))


def _spread(bias: Tensor) -> Value | np.ndarray:
    """The bias as [C, 1, 1, 1]."""
    values = constant(bias)
    return op.Reshape(bias, np.array([-1, 1, 1, 1])) if values is None else values.reshape(-1, 1, 1, 1)


_WEIGHTS = ", ".join(str(i * 7 % 11 / 8) for i in range(54))


def _net(attributes: str) -> str:
    return f"""<ir_version: 8, opset_import: ["" : 17]>
        g (float[N, 2, D, 3, W] x) => (y) <float[2, 1, 3, 3, 3] w = {{{_WEIGHTS}}}, float[2] b = {{0.5, -1}}> {{
            y = ConvTranspose <group = 2, strides = [2, 2, 2], {attributes}> (x, w, b) }}"""


EXAMPLES = [
    Fires(
        _net("pads = [1, 1, 1, 1, 1, 1], output_padding = [1, 1, 1]"),
        becomes="""_1 = ConvTranspose <group = 2, pads = [0, 0, 0, 0, 0, 0], strides = [2, 2, 2]> (x, float32 [2, 1, 3, 3, 3], {0.5, -1.0})
        y = Slice (_1, {1, 1, 1}, {2147483647, 2147483647, 2147483647}, {2, 3, 4})""",
    ),
    Fires(
        _net("pads = [1, 0, 2, 0, 1, 1]"),
        becomes="""_1 = ConvTranspose <group = 2, pads = [0, 0, 1, 0, 0, 1], strides = [2, 2, 2]> (x, float32 [2, 1, 3, 3, 3], {0.5, -1.0})
        y = Slice (_1, {1, 0, 1}, {2147483647, -1, 2147483647}, {2, 3, 4})""",
    ),
    Fires(
        _net("output_padding = [1, 0, 1]"),
        becomes="""_1 = ConvTranspose <group = 2, pads = [0, 0, 0, 0, 0, 0], strides = [2, 2, 2]> (x, float32 [2, 1, 3, 3, 3])
        _2 = Pad (_1, {0, 0, 0, 0, 0, 0, 0, 0, 0, 1}); _3 = Transpose <perm = [0, 1, 3, 4, 2]> (_2)
        _4 = Pad (_3, {0, 0, 0, 0, 0, 0, 0, 0, 0, 1}); _5 = Transpose <perm = [0, 1, 4, 2, 3]> (_4)
        y = Add (_5, [2, 1, 1, 1] {0.5, -1.0})""",
    ),
    Fires(
        _net('auto_pad = "SAME_UPPER", dilations = [2, 1, 1]'),
        becomes="""_1 = ConvTranspose <dilations = [2, 1, 1], group = 2, pads = [1, 0, 0, 1, 0, 0], strides = [2, 2, 2]> (x, float32 [2, 1, 3, 3, 3], {0.5, -1.0})
        y = Slice (_1, {0, 0, 0}, {-1, -1, -1}, {2, 3, 4})""",
    ),
    Fires(
        _net("pads = [0, 0, 0, 0, 0, 0], output_padding = [1, 1, 0]")
        .replace('"" : 17', '"" : 9')
        .replace("float[N, 2, D, 3, W]", "float[2, 2, 3, 3, 3]"),
        becomes="""_1 = ConvTranspose <group = 2, pads = [0, 0, 0, 0, 0, 0], strides = [2, 2, 2]> (x, float32 [2, 1, 3, 3, 3])
        _2 = Pad <pads = [0, 0, 0, 0, 0, 0, 0, 0, 1, 0]> (_1); _3 = Transpose <perm = [0, 1, 3, 4, 2]> (_2)
        _4 = Pad <pads = [0, 0, 0, 0, 0, 0, 0, 0, 0, 1]> (_3); _5 = Transpose <perm = [0, 1, 4, 2, 3]> (_4)
        y = Add (_5, [2, 1, 1, 1] {0.5, -1.0})""",
    ),
    Fires(
        _net("output_shape = [6, 8, 5]").replace("[N, 2, D, 3, W]", "[N, 2, 3, 4, 2]"),
        becomes="""_1 = ConvTranspose <group = 2, pads = [0, 0, 0, 0, 0, 0], strides = [2, 2, 2]> (x, float32 [2, 1, 3, 3, 3], {0.5, -1.0})
        y = Slice (_1, {1, 1}, {2147483647, 2147483647}, {2, 3})""",
    ),
    Fires(
        _net("pads = [1, 0, 2, 0, 1, 1]")
        .replace('"" : 17', '"" : 9')
        .replace("float[N, 2, D, 3, W]", "float[2, 2, 3, 3, 3]"),
        becomes="""_1 = ConvTranspose <group = 2, pads = [0, 0, 1, 0, 0, 1], strides = [2, 2, 2]>
        (x, float32 [2, 1, 3, 3, 3], {0.5, -1.0})""".replace("\n", "")
        + "; y = Slice <axes = [2, 3, 4], ends = [2147483647, -1, 2147483647], starts = [1, 0, 1]> (_1)",
    ),
    Fires(  # none
        _net('auto_pad = "VALID", output_padding = [1, 0, 0]').replace("(x, w, b)", "(x, w)"),
        becomes="""_1 = ConvTranspose <group = 2, pads = [0, 0, 0, 0, 0, 0], strides = [2, 2, 2]> (x, float32 [2, 1, 3, 3, 3])
        _2 = Transpose <perm = [0, 1, 3, 4, 2]> (_1); _3 = Pad (_2, {0, 0, 0, 0, 0, 0, 0, 0, 0, 1})
        y = Transpose <perm = [0, 1, 4, 2, 3]> (_3)""",
    ),
    Fires(  # a bias that is computed
        _net("output_padding = [1, 0, 0]")
        .replace("y = C", "c = Identity (b) y = C")
        .replace("w, b)", "w, c)"),
        becomes="""_1 = ConvTranspose <group = 2, pads = [0, 0, 0, 0, 0, 0], strides = [2, 2, 2]> (x, float32 [2, 1, 3, 3, 3])
        _2 = Transpose <perm = [0, 1, 3, 4, 2]> (_1); _3 = Pad (_2, {0, 0, 0, 0, 0, 0, 0, 0, 0, 1})
        _4 = Transpose <perm = [0, 1, 4, 2, 3]> (_3); c = Identity ({0.5, -1.0}); _5 = Reshape (c, {-1, 1, 1, 1}); y = Add (_4, _5)""",
    ),
    Fires(
        _net("pads = [0, 0, 0, 1, 1, 1], output_padding = [1, 1, 1], kernel_shape = [3, 3, 3]"),
        becomes="y = ConvTranspose <group = 2, kernel_shape = [3, 3, 3], pads = [0, 0, 0, 0, 0, 0], "
        "strides = [2, 2, 2]> (x, float32 [2, 1, 3, 3, 3], {0.5, -1.0})",
    ),
    Fires(
        _net("pads = [1, 0, 2, 0, 1, 1]").replace('"" : 17', '"" : 10'),
        becomes="_1 = ConvTranspose <group = 2, pads = [0, 0, 1, 0, 0, 1], strides = [2, 2, 2]> (x, "
        "float32 [2, 1, 3, 3, 3], {0.5, -1.0}); "
        "y = Slice (_1, {1, 0, 1}, {2147483647, -1, 2147483647}, {2, 3, 4})",
    ),
    Fires(
        _net("pads = [0, 0, 0, 0, 0, 0], output_padding = [0, 0, 1]")
        .replace('"" : 17', '"" : 11')
        .replace("float[N, 2, D, 3, W]", "float[2, 2, 3, 3, 3]"),
        becomes="_1 = ConvTranspose <group = 2, pads = [0, 0, 0, 0, 0, 0], strides = [2, 2, 2]> (x, "
        "float32 [2, 1, 3, 3, 3]); _2 = Pad (_1, {0, 0, 0, 0, 0, 0, 0, 0, 0, 1}); "
        "y = Add (_2, [2, 1, 1, 1] {0.5, -1.0})",
    ),
    Fires(
        _net("output_shape = [6, 8, 5]").replace("[N, 2, D, 3, W]", "[N, 2, 8, 4, 2]"),
        becomes="_1 = ConvTranspose <group = 2, pads = [5, 0, 0, 5, 0, 0], strides = [2, 2, 2]> (x, "
        "float32 [2, 1, 3, 3, 3], {0.5, -1.0}); y = Slice (_1, {1, 1}, {2147483647, 2147483647}, {2, 3})",
    ),
    Fires(
        _net("output_shape = [6, 8, 5]").replace("[N, 2, D, 3, W]", "[N, 2, 3, 3, 2]"),
        becomes="_1 = ConvTranspose <group = 2, pads = [0, 0, 0, 0, 0, 0], strides = [2, 2, 2]> (x, "
        "float32 [2, 1, 3, 3, 3]); _2 = Slice (_1, {1}, {2147483647}, {2}); "
        "_3 = Pad (_2, {0, 0, 0, 0, 0, 0, 0, 0, 1, 0}); y = Add (_3, [2, 1, 1, 1] {0.5, -1.0})",
    ),
    Fires(
        _net('auto_pad = "SAME_UPPER", dilations = [2, 1, 1]').replace("[2, 2, 2], a", "[3, 3, 2], a"),
        becomes="_1 = ConvTranspose <dilations = [2, 1, 1], group = 2, pads = [1, 0, 0, 1, 0, 0], "
        "strides = [3, 3, 2]> (x, float32 [2, 1, 3, 3, 3], {0.5, -1.0}); y = Slice (_1, {0}, {-1}, {4})",
    ),
    Fires(
        _net('auto_pad = "SAME_UPPER", output_padding = [1, 0, 0]').replace("[2, 2, 2], a", "[4, 2, 2], a"),
    ),
    Fires(  # an even kernel, with the usual strides and dilations
        _net('auto_pad = "SAME_UPPER"')
        .replace("strides = [2, 2, 2], ", "")
        .replace("3, 3, 3] w = {" + _WEIGHTS, "2, 2, 2] w = {" + ", ".join(_WEIGHTS.split(", ")[:16])),
    ),
    Skips(_net("output_shape = [6, 8, 5]").replace("[N, 2, D, 3, W]", "[]"), because="output_shape"),
    Skips(
        _net('auto_pad = "SAME_UPPER"').replace("(x, w, b)", "(x, k)").replace("W] x", "W] x, float[] k"),
        because="the size of its kernel 'k'",
    ),
    Skips(
        _net('auto_pad = "SAME_UPPER"')
        .replace("(x, w, b)", "(x, k)")
        .replace("W] x", "W] x, float[2, 1, K, 3, 3] k"),
        because="the size of its kernel 'k'",
    ),
    Skips(_net("pads = [1, 1, 1, 1, 1, 1]")),
    Skips(_net("output_shape = [6, 8, 5]"), because="output_shape"),
    Skips(_net('auto_pad = "SAME_LOWER"').replace("strides = [2", "strides = [4"), because="unlike"),
    Skips(
        """<ir_version: 8, opset_import: ["" : 17]>
        g (float[N, 1, 3, 3] x, float[1, 1, 3, 3] w) => (y) {
            y = ConvTranspose <strides = [2, 2], output_padding = [1, 1]> (x, w) }"""
    ),
]
