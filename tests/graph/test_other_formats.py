"""Files of other frameworks are recognized by their bytes, and no ONNX model is taken for one."""

from __future__ import annotations

import io
import json
import os
import pickle
import zipfile
from pathlib import Path

import numpy as np
import onnx
import onnx.parser
import pytest
from command import run

from onnxq.graph.load import other_format

NET = """<ir_version: 8, opset_import: ["" : 17]>
    Placeholder (float[N, 4] x) => (float[N, 4] y) { y = Relu (x) }"""


def archive(*names: str) -> bytes:
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w") as file:
        for name in names:
            file.writestr(name, b"0")
    return held.getvalue()


def safetensors() -> bytes:
    header = json.dumps({"w": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}).encode()
    return len(header).to_bytes(8, "little") + header + bytes(4)


def npy() -> bytes:
    held = io.BytesIO()
    np.save(held, np.zeros(3))
    return held.getvalue()


def graphdef(name: bytes, op: bytes) -> bytes:
    """A GraphDef of one node: its name is field 1, its operator field 2."""
    node = b"\x0a" + bytes([len(name)]) + name + b"\x12" + bytes([len(op)]) + op
    return b"\x0a" + bytes([len(node)]) + node


FILES = {
    "weights.pt": (archive("weights/data.pkl", "weights/data/0"), "torch.onnx.export"),
    "script.pt": (archive("script/data/0", "script/code/a.py", "script/data.pkl"), "torch.onnx.export"),
    "old.pth": (pickle.dumps({"a": 1}, protocol=2), "torch.onnx.export"),
    "net.tflite": (b"\x1c\x00\x00\x00TFL3" + bytes(40), "tf2onnx --tflite"),
    "net.safetensors": (safetensors(), "optimum-cli"),
    "net.engine": (b"ftrt" + bytes(60), "cannot be turned back"),
    "net.h5": (b"\x89HDF\r\n\x1a\n" + bytes(60), "tf2onnx --keras"),
    "data.npy": (npy(), "--calib"),
    "data.npz": (archive("x.npy"), "--calib"),
    "pointer.onnx": (b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n", "git lfs pull"),
    "page.onnx": (b"\n<!DOCTYPE html>\n<html>", "download"),
    "net.xml": (b'<?xml version="1.0"?>\n<net name="a" version="11">', "made of"),
    "frozen.pb": (graphdef(b"image", b"Placeholder"), "tf2onnx --graphdef"),
}


@pytest.mark.parametrize("name", FILES)
def test_the_error_says_what_it_is_and_how_to_export_it(name: str, tmp_path: Path) -> None:
    content, advice = FILES[name]
    (tmp_path / name).write_bytes(content)
    ran = run(tmp_path, "check", name)
    error, hint = [line for line in ran.err.splitlines() if line.startswith(("error: ", "hint: "))]
    assert ran.code == 2
    assert error.endswith("an ONNX model")
    assert advice in hint
    assert (tmp_path / name).read_bytes() == content


def test_nothing_in_it_is_run(tmp_path: Path) -> None:
    class Runs:
        def __reduce__(self) -> tuple[object, ...]:
            return os.mkdir, (str(tmp_path / "made"),)

    (tmp_path / "bad.pt").write_bytes(pickle.dumps(Runs(), protocol=4))
    assert run(tmp_path, "check", "bad.pt").code == 2
    assert not (tmp_path / "made").exists()


def test_onnx_models_are_none_of_them() -> None:
    model = onnx.parser.parse_model(NET)
    assert other_format(model.SerializeToString()) is None
    model.producer_name = "<net TFL3 /data.pkl Placeholder"
    assert other_format(model.SerializeToString()) is None
    bare = onnx.ModelProto(graph=model.graph, opset_import=model.opset_import)  # no version in front
    assert other_format(bare.SerializeToString()) is None
