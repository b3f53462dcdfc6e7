"""Processes of Python that work for this one: they import nothing from the folder that one is in."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import Any

from onnxq.base import interrupts
from onnxq.base.heap import steady_heap

PATIENCE = 1.2
"""Seconds that workers have to keep what they did; for a signal two are all there are."""

_SAFE = "PYTHONSAFEPATH"
_starting = threading.Lock()


def command(module: str) -> tuple[str, ...]:
    """The command line that runs a module as a program."""
    return sys.executable or "python", "-P", "-m", module


def environment() -> dict[str, str]:
    """The environment of such a program, which finds onnxq where this process did."""
    root = str(Path(__file__).resolve().parents[2])
    places = [root, *filter(None, [os.getenv("PYTHONPATH")])]
    return os.environ | {"PYTHONPATH": os.pathsep.join(places)}


def spawned(folder: str, target: Callable[..., object], *args: object) -> Any:
    """Starts a process (of `multiprocessing`) that runs a function of a module; it ends with this one.

    Args:
        folder: where its temporary files are; whoever starts it removes that, however it ends.
        target: the function.
        args: what it is called with.
    """
    own = _SAFE in os.environ
    context = multiprocessing.get_context("spawn")
    process = context.Process(target=_run, args=(own, folder, target, args))
    with _safe_path(), interrupts.kept_from_children():  # from its start: it imports for a second
        process.start()
    return process


def end(processes: Collection[Any]) -> None:
    """Ends them all: those that do not end in time are killed."""
    for process in processes:
        process.terminate()
    last = time.monotonic() + PATIENCE
    for process in processes:
        process.join(max(0.0, last - time.monotonic()))
        process.kill()
        process.join()


@contextlib.contextmanager
def _safe_path() -> Iterator[None]:
    """Has Python leave the folder that one is in out, where `multiprocessing` starts it with `-c`."""
    with _starting:
        before = os.environ.get(_SAFE)
        os.environ[_SAFE] = "1"
        try:
            yield
        finally:
            os.environ.pop(_SAFE)
            if before is not None:
                os.environ[_SAFE] = before


def _run(safe: bool, folder: str, target: Callable[..., object], args: tuple[object, ...]) -> None:
    """The process."""
    if not safe:  # programs that a user's function starts are as they would be elsewhere
        os.environ.pop(_SAFE, None)
    interrupts.end_with_parent(PATIENCE)
    tempfile.tempdir = folder
    steady_heap()
    target(*args)
