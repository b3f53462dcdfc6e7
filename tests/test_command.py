"""A command line that runs in the tests' own process has all that is a process's own, and leaves nothing."""

from __future__ import annotations

import logging
import os
import signal
import sys
import tempfile
import warnings
from pathlib import Path

import pytest
from command import Ran, run

from onnxq.cli import app


def state() -> tuple[object, ...]:
    handlers = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    own = (os.getcwd(), dict(os.environ), list(sys.argv), tempfile.gettempdir(), list(logging.root.handlers))
    files = [(os.fstat(number).st_dev, os.fstat(number).st_ino) for number in (1, 2)]
    return (*own, sys.stdout, sys.stderr, files, handlers, warnings.showwarning)


@pytest.mark.parametrize("arguments", [["--version"], ["sanitize", "no.onnx"], ["sanitize"]])
def test_the_process_is_as_it_was(arguments: list[str], tmp_path: Path) -> None:
    before = state()
    assert run(tmp_path, *arguments).code == (0 if arguments == ["--version"] else 2)
    assert state() == before


def test_what_is_heard_and_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def main() -> None:
        print(Path.cwd() == tmp_path, sys.argv[1:], os.environ.get("COLUMNS"), sys.stdout.name)
        print(Path(tempfile.mkdtemp()).parent == tmp_path.with_name(f"{tmp_path.name}.tmp"))
        os.write(1, "beneath \u00e9\n".encode())
        os.write(2, b"of a library\n")
        warnings.warn("of Python", stacklevel=1)
        warnings.warn("hidden", DeprecationWarning, stacklevel=1)
        logging.getLogger("somebody").warning("of a logger")
        os.environ["LEFT"] = "behind"
        sys.exit(3)

    monkeypatch.setattr(app, "main", main)
    ran = run(tmp_path, "a", 1, columns=None)
    assert ran == Ran(3, "True ['a', '1'] None <stdout>\nTrue\nbeneath \u00e9\n", ran.err)
    assert ran.err.startswith("of a library\n")
    assert "UserWarning: of Python" in ran.err
    assert "hidden" not in ran.err
    assert ran.err.endswith("of a logger\n")
    assert "LEFT" not in os.environ
