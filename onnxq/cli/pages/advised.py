"""What `onnxq quantize --budget` tried, and what is the best."""

from __future__ import annotations

from onnxq.cli.pages.words import answer_lines, counted, say
from onnxq.cli.screen import Page, cut, shorten
from onnxq.documents.advice import Advised, Attempt

_FEW = 4


def advised_page(found: Advised) -> Page:
    """The answer to the best, what was tried, and the command that makes it again."""
    page = Page()
    best = found.attempts[found.best]
    if best.answer is not None:
        answer_lines(page, best.answer)
    runs = counted(len(found.attempts), "run")
    page.section("Tried", say("tried", runs=runs, output=found.output))
    rows = [_row(place, one, best=place == found.best) for place, one in enumerate(found.attempts)]
    page.table(("", "answer", "kept", "bytes", "took"), rows)
    if len(found.attempts) > 1:
        page.entry(say("tried.best"), style="dim")
    for tried in found.attempts:
        if tried.error:
            page.entry(f"{shorten(tried.why, 60)}: {shorten(tried.error, 160)}", style="yellow")
    for place, one in enumerate(found.untried[:_FEW]):
        page.section("" if place else "Not tried", f"{cut(one.why, 200)} ({one.because})")
        if one.command:
            page.code(one.command)
    page.section("Again", say("tried.again"))
    page.code(best.command)
    return page


def _row(place: int, one: Attempt, *, best: bool) -> tuple[str, ...]:
    name = f"{place + 1} {shorten(one.why, 60)}{', the best' * best}"
    if one.answer is None:
        return name, "error", "", "", f"{one.seconds:.0f} s"
    figure = "" if one.figure is None else f"{one.figure:.1f} {one.unit}"
    return (
        name,
        one.answer.words,
        figure,
        "" if one.moved is None else f"{one.moved:.2f}",
        f"{one.seconds:.0f} s",
    )
