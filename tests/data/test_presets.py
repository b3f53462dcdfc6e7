"""Presets: the values and sizes that they give, and what the user's own options change."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from onnxq.base.errors import UserError
from onnxq.data.image_options import ImageOptions, image_options
from onnxq.data.images import Preparation, prepare
from onnxq.data.samples import InputSpec
from onnxq.data.sources import open_source

F4, U1 = np.dtype(np.float32), np.dtype(np.uint8)
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
PHOTO = np.random.default_rng(0).integers(0, 256, (60, 90, 3), dtype=np.uint8)


def nchw(height: int | str, width: int | str, channels: int = 3, dtype: np.dtype = F4) -> InputSpec:
    return InputSpec("x", dtype, ("N", channels, height, width))


def prepared(spec: InputSpec, **options: object) -> Preparation:
    made = image_options(options)
    assert made is not None
    return prepare(spec, made)


@pytest.fixture
def photo(tmp_path: Path) -> Path:
    Image.fromarray(PHOTO).save(tmp_path / "a.png")
    return tmp_path / "a.png"


def fed(path: Path, spec: InputSpec, **options: object) -> np.ndarray:
    (sample,) = open_source(path, [spec], options=image_options(options))
    return sample.feeds["x"][0].astype(np.float64).transpose(1, 2, 0)


def pillow(width: int, height: int) -> np.ndarray:
    small = Image.fromarray(PHOTO).resize((width, height), Image.Resampling.BILINEAR)
    return np.asarray(small).astype(np.float64)


class TestValues:
    def test_imagenet(self, photo: Path) -> None:
        """A shorter side of 256/224 of the input's, its center, ImageNet's mean and std."""
        values = fed(photo, nchw(28, 28), preset="imagenet")
        center = pillow(48, 32)[2:30, 10:38]
        np.testing.assert_allclose(values, (center / 255 - MEAN) / STD, rtol=1e-5, atol=1e-6)

    def test_yolo(self, photo: Path) -> None:
        values = fed(photo, nchw(30, 30), preset="yolo")
        np.testing.assert_allclose(values[5:25], pillow(30, 20) / 255, rtol=1e-6)
        np.testing.assert_allclose(values[:5], 114 / 255, rtol=1e-6)

    def test_tensorflow(self, photo: Path) -> None:
        values = fed(photo, nchw(60, 90), preset="tensorflow")
        np.testing.assert_allclose(values, PHOTO / 127.5 - 1, rtol=1e-5, atol=1e-6)
        assert prepared(nchw(60, 90), preset="tensorflow").told().range == (-1, 1)

    @pytest.mark.parametrize("dtype", [F4, U1])
    def test_raw(self, photo: Path, dtype: np.dtype) -> None:
        np.testing.assert_array_equal(fed(photo, nchw(60, 90, dtype=dtype), preset="raw"), PHOTO)

    def test_mean_and_std_follow_the_colors(self, photo: Path) -> None:
        """Those of red are taken from red, wherever it is."""
        spec = nchw(28, 28)
        rgb, bgr = (fed(photo, spec, preset="imagenet", color=color) for color in ("rgb", "bgr"))
        np.testing.assert_array_equal(bgr, rgb[..., ::-1])


class TestSizes:
    @pytest.mark.parametrize(
        ("height", "width", "resize", "crop"),
        [
            (224, 224, 256, (224, 224)), (299, 299, 342, (299, 299)), (32, 32, 37, (32, 32)),
            ("H", "W", 256, (224, 224)), (160, "W", 183, (160, 160)), (256, 128, 293, (128, 256)),
        ],
    )  # fmt: skip
    def test_imagenet_of_an_input(self, height, width, resize: int, crop: tuple[int, int]) -> None:
        made = prepared(nchw(height, width), preset="imagenet")
        assert (made.resize, made.crop, made.letterbox) == (resize, crop, False)

    @pytest.mark.parametrize(
        ("options", "resize", "crop", "letterbox"),
        [
            ({"preset": "imagenet", "crop": (192, 192)}, 219, (192, 192), False),
            ({"preset": "imagenet", "resize": 232}, 232, (224, 224), False),
            ({"preset": "imagenet", "resize": (300, 300)}, (300, 300), (224, 224), False),
            ({"preset": "imagenet", "letterbox": True, "resize": (64, 64)}, (64, 64), None, True),
            ({"preset": "yolo", "resize": (640, 384)}, (640, 384), None, True),
            ({"preset": "yolo", "resize": 256}, 256, None, False),
            ({"preset": "yolo", "crop": (64, 64)}, None, (64, 64), False),
            ({"preset": "yolo", "resize": 256, "crop": (64, 64)}, 256, (64, 64), False),
            ({"preset": "yolo", "letterbox": False, "resize": (64, 64)}, (64, 64), None, False),
        ],
    )
    def test_what_the_user_says_wins(self, options, resize, crop, letterbox: bool) -> None:
        made = prepared(nchw("H", "W"), **options)
        assert (made.resize, made.crop, made.letterbox) == (resize, crop, letterbox)

    def test_letterbox_needs_a_size(self) -> None:
        with pytest.raises(UserError, match="no fixed width and height"):
            prepared(nchw("H", "W"), preset="yolo")


class TestChoices:
    def test_values_that_the_user_says_win(self) -> None:
        """Also those that are the defaults without a preset."""
        made = prepared(nchw(8, 8), preset="imagenet", mean=0, scale=1)
        assert (made.scale, made.mean, made.std) == (1, (0,), STD)
        made = prepared(nchw(8, 8), preset="raw", color="bgr", mean=(103.939, 116.779, 123.68))
        assert (made.scale, made.mean, made.color) == (1, (103.939, 116.779, 123.68), "bgr")

    def test_it_is_recorded(self) -> None:
        assert prepared(nchw(8, 8), preset="yolo").told().preset == "yolo"
        assert prepare(nchw(8, 8), ImageOptions()).told().preset is None

    def test_an_unknown_one(self) -> None:
        with pytest.raises(UserError, match="no preset 'imagnet'") as caught:
            ImageOptions(preset="imagnet")
        assert "'imagenet'" in caught.value.hint
        with pytest.raises(UserError) as caught:
            ImageOptions(preset="foo")
        assert caught.value.hint.endswith("imagenet, raw, tensorflow, yolo")

    @pytest.mark.parametrize("preset", ["imagenet", "yolo", "tensorflow"])
    def test_an_integer_input(self, preset: str) -> None:
        with pytest.raises(UserError, match=f"'x' is uint8: preset {preset} is for float inputs") as caught:
            prepared(nchw(8, 8, dtype=U1), preset=preset)
        assert "preset raw" in caught.value.hint

    def test_a_gray_input(self) -> None:
        with pytest.raises(UserError, match="mean of preset imagenet has 3 values, input 'x' has 1 channel"):
            prepared(nchw(8, 8, 1), preset="imagenet")
        made = prepared(nchw(8, 8, 1), preset="imagenet", mean=0.449, std=0.226)
        assert (made.color, made.mean) == ("gray", (0.449,))

    def test_arrays(self) -> None:
        with pytest.raises(UserError, match="preset: for images, but the data are arrays"):
            open_source({"x": np.zeros((1, 3, 8, 8))}, [nchw(8, 8)], options=ImageOptions(preset="raw"))


@pytest.mark.parametrize(
    "options",
    [
        {}, {"preset": "imagenet"}, {"preset": "imagenet", "color": "bgr"}, {"preset": "tensorflow"},
        {"preset": "raw", "mean": (103.939, 116.779, 123.68), "color": "bgr"},
    ],
)  # fmt: skip
@pytest.mark.parametrize("spec", [nchw(60, 60), InputSpec("x", F4, (60, 60, 3))], ids=["NCHW", "HWC"])
def test_pixels_undo_what_decode_did(photo: Path, spec: InputSpec, options) -> None:
    made = prepared(spec, **options, resize=60, crop=(60, 60))
    pixels = made.pixels(made.decode(photo, lambda text: None))
    np.testing.assert_allclose(pixels, PHOTO[:, 15:75], atol=1e-3)
