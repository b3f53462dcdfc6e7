"""Faults of onnxq itself: what is needed to reproduce one is saved."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
import tempfile
import traceback
from pathlib import Path

from onnxq.base.errors import Fault, OnnxqError, cause_of
from onnxq.base.reason import say
from onnxq.cli.versions import versions

_SMALL = 16 << 20


def describe(error: BaseException) -> tuple[str, str]:
    """Message and hint for a fault, after what reproduces it is saved."""
    folder = save(error)
    known = error.hint if isinstance(error, OnnxqError) else ""
    where = say("our-fault.saved", folder=str(folder))
    return say("our-fault", cause=cause_of(error)), f"{known}; {where}" if known else where


def save(error: BaseException) -> Path:
    """Saves traceback, command line, versions, and models of the command line if they are small.

    Returns:
        A new folder under the system's folder for temporary files.
    """
    folder = Path(tempfile.mkdtemp(prefix="onnxq-fault-"))
    lines = [
        f"command   {shlex.join(['onnxq', *sys.argv[1:]])}",
        *versions(),
    ]
    if isinstance(error, Fault) and error.reproducer:
        lines.append(f"see also  {error.reproducer}")
    trace = "".join(traceback.format_exception(error))
    (folder / "fault.txt").write_text("\n".join(lines) + "\n\n" + trace, "utf-8", "backslashreplace")
    for argument in sys.argv[1:]:
        is_model = argument.endswith(".onnx") and os.path.isfile(argument)
        if is_model and os.path.getsize(argument) <= _SMALL:
            shutil.copy(argument, folder)
    return folder
