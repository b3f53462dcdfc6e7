"""`onnxq check` of several models, for hooks: `python -m onnxq.cli.each_model [FLAGS --] PATH...`.

A path may be a glob. The exit code is the worst one. What stands in front of "--" are flags of `check`, and
`--into DIR`: then each model's standard output is a file there.
"""

from __future__ import annotations

import glob
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from onnxq.base import children


def main(words: Sequence[str]) -> int:
    """Checks the models one after another; the worst exit code."""
    place = words.index("--") if "--" in words else -1
    flags, patterns = list(words[: max(place, 0)]), words[place + 1 :]
    folder = None
    if "--into" in flags:
        at = flags.index("--into")
        if at + 1 == len(flags):
            print("error: --into names no folder\nhint: give --into DIR in front of --", file=sys.stderr)
            return 2
        folder = Path(flags[at + 1])
        folder.mkdir(parents=True, exist_ok=True)
        del flags[at : at + 2]
    models = [found for one in patterns for found in _found(one)]
    if not models:
        print("error: no model is named\nhint: give paths or globs of .onnx files", file=sys.stderr)
        return 2
    return max(_check(model, flags, folder, number) for number, model in enumerate(dict.fromkeys(models)))


def _found(path: str) -> list[str]:
    """A path that is there as it is, for a name may have brackets; else what a glob matches."""
    return [path] if os.path.exists(path) else sorted(glob.glob(path, recursive=True)) or [path]


def _check(model: str, flags: Sequence[str], folder: Path | None, number: int) -> int:
    command = [*children.command("onnxq"), "check", *flags, "--", model]
    if folder is None:
        return _code(subprocess.run(command, check=False))
    log = folder / f"{number}.{Path(model).stem}.sarif"
    with log.open("wb") as file:
        code = _code(subprocess.run(command, check=False, stdout=file))
    if not log.stat().st_size:  # nothing was found out: an empty file is no log
        log.unlink()
    return code


def _code(ran: subprocess.CompletedProcess[bytes]) -> int:
    """An exit code as shells have it: 128 and the signal that ended the process."""
    return ran.returncode if ran.returncode >= 0 else 128 - ran.returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
