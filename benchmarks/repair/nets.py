"""The nets that are repaired, and what each is fed: samples that fit, and others that judge alone.

| net | samples | judged at |
|---|---|---|
| digits (of this repository) | held-out digits of scikit-learn, labelled | outputs |
| mnist_cntk_ortie | 5,000 MNIST test digits, labelled | outputs |
| cifar10_pytorch_winml | 2,500 CIFAR-10 test images, labelled | outputs |
| vit, text (`encoders`) | CIFAR-10's images and sources, labelled, never trained on | outputs |
| CONV_mobilenetv1, CONV_squeezenet | 1,000 ImageNet images, one a class, labelled (`ONNXQ_IMAGENET`) | both |
| these without ONNXQ_IMAGENET, flowers | *stand-in*: parts of photographs of people | both |
| magika_v3_3 | 76 files of known type | outputs |
| silero_vad (speech) | windows of one recording, with their states | outputs |
| detectors, and others of images | parts of 24 photographs: of half of them fit, of half judge | outputs |
| planted | smooth random numbers, digits | outputs |

Both: the outputs, and the logits, which are what the last Softmax reads. Outputs are judged in the parts in
which onnxq judges them. Of a detector its anchors are counted, too (`answers`).
Of a split the same samples judge however many fit; where fewer fit, these are the first of the more.
What judges comes of other photographs, files or stretches of speech than what fits; those of one of these are
one group, which an interval draws together.
"""

from __future__ import annotations

import fnmatch
import functools
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import onnx
from PIL import Image

from benchmarks import corpus_data
from benchmarks.sensitivity import planted_nets
from benchmarks.sensitivity.trained import DIGITS

ENCODERS = Path(__file__).resolve().parents[2] / "out" / "repair" / "encoders"
FITTING, MOST, MOST_GREAT = 128, 200, 64  # samples that fit: by default, at most, and of a great net
LABELLED, PARTS, FEW = 4000, 96, 32  # samples that judge, at most
SPLITS = 3
_STRETCH = 40  # windows of speech, 1.3 s

Feeds = dict[str, np.ndarray]


@dataclass(frozen=True, slots=True)
class Split:
    """Samples of a net.

    Attributes:
        fitting: a tool may do with these what it likes.
        judging: these no tool sees.
        groups: of which photograph, file or stretch each of those that judge is, int [judging].
        labels: what they show, int [judging]; None where nobody knows.
    """

    fitting: Sequence[Feeds]
    judging: Sequence[Feeds]
    groups: np.ndarray
    labels: np.ndarray | None = None


class Published(NamedTuple):
    """How often a float model is right, percent, and on what: a sample of each class, in their order."""

    top1: float
    samples: Sequence[Feeds]


@dataclass(frozen=True, slots=True)
class Net:
    """A net to repair.

    Attributes:
        name: its name.
        kind: `labelled`, `stand-in` (what it is fed is not what it was made for), `real` or `planted`.
        model: its file, or itself, of a split.
        drawn: its samples, of a seed, of which so many fit.
        splits: how many.
        classes: whether the greatest of its first output is its answer.
        fitting: how many samples fit, where there are so many.
        great: whether it is dear to run: fewer samples, and no steps one by one.
        published: what is known of the float model's top-1; None: nothing.
    """

    name: str
    kind: str
    model: Callable[[int], Path | onnx.ModelProto]
    drawn: Callable[[int, int], Split]
    splits: int = SPLITS
    classes: bool = False
    fitting: int = FITTING
    great: bool = False
    published: Published | None = None

    def split(self, seed: int) -> Split:
        """Its samples, of a seed."""
        return self.drawn(seed, self.fitting)

    @property
    def title(self) -> str:
        """Its name, and how many samples fit where these are not as many as by default."""
        return self.name if self.fitting == FITTING else f"{self.name}, {self.fitting} samples"


_IMAGENET = {"CONV_mobilenetv1_0.25_224_keras": 59.2, "CONV_squeezenet_winml_fp32": 61.0}
"""Classifiers of ImageNet's images, and how often they are right on all of these, percent."""

_FLOWERS = "mobilenetv2_0.35_128_flowers_st"
_PHOTOGRAPHS = (
    "ultraface_rfb320", "yunet_120x160", "ultraface_rfb320_nopost", "ultraface_rfb320_simplified",
    "ultraface_rfb640", "ultraface_masked_rfb640", "yunet_s_640", "nanodet_m_416_mot",
    "osf_mnv3_detection", "ortext_fastestdet", "osf_landmarks0", "deeplabv3_mnv2_pascal", "agllnet_256",
    "ortext_superres",
)  # fmt: skip
_STAND_IN = ("person_reid_0248", "person_reid_0288", "ppocr_cls_v2", "ppocr_det_v2")
_GREAT = ("*640", "nanodet*", "ortext_fastestdet", "deeplab*", "agllnet*", "ppocr_det*", "ortext_superres")


