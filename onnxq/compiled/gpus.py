"""GPUs, as data (`gpus.toml`): what bounds the time of a kernel on them."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from onnxq.base.errors import unknown_name
from onnxq.base.tables import load


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
        UserError: the file cannot be read, or is not TOML.
        TypeError: an entry lacks a key, or has one too many.
    """

    def build(tables: Mapping[str, Any], document: str) -> dict[str, Gpu]:
        return {name: Gpu(name, **{**one, "sources": tuple(one["sources"])}) for name, one in tables.items()}

    return load(path, build)


@functools.cache
def gpus() -> tuple[Gpu, ...]:
    """The GPUs over which an estimate ranges."""
    return tuple(read_gpus(Path(__file__).with_name("gpus.toml")).values())


def gpus_named(name: str | None) -> tuple[Gpu, ...]:
    """The GPU of a name (`Gpu.name`) alone, or all of them where none is asked for.

    Raises:
        UserError: there is no such GPU in the table.
    """
    chosen = tuple(gpu for gpu in gpus() if name in (None, gpu.name))
    if not chosen:
        raise unknown_name("GPU", str(name), [gpu.name for gpu in gpus()])
    return chosen
