"""Outputs that are pictures: which they are, and that what is drawn are the outputs."""

from __future__ import annotations

import base64
import io
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.parser
import pytest
from PIL import Image

import onnxq
from onnxq.analysis.reports import OpenedReport
from onnxq.graph.model import Model
from onnxq.page.making import html_of, page_of
from onnxq.run import ort
from onnxq.task.known import KnownTask
from onnxq.task.output_pictures import BYTES, SAMPLES, OutputAlbum, OutputPictures, class_colors
from onnxq.task.pictured import PicturedOutput, pictured_outputs

SAMPLE_MODELS = Path(__file__).resolve().parents[2] / "sample_models"
RUN: dict[str, Any] = {"repair": "none", "method": "minmax", "compile": False, "layer_samples": 0}


def decoded(png: str) -> np.ndarray:
    return np.asarray(Image.open(io.BytesIO(base64.b64decode(png))))


def model_of(inputs: str, outputs: str, body: str = "y = Relu (x)") -> Model:
    text = f'<ir_version: 8, opset_import: ["" : 17]> net ({inputs}) => ({outputs}) {{ {body} }}'
    return Model.open(onnx.parser.parse_model(text))


def kinds_of(model: Model, text: str = "") -> dict[str, str]:
    names = [tensor.name for tensor in model.outputs]
    layout = KnownTask.of(None, model, names).layout
    return {one.output: one.kind for one in pictured_outputs(model, names, layout)}


PICTURE = "float[N, 3, 64, 96] x"


@pytest.mark.parametrize(
    ("inputs", "outputs", "body", "kinds"),
    [
        (PICTURE, "float[N, 3, H, W] y", "y = Relu (x)", {"y": "image"}),
        (PICTURE, "float[N, 1, 16, 24] y", "y = Relu (x)", {"y": "map"}),
        (PICTURE, "float[N, 64, 96] y", "y = Relu (x)", {"y": "map"}),
        ("float[N, 64, 96, 3] x", "float[N, 64, 96, 4] y", "y = Relu (x)", {"y": "image"}),
        (PICTURE, "float[N, 17, 16, 24] y", "y = Sigmoid (x)", {"y": "heat"}),
        (PICTURE, "float[N, 17, 16, 24] heatmaps", "heatmaps = Relu (x)", {"heatmaps": "heat"}),
        (PICTURE, "float[N, 17, 16, 24] y", "y = Relu (x)", {}),  # features
        (PICTURE, "int64[N, 64, 96] y", "y = ArgMax <axis = 1, keepdims = 0> (x)", {"y": "classes"}),
        (PICTURE, "float[N, 21, 64, 96] y", "y = Relu (x)", {"y": "classes"}),
        (PICTURE, "float[N, 2, 64, 96] y", "y = Relu (x)", {}),
        (PICTURE, "float[N, 1000] y", "y = Relu (x)", {}),
        ("float[N, 128] x", "float[N, 3, 64, 96] y", "y = Relu (x)", {}),  # of no picture
        ("int64[N, T] ids, float[N, 4, 32, 64] k", "float[N, 4, 32, 64] y", "y = Relu (k)", {}),  # keys
        ("float[N, 4, T, 64] x, float[N, 4, 1, 64] n", "float[N, 4, P, 64] y",
         "y = Concat <axis = 2> (x, n)", {}),
    ],
)  # fmt: skip
def test_which_outputs_may_be_pictures(inputs: str, outputs: str, body: str, kinds: dict[str, str]) -> None:
    assert kinds_of(model_of(inputs, outputs, body)) == kinds


