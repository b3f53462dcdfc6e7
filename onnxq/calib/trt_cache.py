"""TensorRT's calibration caches: the scales of tensors, by name, as a text file.

    TRT-8601-EntropyCalibration2
    input: 3c010a14
    onnx::Conv_329: 3c96d93c

The header names the version of TensorRT (7.1.3 is 7103, 10.3.0 is 100300) and the algorithm. A value is the
bits of a float32 in hexadecimal, the most significant digit first: the scale, which is the greatest
magnitude over 127. NVIDIA does not document the format: this is what the caches that users have
published look like, and how the TensorRT provider of onnxruntime reads them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from onnxq.base import door
from onnxq.base.errors import UserError

_MAGIC = b"TRT-"
_BOM = b"\xef\xbb\xbf"
_HEADER = re.compile(r"TRT-(\w+)-(\w+)")
# A leading zero may be missing: the value is a number, not four bytes.
_LINE = re.compile(r"(?P<name>.+): *(?P<bits>[0-9a-fA-F]{1,8})\s*")


@dataclass(frozen=True, slots=True)
class Cache:
    """A calibration cache.

    Attributes:
        header: its first line.
        algorithm: the calibrator that wrote it: `EntropyCalibration2`, `MinMaxCalibration`, ...
        scales: the scale of each tensor, float32, at least 0, in the order of the file. A tensor that was
            zero in all samples has the scale 0.
    """

    header: str
    algorithm: str
    scales: dict[str, np.float32]


def is_cache(path: Path) -> bool:
    """Whether a file begins as a calibration cache does."""
    try:
        return door.begins(path, len(_BOM + _MAGIC)).removeprefix(_BOM).startswith(_MAGIC)
    except OSError:
        return False


def read_cache(path: Path) -> Cache:
    """Reads a calibration cache.

    Raises:
        UserError: it cannot be read, is no calibration cache, or holds a value that is no scale.
    """
    where = repr(str(path))
    try:
        header, *lines = door.text(path, "utf-8-sig").split("\n")
    except OSError as error:
        raise UserError(f"cannot read {where}: {error.strerror or error}", hint="check the path") from error
    except UnicodeDecodeError as error:
        raise _not_a_cache(where, "it is not UTF-8 text") from error
    title = _HEADER.fullmatch(header.rstrip())
    if title is None:
        raise _not_a_cache(where, f"its first line is {header.rstrip()[:60]!r}")
    return Cache(title[0], title[2], _scales(lines, where))


def write_cache(scales: Mapping[str, np.float32], header: str) -> str:
    r"""The text of a calibration cache, in the order of the mapping.

    Args:
        scales: the scale of each tensor, float32.
        header: the first line, as `Target.cache` has it.

    Returns:
        Lines that end with "\n"; to be stored as UTF-8.

    Raises:
        UserError: a scale is not a finite number from 0 upwards, or a name is empty or has a line break.
    """
    lines = [header]
    for name, scale in scales.items():
        value = np.float32(scale)
        _check(value, f"tensor {name!r}")
        if not name or "\n" in name:
            raise UserError(
                f"a calibration cache cannot hold a tensor of the name {name!r}", hint="rename the tensor"
            )
        lines.append(f"{name}: {int(value.view(np.uint32)):08x}")
    return "\n".join(lines) + "\n"


def _scales(lines: Iterable[str], where: str) -> dict[str, np.float32]:
    scales: dict[str, np.float32] = {}
    for number, line in enumerate(lines, 2):
        if not line.strip():
            continue
        at = f"{where}, line {number}"
        fields = _LINE.fullmatch(line)
        if fields is None:
            raise UserError(
                f"{at}: {line.strip()[:80]!r} is not a tensor's name, a colon and 8 hexadecimal digits",
                hint="correct the line, or let TensorRT write the cache again",
            )
        name, scale = fields["name"], np.uint32(int(fields["bits"], 16)).view(np.float32)
        _check(scale, f"{at}: tensor {name!r}")
        if scales.setdefault(name, scale) != scale:
            raise UserError(f"{at}: tensor {name!r} has another scale above", hint="leave one of them")
    return scales


def _check(scale: np.float32, what: str) -> None:
    if not (np.isfinite(scale) and scale >= 0):
        raise UserError(
            f"{what} has the scale {scale}, which is not a finite number from 0 upwards",
            hint="leave the tensor out, or calibrate again on finite samples",
        )


def _not_a_cache(where: str, why: str) -> UserError:
    return UserError(
        f"{where} is not a calibration cache of TensorRT: {why}",
        hint="a cache begins with a line like TRT-8601-EntropyCalibration2",
    )
