"""A piece of a graph as Graphviz DOT: Q/DQ pairs and what computes in which precision in colours."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from onnxq.analysis.nodes import PAIR, ModelNodes, NodeLink, NodeRow, NodeTensor, links
from onnxq.base.grouped import grouped
from onnxq.formats import INT8
from onnxq.graph.types import shape_text

FIRST_LINE = "digraph onnx {  // by onnxq"
"""By which a drawing is known as one of onnxq."""

_COLORS = {"narrow": "#b7e1a1", PAIR: "#ffd27f", "half": "#bcd9f5", "float": "#ffffff", "other": "#e6e6e6"}
"""Of 8 bits and less, of pairs, of 16-bit floats, of wider floats, of all else."""

_NARROW = (INT8.name, *INT8.reads, "int4", "uint4", "float8", "float4")
_WIDEST = 96


def drawing(listing: ModelNodes) -> str:
    """The nodes in DOT, for `dot -Tsvg`.

    A node has its constants in it, an arrow the type and shape of its tensor. What leads out of the piece is
    dashed. No name of the model is anything but text there, whatever characters it has.
    """
    lines = [
        FIRST_LINE,
        '  graph [rankdir=TB, fontname="Helvetica", labelloc=t, label=' + _quoted(_title(listing)) + "];",
        '  node [shape=box, style="filled,rounded", fillcolor="#ffffff", fontname="Helvetica", fontsize=10];',
        '  edge [fontname="Helvetica", fontsize=9];',
    ]
    inside = grouped((row.graph, row) for row in listing.nodes)
    for number, (path, rows) in enumerate(inside.items()):
        if path:
            lines.append(f"  subgraph cluster_{number} {{ label={_quoted([path])}; style=dashed;")
        lines += [f"  n{row.index} [label={_quoted(_label(row))}, fillcolor={_color(row)}];" for row in rows]
        if path:
            lines.append("  }")
    lines += _arrows(listing)
    lines.append("}")
    return "\n".join(lines) + "\n"


def _arrows(listing: ModelNodes) -> Iterator[str]:
    """What is between the nodes, and what leads in and out."""
    shown = {row.index: row for row in listing.nodes}
    listed = links(listing.graphs, listing.nodes)
    inputs: dict[tuple[str, str], str] = {}
    for link in listed:
        if link.source >= 0:
            yield f"  n{link.source} -> n{link.reader} [{_arrow(link, shown)}];"
            continue
        key = (shown[link.reader].graph, link.tensor.name)
        if key not in inputs:
            inputs[key] = f"i{len(inputs)}"
            look = "shape=ellipse" if link.tensor.kind == "input" else 'shape=plaintext, style=""'
            yield f"  {inputs[key]} [label={_quoted([link.tensor.name])}, {look}];"
        dashed = "" if link.tensor.kind == "input" else ", style=dashed"
        yield f"  {inputs[key]} -> n{link.reader} [{_arrow(link, shown)}{dashed}];"
    read = {(link.source, link.tensor.name) for link in listed}
    count = 0
    for row in listing.nodes:
        for tensor in row.outputs:
            if not tensor.name or (tensor.kind != "output" and (row.index, tensor.name) in read):
                continue
            look = "shape=ellipse" if tensor.kind == "output" else 'shape=plaintext, style=""'
            dashed = "" if tensor.kind == "output" else ", style=dashed"
            yield f"  o{count} [label={_quoted([tensor.name])}, {look}];"
            yield f"  n{row.index} -> o{count} [label={_quoted([_type(tensor)])}{dashed}];"
            count += 1


def _arrow(link: NodeLink, shown: Mapping[int, NodeRow]) -> str:
    source = shown.get(link.source)
    codes = source is not None and source.op == "QuantizeLinear"
    strong = ', color="#3a8f1d", penwidth=2' if codes else ""
    return f"label={_quoted([_type(link.tensor)])}{strong}"


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
    return f'"{_COLORS[color]}"'


def _title(listing: ModelNodes) -> list[str]:
    around = f", {listing.depth} around {listing.around}" if listing.around is not None else ""
    chosen = f"{len(listing.nodes)} of {listing.total} nodes{around}"
    return [listing.model or "a model", chosen, "green: 8 bits, orange: Q/DQ, blue: 16-bit float"]


def _quoted(lines: list[str]) -> str:
    """Lines as a string of DOT: no character of a name means anything to Graphviz, or to a terminal."""
    return '"' + "\\n".join(map(_escaped, lines)) + '"'


def _escaped(text: str) -> str:
    if len(text) > _WIDEST:
        text = f"{text[: _WIDEST // 2]}...{text[-_WIDEST // 2 :]}"
    plain = "".join(char if char.isprintable() else "?" for char in text)
    # & begins an entity and \ an escape (\N is the node's name) inside of a label
    return plain.replace("&", "&amp;").replace("\\", "\\\\").replace('"', '\\"')
