"""Another type or shape for an input or output of a model."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import onnx

from onnxq.graph.edit import Edit, Editor
from onnxq.graph.model import Model
from onnxq.graph.types import Shape, value_info
from onnxq.graph.view import Node, Tensor, Value

Conversion = Callable[[Value], Value]


@dataclass(frozen=True, slots=True)
class InterfaceChange:
    """An input or an output that is another one now.

    Attributes:
        kind: `input` or `output`.
        name: its name, which stays.
        convert: a model that makes the new one's values (`new`) of the old one's (`old`).
        rule: the rule that changes it.
        because: why.
    """

    kind: str
    name: str
    convert: onnx.ModelProto
    rule: str
    because: str


def identity(model: Model, dtype: np.dtype, shape: Shape | None) -> Model:
    """A model of its own, of the same opset, that hands on one tensor: `new` is `old`."""
    proto = onnx.ModelProto(ir_version=model.envelope.ir_version)
    proto.opset_import.extend(model.envelope.opset_import)
    proto.graph.name = "convert"
    proto.graph.input.append(value_info("old", dtype, shape))
    proto.graph.output.append(value_info("new", dtype, None))
    proto.graph.node.add(op_type="Identity", input=["old"], output=["new"], name="hand_on")
    return Model.open(proto)


def conversion(model: Model, tensor: Tensor, convert: Conversion) -> onnx.ModelProto:
    """The model of a conversion of values of a tensor."""
    assert tensor.dtype is not None
    small = identity(model, tensor.dtype, tensor.shape)
    root = Node(small, small.graph.nodes[0])
    source = root.inputs[0]
    assert source is not None
    small.graph.outputs[0].dtype = small.graph.outputs[0].shape = None  # those of what replaces it
    editor = Editor(small)
    editor.replace(root, {0: convert(source)})
    editor.finish()
    small.infer_shapes()
    return small.to_proto()


def change_interface(
    model: Model, editor: Editor, tensor: Tensor, convert: Conversion, restore: Conversion
) -> Edit | None:
    """Puts a conversion between the graph and its caller.

    Args:
        model: the model.
        editor: its editor.
        tensor: an input or output of the main graph.
        convert: makes the new tensor's values of the old one's: an output's, in the graph.
        restore: makes the old tensor's values of the new one's: an input's, in the graph.
    """
    old = tensor.tensor
    if tensor.is_input:
        place = next(i for i, entry in enumerate(model.graph.inputs) if entry is old)
        new = type(old)(old.name)
        made = convert(tensor)
        new.dtype, new.shape = made.dtype, made.shape
        old.name = model.unique(f"{old.name}_was")
        model.graph.inputs[place] = new
        return editor.compute(old, new, restore(Tensor(model, new)))
    place = next(i for i, entry in enumerate(model.graph.outputs) if entry is old)
    name, old.name = old.name, model.unique(f"{old.name}_was")
    new = type(old)(name)
    model.graph.outputs[place] = new
    del model.graph_outputs[id(old)]
    model.graph_outputs[id(new)] = model.graph
    return editor.compute(new, old, convert(tensor))
