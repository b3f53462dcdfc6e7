"""Images and arrays on the command line: the flags, what the model was fed, progress."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import onnx
import onnx.parser
import pytest
from command import SAMPLES, environment
from PIL import Image
from said import is_said

from onnxq.base.errors import UserError
from onnxq.data.split import HELD_OUT
from onnxq.options.option import read_options
from onnxq.options.settings import ImageOptions

DIGITS = SAMPLES / "digits/digits.onnx"
QUANTIZE = ("quantize", "net.onnx", "--calib", "images", "--no-engine", "--json")
COMPARE = ("compare", "net.onnx", "other.onnx", "--json", "--data")

# `net` and `other` differ in how they weigh the first channel.
NET = """<ir_version: 8, opset_import: ["" : 17]>
    net (float[N, 3, 16, 24] x) => (float[N, 16, 16, 24] y) { [conv] y = Conv (x, w) }"""


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    """The test's folder with `net.onnx`, and five photographs of 60 x 40 in `images`."""
    model = onnx.parser.parse_model(NET)
    w = np.random.default_rng(0).standard_normal((16, 3, 1, 1)).astype(np.float32)
    model.graph.initializer.append(onnx.numpy_helper.from_array(w, "w"))
    onnx.save(model, tmp_path / "net.onnx")
    w[:, 0] *= 1.5
    model.graph.initializer[0].CopyFrom(onnx.numpy_helper.from_array(w, "w"))
    onnx.save(model, tmp_path / "other.onnx")
    (tmp_path / "images").mkdir()
    for index, pixels in enumerate(photographs()):
        Image.fromarray(pixels).save(tmp_path / f"images/{index}.png")
    (tmp_path / "images/.DS_Store").write_bytes(b"x")
    return tmp_path


def photographs() -> np.ndarray:
    random = np.random.default_rng(1)
    return random.integers(0, [256, 200, 60], (5, 40, 60, 3)).astype(np.uint8)


FLAGS = ["--color", "bgr", "--scale", "1/127.5", "--mean", "1,0.5,0.25", "--std", "0.5,1,2"]
FILE = '[images]\nresize = 20\ncrop = "24x16"\n'


def fed() -> np.ndarray:
    """The photographs, as FLAGS and FILE say, by numpy and Pillow."""
    values = np.empty((5, 3, 16, 24), np.float64)
    for index, pixels in enumerate(photographs()):
        small = Image.fromarray(pixels).resize((30, 20), Image.Resampling.BILINEAR)
        center = np.asarray(small).astype(np.float64)[2:18, 3:27]
        for channel, (source, mean, std) in enumerate(((2, 1, 0.5), (1, 0.5, 1), (0, 0.25, 2))):
            values[index, channel] = (center[:, :, source] / 127.5 - mean) / std
    return values


def test_flags_make_the_same_values_as_numpy(photos: Path, onnxq) -> None:
    np.savez(photos / "fed.npz", x=fed().astype(np.float32))
    (photos / "sizes.toml").write_text(FILE)
    by_flags = onnxq(*COMPARE, "images", *FLAGS, "--config", "sizes.toml").json()
    by_numpy = onnxq(*COMPARE, "fed.npz").json()
    plain = onnxq(*COMPARE, "images").json()
    ours, expected = by_flags["accuracy"][0], by_numpy["accuracy"][0]
    for name in ("sqnr_db", "cosine", "max_abs", "max_ref"):
        assert ours[name] == pytest.approx(expected[name], rel=1e-5)
    assert abs(ours["sqnr_db"] - plain["accuracy"][0]["sqnr_db"]) > 1
    assert ours["samples"] == 5


