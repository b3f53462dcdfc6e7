"""Segmentation and super-resolution: FCN, DeepLabV3, U-Net, DBNet, SRCNN."""

from __future__ import annotations

import numpy as np
from onnx import ModelProto

from benchmarks.published.classifiers import image_model, residual
from benchmarks.published.layers import Layers

_ANY = ("H", "W")
_CLASSES = 19


def fcn() -> ModelProto:
    """FCN (Long et al. 2015) on a dilated ResNet-50, as MMSegmentation has it (fcn_r50-d8)."""
    net = Layers(51)
    x = residual(net, 50, deep_stem=True, stride=8)[-1]
    y = net.unit(net.unit(x, (2048, 512), 3, act="Relu"), (512, 512), 3, act="Relu")
    y = net.unit(net.join(x, y), (2560, 512), 3, act="Relu")
    return _scores(net, "fcn", y, 8)


def deeplab() -> ModelProto:
    """DeepLabV3 (Chen et al. 2017) on a dilated ResNet-50, as MMSegmentation has it (r50-d8)."""
    net = Layers(52)
    x = residual(net, 50, deep_stem=True, stride=8)[-1]
    parts = _pyramid_base(net, x, 512)
    parts += [net.unit(x, (2048, 512), 3, dilation=dilation, act="Relu") for dilation in (12, 24, 36)]
    return _scores(net, "deeplabv3", net.unit(net.join(*parts), (2560, 512), 3, act="Relu"), 8)


def deeplab_plus() -> ModelProto:
    """DeepLabV3+ (Chen et al. 2018) on a dilated ResNet-50, as MMSegmentation has it (r50-d8): separable."""
    net = Layers(55)
    stages = residual(net, 50, deep_stem=True, stride=8)
    x = stages[-1]

    def separable(x: str, channels: tuple[int, int], dilation: int = 1) -> str:
        inner, _ = channels
        x = net.unit(x, (inner, inner), 3, group=inner, dilation=dilation, act="Relu")
        return net.unit(x, channels, act="Relu")

    parts = _pyramid_base(net, x, 512)
    parts += [separable(x, (2048, 512), dilation) for dilation in (12, 24, 36)]
    y = net.scaled(net.unit(net.join(*parts), (2560, 512), 3, act="Relu"), 2)
    y = separable(net.join(y, net.unit(stages[0], (256, 48), act="Relu")), (560, 512))
    return _scores(net, "deeplabv3_plus", separable(y, (512, 512)), 4)


def deeplab_voc() -> ModelProto:
    """DeepLabV3 on a ResNet-50 with an output stride of 16, as DeepLabV3Plus-Pytorch has it for VOC."""
    net = Layers(56)
    x = residual(net, 50, stride=16)[-1]
    parts = _pyramid_base(net, x, 256)
    parts += [net.unit(x, (2048, 256), 3, dilation=dilation, act="Relu") for dilation in (6, 12, 18)]
    y = net.unit(net.unit(net.join(*parts), (1280, 256), act="Relu"), (256, 256), 3, act="Relu")
    size = (513, 513)
    return image_model(net, "deeplabv3_voc", size, net.sized(net.unit(y, (256, 21)), 21, size), 21, *size)


def _pyramid_base(net: Layers, x: str, outer: int) -> list[str]:
    """Two of the branches of DeepLab: the mean of the image, and each position by itself."""
    pooled = net.unit(net.node("GlobalAveragePool", x), (2048, outer), act="Relu")
    return [net.spread(pooled, outer, x), net.unit(x, (2048, outer), act="Relu")]


def _scores(net: Layers, name: str, x: str, factor: int) -> ModelProto:
    """Scores of each class, interpolated to the size of the image."""
    return image_model(net, name, _ANY, net.scaled(net.unit(x, (512, _CLASSES)), factor), _CLASSES, *_ANY)


def unet() -> ModelProto:
    """U-Net (Ronneberger et al. 2015) of Pytorch-UNet: padded, transposed convolutions, two classes."""
    net = Layers(57)

    def twice(x: str, inner: int, outer: int) -> str:
        return net.unit(net.unit(x, (inner, outer), 3, act="Relu"), (outer, outer), 3, act="Relu")

    levels = [twice("x", 3, 64)]
    for outer in (128, 256, 512, 1024):
        levels.append(twice(net.pool(levels[-1], 2, 2), outer // 2, outer))
    x = levels.pop()
    for outer in (512, 256, 128, 64):
        x = twice(net.join(levels.pop(), net.upward(x, (2 * outer, outer))), 2 * outer, outer)
    return image_model(net, "unet", _ANY, net.unit(x, (64, 2)), 2, *_ANY)


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
