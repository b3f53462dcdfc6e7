"""Types and shapes of tensors that ONNX's inference leaves open: onnxruntime knows its own operators."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import onnx

from onnxq.graph.model import Model
from onnxq.graph.types import Shape, dtype_of, set_shape, shape_of
from onnxq.run import ort


def open_kinds(
    model: Model, sizes: Mapping[str, Shape] | None = None
) -> dict[str, tuple[np.dtype, Shape | None]]:
    """Type and shape of tensors of the main graph whose type or rank is open, as far as onnxruntime tells.

    Args:
        model: the model.
        sizes: shapes of inputs.

    Returns:
        They, by name; a shape is None where its rank is not known. Nothing where onnxruntime does not
        take the model.
    """
    names = [
        tensor.name
        for node in model.nodes
        for tensor in node.outputs
        if tensor.name and (tensor.dtype is None or tensor.shape is None)
    ]
    if not names:
        return {}
    proto = model.to_proto()
    for info in proto.graph.input:
        if sizes and info.name in sizes:
            set_shape(info.type.tensor_type, sizes[info.name])
    outputs = {info.name for info in proto.graph.output}
    proto.graph.output.extend(onnx.ValueInfoProto(name=name) for name in names if name not in outputs)
    kinds = {}
    for name, kind in ort.output_types(proto).items():
        dtype = dtype_of(kind.tensor_type.elem_type)
        if name in names and dtype is not None:
            shape = shape_of(kind.tensor_type.shape)
            kinds[name] = dtype, shape or None  # without dimensions: a scalar, or of unknown rank
    return kinds
