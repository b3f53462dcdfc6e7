"""What the models of a corpus calibrate on: its own data where that fits a model, else random numbers.

A corpus is a folder with `manifest.json` (models, their inputs, shapes that run) and `data/`.
"""

from __future__ import annotations

import fnmatch
import wave
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from PIL import Image

from onnxq.run import ort

CALIBRATION, HELD_OUT = 16, 8
COUNT = CALIBRATION + HELD_OUT

Sample = dict[str, np.ndarray]

# bfloat16 is given as float32: an .npz file has no type for it
_TYPES = {
    "FLOAT": np.float32, "DOUBLE": np.float64, "FLOAT16": np.float16, "BFLOAT16": np.float32,
    "BOOL": np.bool_, "INT8": np.int8, "INT32": np.int32, "INT64": np.int64,
    "UINT8": np.uint8, "STRING": np.str_,
}  # fmt: skip
_IMAGENET = ("RGB", (123.675, 116.28, 103.53), (58.395, 57.12, 57.375))


class Pixels(NamedTuple):
    """How pixels become an input: (pixel - mean) / scale, channels in this order."""

    order: str
    mean: float | tuple[float, ...]
    scale: float | tuple[float, ...]


# What each model was trained on, by its authors' own preprocessing.
_PHOTOGRAPHS = {
    "CONV_mobilenet*": Pixels("RGB", 127.5, 127.5),
    "CONV_squeezenet*": Pixels("BGR", (103.939, 116.779, 123.68), 1),
    "agllnet*": Pixels("RGB", 0, 255),
    "deeplabv3*": Pixels("RGB", 127.5, 127.5),
    "fns_*": Pixels("RGB", 0, 1),
    "mobilenetv2*": Pixels("RGB", 127.5, 127.5),
    "nanodet*": Pixels("BGR", (103.53, 116.28, 123.675), (57.375, 57.12, 58.395)),
    "ortext_fastestdet": Pixels("BGR", 0, 255),
    "ortext_superres": Pixels("L", 0, 255),
    "osf_*": Pixels(*_IMAGENET),
    "person_reid*": Pixels("BGR", 0, 1),
    "ppocr_cls*": Pixels("BGR", 127.5, 127.5),
    "ppocr_det*": Pixels(*_IMAGENET),
    "ultraface*": Pixels("RGB", 127, 128),
    "yunet*": Pixels("BGR", 0, 1),
}


def samples(corpus: Path, entry: Mapping[str, Any]) -> tuple[str, list[Sample], list[Sample]]:
    """What a model calibrates on, and what its output is compared on.

    Args:
        corpus: the folder of the corpus.
        entry: the model's entry in the manifest.

    Returns:
        What the data is, the calibration samples and the held-out ones; every third is held out.
    """
    kind, found = _open(corpus, entry)
    chosen = list(islice(found, COUNT))
    held = chosen[::3]
    return kind, [sample for index, sample in enumerate(chosen) if index % 3], held


def drawn(corpus: Path, entry: Mapping[str, Any], seed: int, count: int) -> Iterator[Sample]:
    """So many different samples for a model: of its data set, or parts of photographs.

    Args:
        corpus: the folder of the corpus.
        entry: the model's entry in the manifest.
        seed: what they are drawn from.
        count: how many.
    """
    random = np.random.default_rng(seed)
    photographs = photographed(entry)
    if photographs is not None:
        files = sorted((corpus / "data" / "faces").iterdir())
        yield from (sample for sample, _ in parts(files, *photographs, random, count))
        return
    every = whole(corpus, entry)
    for index in random.permutation(len(every))[:count]:
        yield every[index]


def whole(corpus: Path, entry: Mapping[str, Any]) -> list[Sample]:
    """All samples of the data set of a model that is not fed with photographs."""
    return list(_open(corpus, entry, thinned=False)[1])


def photographed(entry: Mapping[str, Any]) -> tuple[str, list[int], Pixels] | None:
    """How photographs become the input of a model: its name, its shape, its pixels. None: they do not."""
    first = entry["inputs"][0]["name"]
    for pattern, pixels in _PHOTOGRAPHS.items():
        if fnmatch.fnmatchcase(entry["name"], pattern):
            return first, entry["run_shapes"][first], pixels
    return None


def parts(
    files: Sequence[Path],
    name: str,
    shape: list[int],
    pixels: Pixels,
    random: np.random.Generator,
    count: int,
) -> Iterator[tuple[Sample, int]]:
    """Random parts of photographs, half of them mirrored, lighter or darker by up to a quarter.

    Each with the number of its photograph.
    """
    images = [Image.open(path).convert("RGB") for path in files]
    for _ in range(count):
        chosen = int(random.integers(len(images)))
        image = images[chosen]
        side = random.uniform(0.3, 1.0)
        width, height = (max(8, int(side * length)) for length in image.size)
        left, top = (
            int(random.integers(a - b + 1)) for a, b in zip(image.size, (width, height), strict=True)
        )
        part = image.crop((left, top, left + width, top + height))
        if random.random() < 0.5:
            part = part.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
        light = random.uniform(0.75, 1.25)
        part = part.point([min(255, int(v * light)) for v in range(256)] * 3)
        yield fed(part, name, shape, pixels), chosen


