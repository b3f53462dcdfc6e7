"""`split`, `run` and `extract` as programs use them."""

from __future__ import annotations

import json
from pathlib import Path


def test_their_documents(folder: Path, onnxq) -> None:
    split = onnxq("pieces", "split", "net.onnx", "--at", "a,s", "-o", "cut", "--json")
    assert split.code == 0, split.err
    assert split.json() == json.loads((folder / "cut.split.json").read_text("utf-8"))
    assert split.json()["files"] == ["cut.0.onnx", "cut.1.onnx", "cut.split.json"]
    ran = onnxq("pieces", "run", "cut.split.json", "--data", "data.npz", "--samples", "2", "--json")
    assert (ran.code, ran.json()["within"], ran.json()["samples"]) == (0, True, 2)
    assert ran.json()["outputs"][0]["verdict"] == "equal"
    extract = onnxq("pieces", "extract", "net.onnx", "--to", "a,s", "-o", "part.onnx", "--json")
    assert extract.json() == json.loads((folder / "part.report.json").read_text("utf-8"))
    assert [entry["name"] for entry in extract.json()["outputs"]] == ["a", "s"]


def test_what_is_wrong_with_the_flags(folder: Path, onnxq) -> None:
    before = {path.name for path in folder.iterdir()}
    for arguments, says in (
        (("pieces", "extract", "net.onnx", "--node", "product", "-o", "net.onnx"), "is the input"),
        (("pieces", "run", "net.split.json", "--data", "data.npz"), "cannot read 'net.split.json'"),
        (
            ("pieces", "run", "net.onnx", "--data", "data.npz", "--use", "q.onnx"),
            "the form is --use N=X.onnx",
        ),
    ):
        ran = onnxq(*arguments)
        assert ran.code == 2, ran.err
        assert says in ran.err
    assert {path.name for path in folder.iterdir()} == before


def test_the_flags_on_images_are_taken(folder: Path, onnxq) -> None:
    onnxq("pieces", "split", "net.onnx", "--at", "a")
    ran = onnxq("pieces", "run", "net.split.json", "--data", "data.npz", "--mean", "0.5")
    assert (ran.code, "mean" in ran.err) == (2, True), "arrays are no images"
