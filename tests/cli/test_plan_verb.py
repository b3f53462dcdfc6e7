"""`onnxq plan`, and `quantize --plan`, as users run them."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from command import Ran, contents

Run = Callable[..., Ran]


def test_a_plan_is_written_edited_and_obeyed(folder: Path, onnxq: Run) -> None:
    assert onnxq("quantize", "net.onnx", "--calib", "data.npz", "--no-engine", "-o", "a.onnx").code == 0
    report = onnxq("plan", "net.onnx", "--calib", "data.npz", "-o", "p.toml", "--json").json()
    assert report["output"] == "p.toml"
    assert report["files"][-1] == "p.toml"
    assert onnxq("quantize", "net.onnx", "--plan", "p.toml", "--no-engine", "-o", "b.onnx").code == 0
    files = contents(folder)
    assert files["a.onnx"] == files["b.onnx"]
    text = (folder / "p.toml").read_text()
    edited = re.sub(r'format = "int8"', 'format = "float"\nbecause = "mine"', text, count=1)
    (folder / "p.toml").write_text(re.sub(r'("mine"\n)because = .*\n', r"\1", edited))
    ran = onnxq("quantize", "net.onnx", "--plan", "p.toml", "--no-engine", "--json")
    assert ran.code == 0, ran.err
    (kept,) = ran.json()["plan"]["kept_float"]
    assert (kept["because"], kept["by"]) == ("mine", "user")
    assert ran.json()["plan"]["file"] == "p.toml"
    text = (folder / "p.toml").read_text()
    (folder / "p.toml").write_text(text.replace("amax = ", "amax = -", 1))
    wrong = onnxq("quantize", "net.onnx", "--plan", "p.toml", "--no-engine")
    assert wrong.code == 2
    assert re.search(r"'p.toml', line \d+: amax is -", wrong.err)


def test_the_target_is_the_plans(folder: Path, onnxq: Run) -> None:
    onnxq("plan", "net.onnx", "--calib", "data.npz", "--target", "tensorrt-10", "-o", "p.toml")
    report = onnxq("quantize", "net.onnx", "--plan", "p.toml", "--no-engine", "--json").json()
    assert report["target"] == "tensorrt-10"


def test_flags_that_would_be_ignored(folder: Path, onnxq: Run) -> None:
    onnxq("plan", "net.onnx", "--calib", "data.npz", "-o", "p.toml")
    for flag in (("--samples", "3"), ("--method", "mse"), ("--skip-bad",)):
        ran = onnxq("quantize", "net.onnx", "--plan", "p.toml", *flag)
        assert ran.code == 2
        assert f"{flag[0]} is given" in ran.err


def test_layers_of_the_configuration(folder: Path, onnxq: Run) -> None:
    (folder / "onnxq.toml").write_text('[[layer]]\nop = "MatMul"\namax = 3\n')
    onnxq("plan", "net.onnx", "--calib", "data.npz", "-o", "p.toml")
    text = (folder / "p.toml").read_text()
    assert 'amax = 3.0\nbecause = "[[layer]] 1"' in text
    (folder / "p.toml").write_text(text.replace("amax = 3.0", "amax = 5.0"))
    ran = onnxq("quantize", "net.onnx", "--plan", "p.toml", "--no-engine", "--json")
    calibration = ran.json()["calibration"]
    assert calibration["thresholds"]["x"]["amax"] == 5.0
    said = "the plan is obeyed: [[layer]] counts only for ranges that the plan leaves open"
    assert said in calibration["notes"]
