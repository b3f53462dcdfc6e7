"""Opening a session at the highest level of optimization that works.

onnxruntime rewrites a graph before it runs it, and that can fail: with an error, or by a crash of the whole
process. Lower levels are tried then. A crash is found by opening the session in a child process first
(`onnxq.run.trial_child`): only for models of a kind that is known to crash, and for libraries of custom
operators. That process takes about 0.2 s to start, and opens one session after another until one ends it.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import signal
import subprocess
import threading
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import onnx
import onnxruntime

from onnxq.base import children, interrupts
from onnxq.base.memory_bound import bound_left
from onnxq.base.progress import LOG
from onnxq.base.reason import noted
from onnxq.base.remarks import remark
from onnxq.base.shown import cut
from onnxq.graph.half import speaks_half
from onnxq.run.opening import Level, SessionSettings
from onnxq.run.plain_words import plain

_CHILD = children.command("onnxq.run.trial_child")
_LOWER: dict[Level, Level] = {"all": "extended", "extended": "basic", "basic": "off"}


class Crashed(Exception):
    """onnxruntime, or a library that it loads, ended the process while it opened a session."""


def is_risky(model: onnx.ModelProto) -> bool:
    """Whether a model is of a kind that has made onnxruntime's optimizers crash.

    Those of float16 are: the CPU computes most of their operators in float32, so that casts are put around
    each, then removed again where two meet, and patterns fused that are made for other processors.
    """
    return speaks_half(model, (onnx.TensorProto.FLOAT16,))


def open_session(source: bytes | str, settings: SessionSettings, risky: bool) -> Any:
    """A session of a model or of its file; at a lower level of optimization where it cannot be otherwise.

    Args:
        source: the model's bytes, or its path.
        settings: what it is to be made with.
        risky: whether onnxruntime may crash.

    Raises:
        Exception: what onnxruntime says at the level that was asked for; `Crashed` where it crashed.
    """
    failure: Exception | None = None
    level: Level | None = settings.level
    while level is not None:
        tried = replace(settings, level=level)
        try:
            if risky:
                try_in_child(source, tried)
            session = tried.open(source)
        except Exception as error:  # as in `SessionSettings.open`
            failure = failure or error
            level = _LOWER.get(level)
        else:
            if failure is not None:
                _tell(failure, level)
            return session
    assert failure is not None
    raise failure


def _tell(failure: Exception, level: Level) -> None:
    """Says at what level a model was opened; to its user only where that takes longer."""
    what = cut(plain(str(failure).strip().partition("\n")[0]), 100)
    told = noted(
        "onnxruntime.not-optimized" if level == "off" else "onnxruntime.less-optimized",
        version=onnxruntime.__version__, level=level, error=what,
    )  # fmt: skip
    if level == "off":
        remark(told)
    else:
        LOG.info("%s", told)


def try_in_child(source: bytes | str, settings: SessionSettings) -> None:
    """Opens the session in another process, which lasts; an error there is left to be found again.

    Raises:
        Crashed: that ended the process.
    """
    with interrupts.Folder() as folder, _one:
        model = os.path.abspath(source) if isinstance(source, str) else None
        if isinstance(source, bytes):
            Path(folder, "model").write_bytes(source)
        request = {"settings": asdict(settings), "model": model, "memory": bound_left()}
        Path(folder, "request.json").write_text(json.dumps(request), encoding="utf-8")
        try:
            process = _started()
        except OSError:  # where Python is part of another program there is none to start
            return
        lasts = False
        try:
            with interrupts.child(process):
                lasts = _answers(process, folder) and not settings.libraries  # which stay in the process
                code = 0 if lasts else _ended(process)
            begun, opened = (Path(folder, name).exists() for name in ("begun", "opened"))
        finally:  # after an interrupt too
            if not lasts:
                _end()
    if not 0 <= code <= 255:  # a signal, or an exception of Windows; 1 is an error of Python
        raise Crashed(f"it crashes: {_signal(code)}")
    if begun and not opened:  # a library called exit()
        raise Crashed(f"it ends the process, with exit code {code}")


_one = threading.Lock()
_waiting: tuple[int, subprocess.Popen[str]] | None = None  # with the number of the process that started it


def _started() -> subprocess.Popen[str]:
    """The process that opens sessions on trial, a new one where none waits."""
    global _waiting
    if _waiting is not None and _waiting[0] == os.getpid() and _waiting[1].poll() is None:
        return _waiting[1]
    process = subprocess.Popen(
        _CHILD,
        cwd=Path(__file__).parent,  # it lasts: the user's folder may go
        env=children.environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    _waiting = os.getpid(), process
    return process


def _answers(process: subprocess.Popen[str], folder: str) -> bool:
    """Whether a process is there still after a trial."""
    assert process.stdin is not None
    assert process.stdout is not None
    with contextlib.suppress(OSError):  # it has ended
        print(json.dumps(folder), file=process.stdin, flush=True)
        return process.stdout.readline() != ""
    return False


def _ended(process: subprocess.Popen[str]) -> int:
    """The exit code of a process that has ended, or is told to: there is nothing more to open."""
    with contextlib.suppress(OSError):
        assert process.stdin is not None
        process.stdin.close()
    return process.wait()


@atexit.register
def _end() -> None:
    """Ends the process that waits, if this one has started it."""
    global _waiting
    if _waiting is None or _waiting[0] != os.getpid():
        return
    (_, process), _waiting = _waiting, None
    process.kill()
    process.wait()
    for pipe in (process.stdin, process.stdout):
        with contextlib.suppress(OSError):
            assert pipe is not None
            pipe.close()


def _signal(code: int) -> str:
    try:
        return signal.Signals(-code).name
    except ValueError:
        return f"exit code {code:#x}"
