"""`onnxq check` of several models, for hooks: `python -m onnxq.cli.each_model [FLAGS --] PATH...`.

A path may be a glob. The exit code is the worst one. What stands in front of "--" are flags of `check`, and
`--into DIR`: then each model's standard output is a file there.
"""

from __future__ import annotations

import glob
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path


def main(words: Sequence[str]) -> int:
    """Checks the models one after another; the worst exit code."""
    place = words.index("--") if "--" in words else -1
    flags, patterns = list(words[: max(place, 0)]), words[place + 1 :]
    folder = None
    if "--into" in flags:
        at = flags.index("--into")
        folder = Path(flags[at + 1])
        folder.mkdir(parents=True, exist_ok=True)
        del flags[at : at + 2]
    models = [found for one in patterns for found in (sorted(glob.glob(one, recursive=True)) or [one])]
    if not models:
        print("error: no model is named\nhint: give paths or globs of .onnx files", file=sys.stderr)
        return 2
    return max(_check(model, flags, folder, number) for number, model in enumerate(dict.fromkeys(models)))


def _check(model: str, flags: Sequence[str], folder: Path | None, number: int) -> int:
    command = [sys.executable, "-m", "onnxq", "check", model, *flags]
    if folder is None:
        return subprocess.run(command, check=False).returncode
    with (folder / f"{number}.{Path(model).stem}.sarif").open("wb") as file:
        return subprocess.run(command, check=False, stdout=file).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
