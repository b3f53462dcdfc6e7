"""A classifier's scores in front of its Softmax: there an error is seen before it changes an answer.

What a Softmax gives is nearly 0 or 1 for samples that are clear: a few that are not make all of the noise,
and say by chance which of two models is nearer. The logits say it with each sample. A number that is added to
all of the logits of a sample changes nothing, and is taken off.
"""

from __future__ import annotations

import onnx

from onnxq.graph.source import copy_model

_SHAPES = ("Flatten", "Identity", "Reshape", "Squeeze", "Unsqueeze")


_ONE_AXIS, _AXES_READ = 13, 18
"""Opsets from which on a Softmax is along one axis, and a ReduceMean reads its axes."""


def at_logits(model: onnx.ModelProto, *, copy: bool = False) -> onnx.ModelProto:
    """Makes outputs of a model those in front of a Softmax, about their mean, where they were behind it.

    Of outputs that are one row of classes a sample, by their shapes: rows of a detector's anchors are mostly
    of background, whose logits nobody needs.

    Args:
        model: the model; of an opset older than 13 it stays as it is.
        copy: whether what is given stays as it is.

    Returns:
        The same model, or its copy, where there is such an output.
    """
    opset = max((entry.version for entry in model.opset_import if entry.domain in ("", "ai.onnx")), default=0)
    places = _softmaxes(model) if opset >= _ONE_AXIS else {}
    if copy and places:
        model = copy_model(model)
    taken = {name for node in model.graph.node for name in (*node.input, *node.output)}
    for place, axis in sorted(places.items(), reverse=True):
        node = model.graph.node[place]
        given, out = node.input[0], node.output[0]
        mean, axes = (_free(f"{out}_{what}", taken) for what in ("mean", "axes"))
        if opset < _AXES_READ:
            middle = onnx.helper.make_node("ReduceMean", [given], [mean], axes=[axis], keepdims=1)
        else:
            model.graph.initializer.append(onnx.helper.make_tensor(axes, onnx.TensorProto.INT64, [1], [axis]))
            middle = onnx.helper.make_node("ReduceMean", [given, axes], [mean], keepdims=1)
        node.CopyFrom(onnx.helper.make_node("Sub", [given, mean], [out], name=node.name))
        model.graph.node.insert(place, middle)
    return model


def _softmaxes(model: onnx.ModelProto) -> dict[int, int]:
    """The places of the Softmax nodes behind which a sample has one row of classes, with the axis of each."""
    makers = {name: place for place, node in enumerate(model.graph.node) for name in node.output}
    readers: dict[str, int] = {}
    for node in model.graph.node:
        for name in node.input:
            readers[name] = readers.get(name, 0) + 1
    found: dict[int, int] = {}
    for output in model.graph.output:
        shape = [
            dim.dim_value if dim.HasField("dim_value") else None for dim in output.type.tensor_type.shape.dim
        ]
        classes = [size for size in shape if size != 1]
        if len(classes) > 1 and shape[0] is None:  # of a batch
            classes = classes[1:]
        if len(classes) != 1 or not classes[0]:
            continue
        name = output.name
        while (place := makers.get(name)) is not None and model.graph.node[place].op_type in _SHAPES:
            if readers.get(name):
                break
            name = model.graph.node[place].input[0]
            readers[name] -= 1
        if place is None or model.graph.node[place].op_type != "Softmax" or readers.get(name):
            continue
        node = model.graph.node[place]
        found[place] = next((attr.i for attr in node.attribute if attr.name == "axis"), -1)
    return found


def _free(name: str, taken: set[str]) -> str:
    while name in taken:
        name += "_"
    taken.add(name)
    return name
