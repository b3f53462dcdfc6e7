"""Whether wrong preparations of pictures are named: `python -m benchmarks.preparation [NET ...] [--draws 5]`.

Each net is fed its own preparation and each of the other usual ones, of 32 samples a draw. ONNXQ_CORPUS names
the folder of nets, ONNXQ_IMAGENET one of photographs, and ONNXQ_RESNETS one with resnet20.onnx and
resnet56.onnx of CIFAR-10. What is not there is left out.
"""

from __future__ import annotations

import argparse
import fnmatch
import os
import re
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.repair.printing import table
from onnxq.data.glance import norms
from onnxq.data.image_options import image_options
from onnxq.data.otherwise import USUAL
from onnxq.data.samples import Sample
from onnxq.data.sources import open_source
from onnxq.data.survey import Survey
from onnxq.data.warnings import DataWarning
from onnxq.graph.model import Model
from onnxq.inspection.opened_data import specs_of
from onnxq.pipeline.preparation import MOST, AsTrained, preparation_seen
from onnxq.task.known import KnownTask
from onnxq.task.stated import StatedTask

VALUES = dict(zip(("0..1", "-1..1", "imagenet", "raw", "caffe"), USUAL.values(), strict=True))


@dataclass(frozen=True)
class Net:
    """A net, and what it is to be fed.

    Attributes:
        values: a key of VALUES.
        color: the order of the channels; "gray" of one.
        data: "imagenet", "faces", "cifar" or "mnist".
        task: as --task has it, where the graph does not say it.
        also: other values that are as good.
        sizes: how images are brought to size.
    """

    values: str
    color: str
    data: str
    task: str | None = None
    also: tuple[str, ...] = ()
    sizes: Mapping[str, Any] = field(default_factory=dict)


NETS = {
    "CONV_mobilenetv1_0.25_224_keras": Net("-1..1", "rgb", "imagenet"),
    "CONV_squeezenet_winml_fp32": Net("caffe", "bgr", "imagenet"),
    "mobilenetv2_0.35_128_flowers_st": Net("-1..1", "rgb", "imagenet", "classify"),
    "cifar10_pytorch_winml": Net("-1..1", "rgb", "cifar", "classify", ("imagenet",)),
    "mnist_cntk_ortie": Net("raw", "gray", "mnist", "classify", ("0..1",)),
    "resnet20": Net("imagenet", "rgb", "cifar", "classify"),
    "resnet56": Net("imagenet", "rgb", "cifar", "classify"),
    "ultraface_rfb320": Net("-1..1", "rgb", "faces"),
    "yunet_s_640": Net("raw", "bgr", "faces", None, (), {"letterbox": True}),
    "nanodet_m_416_mot": Net("imagenet", "bgr", "faces"),
    "ortext_fastestdet": Net("0..1", "bgr", "faces"),
    "deeplabv3_mnv2_pascal": Net("-1..1", "rgb", "imagenet"),
    "person_reid_0248": Net("raw", "bgr", "imagenet"),
}


def main() -> int:
    """Prints a row for each net and each way in which it is fed."""
    asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    asked.add_argument("nets", nargs="*", default=["*"], help="which, globs")
    asked.add_argument("--draws", type=int, default=5, help="of samples, of the right preparation")
    asked.add_argument("--wrong", type=int, default=1, help="draws of each wrong one")
    given = asked.parse_args()
    rows = []
    for name, net in NETS.items():
        if not any(fnmatch.fnmatchcase(name, glob) for glob in given.nets) or _path(name) is None:
            continue
        for row in _rows(name, net, given.draws, given.wrong):
            print(*row, sep="  ", file=sys.stderr, flush=True)
            rows.append(row)
    table(("net", "fed", "draws", "silent", "hint right", "hint other", "s", "what is told"), rows)
    return 0


def _rows(name: str, net: Net, draws: int, wrong: int) -> Iterator[tuple[str, ...]]:
    path = _path(name)
    assert path is not None
    model = Model.open(path)
    specs = specs_of(model)
    outputs = [one.name for one in model.outputs]
    task = KnownTask.of(None if net.task is None else StatedTask.of(net.task), model, outputs)
    trained = AsTrained.of(model.to_proto(), model, task.layout, norms(model, specs))
    orders = ("gray",) if net.color == "gray" else ("rgb", "bgr")
    for color in sorted(orders, key=lambda one: one != net.color):
        for values in sorted(VALUES, key=lambda one: one != net.values):
            if color == "gray" and len(VALUES[values].mean) > 1:
                continue
            right = color == net.color and values in (net.values, *net.also)
            count = draws if right else wrong
            start, told = time.perf_counter(), []
            for draw in range(count):
                told += [_told(net, trained, specs, values, color, draw)]
            good = [one is not None and _is_right(one, net, values, color) for one in told]
            silent = sum(one is None for one in told)
            first = next((f"{one.kind}: {one.text} -> {one.hint}" for one in told if one is not None), "")
            yield (
                name, f"{color} {values}{' (right)' * right}", str(count), str(silent), str(sum(good)),
                str(count - silent - sum(good)), f"{(time.perf_counter() - start) / count:.1f}", first,
            )  # fmt: skip


