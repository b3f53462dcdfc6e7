"""What a model takes in its file, and what makes it larger than the one that it was made of."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

import onnx

from onnxq.base.plain import DocumentPart
from onnxq.base.reason import noted
from onnxq.base.shown import count
from onnxq.graph.constants import tensor_bytes
from onnxq.graph.load import graphs

# What rules and quantization append to the name of a constant that they make of another.
_MADE = re.compile(r"(_folded|_int8)(_\d+)?$")
_SMALL = 1000  # bytes: not worth a line


@dataclass(frozen=True, slots=True)
class Growth(DocumentPart):
    """What makes a file larger.

    Attributes:
        name: the constant, "" for the nodes with all other constants.
        bytes: how much more it takes than it did.
        because: what it is.
    """

    name: str
    bytes: int
    because: str


def file_bytes(model: onnx.ModelProto) -> int:
    """The size of a model's file and its external data, in bytes."""
    stored = (tensor for graph in graphs(model.graph) for tensor in graph.initializer)
    return int(model.ByteSize()) + sum(map(_external_bytes, stored))


def growth(before: onnx.ModelProto, after: onnx.ModelProto) -> list[Growth]:
    """What makes a model's file larger than that of the model that it was made of, largest first.

    Constants that the original computes have the names of what computed them.
    """
    old, new = _constants(before), _constants(after)
    made_by = {name for graph in graphs(before.graph) for node in graph.node for name in node.output}
    stored: dict[str, int] = {}
    for name, size in new.items():
        origin = name
        while origin not in old and origin not in made_by and _MADE.search(origin):
            origin = _MADE.sub("", origin)
        if origin in made_by and origin not in old:
            stored[origin] = stored.get(origin, 0) + size
    entries = [Growth(name, size, noted("growth.stored")) for name, size in stored.items() if size > _SMALL]
    rest = file_bytes(after) - file_bytes(before) - sum(entry.bytes for entry in entries)
    if rest > 0:
        nodes = [sum(len(graph.node) for graph in graphs(model.graph)) for model in (before, after)]
        entries.append(
            Growth("", rest, noted("growth.nodes", nodes=count(nodes[1], "node"), before=nodes[0]))
        )
    return sorted(entries, key=lambda entry: -entry.bytes)


def _constants(model: onnx.ModelProto) -> Mapping[str, int]:
    """The size of each constant, those of Constant nodes under the name of the output."""
    sizes = {t.name: t.ByteSize() + _external_bytes(t) for g in graphs(model.graph) for t in g.initializer}
    for graph in graphs(model.graph):
        sizes.update((n.output[0], n.ByteSize()) for n in graph.node if n.op_type == "Constant" and n.output)
    return sizes


def _external_bytes(tensor: onnx.TensorProto) -> int:
    return tensor_bytes(tensor) if tensor.data_location == onnx.TensorProto.EXTERNAL else 0
