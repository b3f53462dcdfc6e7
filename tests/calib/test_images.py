"""Images as model inputs: layout, channels, range, size, orientation."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from onnxq.calib.images import ImageOptions, decode
from onnxq.calib.samples import InputSpec
from onnxq.calib.sources import open_source
from onnxq.errors import UserError

F4, U1 = np.dtype(np.float32), np.dtype(np.uint8)
PIXELS = np.random.default_rng(0).integers(0, 256, (4, 6, 3), dtype=np.uint8)


@pytest.fixture
def png(tmp_path: Path) -> Path:
    Image.fromarray(PIXELS).save(tmp_path / "a.png")
    return tmp_path / "a.png"


def only(path: Path, spec: InputSpec, options: ImageOptions | None = None) -> np.ndarray:
    (sample,) = open_source(path, [spec], options=options)
    return sample.feeds[spec.name]


def test_layouts(png: Path) -> None:
    scaled = PIXELS.astype(np.float64) / 255
    nchw = only(png, InputSpec("x", F4, ("N", 3, 4, 6)))
    nhwc = only(png, InputSpec("x", F4, (1, 4, 6, 3)))
    chw = only(png, InputSpec("x", F4, (3, None, None)))
    assert nchw.dtype == nhwc.dtype == F4
    np.testing.assert_allclose(nchw, scaled.transpose(2, 0, 1)[None], rtol=2e-7)
    np.testing.assert_allclose(nhwc, scaled[None], rtol=2e-7)
    np.testing.assert_array_equal(chw, nchw[0])


def test_integer_input_takes_pixels(png: Path) -> None:
    spec = InputSpec("x", U1, ("N", "H", "W", 3))
    np.testing.assert_array_equal(only(png, spec), PIXELS[None])
    with pytest.raises(UserError, match="float inputs"):
        only(png, spec, ImageOptions(mean=(1.0,)))


def test_grey(png: Path, tmp_path: Path) -> None:
    grey = np.arange(24, dtype=np.uint8).reshape(4, 6) * 10
    Image.fromarray(grey).save(tmp_path / "g.png")
    spec = InputSpec("x", F4, ("N", 1, 4, 6))
    np.testing.assert_allclose(only(tmp_path / "g.png", spec)[0, 0], grey / 255, rtol=2e-7)
    expected = np.asarray(Image.fromarray(PIXELS).convert("L")) / 255
    np.testing.assert_allclose(only(png, spec)[0, 0], expected, rtol=2e-7)


def test_mean_and_std_follow_the_scale(png: Path) -> None:
    mean, std = (0.4, 0.5, 0.6), (0.1, 0.2, 0.3)
    values = only(png, InputSpec("x", F4, (1, 4, 6, 3)), ImageOptions(None, mean, std))
    np.testing.assert_allclose(values[0], (PIXELS / 255 - mean) / std, rtol=1e-5, atol=1e-5)
    raw = only(png, InputSpec("x", F4, (1, 4, 6, 3)), ImageOptions(scale=1.0))
    np.testing.assert_array_equal(raw[0], PIXELS)


@pytest.mark.parametrize("options", [ImageOptions(mean=(0.0, 0.0)), ImageOptions(std=(0.0,))])
def test_options_that_do_not_fit(png: Path, options: ImageOptions) -> None:
    with pytest.raises(UserError, match="channel"):
        only(png, InputSpec("x", F4, (1, 4, 6, 3)), options)


def test_resize_is_antialiased(tmp_path: Path) -> None:
    board = (np.indices((64, 64)).sum(0) % 2 * 255).astype(np.uint8)
    Image.fromarray(board).save(tmp_path / "a.png")
    values = decode(tmp_path / "a.png", InputSpec("x", F4, ("N", 1, 8, 16)), ImageOptions())
    assert values.shape == (1, 8, 16)
    assert np.abs(values - 0.5).max() < 0.05  # without antialiasing: 0 or 1


def test_own_size_where_dynamic(png: Path) -> None:
    assert only(png, InputSpec("x", F4, (1, 3, "H", None))).shape == (1, 3, 4, 6)


def test_exif_orientation(tmp_path: Path) -> None:
    exif = Image.Exif()
    exif[0x0112] = 6  # to be turned clockwise
    Image.fromarray(PIXELS).save(tmp_path / "a.png", exif=exif)
    values = only(tmp_path / "a.png", InputSpec("x", U1, (1, "H", "W", 3)))
    np.testing.assert_array_equal(values[0], np.rot90(PIXELS, -1))


def test_alpha_and_palette(tmp_path: Path) -> None:
    image = Image.fromarray(PIXELS)
    image.putalpha(128)
    image.save(tmp_path / "a.png")
    image.convert("P").save(tmp_path / "b.gif")
    spec = InputSpec("x", U1, (1, 4, 6, 3))
    np.testing.assert_array_equal(only(tmp_path / "a.png", spec)[0], PIXELS)
    assert len(list(open_source(tmp_path, [spec]))) == 2


def test_static_batch_of_images(tmp_path: Path) -> None:
    for index in range(3):
        Image.fromarray(PIXELS + np.uint8(index)).save(tmp_path / f"{index}.png")
    source = open_source(tmp_path, [InputSpec("x", U1, (2, 4, 6, 3))])
    (sample,) = source
    np.testing.assert_array_equal(sample.feeds["x"], [PIXELS, PIXELS + np.uint8(1)])
    assert sample.where == f"{tmp_path / '0.png'} to {tmp_path / '1.png'}"
    assert "last 1 samples" in source.notes[0]


def test_images_of_different_sizes_make_no_batch(tmp_path: Path) -> None:
    Image.fromarray(PIXELS).save(tmp_path / "a.png")
    Image.fromarray(PIXELS[:2]).save(tmp_path / "b.png")
    with pytest.raises(UserError, match="differ in shape"):
        list(open_source(tmp_path, [InputSpec("x", U1, (2, None, None, 3))]))


@pytest.mark.parametrize("shape", [None, (1, 5, 8, 8), ("N", 10), (1, "C", 8, 8)])
def test_inputs_that_are_no_images(png: Path, shape) -> None:
    with pytest.raises(UserError, match="'x' takes"):
        open_source(png, [InputSpec("x", F4, shape)])


@pytest.mark.parametrize("content", [b"", b"not an image", "half"])
def test_corrupt(png: Path, content) -> None:
    whole = png.read_bytes()
    png.write_bytes(whole[: len(whole) // 2] if content == "half" else content)
    with pytest.raises(UserError, match=r"a\.png' \(input 'x'\) is (not an|a corrupt) image"):
        only(png, InputSpec("x", F4, (1, 3, 4, 6)))


def test_deep_images_are_refused(tmp_path: Path) -> None:
    Image.fromarray(PIXELS[:, :, 0].astype(np.uint16) * 257).save(tmp_path / "a.png")
    with pytest.raises(UserError, match="more than 8 bits"):
        only(tmp_path / "a.png", InputSpec("x", F4, (1, 1, 4, 6)))
