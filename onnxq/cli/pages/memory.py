"""What `onnxq statistics memory` shows."""

from __future__ import annotations

from onnxq.analysis.memory import MemoryOf, ModelMemory
from onnxq.cli.pages.words import counted, in_line, say, size_text
from onnxq.cli.screen import Page

_SHOWN = 10


def memory_page(memory: ModelMemory, *, full: bool) -> Page:
    """What models hold in memory.

    Args:
        memory: what was found.
        full: whether all tensors at the peak are shown.
    """
    page = Page()
    models = [memory.before] if memory.after is None else [memory.before, memory.after]
    for model in models:
        _model(page, model, full=full)
    if memory.after is not None:
        page.section("Change", "before -> after")
        for what, before, after in (
            (say("memory.peak"), memory.before.peak_bytes, memory.after.peak_bytes),
            ("weights", memory.before.weight_bytes, memory.after.weight_bytes),
        ):
            factor = f" ({after / before:.2f}x)" if before else ""
            page.entry(f"{what}: {size_text(before)} -> {size_text(after)}{factor}")
    return page


def _model(page: Page, one: MemoryOf, *, full: bool) -> None:
    page.head(in_line(one.model))
    peak = size_text(one.peak_bytes)
    if one.file_peak_bytes != one.peak_bytes:
        peak = say("memory.fused", peak=peak, file=size_text(one.file_peak_bytes))
    page.section("Peak", peak)
    if one.steps or one.peak_node:
        page.entry(f"at step {one.peak_step}, {in_line(one.peak_node)}", style="dim")
    shown = one.at_peak if full else one.at_peak[:_SHOWN]
    for held in shown:
        of = f"{held.op} {in_line(held.node, 40)}" if held.op else "input"
        page.entry(f"{size_text(held.bytes)}  {in_line(held.tensor, 40)}  {held.dtype} [{held.shape}]  {of}")
    page.more(len(one.at_peak) - len(shown), "(--all, --json)")
    page.section("Weights", size_text(one.weight_bytes))
    for entry in one.weights:
        page.entry(f"{size_text(entry.bytes)}  {entry.dtype}, {counted(entry.count, 'constant')}")
    taken = [f"{in_line(size.name, 40)} = {size.size} ({_source(size.source)})" for size in one.sizes]
    if taken:
        page.section("Sizes", ", ".join(taken[:8]) + ", ..." * (len(taken) > 8))
    if one.unknown:
        count = counted(len(one.unknown), "tensor")
        page.section("Unknown", say("memory.unknown", tensors=count, first=in_line(one.unknown[0])), "yellow")


def _source(source: str) -> str:
    return say("memory.taken") if source == "1" else source