def _told(net: Net, trained: AsTrained, specs: Any, values: str, color: str, draw: int) -> DataWarning | None:
    """What is told of a preparation, of one draw of samples."""
    survey, samples = _fed(net, specs, values, color, draw)
    doubts = preparation_seen(trained, survey.inputs, samples, len(samples)).doubts
    return doubts[0] if doubts else None


def _fed(net: Net, specs: Any, values: str, color: str, draw: int) -> tuple[Survey, list[Sample]]:
    preset, random = VALUES[values], np.random.default_rng(draw)
    order = slice(None, None, -1 if color == "bgr" else 1)
    corpus = Path(os.environ["ONNXQ_CORPUS"])
    if net.data in ("imagenet", "faces"):
        folder = Path(os.environ["ONNXQ_IMAGENET"]) if net.data == "imagenet" else corpus / "data" / "faces"
        asked = image_options(
            {
                "scale": preset.scale, "mean": preset.mean[order], "std": preset.std[order], "color": color,
                **net.sizes,
            }
        )  # fmt: skip
        source = open_source(folder, specs, options=asked)
        survey = Survey(specs, source.images)
        assert source.count is not None
        samples = list(source.read(random.permutation(source.count)[:MOST].tolist()))
    else:
        file = np.load(corpus / "data" / ("cifar10_2500.npz" if net.data == "cifar" else "mnist_5000.npz"))
        pixels = file["images"][random.permutation(len(file["images"]))[:MOST]].astype(np.float32)
        pixels = pixels if pixels.ndim == 4 else pixels[..., None]
        made = (pixels * preset.scale - np.array(preset.mean)) / np.array(preset.std)
        fed = np.ascontiguousarray(made[..., order].transpose(0, 3, 1, 2), np.float32)
        samples = [Sample(place, str(place), {specs[0].name: one[None]}) for place, one in enumerate(fed)]
        survey = Survey(specs)
    for sample in samples:
        survey.add(sample)
    return survey, samples


def _is_right(told: DataWarning, net: Net, values: str, color: str) -> bool:
    """Whether the preparation that is hinted at is the net's."""
    hint, preset = told.hint, None
    if "--scale" in hint:
        numbers = {key: eval(text) for key, text in re.findall(r"--(scale|mean|std) ([\d./,]+)", hint)}
        mean, std = (np.ravel(numbers.get(key, none)) for key, none in (("mean", 0), ("std", 1)))
        hinted = re.search(r"--color (\w+)", hint)
        now = hinted[1] if hinted else color
        order = slice(None, None, -1 if now == "bgr" else 1)
        preset = (numbers["scale"], mean[order], std[order])
    else:
        found = [
            key
            for words, key in sorted(zip(USUAL, VALUES, strict=True), key=lambda one: len(one[0]))
            if words in hint
        ]
        values = found[-1] if found else values
        turned = "reverse" in hint or "--color" in hint
        now = {"rgb": "bgr", "bgr": "rgb"}.get(color, color) if turned else color
        one = VALUES[values]
        preset = (one.scale, np.array(one.mean), np.array(one.std))
    if now != net.color:
        return False
    ends = [(np.array([[0], [255]]) * preset[0] - preset[1]) / preset[2]]
    for key in (net.values, *net.also):
        want = (np.array([[0], [255]]) * VALUES[key].scale - np.array(VALUES[key].mean)) / np.array(
            VALUES[key].std
        )
        if np.abs(ends[0] - want).max() < 0.02 * np.ptp(want):
            return True
    return False


def _path(name: str) -> Path | None:
    places = [Path(os.environ.get("ONNXQ_CORPUS", "")) / "models", Path(os.environ.get("ONNXQ_RESNETS", ""))]
    return next((one for place in places if (one := place / f"{name}.onnx").exists()), None)


if __name__ == "__main__":
    sys.exit(main())
