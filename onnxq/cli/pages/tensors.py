"""What `onnxq statistics activations` shows."""

from __future__ import annotations

from collections.abc import Sequence

from onnxq.analysis.tensors import TensorRow, TensorTable, channel_order, order_of_badness
from onnxq.base.grouped import grouped
from onnxq.base.shown import number, percent
from onnxq.cli.pages.histograms import entry_of, range_of
from onnxq.cli.pages.words import ROWS, counted, first_few, in_line, say
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
    _spread(page, table, shown, full=full)
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


def _spread(page: Page, table: TensorTable, rows: Sequence[TensorRow], *, full: bool) -> None:
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
