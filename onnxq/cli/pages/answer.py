"""The answer to a run, before everything else: ship it or not, why, and what to do."""

from __future__ import annotations

from onnxq.base.shown import capitalized
from onnxq.cli.screen import Page
from onnxq.documents.advice import Advice


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
