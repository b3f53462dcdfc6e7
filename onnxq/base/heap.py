"""The process's heap: memory use that repeats, and no collector in the way of growing graphs."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import sys
from collections.abc import Iterator

_M_MMAP_THRESHOLD = -3  # glibc, malloc.h


def steady_heap() -> None:
    """Fixes the size (1 MiB) from which glibc maps memory instead of growing the heap.

    Left to itself it adapts the size to what is freed, and the peak of one and the same job differs by 5 %
    from run to run. Where it starts, at 128 KiB, the system clears pages for each array anew. It cannot be
    undone, so that only processes of our own do it (the command line, workers), never a function that a
    user's program calls.
    """
    if sys.platform == "linux":
        with contextlib.suppress(OSError, AttributeError):  # another C library
            ctypes.CDLL(None).mallopt(_M_MMAP_THRESHOLD, 1 << 20)


@contextlib.contextmanager
def uncollected() -> Iterator[None]:
    """Holds Python's cyclic garbage collector back.

    While a graph of many objects grows, none of which dies, its passes over them take a sixth of
    the time.
    """
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()


@contextlib.contextmanager
def settled() -> Iterator[None]:
    """Takes what is alive now out of the way of `collected`, which then looks at what came since only.

    Half a million objects of modules and graphs, which stay, take 60 ms each time.
    """
    if gc.get_freeze_count():  # the user's program does so already
        yield
        return
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


def collected() -> None:
    """Frees what nobody needs any more, weights among it, now and not when the collector next looks.

    The nodes and tensors of a model hold each other.
    """
    gc.collect()
