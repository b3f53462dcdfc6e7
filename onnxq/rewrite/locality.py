"""Smaller inputs for what does the same at every place: a convolution of 513 x 513 is that of 7 x 8."""

from __future__ import annotations

import onnx

from onnxq.graph.snippet import Snippet, SnippetInputs
from onnxq.graph.types import Dim

_WINDOWS = ("Conv", "ConvTranspose", "FusedConv")
# They read what is at the same place, and a number or one a channel.
_PLACEWISE = (
    "BatchNormalization", "Relu", "LeakyRelu", "PRelu", "Clip", "Sigmoid", "HardSigmoid", "HardSwish", "Tanh",
    "Elu", "Softplus", "Erf", "Exp", "Sqrt", "Neg", "Abs", "Identity", "Cast", "Add", "Sub", "Mul", "Div",
    "Min", "Max", "Sum", "Pow", "Reciprocal",
)  # fmt: skip


def smaller(snippet: Snippet) -> SnippetInputs | None:
    """The inputs of a snippet with smaller spatial sizes; None where the sizes may matter.

    They matter to all but convolutions with stated pads and operators that work place by place. A size is
    as small as the windows allow: some places that see padding at either side, and some that see none.
    """
    rank, least = _least(snippet)
    if least is None:
        return None
    changed, inputs_now = False, []
    for name, dtype, shape in snippet.inputs:
        if len(shape) not in (rank, 0, 1):
            return None  # neither a map, nor a number, nor one a channel
        dims: list[Dim] = list(shape)
        for axis in range(2, len(shape)) if len(shape) == rank else ():
            dim = shape[axis]
            if isinstance(dim, int) and dim > least + axis:
                dims[axis] = least + axis
                changed = True
        inputs_now.append((name, dtype, tuple(dims)))
    return inputs_now if changed else None


def is_local(snippet: Snippet) -> bool:
    """Whether a snippet is made of convolutions and operators that work place by place."""
    return _least(snippet)[1] is not None


def is_by_sample(snippet: Snippet) -> bool:
    """Whether a snippet computes each sample of a batch alone: inputs are maps, constants are none."""
    rank, least = _least(snippet)
    if least is None or any(len(shape) != rank for _, _, shape in snippet.inputs):
        return False
    return not any(
        len(tensor.dims) == rank and tensor.dims[0] != 1 and tensor.name not in _weights(model)
        for model in (snippet.before, snippet.after)
        for tensor in model.graph.initializer
    )


def _weights(model: onnx.ModelProto) -> set[str]:
    return {node.input[1] for node in model.graph.node if node.op_type in _WINDOWS}


def _least(snippet: Snippet) -> tuple[int, int | None]:
    """The rank of maps, and how far the windows reach; None where sizes may matter."""
    rank = max((len(shape) for _, _, shape in snippet.inputs), default=0)
    if rank < 3:
        return rank, None
    reaches = [_reach(model, rank) for model in (snippet.before, snippet.after)]
    sizes = [reach for reach in reaches if reach is not None]
    return rank, max(sizes) if len(sizes) == 2 else None


def _reach(model: onnx.ModelProto, rank: int) -> int | None:
    """How far the windows of a model reach, and step; None where it does more than windows and places."""
    constants = {tensor.name: tensor for tensor in model.graph.initializer}
    reach = 3
    for node in model.graph.node:
        attributes = {attribute.name: attribute for attribute in node.attribute}
        if node.op_type in _WINDOWS:
            kind = attributes.get("auto_pad", _UNSET).s
            if "output_shape" in attributes or kind not in (b"", b"NOTSET", b"VALID"):
                return None  # pads that depend on the size
            weights = constants.get(node.input[1])
            if weights is None or len(weights.dims) != rank:
                return None
            dilation = max(attributes.get("dilations", _UNSET).ints or [1])
            stride = max(attributes.get("strides", _UNSET).ints or [1])
            reach = reach * (stride if node.op_type != "ConvTranspose" else 1)
            reach += dilation * (max(weights.dims[2:]) - 1) + stride
            continue
        if node.op_type not in _PLACEWISE or node.domain:
            return None
        if node.op_type == "BatchNormalization":
            continue
        for name in node.input:
            if name in constants and any(size != 1 for size in list(constants[name].dims)[-(rank - 2) :]):
                return None
    return reach


_UNSET = onnx.AttributeProto()
