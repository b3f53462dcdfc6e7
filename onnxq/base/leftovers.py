"""Temporary folders that a killed process left, which the next one removes: never those of one that runs.

Each holds a file that its process has locked. The system gives the lock back however the process ends, and a
number that another process has by now is no part of it. Where there are no such locks (Windows), folders of
killed processes stay.
"""

from __future__ import annotations

import contextlib
import functools
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

locks: Any = None
with contextlib.suppress(ImportError):
    import fcntl

    locks = fcntl  # not on Windows

PREFIX = ".onnxq-"
_LOCK = ".onnxq-lock"
_looked: set[str] = set()


def lock(folder: str) -> Callable[[], None]:
    """Says that a new folder is of this process; returns what is to be called when it is gone."""
    if locks is None:
        return lambda: None
    unlocked = os.path.join(folder, f"{_LOCK}.new")
    descriptor = os.open(unlocked, os.O_CREAT | os.O_RDWR)
    with contextlib.suppress(OSError):  # a file system without locks: nobody gets one, and nothing is removed
        locks.flock(descriptor, locks.LOCK_EX)
    os.rename(unlocked, os.path.join(folder, _LOCK))  # there is never one of the name that is not locked
    return functools.partial(os.close, descriptor)


def remove_those_in(parent: str) -> None:
    """Removes what killed processes of this user left in a folder; once in the life of this process."""
    if locks is None or parent in _looked:
        return
    _looked.add(parent)
    with contextlib.suppress(OSError), os.scandir(parent) as entries:
        for entry in entries:
            if entry.name.startswith(PREFIX) and entry.is_dir(follow_symlinks=False):
                _remove_unlocked(entry.path)


def _remove_unlocked(folder: str) -> None:
    with contextlib.suppress(OSError):
        descriptor = os.open(os.path.join(folder, _LOCK), os.O_RDWR | os.O_NOFOLLOW)
        try:
            if os.fstat(descriptor).st_uid == os.geteuid():
                locks.flock(descriptor, locks.LOCK_EX | locks.LOCK_NB)  # an error where its process runs
                delete(folder)
        finally:
            os.close(descriptor)


def delete(folder: str) -> None:
    """Deletes a folder, its lock at the end: what is interrupted here is done by the next process."""
    with contextlib.suppress(OSError):
        for path in Path(folder).iterdir():
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path, ignore_errors=True)
            elif path.name != _LOCK:
                path.unlink(missing_ok=True)
    shutil.rmtree(folder, ignore_errors=True)
