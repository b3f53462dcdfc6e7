"""What is done of a measurement, in a file: one that is interrupted goes on there."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from onnxq.base.errors import UserError
from onnxq.judge.sqnr import Signal
from onnxq.noise.block import Sums
from onnxq.run.ort import Feeds

_KIND = "onnxq noise 1"


class State:
    """The sums of the first blocks, and of which samples they are.

    Attributes:
        sums: they; None where nothing is done.
    """

    def __init__(self, path: Path | None, digest: str) -> None:
        """Of no block."""
        self._path, self._digest = path, digest
        self._blocks: list[str] = []
        self.sums: Sums | None = None

    @staticmethod
    def open(path: Path | None, digest: str) -> State:
        """What a file keeps of this measurement; nothing, where it is of another one.

        Args:
            path: the file; None: nothing is kept.
            digest: what is measured.

        Raises:
            UserError: the file is none of onnxq's.
        """
        state = State(path, digest)
        if path is None or not os.path.exists(path):
            return state
        content = _read(path)
        if content is None:
            raise UserError(
                f"{str(path)!r} is in the way, and onnxq did not write it: what is done of a measurement "
                "goes there",
                hint="give another path",
            )
        header, arrays = content
        if header["digest"] == digest:
            state._blocks = list(header["blocks"])
            state.sums = _sums(header, arrays)
        return state

    def rest(self, blocks: Iterable[list[Feeds]]) -> Iterator[tuple[int, list[Feeds]]]:
        """The blocks that are still to be done, each with the number of its first sample.

        Raises:
            UserError: the data are others than those of what is done.
        """
        first = 0
        for place, block in enumerate(blocks):
            if place < len(self._blocks) and _digest_of(block) != self._blocks[place]:
                raise UserError(
                    f"{str(self._path)!r} keeps what was done of other samples",
                    hint="give the same data again, or remove the file",
                )
            if place >= len(self._blocks):
                yield first, block
            first += len(block)

    def store(self, sums: Sums, block: list[Feeds]) -> None:
        """Keeps the sums after one more block."""
        if self._path is None:
            return
        self._blocks.append(_digest_of(block))
        header = {
            "kind": _KIND,
            "digest": self._digest,
            "blocks": self._blocks,
            "samples": sums.samples,
            "runs": sums.runs,
            "signals": [
                [s.count, s.power, s.values, s.level, s.spread, s.peak, s.comparable] for s in sums.signals
            ],
        }
        arrays: dict[str, Any] = {"header": np.array(json.dumps(header))}
        for place, signal in enumerate(sums.signals):
            arrays[f"gram-{place}"] = sums.grams[place]
            arrays[f"broken-{place}"] = sums.broken[place]
            if signal.mean is not None:
                arrays[f"mean-{place}"] = signal.mean
        new = self._path.with_name(f"{self._path.name}.new")
        with new.open("wb") as file:
            np.savez(file, **arrays)
        os.replace(new, self._path)


def _read(path: Path) -> tuple[dict[str, Any], dict[str, np.ndarray]] | None:
    try:
        with np.load(path, allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
        header = json.loads(str(arrays.pop("header")))
        return (header, arrays) if header["kind"] == _KIND else None
    except Exception:  # whatever it is, it is none of ours
        return None


def _sums(header: dict[str, Any], arrays: dict[str, np.ndarray]) -> Sums:
    signals = [
        Signal(count, arrays.get(f"mean-{place}"), power, values, level, spread, peak, comparable)
        for place, (count, power, values, level, spread, peak, comparable) in enumerate(header["signals"])
    ]
    return Sums(
        header["samples"],
        header["runs"],
        [arrays[f"gram-{place}"] for place in range(len(signals))],
        signals,
        [arrays[f"broken-{place}"] for place in range(len(signals))],
    )


def _digest_of(block: list[Feeds]) -> str:
    digest = hashlib.sha256()
    for feeds in block:
        for name, array in sorted(feeds.items()):
            digest.update(f"{name} {array.dtype.str} {array.shape} ".encode())
            digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()
