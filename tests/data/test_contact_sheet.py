"""Contact sheets: what is shown where, in which colors, and that one knows its own files."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from said import is_said

from onnxq.data.contact_sheet import ContactSheet, is_sheet
from onnxq.data.image_options import image_options
from onnxq.data.images import prepare
from onnxq.data.samples import InputSpec, Sample
from onnxq.data.survey import Survey

F4, U1 = np.dtype(np.float32), np.dtype(np.uint8)
RED, BLUE = (200, 40, 10), (20, 60, 220)
SIDE, LEFT, TOP, STEP, ROW = 160, 8, 30, 168, 182  # pixels: a tile, where the first is, and the next ones


def drawn(spec: InputSpec, arrays, options: dict | None = None) -> tuple[np.ndarray, ContactSheet]:
    """The picture `[height, width, 3]` of an input's arrays, images where there are options."""
    prepared = [] if options is None else [prepare(spec, image_options(options))]  # type: ignore[arg-type]
    survey = Survey([spec], prepared)
    sheet = ContactSheet(survey.inputs)
    for index, array in enumerate(arrays):
        sample = Sample(index, f"photos/{index}.png", {spec.name: np.asarray(array, spec.dtype)})
        survey.add(sample)
        sheet.add(sample)
    return np.asarray(Image.open(io.BytesIO(sheet.png()))), sheet


def middle(picture: np.ndarray, column: int = 0, row: int = 0) -> tuple[int, ...]:
    """The color in the middle of a tile."""
    y, x = TOP + ROW * row + SIDE // 2, LEFT + STEP * column + SIDE // 2
    return tuple(int(v) for v in picture[y, x])


def plain(color, height: int = 8, width: int = 8) -> np.ndarray:
    """uint8 `[1, 3, height, width]`, RGB."""
    return np.broadcast_to(np.array(color, np.uint8).reshape(1, 3, 1, 1), (1, 3, height, width))


@pytest.mark.parametrize(
    "options", [{}, {"preset": "imagenet"}, {"preset": "imagenet", "color": "bgr"}, {"scale": 1, "mean": 127}]
)
def test_images_are_shown_as_they_were(tmp_path: Path, options) -> None:
    """Whatever was done to their values, and in RGB though the model is fed BGR."""
    spec = InputSpec("x", F4, ("N", 3, 8, 8))
    made = prepare(spec, image_options(options))  # type: ignore[arg-type]
    arrays = []
    for color in (RED, BLUE):
        Image.new("RGB", (30, 20), color).save(tmp_path / "a.png")
        arrays.append(made.decode(tmp_path / "a.png", lambda text: None)[None])
    picture, sheet = drawn(spec, arrays, options)
    assert (middle(picture), middle(picture, 1)) == (RED, BLUE)
    (caption,) = sheet.captions
    assert (is_said(caption, "shown-as.bgr")) == (options.get("color") == "bgr")


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
def test_arrays_are_stretched_over_all_samples(layout: str) -> None:
    values = [plain((0, 50, 100)) / 10.0 - 3, plain((200, 50, 0)) / 10.0 - 3]  # from -3 to 17
    shape = ("N", 3, 8, 8) if layout == "NCHW" else ("N", 8, 8, 3)
    if layout == "NHWC":
        values = [value.transpose(0, 2, 3, 1) for value in values]
    picture, sheet = drawn(InputSpec("x", F4, shape), values)
    assert middle(picture) == (0, 64, 128)
    assert middle(picture, 1) == (255, 64, 0)
    assert is_said(sheet.captions[0], "shown-as.ends", low="-3", high=17)
    assert is_said(sheet.captions[0], "shown-as.colors")


def test_pixels_in_arrays_are_not_stretched() -> None:
    picture, _ = drawn(InputSpec("x", U1, ("N", 3, 8, 8)), [plain(RED), plain(BLUE)])
    assert (middle(picture), middle(picture, 1)) == (RED, BLUE)


def test_gray_and_orientation() -> None:
    """Enlarged pixel by pixel, not mirrored or turned."""
    image = np.zeros((1, 1, 2, 2))
    image[0, 0, 0, 1] = 1
    picture, sheet = drawn(InputSpec("x", F4, ("N", 1, 2, 2)), [image])
    tile = picture[TOP : TOP + SIDE, LEFT : LEFT + SIDE]
    assert (tile[:80, 80:] == 255).all()
    assert tile.sum() == 80 * 80 * 3 * 255
    assert "red" not in sheet.captions[0]


def test_the_aspect_ratio_is_kept() -> None:
    picture, _ = drawn(InputSpec("x", U1, ("N", 3, "H", "W")), [plain(RED, 100, 400)])
    column = (picture[TOP : TOP + SIDE, LEFT + 80] == RED).all(-1)
    assert column.sum() == 40
    assert column[60:100].all()


def test_at_most_24_and_those_of_batches() -> None:
    spec = InputSpec("x", U1, (5, 3, 8, 8))
    batch = np.concatenate([plain((10 * i, 0, 0)) for i in range(5)])
    picture, sheet = drawn(spec, [batch] * 8)
    assert sheet.tiles == 24
    assert picture.shape[:2] == (8 + 22 + 4 * ROW, 8 + 6 * STEP)
    assert middle(picture, 1, 1) == (20, 0, 0)  # the eighth tile, the third of the second batch


@pytest.mark.parametrize("shape", [("N", 16), ("N", 4, 8, 8), (8, 8, 3), None])
def test_what_is_no_image(shape) -> None:
    sheet = ContactSheet(Survey([InputSpec("x", F4, shape)]).inputs)
    assert not sheet


def test_its_own_files(tmp_path: Path) -> None:
    _, sheet = drawn(InputSpec("x", U1, ("N", 3, 8, 8)), [plain(RED)])
    (tmp_path / "ours.png").write_bytes(sheet.png())
    assert is_sheet(tmp_path / "ours.png")
    Image.new("RGB", (8, 8)).save(tmp_path / "theirs.png")
    (tmp_path / "text.png").write_text("mine")
    (tmp_path / "half.png").write_bytes(sheet.png()[:20])
    for name in ("theirs.png", "text.png", "half.png", "none.png"):
        assert not is_sheet(tmp_path / name)
    assert sheet.png() == sheet.png()
