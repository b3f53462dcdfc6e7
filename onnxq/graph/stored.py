"""Tensors as a file stores them: types, sizes and bytes agree, sparse ones lie where they say they do."""

from __future__ import annotations

import functools
import math

import numpy as np
import onnx
from onnx import numpy_helper

from onnxq.base.errors import UserError
from onnxq.graph.constants import tensor_bytes
from onnxq.graph.types import dtype_of, limits

MOST_DIMS = 32
"""Dimensions of a tensor: numpy's bound before 2.0. TensorRT takes 8."""

MOST_VALUES = 1 << 31
"""Of an input, of a sparse tensor in full: 8 GiB as float32. Samples are held in memory, several of them."""

AGAIN = "the file is damaged, or its exporter is at fault: export the model again"
_STRIPPED = "the file is damaged or stripped of its weights: copy or export it again"
_MOST_SIZE = 1 << 58  # sizes in bytes are numbers of 64 bits, without elements too

_T = onnx.TensorProto
KINDS = frozenset(_T.DataType.values())
"""The element types that there are."""

_PAIRS = (_T.COMPLEX64, _T.COMPLEX128)  # a value takes two entries of its field (onnx.proto)


def invalid(where: str, what: str, hint: str = AGAIN) -> UserError:
    """The error of a model that is none."""
    return UserError(f"{where!r} is not a valid ONNX model: {what}", hint=hint)


def check_values(tensor: onnx.TensorProto, where: str, *, stripped: bool) -> None:
    """Refuses a tensor whose sizes do not fit the data that the model holds of it.

    Args:
        tensor: the tensor.
        where: the model, for the message.
        stripped: whether it may have no data at all.

    Raises:
        UserError: they do not, a size is negative, there are more than `MOST_DIMS` of them, or its type is
            none.
    """
    name = f"weight {tensor.name!r}" if tensor.name else "a constant"
    if len(tensor.dims) > MOST_DIMS:
        raise invalid(where, f"{name} has {len(tensor.dims):,} dimensions, more than {MOST_DIMS}")
    sizes = "x".join(map(str, tensor.dims)) or "a scalar"
    if any(size < 0 for size in tensor.dims):
        raise invalid(where, f"{name} is {sizes}: a size is negative")
    if tensor.data_type == _T.UNDEFINED:
        raise invalid(where, f"{name} has no type")
    if tensor.data_type not in KINDS:
        raise invalid(where, f"{name} is of type {tensor.data_type}, which ONNX does not have")
    if tensor.HasField("segment"):
        raise invalid(where, f"{name} is a part of one (its field `segment`), and nobody puts these together")
    endless = math.prod(max(size, 1) for size in tensor.dims) > _MOST_SIZE
    if tensor.data_location == _T.EXTERNAL:
        fits, needed, held, unit = (
            not endless,
            tensor_bytes(tensor),
            0,
            "bytes",
        )  # else looked at beside the model
    elif tensor.HasField("raw_data"):
        if tensor.data_type == _T.STRING:
            raise invalid(where, f"{name} is of strings, which stand there as raw bytes")
        needed, held, unit = tensor_bytes(tensor), len(tensor.raw_data), "bytes"
        fits = held == needed
    else:
        needed = math.prod(tensor.dims) * (2 if tensor.data_type in _PAIRS else 1)
        held, unit = len(getattr(tensor, _field(tensor.data_type))), "values"
        packed = tensor_bytes(tensor) < needed and tensor.data_type != _T.STRING  # less than a byte each
        fits = held == needed or (packed and held == tensor_bytes(tensor))
    if endless or (not fits and not (stripped and held == 0 and not _holds(tensor))):
        raise invalid(
            where, f"{name} is {sizes}, which is {needed:,} {unit}, and the file holds {held:,}", _STRIPPED
        )
    dtype = dtype_of(tensor.data_type)
    if held and len(tensor.int32_data) == held and dtype is not None and dtype.kind in "iu":
        low, high = limits(dtype)  # of what is narrower than the field
        if min(tensor.int32_data) < low or max(tensor.int32_data) > high:
            raise invalid(where, f"{name} holds numbers that its type does not have")


def _holds(tensor: onnx.TensorProto) -> bool:
    """Whether there are values in any field."""
    return any(len(getattr(tensor, _field(kind))) for kind in KINDS if kind)


@functools.cache
def _field(kind: int) -> str:
    """The field of a tensor's protobuf that holds values of a type."""
    return str(onnx.helper.tensor_dtype_to_field(kind))


def check_sparse(tensor: onnx.SparseTensorProto, where: str) -> None:
    """Refuses a sparse tensor whose values lie nowhere in it, twice at one place, or out of order.

    Raises:
        UserError: they do, or what it is in full no memory holds.
    """
    name = f"sparse weight {tensor.values.name!r}" if tensor.values.name else "a sparse constant"
    for part in (tensor.values, tensor.indices):
        if part.data_location == _T.EXTERNAL:
            raise invalid(where, f"{name} is external data, which nobody reads", "store it in the model")
    dims = list(tensor.dims)
    sizes = "x".join(map(str, dims[:MOST_DIMS]))
    if not dims or len(dims) > MOST_DIMS or any(size < 0 for size in dims):
        raise invalid(
            where, f"{name} is {sizes or 'of no size'}: it has 1 to {MOST_DIMS} sizes, none negative"
        )
    if math.prod(dims) > MOST_VALUES:
        raise invalid(
            where, f"{name} is {sizes}, more than {MOST_VALUES:,} values in full, which no memory holds"
        )
    check_values(tensor.values, where, stripped=False)
    count = len(tensor.values.dims) == 1 and tensor.values.dims[0]
    if count is False or tensor.values.data_type == _T.STRING:
        raise invalid(where, f"the values of {name} are no list of numbers")
    if tensor.indices.data_type != _T.INT64 or list(tensor.indices.dims) not in ([count], [count, len(dims)]):
        raise invalid(
            where, f"the indices of {name} are not one int64, or {len(dims)}, for each of {count} values"
        )
    check_values(tensor.indices, where, stripped=False)
    places = numpy_helper.to_array(tensor.indices)
    if not count:
        return
    if places.ndim == 2:
        inside = bool((places >= 0).all() and (places < np.array(dims)).all())
        places = (
            places @ np.array([math.prod(dims[axis + 1 :]) for axis in range(len(dims))])
            if inside
            else places
        )
    else:
        inside = bool(places.min() >= 0 and places.max() < math.prod(dims))
    if not inside:
        raise invalid(where, f"an index of {name} is beyond its sizes, {sizes}")
    if (np.diff(places) <= 0).any():
        raise invalid(where, f"the indices of {name} are not in ascending order, each once")
