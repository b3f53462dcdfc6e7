"""Constant tensors: read from the model file or its external data only when somebody looks."""

from __future__ import annotations

import math
import os
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper
from onnx_graphsurgeon.ir.tensor import LazyValues

from onnxq.base.errors import UserError
from onnxq.graph.types import dtype_of

_SUB_BYTE = {
    "INT4": 4, "UINT4": 4, "FLOAT4E2M1": 4, "INT2": 2, "UINT2": 2, "FLOAT6E2M3": 6, "FLOAT6E3M2": 6,
}  # fmt: skip

_SAVE = "save the model again with onnx.save"
_LONGEST, _LONGEST_PART = 4096, 255  # of a path and of its parts, as file systems have it
_DIGITS = 18


class SourceValues(LazyValues):  # type: ignore[misc]
    """The values of an initializer, kept as the source's TensorProto.

    graphsurgeon's own lazy values find external data only from the model's folder as working
    directory, and do not know element types of less than a byte.
    """

    def __init__(self, tensor: onnx.TensorProto, data_dir: Path | None) -> None:
        self.tensor = tensor
        self.shape = tuple(tensor.dims)
        self.dtype = dtype_of(tensor.data_type)
        self._data_dir = data_dir

    @property
    def is_external(self) -> bool:
        """Whether the bytes are in a file beside the model."""
        return bool(self.tensor.data_location == onnx.TensorProto.EXTERNAL)

    @property
    def nbytes(self) -> int:
        """The size of the values in bytes, 0 for strings."""
        return tensor_bytes(self.tensor)

    @property
    def place(self) -> tuple[Path, int, int]:
        """Where external data is: the file, the offset and the length in bytes.

        Raises:
            UserError: as `external_range`.
        """
        if self._data_dir is None:
            raise UserError(
                f"tensor {self.tensor.name!r} is external data, and the model has no folder",
                hint="give the model as a path",
            )
        return external_range(self.tensor, self._data_dir)

    def load(self) -> np.ndarray:
        """The values; external data is mapped, not read."""
        if not self.is_external:
            return numpy_helper.to_array(self.tensor)
        path, offset, length = self.place
        bits = _SUB_BYTE.get(onnx.TensorProto.DataType.Name(self.tensor.data_type))
        if bits is None and length:
            mapped: np.ndarray = np.memmap(path, self.dtype, "r", offset, self.shape)  # type: ignore[call-overload]
            return mapped
        copy = onnx.TensorProto(data_type=self.tensor.data_type, dims=self.tensor.dims)
        copy.raw_data = read_range(path, offset, length)
        return numpy_helper.to_array(copy)


def array_of(constant: Any) -> np.ndarray:
    """The values of a graphsurgeon Constant, without making it forget its source."""
    values = constant._values
    array: np.ndarray = values.load() if isinstance(values, LazyValues) else values
    return array


def tensor_bytes(tensor: onnx.TensorProto) -> int:
    """The size of a tensor's values in bytes, 0 for strings."""
    name = onnx.TensorProto.DataType.Name(tensor.data_type)
    count: int = math.prod(tensor.dims)  # of Python's integers, which do not overflow
    if name in _SUB_BYTE:
        return (count * _SUB_BYTE[name] + 7) // 8
    if name in ("STRING", "UNDEFINED"):
        return 0
    dtype = dtype_of(tensor.data_type)
    return count * (dtype.itemsize if dtype is not None else 0)


def external_range(tensor: onnx.TensorProto, data_dir: Path, *others: Path) -> tuple[Path, int, int]:
    """Where a tensor's external data is.

    Args:
        tensor: the tensor.
        data_dir: the folder that the location is relative to.
        others: further folders to which a link may lead.

    Returns:
        The file, the offset and the length in bytes.

    Raises:
        UserError: the location is absolute, leaves the model's folder, does not exist or is too
            short. (ONNX's specification of external data: a path relative to the model's folder.)
    """
    fields = {entry.key: entry.value for entry in tensor.external_data}
    said = f"external data of tensor {tensor.name!r}"
    if len(fields) < len(tensor.external_data):
        raise UserError(f"{said} says twice where it is", hint=_SAVE)
    location = fields.get("location", "")
    if (
        "\0" in location
        or len(location) > _LONGEST
        or any(len(p.encode()) > _LONGEST_PART for p in location.split("/"))
    ):
        raise UserError(f"{said} is at {location[:80]!r}, which is no name of a file", hint=_SAVE)
    parts = PurePosixPath(location.replace("\\", "/")).parts
    if (
        not location
        or PurePosixPath(location).is_absolute()
        or PureWindowsPath(location).is_absolute()
        or PureWindowsPath(location).drive
        or ".." in parts
    ):
        raise UserError(
            f"{said} is at {location!r}, outside the model's folder",
            hint="keep the data file in the model's folder and save the model again with onnx.save",
        )
    roots = [Path(os.path.realpath(folder)) for folder in (data_dir, *others)]
    path = Path(os.path.realpath(roots[0] / location))
    if not any(path.is_relative_to(root) for root in roots):
        raise UserError(
            f"{said} is a link out of the model's folder: {location!r}",
            hint="replace the link by the file itself",
        )
    if not os.path.isfile(path):
        raise UserError(
            f"external data file {str(data_dir / location)!r} of tensor {tensor.name!r} is "
            + ("no file" if os.path.lexists(path) else "missing"),
            hint="copy the data file beside the model, under the name that the model gives it",
        )
    needed = tensor_bytes(tensor)
    offset, length = (_count(said, key, fields.get(key, "")) for key in ("offset", "length"))
    offset, length = offset or 0, needed if length is None else length
    size = path.stat().st_size
    if length < needed or offset + length > size:
        raise UserError(
            f"external data file {str(data_dir / location)!r} is too short for tensor "
            f"{tensor.name!r}: {needed} bytes at offset {offset}, the file has {size}",
            hint="the file is truncated or from another export; copy it again",
        )
    return path, offset, needed


def _count(said: str, key: str, text: str) -> int | None:
    """A number of bytes; None where there is none.

    Raises:
        UserError: it is no number, or one that no file has.
    """
    if not text:
        return None
    if not (text.isascii() and text.isdigit() and len(text) <= _DIGITS):
        shown = text if len(text) <= _DIGITS else f"{text[:_DIGITS]}..."
        raise UserError(f"{said} has the {key} {shown!r}, which is no number of bytes", hint=_SAVE)
    return int(text)


def read_range(path: Path, offset: int, length: int) -> bytes:
    """`length` bytes of a file from `offset`."""
    with path.open("rb") as file:
        file.seek(offset)
        return file.read(length)
