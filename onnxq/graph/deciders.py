"""Scalar inputs that decide which branch of a model runs, or what sizes it computes with."""

from __future__ import annotations

import shlex

import onnx

from onnxq.graph.load import graphs
from onnxq.graph.moves import REARRANGES
from onnxq.graph.types import dtype_of

_DECIDED = {
    "If": (0,), "Loop": (0, 1), "Range": (0, 1, 2), "Reshape": (1,), "Expand": (1,), "Tile": (1,),
    "ConstantOfShape": (0,), "Slice": (1, 2, 3, 4), "Pad": (1,), "Resize": (2, 3), "TopK": (1,),
    "Split": (1,), "OneHot": (1,),
}  # fmt: skip
"""The inputs of operators that say which branch runs, how often, or how large something is."""

_UNCHANGED = (*REARRANGES, "Cast")
_KINDS = onnx.TensorProto
_INTEGERS = [one for one in _KINDS.DataType.values() if (kind := dtype_of(one)) and kind.kind in "iub"]
_NUMBERS = [*_INTEGERS, _KINDS.FLOAT16, _KINDS.FLOAT, _KINDS.DOUBLE]


def deciding_inputs(model: onnx.ModelProto) -> dict[str, list[str]]:
    """The integer and bool inputs of one element that decide something before the model runs.

    Returns:
        By name the values that each is compared with, as --freeze takes them; none where it is compared
        with nothing.
    """
    constants = _constants(model)
    nodes = [node for graph in graphs(model.graph) for node in graph.node]
    deciding = {}
    for info in model.graph.input:
        if info.name not in constants and _is_scalar(info.type.tensor_type):
            values = _decided(nodes, info.name, constants)
            if values is not None:
                boolean = info.type.tensor_type.elem_type == onnx.TensorProto.BOOL
                deciding[info.name] = ["true", "false"] if boolean else values
    return deciding


def freeze_hint(model: onnx.ModelProto) -> str:
    """What a user can state of the inputs that decide something, "" where there are none."""
    flags = []
    for name, values in deciding_inputs(model).items():
        flag = f"--freeze {shlex.quote(name)}={values[0] if values else 'VALUE'}"
        flags.append(f"{flag} (or {', '.join(values[1:])})" if len(values) > 1 else flag)
    if not flags:
        return ""
    them = "an input decides" if len(flags) == 1 else "inputs decide"
    return f"{them} which branch the model computes, or with what sizes; state its value: {' '.join(flags)}"


def or_freeze(hint: str, model: onnx.ModelProto) -> str:
    """A hint, and what a user can state of the inputs that decide something."""
    return "; ".join(filter(None, (hint, freeze_hint(model))))


def _is_scalar(kind: onnx.TypeProto.Tensor) -> bool:
    single = all(dim.dim_value == 1 for dim in kind.shape.dim)
    return kind.elem_type in _INTEGERS and kind.HasField("shape") and single


def _constants(model: onnx.ModelProto) -> dict[str, int]:
    """The constants that are one whole number."""
    constants: dict[str, int] = {}
    for graph in graphs(model.graph):
        listed = [(tensor.name, tensor) for tensor in graph.initializer]
        for node in (node for node in graph.node if node.op_type == "Constant"):
            listed += [(node.output[0], a.t) for a in node.attribute if a.HasField("t")]
        for name, tensor in listed:
            here = tensor.data_location != onnx.TensorProto.EXTERNAL
            if here and tensor.data_type in _NUMBERS and all(size == 1 for size in tensor.dims):
                value = float(onnx.numpy_helper.to_array(tensor).ravel()[0])
                if value.is_integer():
                    constants[name] = int(value)
    return constants


def _decided(nodes: list[onnx.NodeProto], name: str, constants: dict[str, int]) -> list[str] | None:
    """The values that an input is compared with; None where it decides nothing."""
    reached, same = {name}, {name}  # what depends on it, and what is its very value
    count = 0
    while count < len(reached):
        count = len(reached)
        for node in nodes:
            if node.op_type in ("Shape", "Size"):
                continue
            body_outputs = {output.name for a in node.attribute if a.HasField("g") for output in a.g.output}
            if not reached.isdisjoint(node.input) or not reached.isdisjoint(body_outputs):
                reached.update(filter(None, node.output))
            if node.op_type in _UNCHANGED and not same.isdisjoint(node.input[:1]):
                same.update(node.output)
    decides = False
    values: list[int] = []
    for node in nodes:
        read = [node.input[i] for i in _DECIDED.get(node.op_type, ()) if i < len(node.input)]
        decides = decides or not reached.isdisjoint(read)
        if node.op_type == "Equal" and not same.isdisjoint(node.input):
            values += [constants[name] for name in node.input if name in constants]
    return list(map(str, dict.fromkeys(values))) if decides else None
