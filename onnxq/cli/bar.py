"""How far a run is, for who calls a function of onnxq: a bar in a terminal, and in a notebook."""

from __future__ import annotations

import contextlib
import html
import sys
import time
from collections.abc import Iterator
from typing import Any

from onnxq.base.progress import Observer
from onnxq.cli.screen import Screen, in_words, shorten

_SECONDS = 0.1
"""A notebook is written to no more often than that, but for new steps."""


@contextlib.contextmanager
def bar() -> Iterator[Observer]:
    """A bar for `observe=`: in a notebook one of its own, else on standard error.

    with onnxq.bar() as observe:
        result = onnxq.quantize("model.onnx", "images/", observe=observe)
    """
    display = _display()
    if display is not None:
        yield _InNotebook(display)
    else:
        with Screen(quiet=False, verbose=False, json=True).progress() as observe:
            yield observe


class _InNotebook:
    """A bar of HTML that is written anew."""

    def __init__(self, display: Any) -> None:
        self._handle = display({"text/plain": "", "text/html": ""}, raw=True, display_id=True)
        self._step, self._told = "", 0.0

    def __call__(self, step: str, done: int | None, total: int | None) -> None:
        now = time.monotonic()
        if step == self._step and done != total and now - self._told < _SECONDS:
            return
        self._step, self._told = step, now
        words = in_words(step)
        name = html.escape(shorten(words))
        shown = (
            f'<progress value="{done}" max="{total}"></progress> {done} of {total}' if total else done or ""
        )
        text = f"{words} {done} of {total}" if total else f"{words} {done or ''}".rstrip()
        self._handle.update({"text/plain": text, "text/html": f"{name} {shown}"}, raw=True)


def _display() -> Any:
    """What a notebook shows things with; None where there is no notebook."""
    shell = sys.modules.get("IPython")
    running = shell.get_ipython() if shell is not None else None
    if running is None or not hasattr(running, "kernel"):
        return None
    from importlib import import_module

    return import_module("IPython.display").display
