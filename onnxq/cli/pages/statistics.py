"""What `onnxq statistics` shows: of activations, weights and memory."""

from __future__ import annotations

import math
from collections.abc import Sequence

from onnxq.analysis import weights
from onnxq.analysis.memory import MemoryOf, ModelMemory
from onnxq.analysis.octaves import Octaves
from onnxq.analysis.tensors import TensorRow, TensorTable, channel_order, order_of_badness
from onnxq.analysis.weights import WeightRow, WeightTable
from onnxq.base.grouped import grouped
from onnxq.base.shown import number, percent
from onnxq.cli.pages.shared import shared_entries
from onnxq.cli.pages.words import ROWS, counted, first_few, in_line, say, size_text
from onnxq.cli.screen import Page

_SHOWN = 10
_DRAWN = 5  # tensors whose histograms are drawn
_NARROWER = 0.5
_STATES = ("dead", "constant", "saturated")


def tensors_page(table: TensorTable, *, full: bool) -> Page:
    """Statistics of activations.

    Args:
        table: what was found.
        full: whether all tensors are shown.
    """
    page = Page()
    tensors = sorted((row for row in table.rows if row.channel is None), key=order_of_badness)
    page.head(
        f"{in_line(table.model)}  {counted(len(tensors), 'tensor')}, {counted(table.samples, 'sample')}"
    )
    if table.not_finite:
        page.section("NaN, inf", f"{counted(len(table.not_finite), 'operator')} of finite values", "red")
        for entry in table.not_finite[: None if full else _SHOWN]:
            of = "" if entry.reads == "finite" else f", of {entry.reads}"
            page.entry(
                f"{entry.op} {in_line(entry.node)} -> {in_line(entry.tensor)}: {entry.values} "
                f"{entry.what}{of}, first for {in_line(entry.where, 80)}"
            )
    shown = tensors if full else tensors[:_SHOWN]
    page.section("Tensors", "the worst first" if len(tensors) > 1 else "")
    page.table(
        ("tensor", "min", "max", "mean", "std", "zeros", "clipped", "narrower"),
        [
            (
                in_line(row.tensor, 32), number(row.min), number(row.max), number(row.mean),
                number(None if row.variance is None else row.variance**0.5), percent(row.zeros),
                percent(row.clipped), percent(row.dominated if row.without_tail is not None else None),
            )
            for row in shown
        ],
    )  # fmt: skip
    page.more(len(tensors) - len(shown), ROWS)
    _dominated(page, shown)
    _spread_of_tensors(page, table, shown, full=full)
    _states(page, table.rows, full=full)
    _codes(page, shown)
    for lack in table.lacks:
        page.section("Unknown", lack, "dim")
    if table.skipped:
        page.section(
            "Left out", f"{counted(len(table.skipped), 'bad sample')}: {in_line(table.skipped[0], 100)}"
        )
    return page


def _dominated(page: Page, rows: Sequence[TensorRow]) -> None:
    """What the ranges are that wide for."""
    wide = [row for row in rows if row.dominated <= _NARROWER]
    if wide:
        page.section("Range", say("range.shrinks"))
    for row in wide:
        parts = []
        if row.without_tail is not None and row.without_tail <= _NARROWER:
            parts.append(say("range.tail", share=row.without_tail, p9999=row.p9999))
        if row.without_channel is not None and row.without_channel <= _NARROWER:
            parts.append(say("range.channel", share=row.without_channel, channel=row.top_channel))
        page.entry(f"{in_line(row.tensor)}: {', '.join(parts)}")


def _spread_of_tensors(page: Page, table: TensorTable, rows: Sequence[TensorRow], *, full: bool) -> None:
    """The histograms of tensors, and those of their worst channels, or of all."""
    channels = grouped((row.tensor, row) for row in table.rows if row.channel is not None and row.histogram)
    drawn = [row for row in rows if row.histogram is not None][: None if full else _DRAWN]
    ends = range_of([row.histogram for row in drawn if row.histogram is not None])
    if ends is None:
        return
    code = "octaves" if full or not channels else "octaves.worst"
    page.section("Spread", say(code, low=ends[0], high=ends[1]))
    for row in drawn:
        assert row.histogram is not None
        entry_of(page, in_line(row.tensor, 32), row.histogram, ends)
        own = channels.get(row.tensor, ())
        for one in own if full else sorted(own, key=channel_order):
            assert one.histogram is not None
            entry_of(page, f"  channel {one.channel}", one.histogram, ends, one.state)


def _states(page: Page, rows: Sequence[TensorRow], *, full: bool) -> None:
    for state in _STATES:
        named: dict[str, list[int]] = {}
        for row in rows:
            if row.state == state:
                named.setdefault(row.tensor, [])
                if row.channel is not None:
                    named[row.tensor].append(row.channel)
        if not named:
            continue
        page.section(state.capitalize(), f"in {counted(len(named), 'tensor')}", "yellow")
        for tensor, channels in list(named.items())[: None if full else _SHOWN]:
            some = first_few(list(map(str, channels)), 8, "")
            page.entry(f"{in_line(tensor)}: {'channels ' + some if channels else 'all of it'}")
        if not full:
            page.more(len(named) - _SHOWN, ROWS)


def _codes(page: Page, rows: Sequence[TensorRow]) -> None:
    coded = [row for row in rows if row.codes is not None]
    if coded:
        page.section("Codes", "that occur")
    for row in coded:
        assert row.codes is not None
        assert row.first_code is not None
        used = [row.first_code + place for place, count in enumerate(row.codes) if count]
        if used:
            page.entry(f"{in_line(row.tensor)}: {len(used)} of {len(row.codes)}, {used[0]} to {used[-1]}")


_WORST = 2  # channels of a layer, the furthest out

