"""What `onnxq weights` shows."""

from __future__ import annotations

from onnxq.analysis.weights import COMPARED, SORTED, WeightRow, WeightTable, order_of_badness
from onnxq.base.shown import number
from onnxq.cli.pages.words import counted, in_line
from onnxq.cli.screen import Page

_SHOWN = 10


def weights_page(table: WeightTable, *, full: bool) -> Page:
    """Weights of layers.

    Args:
        table: what was found.
        full: whether all layers are shown.
    """
    page = Page()
    layers = sorted((row for row in table.rows if row.channel is None), key=order_of_badness)
    page.head(f"{in_line(table.model)}  {counted(len(layers), 'layer')}")
    page.section("Compared", COMPARED[table.compared].format(in_line(table.against)))
    shown = layers if full else layers[:_SHOWN]
    page.section("Layers", SORTED[table.compared])
    page.table(
        ("layer", "type", "min", "max", "cosine", "SQNR dB", "steps", "widest", "dead"),
        [
            (
                in_line(row.layer, 32), row.dtype, number(row.min), number(row.max),
                "-" if row.cosine is None else f"{row.cosine:.6f}",
                "-" if row.sqnr_db is None else f"{row.sqnr_db:.1f}",
                "-" if row.max_steps is None else f"{row.max_steps:.3g}",
                "-" if row.over_median is None else f"{row.over_median:.3g}x",
                str(row.dead),
            )
            for row in shown
        ],
    )  # fmt: skip
    if len(layers) > len(shown):
        page.entry(f"+{len(layers) - len(shown)} more (--all, --csv X.csv, --json)", style="dim")
    _channels(page, table, full=full)
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


def _channels(page: Page, table: WeightTable, *, full: bool) -> None:
    for state in ("outlier", "dead"):
        rows = [row for row in table.rows if row.state == state and row.channel is not None]
        rows.sort(key=lambda row: -(row.over_median or 0.0))
        if not rows:
            continue
        page.section(state.capitalize(), counted(len(rows), "channel"), "yellow")
        for row in rows[: None if full else _SHOWN]:
            page.entry(f"{in_line(row.layer)} channel {row.channel}{_wide(row)}")
        if not full and len(rows) > _SHOWN:
            page.entry(f"+{len(rows) - _SHOWN} more (--all, --csv X.csv, --json)", style="dim")
    folded = {row.layer: None for row in table.rows if row.gain is not None}
    if folded:
        some = ", ".join(map(in_line, list(folded)[:4])) + ", ..." * (len(folded) > 4)
        page.section(
            "Scaled",
            f"{counted(len(folded), 'layer')} by a factor for each channel (fused, or a wrong scale), with "
            f"which they are compared: {some}",
        )


def _wide(row: WeightRow) -> str:
    return (
        ""
        if row.over_median is None
        else f": {row.over_median:.3g} times as wide as the median of the others"
    )
