"""Layers with weights of the right shapes and spread, made without running the graph."""

from __future__ import annotations

import math

import numpy as np

from benchmarks.nets.builder import Builder

_POOL = 1_048_573
"""Deviates to draw; weights repeat them: a prime number, so that channels differ."""


class Layers(Builder):
    """A builder whose layers keep the mean square by the spread of their weights alone.

    The nets of `benchmarks.nets` measure each layer's outputs as they grow, which takes minutes at the sizes
    of these. What an engine moves and multiplies does not depend on the weights.
    """

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self._pool = self.random.standard_normal(_POOL).astype(np.float32)
        self._drawn = 0

    def drawn(self, *shape: int, spread: float) -> str:
        """A constant of normal deviates, float32."""
        count = math.prod(shape)
        start, self._drawn = self._drawn % _POOL, self._drawn + count
        values = np.resize(np.roll(self._pool, -start), count)
        return self.weight((values * np.float32(spread)).reshape(shape))

    def unit(
        self,
        x: str,
        channels: tuple[int, int],
        kernel: int = 1,
        *,
        stride: int = 1,
        group: int = 1,
        dilation: int = 1,
        act: str = "",
        gain: float = 1.0,
    ) -> str:
        """A convolution with a bias (BatchNormalization is folded) that keeps the size, and an activation.

        Args:
            x: [N, inner, H, W].
            channels: inner and outer.
            kernel: height and width.
            stride: in both directions.
            group: the number of groups.
            dilation: in both directions.
            act: "" or one of `act`.
            gain: the root mean square of the outputs, where that of the inputs is 1.
        """
        inner, outer = channels
        spread = gain * (math.sqrt(2) if act else 1.0) / math.sqrt(inner // group * kernel**2)
        weight = self.drawn(outer, inner // group, kernel, kernel, spread=spread)
        pad = dilation * (kernel - 1) // 2
        attrs = {"kernel_shape": [kernel] * 2, "strides": [stride] * 2, "pads": [pad] * 4, "group": group}
        bias = self.drawn(outer, spread=0.1)
        return self.act(self.node("Conv", x, weight, bias, dilations=[dilation] * 2, **attrs), act)

    def act(self, x: str, kind: str) -> str:
        """Relu, Relu6, Leaky, Silu, HardSwish or Gelu as PyTorch exports it; "" for none."""
        if kind == "Relu6":
            return self.node("Clip", x, self.scalar(0), self.scalar(6))
        if kind == "Leaky":
            return self.node("LeakyRelu", x, alpha=0.1)
        if kind == "Silu":
            return self.silu(x)
        if kind == "Gelu":
            y = self.node("Erf", self.node("Div", x, self.scalar(math.sqrt(2))))
            y = self.node("Mul", x, self.node("Add", y, self.scalar(1)))
            return self.node("Mul", y, self.scalar(0.5))
        return self.node(kind, x) if kind else x

    def upward(self, x: str, channels: tuple[int, int], act: str = "") -> str:
        """A transposed convolution of kernel 2 and stride 2: twice the height and width."""
        inner, outer = channels
        weight = self.drawn(inner, outer, 2, 2, spread=1 / math.sqrt(inner))
        y = self.node(
            "ConvTranspose", x, weight, self.drawn(outer, spread=0.1), kernel_shape=[2, 2], strides=[2, 2]
        )
        return self.act(y, act)

    def linear(self, x: str, channels: tuple[int, int], *, bias: bool = True, gain: float = 1.0) -> str:
        """A fully connected layer over the last axis: a MatMul and the addition of a bias."""
        y = self.node("MatMul", x, self.drawn(*channels, spread=gain / math.sqrt(channels[0])))
        return self.node("Add", self.drawn(channels[1], spread=0.1), y) if bias else y

    def norm(self, x: str, channels: int) -> str:
        """LayerNormalization over the last axis."""
        one = self.floats(np.ones(channels))
        return self.node(
            "LayerNormalization", x, one, self.drawn(channels, spread=0.1), axis=-1, epsilon=1e-6
        )

    def pool(self, x: str, kernel: int, stride: int = 1) -> str:
        """Maxima; with stride 1 the size stays."""
        pads = [kernel // 2] * 4 if kernel % 2 else [0] * 4
        return self.node("MaxPool", x, kernel_shape=[kernel] * 2, strides=[stride] * 2, pads=pads)

    def join(self, *parts: str) -> str:
        """Channels of all, one after the other."""
        return self.node("Concat", *parts, axis=1)

    def twice(self, x: str) -> str:
        """Twice the height and width, each value four times."""
        how = {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
        return self.node("Resize", x, "", self.floats(np.array([1, 1, 2, 2])), **how)

    def sized(self, x: str, channels: int, size: tuple[int, int]) -> str:
        """Interpolated to [N, channels, *size], as PyTorch's bilinear without aligned corners."""
        shape = self.node("Concat", self.node("Shape", x, end=1), self.ints(channels, *size), axis=0)
        how = {"mode": "linear", "coordinate_transformation_mode": "half_pixel"}
        return self.node("Resize", x, "", "", shape, **how)

    def scaled(self, x: str, factor: int) -> str:
        """Interpolated to so many times the height and width, as by PyTorch without aligned corners."""
        how = {"mode": "linear", "coordinate_transformation_mode": "half_pixel"}
        return self.node("Resize", x, "", self.floats(np.array([1, 1, factor, factor])), **how)

    def spread(self, x: str, channels: int, like: str) -> str:
        """The mean of each channel of [N, channels, 1, 1] at all positions of another tensor."""
        ends = self.node("Shape", like, end=1), self.ints(channels), self.node("Shape", like, start=2)
        return self.node("Expand", x, self.node("Concat", *ends, axis=0))

    def excite(self, x: str, channels: int, squeezed: int, act: str = "Relu", gate: str = "Sigmoid") -> str:
        """Each channel times a factor from 0 to 1 that depends on the means of all (Hu et al. 2017)."""
        y = self.unit(self.node("GlobalAveragePool", x), (channels, squeezed), act=act)
        y = self.unit(y, (squeezed, channels))
        y = self.node("HardSigmoid", y, alpha=1 / 6) if gate == "HardSigmoid" else self.node(gate, y)
        return self.node("Mul", y, x)
