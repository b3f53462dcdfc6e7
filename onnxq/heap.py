"""The process's heap: one setting, so that memory use repeats."""

from __future__ import annotations

import contextlib
import ctypes
import sys

_M_MMAP_THRESHOLD = -3  # glibc, malloc.h


def steady_heap() -> None:
    """Fixes the size (128 KiB) from which glibc maps memory instead of growing the heap.

    That is where it starts. Left to itself it adapts the size to what is freed, and the peak of one
    and the same job differs by 5 % from run to run.
    """
    if sys.platform == "linux":
        with contextlib.suppress(OSError, AttributeError):  # another C library
            ctypes.CDLL(None).mallopt(_M_MMAP_THRESHOLD, 1 << 17)
