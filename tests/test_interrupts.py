"""Interrupts wait until what must be whole is done."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
import threading
from multiprocessing.connection import Connection

import pytest

from onnxq.base import interrupts


def test_they_are_raised_at_the_end() -> None:
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    done = []
    with pytest.raises(KeyboardInterrupt):  # noqa: PT012
        with interrupts.held_back():
            with interrupts.held_back():
                signal.raise_signal(signal.SIGINT)
                done.append("inside")
            done.append("outside")
        done.append("after")
    assert done == ["inside", "outside"]
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == before


def test_an_error_comes_first() -> None:
    with pytest.raises(ZeroDivisionError), interrupts.held_back():
        raise ZeroDivisionError


def test_other_threads_are_never_interrupted() -> None:
    done: list[str] = []

    def work() -> None:
        with interrupts.held_back():
            done.append("done")

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert done == ["done"]


@pytest.mark.skipif(not hasattr(os, "kill"), reason="sends a signal")
def test_where_other_threads_take_the_signal() -> None:
    """The system gives it to any thread that does not block it."""
    code = (
        "import os, signal, threading, time\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "from onnxq.base import interrupts\n"
        "threading.Thread(target=time.sleep, args=(2,), daemon=True).start()\n"
        "try:\n"
        "    with interrupts.held_back():\n"
        "        os.kill(os.getpid(), signal.SIGINT)\n"
        "        time.sleep(0.2)\n"
        "        print('done')\n"
        "except KeyboardInterrupt:\n"
        "    print('interrupted')\n"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.split() == ["done", "interrupted"]


def _is_blocked(pipe: Connection) -> None:
    pipe.send(signal.SIGINT in signal.pthread_sigmask(signal.SIG_BLOCK, ()))


@pytest.mark.skipif(not hasattr(signal, "pthread_sigmask"), reason="needs signal masks")
def test_children_do_not_hear_of_them() -> None:
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=_is_blocked, args=(theirs,))
    with interrupts.kept_from_children():
        process.start()
    assert ours.recv() is True
    process.join()
    assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, ())
