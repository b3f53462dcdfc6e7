"""The program that opens an onnxruntime session on trial, so that a native crash ends only it.

    python -m onnxq.run.trial_child FOLDER

reads FOLDER/request.json ({"settings": see `onnxq.run.opening.SessionSettings`, "model": a path, or null for
FOLDER/model). It writes FOLDER/begun, and FOLDER/opened unless opening ends the process: an error is found
again by who opens the session in earnest.
`onnxq.run.trial` is the other side.
"""

from __future__ import annotations

import contextlib
import json
import sys
from pathlib import Path

from onnxq.run.opening import SessionSettings


def main(folder: Path) -> None:
    """Does what the request says."""
    with contextlib.suppress(ImportError, ValueError, OSError):  # no core file of a crash; not on Windows
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    request = json.loads((folder / "request.json").read_text(encoding="utf-8"))
    settings = SessionSettings(**request["settings"])
    (folder / "begun").touch()
    with contextlib.suppress(Exception):  # as in `SessionSettings.open`
        settings.open(request["model"] or (folder / "model").read_bytes())
    (folder / "opened").touch()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
