"""Let a convolution pad by itself.

Exporters from TensorFlow and padding layers write the zeros around an image as a Pad of its own: a
copy of the tensor, and where the model is quantized a layer between the convolution and its Q/DQ.

    before    y = Conv<pads=[0, 0, 0, 0]>(Pad(x, [0, 0, 1, 1, 0, 0, 1, 1]), W)
    after     y = Conv<pads=[1, 1, 1, 1]>(x, W)

Only where the Pad adds zeros, and to positions, not to channels or to the batch.
"""

import numpy as np

from onnxq.rule import Fires, Node, Skip, Skips, Value, constant, made_by, remake, required, rule


@rule("Conv", stage="fuse")
def pad_into_conv(node: Node) -> Value | None:
    before = made_by(node.inputs[0], "Pad")
    if before is None:
        return None
    (source,) = required(before, 1)
    if before.attr("mode") != "constant":
        raise Skip(f"it pads with {before.attr('mode')!r} values, not with zeros")
    if not _adds_zeros(before):
        raise Skip("it does not pad with a constant 0")
    if node.attr("auto_pad") not in ("NOTSET", "VALID"):
        raise Skip(f"the convolution pads by itself ({node.attr('auto_pad')})")
    widths = _widths(before, source.rank)
    if widths is None:
        raise Skip("its widths are not constants")
    if widths[:, :2].any() or (widths < 0).any():
        raise Skip("it cuts, or it pads the batch or the channels")
    own = np.reshape(node.attr("pads", [0] * widths[:, 2:].size), (2, -1))
    pads = (own + widths[:, 2:]).reshape(-1).tolist()
    return remake(node, source, *node.inputs[1:], auto_pad=None, pads=pads)


def _adds_zeros(pad: Node) -> bool:
    """Whether the value is +0: with -0 a sum of nothing else has another sign."""
    value = pad.operands(3)[2]
    number = pad.attr("value", 0.0) if value is None else value.scalar
    return number == 0 and not np.signbit(number)


def _widths(pad: Node, rank: int | None) -> np.ndarray | None:
    """The widths as [begin or end, dimension]; None where they are computed."""
    given = pad.attr("pads") if pad.opset < 11 else constant(pad.inputs[1])
    if given is None:
        return None
    pairs = np.reshape(given, (2, -1))
    axes = pad.operands(4)[3]
    if axes is None:
        return pairs
    places = constant(axes)
    if rank is None or places is None:
        return None
    widths = np.zeros((2, rank), np.int64)
    widths[:, places] = pairs
    return widths


def _net(body: str, opset: int = 17, x: str = "N, 2, 5, 5") -> str:
    return f"""<ir_version: 8, opset_import: ["" : {opset}]>
    g (float[{x}] x) => (y) <float[3, 2, 1, 1] w = {{1, 2, 3, -4, 0.5, 0}}, float zero = {{0}}, float one = {{1}},
        float minus = {{-0.0}}, int64[8] p = {{0, 0, 1, 0, 0, 0, 2, 1}}, int64[8] cut = {{0, 0, 1, -1, 0, 0, 0, 0}},
        int64[8] more = {{0, 1, 0, 0, 0, 0, 0, 0}}, int64[2] hw = {{-2, 3}}, int64[4] q = {{1, 0, 2, 1}},
        int64[1] w3 = {{3}}, int64[2] left = {{2, 0}}> {{ {body} }}"""


EXAMPLES = [
    Fires(
        _net("a = Pad (x, p, zero)  y = Conv <pads = [1, 0, 2, 3], strides = [2, 1]> (a, w)"),
        gone="Pad",
        becomes="""y = Conv <pads = [2, 0, 4, 4], strides = [2, 1]> (x, [3, 2, 1, 1] {1.0, 2.0, 3.0, -4.0, 0.5, 0.0})""",
    ),
    Fires(
        _net('a = Pad (x, p)  y = Conv <auto_pad = "VALID"> (a, w)'),
        gone="Pad",
        becomes="y = Conv <pads = [1, 0, 2, 1]> (x, [3, 2, 1, 1] {1.0, 2.0, 3.0, -4.0, 0.5, 0.0})",
    ),
    Fires(
        _net("a = Pad (x, q, zero, hw)  y = Conv (a, w)", 18),
        gone="Pad",
        becomes="""y: float32[N, 3, 8, 6]
        y = Conv <pads = [1, 0, 2, 1]> (x, [3, 2, 1, 1] {1.0, 2.0, 3.0, -4.0, 0.5, 0.0})""",
    ),
    Fires(
        _net("a = Pad (x, left, , w3)  y = Conv (a, w)", 18),
        gone="Pad",
        becomes="""y: float32[N, 3, 5, 7]
        y = Conv <pads = [0, 2, 0, 0]> (x, [3, 2, 1, 1] {1.0, 2.0, 3.0, -4.0, 0.5, 0.0})""",
    ),
    Fires(
        _net("a = Pad <pads = [0, 0, 1, 0, 0, 0, 2, 1]> (x)  y = Conv (a, w)", 9),
        gone="Pad",
        becomes="y = Conv <pads = [1, 0, 2, 1]> (x, [3, 2, 1, 1] {1.0, 2.0, 3.0, -4.0, 0.5, 0.0})",
    ),
    Skips(_net("a = Pad (x, p, one)  y = Conv (a, w)"), because="constant 0"),
    Skips(_net("a = Pad (x, p, minus)  y = Conv (a, w)"), because="constant 0"),
    Skips(
        _net("a = Pad <pads = [0, 0, 1, 0, 0, 0, 2, 1], value = 2.0> (x)  y = Conv (a, w)", 9),
        because="constant 0",
    ),
    Skips(_net('a = Pad <mode = "reflect"> (x, p)  y = Conv (a, w)'), because="'reflect'"),
    Skips(
        _net('a = Pad (x, p)  y = Conv <auto_pad = "SAME_UPPER", strides = [2, 2]> (a, w)'),
        because="by itself",
    ),
    Fires(_net("a = Pad (x, p)  y = Conv (a, w)", 11), gone="Pad"),
    Skips(
        _net("a = Pad (x, r)  y = Conv (a, w)").replace("x) =>", "x, int64[8] r) =>"), because="its widths"
    ),
    Skips(
        _net("a = Pad (x, q, , r)  y = Conv (a, w)", 18).replace("x) =>", "x, int64[2] r) =>"),
        because="its widths",
    ),
    Skips(
        _net("a = Pad (x, p, r)  y = Conv (a, w)").replace("x) =>", "x, float r) =>"), because="constant 0"
    ),
    Skips(_net("a = Pad (x, cut)  y = Conv (a, w)"), because="it cuts"),
    Skips(_net("a = Pad (x, more)  y = Conv (a, w)", x="N, 1, 5, 5"), because="or the channels"),
    Skips(_net("a = Pad (x, p)  b = Relu (a)  y = Conv (b, w)")),
    Skips(
        _net("a = Pad (x, u, zero)  y = Conv (a, w)").replace("x) =>", "x, int64[8] u) =>"),
        because="not constants",
    ),
    Skips(
        _net("a = Pad (x, q, zero, u)  y = Conv (a, w)", 18).replace("x) =>", "x, int64[2] u) =>"),
        because="not constants",
    ),
    Fires(_net("a = Pad (x, p, zero)  y = Conv (a, w)", 11), gone="Pad"),
]
