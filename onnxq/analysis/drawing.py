"""A piece of a graph as Graphviz DOT: Q/DQ pairs and what computes in which precision in colours."""

from __future__ import annotations

from collections.abc import Iterator

from onnxq.analysis.nodes import PAIR, ModelNodes, NodeRow, NodeTensor, links
from onnxq.base.dot import COLORS, arrow, framed, outside, quoted
from onnxq.base.grouped import grouped
from onnxq.formats import INT8
from onnxq.graph.types import shape_text

_NARROW = (INT8.name, *INT8.reads, "int4", "uint4", "float8", "float4")


def drawing(listing: ModelNodes) -> str:
    """The nodes in DOT, for `dot -Tsvg`.

    A node has its constants in it, an arrow the type and shape of its tensor. What leads out of the piece is
    dashed. No name of the model is anything but text there, whatever characters it has.
    """
    lines = []
    inside = grouped((row.graph, row) for row in listing.nodes)
    for number, (path, rows) in enumerate(inside.items()):
        if path:
            lines.append(f"  subgraph cluster_{number} {{ label={quoted([path])}; style=dashed;")
        lines += [f"  n{row.index} [label={quoted(_label(row))}, fillcolor={_color(row)}];" for row in rows]
        if path:
            lines.append("  }")
    return framed(_title(listing), [*lines, *_arrows(listing)])


def _arrows(listing: ModelNodes) -> Iterator[str]:
    """What is between the nodes, and what leads in and out."""
    shown = {row.index: row for row in listing.nodes}
    listed = links(listing.graphs, listing.nodes)
    inputs: dict[tuple[str, str], str] = {}
    for link in listed:
        source, written = f"n{link.source}", shown.get(link.source)
        if written is None:
            key = (shown[link.reader].graph, link.tensor.name)
            source = inputs.get(key, f"i{len(inputs)}")
            if key not in inputs:
                inputs[key] = source
                yield outside(source, link.tensor.name, ends=link.tensor.kind == "input")
        codes = written is not None and written.op == "QuantizeLinear"
        dashed = written is None and link.tensor.kind != "input"
        yield arrow(source, f"n{link.reader}", _type(link.tensor), codes=codes, dashed=dashed)
    read = {(link.source, link.tensor.name) for link in listed}
    count = 0
    for row in listing.nodes:
        for tensor in row.outputs:
            ends = tensor.kind == "output"
            if not tensor.name or (not ends and (row.index, tensor.name) in read):
                continue
            yield outside(f"o{count}", tensor.name, ends=ends)
            yield arrow(f"n{row.index}", f"o{count}", _type(tensor), dashed=not ends)
            count += 1


def _label(row: NodeRow) -> list[str]:
    lines = [row.op, row.name]
    for name, value in row.attributes.items():
        lines.append(f"{name} = {attribute_text(value)}")
    for tensor in row.inputs:
        if tensor.kind == "constant":
            lines.append(f"{tensor.name}: {constant_text(tensor)}")
    return lines


def attribute_text(value: object) -> str:
    """An attribute's value for a reader."""
    if isinstance(value, tuple):
        return "[" + ", ".join(map(attribute_text, value)) + "]"
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def constant_text(tensor: NodeTensor) -> str:
    """A constant for a reader: its values, or its type and shape."""
    if tensor.values is not None and tensor.shape is not None:
        return attribute_text(tensor.values if tensor.shape else tensor.values[0])
    return _type(tensor)


def _type(tensor: NodeTensor) -> str:
    return f"{tensor.dtype or 'unknown type'} [{shape_text(tensor.shape)}]"


def _color(row: NodeRow) -> str:
    kind = row.precision
    if kind.startswith(_NARROW):
        color = "narrow"
    elif kind in ("float16", "bfloat16"):
        color = "half"
    else:
        color = kind if kind == PAIR else "float" if kind in ("float32", "float64") else "other"
    return f'"{COLORS[color]}"'


def _title(listing: ModelNodes) -> list[str]:
    around = f", {listing.depth} around {listing.around}" if listing.around is not None else ""
    chosen = f"{len(listing.nodes)} of {listing.total} nodes{around}"
    return [listing.model or "a model", chosen, "green: 8 bits, orange: Q/DQ, blue: 16-bit float"]
