"""Write the padding of a dilated convolution as numbers.

Keras writes `padding="same"` as auto_pad, with dilations too. TensorRT takes that; onnxruntime, which
calibrates and compares, does not:

    Dilation not supported for AutoPadType::SAME_UPPER or AutoPadType::SAME_LOWER.

    before    y = Conv<auto_pad="SAME_UPPER", dilations=[2]>(x, W)     3 weights an axis
    after     y = Conv<pads=[2, 2], dilations=[2]>(x, W)               (3 - 1) * 2, a half at each end

At stride 1 an axis of any size needs (k - 1) * d zeros. At another stride their number depends on the
size, which then has to be known.
"""

from onnxq.rule import Fires, Node, Skip, Skips, Tensor, Value, remake, required, rule


@rule("Conv", "ConvInteger", "QLinearConv", stage="clean")
def explicit_same_pads(node: Node) -> Value | None:
    mode, dilations = node.attr("auto_pad"), node.attr("dilations", [])
    x, *_, weights = required(node, 4 if node.op == "QLinearConv" else 2)
    if mode not in ("SAME_UPPER", "SAME_LOWER") or all(d == 1 for d in dilations):
        return None
    totals = [_zeros(node, x, weights, axis) for axis in range(len(dilations))]
    less, more = [total // 2 for total in totals], [total - total // 2 for total in totals]
    pads = less + more if mode == "SAME_UPPER" else more + less
    return remake(node, *node.inputs, auto_pad=None, pads=pads)


def _zeros(node: Node, x: Tensor, weights: Tensor, axis: int) -> int:
    """How many zeros an axis of the image needs, at both ends together."""
    kernel = node.attr("kernel_shape", (weights.shape or ())[2:])[axis]
    if not isinstance(kernel, int):
        raise Skip(f"the size of its kernel {weights.name!r} is not known")
    stride = node.attr("strides", [1] * (axis + 1))[axis]
    reach = (kernel - 1) * node.attrs["dilations"][axis]
    if stride == 1:
        return int(reach)
    size = x.shape[axis + 2] if x.shape is not None else None
    if not isinstance(size, int):
        raise Skip(f"its stride is {stride}, and dimension {axis + 2} of its input is dynamic")
    return int(max((-(-size // stride) - 1) * stride + reach + 1 - size, 0))


def _net(kind: str, attributes: str, x: str, w: str, group: int = 1) -> str:
    return f"""<ir_version: 8, opset_import: ["" : 17]>
    g ({kind}[{x}] x, {kind}[{w}] w) => (y) {{ y = Conv <group = {group}, {attributes}> (x, w) }}"""


_INT = """<ir_version: 8, opset_import: ["" : 17]>
    g (uint8[N, 2, H, W] x, int8[3, 2, 2, 3] w) => (y) <float s = {0.5}, uint8 z = {3}, int8 i = {0}> {
        y = %s }"""

EXAMPLES = [
    Fires(
        _net("float", 'auto_pad = "SAME_UPPER", dilations = [2, 3]', "N, 2, H, W", "3, 2, 3, 2"),
        becomes="y = Conv <dilations = [2, 3], group = 1, pads = [2, 1, 2, 2]> (x, w)",
    ),
    Fires(
        _net("float", 'auto_pad = "SAME_LOWER", dilations = [3, 3]', "N, 4, H, W", "6, 2, 4, 2", 2),
        becomes="y = Conv <dilations = [3, 3], group = 2, pads = [5, 2, 4, 1]> (x, w)",
    ),
    Fires(
        _net("float", 'auto_pad = "SAME_UPPER", dilations = [2]', "N, 2, L", "3, 2, 4"),
        becomes="y = Conv <dilations = [2], group = 1, pads = [3, 3]> (x, w)",
    ),
    Fires(
        _net("float", 'auto_pad = "SAME_LOWER", dilations = [2, 1, 2]', "1, 2, D, 4, 5", "2, 2, 2, 3, 4"),
        becomes="y = Conv <dilations = [2, 1, 2], group = 1, pads = [1, 1, 3, 1, 1, 3]> (x, w)",
    ),
    Fires(
        _net(
            "float",
            'auto_pad = "SAME_UPPER", dilations = [2, 2], strides = [2, 3]',
            "N, 2, 8, 7",
            "3, 2, 3, 2",
        ),
        becomes="y = Conv <dilations = [2, 2], group = 1, pads = [1, 1, 2, 1], strides = [2, 3]> (x, w)",
    ),
    Fires(
        _net(
            "float",
            'auto_pad = "SAME_LOWER", dilations = [2, 1], strides = [1, 2]',
            "N, 2, H, 7",
            "3, 2, 2, 3",
        ),
        becomes="y = Conv <dilations = [2, 1], group = 1, pads = [1, 1, 1, 1], strides = [1, 2]> (x, w)",
    ),
    Fires(
        _INT % 'ConvInteger <auto_pad = "SAME_UPPER", dilations = [2, 3]> (x, w, z)',
        becomes="y = ConvInteger <dilations = [2, 3], pads = [1, 3, 1, 3]> (x, w, uint8 3)",
    ),
    Fires(
        _INT % 'QLinearConv <auto_pad = "SAME_LOWER", dilations = [1, 3]> (x, s, z, w, s, i, s, z)',
        becomes="""y = QLinearConv <dilations = [1, 3], pads = [1, 3, 0, 3]> (x, 0.5, uint8 3, w, 0.5, int8 0, 0.5, uint8 3)""",
    ),
    Skips(
        _net(
            "float",
            'auto_pad = "SAME_UPPER", dilations = [2, 2], strides = [2, 2]',
            "N, 2, H, 7",
            "3, 2, 3, 2",
        ),
        because="dimension 2 of its input is dynamic",
    ),
    Skips(
        _net("float", 'auto_pad = "SAME_UPPER", dilations = [2, 2]', "N, 2, 8, 7", "3, 2, K, 2"),
        because="kernel 'w' is not known",
    ),
    Skips(_net("float", 'auto_pad = "SAME_UPPER", dilations = [1, 1]', "N, 2, H, W", "3, 2, 3, 2")),
    Skips(_net("float", "pads = [1, 1, 1, 1], dilations = [2, 2]", "N, 2, H, W", "3, 2, 3, 2")),
]
