"""Documents of the user's come in by one door: no pipe is waited for, no device is read for ever."""

from __future__ import annotations

import ast
import io
import os
import zipfile
from pathlib import Path

import numpy as np
import onnx
import onnx.parser
import pytest
from command import run, run_alone
from trees import FILES, PACKAGE, TREES

from onnxq.base import door

NET = """<ir_version: 8, opset_import: ["" : 17]>
    g (float[4, 16] x) => (float[4, 16] y) { [m] y = Relu (x) }"""

posix = pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no pipes with names here")


@pytest.fixture
def place(tmp_path: Path) -> Path:
    onnx.save(onnx.parser.parse_model(NET), tmp_path / "net.onnx")
    np.savez(tmp_path / "data.npz", x=np.zeros((8, 4, 16), np.float32))
    if hasattr(os, "mkfifo"):
        os.mkfifo(tmp_path / "pipe")
    return tmp_path


@posix
@pytest.mark.parametrize("file", ["pipe", "/dev/zero"])
@pytest.mark.parametrize(
    "line",
    [
        "quantize net.onnx --calib data.npz --no-engine --plan {}",
        "quantize net.onnx --no-engine --stats {}",
        "quantize net.onnx --calib data.npz --no-engine --config {}",
        "quantize net.onnx --calib data.npz --no-engine --target {}.toml",
        "quantize net.onnx --calib data.npz --no-engine --labels {} --task classify:scores=y",
        "sensitivity net.onnx --calib data.npz --config settings",
        "engine net.onnx --layer-info {}",
        "report {} {}",
        "report {}",
        "quantize {} --calib data.npz --no-engine",
        "quantize net.onnx --calib {} --no-engine",
    ],
)
def test_what_is_no_file_is_refused_at_once(line: str, file: str, place: Path) -> None:
    (place / "settings").write_text(f'[goal]\ncosts = "{file}"\n')
    if "toml" in line:
        (place / "pipe").rename(place / "pipe.toml")
    ran = run(place, *line.format(*[file] * line.count("{}")).split())
    assert ran.code == 2, ran.err
    said = (
        "it is a pipe, and no file", "it is a device, and no file", "is not a file", "there is no data file",
        "No such file",  # /dev/zero.toml
    )  # fmt: skip
    assert any(text in " ".join(ran.err.split()) for text in said), ran.err
    assert "Traceback" not in ran.err


def test_an_output_without_a_name_is_refused(place: Path) -> None:
    ran = run(place, "quantize", "net.onnx", "--calib", "data.npz", "--no-engine", "-o", "")
    assert ran.code == 2
    assert "no name" in ran.err


def test_what_is_too_large_is_said_with_what_raises_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "ten").write_bytes(b"0123456789")
    monkeypatch.setenv(door.VARIABLE, "9")
    with pytest.raises(OSError, match=door.VARIABLE):
        door.content(tmp_path / "ten")
    assert door.begins(tmp_path / "ten", 4) == b"0123"
    monkeypatch.setenv(door.VARIABLE, "10")
    assert door.content(tmp_path / "ten") == b"0123456789"
    monkeypatch.delenv(door.VARIABLE)
    assert door.largest() == door.LARGEST


def test_an_archive_that_unpacks_to_more_is_refused_before_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a.npy", bytes(1 << 20))
        archive.writestr("b.npy", bytes(1 << 20))
    assert len(buffer.getvalue()) < 10_000
    door.check_archive(buffer.getvalue())
    monkeypatch.setenv(door.VARIABLE, str((1 << 21) - 1))
    with pytest.raises(ValueError, match="2,097,152 bytes"):
        door.check_archive(buffer.getvalue())


# Who reads a file by itself, and why it may.
READS = {
    "base/catalogue/__init__.py": "of the package",
    "base/executors.py": "what this run wrote for its tasks",
    "base/process.py": "the system's own",
    "calib/shards.py": "what this run wrote for its workers",
    "data/paths.py": "images, whose files were found by looking for files",
    "graph/load.py": "a model: it asks whether it is a file",
    "emit/measure.py": "it runs on the device, without onnxq",
    "inspection/bundling.py": "of the package",
    "noise/measure.py": "what this run wrote for its workers",
    "page/making.py": "of the package",
    "quant/layer_settings.py": "a file that is to be written over, which is one",
    "run/trial_child.py": "what this run wrote for its child",
    "run/trt.py": "what its child wrote",
    "run/trt_child.py": "what this run wrote for its child",
    "targets/__init__.py": "of the package",
}


def test_who_reads_files_by_themselves() -> None:
    found = {
        path.relative_to(PACKAGE).as_posix()
        for path in FILES
        for node in ast.walk(TREES[path])
        if isinstance(node, ast.Attribute) and node.attr in ("read_text", "read_bytes")
        if ast.unparse(node) != "lists.read_text"  # by the door
    }
    assert found == set(READS)


def test_python_of_the_folder_is_not_run(place: Path) -> None:
    for name in ("onnx", "numpy", "typer", "json", "tomllib"):
        (place / f"{name}.py").write_text(f"raise SystemExit('{name}.py was run')")
    ran = run_alone(place, "inspect", "net.onnx")
    assert ran.code == 0, ran.err
    assert "net.onnx" in ran.out
