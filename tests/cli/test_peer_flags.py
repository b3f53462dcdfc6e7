"""Flags by the names that other tools give them: they work, or the error says what to type."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import onnx.parser
import pytest
from command import run

from onnxq.cli.peer_flags import METHODS, OTHERS, SAME, in_our_words
from onnxq.options.option import read_options
from onnxq.options.settings import METHODS as OURS
from onnxq.options.verbs import VERBS

FLAGS = {
    flag for group in VERBS["quantize"].groups for said in read_options(group).values() for flag in said.flag
}

# What users of Model-Optimizer, onnxruntime, polygraphy, trtexec, AIMET and Ultralytics type.
TYPED = [
    "--batch", "--batch-size", "--exclude", "--exclude-nodes", "--nodes_to_exclude",
    "--op_types_to_exclude", "--op_types_to_quantize", "--int8", "--fp16", "--bf16", "--per-channel",
    "--calibration_method", "--calibration-method", "--calibration_data", "--calibration_data_path",
    "--onnx_path", "--output_path", "--quantize_mode", "--high_precision_dtype", "--calibration_shapes",
    "--input-shape", "--input_shapes", "--minShapes", "--optShapes", "--maxShapes", "--imgsz", "--data",
]  # fmt: skip

NET = """<ir_version: 8, opset_import: ["" : 17]>
    net (float[N, 16] x) => (float[N, 16] y) <float[16, 16] w = {%s}> {
        [first] a = MatMul (x, w)  [second] s = Softmax (a)  [third] y = MatMul (s, w) }"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    random = np.random.default_rng(0)
    onnx.save(
        onnx.parser.parse_model(NET % ", ".join(map(str, random.standard_normal(256)))), tmp_path / "net.onnx"
    )
    np.savez(tmp_path / "data.npz", x=random.standard_normal((32, 16)).astype(np.float32))
    return tmp_path


def test_each_has_an_answer() -> None:
    assert [flag for flag in TYPED if flag not in {*SAME, *OTHERS, *FLAGS}] == []


def test_what_is_said_exists() -> None:
    ours = FLAGS | {"--output", "--force"}
    assert set(SAME.values()) <= ours
    assert set(METHODS.values()) <= set(OURS)
    assert not {*SAME, *OTHERS} & FLAGS
    for text in OTHERS.values():
        assert set(re.findall(r"--[a-z0-9-]+", text)) <= ours


@pytest.mark.parametrize(
    ("typed", "ours"),
    [
        (["--exclude-nodes", "first"], ["--keep-float", "first"]),
        (["--exclude=first"], ["--keep-float", "first"]),
        (["--exclude-ops", "MatMul"], ["--keep-float-op", "MatMul"]),
        (["--calibration_method", "max"], ["--method", "minmax"]),
        (["--calibration-method=Entropy"], ["--method", "entropy"]),
        (["--input-shape", "x=8x16"], ["--shape", "x=8x16"]),
        (["--batch-size", "4", "--exclude-nodes", "first"], ["--batch", "4", "--keep-float", "first"]),
    ],
)
def test_what_means_the_same_gives_the_same_file(folder: Path, typed: list[str], ours: list[str]) -> None:
    files = []
    for name, flags in (("a.onnx", typed), ("b.onnx", ours)):
        ran = run(folder, "quantize", "net.onnx", "--calib", "data.npz", "--no-engine", "--repair", "none",
                  "-o", name, *flags)  # fmt: skip
        assert ran.code == 0, ran.err
        files.append((folder / name).read_bytes())
        if flags is typed:
            flag = typed[0].partition("=")[0]
            assert f"{flag} is called {SAME[flag]} here" in ran.err + ran.out
    assert files[0] == files[1]


@pytest.mark.parametrize("flag", OTHERS)
def test_of_others_the_line_is_said(folder: Path, flag: str) -> None:
    ran = run(folder, "quantize", "net.onnx", "--calib", "data.npz", flag, "1")
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.splitlines()[-2:] == [f"error: no such option: {flag}", f"hint: {OTHERS[flag]}"]


def test_a_verb_without_the_flag_does_not_take_it(folder: Path) -> None:
    ran = run(folder, "weights", "net.onnx", "--exclude-nodes", "first")
    assert ran.code == 2
    assert "No such option: --exclude-nodes" in ran.err


def test_only_the_flag_and_its_value_change() -> None:
    words = ["quantize", "max", "--calibration-method", "max", "-o", "max", "--calibration-method=max"]
    assert in_our_words(words, "--calibration-method", {"--method"}) == [
        "quantize", "max", "--method", "minmax", "-o", "max", "--method=minmax",
    ]  # fmt: skip
    assert in_our_words(words, "--calibration-method", ()) is None
    assert in_our_words(words, "--nothing", {"--method"}) is None


def test_operators_stay_in_float(folder: Path) -> None:
    ran = run(folder, "quantize", "net.onnx", "--calib", "data.npz", "--no-engine", "--repair", "none",
              "--keep-float-op", "MatMul", "-o", "a.onnx", "--json")  # fmt: skip
    kept = {one["node"]: one["because"] for one in ran.json()["plan"]["kept_float"]}
    assert kept["first"] == kept["third"] == "--keep-float-op MatMul"
    ran = run(folder, "quantize", "net.onnx", "--calib", "data.npz", "--keep-float-op", "MatMull")
    assert ran.code == 2
    assert "there is no operator 'MatMull'" in ran.err
    assert "did you mean 'MatMul'?" in ran.err