@pytest.mark.parametrize(
    ("kind", "axis", "shape", "fits"),
    [
        ("image", 1, (1, 3, 64, 96), True), ("image", 1, (1, 3, 128, 192), True),
        ("image", 1, (1, 3, 32, 48), False),  # three anchors, say
        ("image", 1, (1, 3, 96, 64), False), ("image", 1, (1, 3, 65, 97), False),
        ("map", 1, (1, 1, 16, 24), True), ("map", 1, (1, 1, 8, 12), False), ("map", 1, (1, 1, 16, 16), False),
        ("map", None, (1, 64, 96), True), ("map", None, (1, 64), False), ("heat", 1, (1, 17, 16, 24), True),
    ],
)  # fmt: skip
def test_sizes_go_with_those_of_the_picture_that_is_fed(
    kind: Any, axis: int | None, shape: tuple[int, ...], fits: bool
) -> None:
    (found,) = pictured_outputs(model_of(PICTURE, "float[N, 3, H, W] y"), ["y"], None)
    one = PicturedOutput("y", kind, "", axis, found.beside)
    assert one.fits(shape, (1, 3, 64, 96)) is fits


def drawn(model: Model, pairs: list[tuple[np.ndarray, np.ndarray]], fed: tuple[int, ...]) -> OutputPictures:
    names = [tensor.name for tensor in model.outputs]
    album = OutputAlbum(names, pictured_outputs(model, names, KnownTask.of(None, model, names).layout))
    for ours, theirs in pairs:
        album.add([ours], [[theirs]], {"x": np.zeros(fed, np.float32)})
    (sheet,) = album.sheets()
    return sheet


