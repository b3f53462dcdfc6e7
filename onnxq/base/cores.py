"""How many cores there are for this process."""

from __future__ import annotations

import os


def cores() -> int:
    """How many cores this process may run on: those of the machine, but where it is bound to fewer."""
    if hasattr(os, "sched_getaffinity"):  # not on macOS and Windows
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def bound_cores() -> int:
    """The same where it is bound to fewer than there are; else 0."""
    count = cores()
    return count if count < (os.cpu_count() or 1) else 0
