"""Raising a model's opset where Q/DQ needs a newer one."""

from __future__ import annotations

import onnx

from onnxq.errors import UserError
from onnxq.graph.model import Model


def upgrade(model: Model, opset: int) -> Model:
    """The same model in a newer opset, by ONNX's own version converter.

    Args:
        model: the model; it is not changed.
        opset: the version of ONNX's own operators wanted, newer than the model's.

    Raises:
        UserError: the converter does not take the model.
    """
    proto = model.to_proto()
    try:
        converted = onnx.version_converter.convert_version(proto, opset)
    except Exception as error:  # the converter raises RuntimeError and its own classes
        raise UserError(
            f"the model's opset is {model.opset}, int8 needs {opset}, and ONNX's converter fails: "
            f"{str(error).strip().splitlines()[0]}",
            hint=f"export the model again with opset {opset} or newer",
        ) from error
    for info in (*converted.graph.input, *converted.graph.output):
        source = {i.name: i for i in (*proto.graph.input, *proto.graph.output)}
        if info.name in source:  # the converter forgets dimension symbols
            info.CopyFrom(source[info.name])
    upgraded = Model(converted, model.path, model.data_dir)
    upgraded.source = model.source
    upgraded.assumed.update(model.assumed)
    upgraded.symbols |= model.symbols
    return upgraded