def nets(globs: Sequence[str], sizes: Sequence[int] = (FITTING,)) -> Iterator[Net]:
    """Those whose names match, the labelled ones first, once with each number of samples that fit.

    Of a corpus only where ONNXQ_CORPUS names one.
    """
    for net in _all():
        if any(fnmatch.fnmatchcase(net.name, glob) for glob in globs):
            yield from (replace(net, fitting=size) for size in sizes)


def _all() -> Iterator[Net]:
    yield Net("digits", "labelled", lambda _: DIGITS / "digits.onnx", _digits, classes=True)
    folder = os.environ.get("ONNXQ_CORPUS")
    if folder is None:
        print("ONNXQ_CORPUS is not set: only the sample model, and what is planted")
    else:
        yield from _of_corpus(Path(folder))
    for name in ("vit", "text"):
        if not (ENCODERS / f"{name}_{SPLITS - 1}.onnx").is_file():
            print(f"no {name}: `make bench-repair` trains it")
            continue
        model = functools.partial(_encoder, name)
        yield Net(name, "labelled", model, functools.partial(_seen_never, name), classes=True)
    for name, make in _PLANTED.items():
        samples = _digits if make is _loud_digits else _smooth
        yield Net(name, "planted", functools.partial(_planted, make), samples)


def _of_corpus(corpus: Path) -> Iterator[Net]:
    entries = {entry["name"]: entry for entry in json.loads((corpus / "manifest.json").read_text("utf-8"))}

    def net(name: str, kind: str, drawn: Callable[..., Split], **options: Any) -> Net:
        path = corpus / "models" / f"{name}.onnx"
        return Net(name, kind, lambda _: path, functools.partial(drawn, corpus, entries[name]), **options)

    for name in ("mnist_cntk_ortie", "cifar10_pytorch_winml"):
        yield net(name, "labelled", _labelled, classes=True)
    images = os.environ.get("ONNXQ_IMAGENET")
    if images is None:
        print("ONNXQ_IMAGENET is not set: its classifiers are fed parts of photographs of people")
    for name, top1 in _IMAGENET.items():
        if images is None:
            yield net(name, "stand-in", _photographs, classes=True)
        else:
            known = Published(top1, imagenet(Path(images), entries[name]))
            drawn = functools.partial(_imagenet, Path(images))
            yield net(name, "labelled", drawn, classes=True, published=known)
    yield net(_FLOWERS, "stand-in", _photographs, classes=True)
    yield net("magika_v3_3", "real", _files, classes=True)
    yield net("silero_vad_openvino_16k", "real", _speech, splits=1)
    for kind, names in (("real", _PHOTOGRAPHS), ("stand-in", _STAND_IN)):
        for name in names:
            splits = SPLITS if len(entries[name]["outputs"]) > 1 else 1
            yield net(name, kind, _photographs, splits=splits, great=_is_great(name))


def _is_great(name: str) -> bool:
    return any(fnmatch.fnmatchcase(name, glob) for glob in _GREAT)


# --- samples --------------------------------------------------------------------------------------


def _digits(seed: int, fitting: int) -> Split:
    found = np.load(DIGITS / "test.npz")
    return _divided([{"image": image[None]} for image in found["image"]], found["labels"], seed, fitting)


def _labelled(corpus: Path, entry: Mapping[str, Any], seed: int, fitting: int) -> Split:
    (path,) = (corpus / "data").glob(f"{entry['name'].split('_')[0]}_*.npz")
    return _divided(corpus_data.whole(corpus, entry), np.load(path)["labels"], seed, fitting)


def _imagenet(images: Path, corpus: Path, entry: Mapping[str, Any], seed: int, fitting: int) -> Split:
    every = imagenet(images, entry)
    return _divided(every, np.arange(len(every)), seed, fitting)


def imagenet(folder: Path, entry: Mapping[str, Any]) -> Sequence[Feeds]:
    """An image of each class, in the classes' order, as a model of a corpus is fed it.

    Args:
        folder: JPEG files whose names begin with the classes' wnids.
        entry: the model's entry in the manifest.
    """
    taken = corpus_data.photographed(entry)
    assert taken is not None
    return _Lazy(sorted(folder.glob("n*.JPEG")), lambda path: corpus_data.fed(_middle(path), *taken))


