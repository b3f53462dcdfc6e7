"""What `onnxq inspect --nodes` shows."""

from __future__ import annotations

from pathlib import Path

from onnxq.analysis.drawing import attribute_text, constant_text
from onnxq.analysis.nodes import ModelNodes, NodeRow, NodeTensor
from onnxq.cli.pages.words import counted
from onnxq.cli.screen import Page, shorten

_SHOWN = 10
_OPERANDS = 8


def nodes_page(listing: ModelNodes, *, drawn: Path | None, full: bool) -> Page:
    """Nodes with what they read and write.

    Args:
        listing: the nodes.
        drawn: the drawing that was written, or None.
        full: whether all of them are shown.
    """
    page = Page()
    near = (
        f", at most {counted(listing.depth, 'tensor')} from {_name(listing.around)}"
        if listing.around is not None
        else ""
    )
    page.head(f"{listing.model}  {len(listing.nodes)} of {counted(listing.total, 'node')}{near}")
    shown = listing.nodes if full else listing.nodes[:_SHOWN]
    for row in shown:
        _node(page, row)
    if len(listing.nodes) > len(shown):
        page.plain(f"+{len(listing.nodes) - len(shown)} more (--all, --csv X.csv, --json)", style="dim")
    if drawn is not None:
        page.plain(f"drawn: {drawn}, for dot -Tsvg {drawn}")
    return page


def _node(page: Page, row: NodeRow) -> None:
    inside = f", in {_name(row.graph, 40)}" if row.graph else ""
    page.section(str(row.index), f"{row.op}  {_name(row.name)}  {row.precision or 'unknown type'}{inside}")
    if row.attributes:
        listed = (f"{name} {_name(attribute_text(value))}" for name, value in row.attributes.items())
        page.entry(", ".join(listed), style="dim")
    for word, tensors in (("reads", row.inputs), ("writes", row.outputs)):
        named = [tensor for tensor in tensors if tensor.name]
        for tensor in named[:_OPERANDS]:
            page.entry(f"{word}  {_tensor(tensor)}")
        if len(named) > _OPERANDS:
            page.entry(f"{word}  +{len(named) - _OPERANDS} more (--json)")
    for path in row.bodies:
        page.entry(f"runs  {_name(path)}")


def _name(name: str, width: int = 60) -> str:
    """A name in one line, whatever characters it has."""
    return shorten(name.replace("\n", "?"), width)


def _tensor(tensor: NodeTensor) -> str:
    from onnxq.graph.types import shape_text

    kind = "" if tensor.kind == "activation" else f", {tensor.kind}"
    value = f" {constant_text(tensor)}" if tensor.values is not None else ""
    return f"{_name(tensor.name)}  {tensor.dtype or 'unknown type'} [{shape_text(tensor.shape)}]{kind}{value}"
