"""YOLOv8."""

from __future__ import annotations

import numpy as np
import onnx

from benchmarks.nets.builder import Builder
from benchmarks.nets.feeds import batch
from benchmarks.nets.sizes import size_of

_CLASSES, _BINS, _STRIDES, _TAIL = 80, 16, (8, 16, 32), 0.5


def yolov8n(*, size: int | None = None, small: bool = False) -> onnx.ModelProto:
    """YOLOv8n (Jocher et al. 2023, yolov8.yaml): 3.2 M weights, 64 convolutions, 4.4 GMAC at 640 x 640.

    The output is [N, 84, A]: center, width and height in pixels and 80 scores for each of A boxes,
    8,400 at 640 x 640.

    Args:
        size: height and width of the input `x`, [N, 3, size, size], multiples of 32; 640 by default.
        small: half the channels, at 128 x 128.
    """
    size = size or size_of("yolov8n", small=small)
    net = _Yolo(Builder(seed=8, samples=batch("yolov8n", size, small=small)))
    c1, c2, c3, c4, c5 = (width // (2 if small else 1) for width in (16, 32, 64, 128, 256))
    x = net.conv(net.conv("x", (3, c1), 3, 2), (c1, c2), 3, 2)
    x = net.conv(net.c2f(x, (c2, c2), 1), (c2, c3), 3, 2)
    p3 = net.c2f(x, (c3, c3), 2)
    p4 = net.c2f(net.conv(p3, (c3, c4), 3, 2), (c4, c4), 2)
    p5 = net.pyramid(net.c2f(net.conv(p4, (c4, c5), 3, 2), (c5, c5), 1), c5)
    n4 = net.c2f(net.concat(net.twice(p5), p4), (c5 + c4, c4), 1, residual=False)
    n3 = net.c2f(net.concat(net.twice(n4), p3), (c4 + c3, c3), 1, residual=False)
    n4 = net.c2f(net.concat(net.conv(n3, (c3, c3), 3, 2), n4), (c3 + c4, c4), 1, residual=False)
    n5 = net.c2f(net.concat(net.conv(n4, (c4, c4), 3, 2), p5), (c4 + c5, c5), 1, residual=False)
    heads = [net.head(level, c, c3) for level, c in ((n3, c3), (n4, c4), (n5, c5))]
    boxes = sum((size // stride) ** 2 for stride in _STRIDES)
    return net.graph.image_model("yolov8n", size, net.decode(heads, size), 4 + _CLASSES, boxes)


class _Yolo:
    """The modules that the net is made of."""

    def __init__(self, graph: Builder) -> None:
        self.graph = graph

    def conv(self, x: str, channels: tuple[int, int], kernel: int, stride: int = 1) -> str:
        return self.graph.silu(self.graph.conv(x, channels, kernel, stride=stride, scale=1.5, tail=_TAIL))

    def concat(self, *parts: str) -> str:
        return self.graph.node("Concat", *parts, axis=1)

    def c2f(self, x: str, channels: tuple[int, int], count: int, *, residual: bool = True) -> str:
        """A cross-stage partial block: half the channels pass it, all steps of the others leave it."""
        inner, outer = channels
        half = outer // 2
        parts = self.graph.nodes("Split", self.conv(x, (inner, outer), 1), count=2, axis=1)
        for _ in range(count):
            y = self.conv(self.conv(parts[-1], (half, half), 3), (half, half), 3)
            parts.append(self.graph.node("Add", parts[-1], y) if residual else y)
        return self.conv(self.concat(*parts), ((2 + count) * half, outer), 1)

    def pyramid(self, x: str, channels: int) -> str:
        """Spatial pyramid pooling: the maxima of 5 x 5, 9 x 9 and 13 x 13."""
        parts = [self.conv(x, (channels, channels // 2), 1)]
        for _ in range(3):
            parts.append(self.graph.node("MaxPool", parts[-1], kernel_shape=[5, 5], pads=[2] * 4))
        return self.conv(self.concat(*parts), (2 * channels, channels), 1)

    def twice(self, x: str) -> str:
        """Twice the height and width."""
        scales = self.graph.floats(np.array([1, 1, 2, 2]))
        how = {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
        return self.graph.node("Resize", x, "", scales, **how)

    def head(self, x: str, channels: int, smallest: int) -> str:
        """Distances of the sides, in bins, and scores of a level: [N, 144, positions]."""
        outputs = []
        for wide, outer in ((smallest, 4 * _BINS), (max(smallest, _CLASSES), _CLASSES)):
            y = self.conv(self.conv(x, (channels, wide), 3), (wide, wide), 3)
            outputs.append(self.graph.plain_conv(y, (wide, outer), 1))
        return self.graph.node("Reshape", self.concat(*outputs), self.graph.ints(0, 4 * _BINS + _CLASSES, -1))

    def decode(self, heads: list[str], size: int) -> str:
        """Boxes and scores. A distance is the mean over its bins (Li et al. 2020, eq. 2)."""
        graph, centers, strides = self.graph, *_anchors(size)
        x = graph.node("Concat", *heads, axis=2)
        sides, scores = graph.nodes("Split", x, graph.ints(4 * _BINS, _CLASSES), count=2, axis=1)
        bins = graph.node("Reshape", sides, graph.ints(0, 4, _BINS, -1))
        bins = graph.node("Softmax", graph.node("Transpose", bins, perm=[0, 2, 1, 3]), axis=1)
        numbers = graph.floats(np.arange(_BINS).reshape(1, _BINS, 1, 1))
        distances = graph.node("Conv", bins, numbers, kernel_shape=[1, 1])
        distances = graph.node("Reshape", distances, graph.ints(0, 4, -1))
        before, after = graph.nodes("Split", distances, count=2, axis=1)
        anchors = graph.floats(centers)
        low, high = graph.node("Sub", anchors, before), graph.node("Add", anchors, after)
        middle = graph.node("Div", graph.node("Add", low, high), graph.scalar(2))
        boxes = self.concat(middle, graph.node("Sub", high, low))
        boxes = graph.node("Mul", boxes, graph.floats(strides))
        return self.concat(boxes, graph.node("Sigmoid", scores))


def _anchors(size: int) -> tuple[np.ndarray, np.ndarray]:
    """The centers of all positions, x and y in cells, [1, 2, A], and the pixels of a cell, [1, 1, A]."""
    centers, strides = [], []
    for stride in _STRIDES:
        y, x = np.mgrid[: size // stride, : size // stride] + 0.5
        centers.append(np.stack([x.reshape(-1), y.reshape(-1)]))
        strides.append(np.full((1, x.size), stride))
    return np.concatenate(centers, 1)[None], np.concatenate(strides, 1)[None]
