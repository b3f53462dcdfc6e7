"""What happens before and around a verb: help, version, streams, signals, faults."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from command import SAMPLES, contents, environment

from onnxq.cli.screen import in_words

HEAVY = ("onnx", "onnxruntime", "onnx_graphsurgeon", "numpy", "tensorrt_rtx", "polygraphy", "PIL")
PYTHON = [sys.executable, "-c"]


@pytest.mark.parametrize("arguments", [["--help"], ["quantize", "--help"], ["--version"]])
def test_help_imports_nothing_heavy(arguments: list[str], tmp_path: Path) -> None:
    code = f"""
import sys
from onnxq.cli.app import main
sys.argv = ["onnxq", *{arguments!r}]
try:
    main()
except SystemExit as end:
    assert end.code == 0, end.code
print("imported:", *[name for name in {HEAVY!r} if name in sys.modules])
"""
    ran = subprocess.run(
        [*PYTHON, code], env=environment(tmp_path), capture_output=True, text=True, check=True
    )
    assert ran.stdout.splitlines()[-1] == "imported:"


def test_no_arguments_show_the_verbs(onnxq) -> None:
    ran = onnxq()
    assert ran.code == 0
    verbs = (
        "quantize",
        "sanitize",
        "check",
        "inspect",
        "analyze",
        "compare",
        "engine",
        "report",
        "statistics",
        "pieces",
        "rules",
    )
    for verb in verbs:
        assert f"│ {verb} " in ran.out


def test_json_is_all_of_stdout(folder: Path, onnxq) -> None:
    ran = onnxq("sanitize", "net.onnx", "--json")
    report = ran.json()
    assert ran.code == 0
    assert report == json.loads((folder / "net.clean.report.json").read_text("utf-8"))
    assert report["files"] == ["net.clean.onnx", "net.clean.report.json", "net.clean.report.html"]
    assert "net.onnx -> net.clean.onnx" in ran.err


@pytest.mark.skipif(sys.platform != "linux", reason="file names are text elsewhere")
def test_a_file_name_that_is_no_text(folder: Path, onnxq) -> None:
    name = os.fsdecode(b"caf\xe9.onnx")
    (folder / "net.onnx").rename(folder / name)
    ran = onnxq("sanitize", name, "-o", os.fsdecode(b"\xe9.onnx"), "--json")
    assert ran.code == 0, ran.err
    assert ran.json()["model"] == name


def test_json_of_an_error(onnxq) -> None:
    ran = onnxq("sanitize", "no.onnx", "--json")
    assert ran.code == 2
    assert ran.json() == {
        "kind": "error",
        "schema": 2,
        "error": {"message": "there is no model file 'no.onnx'", "hint": "check the path", "exit_code": 2},
    }
    assert ran.err.splitlines()[-2:] == ["error: there is no model file 'no.onnx'", "hint: check the path"]


def test_json_of_an_error_in_the_flags(onnxq) -> None:
    ran = onnxq("sanitize", "--json")
    assert ran.code == 2
    assert ran.json()["error"]["exit_code"] == 2


def test_quiet_says_nothing_and_works(folder: Path, onnxq) -> None:
    for arguments in (("-q", "sanitize", "net.onnx"), ("sanitize", "net.onnx", "--quiet")):
        ran = onnxq(*arguments)
        assert (ran.code, ran.out, ran.err) == (0, "", "")
        (folder / "net.clean.onnx").unlink()


def test_a_reader_that_has_seen_enough(folder: Path) -> None:
    """`onnxq ... | true`: every write fails, and nothing is said about it."""
    for flags in ([], ["--json"]):
        reader, writer = os.pipe()
        os.close(reader)
        command = [sys.executable, "-m", "onnxq", "inspect", "net.onnx", *flags]
        environ = environment(folder)
        with os.fdopen(writer, "wb") as out:
            ran = subprocess.run(
                command, cwd=folder, env=environ, stdout=out, stderr=subprocess.PIPE, check=False
            )
        assert ran.returncode == 0
        assert b"Traceback" not in ran.stderr
        assert b"rror" not in ran.stderr


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no /dev/full here")
@pytest.mark.parametrize("flags", [[], ["--json"]], ids=["prose", "json"])
def test_a_full_disk_under_standard_output(flags: list[str], folder: Path) -> None:
    command = [sys.executable, "-m", "onnxq", "inspect", "net.onnx", *flags]
    with open("/dev/full", "wb") as out:
        ran = subprocess.run(
            command, cwd=folder, env=environment(folder), stdout=out, stderr=subprocess.PIPE, check=False
        )
    assert ran.returncode == 2
    assert ran.stderr.endswith(
        b"error: cannot write to <stdout>: No space left on device\nhint: is the disk full?\n"
    )
    assert b"Traceback" not in ran.stderr


def test_an_interrupted_import_is_an_interruption(folder: Path) -> None:
    """A module that a signal reaches while it loads raises ImportError (onnxruntime's does)."""
    code = """
import sys
import onnxq.pipeline.repairing
from onnxq.cli.app import main
from onnxq.cli.screen import in_words
from onnxq.cli.verb import Interrupted

def load(*arguments, **options):
    try:
        raise Interrupted
    except Interrupted as error:
        raise ImportError("initialization failed") from error

onnxq.pipeline.repairing.sanitize = load
sys.argv = ["onnxq", "-q", "sanitize", "net.onnx"]
main()
"""
    ran = subprocess.run(
        [*PYTHON, code], cwd=folder, env=environment(folder), capture_output=True, text=True, check=False
    )
    assert (ran.returncode, ran.stderr) == (130, "error: interrupted\n")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["ctrl-c", "terminate"])
