"""A bound of memory for what runs an unknown model: what asks for more fails, and the process does not.

The system counts what a process has asked for, so that a tensor of terabytes fails before it is filled. Where
it does not count (macOS, Windows), nothing is bounded.
"""

from __future__ import annotations

import contextlib
import functools
import os
import threading
from collections.abc import Iterator
from typing import Any

_resource: Any = None
with contextlib.suppress(ImportError):
    import resource

    _resource = resource  # not on Windows

_DATA = 5  # the place in /proc/self/statm of the pages that are data (proc(5))


@contextlib.contextmanager
def memory_bound(most: int | None) -> Iterator[None]:
    """Lets this process ask for so many bytes more meanwhile, in any thread; None: for any number."""
    used = None if most is None or _resource is None else _data_bytes(os.getpid())
    if most is None or used is None:
        yield
        return
    if not _one_at_a_time.acquire(blocking=False):  # a second thread's run has the bound of the first
        yield
        return
    soft, hard = _resource.getrlimit(_resource.RLIMIT_DATA)
    bound = used + most
    try:
        if not any(0 <= limit < bound for limit in (soft, hard)):  # RLIM_INFINITY is -1
            _resource.setrlimit(_resource.RLIMIT_DATA, (bound, hard))
        yield
    finally:
        _resource.setrlimit(_resource.RLIMIT_DATA, (soft, hard))
        _one_at_a_time.release()


def bound_left() -> int | None:
    """How many bytes more this process may ask for now; None: any number."""
    soft = -1 if _resource is None else _resource.getrlimit(_resource.RLIMIT_DATA)[0]
    used = _data_bytes(os.getpid()) if soft >= 0 else None
    return None if used is None else max(0, soft - used)


def unbounded() -> None:
    """Takes back the bound that this process has from the one that started it."""
    if _resource is not None:
        hard = _resource.getrlimit(_resource.RLIMIT_DATA)[1]
        _resource.setrlimit(_resource.RLIMIT_DATA, (hard, hard))


_one_at_a_time = threading.Lock()


def _data_bytes(process: int) -> int | None:
    """The bytes of data that this process has asked for, None where the system does not tell."""
    file = _statm(process)
    return None if file is None else int(os.pread(file, 128, 0).split()[_DATA]) * _resource.getpagesize()


@functools.lru_cache(maxsize=1)
def _statm(process: int) -> int | None:
    """A process's own counts, which stay open: it asks for them before each run."""
    try:
        return os.open(f"/proc/{process}/statm", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
