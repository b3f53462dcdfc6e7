"""The memory that parts of a model share, and give back."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx.parser
import pytest

from onnxq.run import ort

NET = """<ir_version: 8, opset_import: ["" : 17]>
    net (float[n] x) => (float y) { a = Add (x, x)  b = Add (a, x)  y = ReduceSum <keepdims = 0> (b) }"""


def resident() -> int:
    """MiB of this process that are no files'."""
    found = re.search(r"RssAnon:\s+(\d+)", Path("/proc/self/status").read_text())
    assert found is not None
    return int(found[1]) >> 10


@pytest.mark.skipif(sys.platform != "linux", reason="it reads /proc")
def test_it_is_given_back() -> None:
    """In a process of its own: what other tests hold would be in the way."""
    done = subprocess.run([sys.executable, __file__], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def give_back() -> None:
    session = ort.load(onnx.parser.parse_model(NET), optimize=False, threads=1, part=True)
    x = np.ones(20_000_000, np.float32)  # 76 MiB, and so has each sum
    session.run({"x": x})
    del session
    held = resident()
    ort.give_back()
    assert resident() < held - 60
    again = ort.load(onnx.parser.parse_model(NET), optimize=False, threads=1, part=True)
    (y,) = again.run({"x": x[:10]})  # parts compute as before
    assert y == 30


if __name__ == "__main__":
    give_back()
