"""The trained nets: of each its model, its samples, and how pixels, digits or bytes become inputs.

| net | samples | as the input takes them |
|---|---|---|
| digits (of this repository) | 600 held-out digits of scikit-learn | 8x8, in 0..1 |
| mnist_cntk_ortie | 5,000 MNIST test digits | 28x28, 0..255 |
| cifar10_pytorch_winml | 2,500 CIFAR-10 test images | RGB, x/127.5 - 1 |
| magika_v3_3 | 76 files of known type | first and last 1,024 bytes, blanks stripped, padded with 256 |
| CONV_mobilenetv1_0.25_224_keras | parts of 24 photographs | RGB, x/127.5 - 1 |
| CONV_squeezenet_winml_fp32 | the same | BGR, less the mean of each channel |
| ultraface_rfb320 (detector) | the same | RGB, (x - 127)/128 |
| yunet_120x160 (detector) | the same | BGR, 0..255 |

All but the digits are of ONNXQ_CORPUS; `benchmarks/corpus_data.py` does what the last column says.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx

from benchmarks.corpus_data import drawn

DIGITS = Path(__file__).resolve().parents[2] / "sample_models" / "digits"
OF_CORPUS = (
    "mnist_cntk_ortie", "cifar10_pytorch_winml", "magika_v3_3", "CONV_mobilenetv1_0.25_224_keras",
    "CONV_squeezenet_winml_fp32", "ultraface_rfb320", "yunet_120x160",
)  # fmt: skip
NAMES = ("digits", *OF_CORPUS)

Feeds = dict[str, np.ndarray]


@dataclass(frozen=True, slots=True)
class Subject:
    """A net and samples for it.

    Attributes:
        name: its name.
        model: its file, or itself.
        samples: different ones, in the order of a seed.
    """

    name: str
    model: Path | onnx.ModelProto
    samples: Sequence[Feeds]


def subjects(names: Sequence[str] | None, seed: int, count: int) -> Iterator[Subject]:
    """The trained nets, or some of them.

    Args:
        names: which; None: all.
        seed: what the samples are drawn from.
        count: how many samples, at most.
    """
    corpus = os.environ.get("ONNXQ_CORPUS")
    if corpus is None:
        print("ONNXQ_CORPUS is not set: only the sample model")
    for name in NAMES if names is None else names:
        if name == "digits":
            yield Subject(name, DIGITS / "digits.onnx", _digits(seed, count))
        elif name not in OF_CORPUS:
            raise SystemExit(f"there is no net {name!r}: {', '.join(NAMES)}")
        elif corpus is not None:
            entries = json.loads(Path(corpus, "manifest.json").read_text())
            entry = next(entry for entry in entries if entry["name"] == name)
            yield Subject(
                name, Path(corpus, "models", f"{name}.onnx"), list(drawn(Path(corpus), entry, seed, count))
            )


def _digits(seed: int, count: int) -> list[Feeds]:
    images = np.load(DIGITS / "test.npz")["image"]
    order = np.random.default_rng(seed).permutation(len(images))[:count]
    return [{"image": images[i : i + 1]} for i in order]
