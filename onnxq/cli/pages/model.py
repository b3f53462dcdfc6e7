"""What `onnxq inspect` shows."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from onnxq.analysis.drawing import attribute_text, constant_text
from onnxq.analysis.nodes import ModelNodes, NodeRow, NodeTensor
from onnxq.cli.pages.shared import shared_entries
from onnxq.cli.pages.words import FEW, counted, decimal, in_line, listed, say, size_text, type_text
from onnxq.cli.screen import Page, shorten
from onnxq.formats import FORMATS

if TYPE_CHECKING:
    from onnxq.graph.past import KeyValueCache, Lengths
    from onnxq.inspection.description import ModelSummary, TensorSummary, WeightedLayer


def model_page(document: ModelSummary, *, full: bool) -> Page:
    """What a model holds."""
    page = Page()
    by = f", by {document.producer}" if document.producer else ""
    size = "in memory" if document.bytes is None else size_text(document.bytes)
    page.head(f"{document.model}  {size}, opset {document.opset}, IR {document.ir_version}{by}")
    for label, entries in (("Inputs", document.inputs), ("Outputs", document.outputs)):
        page.sections(label, (f"{one.name}  {type_text(one.dtype, one.shape)}" for one in entries))
    page.sections("Dynamic", (f"{dim}: {', '.join(places)}" for dim, places in document.dynamic.items()))
    _caches(page, document.caches, document.lengths, full)
    ops = document.ops
    shown = ops if full else dict(list(ops.items())[:8])
    rest = f", +{len(ops) - len(shown)} kinds (--ops)" if len(ops) > len(shown) else ""
    page.section("Nodes", f"{sum(ops.values())}: {listed(shown)}{rest}")
    weights = document.weights
    where = ", external data" if weights.external else ""
    held = f"{weights.count}, {size_text(weights.bytes)}{where}: {listed(weights.dtypes)}"
    page.section("Weights", held if weights.count else "none")
    shared_entries(page, document.shared, full=full)
    qdq = document.qdq
    page.section(
        "Q/DQ",
        say(
            "model.pairs" if any(qdq.values()) else "model.no-pairs", quantize=qdq["QuantizeLinear"],
            dequantize=qdq["DequantizeLinear"], layers=counted(qdq["layers"], "layer"),
        ),
    )  # fmt: skip
    for place, (name, shapes) in enumerate(document.usual.items()):
        sizes = ", ".join(f"{one} {'x'.join(map(str, dims))}" for one, dims in shapes.items())
        page.section("" if place else "Sizes", f"{name}: {sizes}" if name else sizes)
    where = "at these sizes" if document.usual else "a sample"
    _layers(page, document.layers, where, full)
    return page


def _caches(page: Page, caches: Sequence[KeyValueCache], lengths: Lengths | None, full: bool) -> None:
    """The keys and values that a decoder keeps, and what its dynamic dimensions count."""
    if lengths is None:
        return
    page.section("Caches", say("model.caches", count=len(caches)))
    for cache in caches if full else caches[:2]:
        page.entry(f"{cache.past} -> {cache.present}, along axis {cache.axis}")
    if not full:
        page.more(len(caches) - 2, "(--ops)")
    counted_by = (
        (lengths.past, "tokens seen before"), (lengths.new, "new tokens"), (lengths.whole, "both together"),
        (lengths.batch, "sequences"), (lengths.others, "not known"),
    )  # fmt: skip
    page.section("Lengths", "; ".join(f"{', '.join(dims)}: {words}" for dims, words in counted_by if dims))


def _layers(page: Page, layers: Sequence[WeightedLayer], where: str, full: bool) -> None:
    if not layers:
        page.section("Layers", say("model.no-layers"))
        return
    eligible = [layer for layer in layers if layer.eligible]
    macs = [layer.macs for layer in eligible if layer.macs is not None]
    macs_text = f"{decimal(sum(macs))} MACs {where}"
    if len(macs) < len(eligible):
        macs_text = "size unknown, see --shape"
    page.section("Layers", say("model.layers", count=len(layers), eligible=len(eligible), macs=macs_text))
    shown = layers if full else layers[:FEW]
    for layer in shown:
        size = "?" if layer.macs is None else f"{decimal(layer.macs)} MACs"
        why = "eligible" if layer.eligible else f"not eligible: {layer.because}"
        page.entry(f"{shorten(layer.node, 40)} ({layer.op}) {size}, {why}")
    page.more(len(layers) - len(shown), "(--ops)")


def tensor_page(document: TensorSummary) -> Page:
    """All about one tensor."""
    page = Page()
    tensor, pair = document.tensor, document.quantization
    page.head(f"{tensor.name}  {tensor.kind}, {type_text(tensor.dtype, tensor.shape)}")
    maker = tensor.producer
    page.section("Written by", f"{maker.node} ({maker.op})" if maker else f"nothing: {tensor.kind}")
    page.sections("Read by", [f"{user.node} ({user.op})" for user in tensor.consumers] or ["nothing"])
    held = tensor.statistics
    if held is not None:
        page.section(
            "Values", say("scale.held", min=held.min, max=held.max, mean=held.mean, zeros=held.zeros)
        )
    if pair is None:
        return page
    if pair.scale is not None:
        covered = FORMATS[pair.format].greatest * pair.scale
        page.section("Scale", f"{pair.scale:.9g}, {pair.format} covers +-{covered:.6g}")
    elif pair.axis is not None:
        page.section("Scale", say("scale.channels", axis=pair.axis))
    else:
        page.section("Scale", say("scale.one"))
    if pair.because:
        page.entry(f"because {pair.because}")
    others = [name for name in pair.group.tensors if name != tensor.name]
    page.section("Group", f"{pair.group.id}, " + ("shared with" if others else "its own"))
    page.names(others, shown=8, level=1)
    for reason in pair.group.reasons:
        page.entry(f"because {reason}")
    page.sections(f"Read {pair.format}", (f"{one.node}, input {one.input}" for one in pair.readers))
    return page


# What `onnxq inspect --nodes` shows.

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
