"""Processes that onnxq starts import nothing from the folder that the user is in."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from onnx import parser

ROOT = Path(__file__).parents[1]

# What the command itself is: a script in a folder of its own.
SCRIPT = """
import math, os, pathlib, sys, tempfile

from onnxq.noise.measure import Workers
from onnxq.run import trial, trt
from onnxq.run.opening import SessionSettings

def given():
    return os.environ.get("PYTHONSAFEPATH")

if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder, Workers(1, folder) as workers:
        assert workers.submit(math.sqrt, 4.0).result(60) == 2.0
        assert workers.submit(given).result(60) is None
    trial.try_in_child(open(sys.argv[1], "rb").read(), SessionSettings())
    assert trial._waiting is not None, "the trial ended its process"
    if trt.installed() is not None:
        assert trt.check_parse(pathlib.Path(sys.argv[1])) == []
    print("done")
"""

PLANTED = """import os
open({place!r}, "a").write({name!r} + chr(10))
raise RuntimeError({name!r})
"""


def names() -> list[str]:
    """What can be imported by its name: all of Python's own, and what onnxq builds on."""
    loaded = {name.partition(".")[0] for name in sys.modules}
    return sorted(name for name in {*sys.stdlib_module_names, *loaded} if name.isidentifier())


def test_nothing_of_the_folder_that_one_is_in_is_imported(tmp_path: Path) -> None:
    here, elsewhere, imported = tmp_path / "here", tmp_path / "elsewhere", tmp_path / "imported"
    here.mkdir()
    elsewhere.mkdir()
    for name in names():
        (here / f"{name}.py").write_text(PLANTED.format(place=str(imported), name=name))
    (elsewhere / "command.py").write_text(SCRIPT)
    model = elsewhere / "m.onnx"
    text = '<ir_version: 8, opset_import: ["" : 17]> g (float[2] x) => (float[2] y) { y = Relu (x) }'
    model.write_bytes(parser.parse_model(text).SerializeToString())
    done = subprocess.run(
        [sys.executable, str(elsewhere / "command.py"), str(model)],
        cwd=here, env=os.environ | {"PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert not imported.exists(), imported.read_text()
    assert done.stdout == "done\n", done.stderr
