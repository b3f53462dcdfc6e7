"""Why onnxruntime does not take a model, where that is the model's fault and not a lack of its own."""

from __future__ import annotations

from pathlib import Path

import onnx

from onnxq.base.reason import noted
from onnxq.graph.constants import tensor_bytes
from onnxq.graph.load import opset_of
from onnxq.graph.source import without_graph
from onnxq.graph.spool import weight_bytes
from onnxq.graph.types import dtype_of, value_info
from onnxq.run import ort
from onnxq.run.plain_words import plain

# A model with more bytes of weights is first tried without the large ones: what refuses it seldom reads them.
_MUCH, _LARGE = 1 << 26, 1 << 12

_OLDEST = 7

# Words of onnxruntime's that say that it lacks something.
_LACKS = (
    " : NOT_IMPLEMENTED : ",
    "is not a registered function/op",
    "No Op registered for",
    "No opset import",
    "can't be converted to MLDataType",  # of arrays that are bfloat16
)


def refusal(model: onnx.ModelProto, data_dir: Path | None = None) -> str | None:
    """Why onnxruntime does not load a model.

    Args:
        model: the model.
        data_dir: the folder of its external data.

    Returns:
        Its words; None where it loads the model, or only lacks an operator or a kernel. Of opsets that it
        has no kernels for, that.
    """
    if weight_bytes(model) > _MUCH and _refused(_light(model), data_dir) is None:
        return None
    return _refused(model, data_dir)


def is_lack(text: str) -> bool:
    """Whether onnxruntime's words say that it lacks an operator or a kernel."""
    return any(words in text for words in _LACKS)


def is_valid(model: onnx.ModelProto) -> bool:
    """Whether ONNX's own checker, shapes and types included, has nothing against a model."""
    try:
        onnx.checker.check_model(_light(model), full_check=True)
    except Exception:  # of several classes
        return False
    return True


def _refused(model: onnx.ModelProto, data_dir: Path | None) -> str | None:
    try:
        ort.try_as_written(model, data_dir)
    except ort.RunError as error:
        opset = opset_of(model, _OLDEST)
        if is_lack(str(error)) and opset < _OLDEST:
            return noted("onnxruntime.old-opset", opset=opset, oldest=_OLDEST)
        return None if is_lack(str(error)) else plain(str(error))
    return None


def _light(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model with its large weights as inputs."""
    light = without_graph(model)
    light.graph.name = model.graph.name
    for field in ("node", "input", "output", "value_info", "sparse_initializer"):
        getattr(light.graph, field).extend(getattr(model.graph, field))
    listed = {info.name for info in light.graph.input}
    for tensor in model.graph.initializer:
        dtype = dtype_of(tensor.data_type)
        if dtype is None or tensor_bytes(tensor) < _LARGE:
            light.graph.initializer.append(tensor)
        elif tensor.name not in listed:
            light.graph.input.append(value_info(tensor.name, dtype, tuple(tensor.dims)))
    return light
