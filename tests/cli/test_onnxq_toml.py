"""What `onnxq.toml` says is done as if flags said it; what it must not say is refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

QUANTIZE = ("quantize", "net.onnx", "--json")
FLAGS = (
    "--calib", "data.npz", "--samples", 12, "--method", "mse", "--shape", "x=2x32x8", "--no-engine",
    "--body", "fp32", "--repair", "bias", "--keep-float", "MatMul",
)  # fmt: skip
FILE = """
[calibration]
data = "data.npz"
samples = 12
method = "mse"
[inputs]
shape = {x = [2, 32, 8]}
[engine]
no_engine = true
[repair]
steps = "bias"
[format]
body = "fp32"
keep_float = ["MatMul"]
"""


@pytest.fixture
def here(folder: Path) -> Path:
    values = np.random.default_rng(0).standard_normal((40, 32, 8)).astype(np.float32)
    np.savez(folder / "data.npz", x=values)
    return folder


def test_the_file_does_what_flags_do(here: Path, onnxq) -> None:
    by_flags = onnxq(*QUANTIZE, *FLAGS, "-o", "flags.onnx")
    assert by_flags.code == 0, by_flags.err
    (here / "onnxq.toml").write_text(FILE)
    by_file = onnxq(*QUANTIZE, "-o", "file.onnx")
    assert by_file.code == 0, by_file.err
    assert (here / "flags.onnx").read_bytes() == (here / "file.onnx").read_bytes()
    one, other = by_flags.json(), by_file.json()
    assert one["calibration"]["method"] == other["calibration"]["method"] == "mse"
    assert one["engine"]["status"] == other["engine"]["status"]
    won = onnxq(*QUANTIZE, "--method", "minmax", "-o", "won.onnx").json()
    assert won["calibration"]["method"] == "minmax"


def test_code_is_run_for_a_named_file_only(here: Path, onnxq) -> None:
    (here / "load.py").write_text(
        "import pathlib\npathlib.Path('ran').touch()\nimport numpy as np\n"
        "def load_data():\n    for i in range(9):\n        yield {'x': np.full((1, 32, 8), i, np.float32)}\n"
    )
    text = '[calibration]\nmethod = "minmax"\ndata_loader_script = "load.py"\n[engine]\nno_engine = true\n'
    (here / "onnxq.toml").write_text(text)
    ran = onnxq("quantize", "net.onnx")
    assert (ran.code, ran.out, (here / "ran").exists()) == (2, "", False)
    assert "'onnxq.toml', line 3: data_loader_script" in ran.err
    assert "hint: --config onnxq.toml" in ran.err
    for verb in (
        ("sanitize", "net.onnx"),
        ("check", "net.onnx"),
        ("data", "net.onnx", "--calib", "data.npz"),
    ):
        assert onnxq(*verb).code == 2  # whatever the verb reads of it
    ran = onnxq("quantize", "net.onnx", "--config", "onnxq.toml")
    assert (ran.code, (here / "ran").exists()) == (0, True), ran.err


def test_what_another_verb_takes_is_passed_over(here: Path, onnxq) -> None:
    (here / "onnxq.toml").write_text(
        "quiet = true\n[repair]\nallow_interface_changes = true\n"
        '[calibration]\nsamples = 12\nmethod = "mse"\nshard = "1/2"\n[engine]\nno_engine = true\n'
    )
    for verb in ("quantize", "calibrate"):
        ran = onnxq(verb, "net.onnx", "--calib", "data.npz")
        assert (ran.code, ran.out) == (0, ""), ran.err
    assert (here / "net.1-of-2.stats.npz").exists()


def test_a_key_by_its_former_name_works(here: Path, onnxq) -> None:
    (here / "onnxq.toml").write_text('[format]\nheads = "float"\n')
    ran = onnxq("plan", "net.onnx", "--calib", "data.npz", "-o", "p.toml", "--json")
    assert ran.json()["plan"]["heads"]["asked"] == "float"
