"""New weights of a large model: in a file, so that they are not in memory beside the old ones."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import onnx
from onnx import numpy_helper

from onnxq.base import interrupts
from onnxq.graph.constants import SourceValues, tensor_bytes
from onnxq.graph.load import tensors
from onnxq.graph.rooted import ROOT, is_external, refer

LARGE = 1 << 29
"""Bytes of weights from which a model counts as large."""

# Smaller constants stay in memory.
_MIN_BYTES = 1 << 20
_ALIGN = 4096


def weight_bytes(model: onnx.ModelProto) -> int:
    """The size of all weights, external ones included."""
    return sum(map(tensor_bytes, tensors(model.graph)))


def is_large(model: onnx.ModelProto) -> bool:
    """Whether a model has external weights so large that new ones are to be kept in a file."""
    return any(map(is_external, tensors(model.graph))) and os.name == "posix" and weight_bytes(model) >= LARGE


class Spool:
    """A temporary file of weights; it is deleted with the last reference to this object."""

    data_dir = ROOT

    def __init__(self) -> None:
        self._folder = interrupts.Folder()
        self._path = Path(os.path.realpath(self._folder.name)) / "weights"
        self._path.touch()

    def values(self, array: np.ndarray) -> np.ndarray | SourceValues:
        """An array, or where it is large the same values in the file."""
        if array.nbytes < _MIN_BYTES or array.dtype == object:  # strings have no raw form
            return array
        inline = numpy_helper.from_array(array)
        with self._path.open("ab") as file:
            file.write(b"\0" * (-file.tell() % _ALIGN))
            offset = file.tell()
            length = file.write(inline.raw_data)
        # a new message: protobuf frees what a message held only with the message itself
        tensor = onnx.TensorProto(data_type=inline.data_type, dims=inline.dims)
        refer(tensor, self._path, offset, length)
        return SourceValues(tensor, ROOT)
