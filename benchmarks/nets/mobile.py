"""Nets of inverted residual blocks: MobileNetV2, MobileNetV3 and EfficientNet."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import onnx

from benchmarks.nets.builder import Builder
from benchmarks.nets.feeds import batch
from benchmarks.nets.sizes import classes, size_of


class _Block(NamedTuple):
    inner: int
    wide: int
    outer: int
    kernel: int
    stride: int

    @property
    def residual(self) -> bool:
        return self.stride == 1 and self.inner == self.outer

    @property
    def scale(self) -> float:
        """That of the last BatchNormalization: training leaves residual branches small."""
        return 0.5 if self.residual else 1.0


def _blocks(stem: int, stages: Iterable[tuple[int, int, int, int, int]], *, small: bool) -> Iterator[_Block]:
    """The blocks of stages of (expansion, channels, blocks, stride of the first, kernel).

    There are two blocks a stage at most in a small net.
    """
    inner = stem
    for expand, channels, count, first, kernel in stages:
        outer = _thin(channels, small=small)
        for index in range(min(count, 2) if small else count):
            yield _Block(inner, inner * expand, outer, kernel, first if index == 0 else 1)
            inner = outer


def _thin(channels: int, *, small: bool) -> int:
    """A quarter of the channels in a small net, 16 or more."""
    return max(16, channels // 4) if small else channels


def mobilenet_v2(*, size: int | None = None, folded: bool = True, small: bool = False) -> onnx.ModelProto:
    """MobileNetV2 (Sandler et al. 2018, table 2): 3.5 M weights, 0.3 GMAC at 224 x 224.

    Args:
        size: height and width of the input `x`, [N, 3, size, size]; 224 by default.
        folded: whether BatchNormalization is folded into the convolutions.
        small: a quarter of the channels and two blocks a stage, at 128 x 128.
    """
    size = size or size_of("mobilenet_v2", small=small)
    net = Builder(seed=2, samples=batch("mobilenet_v2", size, small=small))
    low, high = net.scalar(0), net.scalar(6)
    inner, last = (_thin(channels, small=small) for channels in (32, 1280))

    def conv6(x: str, channels: tuple[int, int], kernel: int, stride: int = 1, group: int = 1) -> str:
        x = net.conv(x, channels, kernel, stride=stride, group=group, folded=folded, scale=1.5, tail=_TAIL)
        return net.node("Clip", x, low, high)

    x = conv6("x", (3, inner), 3, 2)
    stages = (
        (1, 16, 1, 1, 3), (6, 24, 2, 2, 3), (6, 32, 3, 2, 3), (6, 64, 4, 2, 3),
        (6, 96, 3, 1, 3), (6, 160, 3, 2, 3), (6, 320, 1, 1, 3),
    )  # fmt: skip
    for block in _blocks(inner, stages, small=small):
        inner, wide, outer, kernel, stride = block
        y = x if wide == inner else conv6(x, (inner, wide), 1)
        y = conv6(y, (wide, wide), kernel, stride, wide)
        y = net.conv(y, (wide, outer), 1, folded=folded, scale=block.scale)
        x = net.node("Add", x, y) if block.residual else y
        inner = outer
    count = classes(small=small)
    output = net.classify(conv6(x, (inner, last), 1), last, count)
    return net.image_model("mobilenet_v2", size, output, count)


# Of MobileNetV3-Small: kernel, inner channels, outer ones, whether it squeezes and excites, stride. The first
# three have Relu, the others HardSwish.
_V3_SMALL = (
    (3, 16, 16, True, 2), (3, 72, 24, False, 2), (3, 88, 24, False, 1), (5, 96, 40, True, 2),
    (5, 240, 40, True, 1), (5, 240, 40, True, 1), (5, 120, 48, True, 1), (5, 144, 48, True, 1),
    (5, 288, 96, True, 2), (5, 576, 96, True, 1), (5, 576, 96, True, 1),
)  # fmt: skip


def mobilenet_v3(*, size: int | None = None, small: bool = False) -> onnx.ModelProto:
    """MobileNetV3-Small (Howard et al. 2019, table 2): 2.5 M weights, 0.06 GMAC at 224 x 224.

    Args:
        size: height and width of the input `x`, [N, 3, size, size]; 224 by default.
        small: seven blocks, at 128 x 128.
    """
    size = size or size_of("mobilenet_v3", small=small)
    net = Builder(seed=7, samples=batch("mobilenet_v3", size, small=small))

    def conv(
        x: str, channels: tuple[int, int], kernel: int, act: str, stride: int = 1, group: int = 1
    ) -> str:
        x = net.conv(x, channels, kernel, stride=stride, group=group, scale=1.5, tail=_TAIL)
        return net.node(act, x)

    x, inner = conv("x", (3, 16), 3, "HardSwish", 2), 16
    for number, (kernel, wide, outer, squeezes, stride) in enumerate(_V3_SMALL[: 7 if small else None]):
        act = "Relu" if number < 3 else "HardSwish"
        y = conv(conv(x, (inner, wide), 1, act), (wide, wide), kernel, act, stride, wide)
        if squeezes:
            means = net.node("GlobalAveragePool", y)
            means = net.node("Relu", net.plain_conv(means, (wide, max(8, wide // 4)), 1))
            y = net.node(
                "Mul", net.node("HardSigmoid", net.plain_conv(means, (max(8, wide // 4), wide), 1)), y
            )
        residual = stride == 1 and inner == outer
        y = net.conv(y, (wide, outer), 1, scale=0.5 if residual else 1.0)
        x, inner = net.node("Add", x, y) if residual else y, outer
    count = classes(small=small)
    x = net.node("GlobalAveragePool", conv(x, (inner, 6 * inner), 1, "HardSwish"))
    x = net.node("HardSwish", net.plain_conv(x, (6 * inner, 1024), 1))
    output = net.classify(x, 1024, count)
    return net.image_model("mobilenet_v3", size, output, count)


def efficientnet_b0(*, size: int | None = None, small: bool = False) -> onnx.ModelProto:
    """EfficientNet-B0 (Tan and Le 2019, table 1): 5.3 M weights, 0.39 GMAC at 224 x 224.

    Args:
        size: height and width of the input `x`, [N, 3, size, size]; 224 by default.
        small: a quarter of the channels and two blocks a stage, at 128 x 128.
    """
    size = size or size_of("efficientnet_b0", small=small)
    net = Builder(seed=5, samples=batch("efficientnet_b0", size, small=small))
    inner, last = (_thin(channels, small=small) for channels in (32, 1280))

    def swish(x: str, channels: tuple[int, int], kernel: int, stride: int = 1, group: int = 1) -> str:
        return net.silu(net.conv(x, channels, kernel, stride=stride, group=group, scale=1.5, tail=_TAIL))

    x = swish("x", (3, inner), 3, 2)
    stages = (
        (1, 16, 1, 1, 3), (6, 24, 2, 2, 3), (6, 40, 2, 2, 5), (6, 80, 3, 2, 3),
        (6, 112, 3, 1, 5), (6, 192, 4, 2, 5), (6, 320, 1, 1, 3),
    )  # fmt: skip
    for block in _blocks(inner, stages, small=small):
        inner, wide, outer, kernel, stride = block
        y = x if wide == inner else swish(x, (inner, wide), 1)
        y = swish(y, (wide, wide), kernel, stride, wide)
        y = net.conv(_squeeze_and_excite(net, y, wide, inner // 4), (wide, outer), 1, scale=block.scale)
        x = net.node("Add", y, x) if block.residual else y
        inner = outer
    count = classes(small=small)
    output = net.classify(swish(x, (inner, last), 1), last, count)
    return net.image_model("efficientnet_b0", size, output, count)


_TAIL = 0.5


def _squeeze_and_excite(net: Builder, x: str, channels: int, squeezed: int) -> str:
    """Each channel times a factor from 0 to 1 that depends on the means of all (Hu et al. 2017)."""
    y = net.silu(net.plain_conv(net.node("GlobalAveragePool", x), (channels, squeezed), 1))
    return net.node("Mul", net.node("Sigmoid", net.plain_conv(y, (squeezed, channels), 1)), x)
