"""Turn what onnxruntime saved for one kind of CPU back into operators of ONNX.

`SessionOptions.optimized_model_filepath` with all optimizations writes layers of com.microsoft.nchwc. They keep the
channels in blocks of 8 or 16, as many as a vector of that CPU holds; TensorRT has no importer for them:

    Plugin not found, are the plugin name, version, and namespace correct?

    before    b = nchwc.Conv<activation="Relu">(x, blocks of weights, bias);  y = nchwc.ReorderOutput<channels=10>(b)
    after     y = Relu(Conv(x, weights, bias))

A layer is put between ReorderOutput and ReorderInput, which cancel where they meet, also across what takes each value
by itself, and Concat. Weights are the same numbers in ONNX's order; channels of zeros that fill the last block go, by
fours. How large a block is onnxruntime is asked here: a file that was saved for other CPUs is left alone. The
convolutions may sum in another order.
"""

from typing import Any

import numpy as np
from _opsets import activated, padded, sliced

from onnxq.rule import (
    Close,
    Except,
    Fires,
    Node,
    Skip,
    Skips,
    Value,
    constant,
    op,
    operands,
    probe,
    remake,
    required,
    rule,
)

_DOMAIN = "com.microsoft.nchwc"
_FOURS = 4  # ReorderInput takes channels by fours
_POOLS = ("MaxPool", "AveragePool", "GlobalMaxPool", "GlobalAveragePool")
_OWN = ("Conv", *_POOLS, "Upsample", "ReorderInput", "ReorderOutput")
# What gives zero for zeros; the others make something else of what fills a block.
_ZERO = ("Relu", "Tanh", "LeakyRelu", "HardSwish", "Gelu", "QuickGelu", "Erf", "Mul", "Sum", "Add", "")
_EACH = ("Add", "Sum", "Mul", "Div", "Sub", "Relu", "Tanh", "LeakyRelu", "HardSwish", "Gelu", "Erf", "Sigmoid",
         "HardSigmoid", "Clip", "com.microsoft.Gelu", "com.microsoft.QuickGelu")  # fmt: skip


@rule(*(f"{_DOMAIN}.{name}" for name in _OWN), *_EACH, "Concat", stage="compat")
def unblock_channels(node: Node) -> Any:
    if node.domain != _DOMAIN:
        return _around(node)
    (x,) = required(node, 1)
    if node.op == "ReorderInput":
        return _blocked(op.Transpose(x, perm=[0, 3, 1, 2])) if node.attr("channels_last", 0) else None
    if node.op == "ReorderOutput":
        return _given(node, x)
    if x.dtype != np.float32 or x.rank != 4:
        raise Skip(f"{x.name!r} is not known to be float32 of 4 dimensions")
    if node.op == "Conv":
        return _finite(_convolved(node, x))
    count = _channels(x) or x.shape[1] if x.shape else None
    if not isinstance(count, int):
        raise Skip(f"how many channels {x.name!r} has is not known")
    whole = _unblocked(node, x, count)
    if node.op == "Upsample":
        return _finite(_blocked(_resized(node, whole)))
    pooled = getattr(op, node.op)(whole, **node.attrs)
    return _finite(_blocked(pooled))


def _finite(y: Value) -> Except:
    return Except(
        Close(y), "infinite-input", "zeros times infinity, and a maximum with NaN, are what a kernel makes"
    )


def _blocked(y: Value) -> Value:
    made: Value = op[_DOMAIN].ReorderInput(y, channels_last=0)
    return made


def _maker(x: Value | None) -> Node | None:
    """The ReorderInput that a tensor comes from."""
    node = None if x is None else x.producer
    is_reorder = (
        node is not None and node.operator == f"{_DOMAIN}.ReorderInput" and not node.attr("channels_last", 0)
    )
    return node if is_reorder else None


def _channels(x: Value | None) -> int:
    """How many channels were put into blocks; those behind them are zeros. 0 where that is not known."""
    node = _maker(x)
    shape = None if node is None else required(node, 1)[0].shape
    return shape[1] if shape is not None and isinstance(shape[1], int) else 0


