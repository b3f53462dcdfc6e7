"""What `onnxq inspect --nodes` shows."""

from __future__ import annotations

from pathlib import Path

from onnxq.analysis.drawing import attribute_text, constant_text
from onnxq.analysis.nodes import ModelNodes, NodeRow, NodeTensor
from onnxq.cli.pages.words import counted, in_line, type_text
from onnxq.cli.screen import Page

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
        f", at most {counted(listing.depth, 'tensor')} from {in_line(listing.around)}"
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
    inside = f", in {in_line(row.graph, 40)}" if row.graph else ""
    page.section(str(row.index), f"{row.op}  {in_line(row.name)}  {row.precision or 'unknown type'}{inside}")
    if row.attributes:
        listed = (f"{name} {in_line(attribute_text(value))}" for name, value in row.attributes.items())
        page.entry(", ".join(listed), style="dim")
    for word, tensors in (("reads", row.inputs), ("writes", row.outputs)):
        named = [tensor for tensor in tensors if tensor.name]
        for tensor in named[:_OPERANDS]:
            page.entry(f"{word}  {_tensor(tensor)}")
        if len(named) > _OPERANDS:
            page.entry(f"{word}  +{len(named) - _OPERANDS} more (--json)")
    for path in row.bodies:
        page.entry(f"runs  {in_line(path)}")


def _tensor(tensor: NodeTensor) -> str:
    kind = "" if tensor.kind == "activation" else f", {tensor.kind}"
    value = f" {constant_text(tensor)}" if tensor.values is not None else ""
    return f"{in_line(tensor.name)}  {type_text(tensor.dtype, tensor.shape)}{kind}{value}"
