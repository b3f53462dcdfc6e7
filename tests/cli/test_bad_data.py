"""Bad samples on the command line: refused by name, or left out with --skip-bad; data loader scripts."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import onnx.parser
import pytest
from PIL import Image

# Images or arrays go in at `x`; the second input is for what takes two.
ONE = """<ir_version: 8, opset_import: ["" : 17]>
    net (float[N, 3, 8, 8] x) => (float[N, 16, 8, 8] y) { [conv] y = Conv (x, w) }"""
TWO = """<ir_version: 8, opset_import: ["" : 17]>
    net (float[N, 3, 8, 8] left, float[N, 3, 8, 8] right) => (float[N, 16, 8, 8] y) {
        x = Add (left, right) [conv] y = Conv (x, w) }"""


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The test's folder with `one.onnx`, `two.onnx`, and twelve good samples of each kind in `data`."""
    monkeypatch.chdir(tmp_path)
    w = np.random.default_rng(0).standard_normal((16, 3, 3, 3)).astype(np.float32)
    for name, text in (("one", ONE), ("two", TWO)):
        model = onnx.parser.parse_model(text.replace("Conv (x, w)", "Conv <pads = [1, 1, 1, 1]> (x, w)"))
        model.graph.initializer.append(onnx.numpy_helper.from_array(w, "w"))
        onnx.save(model, f"{name}.onnx")
    random = np.random.default_rng(1)
    for kind in ("jpg", "npy", "npz", "two"):
        (tmp_path / kind).mkdir()
    for index in range(12):
        Image.fromarray(random.integers(0, 256, (8, 8, 3), np.uint8)).save(f"jpg/{index:02}.jpg")
        x = random.random((1, 3, 8, 8), np.float32)
        np.save(f"npy/{index:02}.npy", x)
        np.savez(f"npz/{index:02}.npz", x=x)
        np.savez(f"two/{index:02}.npz", left=x, right=x)
    return tmp_path


def cut() -> None:
    file = Path("jpg/05.jpg")
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])


def value(number: float) -> Callable[[], None]:
    def spoil() -> None:
        x = np.load("npy/05.npy")
        x[0, 1, 4, 4] = number
        np.save("npy/05.npy", x)
        np.savez("npz/05.npz", x=x)

    return spoil


def smaller() -> None:
    np.save("npy/05.npy", np.ones((1, 3, 4, 8), np.float32))


def renamed() -> None:
    np.savez("two/05.npz", left=np.load("npy/05.npy"), rihgt=np.load("npy/05.npy"))


CASES = {
    "corrupt-jpeg": (cut, "one", "jpg", ("jpg/05.jpg", "corrupt image")),
    "nan": (value(np.nan), "one", "npy", ("npy/05.npy: input 'x' has nan at index [0, 1, 4, 4]",)),
    "infinite": (value(np.inf), "one", "npz", ("npz/05.npz: input 'x' has inf at index [0, 1, 4, 4]",)),
    "another-shape": (smaller, "one", "npy", ("npy/05.npy: input 'x' takes Nx3x8x8", "size 4 where 8")),
    "name": (renamed, "two", "two", ("two/05.npz", "no array named 'right'", "hint: did you mean 'rihgt'?")),
}


@pytest.mark.parametrize(("spoil", "model", "path", "says"), CASES.values(), ids=CASES)
def test_the_file_is_named(data: Path, onnxq, spoil, model: str, path: str, says: tuple[str, ...]) -> None:
    spoil()
    ran = onnxq("compare", f"{model}.onnx", f"{model}.onnx", "--data", path)
    assert (ran.code, ran.out) == (2, "")
    assert "Traceback" not in ran.err
    for part in ("error: ", *says, "or leave bad samples out with --skip-bad"):
        assert part in ran.err


def test_nothing_is_left(data: Path, onnxq) -> None:
    for file in Path("jpg").iterdir():
        file.write_bytes(b"\xff\xd8 no image")
    ran = onnxq("quantize", "one.onnx", "--calib", "jpg", "--skip-bad")
    assert ran.code == 2
    for part in ("there is no good sample: 12 bad samples are left out", "jpg/", "hint: remove or replace"):
        assert part in ran.err
    for file in Path("jpg").iterdir():
        file.unlink()
    ran = onnxq("compare", "one.onnx", "one.onnx", "--data", "jpg", "--skip-bad")
    assert ran.code == 2
    assert "'jpg' has zero samples" in ran.err


def test_they_are_left_out_and_reported(data: Path, onnxq) -> None:
    cut()
    smaller()
    for seed in range(2):
        Path("onnxq.toml").write_text(f"[calibration]\nseed = {seed}\n")
        words = ("quantize", "one.onnx", "--calib", "jpg", "--no-engine", "--skip-bad", "--force")
        ran = onnxq(*words, columns=110)
        assert ran.code == 0, ran.err
        note = "a bad sample is left out: 'jpg/05.jpg' (input 'x') is a corrupt image"
        assert note in " ".join(ran.out.split())
    told = onnxq("compare", "one.onnx", "one.onnx", "--data", "npy", "--skip-bad", "--json").json()
    assert told["accuracy"][0]["samples"] == 11
    assert told["data"]["skipped"]["count"] == 1
    assert told["data"]["skipped"]["first"][0]["where"] == "npy/05.npy"


class TestScript:
    TEXT = """import numpy as np
def load_data():
    for _ in range(12):
        yield {'x': np.ones((1, 3, 8, 8))}
"""

    def test_in_place_of_a_path(self, data: Path, onnxq) -> None:
        Path("load.py").write_text(f"print('loading')\n{self.TEXT}\nother = load_data\n")
        for flag in ("--calib", "--data-loader-script"):
            script = (flag, "load.py:other", "--json", "--force")
            told = onnxq("quantize", "one.onnx", "--no-engine", *script).json()["calibration"]
            assert told["data"]["lines"] == ["load.py:other, 12 items read, one sample each"]
        assert onnxq("init", "one.onnx", "--calib", "load.py").code == 2  # it runs nothing
        Path("onnxq.toml").write_text('[calibration]\ndata = "load.py"\n')
        assert onnxq("quantize", "one.onnx", "--no-engine").code == 2  # nobody has typed it

    @pytest.mark.parametrize(
        ("arguments", "says"),
        [
            ((), "no data is given: there is no --data"),
            (("--config", "both.toml"), "data and data_loader_script are given"),
            (("--data", "load.py"), "the data loader script 'load.py', line 5: KeyError: 'b'"),
            (("--data-loader-script", "lod.py"), "there is no data loader script 'lod.py'"),
        ],
    )  # fmt: skip
    def test_refusals(self, data: Path, onnxq, arguments: tuple[str, ...], says: str) -> None:
        Path("load.py").write_text(f"{self.TEXT}    {{'a': 1}}['b']\n")
        both = '[calibration]\ndata = "npy"\ndata_loader_script = "load.py"\n'
        Path("both.toml").write_text(both)
        ran = onnxq("compare", "one.onnx", "one.onnx", *arguments)
        assert (ran.code, ran.out) == (2, "")
        assert "Traceback" not in ran.err
        assert says in ran.err
        assert "hint: " in ran.err
