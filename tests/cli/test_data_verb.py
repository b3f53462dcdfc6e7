"""`onnxq data`: its document, its contact sheet, and what it does with bad samples."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnx.parser
import pytest
from PIL import Image

# Divides its pixels by 255 itself.
NET = """<ir_version: 8, opset_import: ["" : 17]>
    net (float[N, 3, H, W] x, float[N] gain) => (float[N, 3, H, W] y) <float c = {255}> {
        [own] a = Div (x, c) y = Mul (a, gain) }"""
DATA = ("data", "net.onnx", "--calib", "images", "--json")
STATED = ("--freeze", "gain=2", "--shape", "x=Nx3xHx12", "--assume", "H=8")


@pytest.fixture
def images(tmp_path: Path) -> Path:
    """The test's folder with `net.onnx`, and in `images` two photographs and what is none."""
    onnx.save(onnx.parser.parse_model(NET), tmp_path / "net.onnx")
    (tmp_path / "images").mkdir()
    pixels = np.random.default_rng(0).integers(0, 256, (2, 20, 30, 3), dtype=np.uint8)
    for index, image in enumerate(pixels):
        Image.fromarray(image).save(tmp_path / f"images/{index}.png")
    (tmp_path / "images/bad.png").write_bytes(b"no image")
    return tmp_path


def test_the_document(images: Path, onnxq) -> None:
    ran = onnxq(*DATA, *STATED)
    assert ran.code == 0, ran.err
    document = ran.json()
    assert (document["schema"], document["count"], document["samples"]) == (3, 3, 2)
    assert document["data"]["skipped"]["count"] == 1
    (x,) = document["inputs"]
    assert (x["name"], x["shape"]) == ("x", ["N", 3, 8, 12])
    assert x["shapes"] == [{"shape": [1, 3, 8, 12], "samples": 2}]
    assert 0 <= x["min"] < x["max"] <= 1
    warnings = {warning["kind"]: warning for warning in document["warnings"]}
    assert sorted(warnings) == ["bad-samples", "few-samples", "normalized-twice"]
    assert "2 samples" in warnings["few-samples"]["text"]
    assert "node 'own'" in warnings["normalized-twice"]["text"]
    assert "--preset raw" in warnings["normalized-twice"]["hint"]
    assert document["sheet"]["file"] == "net.data.png"
    assert document["sheet"]["images"] == 2
    with Image.open(images / "net.data.png") as sheet:
        assert (sheet.format, sheet.info["Software"]) == ("PNG", "onnxq")


def test_what_it_warned_of_is_gone(images: Path, onnxq) -> None:
    Image.new("RGB", (4, 4)).save(images / "images/9.png")
    ran = onnxq(*DATA, *STATED, "--preset", "raw", "--skip-bad")
    assert ran.code == 0, ran.err
    document = ran.json()
    assert [warning["kind"] for warning in document["warnings"]] == ["few-samples", "constant-sample"]
    assert document["data"]["images"][0]["preset"] == "raw"
    assert document["inputs"][0]["max"] > 100
    assert document["data"]["skipped"]["count"] == 1
    assert "(preset raw)" in ran.err
    assert "images/9.png" in document["warnings"][1]["text"]


def test_a_file_of_the_user_is_kept(images: Path, onnxq) -> None:
    Image.new("RGB", (8, 8)).save(images / "net.data.png")
    before = (images / "net.data.png").read_bytes()
    ran = onnxq(*DATA, *STATED)
    assert ran.code == 2
    assert "'net.data.png' exists" in ran.err
    assert "-o" in ran.err
    assert (images / "net.data.png").read_bytes() == before
    assert onnxq(*DATA, *STATED, "--force").code == 0
    ours = (images / "net.data.png").read_bytes()
    assert ours != before
    assert onnxq(*DATA, *STATED, "--preset", "raw", "--color", "bgr").code == 0
    assert (images / "net.data.png").read_bytes() != ours


def test_no_images(folder: Path, onnxq) -> None:
    arguments = ("data", "net.onnx", "--calib", "data.npz", "--samples", "5")
    ran = onnxq(*arguments, "--json")
    document = ran.json()
    assert (document["sheet"], document["samples"], document["count"]) == (None, 5, 24)
    assert [path.name for path in folder.glob("*.png")] == []
    values = np.load(folder / "data.npz")["x"][:5].astype(np.float64)
    assert document["inputs"][0]["mean"] == pytest.approx(values.mean(), rel=1e-12)
    ran = onnxq(*arguments, "--sheet", "x.png")
    assert ran.code == 2
    assert "is an image" in ran.err