def _open(corpus: Path, entry: Mapping[str, Any], *, thinned: bool = True) -> tuple[str, Iterable[Sample]]:
    """What there is for a model; `thinned`: of what is sorted, some from everywhere."""
    name, data = entry["name"], corpus / "data"
    first = entry["inputs"][0]["name"]
    photographs = photographed(entry)
    if photographs is not None:
        return "photographs", _photographs(data / "faces", *photographs)
    if name.startswith("mnist"):
        digits = np.load(data / "mnist_5000.npz")["images"][:, None, None]
        return "MNIST", ({first: image.astype(np.float32)} for image in digits)
    if name.startswith("cifar10"):
        photos = np.load(data / "cifar10_2500.npz")["images"].transpose(0, 3, 1, 2)[:, None]
        return "CIFAR-10", ({first: (image / 127.5 - 1).astype(np.float32)} for image in photos)
    if name.startswith("magika"):
        files = sorted(path for path in (data / "magika_files").rglob("*") if path.is_file())
        step = len(files) // COUNT if thinned else 1
        return "files", ({first: _ends(path.read_bytes())} for path in files[::step])
    if name.startswith("silero_vad"):
        windows = _speech(corpus, entry)
        return "speech", windows[:: len(windows) // COUNT] if thinned else windows
    if entry["inputs"][0]["shape"] == ["num_bytes"]:
        photos = sorted((data / "faces").iterdir())
        return "JPEG files", ({first: np.frombuffer(path.read_bytes(), np.uint8)} for path in photos)
    return "random", _random(entry)


def _photographs(folder: Path, name: str, shape: list[int], pixels: Pixels) -> Iterator[Sample]:
    for path in sorted(folder.iterdir()):
        yield fed(Image.open(path), name, shape, pixels)


def fed(image: Image.Image, name: str, shape: list[int], pixels: Pixels) -> Sample:
    """An image as the input takes it."""
    last = shape[-1] in (1, 3)
    height, width = shape[1:3] if last else shape[2:4]
    image = image.convert("L" if pixels.order == "L" else "RGB").resize((width, height))
    values = np.asarray(image, np.float64).reshape(height, width, -1)
    values = values[..., ::-1] if pixels.order == "BGR" else values
    values = (values - pixels.mean) / pixels.scale
    return {name: (values if last else values.transpose(2, 0, 1))[None].astype(np.float32)}


def _ends(content: bytes) -> np.ndarray:
    """The first and last 1,024 bytes of a file without blanks, 256 where there are none."""
    values = np.full((1, 2048), 256, np.int32)
    head = np.frombuffer(content.lstrip()[:1024], np.uint8)
    tail = np.frombuffer(content.rstrip()[-1024:], np.uint8)
    values[0, : len(head)] = head
    values[0, 2048 - len(tail) :] = tail
    return values


def _speech(corpus: Path, entry: Mapping[str, Any]) -> list[Sample]:
    """Windows of a recording with the model's own state in front of each of them."""
    with wave.open(str(corpus / "data" / "speech" / "test.wav")) as recording:
        sound = np.frombuffer(recording.readframes(-1), np.int16).astype(np.float32) / 32768
    session = ort.load(corpus / "models" / f"{entry['name']}.onnx")
    size = entry["run_shapes"]["input"][1]
    state = np.zeros(entry["run_shapes"]["state"], np.float32)
    found = []
    for start in range(0, 512 * 480, 512):
        feeds = {"input": sound[None, start : start + size], "state": state, "sr": np.array(16000, np.int64)}
        found.append({name: array for name, array in feeds.items() if name in session.inputs})
        state = session.run(found[-1])[1]
    return found


def _random(entry: Mapping[str, Any]) -> Iterator[Sample]:
    """Normal deviates, 0 or 1 for integers."""
    random = np.random.default_rng(0)
    while True:
        yield {info["name"]: _values(random, info, entry["run_shapes"]) for info in entry["inputs"]}


def _values(random: np.random.Generator, info: Mapping[str, Any], shapes: Mapping[str, Any]) -> np.ndarray:
    dtype = np.dtype(_TYPES[info["dtype"]])
    shape = shapes.get(info["name"]) or [dim if isinstance(dim, int) else 1 for dim in info["shape"]]
    if dtype.kind == "U":
        return np.full(shape, "a sentence of seven words, no more")
    if dtype.kind == "f":
        return random.standard_normal(shape).astype(dtype)
    return random.integers(0, 2, shape).astype(dtype)
