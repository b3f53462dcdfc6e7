"""What native code does to a process, said in a line: the command runs in a child, which this one waits for.

onnxruntime and what it loads can end a process, by an integer that is divided by zero, say, or a file of
weights that is cut short while it is mapped. No handler of Python's hears of that.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
from collections.abc import Callable
from typing import Any

_DEATHS = ("SIGSEGV", "SIGFPE", "SIGBUS", "SIGILL", "SIGABRT", "SIGTRAP", "SIGSYS")
_PASSED_ON = ("SIGINT", "SIGTERM", "SIGHUP")
_PR_SET_PDEATHSIG = 1  # linux/prctl.h


def supervised(run: Callable[[], object], died: Callable[[str], int]) -> None:
    """Runs a function in a child process, and ends as that does. For a main thread that is alone.

    Signals are passed on. The child is killed with this process where the system can do that (Linux).
    Where processes cannot be forked (Windows), or this one may not or has threads, the function runs in it.

    Args:
        run: the function, which ends the process by itself.
        died: is called where native code ended the child, with the name of the signal; returns the exit code.
    """
    if not hasattr(os, "fork") or threading.active_count() > 1:
        run()
        return
    passed = [getattr(signal, name) for name in _PASSED_ON]
    before = {number: signal.getsignal(number) for number in passed}
    signal.pthread_sigmask(signal.SIG_BLOCK, passed)  # none is lost between here and the handlers
    parent = os.getpid()
    try:
        child = os.fork()
    except OSError:  # too many processes
        child = -1
    if child <= 0:
        if child == 0:
            _end_with(parent)
            if before[signal.SIGINT] is signal.default_int_handler:  # until the command has one of its own
                signal.signal(signal.SIGINT, signal.SIG_DFL)  # no traceback of what is being imported
        signal.pthread_sigmask(signal.SIG_UNBLOCK, passed)
        run()
        return

    def pass_on(number: int, frame: Any) -> None:
        with contextlib.suppress(OSError):
            os.kill(child, number)

    for number in passed:
        if number != signal.SIGHUP or before[number] != signal.SIG_IGN:  # of `nohup`
            signal.signal(number, pass_on)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, passed)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if code < 0:
        code = _of_signal(-code, died)
    os._exit(code)  # all that was written was written by the child


def _end_with(parent: int) -> None:
    """Has the system kill this process when its parent is gone."""
    if not sys.platform.startswith("linux"):
        return
    import ctypes

    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it was gone before
        os._exit(1)


def _of_signal(number: int, died: Callable[[str], int]) -> int:
    name = next((name for name in _DEATHS if getattr(signal, name, None) == number), "")
    if not name:  # somebody ended it: so it is for who waits for this process
        if number != signal.SIGKILL:
            signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)
        os._exit(128 + number)  # the first process of a container is not killed by itself
    code = died(name)
    with contextlib.suppress(OSError):
        sys.stdout.flush()
        sys.stderr.flush()
    return code
