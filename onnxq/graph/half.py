"""A copy of a half-precision model that rounds after every node, as ONNX defines its operators.

onnxruntime computes float16 in float32 on a CPU, and does not round between two such nodes: what a model
then gives depends on which nodes happen to stand side by side, and changes when one is folded or removed.
It has no kernels for bfloat16 at all. In the copy each node reads float32 copies of its half-precision
inputs, and what it computes is rounded to the output's own type before anybody reads it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

import numpy as np
import onnx
from onnx import TensorProto, numpy_helper

from onnxq.graph.inlining import inlined
from onnxq.graph.load import graphs, tensors
from onnxq.graph.names import free_name
from onnxq.graph.source import copy_model

HALF = (TensorProto.FLOAT16, TensorProto.BFLOAT16)

# Attributes that name an element type: of ConstantOfShape's kin, DequantizeLinear, LayerNormalization, ...
_TYPE_ATTRIBUTES = (
    "dtype",
    "output_dtype",
    "output_datatype",
    "precision",
    "stash_type",
    "softmax_precision",
)

# They hand on what they are given, and have kernels for every type.
_HAND_ON = (
    "Cast", "CastLike", "If", "Loop", "Scan", "SplitToSequence", "ConcatFromSequence",
    "Optional", "OptionalGetElement", "OptionalHasElement",
)  # fmt: skip

_COMPUTED = ("", "ai.onnx", "ai.onnx.ml", "com.microsoft")
"""Domains whose operators have kernels for float32; a user's own may have none."""

Types = dict[str, int]
"""Element types by tensor."""


def speaks_half(model: onnx.ModelProto, kinds: Collection[int] = HALF) -> bool:
    """Whether a tensor of a model is float16 or bfloat16, as far as inputs, weights and casts tell.

    Args:
        model: a model.
        kinds: the element types that count.
    """
    for info in model.graph.input:
        if info.type.tensor_type.elem_type in kinds:
            return True
    if any(tensor.data_type in kinds for tensor in tensors(model.graph)):
        return True
    nodes = [node for graph in graphs(model.graph) for node in graph.node]
    nodes += [node for function in model.functions for node in function.node]
    names = {"to", *_TYPE_ATTRIBUTES}
    return any(a.i in kinds for node in nodes for a in node.attribute if a.name in names)


def rounded(
    model: onnx.ModelProto, more: Callable[[onnx.ModelProto, list[str]], Types] | None = None
) -> onnx.ModelProto:
    """The copy.

    Args:
        model: a model; it is not modified. Its external data stay where they are.
        more: finds the types of tensors that ONNX's inference does not know.

    Returns:
        A model of the same inputs, outputs and names. What is of half precision keeps its name and type,
        and has a float32 copy beside it.
    """
    model = inlined(model)
    result = copy_model(model)
    inferred = _inferred(result)
    own = _types(result.graph, inferred)
    unknown = [name for node in result.graph.node for name in node.output if name and name not in own]
    if unknown and more is not None:
        own.update(more(model, unknown))
    _Rounding(result).graph(result.graph, inferred, own, {})
    return result


