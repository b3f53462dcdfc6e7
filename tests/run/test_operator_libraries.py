"""Libraries of custom operators: found where the user says, and tried where a crash costs nothing."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import onnx
import onnx.parser
import pytest

import onnxq
from onnxq.base.errors import UserError
from onnxq.run import ort, trial
from onnxq.run.opening import SessionSettings

NET = onnx.parser.parse_model("""<ir_version: 8, opset_import: ["" : 17]>
    g (float[2] x) => (float[2] y) { y = Neg (x) }""")
COMPILER = shutil.which("cc")
pytestmark = pytest.mark.skipif(COMPILER is None, reason="there is no C compiler")


def library(folder: Path, body: str) -> str:
    """A library with the function that onnxruntime calls; its name without a folder."""
    (folder / "ops.c").write_text(f"void *RegisterCustomOps(void *options, const void *api) {{ {body} }}\n")
    assert COMPILER is not None
    subprocess.run([COMPILER, "-shared", "-fPIC", "-o", "libops.so", "ops.c"], cwd=folder, check=True)
    return "libops.so"


def test_one_beside_is_named_without_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    name = library(tmp_path, "return 0;")
    assert onnxq.sanitize(NET, ort_ops=[name]).report["whole_model"] == []
    with ort.custom_ops([name]):
        assert ort.runs_as().ort_ops == (str(tmp_path / name),)


def test_no_process_that_has_loaded_one_opens_what_follows(tmp_path: Path) -> None:
    """A library cannot be unloaded, and may disturb what others register."""
    name = str(tmp_path / library(tmp_path, "return 0;"))
    source = NET.SerializeToString()
    trial.try_in_child(source, SessionSettings())
    assert trial._waiting is not None
    trial.try_in_child(source, SessionSettings(libraries=(name,)))
    assert trial._waiting is None


def test_one_that_crashes_ends_a_process_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    name = library(tmp_path, "*(volatile int *)0 = 1; return 0;")
    with pytest.raises(UserError, match=r"does not load .*'libops.so': it crashes: SIGSEGV"):
        onnxq.sanitize(NET, ort_ops=[name])


@pytest.mark.parametrize("code", [0, 1, 3])
def test_one_that_exits_ends_a_process_of_its_own(
    code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    name = library(tmp_path, f"extern void exit(int); exit({code}); return 0;")
    with pytest.raises(UserError, match=rf"'libops.so': it ends the process, with exit code {code}$"):
        onnxq.sanitize(NET, ort_ops=[name])
