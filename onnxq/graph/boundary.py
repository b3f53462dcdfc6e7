"""The types of tensors at which a model is cut: a file must say them of its inputs and outputs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import onnx

from onnxq.base.errors import UserError
from onnxq.graph.infer import Symbols, infer
from onnxq.graph.model import Model
from onnxq.graph.runnable import runnable_part
from onnxq.graph.types import set_shape, shape_of


def boundary_types(
    model: Model,
    names: Sequence[str],
    ask: Callable[[onnx.ModelProto], Mapping[str, onnx.TypeProto]] | None,
) -> dict[str, onnx.ValueInfoProto]:
    """The types of tensors of the main graph.

    What the file declares is believed only where inference from the inputs' types finds no shape: a
    wrong shape inside a model does not matter to onnxruntime, that of an input does.

    Args:
        model: the model.
        names: the tensors.
        ask: tells the types of a model's outputs where ONNX's inference knows nothing (operators
            of onnxruntime's own, say).

    Raises:
        UserError: nobody knows the type of a tensor.
    """
    skeleton = model.to_proto(weights=False)
    shapes = {tensor.name: tensor.shape for tensor in model.inputs}
    for info in skeleton.graph.input:
        if shapes.get(info.name) is not None:
            set_shape(info.type.tensor_type, shapes[info.name])
    types = _inferred(skeleton, declared=False) | {info.name: info for info in skeleton.graph.input}
    if not all(name in types and _has_shape(types[name].type) for name in names):
        shaped = {name: info for name, info in types.items() if _has_shape(info.type)}
        types |= _inferred(skeleton, declared=True) | shaped
    unknown = [name for name in names if name not in types]
    if unknown and ask is not None:
        types |= _asked(skeleton, unknown, ask)
    for name in names:
        if name not in types:
            raise UserError(
                f"the type of tensor {name!r} is not known, which an input or output must have",
                hint="cut at another tensor, or state its type in the model's value_info",
            )
    return {name: types[name] for name in names}


def is_typed(kind: onnx.TypeProto) -> bool:
    """Whether a type says what the elements are."""
    if kind.WhichOneof("value") == "tensor_type":
        return bool(kind.tensor_type.elem_type)
    return kind.WhichOneof("value") is not None


def _has_shape(kind: onnx.TypeProto) -> bool:
    """Whether a tensor's rank is known; of what is no tensor nothing is asked."""
    return not kind.HasField("tensor_type") or bool(kind.tensor_type.HasField("shape"))


def _inferred(skeleton: onnx.ModelProto, *, declared: bool) -> dict[str, onnx.ValueInfoProto]:
    """What ONNX infers from the inputs' types, and from what the file declares of other tensors."""
    target = onnx.ModelProto()
    target.CopyFrom(skeleton)
    if not declared:
        computed = {name for node in skeleton.graph.node for name in node.output}
        del target.graph.value_info[:]
        for info in target.graph.output:
            if info.name in computed and info.type.HasField("tensor_type"):
                info.type.tensor_type.ClearField("shape")
    try:
        graph = infer(target).graph
    except Exception:  # then nothing is inferred
        return {}
    said = (*target.graph.input, *target.graph.value_info, *target.graph.output)
    own = {dim for info in said for dim in shape_of(info.type.tensor_type.shape)}
    symbols = Symbols(dim for dim in own if isinstance(dim, str))
    types = {}
    for info in (*graph.value_info, *graph.output):
        if is_typed(info.type):
            kind = info.type.tensor_type
            if info.type.HasField("tensor_type") and kind.HasField("shape"):
                set_shape(kind, symbols.named(info.name, shape_of(kind.shape)))
            types[info.name] = info
    return types


def _asked(
    skeleton: onnx.ModelProto,
    names: Sequence[str],
    ask: Callable[[onnx.ModelProto], Mapping[str, onnx.TypeProto]],
) -> dict[str, onnx.ValueInfoProto]:
    for model in (skeleton, runnable_part(skeleton)[0]):
        probe = onnx.ModelProto()
        probe.CopyFrom(model)
        made = {name for node in probe.graph.node for name in node.output}
        del probe.graph.output[:]
        probe.graph.output.extend(onnx.ValueInfoProto(name=name) for name in names if name in made)
        types = ask(probe)
        if types:
            return {name: onnx.ValueInfoProto(name=name, type=kind) for name, kind in types.items()}
    return {}
