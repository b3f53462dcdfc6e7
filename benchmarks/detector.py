"""What a detector of one output keeps in int8: `python -m benchmarks.detector MODEL --calib DIR --judge DIR`.

An anchor is kept where its best score is over a threshold in the float model and in the quantized one. The
Python of .venv-peers (`make bench-peers`), where there is one, quantizes the same repaired model on the same
samples with Model-Optimizer and onnxruntime, which choose for themselves.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import onnx

import onnxq
from benchmarks.common import peers_python
from benchmarks.corpus import PEERS_SCRIPT, installed_peers, run, write_samples
from benchmarks.repair.answers import THRESHOLD, kept
from onnxq.data.image_options import image_options
from onnxq.data.samples import InputSpec
from onnxq.data.sources import open_source
from onnxq.graph.model import Model
from onnxq.run import ort

THRESHOLDS = (THRESHOLD, 0.1)


def main() -> int:
    asked = _arguments()
    name, shape = asked.shape.split("=")
    options = {"images": {"preset": asked.preset}, "shapes": {name: tuple(map(int, shape.split("x")))}}
    with tempfile.TemporaryDirectory(prefix="onnxq-bench-") as folder:
        place = Path(folder)
        repaired = onnxq.sanitize(asked.model, shapes=options["shapes"]).model
        onnx.save(repaired, place / "float.onnx")
        made = {"onnxq": place / "onnxq.onnx"}
        result = onnxq.quantize(
            asked.model, asked.calib, compile=False, layer_samples=0, samples=asked.samples, **options
        )
        onnx.save(result.model, made["onnxq"])
        calibration = list(_samples(place / "float.onnx", asked.calib, asked.preset))[: asked.samples]
        write_samples(place / "calib", calibration)
        for tool in installed_peers():
            output = place / f"{tool}.onnx"
            command = [peers_python(tool), PEERS_SCRIPT, tool, place / "float.onnx", place / "calib", output]
            code, _, said = run(command, place)
            if code == 0 and output.is_file():
                made[tool] = output
            else:
                print(f"{tool}: {(said.strip().splitlines() or ['it wrote no model'])[-1]}")
        for judge in asked.judge:
            _print(place / "float.onnx", made, judge, asked)
    return 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.detector")
    parser.add_argument("model", type=Path, help="its output is [1, rows, anchors]")
    parser.add_argument("--calib", type=Path, required=True, metavar="DIR", help="photographs that calibrate")
    parser.add_argument(
        "--judge", type=Path, required=True, nargs="+", metavar="DIR", help="photographs that judge"
    )
    parser.add_argument("--shape", default="images=1x3x320x320", metavar="INPUT=SHAPE")
    parser.add_argument("--preset", default="yolo")
    parser.add_argument("--first", type=int, default=4, metavar="ROW", help="the first row of scores")
    parser.add_argument("--samples", type=int, default=512)
    return parser.parse_args()


def _samples(model: Path, folder: Path, preset: str) -> Iterator[dict[str, np.ndarray]]:
    """What photographs feed a model."""
    specs = [InputSpec(one.name, one.dtype, one.shape) for one in Model.open(model).inputs if one.dtype]
    for sample in open_source(folder, specs, options=image_options({"preset": preset})):
        yield dict(sample.feeds)


def _print(floats: Path, made: dict[str, Path], judge: Path, asked: argparse.Namespace) -> None:
    images = list(_samples(floats, judge, asked.preset))
    wanted = _scores(floats, images, asked.first)
    print(f"{judge}: {len(images)} photographs")
    for least in THRESHOLDS:
        print(f"  float: {(wanted > least).sum()} anchors over {least}")
        for tool, path in made.items():
            there, both, given = kept(wanted, _scores(path, images, asked.first), least)
            print(f"    {tool:<12} {given:>6}, of these {both} ({both / max(1, there):.1%} kept)")


def _scores(model: Path, images: Sequence[dict[str, np.ndarray]], first: int) -> np.ndarray:
    """The best score of each anchor, [photographs, anchors]."""
    session = ort.load(model)
    found = []
    for feeds in images:
        (output,) = session.run(feeds)
        found.append(np.asarray(output, np.float32)[0, first:].max(0))
    return np.stack(found)


if __name__ == "__main__":
    raise SystemExit(main())