def test_an_interrupted_run_leaves_nothing(number: signal.Signals, tmp_path: Path) -> None:
    # many samples, a hole in a file: half a minute of calibration
    many = np.lib.format.open_memmap(
        tmp_path / "many.npy", mode="w+", dtype=np.float32, shape=(300_000, 1, 8, 8)
    )
    del many
    command = [
        sys.executable, "-m", "onnxq", "quantize", SAMPLES / "digits/digits.onnx",
        "--calib", "many.npy", "--samples", "300000",
    ]  # fmt: skip
    before = os.listdir(tmp_path)
    run = subprocess.Popen(
        command, cwd=tmp_path, env=environment(tmp_path), text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    try:
        assert run.stderr is not None
        for line in run.stderr:
            if line == f"onnxq: {in_words('calibrate')}\n":
                break
        time.sleep(0.3)
        run.send_signal(number)
        out, err = run.communicate(timeout=30)
    finally:
        run.kill()
        run.wait()
    assert run.returncode == 130
    assert out == ""
    assert err == "error: interrupted\n"
    assert os.listdir(tmp_path) == before
    assert not list(tmp_path.with_name(f"{tmp_path.name}.tmp").glob("*onnxq*"))


def test_a_fault_saves_what_reproduces_it(folder: Path) -> None:
    code = """
import sys
import onnxq.pipeline.repairing
from onnxq.cli.app import main

def fail(*arguments, **options):
    raise ZeroDivisionError("in the middle")

onnxq.pipeline.repairing.sanitize = fail
sys.argv = ["onnxq", "sanitize", "net.onnx", "--json"]
main()
"""
    before = contents(folder)
    ran = subprocess.run(
        [*PYTHON, code], cwd=folder, env=environment(folder), capture_output=True, text=True, check=False
    )
    assert ran.returncode == 3
    assert "ZeroDivisionError: in the middle" in ran.stderr
    assert "Traceback" not in ran.stderr
    assert json.loads(ran.stdout)["error"]["exit_code"] == 3
    (saved,) = folder.with_name(f"{folder.name}.tmp").glob("onnxq-fault-*")
    assert str(saved) in ran.stderr
    assert (saved / "net.onnx").read_bytes() == (folder / "net.onnx").read_bytes()
    text = (saved / "fault.txt").read_text("utf-8")
    for part in (
        "onnxq sanitize net.onnx --json",
        "ZeroDivisionError: in the middle",
        "Traceback",
        "onnxruntime ",
    ):
        assert part in text
    assert contents(folder) == before
