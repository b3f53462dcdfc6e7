"""Nets exported for a batch of 1, made dynamic: `python -m benchmarks.dynamic_batch DIR`.

`--export` makes the nets first, in an environment that has torch and torchvision: of random weights, each by
both exporters of torch. Then each is sanitized with `--batch 1:8:32`, and run beside single runs.
"""

from __future__ import annotations

import argparse
import importlib
import time
from pathlib import Path
from typing import Any

import numpy as np

_CLASSIFIERS = (
    "resnet18", "mobilenet_v2", "mobilenet_v3_small", "efficientnet_b0", "shufflenet_v2_x0_5",
    "regnet_y_400mf", "convnext_tiny", "densenet121",
)  # fmt: skip
_DETECTORS = ("ssdlite320_mobilenet_v3_large", "retinanet_resnet50_fpn", "fcos_resnet50_fpn")
_BATCHES = (1, 2, 8, 32)


def main() -> None:
    """Prints a Markdown row for each net."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--export", action="store_true", help="make the nets, and no more")
    asked = parser.parse_args()
    if asked.export:
        export(asked.folder)
        return
    for path in sorted(asked.folder.glob("*.onnx")):
        print(f"| {' | '.join(row(path))} |", flush=True)


def row(path: Path) -> tuple[str, ...]:
    """Net, exporter, nodes that had the batch written in, seconds, and the largest difference."""
    import onnx

    import onnxq
    from onnxq.run import ort

    began = time.perf_counter()
    result = onnxq.sanitize(path, batch=(1, 8, 32))
    took = time.perf_counter() - began
    (change,) = [one for one in result.report.changes if one.rule == "dynamic_batch"]
    was = ort.load(onnx.load(path), optimize=False)
    now = ort.load(result.model, optimize=False)
    generator = np.random.default_rng(2)
    (name,) = was.inputs
    rows = generator.standard_normal((max(_BATCHES), *was.input_shapes[name][1:]), np.float32)
    single = [was.run({name: one[None]}) for one in rows]
    worst = 0.0
    for batch in _BATCHES:
        for place, output in enumerate(now.run({name: rows[:batch]})):
            expected = np.concatenate([one[place] for one in single[:batch]])
            worst = max(worst, float(np.abs(output - expected).max() / np.abs(expected).max()))
    net, exporter = path.stem.rsplit(".", 1)
    return net, exporter, str(len(change.added)), f"{took:.1f}", f"{worst:.1e}" if worst else "0"


def export(folder: Path) -> None:
    """Writes the nets."""
    torch, models = importlib.import_module("torch"), importlib.import_module("torchvision.models")
    detection = models.detection

    class Heads(torch.nn.Module):  # type: ignore[name-defined,misc]
        """A detector without the selection of boxes, of which there are as many as the values say."""

        def __init__(self, net: Any) -> None:
            super().__init__()
            self.net = net

        def forward(self, x: Any) -> Any:
            heads = self.net.head(list(self.net.backbone(x).values()))
            return tuple(heads[name] for name in sorted(heads))

    made = {name: (lambda name=name: getattr(models, name)()) for name in _CLASSIFIERS}
    made["vit"] = lambda: models.VisionTransformer(64, 16, 3, 4, 96, 192)
    made["swin"] = lambda: models.SwinTransformer([4, 4], 32, [2, 2], [2, 4], [4, 4])
    for name in _DETECTORS:
        made[name] = lambda name=name: Heads(
            getattr(detection, name)(weights=None, weights_backbone=None, num_classes=5)
        )
    folder.mkdir(parents=True, exist_ok=True)
    for name, net in made.items():
        torch.manual_seed(0)
        model, side = net().eval(), 128 if name in _DETECTORS else 64
        for weights in model.parameters():
            if not weights.any():  # a head that gives zeros proves nothing
                torch.nn.init.normal_(weights, std=0.1)
        for exporter in ("script", "dynamo"):
            try:
                with torch.no_grad():
                    torch.onnx.export(
                        model, (torch.randn(1, 3, side, side),), str(folder / f"{name}.{exporter}.onnx"),
                        dynamo=exporter == "dynamo", external_data=False,
                    )  # fmt: skip
            except Exception as error:  # an operator that the exporter does not know
                print(f"{name} by {exporter}: {error}")


if __name__ == "__main__":
    main()
