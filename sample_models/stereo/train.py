"""Train the stereo sample on random-dot pairs, and export it as PyTorch's TorchScript-based exporter does.

A small matcher of the PSMNet family: features of both images, truncated differences of them for every
disparity, a 3-D encoder-decoder, and a soft argmax around the best disparity. It learns pairs that are
made here: a scene of textured rectangles, each as far to the left in the right image as its disparity.
Needs, for this script only: ``pip install torch onnx``. Takes 15 seconds on one CPU core.

    stereo.onnx   inputs ``left``, ``right`` float32 [N, 3, H, W] in 0..1, output ``disparity`` float32
                  [N, H, W] in pixels; H and W are multiples of 8
    calib.npz     8 pairs that training did not see: ``left``, ``right`` [8, 3, 48, 96], and what was
                  drawn, ``truth`` [8, 48, 96]
"""

from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

FOLDER = Path(__file__).parent
SEED = 0
HEIGHT, WIDTH = 48, 96
LEVELS = 8
"""Disparities of the cost volume, in pixels of the features: a quarter of the image's."""
STEPS, BATCH, CALIB = 250, 4, 8


def conv_bn(conv: type[nn.Module], inputs: int, outputs: int, stride: int = 1) -> nn.Sequential:
    """A 3x3 or 3x3x3 convolution, batch norm and ReLU."""
    norm = nn.BatchNorm2d if conv is nn.Conv2d else nn.BatchNorm3d
    return nn.Sequential(conv(inputs, outputs, 3, stride, 1, bias=False), norm(outputs), nn.ReLU())


class Stereo(nn.Module):
    """Disparity of the left image."""

    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(
            conv_bn(nn.Conv2d, 3, 16, 2),
            conv_bn(nn.Conv2d, 16, 32, 2),
            conv_bn(nn.Conv2d, 32, 32),
            nn.Conv2d(32, 16, 3, padding=1),
        )
        self.fine = conv_bn(nn.Conv3d, 16, 16)
        self.down = conv_bn(nn.Conv3d, 16, 32, 2)
        self.coarse = conv_bn(nn.Conv3d, 32, 32)
        # 3-D deconvolution with output_padding: TensorRT before 8.4 has no asymmetric one.
        self.up = nn.ConvTranspose3d(32, 16, 3, stride=2, padding=1, output_padding=1)
        self.score = nn.Conv3d(16, 1, 3, padding=1)

    def volume(self, left: Tensor, right: Tensor) -> Tensor:
        """Features [N, 16, h, w] of both images to their differences [N, 16, LEVELS, h, w]."""
        width = left.shape[3]
        # The right image's features, moved to the right by each disparity; zeros come in.
        moved = [functional.pad(right, (level, 0))[..., :width] for level in range(LEVELS)]
        difference = (left.unsqueeze(2) - torch.stack(moved, 2)).abs()
        return torch.clamp(difference, max=2.0)  # Clip without a minimum

    def forward(self, left: Tensor, right: Tensor) -> Tensor:
        """[N, 3, H, W] twice to [N, H, W]."""
        x = self.fine(self.volume(self.features(left), self.features(right)))
        x = torch.relu(self.up(self.coarse(self.down(x))) + x)
        size = (LEVELS, left.shape[2], left.shape[3])
        # The exporter loses the channel count here, so that the squeeze becomes an If.
        scores = torch.squeeze(functional.interpolate(self.score(x), size, mode="nearest"), 1)
        best = scores.argmax(1, keepdim=True)
        # The best disparity and its neighbours: GatherElements of their scores.
        near = torch.cat([best - 1, best, best + 1], 1).float().clamp(0, LEVELS - 1)
        weights = torch.gather(scores, 1, near.long()).softmax(1)
        return 4 * (weights * near).sum(1).clamp(min=0)  # Clip without a maximum


def texture(random: np.random.Generator, height: int, width: int) -> np.ndarray:
    """Uint8 [3, height, width]: colored dots of two pixels, on three octaves."""
    total = np.zeros((3, height, width))
    for size in (2, 4, 8):
        dots = random.random((3, height // size + 1, width // size + 1))
        total += dots.repeat(size, 1).repeat(size, 2)[:, :height, :width]
    return np.round(total * 85).astype(np.uint8)


def pair(random: np.random.Generator) -> dict[str, np.ndarray]:
    """A scene: uint8 ``left`` and ``right`` [3, HEIGHT, WIDTH], float32 ``truth`` [HEIGHT, WIDTH]."""
    most = 4 * (LEVELS - 2)
    left = texture(random, HEIGHT, WIDTH + most)
    base = int(random.integers(2, 8))
    right, truth = np.roll(left, -base, 2), np.full(left.shape[1:], base, np.float32)
    for disparity in sorted(random.integers(base, most, 3)):  # the nearest is drawn last
        height, width = random.integers(14, 32), random.integers(20, 48)
        y, x = random.integers(0, HEIGHT - height), random.integers(0, WIDTH + most - width)
        patch = texture(random, height, width)
        left[:, y : y + height, x : x + width] = patch
        truth[y : y + height, x : x + width] = disparity
        start = max(x - disparity, 0)
        right[:, y : y + height, start : x - disparity + width] = patch[:, :, start - x + disparity :]
    cut = slice(most, None)
    return {"left": left[..., cut], "right": right[..., cut], "truth": truth[..., cut]}


def batch(random: np.random.Generator, count: int) -> dict[str, np.ndarray]:
    """Pairs, as the model's inputs take them."""
    pairs = [pair(random) for _ in range(count)]
    stacked = {name: np.stack([one[name] for one in pairs]) for name in pairs[0]}
    return {k: v if k == "truth" else (v / 255).astype(np.float32) for k, v in stacked.items()}


def train(random: np.random.Generator) -> Stereo:
    """Fit by AdamW under a one-cycle schedule; the same weights in every run on one machine."""
    torch.manual_seed(SEED)
    torch.set_num_threads(1)
    net = Stereo()
    optimizer = torch.optim.AdamW(net.parameters())
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=5e-3, total_steps=STEPS)
    for step in range(STEPS):
        data = {name: torch.from_numpy(array) for name, array in batch(random, BATCH).items()}
        loss = functional.smooth_l1_loss(net(data["left"], data["right"]), data["truth"])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        if step % 50 == 49:
            print(f"step {step + 1}: loss {loss:.3f}")
    return net.eval()


def export(net: Stereo, path: Path) -> None:
    """Write the ONNX file with dynamic batch, height and width, in TensorRT 7's opset."""
    images = torch.zeros(1, 3, HEIGHT, WIDTH)
    dims = {0: "N", 2: "H", 3: "W"}
    torch.onnx.export(
        net,
        (images, images),
        str(path),
        input_names=["left", "right"],
        output_names=["disparity"],
        dynamic_axes={"left": dims, "right": dims, "disparity": {0: "N", 1: "H", 2: "W"}},
        opset_version=11,
        dynamo=False,
    )


def main() -> None:
    """Train, export, and write the calibration data."""
    random = np.random.default_rng(SEED)
    data = batch(random, CALIB)
    export(train(random), FOLDER / "stereo.onnx")
    np.savez_compressed(FOLDER / "calib.npz", **data)


if __name__ == "__main__":
    main()
