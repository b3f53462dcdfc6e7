"""Weights in a file of their own, copied there piece by piece."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import onnx

from onnxq.graph.constants import external_range, tensor_bytes

# Smaller tensors stay in the model.
_MIN_BYTES = 1024
_ALIGN = 4096


def externalize(model: onnx.ModelProto, target: Path, data_dir: Path | None) -> onnx.ModelProto:
    """A copy of a model whose large tensors are in a file.

    Args:
        model: the model; it is not modified.
        target: the file; the copy refers to it by its name alone.
        data_dir: the folder of the external data that the model refers to.

    Raises:
        UserError: external data is not where the model says.
        OSError: the file cannot be written.
    """
    result = onnx.ModelProto()
    with target.open("wb") as file:
        _copy(model, result, file, target.name, data_dir)
    return result


def _copy(source: Any, result: Any, file: Any, location: str, data_dir: Path | None) -> None:
    """Copies a message field by field: large tensors are never copied in memory."""
    moved = isinstance(source, onnx.TensorProto) and _is_large(source)
    for field, value in source.ListFields():
        if moved and field.name in _PLACE:
            continue
        target = getattr(result, field.name)
        if field.message_type is None:
            target.extend(value) if field.is_repeated else setattr(result, field.name, value)
        elif field.message_type.name not in _HOLD_TENSORS:
            target.extend(value) if field.is_repeated else target.CopyFrom(value)
        elif field.is_repeated:
            for item in value:
                _copy(item, target.add(), file, location, data_dir)
        else:
            target.SetInParent()
            _copy(value, target, file, location, data_dir)
    value = None  # which may be a copy of the tensor's bytes
    if moved:
        _move(source, result, file, location, data_dir)


_HOLD_TENSORS = {"GraphProto", "NodeProto", "AttributeProto", "TensorProto"}
_PLACE = {"raw_data", "external_data", "data_location"}


def _is_large(tensor: onnx.TensorProto) -> bool:
    if tensor.data_location == onnx.TensorProto.EXTERNAL:
        return True
    return tensor.HasField("raw_data") and tensor_bytes(tensor) >= _MIN_BYTES


def _move(
    source: onnx.TensorProto, result: onnx.TensorProto, file: Any, location: str, data_dir: Path | None
) -> None:
    """Appends a tensor's bytes to the file, and tells where they are."""
    file.write(b"\0" * (-file.tell() % _ALIGN))
    offset = file.tell()
    if source.data_location == onnx.TensorProto.EXTERNAL:
        assert data_dir is not None
        path, start, length = external_range(source, data_dir)
        with path.open("rb") as data:
            data.seek(start)
            _copy_bytes(data, file, length)
    else:
        length = file.write(source.raw_data)
    result.data_location = onnx.TensorProto.EXTERNAL
    for key, value in (("location", location), ("offset", offset), ("length", length)):
        result.external_data.add(key=key, value=str(value))


def _copy_bytes(source: Any, target: Any, length: int) -> None:
    while length > 0:
        piece = source.read(min(length, 1 << 24))
        if not piece:
            raise OSError("external data ends early: the file has changed meanwhile")
        target.write(piece)
        length -= len(piece)
