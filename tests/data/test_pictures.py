"""Small pictures of samples as the model is fed them."""

from __future__ import annotations

import base64
import io
from typing import Any

import numpy as np
import onnx.parser
import pytest
from PIL import Image

import onnxq
from onnxq.analysis.reports import OpenedReport
from onnxq.base.plain import to_json
from onnxq.data.pictures import BYTES, Album, PictureSheet, layout_of
from onnxq.data.samples import Sample
from onnxq.page.making import html_of, page_of


def sheet_of(*arrays: np.ndarray) -> PictureSheet:
    album = Album()
    for index, array in enumerate(arrays):
        album.add(Sample(index, f"calib/{index}.png", {"x": array}))
    return album.sheets()[0]


def decoded(png: str) -> np.ndarray:
    return np.asarray(Image.open(io.BytesIO(base64.b64decode(png))))


@pytest.mark.parametrize(
    ("shape", "layout"),
    [((1, 3, 8, 9), "NCHW"), ((4, 1, 28, 28), "NCHW"), ((1, 224, 200, 3), "NHWC"), ((1, 3, 7, 9), None),
     ((1, 16, 8, 8), None), ((3, 8, 8), None), ((0, 3, 8, 8), None)],
)  # fmt: skip
def test_what_looks_like_an_image(shape: tuple[int, ...], layout: str | None) -> None:
    assert layout_of(np.zeros(shape, np.float32)) == layout


def test_pixels_are_those_that_are_fed() -> None:
    """8 x 8 pixels stay as they are, from the least value of all samples to the greatest."""
    dark, light = (np.linspace(low, high, 192, dtype=np.float32).reshape(1, 3, 8, 8)
                   for low, high in ((-2, 0), (0, 2)))  # fmt: skip
    sheet = sheet_of(dark, light)
    assert (sheet.low, sheet.high, sheet.layout, sheet.channels) == (-2.0, 2.0, "NCHW", 3)
    for array, picture in zip((dark, light), sheet.pictures, strict=True):
        want = np.rint((array[0].astype(np.float64).transpose(1, 2, 0) + 2) * 63.75)
        assert np.array_equal(decoded(picture.png), want)
    assert [one.where for one in sheet.pictures] == ["calib/0.png", "calib/1.png"]


def test_large_ones_are_means_of_blocks() -> None:
    random = np.random.default_rng(0)
    array = random.random((1, 128, 256, 1), np.float32)
    picture = sheet_of(array).pictures[0]
    assert (picture.width, picture.height) == (64, 32)
    means = array[0, :, :, 0].astype(np.float64).reshape(32, 4, 64, 4).mean(axis=(1, 3))
    low, high = means.min(), means.max()
    assert np.array_equal(decoded(picture.png), np.rint((means - low) * (255 / (high - low))))


def test_they_are_eight_and_small_even_of_noise() -> None:
    random = np.random.default_rng(0)
    sheet = sheet_of(*(random.standard_normal((1, 3, 96, 96), np.float32) for _ in range(20)))
    assert len(sheet.pictures) == 8
    assert sum(len(one.png) for one in sheet.pictures) <= BYTES
    assert sheet.pictures[0].width >= 24


@pytest.mark.parametrize("value", [0.0, np.float32(3e38), np.nan, np.inf])
def test_what_is_one_value_is_drawn_too(value: float) -> None:
    assert len(sheet_of(np.full((1, 1, 8, 300), value, np.float32)).pictures) == 1


@pytest.fixture(scope="module")
def model() -> onnx.ModelProto:
    return onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 17]> net (float[1, 3, 16, 16] x) => (float[1, 3, 16, 16] y) '
        "{ y = Relu (x) }"
    )


def test_a_report_and_its_page_have_them_unless_they_are_not_wanted(model: onnx.ModelProto) -> None:
    random = np.random.default_rng(1)
    data = [{"x": random.random((1, 3, 16, 16), np.float32)} for _ in range(10)]
    run: dict[str, Any] = {"repair": "none", "method": "minmax", "compile": False}
    report = onnxq.quantize(model, data, **run).report
    assert [len(sheet["pictures"]) for sheet in report["pictures"]] == [8]
    html = html_of(page_of(OpenedReport.made(report)))
    sheet = html[html.index('<figure class="sheet">') :]
    assert sheet[: sheet.index("</figure>")].count('<img src="data:image/png;base64,iVBORw0KGgo') == 8
    assert "pictures are part of" in html
    without = onnxq.quantize(model, data, pictures=False, **run).report
    assert without["pictures"] == []
    assert "<img" not in html_of(page_of(OpenedReport.made(without)))


@pytest.mark.parametrize(
    "png", ['iVBORw0KGgo" onerror="alert(1)', "javascript:alert(1)", "PHN2ZyBvbmxvYWQ9YWxlcnQoMSk+", "", None]
)
def test_what_is_no_picture_is_left_out(png: Any) -> None:
    """A report that somebody made up."""
    sheet = to_json(sheet_of(np.zeros((1, 1, 8, 8), np.float32)))
    sheet["pictures"][0]["png"] = png
    html = html_of(page_of(OpenedReport.of({"schema": 1, "onnxq": "0.1.0", "pictures": [sheet]})))
    assert "<img" not in html
    assert "onerror" not in html
