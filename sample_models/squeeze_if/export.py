"""Export four small heads around ``torch.squeeze``; three of the files hold an ONNX ``If``.

``torch.squeeze(x, 1)`` removes axis 1 only where its size is one. Where PyTorch's TorchScript-based
exporter (``dynamo=False``) does not know that size, it leaves the choice in the graph: an ``If`` on
``Shape(x)[1] == 1`` between ``Squeeze(x, 1)`` and ``Identity(x)``, branches of different rank.
Needs, for this script only: ``pip install torch onnx``.
"""

from pathlib import Path

import torch
from torch import Tensor, nn

FOLDER = Path(__file__).parent


class ClassifyTokens(nn.Module):
    """Class probabilities of the only token: nothing in the graph says that D is one."""

    def __init__(self) -> None:
        super().__init__()
        self.project = nn.Linear(64, 10, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """[N, 1, 64] to [N, 10]. The ONNX file also maps [N, D, 64] to [N, D, 10]."""
        return self.project(torch.squeeze(x, 1)).softmax(-1)


class ClassifyTokensAllAxes(ClassifyTokens):
    """The same with ``torch.squeeze(x)``, which would drop a batch of one as well."""

    def forward(self, x: Tensor) -> Tensor:
        """[N, 1, 64] to [N, 10]."""
        return self.project(torch.squeeze(x)).softmax(-1)


class OnlyFrame(nn.Module):
    """A 2-D convolution over the only frame of a clip: its weights take rank 4, so D is one."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(16, 4, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        """[N, 1, 16, H, W] to [N, 4, H, W]."""
        return self.conv(torch.squeeze(x, 1)).relu()


class DepthMap(nn.Module):
    """A depth head: axis 1 holds the convolution's one channel, so the branch is known."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(16, 1, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        """[N, 16, H, W] to [N, 2H, 2W]."""
        size = (2 * x.shape[2], 2 * x.shape[3])
        # The exporter loses the channel count here: the target size is computed from Shape(x).
        depth = nn.functional.interpolate(self.conv(x), size, mode="bilinear")
        return torch.squeeze(depth, 1).relu()


def export(name: str, net: nn.Module, example: Tensor, x: list[str], y: list[str]) -> None:
    """Write NAME.onnx; ``x`` and ``y`` name the leading axes that are dynamic ("" is a fixed one).

    Args:
        name: The file's stem.
        net: What to export.
        example: An input to trace the net with.
        x: The input's dimension names.
        y: The output's dimension names.
    """
    dynamic = {
        tensor: {axis: dim for axis, dim in enumerate(dims) if dim}
        for tensor, dims in {"x": x, "y": y}.items()
    }
    torch.onnx.export(
        net.eval(),
        (example,),
        str(FOLDER / f"{name}.onnx"),
        input_names=["x"],
        output_names=["y"],
        dynamic_axes=dynamic,
        opset_version=17,
        dynamo=False,
    )


def main() -> None:
    """Write the four files."""
    torch.manual_seed(0)
    tokens = torch.rand(2, 1, 64)
    clip = torch.rand(2, 1, 16, 8, 8)
    features = torch.rand(2, 16, 8, 8)
    export("squeeze_if", ClassifyTokens(), tokens, ["N", "D"], ["N"])
    export("squeeze_all", ClassifyTokensAllAxes(), tokens, ["N", "D"], ["N"])
    export("squeeze_conv", OnlyFrame(), clip, ["N", "D"], ["N"])
    export("squeeze_static", DepthMap(), features, ["N", "", "H", "W"], ["N", "rows", "columns"])


if __name__ == "__main__":
    main()
