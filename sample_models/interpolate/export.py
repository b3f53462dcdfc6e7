"""Export an encoder-decoder with the five ways to call ``F.interpolate``, at opset 11 and 17.

Each leaves another graph: a constant scale, constant sizes, sizes computed from another tensor's shape,
sizes computed by multiplying and flooring a shape, and cubic or corner-aligned coordinates, which not
every TensorRT takes. The weights are random but fixed, and batch norms hold the statistics of the data.
Needs, for this script only: ``pip install torch onnx``. Takes seconds.

    interpolate_11.onnx, interpolate_17.onnx
                 the same network at two opsets: input ``image`` float32 [N, 3, H, W] in 0..1, output
                 ``depth`` float32 [N, 1, H, W]; H and W are multiples of 8
    calib.npz    8 smooth random images: ``image`` [8, 3, 64, 64]
"""

from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import interpolate

FOLDER = Path(__file__).parent
SEED = 0
SIZE, CALIB = 64, 8


def conv(inputs: int, outputs: int, stride: int = 1) -> nn.Sequential:
    """A 3x3 convolution, batch norm and ReLU."""
    layer = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
    return nn.Sequential(layer, nn.BatchNorm2d(outputs), nn.ReLU())


class EncoderDecoder(nn.Module):
    """Three strides down, a context of fixed size, three upsamplings with skips."""

    def __init__(self) -> None:
        super().__init__()
        self.down1, self.down2 = conv(3, 16), conv(16, 32, 2)
        self.down3, self.down4 = conv(32, 32, 2), conv(32, 48, 2)
        self.context = conv(48, 48)
        self.up3, self.up2, self.up1 = conv(48 + 32, 32), conv(32 + 32, 32), conv(32 + 16, 16)
        self.depth = nn.Conv2d(16, 1, 3, padding=1)

    def forward(self, image: Tensor) -> Tensor:
        """[N, 3, H, W] to [N, 1, H, W]."""
        a = self.down1(image)
        b = self.down2(a)
        c = self.down3(b)
        d = self.down4(c)
        # 1. Sizes as numbers; bilinear, corners aligned.
        context = self.context(interpolate(d, size=(4, 4), mode="bilinear", align_corners=True))
        # 2. Sizes of another tensor; bilinear.
        x = d + interpolate(context, size=d.shape[2:], mode="bilinear", align_corners=False)
        # 3. A scale, nearest.
        x = self.up3(torch.cat([interpolate(x, scale_factor=2.0, mode="nearest"), c], 1))
        # 4. A scale that becomes sizes: Shape, Cast, Mul, Cast, Floor.
        x = interpolate(x, scale_factor=2.0, mode="bilinear", recompute_scale_factor=True)
        x = self.up2(torch.cat([x, b], 1))
        # 5. Sizes of another tensor, bicubic.
        x = interpolate(x, size=a.shape[2:], mode="bicubic", align_corners=False)
        return self.depth(self.up1(torch.cat([x, a], 1)))


def normalized(net: EncoderDecoder, images: Tensor) -> EncoderDecoder:
    """The net with its batch norms set to the statistics of the images."""
    for module in net.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.momentum = None  # the plain mean over all batches
    with torch.no_grad():
        net.train()(images)
    return net.eval()


def smooth(random: np.random.Generator) -> np.ndarray:
    """Uint8 [3, SIZE, SIZE]: random values on an 8x8 grid, and bilinear ones between them."""
    grid = torch.from_numpy(random.random((1, 3, 8, 8)))
    image = interpolate(grid, size=(SIZE, SIZE), mode="bilinear", align_corners=True)
    return np.round(255 * image[0].numpy()).astype(np.uint8)


def export(net: EncoderDecoder, path: Path, opset: int) -> None:
    """Write the ONNX file with dynamic batch, height and width."""
    dims = {0: "N", 2: "H", 3: "W"}
    torch.onnx.export(
        net,
        (torch.zeros(1, 3, SIZE, SIZE),),
        str(path),
        input_names=["image"],
        output_names=["depth"],
        dynamic_axes={"image": dims, "depth": dims},
        opset_version=opset,
        dynamo=False,
    )


def main() -> None:
    """Write the two models and the calibration data."""
    torch.manual_seed(SEED)
    torch.set_num_threads(1)
    random = np.random.default_rng(SEED)
    images = (np.stack([smooth(random) for _ in range(CALIB)]) / 255).astype(np.float32)
    net = normalized(EncoderDecoder(), torch.from_numpy(images))
    for opset in (11, 17):
        export(net, FOLDER / f"interpolate_{opset}.onnx", opset)
    np.savez_compressed(FOLDER / "calib.npz", image=images)


if __name__ == "__main__":
    main()
