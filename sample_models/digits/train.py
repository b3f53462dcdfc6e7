"""Train the digits sample and write every file of this folder.

A small residual CNN learns scikit-learn's handwritten digits (1797 gray 8x8 images). It is exported
with its BatchNormalization nodes, as many exporters leave them. Needs, for this script only:
``pip install torch onnx scikit-learn Pillow``. Takes half a minute on one CPU core.

    digits.onnx    input ``image`` float32 [N, 1, 8, 8] in 0..1, output ``logits`` float32 [N, 10]
    calib/*.png    128 of the training images; a pixel divided by 255 is the model's input
    test.npz       the 600 held-out images (``image``) and what they show (``labels``)
"""

from pathlib import Path

import numpy as np
import torch
from PIL import Image
from sklearn.datasets import load_digits
from torch import Tensor, nn

FOLDER = Path(__file__).parent
SEED = 0
TEST, CALIB = 600, 128
EPOCHS, BATCH = 40, 64


def conv_bn(inputs: int, outputs: int, stride: int = 1) -> nn.Sequential:
    """A 3x3 convolution and its batch norm, which stand in for the convolution's bias."""
    conv = nn.Conv2d(inputs, outputs, 3, stride, padding=1, bias=False)
    return nn.Sequential(conv, nn.BatchNorm2d(outputs))


class Residual(nn.Module):
    """``relu(f(x) + x)``, where f is two 3x3 convolutions."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.first = conv_bn(channels, channels)
        self.second = conv_bn(channels, channels)

    def forward(self, x: Tensor) -> Tensor:
        """[N, C, H, W] to the same shape."""
        return torch.relu(self.second(torch.relu(self.first(x))) + x)


class DigitsNet(nn.Module):
    """Stem and residual block at 8x8, a two-branch reduction, a residual block at 4x4, a head."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = conv_bn(1, 32)
        self.fine = Residual(32)
        self.reduce = conv_bn(32, 32, stride=2)
        self.pool = nn.MaxPool2d(2)
        self.coarse = Residual(64)
        self.head = nn.Linear(64, 10)

    def forward(self, image: Tensor) -> Tensor:
        """[N, 1, 8, 8] in 0..1 to the logits [N, 10]."""
        x = self.fine(torch.relu(self.stem(image)))
        x = torch.cat([torch.relu(self.reduce(x)), self.pool(x)], dim=1)
        return self.head(self.coarse(x).mean(dim=(2, 3)))


def load() -> tuple[np.ndarray, np.ndarray]:
    """The digits in a fixed random order: uint8 images [1797, 8, 8] and int64 labels [1797]."""
    digits = load_digits()
    # The source has 17 gray levels, 0..16. As 8-bit pixels they are what a PNG file can hold.
    pixels = np.round(digits.images * (255 / 16)).astype(np.uint8)
    order = np.random.default_rng(SEED).permutation(len(pixels))
    return pixels[order], digits.target[order].astype(np.int64)


def as_input(pixels: np.ndarray) -> np.ndarray:
    """Uint8 pixels [N, 8, 8] to the model's input, float32 [N, 1, 8, 8] in 0..1."""
    return (pixels[:, None] / 255).astype(np.float32)


def jittered(images: Tensor) -> Tensor:
    """The batch, each image moved by up to one pixel along both axes."""
    padded = nn.functional.pad(images, (1, 1, 1, 1))
    rows, columns = torch.randint(0, 3, (2, len(images))).tolist()
    moved = [p[:, r : r + 8, c : c + 8] for p, r, c in zip(padded, rows, columns, strict=True)]
    return torch.stack(moved)


def train(images: Tensor, labels: Tensor) -> DigitsNet:
    """Fit by AdamW under a one-cycle schedule; the same weights in every run on one machine."""
    torch.manual_seed(SEED)
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    net = DigitsNet()
    optimizer = torch.optim.AdamW(net.parameters(), weight_decay=0.05)
    steps = EPOCHS * (len(images) // BATCH)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=5e-3, total_steps=steps)
    for _ in range(EPOCHS):
        # A last, short batch would make batch norm's statistics noisy: it is left out.
        for batch in torch.randperm(len(images)).split(BATCH)[: len(images) // BATCH]:
            loss = nn.functional.cross_entropy(
                net(jittered(images[batch])), labels[batch], label_smoothing=0.05
            )
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
    return net.eval()


def export(net: DigitsNet, path: Path) -> None:
    """Write the ONNX file with a dynamic batch, every BatchNormalization as its own node."""
    torch.onnx.export(
        net,
        (torch.zeros(2, 1, 8, 8),),
        str(path),
        input_names=["image"],
        output_names=["logits"],
        dynamic_axes={"image": {0: "N"}, "logits": {0: "N"}},
        opset_version=17,
        dynamo=False,
        # The net is in eval mode already; EVAL here would fold batch norm into the convolutions.
        training=torch.onnx.TrainingMode.PRESERVE,
        do_constant_folding=False,
    )


def main() -> None:
    """Train, export, and write the calibration and test data."""
    pixels, labels = load()
    seen, held_out = slice(TEST, None), slice(TEST)
    images = as_input(pixels)
    net = train(torch.from_numpy(images[seen]), torch.from_numpy(labels[seen]))
    export(net, FOLDER / "digits.onnx")

    (FOLDER / "calib").mkdir(exist_ok=True)
    for i in range(CALIB):
        Image.fromarray(pixels[seen][i]).save(FOLDER / "calib" / f"{i:03}.png")
    np.savez_compressed(FOLDER / "test.npz", image=images[held_out], labels=labels[held_out])


if __name__ == "__main__":
    main()
