"""A classifier's scores in front of its Softmax: there an error is seen before it changes an answer.

What a Softmax gives is nearly 0 or 1 for samples that are clear: a few that are not make all of the noise,
and say by chance which of two models is nearer. The logits say it with each sample. A number that is added to
all of the logits of a sample changes nothing, and is taken off: their mean. Those of classes that are masked
have no part in it: they become -inf, whatever number masks them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from onnx.helper import make_node

from onnxq.graph.load import opset_of
from onnxq.graph.source import copy_model

_SHAPES = ("Flatten", "Identity", "Reshape", "Squeeze", "Unsqueeze")


_MASKED = 1000.0
"""So far below the greatest logit a class is masked: scores are 0 from 104 on, and logits spread less."""

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
    opset, places = opset_of(model), _softmaxes(model)
    if copy and places:
        model = copy_model(model)
    taken = {name for node in model.graph.node for name in (*node.input, *node.output)}
    for place, (axis, kind, _) in sorted(places.items(), reverse=True):
        node = model.graph.node[place]
        given, out = node.input[0], node.output[0]
        mean, axes, masked, zero, one, finite, counted, sum_, share, top, far, bottom, off, least = (
            _free(f"{out}_{what}", taken)
            for what in (
                "mean", "axes", "masked", "zero", "one", "finite", "counted", "sum", "share",
                "top", "far", "bottom", "off", "least",
            )
        )  # fmt: skip
        constants = {axes: np.array([axis])} if opset >= _AXES_READ else {}
        read = [axes] if constants else []
        attributes: dict[str, Any] = {} if constants else {"axes": [axis]}
        if kind == onnx.TensorProto.FLOAT:
            numbers = {zero: 0, one: 1, far: _MASKED, least: -np.inf}
            constants |= {name: np.array(value, np.float32) for name, value in numbers.items()}
            before = [
                make_node("ReduceMax", [given, *read], [top], keepdims=1, **attributes),
                make_node("Sub", [top, far], [bottom]),
                make_node("Less", [given, bottom], [masked]),
                make_node("Where", [masked, zero, given], [finite]),
                make_node("Where", [masked, zero, one], [counted]),
                make_node("ReduceMean", [finite, *read], [sum_], keepdims=1, **attributes),
                make_node("ReduceMean", [counted, *read], [share], keepdims=1, **attributes),
                make_node("Div", [sum_, share], [mean]),  # by 1 where none is masked
                make_node("Sub", [given, mean], [off]),
            ]
            last = make_node("Where", [masked, least, off], [out], name=node.name)
        else:  # of half precision Less may not run
            before = [make_node("ReduceMean", [given, *read], [mean], keepdims=1, **attributes)]
            last = make_node("Sub", [given, mean], [out], name=node.name)
        model.graph.initializer.extend(onnx.numpy_helper.from_array(v, n) for n, v in constants.items())
        node.CopyFrom(last)
        for earlier in reversed(before):
            model.graph.node.insert(place, earlier)
    return model


@dataclass(frozen=True, slots=True)
class Logits:
    """What is in front of the Softmax of an output.

    Attributes:
        tensor: its name.
        axis: that of the classes.
    """

    tensor: str
    axis: int

    def about_mean(self, values: np.ndarray) -> np.ndarray:
        """Values of it less their mean in each row, float32; -inf for those of masked classes."""
        wide = values.astype(np.float64)
        with np.errstate(invalid="ignore"):
            seen = ~(wide < wide.max(self.axis, keepdims=True) - _MASKED)  # what is no number is seen
            count = np.maximum(seen.sum(self.axis, keepdims=True), 1)
            mean = np.where(seen, wide, 0.0).sum(self.axis, keepdims=True) / count
            return np.where(seen, wide - mean, -np.inf).astype(np.float32)


def logits_of(model: onnx.ModelProto, *, casts: bool = False) -> Mapping[str, Logits]:
    """Of the outputs that `at_logits` makes those in front of a Softmax: what is there, by output.

    Args:
        model: the model.
        casts: whether there may be a Cast between the Softmax and the output.
    """
    return {
        output: Logits(model.graph.node[place].input[0], axis)
        for place, (axis, _, output) in _softmaxes(model, casts=casts).items()
    }


def _softmaxes(model: onnx.ModelProto, *, casts: bool = False) -> dict[int, tuple[int, int, str]]:
    """The Softmax nodes behind which a sample has one row of classes, by place: axis, type and output."""
    passed = (*_SHAPES, "Cast") if casts else _SHAPES
    if opset_of(model) < _ONE_AXIS:
        return {}
    makers = {name: place for place, node in enumerate(model.graph.node) for name in node.output}
    readers: dict[str, int] = {}
    for node in model.graph.node:
        for name in node.input:
            readers[name] = readers.get(name, 0) + 1
    found: dict[int, tuple[int, int, str]] = {}
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
        while (place := makers.get(name)) is not None and model.graph.node[place].op_type in passed:
            if readers.get(name):
                break
            name = model.graph.node[place].input[0]
            readers[name] -= 1
        if place is None or model.graph.node[place].op_type != "Softmax" or readers.get(name):
            continue
        node = model.graph.node[place]
        axis = next((attr.i for attr in node.attribute if attr.name == "axis"), -1)
        found[place] = axis, output.type.tensor_type.elem_type, output.name
    return found


def _free(name: str, taken: set[str]) -> str:
    while name in taken:
        name += "_"
    taken.add(name)
    return name