class _Rounding:
    """Rewrites the graphs of a model."""

    def __init__(self, model: onnx.ModelProto) -> None:
        inside = list(graphs(model.graph))
        self._taken = {
            name for graph in inside for node in graph.node for name in (*node.input, *node.output)
        }
        self._taken.update(tensor.name for graph in inside for tensor in graph.initializer)
        self._taken.update(info.name for graph in inside for info in graph.input)

    def graph(
        self, graph: onnx.GraphProto, inferred: onnx.GraphProto, own: Types, outer: Mapping[str, str]
    ) -> None:
        """Rewrites a graph and its bodies.

        Args:
            graph: the graph.
            inferred: the same graph with all types that inference finds.
            own: the types of what the graph itself defines.
            outer: the float32 copies of tensors of the graphs around it.
        """
        wide = {name: copy for name, copy in outer.items() if name not in own}
        names = dict.fromkeys(item.name for item in (*graph.input, *graph.initializer))
        nodes = [self._widened(name, wide) for name in names if own.get(name) in HALF]
        for node, copy in zip(graph.node, inferred.node, strict=True):
            bodies = {attribute.name: attribute.g for attribute in copy.attribute if attribute.HasField("g")}
            for attribute in node.attribute:
                if attribute.HasField("g"):
                    body = bodies[attribute.name]
                    self.graph(attribute.g, body, _types(attribute.g, body), wide)
            nodes += self._node(node, own, wide)
        del graph.node[:]
        graph.node.extend(nodes)

    def _node(self, node: onnx.NodeProto, own: Types, wide: dict[str, str]) -> list[onnx.NodeProto]:
        kind = next((own[name] for name in node.input if own.get(name) in HALF), None)
        if kind is not None:  # where no inference knows better
            own.update((name, kind) for name in node.output if name and name not in own)
        halves = [name for name in node.output if own.get(name) in HALF]
        copies = [self._widened(name, wide) for name in halves]
        if node.op_type in _HAND_ON or node.op_type.startswith("Sequence") or node.domain not in _COMPUTED:
            return [node, *copies]
        if not halves and not any(name in wide for name in node.input):
            return [node]
        computed = onnx.NodeProto()
        computed.CopyFrom(node)
        for index, name in enumerate(node.input):
            computed.input[index] = wide.get(name, name)
        for attribute in computed.attribute:
            if attribute.name in _TYPE_ATTRIBUTES and attribute.i in HALF:
                attribute.i = TensorProto.FLOAT
            if attribute.HasField("t") and attribute.t.data_type in HALF:
                values = numpy_helper.to_array(attribute.t).astype(np.float32)
                attribute.t.CopyFrom(numpy_helper.from_array(values, attribute.t.name))
        nodes = [computed]
        for index, name in enumerate(node.output):
            if own.get(name) in HALF:
                unrounded = self._new(f"{name}:unrounded")
                computed.output[index] = unrounded
                nodes.append(onnx.helper.make_node("Cast", [unrounded], [name], to=own[name]))
        return [*nodes, *copies]

    def _widened(self, name: str, wide: dict[str, str]) -> onnx.NodeProto:
        """Makes the float32 copy of a tensor, which is exact."""
        wide[name] = self._new(f"{name}:float32")
        return onnx.helper.make_node("Cast", [name], [wide[name]], to=TensorProto.FLOAT)

    def _new(self, base: str) -> str:
        return free_name(base, self._taken)


# -- types -----------------------------------------------------------------------------------------


def _inferred(model: onnx.ModelProto) -> onnx.GraphProto:
    """The graph with the types that ONNX's inference finds, of its weights the types alone."""
    skeleton = onnx.ModelProto(ir_version=max(model.ir_version, 4))
    skeleton.opset_import.extend(model.opset_import)
    graph = skeleton.graph
    for field in ("node", "input", "output", "value_info"):
        getattr(graph, field).extend(getattr(model.graph, field))
    listed = {info.name for info in model.graph.input}
    for tensor in model.graph.initializer:
        if tensor.name not in listed:
            info = onnx.helper.make_tensor_value_info(tensor.name, tensor.data_type, list(tensor.dims))
            graph.input.append(info)
    try:
        return onnx.shape_inference.infer_shapes(skeleton).graph
    except Exception:  # of a model that ONNX finds fault with: its C++ errors have no common base
        return graph


def _types(graph: onnx.GraphProto, inferred: onnx.GraphProto) -> Types:
    """The element types of what a graph defines, where they are known; 0 for what is no tensor."""
    own = {tensor.name: tensor.data_type for tensor in graph.initializer}
    for info in (*inferred.value_info, *inferred.output, *inferred.input):
        if info.type.WhichOneof("value") is not None:
            own[info.name] = info.type.tensor_type.elem_type
    return own
