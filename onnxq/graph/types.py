"""Element types and shapes: ONNX's enumerations as numpy dtypes, dimensions as int, str or None."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any, TypeGuard

import ml_dtypes
import numpy as np
import onnx

Dim = int | str | None
"""A dimension: its size, the symbol of a dynamic one, or None where nothing is known."""

Shape = tuple[Dim, ...]


@functools.cache
def dtype_of(elem_type: int) -> np.dtype | None:
    """The numpy (or ml_dtypes) dtype of an ONNX element type; None for "undefined"."""
    if elem_type == onnx.TensorProto.UNDEFINED:
        return None
    return np.dtype(onnx.helper.tensor_dtype_to_np_dtype(elem_type))


@functools.cache
def elem_type_of(dtype: np.dtype) -> int:
    """The ONNX element type of a numpy (or ml_dtypes) dtype."""
    return int(onnx.helper.np_dtype_to_tensor_dtype(dtype))


def shape_of(shape: onnx.TensorShapeProto) -> Shape:
    """The dimensions of an ONNX shape; a negative size is a dynamic dimension without a name."""
    return tuple(
        int(dim.dim_value) if dim.HasField("dim_value") and dim.dim_value >= 0 else dim.dim_param or None
        for dim in shape.dim
    )


def set_shape(proto: onnx.TypeProto.Tensor, shape: Shape | None) -> None:
    """Writes a shape (None: unknown rank) into a tensor type."""
    if shape is not None and proto.HasField("shape") and shape_of(proto.shape) == shape:
        return  # as it is, denotations included
    proto.ClearField("shape")
    if shape is None:
        return
    proto.shape.SetInParent()
    for size in shape:
        dim = proto.shape.dim.add()
        if isinstance(size, str):
            dim.dim_param = size
        elif size is not None:
            dim.dim_value = size


def set_inputs(graph: onnx.GraphProto, shapes: Mapping[str, Sequence[Dim]]) -> None:
    """Gives inputs of a graph these shapes, by name; what was known of other tensors' shapes is gone."""
    for info in graph.input:
        if info.name in shapes:
            set_shape(info.type.tensor_type, tuple(shapes[info.name]))
    del graph.value_info[:]
    for info in graph.output:
        info.type.tensor_type.ClearField("shape")


def value_info(name: str, dtype: np.dtype, shape: Shape | None) -> onnx.ValueInfoProto:
    """A tensor's ValueInfoProto."""
    info = onnx.ValueInfoProto(name=name)
    info.type.tensor_type.elem_type = elem_type_of(dtype)
    set_shape(info.type.tensor_type, shape)
    return info


def is_static(shape: Sequence[Dim] | None) -> TypeGuard[tuple[int, ...]]:
    """Whether the rank and every dimension are known."""
    return shape is not None and all(isinstance(dim, int) for dim in shape)


def bind(shape: Shape | None, sizes: Mapping[str, int]) -> Shape | None:
    """The shape with the symbols of `sizes` replaced by their sizes."""
    if shape is None:
        return None
    return tuple(sizes.get(dim, dim) if isinstance(dim, str) else dim for dim in shape)


def shape_text(shape: Shape | None) -> str:
    """A shape for a reader: `1x3x224x224`, `Nx3x?`, `batch x 3 x length`, `scalar`, `unknown`."""
    if shape is None:
        return "unknown"
    has_words = any(isinstance(dim, str) and len(dim) > 1 for dim in shape)
    return (" x " if has_words else "x").join("?" if dim is None else str(dim) for dim in shape) or "scalar"


def is_float(dtype: np.dtype | None) -> bool:
    """Whether a type is float16, bfloat16, float32 or float64."""
    return dtype is not None and dtype in _FLOATS  # numpy: float64 == None


_FLOATS = tuple(np.dtype(kind) for kind in (np.float16, ml_dtypes.bfloat16, np.float32, np.float64))


def float_info(dtype: np.dtype) -> Any:
    """Numpy's finfo, for the floats of ml_dtypes as well."""
    return ml_dtypes.finfo(dtype)  # type: ignore[no-untyped-call]


def limits(dtype: np.dtype) -> tuple[np.ndarray, np.ndarray]:
    """The lowest and the highest value of a dtype (for floats: minus and plus infinity's neighbours).

    Returns:
        Two scalars (0-d arrays) of `dtype`.
    """
    if np.issubdtype(dtype, np.integer):
        info = np.iinfo(dtype)
        return np.array(info.min, dtype), np.array(info.max, dtype)
    finfo = float_info(dtype)
    return np.array(finfo.min, dtype), np.array(finfo.max, dtype)
