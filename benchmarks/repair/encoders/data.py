"""What the encoders learn from, and what they have never seen: images of the corpus, packages' sources.

An image is one of the 2,500 CIFAR-10 images of ONNXQ_CORPUS; of these 1,500 train. A text is 64 words and
signs, one after another, of a Python package that is installed beside PyTorch; its class is the package.
Words are the most frequent ones of the files that train; no file is in both parts.
"""

from __future__ import annotations

import importlib.util
import os
import re
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import numpy as np

PACKAGES = (
    "json email asyncio unittest idlelib tkinter",
    "networkx",
    "numpy",
    "onnx",
    "scipy",
    "sklearn",
    "sympy",
    "torch",
)
LENGTH, WORDS = 64, 2048
TRAINING_IMAGES, TRAINING_TEXTS, TEXTS = 1500, 600, 250  # texts: of each package
_FILES, _TEXTS_OF_A_FILE = 400, 8


@dataclass(frozen=True, slots=True)
class Data:
    """Inputs and classes: `train*` to learn from, `test*` never seen."""

    train: np.ndarray
    train_labels: np.ndarray
    test: np.ndarray
    test_labels: np.ndarray


def images() -> Data:
    """CIFAR-10: float32 [N, 3, 32, 32] in -1..1."""
    found = np.load(Path(os.environ["ONNXQ_CORPUS"], "data", "cifar10_2500.npz"))
    values = (found["images"].transpose(0, 3, 1, 2) / 127.5 - 1).astype(np.float32)
    labels = found["labels"].astype(np.int64)
    order = np.random.default_rng(0).permutation(len(values))
    train, test = order[:TRAINING_IMAGES], order[TRAINING_IMAGES:]
    return Data(values[train], labels[train], values[test], labels[test])


def texts() -> Data:
    """Sources: int64 [N, 64], 0 for a word that is not among the frequent ones."""
    random = np.random.default_rng(0)
    train, test = [], []
    for label, names in enumerate(PACKAGES):
        files = sorted(path for name in names.split() for path in _sources(name))
        order = random.permutation(len(files))[:_FILES]
        part = len(order) * 2 // 3
        train += _texts([files[i] for i in order[:part]], label, TRAINING_TEXTS, random)
        test += _texts([files[i] for i in order[part:]], label, TEXTS, random)
    known = [word for word, _ in Counter(w for words, _ in train for w in words).most_common(WORDS - 1)]
    number = {word: place for place, word in enumerate(known, 1)}
    arrays = []
    for chosen in (train, test):
        ids = np.array([[number.get(word, 0) for word in words] for words, _ in chosen], np.int64)
        labels = np.array([label for _, label in chosen])
        order = random.permutation(len(ids))
        arrays += [ids[order], labels[order]]
    return Data(*arrays)


def _sources(name: str) -> list[Path]:
    found = importlib.util.find_spec(name)
    assert found is not None
    folder = Path(found.origin or "").parent
    return [path for path in folder.rglob("*.py") if "test" not in str(path.relative_to(folder))]


def _texts(
    files: list[Path], label: int, count: int, random: np.random.Generator
) -> list[tuple[list[str], int]]:
    """Parts of files, so many in all, and their class."""
    found = []
    for path in files:
        words = re.findall(r"[a-z]+|\d|[^\sa-z\d]", path.read_text("utf-8", errors="replace").lower())
        starts = np.arange(0, len(words) - LENGTH, LENGTH)
        for start in random.permutation(starts)[:_TEXTS_OF_A_FILE]:
            found.append((words[start : start + LENGTH], label))
    return [found[i] for i in random.permutation(len(found))[:count]]
