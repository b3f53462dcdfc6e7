"""What this process may use of the machine, and what it has taken so far."""

from __future__ import annotations

import os
import sys
from pathlib import Path


def cores() -> int:
    """How many cores this process may run on: those of the machine, but where it is bound to fewer."""
    if hasattr(os, "sched_getaffinity"):  # not on macOS and Windows
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def bound_cores() -> int:
    """The same where it is bound to fewer than there are; else 0."""
    count = cores()
    return count if count < (os.cpu_count() or 1) else 0


def peak_memory_mb() -> float:
    """The largest resident size of this process so far, MiB; 0 where the system does not tell."""
    try:  # unlike getrusage's, not inherited from the process that started this one
        status = Path("/proc/self/status").read_text("utf-8")
        return round(int(status.split("VmHWM:")[1].split()[0]) / 1024, 1)
    except (OSError, IndexError, ValueError):
        pass
    try:
        import resource
    except ImportError:  # Windows
        return 0.0
    size = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return round(size / (1024.0 if sys.platform != "darwin" else 1024.0 * 1024.0), 1)


def cpu_seconds() -> float:
    """What this process has taken of the processors so far, with its children that have ended."""
    return sum(os.times()[:4])
