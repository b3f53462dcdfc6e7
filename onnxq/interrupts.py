"""Holding back interrupts while something is done that must be whole."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from typing import Any

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


@contextlib.contextmanager
def held_back() -> Iterator[None]:
    """Holds back SIGINT and SIGTERM; they are raised at the end.

    By their handlers: a signal mask holds them back from one thread, the system then gives them to another
    one (onnxruntime has some), and Python runs the handler in the main thread all the same. That is the
    only thread that is ever interrupted, so that nothing is done in others.
    """
    handlers = {number: signal.getsignal(number) for number in _SIGNALS}
    if threading.current_thread() is not threading.main_thread() or None in handlers.values():
        yield
        return
    waiting: list[int] = []

    def wait(number: int, frame: Any) -> None:
        waiting.append(number)

    try:
        for number in _SIGNALS:
            signal.signal(number, wait)
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
        for held in waiting:
            signal.raise_signal(held)


@contextlib.contextmanager
def kept_from_children() -> Iterator[None]:
    """Processes that are started meanwhile do not hear SIGINT, which a terminal sends to all."""
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        yield
        return
    from multiprocessing import resource_tracker

    resource_tracker.ensure_running()  # it would start with the first process, and unblock SIGINT
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
