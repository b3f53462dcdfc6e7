"""Export a small classifier the way files from 2018 look: IR 3, weights as graph inputs, opset 9.

Until IR 4 every weight had to be listed among the inputs as well, and node names were often empty
or the same for all nodes of a kind. PyTorch's TorchScript-based exporter still writes the former;
the latter is done to its file here, since it now gives every node a name of its own.
Needs, for this script only: ``pip install torch onnx``. Takes seconds.

    initializers_as_inputs.onnx   input ``image`` float32 [N, 3, 32, 32] in 0..1, output ``scores``
                                  float32 [N, 10]; 18 weights that are inputs too
    calib.npz                     16 images of random gratings: ``image`` [16, 3, 32, 32]
"""

from pathlib import Path

import numpy as np
import onnx
import torch
from torch import Tensor, nn
from torch.nn import functional

FOLDER = Path(__file__).parent
SEED = 0
SIZE, CALIB = 32, 16


class Classifier(nn.Module):
    """Two scales joined by an upsampling, and a fully connected head."""

    def __init__(self) -> None:
        super().__init__()
        self.stem, self.stem_norm = nn.Conv2d(3, 16, 3, padding=1, bias=False), nn.BatchNorm2d(16)
        self.down, self.down_norm = nn.Conv2d(16, 32, 3, 2, 1, bias=False), nn.BatchNorm2d(32)
        self.deep = nn.Conv2d(32, 32, 3, 2, 1)
        self.join = nn.Conv2d(64, 32, 1)
        self.hidden, self.scores = nn.Linear(32 * 4 * 4, 48), nn.Linear(48, 10)

    def forward(self, image: Tensor) -> Tensor:
        """[N, 3, SIZE, SIZE] to the scores [N, 10]."""
        x = functional.relu6(self.stem_norm(self.stem(image * 2 - 1)))
        x = functional.relu6(self.down_norm(self.down(x)))
        # An Upsample at opset 9, its scales from a Constant node.
        deep = functional.interpolate(torch.relu(self.deep(x)), scale_factor=2.0, mode="nearest")
        x = torch.relu(self.join(torch.cat([x, deep], 1)))
        x = functional.dropout(functional.avg_pool2d(x, 4).flatten(1), 0.1, self.training)
        return self.scores(torch.relu(self.hidden(x)))


def normalized(net: Classifier, images: Tensor) -> Classifier:
    """The net with its batch norms set to the statistics of the images."""
    for module in net.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.momentum = None  # the plain mean over all batches
    with torch.no_grad():
        net.train()(images)
    return net.eval()


def grating(random: np.random.Generator) -> np.ndarray:
    """Uint8 [3, SIZE, SIZE]: a colored wave of random direction and length."""
    y, x = np.mgrid[:SIZE, :SIZE]
    angle, length = random.uniform(0, np.pi), random.uniform(4, 16)
    wave = np.sin(2 * np.pi * (x * np.cos(angle) + y * np.sin(angle)) / length)
    return np.round(random.uniform(40, 127, (3, 1, 1)) * (1 + wave)).astype(np.uint8)


def with_old_names(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model as IR 3, its nodes with no names, but for the convolutions: all of them ``conv``."""
    model.ir_version = 3
    for node in model.graph.node:
        node.name = "conv" if node.op_type == "Conv" else ""
    return model


def export(net: Classifier, path: Path) -> None:
    """Write the ONNX file with a dynamic batch."""
    torch.onnx.export(
        net,
        (torch.zeros(1, 3, SIZE, SIZE),),
        str(path),
        input_names=["image"],
        output_names=["scores"],
        dynamic_axes={"image": {0: "N"}, "scores": {0: "N"}},
        opset_version=9,
        dynamo=False,
        keep_initializers_as_inputs=True,
        do_constant_folding=False,
        # The net is in eval mode already; EVAL here would fold batch norm into the convolutions.
        training=torch.onnx.TrainingMode.PRESERVE,
    )
    onnx.save(with_old_names(onnx.load(path)), path)


def main() -> None:
    """Write the model and the calibration data."""
    torch.manual_seed(SEED)
    torch.set_num_threads(1)
    random = np.random.default_rng(SEED)
    images = (np.stack([grating(random) for _ in range(CALIB)]) / 255).astype(np.float32)
    net = normalized(Classifier(), torch.from_numpy(images))
    export(net, FOLDER / "initializers_as_inputs.onnx")
    np.savez_compressed(FOLDER / "calib.npz", image=images)


if __name__ == "__main__":
    main()
