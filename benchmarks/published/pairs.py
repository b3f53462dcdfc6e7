"""Published times of networks in float16 and int8, of pairs.toml."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path

UNITS = ("ms", "ms an image", "images per second", "batches per second")


@dataclass(frozen=True, slots=True)
class Pair:
    """What a source says of a network in float16 and in int8 on the same GPU.

    Attributes:
        id: its name here.
        net: the network, of `benchmarks.published.nets.NETS`.
        size: of the image, or the number of tokens.
        batch: images or texts of an inference.
        gpu: its usual name.
        compiler: TensorRT's version; empty where the source does not say.
        quantization: "implicit", "explicit" or empty.
        fp16: the figure for float16, in `unit`.
        int8: the figure for int8.
        unit: of `UNITS`; "ms" is the time of a batch.
        measured: what the figures are.
        source: the address of the text.
        place: the words or the row there.
        date: of the text; empty where it has none.
        caution: what speaks against comparing; empty where nothing does.
    """

    id: str
    net: str
    size: str
    batch: int
    gpu: str
    compiler: str
    quantization: str
    fp16: float
    int8: float
    unit: str
    measured: str
    source: str
    place: str
    date: str
    caution: str

    @property
    def gain(self) -> float:
        """How many times as fast int8 is: above 1 it is the faster one."""
        return self.int8 / self.fp16 if self.unit.endswith("second") else self.fp16 / self.int8

    @property
    def milliseconds(self) -> tuple[float, float]:
        """The time of a batch in float16 and in int8, ms."""
        fp16, int8 = ((1e3 / x if self.unit.endswith("second") else x) for x in (self.fp16, self.int8))
        images = self.batch if "image" in self.unit else 1
        return fp16 * images, int8 * images


def _read() -> tuple[Pair, ...]:
    text = Path(__file__).with_name("pairs.toml").read_text("utf-8")
    return tuple(Pair(**entry) for entry in tomllib.loads(text)["pair"])


PAIRS = _read()
"""All pairs."""
