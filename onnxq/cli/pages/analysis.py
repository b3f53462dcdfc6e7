"""The screen of `analyze`: what is suspicious, the worst layers, and where errors grow."""

from __future__ import annotations

import math
from pathlib import Path

from onnxq.base.grouped import grouped
from onnxq.cli.pages.words import FEW, counted, say
from onnxq.cli.screen import Page, shorten
from onnxq.documents.analysis import Analysis, OutputBeside

_SHOWN = 10


def analysis_page(result: Analysis, table: Path | None) -> Page:
    """Two stages of a model, layer by layer."""
    page = Page()
    samples = counted(result.samples, "sample")
    other = f"{result.b} ({result.runner})" if result.runner else result.b
    page.head(say("analyzed.apart" if result.held_out else "analyzed", b=other, a=result.a, samples=samples))
    page.section("Verdict", _verdict(result), "yellow" if result.suspicious or result.under else "")
    _causes(page, result)
    for entry in result.nonfinite:
        page.entry(
            say(
                "made-not-finite" if entry.layer else "made-not-finite.nobody", model=entry.model,
                values=entry.values, tensor=shorten(entry.tensor, 40), op=entry.op,
                layer=shorten(entry.layer or "", 40), where=shorten(entry.where, 60),
            ),
            style="yellow",
        )  # fmt: skip
    _drift(page, result)
    _table(page, result)
    _under(page, result)
    _worst(page, result)
    _matched(page, result)
    page.sections("Data", result.data_lines)
    if result.emulated:
        page.entry(say("half-simulated"))
    for note in result.notes:
        page.entry(note, style="yellow")
    if table is not None:
        page.section("Files", str(table))
    return page


def _verdict(result: Analysis) -> str:
    if not result.rows:
        return say("layers-err.filtered")
    layers = counted(len(result.rows), "layer")
    text = say(
        "layers-err" if result.suspicious else "layers-err.none", count=result.suspicious, layers=layers
    )
    if all(row.isolated is None for row in result.rows):
        text = f"{counted(len(result.rows), 'tensor')} compared, none alone"
    if result.thresholds:
        text += f"; {result.under} under a threshold"
    ends = [row for row in result.rows if row.output]
    if ends:
        worst = min(ends, key=lambda row: _level(row.accumulated.sqnr_db))
        reached = _decibels(worst.accumulated.sqnr_db)
        text += f"; {say('layers-err.worst', output=shorten(worst.tensor, 40), level=reached)}"
    return text


def _causes(page: Page, result: Analysis) -> None:
    for row in [row for row in result.rows if row.causes][:_SHOWN]:
        page.entry(f"{row.op} {shorten(row.layer, 48)}: {row.causes[0].text}", style="yellow")
        for cause in row.causes[1:FEW]:
            page.entry(cause.text, 2)
    page.more(result.suspicious - _SHOWN, "(--csv, --json)")


def _drift(page: Page, result: Analysis) -> None:
    level = f"{result.drift_db:g} dB"
    if result.drift is None:
        page.entry(say("drift.none", level=level))
        return
    row = next(row for row in result.rows if row.tensor == result.drift)
    page.entry(
        say(
            "drift", level=level, tensor=shorten(row.tensor, 48), op=row.op, layer=shorten(row.layer, 40),
            reached=_decibels(row.accumulated.sqnr_db),
        )
    )  # fmt: skip


def _table(page: Page, result: Analysis) -> None:
    """The worst layers."""
    if not result.rows:
        return
    alone = any(row.isolated is not None for row in result.rows)
    steps = any(row.accumulated.max_steps is not None for row in result.rows)
    metric = any(row.accumulated.metric is not None for row in result.rows)
    noise = any(row.predicted_db is not None for row in result.rows)
    few, whole = min(_SHOWN, len(result.rows)), len(result.rows)
    page.section("Layers", say("worst-layers.alone" if alone else "worst-layers", shown=few, all=whole))
    head = (
        ["layer", "op"] + (["alone"] if alone else []) + ["accumulated", "about mean", "cosine", "max error"]
    )
    head += (["in steps"] if steps else []) + ["KL"] + (["metric"] if metric else [])
    head += ["outputs by it alone"] if noise else []
    rows = []
    for row in result.rows[:_SHOWN]:
        figures = row.accumulated
        cells = [shorten(row.layer or row.tensor, 40), row.op]
        cells += [_short(row.isolated.sqnr_db) if row.isolated is not None else ""] if alone else []
        cells += [_short(figures.sqnr_db), _short(figures.sqnr_about_mean_db), _number(figures.cosine, ".5f")]
        cells += [_number(figures.max_abs, ".2g")]
        cells += [_number(figures.max_steps, ".3g")] if steps else []
        cells += [_number(figures.kl, ".2g")]
        cells += [_number(figures.metric, ".4g")] if metric else []
        cells += [_short(row.predicted_db)] if noise else []
        rows.append(cells)
    page.table(head, rows)
    page.more(len(result.rows) - _SHOWN, "(--csv, --json)")


def _under(page: Page, result: Analysis) -> None:
    rows = sorted((row for row in result.rows if row.under), key=lambda row: row.place)
    if not result.thresholds:
        return
    bounds = ", ".join(f"{name}={value:g}" for name, value in result.thresholds.items())
    page.section("Thresholds", f"{bounds}: {len(rows)} of {counted(len(result.rows), 'layer')} under them")
    for row in rows[:_SHOWN]:
        page.entry(f"{shorten(row.tensor, 48)}: {', '.join(row.under)}")
    page.more(len(rows) - _SHOWN, "(--csv, --json)")


def _worst(page: Page, result: Analysis) -> None:
    """The worst sample, its outputs side by side."""
    if result.worst is None:
        return
    worst = result.worst
    where, level = shorten(worst.where, 60), _decibels(worst.sqnr_db)
    page.section("Worst", say("worst-sample", sample=worst.sample, where=where, level=level))
    for output in worst.outputs[:FEW]:
        page.entry(f"{shorten(output.output, 40)} {list(output.shape)}{_argmax(output)}")
        cells = [
            [",".join(map(str, value.index)), f"{value.a:.5g}", f"{value.b:.5g}", f"{value.b - value.a:+.2g}"]
            for value in output.values[:5]
        ]
        page.table(["differs most at", "A", "B", "B - A"], cells)
    page.more(len(worst.outputs) - FEW, "(--json)")


def _argmax(output: OutputBeside) -> str:
    one, other = output.argmax
    return say("argmax.same" if one == other else "argmax", one=one, other=other)


def _matched(page: Page, result: Analysis) -> None:
    match = result.match
    by = ", ".join(f"{count} by {how}" for how, count in match.by.items() if count)
    tensors = counted(match.compared, "tensor")
    page.section("Matched", say("matched", tensors=tensors, by=by, share=match.share))
    for label, left in (("A", match.left_a), ("B", match.left_b)):
        by_why = grouped((entry.why, entry.tensor) for entry in left)
        for why, names in list(by_why.items())[:FEW]:
            first = shorten(names[0], 40)
            page.entry(say("matched.left", count=len(names), label=label, why=why, first=first), style="dim")


def _level(value: float | None) -> float:
    return math.inf if value is None else value


def _decibels(value: float | None) -> str:
    return "no figure" if value is None else "no error" if value == math.inf else f"{value:.1f} dB"


def _short(value: float | None) -> str:
    return "" if value is None else "equal" if value == math.inf else f"{value:.1f}"


def _number(value: float | None, form: str) -> str:
    return "" if value is None else format(value, form)