def _unblocked(node: Node, x: Value, count: int) -> Value:
    """The first channels of a tensor in blocks, in ONNX's order."""
    maker, there = _maker(x), _channels(x)
    if maker is None or not there:
        made: Value = op[_DOMAIN].ReorderOutput(x, channels_last=0, channels=count)
        return made
    (y,) = required(maker, 1)
    if there > count:
        return sliced(node, y, [0], [count], [1])
    return padded(node, y, [0] * 4, [0, count - there, 0, 0], np.float32(0))


def _given(node: Node, x: Value) -> Value | None:
    if not _channels(x):
        return None
    y = _unblocked(node, x, node.attr("channels"))
    return op.Transpose(y, perm=[0, 2, 3, 1]) if node.attr("channels_last", 0) else y


def _around(node: Node) -> Value | None:
    """The same of tensors whose blocks are gone, put into blocks."""
    read = [x for x in node.inputs if x is not None]
    if not any(_maker(x) for x in read):
        return None
    numbers = [x for x in read if x.scalar is not None]
    blocks = [x for x in read if x not in numbers]
    counts = [_channels(x) for x in blocks]
    if not all(counts) or not blocks or (node.op == "Concat" and node.attr("axis") != 1):
        return None
    if node.op == "Concat" or node.op not in _ZERO or (numbers and node.op != "Mul"):
        block = _block(_maker(blocks[0]))
        counts = [-(-count // block) * block for count in counts]
    else:
        counts = [max(counts)] * len(counts)
    opened = dict(zip(blocks, counts, strict=True))
    values = [_unblocked(node, x, opened[x]) if x in opened else x for x in node.inputs]
    return _blocked(remake(node, *values))


def _convolved(node: Node, x: Value) -> Value:
    weights, bias = required(node, 2)[1].constant, constant(operands(node, 3)[2])
    added = operands(node, 4)[3]
    if weights is None or (bias is None and operands(node, 3)[2] is not None):
        raise Skip("its weights are computed")
    block = _block(node)
    groups, outputs = node.attr("group", 1), weights.shape[0]
    depthwise = groups == outputs and weights.shape[1] == 1
    direct = groups == 1 and weights.shape[1] < block
    if outputs % block or not (direct or depthwise or weights.shape[1] % block == 0):
        raise Skip(f"it was saved for CPUs with other vectors: blocks are of {block} channels here")
    weights = _in_order(weights, block, direct or depthwise)
    kept = outputs
    if (
        node.attr("activation", "") in _ZERO
        and (groups == 1 or depthwise)
        and (added is None or _channels(added))
    ):
        zeros = (weights == 0).all(axis=(1, 2, 3)) & (True if bias is None else bias == 0)
        filled = outputs - int(np.argmin(zeros[::-1])) if not zeros.all() else outputs
        kept = max(-(-filled // _FOURS) * _FOURS, _channels(added))
    read = weights.shape[1] * groups
    if depthwise:
        read = groups = kept
    elif groups == 1 and not direct:
        read = _channels(x) or read
        weights = weights[:, :read]
    given = x if direct else _unblocked(node, x, read)
    attributes = {k: v for k, v in node.attrs.items() if not k.startswith("activation")}
    attributes["group"] = groups
    y = op.Conv(given, weights[:kept].copy(), *([] if bias is None else [bias[:kept].copy()]), **attributes)
    if added is not None:
        y = op.Add(y, _unblocked(node, added, kept))
    return _blocked(activated(node, y, x.dtype))


def _in_order(weights: np.ndarray, block: int, rows: bool) -> np.ndarray:
    """Weights in ONNX's order: of blocks of outputs, or of outputs and inputs."""
    outputs, inputs, *kernel = weights.shape
    if rows:
        apart = weights.reshape(outputs // block, inputs, *kernel, block).transpose(0, 4, 1, 2, 3)
    else:
        split = weights.reshape(outputs // block, inputs // block, *kernel, block, block)
        apart = split.transpose(0, 5, 1, 4, 2, 3)
    return np.ascontiguousarray(apart).reshape(weights.shape)


def _block(node: Node | None) -> int:
    """How many channels a block has here, by what a node makes of few: ReorderInput, or a layer of two positions."""
    few = np.array([[[[1, 0]]]], np.float32)
    if node is not None and node.op == "ReorderInput":
        found = probe(node, np.repeat(few, _FOURS, axis=1))
        return found[0].shape[1] if found else 1
    plain: dict[str, Any] = dict.fromkeys(
        ("activation", "activation_params", "auto_pad", "dilations", "group", "pads", "strides")
    )
    found = (
        None
        if node is None
        else probe(node, few, np.ones((16, 1, 1, 1), np.float32), kernel_shape=[1, 1], **plain)
    )
    if not found:
        raise Skip("onnxruntime of this CPU has no such layers")
    return int(np.argmin(found[0].ravel()))


def _resized(node: Node, x: Value) -> Value:
    mode, where = node.attr("mode", "nearest"), node.attr("coordinate_transformation_mode", "asymmetric")
    scales = np.array(node.attr("scales"), np.float32)
    if node.opset < 11:
        if where != "asymmetric":
            raise Skip(f"opset {node.opset} has no Resize with coordinates {where}")
        return op.Resize(x, scales, mode=mode) if node.opset == 10 else op.Upsample(x, scales, mode=mode)
    nearest = {"nearest_mode": "floor"} if mode == "nearest" else {}
    return op.Resize(
        x, np.zeros(0, np.float32), scales, mode=mode, coordinate_transformation_mode=where, **nearest
    )


def _net(body: str, opset: int = 17, size: str = "N, 16, 4, 4", **weights: Any) -> Any:
    """A model of layers in blocks; weights are numbers for each that it reads."""

    def model() -> Any:
        import onnx

        made = onnx.parser.parse_model(f"""<ir_version: 8, opset_import: ["" : {opset}, "{_DOMAIN}" : 1]>
            g (float[{size}] x, float[16, 16, 1, 1] v) => (y) {{ {body.replace("::", _DOMAIN + ".")} }}""")
        for name, shape in weights.items():
            numbers = np.sin(np.arange(np.prod(shape), dtype=np.float32) + 1).reshape(shape)
            if name == "z":
                numbers[42:] = 0
            made.graph.initializer.append(onnx.numpy_helper.from_array(numbers, name))
        return made

    return model


_IN, _OUT = "a = ::ReorderInput (x)", "y = ::ReorderOutput <channels = 10> (b)"
_LAST = _OUT.replace("10", "26")
_FEW = _OUT.replace("10", "42")
_POOL = "kernel_shape = [3, 3], strides = [2, 2], pads = [1, 1, 1, 1]"
_UP = '<scales = [1, 1, 2, 2], mode = "%s", coordinate_transformation_mode = "%s">'

EXAMPLES = [
    Fires(
        _net(f'b = ::Conv <activation = "Relu"> (x, z) {_FEW}', size="N, 1, 4, 4", z=(48, 1, 1, 1)),
        becomes="""_1 = Conv <group = 1> (x, float32 [44, 1, 1, 1]); _2 = Relu (_1)
        y = Slice (_2, {0}, {42}, {1}, {1})""",
    ),
    Fires(
        _net(f'b = ::Conv <activation = "Sigmoid"> (x, z) {_FEW}', size="N, 1, 4, 4", z=(48, 1, 1, 1)),
        becomes="""_1 = Conv <group = 1> (x, float32 [48, 1, 1, 1]); _2 = Sigmoid (_1)
        y = Slice (_2, {0}, {42}, {1}, {1})""",
    ),
    Fires(
        _net(
            f"{_IN} c = ::Conv <pads = [1, 1, 1, 1]> (a, w) d = Tanh (c) b = ::Conv (d, k, , a) {_OUT}",
            w=(16, 16, 3, 3),
            q=(16,),
            k=(16, 16, 1, 1),
        ),
        becomes="""_1 = Conv <group = 1, pads = [1, 1, 1, 1]> (x, float32 [16, 16, 3, 3]); _2 = Tanh (_1)
        _3 = Conv <group = 1> (_2, float32 [16, 16, 1, 1]); _4 = Add (_3, x)
        y = Slice (_4, {0}, {10}, {1}, {1})""",
    ),
    Fires(
        _net(f"{_IN} b = ::Conv <group = 16, kernel_shape = [3, 3]> (a, w) {_OUT}", w=(16, 1, 3, 3)),
        gone="ReorderInput",
    ),
    Fires(
        _net(
            f"{_IN} c = ::Conv <group = 2> (a, w) b = ::Conv (c, k) {_OUT}",
            size="N, 32, 2, 2",
            w=(32, 16, 1, 1),
            k=(16, 32, 1, 1),
        ),
        gone="ReorderInput",
    ),
    Fires(
        _net(f"{_IN} b = ::MaxPool <{_POOL}> (a) {_OUT}", size="N, 12, 5, 4"),
        becomes="""_1 = MaxPool <kernel_shape = [3, 3], pads = [1, 1, 1, 1], strides = [2, 2]> (x)
        y = Slice (_1, {0}, {10}, {1}, {1})""",
    ),
    Fires(_net(f"{_IN} b = ::AveragePool <{_POOL}> (a) {_OUT}"), gone="ReorderInput"),
    Fires(_net(f"{_IN} b = ::AveragePool <count_include_pad = 1, {_POOL}> (a) {_OUT}"), gone="ReorderInput"),
    Fires(_net(f"{_IN} b = ::GlobalMaxPool (a) {_OUT}"), gone="ReorderInput"),
    Fires(_net(f"{_IN} b = ::GlobalAveragePool (a) {_OUT}"), gone="ReorderInput"),
    Fires(
        _net(f"{_IN} b = ::Upsample {_UP % ('nearest', 'asymmetric')} (a) {_OUT}"),
        becomes="""_1 = Resize <coordinate_transformation_mode = "asymmetric", mode = "nearest", nearest_mode = "floor"> (x, {}, {1.0, 1.0, 2.0, 2.0})
        y = Slice (_1, {0}, {10}, {1}, {1})""",
    ),
    Fires(_net(f"{_IN} b = ::Upsample {_UP % ('linear', 'half_pixel')} (a) {_OUT}"), gone="ReorderInput"),
    Fires(_net(f"{_IN} b = ::Upsample {_UP % ('linear', 'align_corners')} (a) {_OUT}"), gone="ReorderInput"),
    Fires(_net(f"{_IN} b = ::Upsample {_UP % ('linear', 'asymmetric')} (a) {_OUT}", 10), gone="ReorderInput"),
    Fires(_net(f"{_IN} b = ::Upsample {_UP % ('nearest', 'asymmetric')} (a) {_OUT}", 9), gone="ReorderInput"),
    Skips(
        _net(f"{_IN} b = ::Upsample {_UP % ('linear', 'half_pixel')} (a) {_OUT}", 10), because="half_pixel"
    ),
    Fires(
        _net(
            "a = ::ReorderInput <channels_last = 1> (x) y = ::ReorderOutput <channels_last = 1, channels = 16> (a)",
            size="N, 4, 3, 16",
        ),
        becomes="_1 = Transpose <perm = [0, 3, 1, 2]> (x); y = Transpose <perm = [0, 2, 3, 1]> (_1)",
    ),
    Fires(
        _net(f"{_IN} c = Sigmoid (a) d = Mul (c, a) e = Add (d, a) b = Concat <axis = 1> (e, a) {_LAST}"),
        becomes="""_1 = Sigmoid (x); _2 = Mul (_1, x); _3 = Add (_2, x); _4 = Concat <axis = 1> (_3, x)
        y = Slice (_4, {0}, {26}, {1}, {1})""",
    ),
    Skips(_net(f"{_IN} b = Concat <axis = 2> (a, a) {_OUT}")),
    Skips(_net("b = Relu (x) y = Add (b, x)")),
    Skips(_net(f"{_IN} b = ::Conv (a, v) {_OUT}"), because="weights are computed"),
    Skips(
        _net(f"{_IN} b = ::Conv (a, w) {_OUT}", size="N, 12, 2, 2", w=(12, 16, 1, 1)), because="other vectors"
    ),
]
