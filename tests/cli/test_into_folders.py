"""What -o names a folder is written into it, under the name that it has without -o."""

from __future__ import annotations

import shlex
from pathlib import Path

import numpy as np
import onnx
import onnx.parser
import pytest
from command import run

NET = (
    '<ir_version: 8, opset_import: ["" : 17]> net (float[1, 16, 8, 8] x) => (float[1, 16, 8, 8] y) '
    "{ [first] a = Conv <pads = [1, 1, 1, 1]> (x, w)  [then] y = Relu (a) }"
)


@pytest.fixture
def place(tmp_path: Path) -> Path:
    model = onnx.parser.parse_model(NET)
    model.graph.initializer.append(onnx.numpy_helper.from_array(np.ones((16, 16, 3, 3), np.float32), "w"))
    onnx.save(model, tmp_path / "net.onnx")
    np.savez(tmp_path / "x.npz", x=np.ones((16, 16, 8, 8), np.float32))
    (tmp_path / "out").mkdir()
    return tmp_path


@pytest.mark.parametrize("folder", ["out", "out/", "."])
@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("sanitize net.onnx", "net.clean.onnx"),
        ("quantize net.onnx --calib x.npz --no-engine --repair none", "net.int8.onnx"),
        ("plan net.onnx", "net.plan.toml"),
        ("calibrate net.onnx --calib x.npz", "net.stats.npz"),
        ("pieces extract net.onnx --to a", "net.piece.onnx"),
        ("pieces split net.onnx --at a", "net.split.json"),
    ],
)
def test_it_is_written_into_the_folder(line: str, name: str, folder: str, place: Path) -> None:
    before = {path.name for path in place.iterdir()}
    ran = run(place, *shlex.split(line), "-o", folder)
    assert ran.code in (0, 1), ran.err
    assert (place / folder / name).is_file()
    assert folder == "." or {path.name for path in place.iterdir()} == before


def test_what_is_advised_asks_for_the_same_file(place: Path) -> None:
    line = "quantize net.onnx --calib x.npz --no-engine --repair none --json -o out"
    asked = run(place, *shlex.split(line)).json()["asked"]
    assert ["-o", "out/net.int8.onnx"] in asked


def test_a_name_with_a_slash_is_no_file(place: Path) -> None:
    """It was written under the name without the slash."""
    ran = run(place, "sanitize", "net.onnx", "-o", "new/")
    assert ran.code == 2
    assert "no folder 'new/'" in ran.err
    assert not (place / "new").exists()
