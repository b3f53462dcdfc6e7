"""What is final is saved before what only describes it: whatever ends a run there, the model is there."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import onnx
import pytest
from command import Ran, environment, made
from said import is_said

import onnxq
from onnxq.cli.app import app
from onnxq.cli.verb import Interrupted
from onnxq.emit.files import sha256
from onnxq.pipeline import comparing, starting, written_page

ASK = ("quantize", "net.onnx", "--calib", "data.npz", "--no-engine", "--method", "minmax",
       "--repair", "none", "-o", "q.onnx")  # fmt: skip
WRITTEN = "q.onnx and its report are written; missing: "
PAGE = "the page, which onnxq report q.report.json writes"
BOTH = f"{WRITTEN}the errors of layers and {PAGE}"


@pytest.fixture
def here(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Callable[..., Ran]:
    """Runs a command line in this process."""

    def run(*arguments: str) -> Ran:
        capsys.readouterr()
        code = app(arguments, prog_name="onnxq", standalone_mode=False) or 0
        out, err = capsys.readouterr()
        return Ran(made(arguments, code, out), out, err)

    return run


def ending(error: BaseException) -> Callable[..., Any]:
    def end(*args: object, **keywords: object) -> None:
        raise error

    return end


def report_of(folder: Path) -> dict[str, Any]:
    """The report, of the model that is there."""
    onnx.load(folder / "q.onnx")
    report: dict[str, Any] = json.loads((folder / "q.report.json").read_text())
    assert report["sha256"] == sha256(folder / "q.onnx")
    assert all((folder / file).is_file() for file in report["files"])
    return report


def files_of(folder: Path) -> list[str]:
    return sorted(name for name in os.listdir(folder) if name not in ("net.onnx", "data.npz"))


def test_an_interrupt_in_the_errors_of_layers(
    here: Path, run: Callable[..., Ran], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The page of the run before is gone: it is not of this model. What the screen advises writes it."""
    assert run(*ASK).code == 0
    assert files_of(here) == ["q.onnx", "q.report.html", "q.report.json"]
    with monkeypatch.context() as patched:
        patched.setattr(comparing, "layer_errors", ending(Interrupted()))
        ended = run(*ASK)
    assert (ended.code, ended.err.splitlines()[-2:]) == (130, ["error: interrupted", f"hint: {BOTH}"])
    assert files_of(here) == ["q.onnx", "q.report.json"]
    report = report_of(here)
    assert report["layer_errors"]["why_not"] == "the run ended before"
    assert report["accuracy"]
    assert report["commands"]
    assert run("report", "q.report.json").code == 0
    assert is_said(Path("q.report.html").read_text(), "layer-errors.not", why="the run ended before")