_TITLES = "layer", "type", "min", "max", "cosine", "SQNR dB", "MSE", "L1", "KL", "steps", "widest", "dead"


def weights_page(table: WeightTable, *, full: bool) -> Page:
    """Weights of layers.

    Args:
        table: what was found.
        full: whether all layers are shown.
    """
    page = Page()
    layers = sorted((row for row in table.rows if row.channel is None), key=weights.order_of_badness)
    page.head(f"{in_line(table.model)}  {counted(len(layers), 'layer')}")
    beside = table.beside(in_line(table.against))
    page.section("Compared", beside.text("screens"))
    own = ["metric"] * any(row.metric is not None for row in layers)
    shown = layers if full else layers[:_SHOWN]
    page.section("Layers", beside.text("screens", "sorted"))
    page.table(
        (*_TITLES, *own),
        [
            (
                in_line(row.layer, 32), row.dtype, number(row.min), number(row.max),
                "-" if row.cosine is None else f"{row.cosine:.6f}",
                "-" if row.sqnr_db is None else f"{row.sqnr_db:.1f}",
                *(number(one) for one in (row.mse, row.l1, row.kl)),
                "-" if row.max_steps is None else f"{row.max_steps:.3g}",
                "-" if row.over_median is None else f"{row.over_median:.3g}x",
                str(row.dead),
                *(number(row.metric) for _ in own),
            )
            for row in shown
        ],
    )  # fmt: skip
    page.more(len(layers) - len(shown), ROWS)
    _spread_of_layers(page, table, shown, full=full)
    _channels(page, table, full=full)
    shared_entries(page, table.shared, full=full)
    broken = [row for row in layers if row.nonfinite]
    if broken:
        page.section(
            "NaN, inf", ", ".join(f"{in_line(r.layer)} ({r.nonfinite})" for r in broken[:_SHOWN]), "red"
        )
    if table.left:
        page.section("Left out", counted(len(table.left), "layer"), "yellow")
    for entry in table.left[: None if full else _SHOWN]:
        page.entry(f"{entry.op} {in_line(entry.layer)}: {entry.why}")
    return page


def _spread_of_layers(page: Page, table: WeightTable, rows: Sequence[WeightRow], *, full: bool) -> None:
    """The histograms of layers, above those of the quantized file, and of their channels."""
    after = {row.layer: row.histogram_after for row in rows if table.compared == "file"}
    channels = grouped((row.layer, row) for row in table.rows if row.channel is not None and row.histogram)
    drawn = [row.histogram for row in rows] + [*after.values()]
    ends = range_of([one for one in drawn if one is not None])
    if ends is None:
        return
    page.section("Spread", say("octaves.file" if after else "octaves.weights", low=ends[0], high=ends[1]))
    for row in rows:
        if row.histogram is not None:
            entry_of(page, in_line(row.layer, 32), row.histogram, ends)
        quantized = after.get(row.layer)
        if quantized is not None:
            entry_of(page, "", quantized, ends)
        own = sorted(channels.get(row.layer, ()), key=lambda one: -(one.over_median or 0.0))
        for one in own[: None if full else _WORST]:
            if one.histogram is not None:
                entry_of(page, f"  channel {one.channel}", one.histogram, ends, one.state)


def _channels(page: Page, table: WeightTable, *, full: bool) -> None:
    for state in ("outlier", "dead"):
        rows = [row for row in table.rows if row.state == state and row.channel is not None]
        rows.sort(key=lambda row: -(row.over_median or 0.0))
        if not rows:
            continue
        page.section(state.capitalize(), counted(len(rows), "channel"), "yellow")
        for row in rows[: None if full else _SHOWN]:
            page.entry(f"{in_line(row.layer)} channel {row.channel}{_wide(row)}")
        if not full:
            page.more(len(rows) - _SHOWN, ROWS)
    folded = {row.layer: None for row in table.rows if row.gain is not None}
    if folded:
        some = ", ".join(map(in_line, list(folded)[:4])) + ", ..." * (len(folded) > 4)
        page.section("Scaled", say("weights.scaled", layers=counted(len(folded), "layer"), some=some))


def _wide(row: WeightRow) -> str:
    return "" if row.over_median is None else say("weights.wide", times=row.over_median)


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


_SHADES = " .:-=+*#%@"
"""From none to the most; a column that is not empty has a dot at least."""

_WIDE = 32
"""Letters of a name in front of a histogram."""


def range_of(drawn: Sequence[Octaves]) -> tuple[int, int] | None:
    """The first and the last octave that any of them has, as powers of two; None where all are empty."""
    ends = [(math.log2(one.edges[0]), math.log2(one.edges[-1])) for one in drawn if one.counts]
    return (round(min(low for low, _ in ends)), round(max(high for _, high in ends))) if ends else None


def row_of(octaves: Octaves, first: int, last: int) -> str:
    """A histogram as a row of letters.

    Args:
        octaves: the histogram.
        first: the power of two with which the first column begins.
        last: the power of two with which the last one ends.
    """
    begin = round(math.log2(octaves.edges[0])) if octaves.counts else first
    most = max(octaves.counts, default=0)
    row = []
    for power in range(first, last):
        place = power - begin
        count = octaves.counts[place] if 0 <= place < len(octaves.counts) else 0
        row.append(_SHADES[math.ceil(count / most * (len(_SHADES) - 1))] if most else " ")
    return "".join(row)


def entry_of(page: Page, name: str, octaves: Octaves, ends: tuple[int, int], note: str = "") -> None:
    """An entry with a histogram behind a name; `ends`: as of `range_of`."""
    page.entry(f"{name:{_WIDE}} |{row_of(octaves, *ends)}|{'  ' * bool(note)}{note}")
