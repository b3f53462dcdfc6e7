"""ResNet."""

from __future__ import annotations

import onnx

from benchmarks.nets.builder import Builder
from benchmarks.nets.feeds import batch
from benchmarks.nets.sizes import classes, size_of


def resnet18(*, size: int | None = None, folded: bool = True, small: bool = False) -> onnx.ModelProto:
    """ResNet-18 (He et al. 2015, table 1): 11.7 M weights, 1.8 GMAC at 224 x 224.

    Args:
        size: height and width of the input `x`, [N, 3, size, size]; 224 by default.
        folded: whether BatchNormalization is folded into the convolutions.
        small: a quarter of the channels, at 128 x 128.
    """
    size = size or size_of("resnet18", small=small)
    net = Builder(seed=18, samples=batch("resnet18", size, small=small))
    inner = 16 if small else 64
    x = net.node("Relu", net.conv("x", (3, inner), 7, stride=2, folded=folded, tail=_TAIL))
    x = net.node("MaxPool", x, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    for stage in range(4):
        for block in range(2):
            stride = 2 if block == 0 and stage else 1
            outer = inner * stride
            y = net.conv(x, (inner, outer), 3, stride=stride, folded=folded, tail=_TAIL)
            y = net.conv(net.node("Relu", y), (outer, outer), 3, folded=folded, tail=_TAIL)
            if inner != outer:
                x = net.conv(x, (inner, outer), 1, stride=stride, folded=folded, tail=_TAIL)
            x = net.node("Relu", net.node("Add", y, x))
            inner = outer
    count = classes(small=small)
    return net.image_model("resnet18", size, net.classify(x, inner, count), count)


_TAIL = 0.4
