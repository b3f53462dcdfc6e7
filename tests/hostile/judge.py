"""Whether a hostile construct ends as it should."""

from __future__ import annotations

import os
import shlex
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from .bounded import Ended, bounded, run
from .models import FILE, Hostile

_RUNTIME_SECONDS = 20.0
_TOLD = ("onnxruntime", "Do not ship", "Not taken")


@dataclass(frozen=True)
class Verdict:
    """How one command line ended on one of them.

    Attributes:
        name: the construct.
        line: the command line.
        code: the exit code.
        seconds: how long it took.
        peak: the most bytes that it held.
        wrong: what should not be, or "".
        said: what it wrote.
    """

    name: str
    line: str
    code: int
    seconds: float
    peak: int
    wrong: str
    said: str

    def row(self) -> dict[str, object]:
        return asdict(self)


def warm() -> None:
    """Imports what every run needs, before runs are forked from this process."""
    import gc
    import importlib
    import pkgutil

    import onnxq
    from onnxq.cli import app  # noqa: F401

    for module in pkgutil.walk_packages(onnxq.__path__, "onnxq."):
        if not module.name.endswith(("_child", "__main__")):
            importlib.import_module(module.name)
    gc.collect()
    gc.freeze()  # else the first collection of each run writes to all that it shares with this process


def judged(one: Hostile) -> Iterator[Verdict]:
    """Runs each of its command lines in a folder of its own."""
    for line in one.verbs:
        folder = Path(tempfile.mkdtemp())
        try:
            one.write(folder)
            ended = run(folder, *shlex.split(line))
            wrong = _wrong(one, ended) or ("" if line.startswith("inspect") else untold(folder, ended))
        finally:
            subprocess.run(
                ["rm", "-rf", folder], check=True
            )  # Python's own is recursive: folders may be 1,000 deep
        yield Verdict(one.name, line[:80], ended.code, ended.seconds, ended.peak, wrong, ended.said[-1500:])


def _wrong(one: Hostile, ended: Ended) -> str:
    if ended.fault:
        return ended.fault
    if ended.code not in one.codes:
        return f"exit {ended.code}, not {' or '.join(map(str, one.codes))}"
    if ended.code == 2 and one.says and not any(words in ended.said for words in one.says):
        return f"it does not say {' or '.join(map(repr, one.says))}"
    if ended.code == 2 and "error:" not in ended.err:
        return "it does not say what is wrong"
    return ""


def untold(folder: Path, ended: Ended) -> str:
    """Whether onnxruntime refuses the model of a folder, and exit code 0 says nothing of it."""
    if ended.code != 0 or any(words in ended.said for words in _TOLD) or not os.path.isfile(folder / FILE):
        return ""
    refused = runtime_refuses(folder)
    # ONNX allows nodes of one name; what is written has others
    return f"untold: {refused}" if refused and "two nodes with same node name" not in refused else ""


def runtime_refuses(folder: Path) -> str:
    """Why onnxruntime does not load the model of a folder, or ""."""

    def load() -> None:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        options.log_severity_level = 4
        try:
            onnxruntime.InferenceSession(FILE, options, providers=["CPUExecutionProvider"])
        except Exception as error:
            print(str(error).splitlines()[0])

    ended = bounded(load, folder, seconds=_RUNTIME_SECONDS, memory=8 << 30)
    return f"onnxruntime {ended.fault}" if ended.code else ended.out.strip()
