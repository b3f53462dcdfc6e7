"""YOLOv5, YOLOv6, YOLOv7 and YOLOv8 without non-maximum suppression, as they are exported."""

from __future__ import annotations

import numpy as np
from onnx import ModelProto

from benchmarks.published.classifiers import image_model
from benchmarks.published.layers import Layers

_STRIDES = (8, 16, 32)


class _Yolo(Layers):
    """The modules that the nets are made of."""

    def __init__(self, seed: int, act: str) -> None:
        super().__init__(seed)
        self.kind = act

    def conv(self, x: str, channels: tuple[int, int], kernel: int = 1, stride: int = 1) -> str:
        return self.unit(x, channels, kernel, stride=stride, act=self.kind)

    def pair(self, x: str, channels: int, *, residual: bool, narrow: bool) -> str:
        """Two convolutions, of which the first is 1 x 1 where it is narrow."""
        y = self.conv(x, (channels, channels), 1 if narrow else 3)
        y = self.conv(y, (channels, channels), 3)
        return self.node("Add", x, y) if residual else y

    def c3(self, x: str, channels: tuple[int, int], count: int, *, residual: bool = True) -> str:
        """The block of YOLOv5: half the channels pass it."""
        inner, outer = channels
        y = self.conv(x, (inner, outer // 2))
        for _ in range(count):
            y = self.pair(y, outer // 2, residual=residual, narrow=True)
        return self.conv(self.join(y, self.conv(x, (inner, outer // 2))), (outer, outer))

    def c2f(self, x: str, channels: tuple[int, int], count: int, *, residual: bool = True) -> str:
        """The block of YOLOv8: all steps leave it."""
        inner, outer = channels
        parts = self.nodes("Split", self.conv(x, (inner, outer)), count=2, axis=1)
        for _ in range(count):
            parts.append(self.pair(parts[-1], outer // 2, residual=residual, narrow=False))
        return self.conv(self.join(*parts), ((2 + count) * (outer // 2), outer))

    def spp(self, x: str, channels: int) -> str:
        """Maxima of 5 x 5, 9 x 9 and 13 x 13."""
        parts = [self.conv(x, (channels, channels // 2))]
        for _ in range(3):
            parts.append(self.pool(parts[-1], 5))
        return self.conv(self.join(*parts), (2 * channels, channels))

    def elan(self, x: str, inner: int, width: int, outer: int, *, step: int, taken: str) -> str:
        """Two 1 x 1 convolutions and a chain of 3 x 3 ones; those `taken` are joined (YOLOv7)."""
        steps = [self.conv(x, (inner, width)), self.conv(x, (inner, width))]
        for _ in range(len(taken) - 2):
            before = width if len(steps) == 2 else step
            steps.append(self.conv(steps[-1], (before, step), 3))
        parts = [part for part, use in zip(steps, taken, strict=True) if use == "1"]
        wide = sum(width if index < 2 else step for index, use in enumerate(taken) if use == "1")
        return self.conv(self.join(*parts[::-1]), (wide, outer))

    def halve(self, x: str, inner: int, outer: int, *more: str) -> str:
        """Half the height and width, by maxima and by a convolution (YOLOv7)."""
        low = self.conv(self.pool(x, 2, 2), (inner, outer))
        high = self.conv(self.conv(x, (inner, outer)), (outer, outer), 3, 2)
        return self.join(high, low, *more)

    def anchored(self, levels: list[tuple[str, int]], size: int) -> str:
        """Boxes and scores of three anchors a position, [N, boxes, 85] (YOLOv5, YOLOv7)."""
        outputs = []
        for (x, channels), stride in zip(levels, _STRIDES, strict=True):
            cells = size // stride
            y = self.unit(x, (channels, 255))
            y = self.node("Reshape", y, self.ints(0, 3, 85, cells, cells))
            y = self.node("Sigmoid", self.node("Transpose", y, perm=[0, 1, 3, 4, 2]))
            middle, extent, scores = self.nodes("Split", y, self.ints(2, 2, 81), count=3, axis=4)
            grid = np.stack(np.meshgrid(np.arange(cells), np.arange(cells)), -1)[None, None]
            middle = self.node("Add", self.node("Mul", middle, self.scalar(2)), self.floats(grid - 0.5))
            middle = self.node("Mul", middle, self.scalar(stride))
            extent = self.node("Pow", self.node("Mul", extent, self.scalar(2)), self.scalar(2))
            anchors = self.floats(stride * np.array([1.0, 2, 2, 3, 4, 3]).reshape(1, 3, 1, 1, 2))
            y = self.node("Concat", middle, self.node("Mul", extent, anchors), scores, axis=4)
            outputs.append(self.node("Reshape", y, self.ints(0, -1, 85)))
        return self.node("Concat", *outputs, axis=1)

    def mean_bin(self, x: str, size: int) -> str:
        """Distances of the sides, the mean over 16 bins of each (Li et al. 2020)."""
        bins = self.node("Reshape", x, self.ints(0, 4, 16, _count(size)))
        bins = self.node("Softmax", self.node("Transpose", bins, perm=[0, 2, 1, 3]), axis=1)
        numbers = self.floats(np.arange(16).reshape(1, 16, 1, 1))
        distances = self.node("Conv", bins, numbers, kernel_shape=[1, 1])
        return self.node("Reshape", distances, self.ints(0, 4, -1))

    def boxes(self, sides: str, size: int) -> str:
        """Distances of the sides in cells, [N, 4, boxes], to centers and extents in pixels."""
        before, after = self.nodes("Split", sides, count=2, axis=1)
        centers, strides = _centers(size)
        anchors = self.floats(centers)
        low, high = self.node("Sub", anchors, before), self.node("Add", anchors, after)
        middle = self.node("Div", self.node("Add", low, high), self.scalar(2))
        return self.node("Mul", self.join(middle, self.node("Sub", high, low)), self.floats(strides))


def _centers(size: int) -> tuple[np.ndarray, np.ndarray]:
    centers, strides = [], []
    for stride in _STRIDES:
        y, x = np.mgrid[: size // stride, : size // stride] + 0.5
        centers.append(np.stack([x.reshape(-1), y.reshape(-1)]))
        strides.append(np.full((1, x.size), stride))
    return np.concatenate(centers, 1)[None], np.concatenate(strides, 1)[None]


def _count(size: int) -> int:
    return sum((size // stride) ** 2 for stride in _STRIDES)


def yolov5s(size: int = 640) -> ModelProto:
    """YOLOv5s 6.x (Jocher et al. 2022, yolov5s.yaml)."""
    net = _Yolo(5, "Silu")
    x = _six(net)
    x = net.c3(net.conv(x, (32, 64), 3, 2), (64, 64), 1)
    p3 = net.c3(net.conv(x, (64, 128), 3, 2), (128, 128), 2)
    p4 = net.c3(net.conv(p3, (128, 256), 3, 2), (256, 256), 3)
    p5 = net.spp(net.c3(net.conv(p4, (256, 512), 3, 2), (512, 512), 1), 512)
    t5 = net.conv(p5, (512, 256))
    x = net.c3(net.join(net.twice(t5), p4), (512, 256), 1, residual=False)
    t4 = net.conv(x, (256, 128))
    n3 = net.c3(net.join(net.twice(t4), p3), (256, 128), 1, residual=False)
    n4 = net.c3(net.join(net.conv(n3, (128, 128), 3, 2), t4), (256, 256), 1, residual=False)
    n5 = net.c3(net.join(net.conv(n4, (256, 256), 3, 2), t5), (512, 512), 1, residual=False)
    y = net.anchored([(n3, 128), (n4, 256), (n5, 512)], size)
    return image_model(net, "yolov5s", (size, size), y, 3 * _count(size), 85)


def _six(net: Layers) -> str:
    """The first convolution, 6 x 6 with stride 2 and 2 of padding."""
    weight = net.drawn(32, 3, 6, 6, spread=0.14)
    how = {"kernel_shape": [6, 6], "strides": [2, 2], "pads": [2] * 4}
    return net.silu(net.node("Conv", "x", weight, net.drawn(32, spread=0.1), **how))


def yolov6s(size: int = 640) -> ModelProto:
    """YOLOv6-S (Li et al. 2022) with its branches merged into 3 x 3 convolutions."""
    net = _Yolo(6, "Relu")

    def block(x: str, channels: tuple[int, int], count: int) -> str:
        for index in range(count):
            x = net.conv(x, channels if index == 0 else (channels[1],) * 2, 3)
        return x

    x = net.conv("x", (3, 32), 3, 2)
    x = block(net.conv(x, (32, 64), 3, 2), (64, 64), 2)
    p3 = block(net.conv(x, (64, 128), 3, 2), (128, 128), 4)
    p4 = block(net.conv(p3, (128, 256), 3, 2), (256, 256), 6)
    p5 = net.spp(block(net.conv(p4, (256, 512), 3, 2), (512, 512), 2), 512)
    t5 = net.conv(p5, (512, 128))
    x = block(net.join(net.upward(t5, (128, 128)), p4), (384, 128), 4)
    t4 = net.conv(x, (128, 64))
    n3 = block(net.join(net.upward(t4, (64, 64)), p3), (192, 64), 4)
    n4 = block(net.join(net.conv(n3, (64, 64), 3, 2), t4), (128, 128), 4)
    n5 = block(net.join(net.conv(n4, (128, 128), 3, 2), t5), (256, 256), 4)
    outputs = []
    for (x, c), stride in zip(((n3, 64), (n4, 128), (n5, 256)), _STRIDES, strict=True):
        stem, cells = net.conv(x, (c, c)), (size // stride) ** 2
        scores = net.node("Sigmoid", net.unit(net.conv(stem, (c, c), 3), (c, 80)))
        sides = net.unit(net.conv(stem, (c, c), 3), (c, 4))
        outputs.append(net.node("Reshape", net.join(sides, scores), net.ints(0, 84, cells)))
    sides, scores = net.nodes("Split", net.node("Concat", *outputs, axis=2), net.ints(4, 80), count=2, axis=1)
    y = net.node("Transpose", net.join(net.boxes(sides, size), scores), perm=[0, 2, 1])
    return image_model(net, "yolov6s", (size, size), y, _count(size), 84)


def yolov7(size: int = 640) -> ModelProto:
    """YOLOv7 (Wang et al. 2022, yolov7.yaml), re-parameterized as for deployment."""
    net = _Yolo(7, "Silu")
    body, neck = "110101", "111111"
    x = net.conv(net.conv("x", (3, 32), 3), (32, 64), 3, 2)
    x = net.conv(net.conv(x, (64, 64), 3), (64, 128), 3, 2)
    x = net.elan(x, 128, 64, 256, step=64, taken=body)
    p3 = net.elan(net.halve(x, 256, 128), 256, 128, 512, step=128, taken=body)
    p4 = net.elan(net.halve(p3, 512, 256), 512, 256, 1024, step=256, taken=body)
    p5 = net.elan(net.halve(p4, 1024, 512), 1024, 256, 1024, step=256, taken=body)
    y = net.conv(net.conv(net.conv(p5, (1024, 512)), (512, 512), 3), (512, 512))
    y = net.conv(net.join(y, *(net.pool(y, kernel) for kernel in (5, 9, 13))), (2048, 512))
    y = net.conv(y, (512, 512), 3)
    p5 = net.conv(net.join(y, net.conv(p5, (1024, 512))), (1024, 512))
    x = net.join(net.conv(p4, (1024, 256)), net.twice(net.conv(p5, (512, 256))))
    n4 = net.elan(x, 512, 256, 256, step=128, taken=neck)
    x = net.join(net.conv(p3, (512, 128)), net.twice(net.conv(n4, (256, 128))))
    n3 = net.elan(x, 256, 128, 128, step=64, taken=neck)
    n4 = net.elan(net.halve(n3, 128, 128, n4), 512, 256, 256, step=128, taken=neck)
    n5 = net.elan(net.halve(n4, 256, 256, p5), 1024, 512, 512, step=256, taken=neck)
    levels = [(net.conv(x, (c, 2 * c), 3), 2 * c) for x, c in ((n3, 128), (n4, 256), (n5, 512))]
    return image_model(net, "yolov7", (size, size), net.anchored(levels, size), 3 * _count(size), 85)


def yolov7_tiny(size: int = 640) -> ModelProto:
    """YOLOv7-tiny (Wang et al. 2022, yolov7-tiny.yaml)."""
    net = _Yolo(77, "Leaky")

    def elan(x: str, inner: int, width: int, outer: int) -> str:
        return net.elan(x, inner, width, outer, step=width, taken="1111")

    x = net.conv(net.conv("x", (3, 32), 3, 2), (32, 64), 3, 2)
    x = net.pool(elan(x, 64, 32, 64), 2, 2)
    p3 = elan(x, 64, 64, 128)
    p4 = elan(net.pool(p3, 2, 2), 128, 128, 256)
    x = elan(net.pool(p4, 2, 2), 256, 256, 512)
    y = net.conv(x, (512, 256))
    y = net.conv(net.join(*(net.pool(y, kernel) for kernel in (13, 9, 5)), y), (1024, 256))
    p5 = net.conv(net.join(y, net.conv(x, (512, 256))), (512, 256))
    n4 = elan(net.join(net.conv(p4, (256, 128)), net.twice(net.conv(p5, (256, 128)))), 256, 64, 128)
    n3 = elan(net.join(net.conv(p3, (128, 64)), net.twice(net.conv(n4, (128, 64)))), 128, 32, 64)
    n4 = elan(net.join(net.conv(n3, (64, 128), 3, 2), n4), 256, 64, 128)
    n5 = elan(net.join(net.conv(n4, (128, 256), 3, 2), p5), 512, 128, 256)
    levels = [(net.conv(x, (c, 2 * c), 3), 2 * c) for x, c in ((n3, 64), (n4, 128), (n5, 256))]
    y = net.anchored(levels, size)
    return image_model(net, "yolov7_tiny", (size, size), y, 3 * _count(size), 85)


def yolov9c(size: int = 640) -> ModelProto:
    """YOLOv9-C without its auxiliary branch (Wang et al. 2024, gelan-c.yaml), re-parameterized."""
    net = _Yolo(9, "Silu")

    def block(x: str, inner: int, wide: int, step: int, outer: int) -> str:
        """The block RepNCSPELAN4."""
        parts = net.nodes("Split", net.conv(x, (inner, wide)), count=2, axis=1)
        before = wide // 2
        for _ in range(2):
            y = net.conv(parts[-1], (before, step // 2))
            z = net.conv(parts[-1], (before, step // 2))
            y = net.pair(y, step // 2, residual=True, narrow=False)
            parts.append(net.conv(net.conv(net.join(y, z), (step, step)), (step, step), 3))
            before = step
        return net.conv(net.join(*parts), (wide + 2 * step, outer))

    def halve(x: str, channels: int) -> str:
        """The block ADown."""
        x = net.node("AveragePool", x, kernel_shape=[2, 2], strides=[1, 1])
        left, right = net.nodes("Split", x, count=2, axis=1)
        right = net.node("MaxPool", right, kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)
        half = channels // 2
        return net.join(net.conv(left, (half, half), 3, 2), net.conv(right, (half, half)))

    x = net.conv(net.conv("x", (3, 64), 3, 2), (64, 128), 3, 2)
    x = halve(block(x, 128, 128, 64, 256), 256)
    p3 = block(x, 256, 256, 128, 512)
    p4 = block(halve(p3, 512), 512, 512, 256, 512)
    p5 = block(halve(p4, 512), 512, 512, 256, 512)
    parts = [net.conv(p5, (512, 256))]
    for _ in range(3):
        parts.append(net.pool(parts[-1], 5))
    p5 = net.conv(net.join(*parts), (1024, 512))
    n4 = block(net.join(net.twice(p5), p4), 1024, 512, 256, 512)
    n3 = block(net.join(net.twice(n4), p3), 1024, 256, 128, 256)
    n4 = block(net.join(halve(n3, 256), n4), 768, 512, 256, 512)
    n5 = block(net.join(halve(n4, 512), p5), 1024, 512, 256, 512)

    def branch(wide: int, outer: int, group: int) -> str:
        outputs = []
        for (x, c), stride in zip(((n3, 256), (n4, 512), (n5, 512)), _STRIDES, strict=True):
            y = net.unit(net.conv(x, (c, wide), 3), (wide, wide), 3, group=group, act="Silu")
            y = net.unit(y, (wide, outer), group=group)
            outputs.append(net.node("Reshape", y, net.ints(0, outer, (size // stride) ** 2)))
        return net.node("Concat", *outputs, axis=2)

    y = net.join(
        net.boxes(net.mean_bin(branch(64, 64, 4), size), size), net.node("Sigmoid", branch(256, 80, 1))
    )
    return image_model(net, "yolov9c", (size, size), y, 84, _count(size))


_WIDTHS = {"n": (16, 32, 64, 128, 256), "s": (32, 64, 128, 256, 512), "m": (48, 96, 192, 384, 576)}


def yolov8(variant: str, size: int = 640, *, task: str = "detect") -> ModelProto:
    """YOLOv8 (Jocher et al. 2023, yolov8.yaml).

    Args:
        variant: "n", "s" or "m".
        size: height and width.
        task: "detect", or "segment" or "pose", which have a further branch.
    """
    net = _Yolo(8, "Silu")
    c1, c2, c3, c4, c5 = _WIDTHS[variant]
    more = 2 if variant == "m" else 1
    x = net.conv(net.conv("x", (3, c1), 3, 2), (c1, c2), 3, 2)
    x = net.conv(net.c2f(x, (c2, c2), more), (c2, c3), 3, 2)
    p3 = net.c2f(x, (c3, c3), 2 * more)
    p4 = net.c2f(net.conv(p3, (c3, c4), 3, 2), (c4, c4), 2 * more)
    p5 = net.spp(net.c2f(net.conv(p4, (c4, c5), 3, 2), (c5, c5), more), c5)
    n4 = net.c2f(net.join(net.twice(p5), p4), (c5 + c4, c4), more, residual=False)
    n3 = net.c2f(net.join(net.twice(n4), p3), (c4 + c3, c3), more, residual=False)
    n4 = net.c2f(net.join(net.conv(n3, (c3, c3), 3, 2), n4), (c3 + c4, c4), more, residual=False)
    n5 = net.c2f(net.join(net.conv(n4, (c4, c4), 3, 2), p5), (c4 + c5, c5), more, residual=False)
    levels = ((n3, c3), (n4, c4), (n5, c5))
    classes = 1 if task == "pose" else 80
    extra = {"detect": 0, "segment": 32, "pose": 51}[task]

    def branch(wide: int, outer: int) -> str:
        outputs = []
        for (x, c), stride in zip(levels, _STRIDES, strict=True):
            y = net.unit(net.conv(net.conv(x, (c, wide), 3), (wide, wide), 3), (wide, outer))
            outputs.append(net.node("Reshape", y, net.ints(0, outer, (size // stride) ** 2)))
        return net.node("Concat", *outputs, axis=2)

    sides = net.mean_bin(branch(max(16, c3 // 4, 64), 64), size)
    scores = net.node("Sigmoid", branch(max(c3, min(classes, 100)), classes))
    parts = [net.boxes(sides, size), scores]
    if extra:
        parts.append(branch(max(c3 // 4, extra), extra))
    y = net.join(*parts)
    rows = 4 + classes + extra
    model = image_model(net, f"yolov8{variant}-{task}", (size, size), y, rows, _count(size))
    return _with_masks(net, model, n3, c3, size) if task == "segment" else model


def _with_masks(net: _Yolo, model: ModelProto, x: str, channels: int, size: int) -> ModelProto:
    """The same with the 32 prototypes of masks as a further output."""
    y = net.upward(net.conv(x, (channels, channels), 3), (channels, channels))
    y = net.conv(net.conv(y, (channels, channels), 3), (channels, 32))
    masks = image_model(net, "masks", (size, size), y, 32, size // 4, size // 4)
    masks.graph.name = model.graph.name
    masks.graph.output.insert(0, model.graph.output[0])
    return masks
