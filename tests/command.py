"""The command, run as users run it: in a process of its own, or as if it had one."""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import logging
import os
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any
from unittest import mock

import numpy as np
import onnx
import onnx.parser
import pytest

from onnxq.base import interrupts
from onnxq.cli import app

ROOT = Path(__file__).resolve().parents[1]
SAMPLES = ROOT / "sample_models"

# A layer of 16 channels, so that there is something to quantize. `w` and `b` are added by `net`.
NET = """<ir_version: 8, opset_import: ["" : 17]>
    net (float[N, 32, 8] x) => (float[N, 32, 16] y) {
        [product] a = MatMul (x, w)  [scale] s = Mul (a, b)  [relu] y = Relu (s) }"""


TWO_LAYERS = """<ir_version: 8, opset_import: ["" : 17]>
    net (float[N, 3, 8, 8] x) => (float[N, 16, 8, 8] y) {
        [c1] a = Conv <pads = [1, 1, 1, 1]> (x, w1)  [r1] b = Relu (a)
        [c2] y = Conv <pads = [1, 1, 1, 1]> (b, w2) }"""
OF_TWO_LAYERS = {"w1": (16, 3, 3, 3), "w2": (16, 16, 3, 3)}


@dataclass(frozen=True)
class Ran:
    """A finished run; `answered` is its exit code where that of `made` is another one."""

    code: int
    out: str
    err: str
    answered: int = field(default=0, compare=False)

    def json(self) -> Any:
        return json.loads(self.out)


def made(arguments: Sequence[object], code: int, said: str) -> int:
    """The exit code, 0 of a model that was made, and whose answer is "do not ship it".

    Most tests are about something else than how near their little nets are. With a goal, with flags of exit
    codes, and where what is printed has another answer, the code is what it is.
    """
    words = [str(word) for word in arguments]
    asked = any(word.startswith(("--min-", "--max-drop", "--strict")) for word in words)
    is_answer = not said or said.startswith("Do not ship it") or '"answer": "do-not-ship"' in said
    return 0 if code == 1 and "quantize" in words[:1] and not asked and is_answer else code


def environment(folder: Path, columns: int | None = 80) -> dict[str, str]:
    own = {"PYTHONPATH": str(ROOT), "NO_COLOR": "1", "TERM": "dumb"}
    own |= {} if columns is None else {"COLUMNS": str(columns)}
    scratch = folder.parent / f"{folder.name}.tmp"
    scratch.mkdir(exist_ok=True)
    inherited = {name: value for name, value in os.environ.items() if name != "COLUMNS"}
    return inherited | own | {"TMPDIR": str(scratch)}


def run_alone(
    folder: Path, *arguments: object, columns: int | None = 80, cores: set[int] | None = None
) -> Ran:
    """Runs `onnxq ARGUMENTS` as users do: in a process of its own, which takes a second more.

    Args:
        folder: where.
        arguments: the command line.
        columns: those that COLUMNS states, None for none.
        cores: the processor's cores that it may use, None for all.
    """
    done = subprocess.run(
        [sys.executable, "-m", "onnxq", *map(str, arguments)],
        cwd=folder,
        env=environment(folder, columns),
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=120,
        check=False,
        preexec_fn=None if cores is None else lambda: os.sched_setaffinity(0, cores),
    )
    return Ran(made(arguments, done.returncode, done.stdout), done.stdout, done.stderr, done.returncode)


def run(folder: Path, *arguments: object, columns: int | None = 80) -> Ran:
    """Runs `onnxq ARGUMENTS` in this process, with all that one of its own would have of its own.

    That is its folder, environment, streams (also for what is written beneath Python), warnings and loggers.
    Left out is what this process would keep: handlers of signals, the heap's settings, and how it ends.
    """
    with (
        tempfile.TemporaryFile() as out,
        tempfile.TemporaryFile() as err,
        mock.patch.dict(os.environ, environment(folder, columns), clear=True),
        pytest.MonkeyPatch.context() as patch,
    ):
        with _written(1, "stdout", out), _written(2, "stderr", err), _fresh_warnings():
            patch.chdir(folder)
            patch.setattr(sys, "argv", ["onnxq", *map(str, arguments)])
            patch.setattr(tempfile, "tempdir", None)  # of the environment before
            patch.setattr(logging.root, "handlers", [])
            patch.setattr(interrupts, "end_on_signals", lambda *arguments, **options: None)
            patch.setattr(interrupts, "end_now", lambda: sys.exit(interrupts.EXIT_CODE))
            patch.setattr(app, "steady_heap", lambda: None)
            with pytest.raises(SystemExit) as end:
                app.main()
        code = int(end.value.code or 0)
        said = _text(out)
        return Ran(made(arguments, code, said), said, _text(err), code)


@contextlib.contextmanager
def _written(number: int, name: str, file: IO[bytes]) -> Iterator[None]:
    """Lets a file have what is written to a stream, by Python or not."""
    before, kept = getattr(sys, name), os.dup(number)
    before.flush()
    os.dup2(file.fileno(), number)
    raw = io.FileIO(number, "w", closefd=False)
    raw.name = f"<{name}>"
    setattr(sys, name, io.TextIOWrapper(raw, "utf-8", write_through=True))
    try:
        yield
    finally:
        getattr(sys, name).flush()
        setattr(sys, name, before)
        os.dup2(kept, number)
        os.close(kept)


@contextlib.contextmanager
def _fresh_warnings() -> Iterator[None]:
    """Python's warnings are printed, those that it does not hide from users."""
    hidden = (DeprecationWarning, PendingDeprecationWarning, ImportWarning, ResourceWarning)
    with warnings.catch_warnings():
        warnings.resetwarnings()
        for category in hidden:
            warnings.simplefilter("ignore", category)
        warnings.showwarning = lambda *said, **more: print(warnings.formatwarning(*said[:4]), file=sys.stderr)
        yield


def _text(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode("utf-8")


def net() -> onnx.ModelProto:
    model = onnx.parser.parse_model(NET)
    random = np.random.default_rng(0)
    for name, shape in (("w", (8, 16)), ("b", (16,))):
        values = random.standard_normal(shape).astype(np.float32)
        if name == "b":  # no channel has a scale of its own
            values = np.copysign(np.maximum(np.abs(values), np.float32(0.3)), values)
        model.graph.initializer.append(onnx.numpy_helper.from_array(values, name))
    return model


def weighted(text: str, **shapes: tuple[int, ...]) -> onnx.ModelProto:
    """A model with weights of these shapes, of normal random numbers."""
    model, random = onnx.parser.parse_model(text), np.random.default_rng(0)
    for name, shape in shapes.items():
        values = random.standard_normal(shape).astype(np.float32)
        model.graph.initializer.append(onnx.numpy_helper.from_array(values, name))
    return model


def contents(folder: Path) -> dict[str, str]:
    """Every file of a folder with the hash of its bytes."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }
