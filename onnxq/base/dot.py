"""Graphviz's DOT: a drawing's frame, texts that are nothing but text, the colours of number types."""

from __future__ import annotations

from collections.abc import Iterable

from onnxq.base.escapes import visible

FIRST_LINE = "digraph onnx {  // by onnxq"
"""By which a drawing is known as one of onnxq."""

COLORS = {"narrow": "#b7e1a1", "pair": "#ffd27f", "half": "#bcd9f5", "float": "#ffffff", "other": "#e6e6e6"}
"""Of 8 bits and less, of what only converts, of 16-bit floats, of wider floats, of all else."""

_WIDEST = 96


def framed(title: list[str], lines: Iterable[str]) -> str:
    """A whole drawing, for `dot -Tsvg`.

    Args:
        title: the lines above it.
        lines: what stands in it.
    """
    head = [
        FIRST_LINE,
        '  graph [rankdir=TB, fontname="Helvetica", labelloc=t, label=' + quoted(title) + "];",
        '  node [shape=box, style="filled,rounded", fillcolor="#ffffff", fontname="Helvetica", fontsize=10];',
        '  edge [fontname="Helvetica", fontsize=9];',
    ]
    return "\n".join([*head, *lines, "}"]) + "\n"


def outside(name: str, label: str, *, ends: bool) -> str:
    """What a drawing leads to: an input or output (`ends`), or what lies beyond the piece that is drawn."""
    look = "shape=ellipse" if ends else 'shape=plaintext, style=""'
    return f"  {name} [label={quoted([label])}, {look}];"


def arrow(source: str, reader: str, label: str, *, codes: bool = False, dashed: bool = False) -> str:
    """A tensor between two, `codes` where it is quantized, dashed where it leads out of the piece."""
    look = ', color="#3a8f1d", penwidth=2' * codes + ", style=dashed" * dashed
    return f"  {source} -> {reader} [label={quoted([label])}{look}];"


def quoted(lines: list[str]) -> str:
    """Lines as a string of DOT: no character of a name means anything to Graphviz, or to a terminal."""
    return '"' + "\\n".join(map(_escaped, lines)) + '"'


def _escaped(text: str) -> str:
    if len(text) > _WIDEST:
        text = f"{text[: _WIDEST // 2]}...{text[-_WIDEST // 2 :]}"
    # & begins an entity and \ an escape (\N is the node's name) inside of a label
    return visible(text).replace("&", "&amp;").replace("\\", "\\\\").replace('"', '\\"')
