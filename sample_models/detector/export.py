"""Export a small YOLO-style detector, all sizes dynamic, as PyTorch's TorchScript-based exporter does.

A backbone of three stages, an SPPF, a top-down neck and three heads; SiLU everywhere. Where height and
width are dynamic, the exporter writes every size that PyTorch computes into the graph: an upsampling
is `Shape, Gather, Cast, Mul, Cast, Floor, ..., Concat, Resize`, a head's view is `Shape, Gather, ...,
Concat, Reshape`. The weights are random but fixed, and spread so that int8 has ranges to choose.
Needs, for this script only: ``pip install torch onnx``. Takes seconds.

    detector.onnx   input ``image`` float32 [N, 3, H, W] in 0..1, output ``boxes`` float32
                    [N, 3 * (H/8 * W/8 + H/16 * W/16 + H/32 * W/32), 9]; H and W are multiples of 32
    calib.npz       12 scenes of rectangles and discs: ``image`` [12, 3, 160, 160]
"""

from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

FOLDER = Path(__file__).parent
SEED = 0
SIZE, CALIB = 160, 12
ANCHORS, VALUES = 3, 9
"""Boxes of a cell, and the values of a box: its center, size and objectness, and four classes."""


def conv(inputs: int, outputs: int, kernel: int = 3, stride: int = 1) -> nn.Sequential:
    """A convolution, batch norm and SiLU."""
    layer = nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, bias=False)
    return nn.Sequential(layer, nn.BatchNorm2d(outputs), nn.SiLU())


class Split(nn.Module):
    """A CSP block: half of the channels pass a residual bottleneck, half go around it."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        half = outputs // 2
        self.through, self.around = conv(inputs, half, 1), conv(inputs, half, 1)
        self.squeeze, self.widen = conv(half, half, 1), conv(half, half)
        self.join = conv(outputs, outputs, 1)

    def forward(self, x: Tensor) -> Tensor:
        """[N, inputs, h, w] to [N, outputs, h, w]."""
        y = self.through(x)
        y = y + self.widen(self.squeeze(y))
        return self.join(torch.cat([y, self.around(x)], 1))


class PoolPyramid(nn.Module):
    """SPPF: a chain of three max-pools, all of it concatenated."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.narrow, self.join = conv(channels, channels // 2, 1), conv(2 * channels, channels, 1)
        self.pool = nn.MaxPool2d(5, 1, 2)

    def forward(self, x: Tensor) -> Tensor:
        """[N, channels, h, w] to the same shape."""
        pooled = [self.narrow(x)]
        for _ in range(3):
            pooled.append(self.pool(pooled[-1]))
        return self.join(torch.cat(pooled, 1))


class Detector(nn.Module):
    """Boxes on three grids, of strides 8, 16 and 32."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(conv(3, 16, stride=2), conv(16, 16, stride=2))
        self.stage8 = nn.Sequential(conv(16, 32, stride=2), Split(32, 32))
        self.stage16 = nn.Sequential(conv(32, 48, stride=2), Split(48, 48))
        self.stage32 = nn.Sequential(conv(48, 64, stride=2), PoolPyramid(64))
        self.neck16, self.neck8 = Split(64 + 48, 48), Split(48 + 32, 32)
        self.heads = nn.ModuleList(nn.Conv2d(n, ANCHORS * VALUES, 1) for n in (32, 48, 64))

    def forward(self, image: Tensor) -> Tensor:
        """[N, 3, H, W] to [N, boxes, VALUES]."""
        fine = self.stage8(self.stem(image))
        middle = self.stage16(fine)
        coarse = self.stage32(middle)
        middle = self.neck16(torch.cat([self.upsample(coarse), middle], 1))
        fine = self.neck8(torch.cat([self.upsample(middle), fine], 1))
        maps = zip(self.heads, (fine, middle, coarse), strict=True)
        return torch.cat([self.boxes(head(x)) for head, x in maps], 1)

    @staticmethod
    def upsample(x: Tensor) -> Tensor:
        """[N, C, h, w] to [N, C, 2h, 2w], as exports from before PyTorch 1.5 have it."""
        return functional.interpolate(x, scale_factor=2.0, mode="nearest", recompute_scale_factor=True)

    @staticmethod
    def boxes(x: Tensor) -> Tensor:
        """A head's map [N, ANCHORS * VALUES, h, w] to [N, ANCHORS * h * w, VALUES] in 0..1."""
        n, _, h, w = x.shape
        x = x.view(n, ANCHORS, VALUES, h, w).permute(0, 1, 3, 4, 2)
        return x.reshape(n, ANCHORS * h * w, VALUES).sigmoid()


def scene(random: np.random.Generator) -> np.ndarray:
    """Uint8 [3, SIZE, SIZE]: a gradient with rectangles and discs before it."""
    y, x = np.mgrid[:SIZE, :SIZE] / SIZE
    slopes = random.random((3, 3, 1, 1))
    image = 85 * (slopes[0] + slopes[1] * x + slopes[2] * y)
    for kind in random.integers(0, 2, 8):
        center, radius = random.random(2), random.uniform(0.05, 0.2, 2)
        u, v = (y - center[0]) / radius[0], (x - center[1]) / radius[1]
        inside = np.hypot(u, v) < 1 if kind else np.maximum(abs(u), abs(v)) < 1
        image = np.where(inside, random.uniform(0, 255, (3, 1, 1)), image)
    return np.round(image).astype(np.uint8)


def normalized(net: Detector, images: Tensor) -> Detector:
    """The net with random weights, its batch norms set to the statistics of the images."""
    for module in net.modules():
        if isinstance(module, nn.BatchNorm2d):
            nn.init.uniform_(module.weight, 0.5, 2.0)
            nn.init.normal_(module.bias, 0.0, 0.3)
            module.momentum = None  # the plain mean over all batches
    with torch.no_grad():
        net.train()(images)
    return net.eval()


def export(net: Detector, path: Path) -> None:
    """Write the ONNX file with dynamic batch, height and width."""
    torch.onnx.export(
        net,
        (torch.zeros(1, 3, SIZE, SIZE),),
        str(path),
        input_names=["image"],
        output_names=["boxes"],
        dynamic_axes={"image": {0: "N", 2: "H", 3: "W"}, "boxes": {0: "N", 1: "boxes"}},
        opset_version=11,
        dynamo=False,
    )


def main() -> None:
    """Write the model and the calibration data."""
    torch.manual_seed(SEED)
    torch.set_num_threads(1)
    random = np.random.default_rng(SEED)
    images = (np.stack([scene(random) for _ in range(CALIB)]) / 255).astype(np.float32)
    export(normalized(Detector(), torch.from_numpy(images)), FOLDER / "detector.onnx")
    np.savez_compressed(FOLDER / "calib.npz", image=images)


if __name__ == "__main__":
    main()
