"""A command line in a process of its own that has bounds of time and memory.

The process is forked from this one, which has imported everything: a run costs what it does, not what starting does.
"""

from __future__ import annotations

import atexit
import contextlib
import faulthandler
import os
import resource
import signal
import sys
import tempfile
import time
import traceback
import weakref
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

SECONDS = 60.0
MEMORY = 4 << 30
"""Bytes that the process and its children may hold together."""

_EVERY = 0.05  # seconds between two looks at its memory


@dataclass(frozen=True)
class Ended:
    """How a run ended.

    Attributes:
        code: the exit code; the number of a signal, negative.
        seconds: how long it took.
        peak: the most bytes that it and its children held.
        out: what it wrote to standard output.
        err: what it wrote to standard error.
        over: the bound that it was killed for, or "".
        left: names of temporary files that it left behind.
    """

    code: int
    seconds: float
    peak: int
    out: str
    err: str
    over: str = ""
    left: tuple[str, ...] = ()

    @property
    def said(self) -> str:
        """All that it wrote, as one line."""
        return " ".join((self.out + self.err).split())

    @property
    def fault(self) -> str:
        """What no run may do, or ""."""
        if self.over:
            return self.over
        if self.code < 0:
            return signal.Signals(-self.code).name
        if "Traceback (most recent call last)" in self.out + self.err:
            return "traceback"
        if self.code not in (0, 1, 2):
            return f"exit {self.code}"
        return f"left {self.left[0]}" if self.left else ""


def run(folder: Path, *line: str, seconds: float = SECONDS, memory: int = MEMORY) -> Ended:
    """Runs `onnxq LINE` in a folder."""

    def main() -> None:
        from onnxq.__main__ import main as command

        sys.argv = ["onnxq", *line]
        command()

    return bounded(main, folder, seconds=seconds, memory=memory)


def _said(path: Path) -> str:
    """What a run wrote to a file; nothing where it was ended before it began."""
    return path.read_text("utf-8", "replace") if path.exists() else ""


def bounded(main: Callable[[], object], folder: Path, *, seconds: float, memory: int) -> Ended:
    """Calls a function in a process of its own, in a folder."""
    with tempfile.TemporaryDirectory() as own:
        scratch = Path(own)
        (scratch / "tmp").mkdir()
        began = time.monotonic()
        child = os.fork()
        if child == 0:
            _become(main, folder, scratch)
        peak, over, status = 0, "", None
        try:
            while status is None:
                done, found = os.waitpid(child, os.WNOHANG)
                if done:
                    status = found
                    break
                held = sum(map(_held, family(child)))
                peak = max(peak, held)
                over = "memory" if held > memory else "time" if time.monotonic() - began > seconds else ""
                if over:
                    break
                time.sleep(_EVERY if time.monotonic() - began > 0.2 else 0.005)
        finally:
            if status is None:
                for process in family(child):
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(process, signal.SIGKILL)
                status = os.waitpid(child, 0)[1]
        left = (
            ()
            if over
            else tuple(
                sorted(path.name for path in (scratch / "tmp").iterdir() if path.name.startswith(".onnxq-"))
            )
        )
        return Ended(
            os.waitstatus_to_exitcode(status), time.monotonic() - began, peak,
            *(_said(scratch / name) for name in ("out", "err")), over, left,
        )  # fmt: skip


def _become(main: Callable[[], object], folder: Path, scratch: Path) -> None:
    """Runs a function as the whole of this process, which it ends."""
    code = 1
    try:
        os.setsid()
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        os.chdir(folder)
        for number, name in ((1, "out"), (2, "err")):
            os.dup2(os.open(scratch / name, os.O_WRONLY | os.O_CREAT), number)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        sys.stdin, sys.stdout, sys.stderr = (
            os.fdopen(0, "r"), os.fdopen(1, "w", encoding="utf-8"), os.fdopen(2, "w", encoding="utf-8"),
        )  # fmt: skip
        os.environ |= {"TMPDIR": str(scratch / "tmp"), "COLUMNS": "100", "NO_COLOR": "1", "TERM": "dumb"}
        tempfile.tempdir = None
        faulthandler.disable()
        atexit._clear()  # what is to be done at the end of the other process
        weakref.finalize._registry.clear()
        weakref.finalize._registered_with_atexit = False
        main()
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 0 if end.code is None else 1
    except BaseException:
        traceback.print_exc()
    finally:
        with contextlib.suppress(Exception):
            atexit._run_exitfuncs()  # as Python does at its end
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)


def family(process: int) -> Sequence[int]:
    """A process and all that it started, directly or not."""
    found = [process]
    for one in found:
        found += _children(one)
    return found


def _children(process: int) -> Iterator[int]:
    with contextlib.suppress(OSError):
        for task in os.listdir(f"/proc/{process}/task"):
            with contextlib.suppress(OSError):
                yield from map(int, Path(f"/proc/{process}/task/{task}/children").read_text().split())


def _held(process: int) -> int:
    """The bytes of memory that a process holds; of anonymous pages, not of mapped files."""
    with contextlib.suppress(OSError, IndexError, ValueError):
        pages = Path(f"/proc/{process}/statm").read_text().split()
        return (int(pages[1]) - int(pages[2])) * resource.getpagesize()
    return 0
