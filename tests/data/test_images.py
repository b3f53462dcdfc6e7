"""Images as model inputs: layout, channels, range, size, orientation, and what is refused."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from said import is_said

from onnxq.base.errors import UserError
from onnxq.data.image_options import ImageOptions, image_options
from onnxq.data.images import prepare
from onnxq.data.samples import InputSpec
from onnxq.data.sources import open_source

F4, U1 = np.dtype(np.float32), np.dtype(np.uint8)
PIXELS = np.random.default_rng(0).integers(0, 256, (4, 6, 3), dtype=np.uint8)
PHOTO = np.random.default_rng(1).integers(0, 256, (30, 45, 3), dtype=np.uint8)


@pytest.fixture
def png(tmp_path: Path) -> Path:
    return save(tmp_path, PIXELS)


@pytest.fixture
def photo(tmp_path: Path) -> Path:
    return save(tmp_path, PHOTO)


def save(folder: Path, pixels: np.ndarray, name: str = "a.png") -> Path:
    Image.fromarray(pixels).save(folder / name)
    return folder / name


def only(path: Path, spec: InputSpec, **options: object) -> np.ndarray:
    (sample,) = open_source(path, [spec], options=image_options(options))
    return sample.feeds[spec.name]


def pillow(pixels: np.ndarray, width: int, height: int) -> np.ndarray:
    return np.asarray(Image.fromarray(pixels).resize((width, height), Image.Resampling.BILINEAR))


def nhwc(height: int | str, width: int | str, dtype: np.dtype = U1) -> InputSpec:
    return InputSpec("x", dtype, (1, height, width, 3))


class TestValues:
    def test_layouts(self, png: Path) -> None:
        scaled = PIXELS.astype(np.float64) / 255
        nchw = only(png, InputSpec("x", F4, ("N", 3, 4, 6)))
        chw = only(png, InputSpec("x", F4, (3, None, None)))
        hwc = only(png, InputSpec("x", F4, (4, 6, 3)))
        assert nchw.dtype == F4
        np.testing.assert_allclose(nchw, scaled.transpose(2, 0, 1)[None], rtol=2e-7)
        np.testing.assert_allclose(only(png, nhwc(4, 6, F4)), scaled[None], rtol=2e-7)
        np.testing.assert_array_equal(chw, nchw[0])
        np.testing.assert_allclose(hwc, scaled, rtol=2e-7)

    def test_a_half_input(self, png: Path) -> None:
        values = only(png, nhwc(4, 6, np.dtype(np.float16)), std=0.5)
        assert values.dtype == np.float16
        np.testing.assert_allclose(values[0], PIXELS / 127.5, rtol=2**-11 * 1.01)

    def test_an_integer_input_takes_pixels(self, png: Path) -> None:
        spec = InputSpec("x", U1, ("N", "H", "W", 3))
        np.testing.assert_array_equal(only(png, spec), PIXELS[None])
        np.testing.assert_array_equal(only(png, spec, color="bgr"), PIXELS[None, ..., ::-1])
        for options in ({"mean": 1.0}, {"scale": 1 / 255}, {"std": 2}):
            with pytest.raises(UserError, match="float inputs"):
                only(png, spec, **options)

    def test_imagenet(self, png: Path) -> None:
        """(x * scale - mean) / std, of each channel."""
        mean, std = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
        values = only(png, InputSpec("x", F4, (1, 3, 4, 6)), scale=1 / 255, mean=mean, std=std)
        expected = np.empty((3, 4, 6))
        for channel in range(3):
            expected[channel] = (PIXELS[:, :, channel] / 255.0 - mean[channel]) / std[channel]
        np.testing.assert_allclose(values[0], expected, rtol=1e-5, atol=1e-6)

    def test_caffe(self, png: Path) -> None:
        """BGR from 0 to 255 less a mean, which is in the order of the channels of the input."""
        mean = [103.939, 116.779, 123.68]
        values = only(png, InputSpec("x", F4, (1, 3, 4, 6)), color="bgr", scale=1, mean=mean)
        for channel, (source, less) in enumerate(zip((2, 1, 0), mean, strict=True)):
            np.testing.assert_allclose(values[0, channel], PIXELS[:, :, source] - less, rtol=1e-6, atol=1e-5)

    def test_one_value_for_all_channels(self, png: Path) -> None:
        values = only(png, nhwc(4, 6, F4), scale=1, mean=127.5, std=127.5)
        np.testing.assert_allclose(values[0], PIXELS / 127.5 - 1, rtol=1e-6, atol=1e-6)

    def test_gray(self, png: Path, tmp_path: Path) -> None:
        gray = np.arange(24, dtype=np.uint8).reshape(4, 6) * 10
        spec = InputSpec("x", F4, ("N", 1, 4, 6))
        np.testing.assert_allclose(only(save(tmp_path, gray, "g.png"), spec)[0, 0], gray / 255, rtol=2e-7)
        luma = PIXELS.astype(float) @ (0.299, 0.587, 0.114)  # ITU-R 601
        np.testing.assert_allclose(only(png, spec, color="gray")[0, 0] * 255, luma, atol=1)
        spread = only(tmp_path / "g.png", nhwc(4, 6))
        np.testing.assert_array_equal(spread[0], np.stack([gray] * 3, -1))


class TestSizes:
    def test_a_stretch_is_antialiased(self, tmp_path: Path) -> None:
        board = (np.indices((64, 64)).sum(0) % 2 * 255).astype(np.uint8)
        values = only(save(tmp_path, board), InputSpec("x", F4, ("N", 1, 8, 16)))
        assert values.shape == (1, 1, 8, 16)
        assert np.abs(values - 0.5).max() < 0.05  # without antialiasing: 0 or 1

    def test_own_size_where_dynamic(self, photo: Path) -> None:
        np.testing.assert_array_equal(only(photo, nhwc("H", "W"))[0], PHOTO)
        np.testing.assert_array_equal(only(photo, nhwc(20, "W"))[0], pillow(PHOTO, 45, 20))

    def test_resize_is_width_and_height(self, photo: Path) -> None:
        np.testing.assert_array_equal(only(photo, nhwc("H", "W"), resize=[20, 10])[0], pillow(PHOTO, 20, 10))

    @pytest.mark.parametrize("turned", [False, True])
    def test_shorter_side_and_center(self, tmp_path: Path, turned: bool) -> None:
        pixels = PHOTO.transpose(1, 0, 2) if turned else PHOTO  # 45 x 30: a shorter side of 16 gives 24 x 16
        values = only(save(tmp_path, np.ascontiguousarray(pixels)), nhwc(10, 12), resize=16, crop=(12, 10))
        resized = pillow(np.ascontiguousarray(pixels), *((16, 24) if turned else (24, 16)))
        top, left = (7, 2) if turned else (3, 6)
        np.testing.assert_array_equal(values[0], resized[top : top + 10, left : left + 12])

    def test_the_longer_side_is_rounded_down(self, tmp_path: Path) -> None:
        path = save(tmp_path, np.zeros((30, 44, 3), np.uint8))
        assert only(path, nhwc("H", "W"), resize=17).shape == (1, 17, 24, 3)  # 17 * 44 / 30 = 24.9

    def test_crop_alone(self, photo: Path) -> None:
        np.testing.assert_array_equal(only(photo, nhwc(30, 15), crop=(15, 30))[0], PHOTO[:, 15:30])

    @pytest.mark.parametrize(("width", "height"), [(64, 64), (33, 20), (20, 64), (90, 61)])
    def test_letterbox(self, photo: Path, width: int, height: int) -> None:
        """45 x 30 inside a frame, both ways: scaled by one factor, in the middle of gray 114."""
        values = only(photo, nhwc(height, width), letterbox=True)[0]
        ratio = min(width / 45, height / 30)
        inner_width, inner_height = round(45 * ratio), round(30 * ratio)
        assert (inner_width, inner_height) in ((width, round(width / 1.5)), (round(height * 1.5), height))
        expected = np.full((height, width, 3), 114, np.uint8)
        top, left = (height - inner_height) // 2, (width - inner_width) // 2
        expected[top : top + inner_height, left : left + inner_width] = pillow(
            PHOTO, inner_width, inner_height
        )
        np.testing.assert_array_equal(values, expected)

    def test_letterbox_of_a_size_that_the_input_leaves_open(self, photo: Path) -> None:
        values = only(photo, InputSpec("x", F4, ("N", 3, None, None)), letterbox=True, resize=(50, 50))
        assert values.shape == (1, 3, 50, 50)
        np.testing.assert_allclose(values[0, :, 0, 0], 114 / 255, rtol=1e-6)  # padded, then scaled
        with pytest.raises(UserError, match="no fixed width and height"):
            only(photo, InputSpec("x", F4, ("N", 3, None, 50)), letterbox=True)

    @pytest.mark.parametrize(
        "options", [{"crop": (5, 4)}, {"resize": (4, 6)}, {"resize": (9, 9), "crop": (4, 6)}]
    )
    def test_sizes_that_cannot_fit_are_refused_before_an_image_is_read(self, options, tmp_path: Path) -> None:
        (tmp_path / "a.png").write_bytes(b"no image")
        with pytest.raises(UserError, match=r"input 'x' takes 6x4"):
            open_source(tmp_path, [nhwc(4, 6)], options=image_options(options))

    def test_sizes_that_do_not_fit(self, photo: Path) -> None:
        with pytest.raises(UserError, match=r"becomes 24x16 .* takes 16x16") as caught:
            only(photo, nhwc(16, 16), resize=16)
        assert "crop" in caught.value.hint
        with pytest.raises(UserError, match=r"is 45x30 .* smaller than the crop 46x20"):
            only(photo, nhwc(20, 46), crop=(46, 20))


class TestFiles:
    def test_exif_orientation(self, tmp_path: Path) -> None:
        exif = Image.Exif()
        exif[0x0112] = 6  # to be turned clockwise
        Image.fromarray(PIXELS).save(tmp_path / "a.png", exif=exif)
        values = only(tmp_path / "a.png", nhwc("H", "W"))
        np.testing.assert_array_equal(values[0], np.rot90(PIXELS, -1))

    def test_transparency_is_dropped(self, tmp_path: Path) -> None:
        image = Image.fromarray(PIXELS)
        image.putalpha(128)
        image.save(tmp_path / "a.png")
        np.testing.assert_array_equal(only(tmp_path / "a.png", nhwc(4, 6))[0], PIXELS)

    def test_a_palette(self, tmp_path: Path) -> None:
        few = PIXELS // 128 * 255
        image = Image.fromarray(few).convert("P", palette=Image.Palette.ADAPTIVE, colors=16)
        image.save(tmp_path / "a.png", transparency=bytes(16))
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # as Pillow would warn of the transparency
            np.testing.assert_array_equal(only(tmp_path / "a.png", nhwc(4, 6))[0], few)

    def test_cmyk(self, tmp_path: Path) -> None:
        ink = np.zeros((4, 6, 4), np.uint8)
        ink[:, :3, 0] = 255  # cyan beside white
        Image.fromarray(ink, "CMYK").save(tmp_path / "a.tif")
        values = only(tmp_path / "a.tif", nhwc(4, 6))[0]
        assert (values[:, :3] == (0, 255, 255)).all()
        assert (values[:, 3:] == 255).all()

    def test_one_bit(self, tmp_path: Path) -> None:
        bits = np.indices((4, 6)).sum(0) % 2 == 1
        values = only(save(tmp_path, bits), InputSpec("x", U1, (1, 1, 4, 6)))
        np.testing.assert_array_equal(values[0, 0], bits * 255)

    def test_the_first_frame_of_several(self, tmp_path: Path) -> None:
        black, white = (Image.new("RGB", (6, 4), color) for color in ("black", "white"))
        black.save(tmp_path / "a.gif", save_all=True, append_images=[white])
        source = open_source(tmp_path, [nhwc(4, 6)])
        (sample,) = source
        assert not sample.feeds["x"].any()
        assert source.notes == ["of images with several frames or pages, the first one is taken"]

    def test_deep_images_are_refused(self, tmp_path: Path) -> None:
        save(tmp_path, PIXELS[:, :, 0].astype(np.uint16) * 257)
        with pytest.raises(UserError, match="more than 8 bits"):
            only(tmp_path, InputSpec("x", F4, (1, 1, 4, 6)))

    @pytest.mark.parametrize("content", [b"", b"not an image", "half"])
    @pytest.mark.parametrize("suffix", ["png", "jpg"])
    def test_corrupt(self, tmp_path: Path, content, suffix: str) -> None:
        path = save(tmp_path, PHOTO, f"a.{suffix}")
        whole = path.read_bytes()
        path.write_bytes(whole[: len(whole) // 2] if content == "half" else content)
        with pytest.raises(UserError, match=rf"a\.{suffix}' \(input 'x'\) is (not an|a corrupt) image"):
            only(path, InputSpec("x", F4, (1, 3, 4, 6)))


class TestBatches:
    def test_the_last_batch_is_completed(self, tmp_path: Path) -> None:
        for index in range(3):
            save(tmp_path, PIXELS + np.uint8(index), f"{index}.png")
        source = open_source(tmp_path, [InputSpec("x", U1, (2, 4, 6, 3))])
        first, last = source
        np.testing.assert_array_equal(first.feeds["x"], [PIXELS, PIXELS + np.uint8(1)])
        np.testing.assert_array_equal(last.feeds["x"], [PIXELS + np.uint8(2)] * 2)
        assert first.where == f"{tmp_path / '0.png'} to {tmp_path / '1.png'}"
        assert is_said(source.notes[0], "decided-by-order.completed", samples=1)

    def test_images_of_different_sizes_make_no_batch(self, tmp_path: Path) -> None:
        save(tmp_path, PIXELS)
        save(tmp_path, PIXELS[:2], "b.png")
        with pytest.raises(UserError, match="differ in shape"):
            list(open_source(tmp_path, [InputSpec("x", U1, (2, None, None, 3))]))


class TestRefusals:
    @pytest.mark.parametrize("shape", [None, (1, 5, 8, 8), ("N", 10), (1, "C", 8, 8), (1, 4, 8, 8)])
    def test_inputs_that_are_no_images(self, png: Path, shape) -> None:
        with pytest.raises(UserError, match="'x' takes"):
            open_source(png, [InputSpec("x", F4, shape)])

    @pytest.mark.parametrize(
        ("channels", "options", "words"),
        [
            (3, {"mean": (0.0, 0.1)}, "mean has 2 values, input 'x' has 3 channels"),
            (1, {"std": (1.0, 1.0, 2.0)}, "std has 3 values, input 'x' has 1 channel"),
            (3, {"color": "gray"}, "color gray has 1 channel, input 'x' takes 1x4x6x3"),
            (1, {"color": "bgr"}, "color bgr has 3 channels, input 'x' takes 1x4x6x1"),
        ],
    )
    def test_channels(self, png: Path, channels: int, options, words: str) -> None:
        with pytest.raises(UserError, match=words) as caught:
            open_source(png, [InputSpec("x", F4, (1, 4, 6, channels))], options=image_options(options))
        assert caught.value.hint

    @pytest.mark.parametrize(
        "options",
        [
            {"std": 0}, {"std": (1, -1, 1)}, {"std": ()}, {"scale": 0}, {"scale": float("nan")},
            {"mean": "0.5"}, {"mean": (float("inf"),)}, {"color": "rbg"}, {"crop": 224}, {"crop": (0, 4)},
            {"resize": 0}, {"resize": (1, 2, 3)}, {"resize": 2.5}, {"letterbox": True, "crop": (4, 4)},
            {"letterbox": True, "resize": 4}, {"means": 0.5}, {"mean": 3.5e38}, {"scale": 10**400},
            {"mean": (0, -1e39)}, {"std": 1e-39}, {"scale": -1e-50},
        ],
    )  # fmt: skip
    def test_options_that_make_no_sense(self, options) -> None:
        with pytest.raises(UserError) as caught:
            image_options(options)
        assert caught.value.hint

    @pytest.mark.parametrize("name", ["resize", "crop"])
    def test_sides_have_a_limit(self, name: str) -> None:
        """Nothing is allocated: the size of the memory is not known."""
        image_options({name: (32768, 32768)})
        for size in ((32769, 1), (1, 10**6)):
            with pytest.raises(UserError, match=f"{name} to {max(size)} pixels: a side has 32768 at most"):
                image_options({name: size})
        with pytest.raises(UserError, match="resize to 1000000 pixels"):
            image_options({"resize": 10**6})

    def test_a_strip_that_would_become_too_long(self, tmp_path: Path) -> None:
        save(tmp_path, np.zeros((1, 200, 3), np.uint8))
        assert only(tmp_path / "a.png", nhwc("H", "W"), resize=10).shape == (1, 10, 2000, 3)
        with pytest.raises(UserError, match=r"a.png.* 200x1 .* the other one has 40000 pixels") as caught:
            only(tmp_path / "a.png", nhwc("H", "W"), resize=200)
        assert "--skip-bad" in caught.value.hint

    @pytest.mark.parametrize("options", [{"scale": 2e36}, {"std": 1e-37, "scale": 1, "mean": 100}])
    def test_values_that_float32_does_not_hold(self, options, png: Path) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            with pytest.raises(
                UserError, match=r"input 'x' would be fed values from .* too large for float32"
            ):
                only(png, nhwc(4, 6, F4), **options)
            only(png, nhwc(4, 6, F4), scale=1e36)

    def test_options_for_arrays(self, tmp_path: Path) -> None:
        np.save(tmp_path / "a.npy", np.zeros((1, 3, 4, 6), np.float32))
        spec = InputSpec("x", F4, ("N", 3, 4, 6))
        options = ImageOptions(mean=(0.5,), letterbox=True)
        for data in (tmp_path, tmp_path / "a.npy", {"x": np.zeros((1, 3, 4, 6))}, iter([])):
            with pytest.raises(UserError, match=r"mean, letterbox: for images, but the data are arrays"):
                list(open_source(data, [spec], options=options))


def test_what_the_model_is_fed_is_told() -> None:
    options = ImageOptions(mean=(0.5, 0.25, 0.5), std=(0.5,), resize=256, crop=(224, 200), color="bgr")
    assert prepare(InputSpec("x", F4, ("N", 3, 200, 224)), options).told().to_dict() == {
        "input": "x", "dtype": "float32", "layout": "NCHW", "color": "bgr",
        "size": "shorter side resized to 256, center 224x200 cut out",
        "scale": 1 / 255, "mean": [0.5, 0.25, 0.5], "std": [0.5], "range": [-1.0, 1.5], "preset": None,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("shape", "options", "words"),
    [
        ((1, 3, 4, 6), {}, "stretched to 6x4"),
        ((1, 3, None, None), {}, "each image in its own size"),
        ((1, 3, 4, 6), {"letterbox": True}, "letterboxed to 6x4 with gray 114"),
        ((1, 3, None, None), {"resize": (8, 9)}, "stretched to 8x9"),
        ((1, 3, 9, None), {"crop": (7, 9)}, "center 7x9 cut out"),
    ],
)
def test_sizes_in_words(shape, options, words: str) -> None:
    made = prepare(InputSpec("x", F4, shape), image_options(options) or ImageOptions())
    assert made.told().size == words
