"""Nodes of other opsets in a graph, converted one by one (`onnx.version_converter`)."""

from __future__ import annotations

import onnx
from onnx import helper, version_converter

from onnxq.graph.free_name import free_name
from onnxq.graph.load import graphs

_NOT_CONVERTED = {"Hardmax"}
"""What the converter takes for the same although it is not: up to opset 12 over all axes from `axis` on."""

_OLD_RESIZE = {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
"""What Upsample, and Resize of opset 10, did, and the converter does not say."""

_SCALE_A_CHANNEL = 21
"""From here on GroupNormalization has a scale for each channel, which the converter does not say either."""


class NoConversion(Exception):
    """Nothing says what a node is in another opset."""


def convert(model: onnx.ModelProto, opset: int, mark: str) -> None:
    """Converts nodes whose domain says of which opset they are, in place; then all are of one.

    Args:
        model: the model.
        opset: the version that all nodes are to be of.
        mark: how these domains begin; the version follows.

    Raises:
        NoConversion: there is none of one of them.
    """
    held = list(graphs(model.graph))[::-1]  # inner before outer: of what is changed in a body a copy is made
    taken = {name for graph in held for node in graph.node for name in (*node.input, *node.output)}
    taken.update(info.name for graph in held for info in (*graph.input, *graph.initializer))
    for graph in held:
        nodes: list[onnx.NodeProto] = []
        for node in graph.node:
            if node.domain.startswith(mark):
                nodes += _converted(node, int(node.domain.removeprefix(mark)), opset, taken)
            else:
                nodes.append(node)
        kept = [_copy(node) for node in nodes]
        del graph.node[:]
        graph.node.extend(kept)
    imports = [entry for entry in model.opset_import if not entry.domain.startswith(mark)]
    kept_imports = [(entry.domain, entry.version) for entry in imports]
    del model.opset_import[:]
    for domain, version in kept_imports:
        model.opset_import.add(domain=domain, version=version)


def _converted(node: onnx.NodeProto, version: int, opset: int, taken: set[str]) -> list[onnx.NodeProto]:
    """What a node is in another opset: nodes that give the same outputs."""
    if any(attribute.HasField("g") for attribute in node.attribute) or node.op_type in _NOT_CONVERTED:
        raise NoConversion(node.op_type)
    single = _copy(node)
    single.domain = ""
    own = [name for name in dict.fromkeys((*node.input, *node.output)) if name]
    graph = onnx.GraphProto(name="single", node=[single])
    graph.input.extend(onnx.ValueInfoProto(name=name) for name in own if name in node.input)
    graph.output.extend(onnx.ValueInfoProto(name=name) for name in own if name in node.output)
    for info in (*graph.input, *graph.output):  # the converter asks for a type, and looks at none
        info.type.tensor_type.elem_type = onnx.TensorProto.FLOAT
    model = onnx.ModelProto(ir_version=8, graph=graph)
    model.opset_import.add(domain="", version=version)
    if node.op_type == "GroupNormalization" and version < _SCALE_A_CHANNEL <= opset:
        found = _groups_as_channels(single)
    else:
        try:
            result = version_converter.convert_version(model, opset).graph
        except Exception as error:  # classes of onnx's C++ part without a common base
            raise NoConversion(f"{node.op_type}: {error}") from error
        found = [helper.make_node("Constant", [], [one.name], value=one) for one in result.initializer]
        found += result.node
    renamed = {name: name for name in ("", *own)}
    for one in found:
        if one.op_type == "Resize" and version < 11 <= opset:
            one.attribute.extend(helper.make_attribute(*entry) for entry in _OLD_RESIZE.items())
    for one in found:
        for name in one.output:
            if name not in renamed:
                renamed[name] = free_name(f"{node.output[0]}_{name}", taken)
    for place, one in enumerate(found):
        one.input[:] = [renamed[name] for name in one.input]
        one.output[:] = [renamed[name] for name in one.output]
        one.name = node.name if len(found) == 1 else f"{node.name or node.output[0]}_{place}"
    return found


def _groups_as_channels(node: onnx.NodeProto) -> list[onnx.NodeProto]:
    """A GroupNormalization with a scale for each group: its groups become the channels of another one."""
    x, y = node.input[0], node.output[0]
    (groups,) = (one.i for one in node.attribute if one.name == "num_groups")
    node.input[0], node.output[0] = "groups", "normal"
    return [
        helper.make_node("Constant", [], ["form"], value_ints=[0, groups, -1]),
        helper.make_node("Reshape", [x, "form"], ["groups"]),
        node,
        helper.make_node("Shape", [x], ["sizes"]),
        helper.make_node("Reshape", ["normal", "sizes"], [y]),
    ]


def _copy(node: onnx.NodeProto) -> onnx.NodeProto:
    copy = onnx.NodeProto()
    copy.CopyFrom(node)
    return copy