@dataclass(frozen=True, slots=True)
class _Lazy(Sequence[Feeds]):
    """Samples that are made when they are asked for: of large images memory does not hold them all."""

    sources: Sequence[Any]
    make: Callable[[Any], Feeds]

    def __len__(self) -> int:
        return len(self.sources)

    def __getitem__(self, place: Any) -> Any:
        if isinstance(place, slice):
            return _Lazy(self.sources[place], self.make)
        return self.make(self.sources[place])


@functools.lru_cache(1000)
def _middle(path: Path) -> Image.Image:
    """An image's middle of 224 pixels, its short side 256."""
    image = Image.open(path).convert("RGB")
    factor = 256 / min(image.size)
    width, height = (round(length * factor) for length in image.size)
    left, top = (width - 224) // 2, (height - 224) // 2
    resized = image.resize((width, height), Image.Resampling.BILINEAR)
    return resized.crop((left, top, left + 224, top + 224))


def _divided(samples: Sequence[Feeds], labels: np.ndarray, seed: int, fitting: int) -> Split:
    order = np.random.default_rng(seed).permutation(len(samples))
    fit, judge = order[:fitting], order[MOST : MOST + LABELLED]
    fits, judges = (_Lazy(places, samples.__getitem__) for places in (fit, judge))
    return Split(fits, judges, judge, labels[judge].astype(int))


def _seen_never(name: str, seed: int, fitting: int) -> Split:
    found = np.load(ENCODERS / f"{name}.npz")
    (given,) = set(found.files) - {"labels"}
    return _divided([{given: value[None]} for value in found[given]], found["labels"], seed, fitting)


def _photographs(corpus: Path, entry: Mapping[str, Any], seed: int, fitting: int) -> Split:
    """Parts of half of the photographs fit, of the other half judge."""
    great = _is_great(entry["name"])
    taken = corpus_data.photographed(entry)
    assert taken is not None
    files = sorted((corpus / "data" / "faces").iterdir())
    order = np.random.default_rng(seed).permutation(len(files))
    half = len(files) // 2
    given, judges = ([files[i] for i in part] for part in (order[:half], order[half:]))
    random, other = np.random.default_rng(seed).spawn(2)
    count = min(fitting, MOST_GREAT) if great else fitting
    fit = [sample for sample, _ in corpus_data.parts(given, *taken, random, count)]
    judge = [*corpus_data.parts(judges, *taken, other, FEW if great else PARTS)]
    return Split(fit, [sample for sample, _ in judge], np.array([group for _, group in judge]))


def _files(corpus: Path, entry: Mapping[str, Any], seed: int, fitting: int) -> Split:
    every = corpus_data.whole(corpus, entry)
    order = np.random.default_rng(seed).permutation(len(every))
    half = len(every) // 2
    return Split([every[i] for i in order[:half][:fitting]], [every[i] for i in order[half:]], order[half:])


def _speech(corpus: Path, entry: Mapping[str, Any], seed: int, fitting: int) -> Split:
    """Every other stretch of a recording fits, the others judge."""
    every = corpus_data.whole(corpus, entry)
    stretch = np.arange(len(every)) // _STRETCH
    judging = np.flatnonzero(stretch % 2 != seed % 2)
    chosen = np.flatnonzero(stretch % 2 == seed % 2)[:fitting]
    return Split([every[i] for i in chosen], [every[i] for i in judging], stretch[judging])


# --- nets made here -------------------------------------------------------------------------------


def _encoder(name: str, seed: int) -> Path:
    return ENCODERS / f"{name}_{seed}.onnx"


def _loud_digits(seed: int) -> planted_nets.Planted:
    return planted_nets.loud_in_digits(onnx.load(DIGITS / "digits.onnx"), seed)


_PLANTED: dict[str, Callable[[int], planted_nets.Planted]] = {
    "planted channel 300:1": planted_nets.loud_channel,
    "planted Concat 100:1": functools.partial(planted_nets.uneven_concat, uneven=100.0),
    "planted digits 300:1": _loud_digits,
}


def _planted(make: Callable[[int], planted_nets.Planted], seed: int) -> onnx.ModelProto:
    return make(seed).model


def _smooth(seed: int, fitting: int) -> Split:
    fit, judge = (
        planted_nets.samples(seed + start, count) for start, count in ((1000, fitting), (2000, 256))
    )
    return Split(fit, judge, np.arange(256))
