"""Interrupts: a run ends within two seconds of one, and what must be whole is finished first."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import tempfile
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NoReturn, Protocol

from onnxq.base import leftovers

EXIT_CODE = 130
GRACE = 1.4
"""Seconds that the main thread has to end by itself; native code may not listen."""

_HANGUP = (signal.SIGHUP,) if hasattr(signal, "SIGHUP") else ()  # the terminal is gone; not on Windows
_OF_TERMINAL = (signal.SIGINT, *_HANGUP)  # which all of its processes are sent
_SIGNALS = (signal.SIGTERM, *_OF_TERMINAL)
_WHOLE_SECONDS = 10.0  # how long what must be whole may take


class Process(Protocol):
    """A child process, of `subprocess` or of `multiprocessing`."""

    def kill(self) -> None:
        """Ends it at once."""


_stands = ""
_last_words = [True]  # taken by who says them
_whole = threading.RLock()  # held while something must be whole
_stops: dict[int, Callable[[], None]] = {}
_folders: weakref.WeakValueDictionary[int, Folder] = weakref.WeakValueDictionary()
_children: dict[int, Process] = {}


def end_on_signals(error: type[BaseException], *, grace: float = GRACE, last_words: str = "") -> None:
    """From now on the first SIGINT, SIGTERM or SIGHUP ends this process, wherever it is. For the main thread.

    A SIGHUP that is ignored stays so: this is what `nohup` is for.

    It raises `error` in the main thread, and what native code runs is stopped (`stopping`). Where the
    process is still there after `grace` seconds, since native code does not listen or somebody caught
    the error, it is ended from another thread, with exit code 130: child processes (`child`) are killed
    and temporary folders (`Folder`) removed. Only native code that holds Python's lock is waited for.

    Args:
        error: what is raised, once: a second signal does not interrupt the clearing up.
        grace: seconds.
        last_words: what is said on standard error where the process is ended so.
    """
    told = False

    def interrupt(number: int, frame: Any) -> None:
        nonlocal told
        if not told:
            told = True
            raise error

    for number in _SIGNALS:
        if number not in _HANGUP or signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, interrupt)
    if os.name != "posix":
        return
    # Python's own handler writes the signal's number there at once, in whichever code the main thread is
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    threading.Thread(target=_watch, args=(reader, grace, last_words), daemon=True).start()


def end_with_parent(patience: float) -> None:
    """For a worker's main thread: SIGTERM, which the parent sends, ends it, and nothing of a terminal does.

    Args:
        patience: after how many seconds the parent kills it.
    """
    end_on_signals(KeyboardInterrupt, grace=patience - 0.3)
    for number in _OF_TERMINAL:
        signal.signal(number, signal.SIG_IGN)


def _watch(reader: int, grace: float, last_words: str) -> None:
    while os.read(reader, 1)[0] not in _SIGNALS:
        pass
    for stop in list(_stops.values()):
        stop()
    time.sleep(grace)
    if last_words and says_the_end() and select.select([], [2], [], 0)[1]:  # nobody may be reading
        said = f"{last_words}\nhint: {_stands}" if _stands else last_words
        with contextlib.suppress(OSError):  # a terminal that is gone
            os.write(2, f"{_CURSOR if os.isatty(2) else ''}{said}\n".encode())
    end_now()


_CURSOR = "\r\x1b[K\x1b[?25h"  # over the line of a progress bar, which hides the cursor


def says_the_end() -> bool:
    """Whether whoever asks is the first one to ask, and says that the run ends; nobody else does."""
    try:
        return _last_words.pop()
    except IndexError:
        return False


def begins() -> None:
    """A run begins: it has made nothing yet, and nobody has said that it ends."""
    stands("")
    _last_words[:] = [True]


def stands(words: str) -> None:
    """From now on a run that ends early says this: what it has made that stays, and what is missing."""
    global _stands
    _stands = words


def what_stands() -> str:
    """What `stands` was told last."""
    return _stands


def end_now() -> NoReturn:
    """Ends the process with exit code 130, and its children; removes temporary folders.

    Python itself takes seconds to end where graphs are large: it takes them apart.
    """
    _whole.acquire(timeout=_WHOLE_SECONDS)
    for process in list(_children.values()):
        with contextlib.suppress(OSError, ValueError):  # it has ended
            process.kill()
    for reference in _folders.valuerefs():
        folder = reference()
        if folder is not None:
            leftovers.delete(folder.name)
    os._exit(EXIT_CODE)


@contextlib.contextmanager
def stopping(stop: Callable[[], None]) -> Iterator[None]:
    """Calls `stop`, from another thread, where a signal comes meanwhile that ends the process."""
    key = id(stop)
    _stops[key] = stop
    try:
        yield
    finally:
        del _stops[key]


@contextlib.contextmanager
def child(process: Process) -> Iterator[None]:
    """A child process that does not outlive this one, where a signal ends this one meanwhile."""
    _children[id(process)] = process
    try:
        yield
    finally:
        del _children[id(process)]


class Folder(tempfile.TemporaryDirectory[str]):
    """A temporary folder that is removed in any case: where a signal kills the process, by the next one.

    Args:
        parent: where it is; None: the system's folder for temporary files.
    """

    def __init__(self, parent: Path | None = None) -> None:
        leftovers.remove_those_in(os.path.abspath(parent or tempfile.gettempdir()))
        with held_back():
            super().__init__(prefix=leftovers.PREFIX, dir=parent, ignore_cleanup_errors=True)
            self._unlock = weakref.finalize(self, leftovers.lock(self.name))
            _folders[id(self)] = self

    def cleanup(self) -> None:
        """Removes it."""
        leftovers.delete(self.name)
        super().cleanup()
        self._unlock()


@contextlib.contextmanager
def held_back() -> Iterator[None]:
    """Holds back SIGINT, SIGTERM and SIGHUP; they are raised at the end.

    By their handlers: a signal mask holds them back from one thread, the system then gives them to another
    one (onnxruntime has some), and Python runs the handler in the main thread all the same. That is the
    only thread that is ever interrupted, so that nothing is done in others.
    """
    found = {number: signal.getsignal(number) for number in _SIGNALS}
    handlers = {number: handler for number, handler in found.items() if handler != signal.SIG_IGN}
    if threading.current_thread() is not threading.main_thread() or None in handlers.values():
        yield
        return
    waiting: list[int] = []

    def wait(number: int, frame: Any) -> None:
        waiting.append(number)

    try:
        for number in handlers:
            signal.signal(number, wait)
        with _whole:
            yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
        for held in waiting:
            signal.raise_signal(held)


@contextlib.contextmanager
def kept_from_children() -> Iterator[None]:
    """Processes that are started meanwhile do not hear what a terminal sends to all."""
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        yield
        return
    from multiprocessing import resource_tracker

    resource_tracker.ensure_running()  # it would start with the first process, and unblock them
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _OF_TERMINAL)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
