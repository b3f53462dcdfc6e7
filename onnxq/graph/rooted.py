"""A model and the folder that its external data is relative to: that of the file, or the root of all files.

The root is the only folder that holds both the user's files and temporary ones, or both the links of a model
hub's cache and what they lead to.
"""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import onnx
from onnx import numpy_helper

from onnxq.graph.constants import SourceValues, external_range
from onnxq.graph.load import read, tensors
from onnxq.graph.source import copy_model

ROOT = Path("/")


def read_beside(path: Path, *, stripped: bool = False) -> tuple[onnx.ModelProto, Path]:
    """Reads a model's file, and says which folder its external data is relative to.

    A file may be a link, as in the cache of a model hub, where names lead to files that are named by their
    hashes. Then its data may be links to what is in that file's folder, or below it, as onnxruntime has it.

    Raises:
        UserError: as `onnxq.graph.load.read`; the data of a link is not where it says.
    """
    model, own = read(path, stripped=stripped), Path(os.path.realpath(path)).parent
    is_link = own != Path(os.path.realpath(path.parent))
    if not is_link or os.name != "posix" or not any(map(is_external, tensors(model.graph))):
        return model, path.parent
    return rebased(model, path.parent, own), ROOT


def rebased(model: onnx.ModelProto, data_dir: Path, *others: Path) -> onnx.ModelProto:
    """A copy of a model that refers to its external data from the root folder, as a spool does.

    Args:
        model: the model; it is not modified.
        data_dir: the folder that it is relative to.
        others: further folders to which links may lead.

    Raises:
        UserError: it is not there.
    """
    result = copy_model(model)
    for tensor in filter(is_external, tensors(result.graph)):
        refer(tensor, *external_range(tensor, data_dir, *others))
    return result


def is_external(tensor: onnx.TensorProto) -> bool:
    """Whether the bytes of a tensor are in a file of their own."""
    return bool(tensor.data_location == onnx.TensorProto.EXTERNAL)


def values_of(tensor: onnx.TensorProto) -> np.ndarray:
    """The values of a tensor whose external data, if it has any, is relative to the root folder: mapped.

    Raises:
        UserError: it is not there.
    """
    return SourceValues(tensor, ROOT).load()


def inlined(model: onnx.ModelProto) -> onnx.ModelProto:
    """A model that holds its weights itself: a copy with what `values_of` gives, itself where it does.

    Raises:
        UserError: as `values_of`.
    """
    if not any(map(is_external, tensors(model.graph))):
        return model
    result = copy_model(model)
    for tensor in filter(is_external, tensors(result.graph)):
        tensor.CopyFrom(numpy_helper.from_array(values_of(tensor), tensor.name))
    return result


def refer(tensor: onnx.TensorProto, path: Path, offset: int, length: int) -> None:
    """Has a tensor say from the root folder where its bytes are."""
    tensor.data_location = onnx.TensorProto.EXTERNAL
    del tensor.external_data[:]
    location = path.relative_to(ROOT).as_posix()
    for key, value in (("location", location), ("offset", offset), ("length", length)):
        tensor.external_data.add(key=key, value=str(value))
