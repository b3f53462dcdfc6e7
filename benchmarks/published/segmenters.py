"""Segmentation and super-resolution: FCN, DeepLabV3, PSPNet, DBNet, SRCNN."""

from __future__ import annotations

import numpy as np
from onnx import ModelProto

from benchmarks.published.classifiers import image_model, residual
from benchmarks.published.layers import Layers

_DILATIONS = (12, 24, 36)


def fcn(size: tuple[int, int] = (512, 1024), classes: int = 19) -> ModelProto:
    """FCN (Long et al. 2015) on a dilated ResNet-50, as MMSegmentation has it (fcn_r50-d8)."""
    net = Layers(51)
    x = residual(net, 50, deep_stem=True, stride=8)[-1]
    y = net.unit(net.unit(x, (2048, 512), 3, act="Relu"), (512, 512), 3, act="Relu")
    y = net.unit(net.join(x, y), (2560, 512), 3, act="Relu")
    return _classes(net, "fcn", y, 512, classes, size)


def deeplab(
    size: tuple[int, int] = (512, 1024),
    classes: int = 19,
    *,
    stride: int = 8,
    deep_stem: bool = True,
    outer: int = 512,
    dilations: tuple[int, ...] = _DILATIONS,
) -> ModelProto:
    """DeepLabV3 (Chen et al. 2017) on a dilated ResNet-50; as MMSegmentation has it by default."""
    net = Layers(52)
    x = residual(net, 50, deep_stem=deep_stem, stride=stride)[-1]
    pooled = net.unit(net.node("GlobalAveragePool", x), (2048, outer), act="Relu")
    parts = [net.spread(pooled, outer, _cells(size, stride)), net.unit(x, (2048, outer), act="Relu")]
    parts += [net.unit(x, (2048, outer), 3, dilation=dilation, act="Relu") for dilation in dilations]
    kernel = 3 if outer == 512 else 1
    y = net.unit(net.join(*parts), (5 * outer, outer), kernel, act="Relu")
    if outer == 256:
        y = net.unit(y, (256, 256), 3, act="Relu")
    return _classes(net, "deeplabv3", y, outer, classes, size)


def deeplab_plus(size: tuple[int, int] = (512, 1024), classes: int = 19) -> ModelProto:
    """DeepLabV3+ (Chen et al. 2018) on a dilated ResNet-50, as MMSegmentation has it (r50-d8): separable."""
    net = Layers(55)
    stages = residual(net, 50, deep_stem=True, stride=8)
    x = stages[-1]

    def separable(x: str, channels: tuple[int, int], dilation: int = 1) -> str:
        inner, _ = channels
        x = net.unit(x, (inner, inner), 3, group=inner, dilation=dilation, act="Relu")
        return net.unit(x, channels, act="Relu")

    pooled = net.unit(net.node("GlobalAveragePool", x), (2048, 512), act="Relu")
    parts = [net.spread(pooled, 512, _cells(size, 8)), net.unit(x, (2048, 512), act="Relu")]
    parts += [separable(x, (2048, 512), dilation) for dilation in _DILATIONS]
    y = net.unit(net.join(*parts), (2560, 512), 3, act="Relu")
    y = net.sized(y, 512, _cells(size, 4))
    y = separable(net.join(y, net.unit(stages[0], (256, 48), act="Relu")), (560, 512))
    return _classes(net, "deeplabv3_plus", separable(y, (512, 512)), 512, classes, size)


def deeplab_voc() -> ModelProto:
    """DeepLabV3 on a ResNet-50 with an output stride of 16, as DeepLabV3Plus-Pytorch has it for VOC."""
    return deeplab((513, 513), 21, stride=16, deep_stem=False, outer=256, dilations=(6, 12, 18))


def _classes(
    net: Layers, name: str, x: str, channels: int, classes: int, size: tuple[int, int]
) -> ModelProto:
    """The class of each pixel of the image: scores are interpolated."""
    y = net.sized(net.unit(x, (channels, classes)), classes, size)
    return image_model(net, name, size, y, classes, *size)


def _cells(size: tuple[int, int], stride: int) -> tuple[int, int]:
    height, width = size
    return -(-height // stride), -(-width // stride)


def dbnet(size: int = 640) -> ModelProto:
    """DBNet (Liao et al. 2020) on ResNet-18, without what turns probabilities into outlines."""
    net = Layers(53)
    stages = residual(net, 18)
    sides = [net.unit(x, (64 * 2**index, 256)) for index, x in enumerate(stages)]
    for index in (2, 1, 0):
        sides[index] = net.node("Add", sides[index], net.twice(sides[index + 1]))
    parts = []
    for index, x in enumerate(sides):
        y = net.unit(x, (256, 64), 3, act="Relu")
        for _ in range(index):
            y = net.twice(y)
        parts.append(y)
    y = net.unit(net.join(*parts), (256, 64), 3, act="Relu")
    y = net.node("Sigmoid", net.upward(net.upward(y, (64, 64), "Relu"), (64, 1)))
    return image_model(net, "dbnet", (size, size), y, 1, size, size)


def srcnn(size: int = 32) -> ModelProto:
    """SRCNN x4 (Dong et al. 2014), kernels of 9, 1 and 5, behind a bicubic interpolation."""
    net = Layers(54)
    how = {"mode": "cubic", "coordinate_transformation_mode": "half_pixel", "cubic_coeff_a": -0.75}
    x = net.node("Resize", "x", "", net.floats(np.array([1, 1, 4, 4])), **how)
    x = net.unit(net.unit(x, (3, 64), 9, act="Relu"), (64, 32), act="Relu")
    return image_model(net, "srcnn", (size, size), net.unit(x, (32, 3), 5), 3, 4 * size, 4 * size)
