"""What `check` advises is a command line that runs as it stands, with all that the user said."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
from command import Ran, net

CHECK = """def advises(evidence):
    yield {"severity": "note", "reason": "what to do", "advice": evidence.command}
"""


def test_the_advised_command_repeats_what_was_said(tmp_path: Path, onnxq: Callable[..., Ran]) -> None:
    model = net()
    model.graph.input[0].type.tensor_type.shape.dim[1].dim_param = "T"
    onnx.save(model, tmp_path / "net.onnx")
    np.savez(tmp_path / "data.npz", other=np.random.default_rng(0).standard_normal((8, 32, 8), np.float32))
    (tmp_path / "mine.py").write_text(CHECK)
    said = ["--target", "tensorrt-10", "--assume", "N=1", "--input-name", "x=other", "--method", "minmax"]
    own = ["--check", "mine.py:advises", "--no-engine", "--json"]
    ran = onnxq("check", "net.onnx", "--calib", "data.npz", *said, *own)
    assert ran.code in (0, 1), ran.err
    (command,) = [one["advice"] for one in ran.json()["findings"] if one["reason"] == "what to do"]
    words = shlex.split(command)
    assert words[:5] == ["onnxq", "quantize", "net.onnx", "--calib", "data.npz"]
    for flag, value in zip(said[::2], said[1::2], strict=True):
        assert words[words.index(flag) + 1] == value
    done = onnxq(*words[1:], "--no-engine", "--repair", "none")
    assert done.code == 0, done.err