def test_what_the_model_was_fed_is_in_the_report(photos: Path, onnxq) -> None:
    (photos / "onnxq.toml").write_text(f"[calibration]\nseed = 3\n{FILE}")
    calibration = onnxq(*QUANTIZE, *FLAGS).json()["calibration"]
    (image,) = calibration["data"]["images"]
    assert image == {
        "input": "x", "dtype": "float32", "layout": "NCHW", "color": "bgr",
        "size": "shorter side resized to 20, center 24x16 cut out",
        "scale": pytest.approx(1 / 127.5), "mean": [1, 0.5, 0.25], "std": [0.5, 1, 2],
        "range": [-2, 2], "preset": None,
    }  # fmt: skip
    assert calibration["data"]["lines"] == ["5 images in images, one sample each"]
    assert calibration["data"]["notes"] == ["other files in 'images' are left out (1): .DS_Store"]
    low, high = calibration["ranges"]["x"]
    values = [fed()[[i for i in range(5) if i != held]] for held in range(5)]  # one is held out
    assert any(
        low == pytest.approx(v.min(), rel=1e-5) and high == pytest.approx(v.max(), rel=1e-5) for v in values
    )


def test_the_same_in_python(photos: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import onnxq

    monkeypatch.chdir(photos)
    options = onnxq.ImageOptions(scale=1.0, color="bgr", letterbox=True)
    for images in (options, {"scale": 1, "color": "bgr", "letterbox": True}):
        report = onnxq.quantize("net.onnx", "images", images=images, compile=False).report
        (image,) = report["calibration"]["data"]["images"]
        assert (image["color"], image["range"]) == ("bgr", [0.0, 255.0])
    with pytest.raises(onnxq.UserError, match="image option 'colour'") as caught:
        onnxq.quantize("net.onnx", "images", images={"colour": "bgr"}, compile=False)
    assert "'color'" in caught.value.hint


@pytest.mark.parametrize(
    ("flags", "file", "says"),
    [
        (("--mean", "0.5,half"), "", ("--mean '0.5,half'", "'half' is no number", "0.485,0.456,0.406")),
        (("--color", "grey"), "", ("color order 'grey'", "'gray'")),
        ((), 'resize = "16x24"', ("16x24", "input 'x' takes 24x16")),
        ((), 'letterbox = true\ncrop = "24x16"', ("letterbox", "crop")),
    ],
)
def test_what_makes_no_sense(photos: Path, onnxq, flags, file: str, says: tuple[str, ...]) -> None:
    (photos / "onnxq.toml").write_text(f"[images]\n{file}\n")
    ran = onnxq(*QUANTIZE, *flags)
    assert ran.code == 2, ran.out
    assert "Traceback" not in ran.err
    for part in ("error: ", "hint: ", *says):
        assert part in ran.err


@pytest.mark.parametrize(
    ("flag", "text", "value"),
    [
        ("scale", "1/255", 1 / 255), ("scale", "2", 2.0), ("mean", "0.5", (0.5,)),
        ("mean", "127/255,-1e-2,3", (127 / 255, -0.01, 3.0)), ("resize", "256", 256),
        ("resize", "640x480", (640, 480)), ("crop", "224x200", (224, 200)), ("letterbox", True, True),
        ("scale", "1/0", None), ("scale", "1/2/3", None), ("scale", "", None), ("mean", "1,,2", None),
        ("resize", "1x2x3", None), ("resize", "-4", None), ("resize", "4x", None), ("crop", "24", None),
    ],
)  # fmt: skip
def test_how_flags_are_read(flag: str, text, value) -> None:
    read = read_options(ImageOptions)[flag].kind.of_flag
    if value is not None:
        assert read(f"--{flag}", text) == value
        return
    with pytest.raises(UserError, match=f"--{flag} '{text}' is not understood") as caught:
        read(f"--{flag}", text)
    assert f"--{flag} " in caught.value.hint


def test_flags_on_images_for_arrays(folder: Path, onnxq) -> None:
    for arguments in (("quantize", "net.onnx", "--calib"), ("compare", "net.onnx", "net.onnx", "--data")):
        ran = onnxq(*arguments, "data.npz", "--mean", "0.5", "--color", "bgr")
        assert ran.code == 2
        assert "mean, color: for images" in ran.err


def test_images_for_a_model_with_another_input(photos: Path, onnxq) -> None:
    text = NET.replace("x)", "x, float[3, 1, 1] shift)").replace("Conv (x, w)", "Conv (s, w)")
    model = onnx.parser.parse_model(text.replace("{ ", "{ s = Add (x, shift) "))
    model.graph.initializer.extend(onnx.load(photos / "net.onnx").graph.initializer)
    onnx.save(model, photos / "net.onnx")
    ran = onnxq(*QUANTIZE)
    assert ran.code == 2
    for part in ("2 inputs (x, shift)", "5 images in images", "x/ and shift.npy", "--freeze shift=VALUE"):
        assert part in ran.err
    (photos / "data").mkdir()
    (photos / "images").rename(photos / "data/x")
    np.save(photos / "data/shift.npy", np.ones((3, 1, 1), np.float32))
    report = onnxq(*("data" if word == "images" else word for word in QUANTIZE)).json()
    assert report["calibration"]["data"]["lines"] == [
        "x: 5 images in data/x, one sample each",
        "shift: data/shift.npy, one sample",
    ]


def test_ten_samples_for_a_batch_of_four(folder: Path, onnxq) -> None:
    model = onnx.load(folder / "net.onnx")
    for value in (*model.graph.input, *model.graph.output):
        value.type.tensor_type.shape.dim[0].dim_value = 4
    onnx.save(model, folder / "net.onnx")
    np.savez(folder / "data.npz", x=np.load(folder / "data.npz")["x"][:10])
    flags = ("--no-engine", "--method", "minmax")
    ran = onnxq("quantize", "net.onnx", "--calib", "data.npz", *flags, "-v", columns=110)
    assert ran.code == 0, ran.err
    text = " ".join(ran.out.split())
    assert is_said(text, "decided-by-order.completed", batch=4, samples=2)
    assert "minmax over 2 samples" in text  # batches; the third is held out


def test_samples_tell_how_far_they_are() -> None:
    import onnxq

    told: list[tuple[str, int | None, int | None]] = []
    data = {"image": np.random.default_rng(0).random((24, 1, 8, 8), np.float32)}
    onnxq.quantize(DIGITS, data, body="fp32", compile=False, observe=lambda *step: told.append(step))
    found = [step for step in told if step[1:] != (None, None)]
    fits = [step for step in found if step[0] == "repair: fit"]
    assert fits
    assert {21} < {total for *_, total in fits} <= {10, 11, 21}  # of a half or both, and of all
    assert all(done is not None and total is not None and 0 <= done <= total for _, done, total in fits)
    errors = [("layers", done, 3) for done in (1, 2, 3)]
    assert [step for step in found if step not in fits] == [
        *(("calibrate", done, 21) for done in range(1, 22)),
        *(("choose: 8 methods", done, 168) for done in range(8, 129, 8)),  # those that calibrate compare, too
        *(("choose: 6 methods", done, 158) for done in range(134, 159, 6)),
        *(("verify", done, 3) for done in range(1, 4)),
        *(("verify", done, 3) for done in range(1, 4)),  # by what others fitted
        *errors,
    ]


@pytest.mark.skipif(not hasattr(os, "openpty"), reason="there are no terminals here")
def test_a_bar_with_the_time_left_on_a_terminal(tmp_path: Path) -> None:
    many = np.random.default_rng(0).random((2000, 1, 8, 8), np.float32)
    np.save(tmp_path / "many.npy", many)
    ours, theirs = os.openpty()
    command = [
        sys.executable, "-m", "onnxq", "quantize", DIGITS, "--calib", "many.npy", "--no-engine",
        "--samples", "2000", "--method", "minmax", "--repair", "none",
    ]  # fmt: skip
    environ = environment(tmp_path, 100) | {"TERM": "xterm"}
    run = subprocess.Popen(command, cwd=tmp_path, env=environ, stdout=subprocess.DEVNULL, stderr=theirs)
    os.close(theirs)
    shown, end = b"", time.monotonic() + 60
    while time.monotonic() < end:
        try:
            piece = os.read(ours, 65536)
        except OSError:  # the other end is closed
            break
        if not piece:
            break
        shown += piece
    os.close(ours)
    assert run.wait(30) == 0
    text = shown.decode()
    assert is_said(text, "calibrate")
    assert f"/{2000 - HELD_OUT} samples" in text
    assert " s left" in text
