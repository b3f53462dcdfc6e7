"""GPUs, as data (`gpus.toml`): what bounds the time of a kernel on them."""

from __future__ import annotations

import functools
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


@dataclass(frozen=True, slots=True)
class Gpu:
    """A GPU, by its data sheet.

    Attributes:
        name: its key in the table.
        title: its name.
        sm: its compute capability, 89 for 8.9.
        fp16_tops: peak rate of dense float16 products, 1e12 operations a second, a multiply-accumulate
            being two.
        int8_tops: the same of int8.
        bandwidth_gbs: peak bandwidth of its memory, 1e9 bytes a second.
        cache_mb: size of its L2 cache, 2**20 bytes.
        sources: URLs of the data.
    """

    name: str
    title: str
    sm: int
    fp16_tops: float
    int8_tops: float
    bandwidth_gbs: float
    cache_mb: float
    sources: tuple[str, ...]


def read_gpus(path: Path) -> Mapping[str, Gpu]:
    """The GPUs of a table, by name.

    Raises:
        TypeError: an entry lacks a key, or has one too many.
    """
    tables = tomllib.loads(path.read_text("utf-8"))
    return {name: Gpu(name, **{**data, "sources": tuple(data["sources"])}) for name, data in tables.items()}


@functools.cache
def gpus() -> tuple[Gpu, ...]:
    """The GPUs over which a verdict ranges."""
    return tuple(read_gpus(Path(__file__).with_name("gpus.toml")).values())
