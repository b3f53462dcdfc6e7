"""The nets that are repaired, and what each is fed: samples that fit, and others that judge alone.

| net | samples | judged at |
|---|---|---|
| digits (of this repository) | held-out digits of scikit-learn, labelled | logits |
| mnist_cntk_ortie | 5,000 MNIST test digits, labelled | logits |
| cifar10_pytorch_winml | 2,500 CIFAR-10 test images, labelled | logits |
| vit, text (`encoders`) | CIFAR-10's images and sources, labelled, never trained on | logits |
| CONV_mobilenetv1, CONV_squeezenet, flowers | *stand-in*: parts of photographs of people | logits |
| magika_v3_3 | 76 files of known type | outputs |
| silero_vad (speech) | windows of one recording, with their states | outputs |
| detectors, and others of images | parts of 24 photographs: of half of them fit, of half judge | outputs |
| planted | smooth random numbers, digits | outputs |

Logits are what the last Softmax reads, where there is one.
What judges comes of other photographs, files or stretches of speech than what fits; those of one of these are
one group, which an interval draws together.
"""

from __future__ import annotations

import fnmatch
import functools
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from benchmarks import corpus_data
from benchmarks.sensitivity import planted_nets
from benchmarks.sensitivity.trained import DIGITS

ENCODERS = Path(__file__).resolve().parents[2] / "out" / "repair" / "encoders"
FITTING = 128
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


@dataclass(frozen=True, slots=True)
class Net:
    """A net to repair.

    Attributes:
        name: its name.
        kind: `labelled`, `stand-in` (what it is fed is not what it was made for), `real` or `planted`.
        model: its file, or itself, of a split.
        split: its samples, of a seed.
        splits: how many.
        logits: whether it is judged in front of its Softmax.
        classes: whether the greatest of its first output is its answer.
    """

    name: str
    kind: str
    model: Callable[[int], Path | onnx.ModelProto]
    split: Callable[[int], Split]
    splits: int = SPLITS
    logits: bool = False
    classes: bool = False


_NATURAL = (
    "CONV_mobilenetv1_0.25_224_keras",
    "CONV_squeezenet_winml_fp32",
    "mobilenetv2_0.35_128_flowers_st",
)
_PHOTOGRAPHS = ("ultraface_rfb320", "yunet_120x160")
_ONCE = (
    "ultraface_rfb320_nopost", "ultraface_rfb320_simplified", "ultraface_rfb640", "ultraface_masked_rfb640",
    "yunet_s_640", "nanodet_m_416_mot", "ortext_fastestdet", "osf_mnv3_detection", "osf_landmarks0",
    "deeplabv3_mnv2_pascal", "agllnet_256", "ortext_superres",
)  # fmt: skip
_ONCE_STAND_IN = ("person_reid_0248", "person_reid_0288", "ppocr_cls_v2", "ppocr_det_v2")
_GREAT = ("*640", "nanodet*", "ortext_fastestdet", "deeplab*", "agllnet*", "ppocr_det*", "ortext_superres")


def nets(globs: Sequence[str]) -> Iterator[Net]:
    """Those whose names match, the labelled ones first; of a corpus only where ONNXQ_CORPUS names one."""
    for net in _all():
        if any(fnmatch.fnmatchcase(net.name, glob) for glob in globs):
            yield net


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

    def net(name: str, kind: str, split: Callable[..., Split], **options: Any) -> Net:
        path = corpus / "models" / f"{name}.onnx"
        return Net(name, kind, lambda _: path, functools.partial(split, corpus, entries[name]), **options)

    for name in ("mnist_cntk_ortie", "cifar10_pytorch_winml"):
        yield net(name, "labelled", _labelled, classes=True)
    for name in _NATURAL:
        yield net(name, "stand-in", _photographs, classes=True, logits=True)
    for name in _PHOTOGRAPHS:
        yield net(name, "real", _photographs)
    yield net("magika_v3_3", "real", _files, classes=True)
    yield net("silero_vad_openvino_16k", "real", _speech, splits=1)
    for name in _ONCE:
        yield net(name, "real", _photographs, splits=1)
    for name in _ONCE_STAND_IN:
        yield net(name, "stand-in", _photographs, splits=1)


# --- samples --------------------------------------------------------------------------------------


def _digits(seed: int) -> Split:
    found = np.load(DIGITS / "test.npz")
    return _divided([{"image": image[None]} for image in found["image"]], found["labels"], seed)


def _labelled(corpus: Path, entry: Mapping[str, Any], seed: int) -> Split:
    (path,) = (corpus / "data").glob(f"{entry['name'].split('_')[0]}_*.npz")
    return _divided(corpus_data.whole(corpus, entry), np.load(path)["labels"], seed)


def _divided(samples: Sequence[Feeds], labels: np.ndarray, seed: int) -> Split:
    order = np.random.default_rng(seed).permutation(len(samples))
    fit, judge = order[:FITTING], order[FITTING : FITTING + LABELLED]
    return Split([samples[i] for i in fit], [samples[i] for i in judge], judge, labels[judge].astype(int))


def _seen_never(name: str, seed: int) -> Split:
    found = np.load(ENCODERS / f"{name}.npz")
    (given,) = set(found.files) - {"labels"}
    return _divided([{given: value[None]} for value in found[given]], found["labels"], seed)


def _photographs(corpus: Path, entry: Mapping[str, Any], seed: int) -> Split:
    """Parts of half of the photographs fit, of the other half judge."""
    great = any(fnmatch.fnmatchcase(entry["name"], glob) for glob in _GREAT)
    fitting, judging = (FITTING // 2, FEW) if great else (FITTING, PARTS)
    taken = corpus_data.photographed(entry)
    assert taken is not None
    random = np.random.default_rng(seed)
    files = sorted((corpus / "data" / "faces").iterdir())
    order = random.permutation(len(files))
    half = len(files) // 2
    given, judges = ([files[i] for i in part] for part in (order[:half], order[half:]))
    fit = [sample for sample, _ in corpus_data.parts(given, *taken, random, fitting)]
    judge = [*corpus_data.parts(judges, *taken, random, judging)]
    return Split(fit, [sample for sample, _ in judge], np.array([group for _, group in judge]))


def _files(corpus: Path, entry: Mapping[str, Any], seed: int) -> Split:
    every = corpus_data.whole(corpus, entry)
    order = np.random.default_rng(seed).permutation(len(every))
    half = len(every) // 2
    return Split([every[i] for i in order[:half]], [every[i] for i in order[half:]], order[half:])


def _speech(corpus: Path, entry: Mapping[str, Any], seed: int) -> Split:
    """Every other stretch of a recording fits, the others judge."""
    every = corpus_data.whole(corpus, entry)
    stretch = np.arange(len(every)) // _STRETCH
    judging = np.flatnonzero(stretch % 2 != seed % 2)
    fitting = np.flatnonzero(stretch % 2 == seed % 2)[:FITTING]
    return Split([every[i] for i in fitting], [every[i] for i in judging], stretch[judging])


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


def _smooth(seed: int) -> Split:
    fit, judge = (
        planted_nets.samples(seed + start, count) for start, count in ((1000, FITTING), (2000, 256))
    )
    return Split(fit, judge, np.arange(256))
