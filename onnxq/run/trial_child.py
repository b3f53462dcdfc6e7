"""The program that opens onnxruntime sessions on trial, so that a native crash ends only it.

    python -m onnxq.run.trial_child

reads the path of a folder from each line of its input. FOLDER/request.json is {"settings": see
`onnxq.run.opening.SessionSettings`, "model": a path, or null for FOLDER/model, "memory": the bytes that it
may ask for, or null}. It writes FOLDER/begun, and
FOLDER/opened unless opening ends the process: an error is found again by who opens the session in earnest.
Then it prints an empty line. It ends with its input.
`onnxq.run.trial` is the other side.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
from pathlib import Path

from onnxq.base.memory_bound import memory_bound, unbounded
from onnxq.run.opening import SessionSettings


def main() -> None:
    """Does what the requests say."""
    with contextlib.suppress(ImportError, ValueError, OSError):  # no core file of a crash; not on Windows
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    unbounded()  # it lasts longer than the run that started it
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what libraries print is no answer
    for line in sys.stdin:
        _opened(Path(json.loads(line)))
        print(file=answers, flush=True)


def _opened(folder: Path) -> None:
    request = json.loads((folder / "request.json").read_text(encoding="utf-8"))
    settings = SessionSettings(**request["settings"])
    (folder / "begun").touch()
    with contextlib.suppress(Exception), memory_bound(request["memory"]):  # as in `SessionSettings.open`
        settings.open(request["model"] or (folder / "model").read_bytes())
    (folder / "opened").touch()


if __name__ == "__main__":
    main()