def test_the_worst_of_numbers_come_first_in_the_colors_of_float() -> None:
    model = model_of(PICTURE, "float[N, 3, 64, 96] y")
    random = np.random.default_rng(0)
    exact = [random.random((1, 3, 64, 96), np.float32) for _ in range(5)]
    noisy = [one + np.float32(off) for one, off in zip(exact, (0.1, 0, 0.4, 0.2, 0.3), strict=True)]
    sheet = drawn(model, list(zip(exact, noisy, strict=True)), (1, 3, 64, 96))
    assert [one.where for one in sheet.pictures] == ["sample 2", "sample 4", "sample 3"]
    assert (sheet.samples, sheet.channels, len(sheet.pictures)) == (5, 3, SAMPLES)
    assert sheet.most == pytest.approx(0.4)
    worst = sheet.pictures[0]
    a, b = (one[2][0].astype(np.float64).transpose(1, 2, 0) for one in (exact, noisy))
    assert worst.sqnr_db == pytest.approx(10 * np.log10((a**2).sum() / ((b - a) ** 2).sum()))
    step = -(-96 // worst.width)
    assert step * worst.width == 96

    def small(value: np.ndarray) -> np.ndarray:
        blocks: np.ndarray = value.reshape(64 // step, step, 96 // step, step, -1).mean(axis=(1, 3))
        return blocks

    low, high = sheet.low or 0.0, sheet.high or 0.0
    for png, value in ((worst.reference, a), (worst.result, b)):
        want = np.clip((small(value) - low) * 255 / (high - low), 0, 255)
        assert np.abs(decoded(png) - want).max() < 0.51
    assert np.array_equal(decoded(worst.difference), np.full((64 // step, 96 // step), 255))


def test_classes_have_a_color_each_and_where_they_change_is_white() -> None:
    model = model_of(PICTURE, "int64[N, 64, 96] y", "y = ArgMax <axis = 1, keepdims = 0> (x)")
    labels = np.random.default_rng(0).integers(0, 20, (1, 64, 96))
    other = labels.copy()
    other[0, 10, 20] += 1
    other[0, 63, 95] += 1
    sheet = drawn(model, [(labels, labels), (labels, other)], (1, 3, 64, 96))
    (one,) = sheet.pictures  # the first is equal
    assert (one.where, one.changed, one.sqnr_db) == ("sample 1", pytest.approx(2 / (64 * 96)), None)
    assert (sheet.kind, sheet.low, sheet.most, sheet.samples) == ("classes", None, None, 2)
    colors = np.reshape(class_colors(), (256, 3))
    assert len(np.unique(colors, axis=0)) == 256
    picture = Image.open(io.BytesIO(base64.b64decode(one.reference))).convert("RGB")
    assert np.array_equal(np.asarray(picture), colors[labels[0]])
    assert np.array_equal(decoded(one.difference), (labels != other)[0] * 255)


def test_four_channels_are_a_quarter_each_and_heat_is_the_greatest() -> None:
    four = np.random.default_rng(0).random((1, 4, 64, 96), np.float32)
    sheet = drawn(model_of(PICTURE, "float[N, 4, 64, 96] y"), [(four, four + 1)], (1, 3, 64, 96))
    assert (sheet.kind, sheet.channels) == ("image", 4)
    assert (sheet.pictures[0].width, sheet.pictures[0].height) == (192, 128)
    low, high = float(four.min()), float(four.max())
    quarter = decoded(sheet.pictures[0].reference)[64:, :96]
    assert np.abs(quarter - (four[0, 2] - low) * 255 / (high - low)).max() < 0.51
    heat = np.random.default_rng(0).random((1, 17, 16, 24), np.float32)
    off = heat.copy()
    off[0, 5, 3, 4] += 2  # in one channel
    sheet = drawn(
        model_of(PICTURE, "float[N, 17, 16, 24] y", "y = Sigmoid (x)"), [(heat, off)], (1, 3, 64, 96)
    )
    (one,) = sheet.pictures
    assert (decoded(one.difference) > 0).sum() == 1
    assert decoded(one.difference)[3, 4] == 255
    most = heat[0].max(0)
    assert np.abs(decoded(one.reference) - (most - most.min()) * 255 / (most.max() - most.min())).max() < 0.51


def test_nan_is_white_in_the_difference_and_comes_first() -> None:
    value = np.linspace(0, 1, 64 * 96, dtype=np.float32).reshape(1, 64, 96)
    broken = value + np.float32(0.01)
    broken[0, 5, 7] = np.nan
    pairs = [(value, value + np.float32(0.5)), (value, broken)]
    sheet = drawn(model_of(PICTURE, "float[N, 64, 96] y"), pairs, (1, 3, 64, 96))
    assert [one.where for one in sheet.pictures] == ["sample 1", "sample 0"]
    assert sheet.pictures[0].sqnr_db == -np.inf
    assert decoded(sheet.pictures[0].difference)[5, 7] == 255
    assert decoded(sheet.pictures[0].difference)[5, 8] < 10


def test_noise_is_small_too() -> None:
    """Four outputs of three samples of noise, which PNG does not pack: the page grows by 300 kB at most."""
    names = [f"y{place}" for place in range(6)]
    outputs = ", ".join(f"float[N, 3, 512, 512] {name}" for name in names)
    model = model_of("float[N, 3, 512, 512] x", outputs, " ".join(f"{name} = Relu (x)" for name in names))
    random = np.random.default_rng(0)
    album = OutputAlbum(names, pictured_outputs(model, names, None))
    for _ in range(SAMPLES):
        some = [random.random((1, 3, 512, 512), np.float32) for _ in range(2)]
        album.add([some[0]] * 6, [[some[1]] * 6], {"x": some[0]})
    sheets = album.sheets()
    assert [len(sheet.pictures) for sheet in sheets] == [SAMPLES] * 4
    pngs = [png for s in sheets for p in s.pictures for png in (p.reference, p.result, p.difference)]
    assert BYTES / 4 < sum(map(len, pngs)) <= BYTES
    report = {"schema": 6, "onnxq": "0", "output_pictures": [sheet.to_dict() for sheet in sheets]}
    bare = html_of(page_of(OpenedReport.of({"schema": 6, "onnxq": "0"})))
    assert len(html_of(page_of(OpenedReport.of(report)))) - len(bare) < 300_000


@pytest.fixture(scope="module")
def stereo(tmp_path_factory: pytest.TempPathFactory) -> tuple[onnxq.Result, dict[str, np.ndarray]]:
    with np.load(SAMPLE_MODELS / "stereo" / "calib.npz") as file:
        arrays = {name: file[name] for name in ("left", "right")}
    folder = tmp_path_factory.mktemp("stereo")
    np.savez(folder / "some.npz", **arrays)
    result = onnxq.quantize(SAMPLE_MODELS / "stereo" / "stereo.onnx", folder / "some.npz", body="fp32", **RUN)
    result.save(folder / "q.onnx")
    return result, arrays


def test_a_run_has_what_onnxruntime_gives(stereo: tuple[onnxq.Result, dict[str, np.ndarray]]) -> None:
    """Of samples that verified, without another run of the model; and the page shows them."""
    result, arrays = stereo
    (sheet,) = result.report.output_pictures
    (one,) = sheet.pictures
    place = int(one.where.split("[")[-1].rstrip("]"))
    held = result.report.to_dict()["calibration"]["data"]["place"]["held_out"]
    assert place in held
    feeds = {name: array[place : place + 1] for name, array in arrays.items()}
    outputs = []
    for file in (str(SAMPLE_MODELS / "stereo" / "stereo.onnx"), result.report.output):
        outputs.append(ort.load(onnx.load(str(file))).run(feeds)[0][0].astype(np.float64))
    want, given = outputs
    assert (sheet.low, sheet.high) == (want.min(), want.max())
    assert sheet.most == pytest.approx(np.abs(given - want).max(), rel=1e-3)
    for png, value in ((one.reference, want), (one.result, given)):
        levels = np.clip((value - want.min()) * 255 / (want.max() - want.min()), 0, 255)
        assert np.abs(decoded(png) - levels).max() < 0.51 + 1e-3
    apart = np.abs(given - want) * 255 / sheet.most
    assert np.abs(decoded(one.difference) - apart).max() < 0.6
    html = html_of(page_of(OpenedReport.made(result.report)))
    beside = html[html.index('<table class="beside">') :]
    beside = beside[: beside.index("</table>")]
    shown = [f'src="data:image/png;base64,{png}"' for png in (one.reference, one.result, one.difference)]
    assert [beside.count(png) for png in shown] == [1, 1, 1]
    assert sorted(map(beside.index, shown)) == [*map(beside.index, shown)]


def test_they_are_left_out_with_the_other_pictures_and_where_there_are_none() -> None:
    random = np.random.default_rng(0)
    text = (
        '<ir_version: 8, opset_import: ["" : 17]> net (float[N, 3, 16, 16] x) => (float[N, 3, 16, 16] y) '
        "{ y = Conv <pads = [1, 1, 1, 1]> (x, w) }"
    )
    model = onnx.parser.parse_model(text)
    weights = random.standard_normal((3, 3, 3, 3)).astype(np.float32)
    model.graph.initializer.append(onnx.numpy_helper.from_array(weights, "w"))
    data = [{"x": random.random((1, 3, 16, 16), np.float32)} for _ in range(24)]
    report = onnxq.quantize(model, data, **RUN).report
    assert [(len(one.pictures), one.samples) for one in report.output_pictures] == [(3, 3)]
    assert onnxq.quantize(model, data, pictures=False, **RUN).report.output_pictures == ()
    del model.graph.node[:]
    model.graph.node.append(onnx.helper.make_node("Neg", ["x"], ["y"]))
    whole = [{"x": np.round(one["x"] * 256)} for one in data]
    same = onnxq.quantize(model, whole, **RUN).report  # nothing is quantized: both are equal
    assert same.output_pictures == ()
    assert '<table class="beside">' not in html_of(page_of(OpenedReport.made(same)))


@pytest.mark.parametrize("png", ['iVBORw0KGgo" onerror="alert(1)', "javascript:alert(1)", "", None])
def test_what_is_no_picture_is_left_out(stereo: tuple[onnxq.Result, dict[str, np.ndarray]], png: Any) -> None:
    """A report that somebody made up."""
    sheets = [one.to_dict() for one in stereo[0].report.output_pictures]
    sheets[0]["pictures"][0]["result"] = png
    html = html_of(page_of(OpenedReport.of({"schema": 6, "onnxq": "0", "output_pictures": sheets})))
    assert "<img" not in html
    assert "onerror" not in html
