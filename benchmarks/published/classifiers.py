"""Classifiers: ResNet and its kin, MobileNet, EfficientNet, ShuffleNet."""

from __future__ import annotations

from onnx import ModelProto, TensorProto

from benchmarks.published.layers import Layers

_BLOCKS = {18: (2, 2, 2, 2), 34: (3, 4, 6, 3), 50: (3, 4, 6, 3), 101: (3, 4, 23, 3)}


def image_model(
    net: Layers, name: str, size: tuple[int | str, int | str], y: str, *shape: int | str
) -> ModelProto:
    """The model of an image [N, 3, *size] and an output [N, *shape]; a size with a name can be any."""
    inputs = {"x": (TensorProto.FLOAT, ["N", 3, *size])}
    return net.model(name, inputs, y, ["N", *shape])


def residual(
    net: Layers,
    depth: int,
    *,
    group: int = 1,
    width: int = 64,
    squeeze: bool = False,
    deep_stem: bool = False,
    stride: int = 32,
) -> list[str]:
    """The outputs of the four stages of a ResNet (He et al. 2015), stride 2 in the 3 x 3 convolution.

    Args:
        net: the graph, with the input `x`.
        depth: 18, 34, 50 or 101.
        group: groups of the 3 x 3 convolutions (ResNeXt, Xie et al. 2017).
        width: channels of a group times groups in the first stage, of the wide blocks.
        squeeze: whether blocks have squeeze and excitation (Hu et al. 2017).
        deep_stem: three 3 x 3 convolutions in the place of one 7 x 7.
        stride: 8 where the last two stages are dilated.
    """
    if deep_stem:
        x = net.unit("x", (3, 32), 3, stride=2, act="Relu")
        x = net.unit(net.unit(x, (32, 32), 3, act="Relu"), (32, 64), 3, act="Relu")
    else:
        x = net.unit("x", (3, 64), 7, stride=2, act="Relu")
    x = net.node("MaxPool", x, kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)
    inner, factor, reached, dilation, stages = 64, 4 if depth >= 50 else 1, 4, 1, []
    for stage, count in enumerate(_BLOCKS[depth]):
        outer, middle = 64 * 2**stage * factor, width * 2**stage
        step = 2 if stage and reached < stride else 1
        before = dilation
        if stage and step == 1:
            dilation *= 2
        reached *= step
        for block in range(count):
            s, d = (step, before) if block == 0 else (1, dilation)
            if factor == 1:
                y = net.unit(x, (inner, outer), 3, stride=s, dilation=d, act="Relu")
                y = net.unit(y, (outer, outer), 3, dilation=dilation, gain=0.5)
            else:
                y = net.unit(x, (inner, middle), act="Relu")
                y = net.unit(y, (middle, middle), 3, stride=s, group=group, dilation=d, act="Relu")
                y = net.unit(y, (middle, outer), gain=0.5)
            if squeeze:
                y = net.excite(y, outer, outer // 16)
            if block == 0 and (inner != outer or s > 1):
                x = net.unit(x, (inner, outer), stride=s)
            x = net.node("Relu", net.node("Add", y, x))
            inner = outer
        stages.append(x)
    return stages


def resnet(depth: int, size: int = 224, **options: bool | int) -> ModelProto:
    """A ResNet, ResNeXt or SE-ResNet that tells 1,000 classes apart."""
    net = Layers(depth)
    y = residual(net, depth, **options)[-1]  # type: ignore[arg-type]
    y = net.classify(y, 512 * (4 if depth >= 50 else 1), 1000)
    return image_model(net, f"resnet{depth}", (size, size), y, 1000)


_MOBILE_V2 = (
    (1, 16, 1, 1, 3), (6, 24, 2, 2, 3), (6, 32, 3, 2, 3), (6, 64, 4, 2, 3),
    (6, 96, 3, 1, 3), (6, 160, 3, 2, 3), (6, 320, 1, 1, 3),
)  # fmt: skip
_EFFICIENT_B0 = (
    (1, 16, 1, 1, 3), (6, 24, 2, 2, 3), (6, 40, 2, 2, 5), (6, 80, 3, 2, 3),
    (6, 112, 3, 1, 5), (6, 192, 4, 2, 5), (6, 320, 1, 1, 3),
)  # fmt: skip
_RE, _HS = "Relu", "HardSwish"
_MOBILE_V3 = (  # kernel, expanded, outer, squeeze, activation, stride
    (3, 16, 16, 0, _RE, 1), (3, 64, 24, 0, _RE, 2), (3, 72, 24, 0, _RE, 1), (5, 72, 40, 24, _RE, 2),
    (5, 120, 40, 32, _RE, 1), (5, 120, 40, 32, _RE, 1), (3, 240, 80, 0, _HS, 2), (3, 200, 80, 0, _HS, 1),
    (3, 184, 80, 0, _HS, 1), (3, 184, 80, 0, _HS, 1), (3, 480, 112, 120, _HS, 1), (3, 672, 112, 168, _HS, 1),
    (5, 672, 160, 168, _HS, 2), (5, 960, 160, 240, _HS, 1), (5, 960, 160, 240, _HS, 1),
)  # fmt: skip


def mobilenet_v2() -> ModelProto:
    """MobileNetV2 (Sandler et al. 2018, table 2)."""
    return _inverted("mobilenet_v2", _MOBILE_V2, "Relu6", squeeze=False)


def efficientnet_b0() -> ModelProto:
    """EfficientNet-B0 (Tan and Le 2019, table 1)."""
    return _inverted("efficientnet_b0", _EFFICIENT_B0, "Silu", squeeze=True)


def _inverted(
    name: str, stages: tuple[tuple[int, int, int, int, int], ...], act: str, *, squeeze: bool
) -> ModelProto:
    net = Layers(3)
    x, inner = net.unit("x", (3, 32), 3, stride=2, act=act), 32
    for expand, outer, count, first, kernel in stages:
        for block in range(count):
            wide, stride = inner * expand, first if block == 0 else 1
            y = x if expand == 1 else net.unit(x, (inner, wide), act=act)
            y = net.unit(y, (wide, wide), kernel, stride=stride, group=wide, act=act)
            if squeeze:
                y = net.excite(y, wide, inner // 4, act="Silu")
            y = net.unit(y, (wide, outer), gain=0.5)
            x = net.node("Add", y, x) if stride == 1 and inner == outer else y
            inner = outer
    y = net.classify(net.unit(x, (inner, 1280), act=act), 1280, 1000)
    return image_model(net, name, (224, 224), y, 1000)


def mobilenet_v3_large() -> ModelProto:
    """MobileNetV3-Large (Howard et al. 2019, table 1)."""
    net = Layers(33)
    x, inner = net.unit("x", (3, 16), 3, stride=2, act="HardSwish"), 16
    for kernel, wide, outer, squeezed, act, stride in _MOBILE_V3:
        y = x if wide == inner else net.unit(x, (inner, wide), act=act)
        y = net.unit(y, (wide, wide), kernel, stride=stride, group=wide, act=act)
        if squeezed:
            y = net.excite(y, wide, squeezed, gate="HardSigmoid")
        y = net.unit(y, (wide, outer), gain=0.5)
        x = net.node("Add", y, x) if stride == 1 and inner == outer else y
        inner = outer
    y = net.node("GlobalAveragePool", net.unit(x, (inner, 960), act="HardSwish"))
    y = net.act(net.head(net.node("Flatten", y, axis=1), 960, 1280), "HardSwish")
    return image_model(net, "mobilenet_v3_large", (224, 224), net.head(y, 1280, 1000), 1000)


def shufflenet_v2() -> ModelProto:
    """ShuffleNetV2 x1.0 (Ma et al. 2018, table 5)."""
    net = Layers(22)
    x = net.unit("x", (3, 24), 3, stride=2, act="Relu")
    x, inner, size = net.node("MaxPool", x, kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4), 24, 56
    for outer, count in ((116, 4), (232, 8), (464, 4)):
        size //= 2
        half = outer // 2
        for block in range(count):
            if block == 0:
                left = net.unit(x, (inner, inner), 3, stride=2, group=inner)
                left, right, first = net.unit(left, (inner, half), act="Relu"), x, inner
            else:
                left, right = net.nodes("Split", x, count=2, axis=1)
                first = half
            right = net.unit(right, (first, half), act="Relu")
            right = net.unit(right, (half, half), 3, stride=2 if block == 0 else 1, group=half)
            x = net.join(left, net.unit(right, (half, half), act="Relu"))
            x = net.node("Reshape", x, net.ints(0, 2, half, size, size))
            x = net.node("Transpose", x, perm=[0, 2, 1, 3, 4])
            x = net.node("Reshape", x, net.ints(0, outer, size, size))
        inner = outer
    y = net.classify(net.unit(x, (inner, 1024), act="Relu"), 1024, 1000)
    return image_model(net, "shufflenet_v2", (224, 224), y, 1000)
