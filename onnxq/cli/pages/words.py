"""Words that pages have in common: numbers of things, sizes, types, lists."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from onnxq.advice.asked import given
from onnxq.base import shown
from onnxq.base.escapes import visible
from onnxq.base.reason import say as say  # which the pages ask for here
from onnxq.base.shown import capitalized
from onnxq.cli.screen import Page, shorten
from onnxq.documents.advice import Advice
from onnxq.documents.report import Report
from onnxq.rewrite.changes import Assumption
from onnxq.targets.devices import device_of

FEW = 4
ROWS = "(--all, --csv X.csv, --json)"
"""Where the other rows of a table are."""

counted, decimal, decibels = shown.counted, shown.decimal, shown.decibels
INTERVALS, within, within_db = shown.INTERVALS, shown.within, shown.within_db
size_text, tally = shown.size, shown.tally


def target_words(report: Report) -> str:
    """What a file is made for; with what states it where no flag, plan or settings file may have."""
    stated = report.config is not None or given(report, "--target") or given(report, "--plan")
    asked = report.asked and not stated
    target = f"{report.target} {shown.assumed('--target')}" if asked else report.target
    if not report.device:
        return target
    device = device_of(report.device)
    sm = report.engine.sm
    if sm is None or sm == device.sm:
        return say("short.device", target=target, device=device.title)
    return say("short.device-nearest", target=target, device=device.title, sm=sm / 10)


def assumption_words(one: Assumption) -> str:
    """What changes rely on: a size or a value, with the flag that states it, or what proves it."""
    because = f"as {one.flag} states" if one.why == "stated" else one.why
    return f"{one.name}={one.value}: {because}"


def listed(counts: Mapping[str, int]) -> str:
    """Counts in a line: `Conv 12, Relu 3`."""
    return ", ".join(f"{name} {count}" for name, count in counts.items())


def first_few(texts: Sequence[str], shown: int = FEW, where: str = " in the report") -> str:
    """The first few of a list, and how many more there are where."""
    return ", ".join(texts[:shown]) + f", +{len(texts) - shown} more{where}" * (len(texts) > shown)


def first_of(names: Sequence[str], width: int = 60) -> str:
    """The first of some names, cut to a width, and how many more there are: `conv1 +2`."""
    return shorten(names[0], width) + f" +{len(names) - 1}" * (len(names) > 1) if names else ""


def in_line(name: str, width: int = 60) -> str:
    """A name of a model or of data in one line, cut to a width."""
    return shorten(visible(name), width)


def first_lines(text: str, count: int = 3, width: int = 300) -> str:
    """The first lines of a text, each cut to a width, and how many more there are: for `lines=True`."""
    lines = [
        visible(line if len(line) <= width else line[:width] + "...") for line in text.strip().splitlines()
    ]
    rest = f"\n+{len(lines) - count} more lines (--json)" if len(lines) > count else ""
    return "\n".join(lines[:count]) + rest


def type_text(dtype: str | None, shape: tuple[int | str | None, ...] | None) -> str:
    """The type of a tensor: `float32 [Nx3x224x224]`."""
    from onnxq.graph.types import shape_text

    return f"{dtype or 'unknown type'} [{shape_text(shape)}]"


def answer_lines(page: Page, advice: Advice) -> None:
    """The answer with its figures, the likeliest cause, and the command."""
    said = f"{advice.words}: {advice.because}"
    {"ship": page.head, "not-known": page.warn, "do-not-ship": page.alarm}[advice.answer](said)
    if advice.cause:
        page.plain(advice.cause, style="yellow")
    if advice.command:
        page.plain(f"{capitalized(advice.do)}:")
        page.code(advice.command)
    elif advice.do:
        page.plain(f"{capitalized(advice.do)}.")
