"""What a run assumed stands on the screen with the flag that states it; what was stated is not marked."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnx.parser
import pytest
from command import run
from PIL import Image

import onnxq

TEXT = """<ir_version: 8, opset_import: ["" : 17]>
    text (int64[batch, length] ids) => (float[batch, length, 8] y) {
        e = Gather (table, ids)  [first] y = MatMul (e, w) }"""
PICTURE = """<ir_version: 8, opset_import: ["" : 17]>
    picture (float[N, 3, H, W] x) => (float[N, 16, H, W] y) { y = Conv <pads = [1, 1, 1, 1]> (x, c) }"""
PLAIN = PICTURE.replace("H, W", "8, 8")


def model(folder: Path, text: str, **weights: tuple[int, ...]) -> None:
    made, random = onnx.parser.parse_model(text), np.random.default_rng(0)
    for name, shape in weights.items():
        values = random.standard_normal(shape).astype(np.float32)
        made.graph.initializer.append(onnx.numpy_helper.from_array(values, name))
    onnx.save(made, folder / "net.onnx")


def rows(folder: Path, *flags: str) -> dict[str, str]:
    """The rows of the screen, by their labels."""
    ran = run(folder, "quantize", "net.onnx", "--calib", "data", "--no-engine", "--repair", "none",
              "--force", *flags)  # fmt: skip
    assert ran.code == 0, ran.err
    found, label = dict[str, str](), ""
    for line in ran.out.splitlines():
        label = line[2:13].strip() or label
        found[label] = f"{found.get(label, '')} {line[13:].strip()}".strip()
    return found


@pytest.fixture
def texts(tmp_path: Path) -> Path:
    model(tmp_path, TEXT, table=(50, 16), w=(16, 8))
    (tmp_path / "data").mkdir()
    random = np.random.default_rng(0)
    for length in range(8, 48):
        np.save(tmp_path / f"data/{length:02}.npy", random.integers(0, 50, (1, length)))
    return tmp_path


@pytest.fixture
def pictures(tmp_path: Path) -> Path:
    model(tmp_path, PLAIN, c=(16, 3, 3, 3))
    (tmp_path / "data").mkdir()
    random = np.random.default_rng(0)
    for number in range(20):
        small = Image.fromarray(random.integers(0, 256, (4, 5, 3), np.uint8))
        small.resize((20, 16)).save(tmp_path / f"data/{number:02}.png")
    return tmp_path


def test_sizes_of_the_samples_have_their_row(texts: Path) -> None:
    assert rows(texts)["Sizes"] == (
        "batch 1 (assumed; to state it: --batch MIN:OPT:MAX); length 8 to 47, usually 28, as in the samples: "
        "the engine takes no others (assumed; to state it: --profile INPUT=MIN:OPT:MAX)"
    )


def test_stated_sizes_have_their_row_unmarked(texts: Path) -> None:
    stated = rows(texts, "--profile", "ids=1x1:1x32:4x128")
    assert stated["Sizes"] == "batch 1 to 4, usually 1, length 1 to 128, usually 32 (stated)"


SIZE, VALUES, BOXED = "resize or letterbox", "--preset or --scale", "letterboxed to 8x8 with gray 114"


@pytest.mark.parametrize(
    ("flags", "file", "fed"),
    [
        ("", "", f"NCHW rgb, stretched to 8x8, 0 to 1 (assumed; to state it: --color, {SIZE}, {VALUES})"),
        ("--color bgr", "", f"NCHW bgr; stretched to 8x8, 0 to 1 (assumed; to state it: {SIZE}, {VALUES})"),
        (
            "--color rgb",
            'resize = "8x8"',
            f"NCHW rgb, stretched to 8x8; 0 to 1 (assumed; to state it: {VALUES})",
        ),
        ("--preset yolo", "", f"{BOXED}, 0 to 1; NCHW rgb (assumed; to state it: --color)"),
        (
            "--preset raw --color rgb",
            "",
            f"NCHW rgb, 0 to 255; stretched to 8x8 (assumed; to state it: {SIZE})",
        ),
        ("--scale 1/255 --color rgb", "letterbox = true", f"NCHW rgb, {BOXED}, 0 to 1"),
        ("", 'color = "bgr"\npreset = "yolo"', f"NCHW bgr, {BOXED}, 0 to 1"),
    ],
)
def test_what_is_stated_of_images_is_not_marked(pictures: Path, flags: str, file: str, fed: str) -> None:
    (pictures / "onnxq.toml").write_text(f"[images]\n{file}\n")
    assert rows(pictures, *flags.split())["Images"] == f"x is fed {fed}"


def test_one_channel_of_whole_numbers_leaves_only_the_size_open(pictures: Path) -> None:
    model(pictures, """<ir_version: 8, opset_import: ["" : 17]>
        gray (uint8[N, 1, 8, 8] x) => (float[N, 16, 8, 8] y) {
            f = Cast <to = 1> (x)  y = Conv <pads = [1, 1, 1, 1]> (f, c) }""", c=(16, 1, 3, 3))  # fmt: skip
    said = rows(pictures)["Images"]
    where = "stretched to 8x8 (assumed; to state it: resize or letterbox)"
    assert said == f"x is fed NCHW gray, 0 to 255; {where}"


def test_images_in_their_own_sizes(pictures: Path) -> None:
    model(pictures, PICTURE, c=(16, 3, 3, 3))
    found = rows(pictures, "--color", "rgb", "--scale", "1/255")
    assert found["Images"] == (
        "x is fed NCHW rgb, 0 to 1; each image in its own size (assumed; to state it: resize or letterbox)"
    )
    assert (
        "H 16, W 20, as in the samples: the engine takes no others (assumed; to state it: --profile"
        in found["Sizes"]
    )


def test_the_target_is_marked_where_nothing_states_it(pictures: Path) -> None:
    assert "for tensorrt-11 (assumed; to state it: --target), in" in rows(pictures)["Model"]
    assert "for tensorrt-11, in" in rows(pictures, "--target", "tensorrt-11")["Model"]
    (pictures / "onnxq.toml").write_text('target = "tensorrt-10"\n')
    assert "(assumed" not in rows(pictures)["Model"]


def test_a_task_that_the_graph_says_is_marked(pictures: Path) -> None:
    model(pictures, """<ir_version: 8, opset_import: ["" : 17]>
        classes (float[N, 3, 8, 8] x) => (float[N, 16] y) {
            h = Conv (x, c)  g = GlobalAveragePool (h)
            f = Flatten (g)  y = Softmax (f) }""", c=(16, 3, 3, 3))  # fmt: skip
    assert (
        "(what the outputs are is assumed; to state it: --task classify:scores=y)"
        in rows(pictures)["Accuracy"]
    )
    assert "(assumed" not in rows(pictures, "--task", "classify:scores=y")["Accuracy"]


def test_statistics_say_what_their_images_were_taken_for(pictures: Path) -> None:
    """Whoever reads them gives no options of images any more."""
    said = "x: NCHW rgb, stretched to 8x8 (assumed; to state it: --color, resize or letterbox)"
    made = run(pictures, "calibrate", "net.onnx", "--calib", "data", "--preset", "raw")
    assert made.code == 0, made.err
    flags = ("--no-engine", "--repair", "none")
    read = run(pictures, "quantize", "net.onnx", "--stats", "net.stats.npz", *flags)
    assert said in " ".join(read.out.split()), read.out


def test_images_of_the_library_say_what_they_were_taken_for(pictures: Path) -> None:
    images = [Image.open(path) for path in sorted((pictures / "data").iterdir())]
    result = onnxq.quantize(
        pictures / "net.onnx", images, compile=False, repair="none", images={"color": "rgb"}
    )
    lines = result.report.to_dict()["calibration"]["data"]["lines"]
    assert (
        "x: stretched to 8x8, 0 to 1 (assumed; to state it: resize or letterbox, --preset or --scale)"
        in lines
    )
