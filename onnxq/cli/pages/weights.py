"""What `onnxq statistics weights` shows."""

from __future__ import annotations

from collections.abc import Sequence

from onnxq.analysis.weights import WeightRow, WeightTable, order_of_badness
from onnxq.base.grouped import grouped
from onnxq.base.shown import number
from onnxq.cli.pages.histograms import entry_of, range_of
from onnxq.cli.pages.shared import shared_entries
from onnxq.cli.pages.words import ROWS, counted, in_line, say
from onnxq.cli.screen import Page

_SHOWN = 10
_WORST = 2  # channels of a layer, the furthest out

_TITLES = "layer", "type", "min", "max", "cosine", "SQNR dB", "MSE", "L1", "KL", "steps", "widest", "dead"


def weights_page(table: WeightTable, *, full: bool) -> Page:
    """Weights of layers.

    Args:
        table: what was found.
        full: whether all layers are shown.
    """
    page = Page()
    layers = sorted((row for row in table.rows if row.channel is None), key=order_of_badness)
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
    _spread(page, table, shown, full=full)
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


def _spread(page: Page, table: WeightTable, rows: Sequence[WeightRow], *, full: bool) -> None:
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
