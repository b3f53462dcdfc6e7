"""What the user should know of a run, said from where no result has a place for it."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from onnxq.base.progress import LOG

_listening: ContextVar[tuple[dict[str, None], ...]] = ContextVar("who listens to remarks", default=())


def remark(text: str) -> None:
    """Tells all who listen, or warns where nobody does."""
    LOG.warning("%s", text)
    listening = _listening.get()
    for heard in listening:
        heard[text] = None
    if not listening:
        warnings.warn(text, stacklevel=2)


@contextmanager
def heard() -> Iterator[dict[str, None]]:
    """Listens meanwhile; the remarks are the keys, in order, each once."""
    remarks: dict[str, None] = {}
    token = _listening.set((*_listening.get(), remarks))
    try:
        yield remarks
    finally:
        _listening.reset(token)


def so_far() -> list[str]:
    """What the innermost listener has heard."""
    return list(_listening.get()[-1]) if _listening.get() else []