def test_an_interrupt_in_the_comparison(
    here: Path, run: Callable[..., Ran], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The model is what it will be, so it is there; its report says what nobody has measured."""
    assert run(*ASK).code == 0
    whole = (here / "q.onnx").read_bytes()
    with monkeypatch.context() as patched:
        patched.setattr("onnxq.pipeline.pursuit.verify", ending(Interrupted()))
        ended = run(*ASK)
    hint = f"hint: {WRITTEN}how near its outputs are, the errors of layers and {PAGE}"
    assert (ended.code, ended.err.splitlines()[-2:]) == (130, ["error: interrupted", hint])
    assert files_of(here) == ["q.onnx", "q.report.json"]
    assert (here / "q.onnx").read_bytes() == whole
    report = report_of(here)
    assert report["accuracy"] == []
    assert report["notes"] == ["the outputs were not compared: the run ended before"]
    assert report["layer_errors"]["why_not"] == "the run ended before"
    assert report["advice"]["answer"] == "not-known"
    assert run("report", "q.report.json").code == 0
    assert run(*ASK).code == 0
    assert report_of(here)["accuracy"]
    assert report_of(here)["notes"] == []


def test_an_interrupt_in_the_page(
    here: Path, run: Callable[..., Ran], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(written_page, "html_of", ending(Interrupted()))
    ended = run(*ASK, "--json")
    said = {"message": "interrupted", "hint": WRITTEN + PAGE, "exit_code": 130}
    assert (ended.code, ended.json()["error"]) == (130, said)
    assert files_of(here) == ["q.onnx", "q.report.json"]
    assert report_of(here)["layer_errors"]["rows"]


def test_without_a_page_none_is_missing(
    here: Path, run: Callable[..., Ran], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(comparing, "layer_errors", ending(Interrupted()))
    (here / "onnxq.toml").write_text("[report]\nno_page = true\n")
    assert run(*ASK).err.splitlines()[-1] == f"hint: {WRITTEN}the errors of layers"


def test_a_run_that_ends_before_says_nothing_of_files(
    here: Path, run: Callable[..., Ran], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor does one behind a run that was ended later, in the same process."""
    monkeypatch.setattr(comparing, "layer_errors", ending(Interrupted()))
    assert run(*ASK).code == 130
    monkeypatch.setattr(starting, "Ranging", ending(Interrupted()))
    assert run(*ASK).err.splitlines()[-1] == "error: interrupted"


def test_a_fault_in_either_is_told_and_costs_nothing_else(
    here: Path, run: Callable[..., Ran], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("onnxq.pipeline.layer_errors.beside", ending(ZeroDivisionError("planted")))
    monkeypatch.setattr(written_page, "html_of", ending(KeyError("as well")))
    ended = run(*ASK)
    assert ended.code == 0
    why = "it ends in a fault of onnxq (ZeroDivisionError: planted)"
    assert f"note: the errors of layers were not measured: {why}\n" in ended.err
    assert "note: the page is not written: KeyError: 'as well'\n" in ended.err
    assert files_of(here) == ["q.onnx", "q.report.json"]
    assert report_of(here)["layer_errors"]["why_not"] == why


def test_a_fault_that_ends_the_run_says_what_is_there(
    here: Path, run: Callable[..., Ran], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(comparing, "layer_errors", ending(onnxq.UserError("no", hint="do")))
    ended = run(*ASK)
    assert (ended.code, ended.err.splitlines()[-2:]) == (2, ["error: no", f"hint: do; {BOTH}"])
    assert report_of(here)["plan"]


def test_who_is_given_the_result_has_all_but_its_errors_of_layers(here: Path) -> None:
    """In Python: `ready` saves what is final; what is returned has them, and is saved as ever."""
    seen = []

    def ready(result: onnxq.Result) -> None:
        seen.append(result.report["layer_errors"]["why_not"])
        result.save("early.onnx", page=False)

    quick: dict[str, Any] = {"method": "minmax", "repair": "none", "compile": False, "prove": "never"}
    result = onnxq.quantize("net.onnx", "data.npz", ready=ready, **quick)
    assert seen == ["the run ended before"]
    assert result.report["layer_errors"]["rows"]
    saved = result.save("q.onnx")
    assert [path.name for path in saved] == ["q.onnx", "q.report.html", "q.report.json"]
    assert report_of(here)["files"] == ["q.onnx", "q.report.json", "q.report.html"]
    assert Path("early.onnx").read_bytes() == Path("q.onnx").read_bytes()


STOPPED = """
import os, signal, sys, time
from onnxq.cli.app import main
from onnxq.pipeline import comparing
def layer_errors(*args):
    try:
        os.kill(os.getpid(), signal.{name})
        time.sleep(60)
    finally:
        time.sleep({deaf})
comparing.layer_errors = layer_errors
sys.argv = ["onnxq", *{ask!r}]
main()
"""


@pytest.mark.skipif(sys.platform == "win32", reason="sends signals")
@pytest.mark.parametrize(("name", "deaf"), [("SIGTERM", 0), ("SIGINT", 60)], ids=["listening", "deaf"])
def test_a_signal(here: Path, name: str, deaf: int) -> None:
    """Also where native code does not listen, and another thread ends the process."""
    assert hasattr(signal, name)
    code = STOPPED.format(name=name, deaf=deaf, ask=[*ASK, "-q"])
    ran = subprocess.run(
        [sys.executable, "-c", code], env=environment(here), capture_output=True, text=True, timeout=60,
        check=False,
    )  # fmt: skip
    assert (ran.returncode, ran.stderr) == (130, f"error: interrupted\nhint: {BOTH}\n")
    assert files_of(here) == ["q.onnx", "q.report.json"]
    assert report_of(here)["accuracy"]


SLOW_END = """
import os, signal, sys, time
from onnxq.cli import verb
from onnxq.cli.app import main
from onnxq.pipeline import comparing
said = verb.report_error
def report_error(*args):
    code = said(*args)
    time.sleep(60)
    return code
verb.report_error = report_error
comparing.layer_errors = lambda *args: os.kill(os.getpid(), signal.SIGTERM) or time.sleep(60)
sys.argv = ["onnxq", *{ask!r}]
main()
"""


@pytest.mark.skipif(sys.platform == "win32", reason="sends signals")
def test_an_interrupt_is_said_once(here: Path) -> None:
    """Of a process that takes longer to end than it may: Python takes large graphs apart for seconds."""
    code = SLOW_END.format(ask=[*ASK, "-q"])
    ran = subprocess.run(
        [sys.executable, "-c", code], env=environment(here), capture_output=True, text=True, timeout=60,
        check=False,
    )  # fmt: skip
    assert (ran.returncode, ran.stderr) == (130, f"error: interrupted\nhint: {BOTH}\n")
