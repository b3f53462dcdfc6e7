"""What is said of an FP8 run, and what the verbs make of its file."""

from __future__ import annotations

import functools
import json
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.parser
import pytest
from onnx import numpy_helper
from said import is_said

import onnxq
from onnxq.advice.advise import advise
from onnxq.cli.pages.end import end_screen
from onnxq.cli.pages.short import short_screen
from onnxq.cli.pages.verdict import verdict_page
from onnxq.compiled.kernels import kernels_of
from onnxq.formats import FP8
from onnxq.run import ort, trt

DIGITS = Path(__file__).parents[2] / "sample_models" / "digits"
FLOAT, DATA = DIGITS / "digits.onnx", DIGITS / "calib"
compiled = pytest.mark.skipif(trt.installed() is None, reason="tensorrt-rtx is not installed")


@pytest.fixture(scope="module")
def folder() -> Any:
    with tempfile.TemporaryDirectory() as name:
        yield Path(name)


def quantized(**options: Any) -> Any:
    plain = {"number_format": "fp8", "repair": "none", "method": "minmax", "loud": "int8", "compile": False}
    return onnxq.quantize(FLOAT, DATA, **{**plain, **options})


@pytest.fixture(scope="module")
def file(folder: Path) -> Path:
    """A file in FP8 whose codes are the nearest ones, with its report and page beside it; it was compiled."""
    quantized(compile=trt.installed() is not None).save(folder / "digits.fp8.onnx")
    return folder / "digits.fp8.onnx"


@pytest.fixture(scope="module")
def report(file: Path) -> Any:
    from onnxq.emit.recorded import report_beside

    return report_beside(file)


@compiled
def test_no_screen_says_int8(file: Path, report: Any) -> None:
    said = {
        "short": short_screen(report).lines,
        "long": end_screen(report).lines,
        "verdict": verdict_page("digits.fp8.onnx", report.verdict).lines,
        "advice": advise(report),
        "page": file.with_name("digits.fp8.report.html").read_text("utf-8"),
        "notes": (report.notes, report.body.notes, report.calibration.notes),
    }
    for where, text in said.items():
        assert "int8" not in str(text).lower(), where
        assert "fp8" in str(text).lower() or where == "notes", where
    assert "6 of 6 planned fp8 layers" in str(said["long"])


def test_ranking_says_the_format() -> None:
    plain = {"number_format": "fp8", "repair": "none", "method": "minmax"}
    from onnxq.cli.pages.sensitivity import sensitivity_page

    found = onnxq.sensitivity(FLOAT, DATA, **plain)
    text = str(sensitivity_page(found.report, ()).lines)
    assert is_said(text, "in-float.title", format="fp8")
    assert "int8" not in text


def test_weights_beside_float_ones_are_as_far_off_as_the_format_rounds(file: Path) -> None:
    table = onnxq.weights(FLOAT, file)
    rows = {row.layer: row for row in table.rows if row.channel is None and row.codes is not None}
    assert len(rows) == 6
    for row in rows.values():
        assert 30 < row.sqnr_db < 35  # the factors of BatchNormalization are taken out
        assert row.cosine > 0.999
        assert (row.max_steps, row.scale > 0, row.codes <= 253) == (None, True, True)
    held = [row.dtype for row in onnxq.weights(file).rows if row.channel is None]
    assert held.count("float8_e4m3fn") == 6


def test_ranges_reach_to_the_greatest_number(file: Path) -> None:
    table = onnxq.statistics(FLOAT, DATA, against=file)
    (image,) = [row for row in table.rows if row.tensor == "image" and row.channel is None]
    assert (image.low, image.high) == (pytest.approx(-1), pytest.approx(1))
    assert image.clipped == 0
    assert image.scale == pytest.approx(1 / 448)
    scaled = [row for row in table.rows if row.scale is not None and row.channel is None]
    assert len(scaled) == 8
    assert max(row.clipped for row in scaled) < 1e-4


@pytest.mark.parametrize(
    ("options", "where"),
    [
        ({"target": "tensorrt-8.6"}, "tensorrt-8.6"),
        pytest.param({"device": 80}, "compute capability 8.0", marks=compiled),
    ],
)
def test_check_names_what_has_no_such_numbers(file: Path, options: dict[str, Any], where: str) -> None:
    (one,) = [one for one in onnxq.check(file, **options).findings if one.check == "number-format"]
    assert one.severity == "error"
    assert is_said(one.reason, "number-format", nodes="22 nodes", format="fp8", target=where)
    assert "quantize to int8" in one.advice
    assert [one.check for one in onnxq.check(file, **options).findings if one.severity == "error"].count(
        "compiler"
    ) == 0


@compiled
def test_where_it_is_there_check_finds_nothing(file: Path) -> None:
    assert not [one for one in onnxq.check(file, device=89).findings if one.severity == "error"]


@compiled
def test_the_engine_beside_float16(file: Path, report: Any) -> None:
    document = onnxq.engine(file, against_fp16=True)
    assert document.reading.totals.fp8_macs > 0.99 * sum(document.reading.totals.macs.values())
    assert (document.reading.totals.planned, document.reading.totals.as_planned) == (6, 6)
    verdict = document.verdict
    assert (verdict.reason, verdict.format) == ("", "fp8")
    ratios = [
        (one.moved_mb + one.weights_mb) / (half.moved_mb + half.weights_mb)
        for one, half in ((both.int8, both.fp16) for both in (verdict.merged, report.verdict.merged))
    ]
    assert ratios[0] == pytest.approx(ratios[1], rel=0.02)
    assert ratios[0] < 0.7


def test_sanitize_keeps_it(file: Path) -> None:
    again, was = onnxq.sanitize(file).model, onnx.load(file)

    def codes(model: onnx.ModelProto) -> list[bytes]:
        held = [one for one in model.graph.initializer if one.data_type == onnx.TensorProto.FLOAT8E4M3FN]
        return sorted(one.raw_data for one in held if one.dims)

    assert codes(again) == codes(was) != []


def test_its_pairs_are_kept_whether_the_format_is_asked_for_or_not(file: Path) -> None:
    images = {"image": np.load(DIGITS / "test.npz")["image"][:64]}
    exact = ort.load(file).run(images)[0]
    # onnxruntime 1.32 takes a Relu in front of such a pair for none, where it is not kept from that
    assert np.abs(exact - ort.load(FLOAT).run(images)[0]).max() < 2
    for asked in ({}, {"number_format": "fp8"}):
        made = onnxq.quantize(file, DATA, compile=False, **asked)
        assert made.report.plan.format == "fp8"
        assert sum(layer.format == "fp8" for layer in made.report.plan.layers) == 6
        assert np.array_equal(ort.load(made.model).run(images)[0], exact)
    assert advise(made.report).answer != "do-not-ship"


def test_where_int8_is_asked_of_it_the_answer_says_what_is_there(file: Path) -> None:
    made = onnxq.quantize(file, DATA, compile=False, number_format="int8")
    (one,) = [one for one in advise(made.report).findings if one.code == "no-int8"]
    assert is_said(one.said, "no-int8.held", layers="6 layers")


def test_the_command_line_asks_for_the_type(folder: Path) -> None:
    made = quantized(target="tensorrt-10")
    made.save(folder / "ten.onnx")
    build, run, *_ = json.loads((folder / "ten.report.json").read_text("utf-8"))["commands"]
    for command in (build, run):
        assert "--fp8 --fp16" in command
        assert "--int8" not in command


def test_two_formats_side_by_side(file: Path, folder: Path) -> None:
    quantized(number_format="int8").save(folder / "digits.int8.onnx")
    reports = [folder / f"digits.{one}.report.json" for one in ("int8", "fp8")]
    rows = onnxq.diff(*reports).differences
    formats = [row for row in rows if row.what == "format"]
    assert {(row.a, row.b) for row in formats} == {("int8", "fp8")}
    assert not [row.what for row in rows if row.what.startswith("int8")]


def test_inspect_says_what_the_codes_cover(file: Path) -> None:
    from onnxq.cli.pages.model import tensor_page

    text = str(tensor_page(onnxq.describe_tensor(file, "image")).lines)
    assert "fp8 covers +-1" in text
    assert "int8" not in text


def test_gaps_are_the_distances_of_the_numbers() -> None:
    found = FP8.gaps(np.array([448.0, -448, 256, 240, 2**-6, 2**-9, 0]))
    assert found.tolist() == [32, 32, 16, 16, 2**-9, 2**-9, 2**-9]


# -- attention ---------------------------------------------------------------------------------------

ATTENTION = """<ir_version: 9, opset_import: ["" : 19]> net
    (float[1, {keys}, {dim}] x) => (float[1, {keys}, {dim}] y) <
        int64[4] split = {{1, {keys}, 2, {size}}}, int64[3] joined = {{1, {keys}, {dim}}},
        float c = {{0.125}}> {{
    q0 = MatMul (x, wq)  q1 = Reshape (q0, split)  q = Transpose <perm = [0, 2, 1, 3]> (q1)
    k0 = MatMul (x, wk)  k1 = Reshape (k0, split)  k = Transpose <perm = [0, 2, 3, 1]> (k1)
    v0 = MatMul (x, wv)  v1 = Reshape (v0, split)  v = Transpose <perm = [0, 2, 1, 3]> (v1)
    [qk] s = MatMul (q, k)  t = Mul (s, c)  p = Softmax <axis = -1> (t)  [pv] a = MatMul (p, v)
    b = Transpose <perm = [0, 2, 1, 3]> (a)  d = Reshape (b, joined)  y = MatMul (d, wo) }}"""


@functools.cache
def attention(keys: int, size: int) -> onnx.ModelProto:
    dim, random = 2 * size, np.random.default_rng(0)
    model = onnx.parser.parse_model(ATTENTION.format(keys=keys, dim=dim, size=size))
    for name in ("wq", "wk", "wv", "wo"):
        weights = (random.standard_normal((dim, dim)) / np.sqrt(dim)).astype(np.float32)
        model.graph.initializer.append(numpy_helper.from_array(weights, name))
    return model


def of_attention(keys: int, size: int, **options: Any) -> Any:
    random = np.random.default_rng(1)
    data = [{"x": random.standard_normal((1, keys, 2 * size)).astype(np.float32)} for _ in range(4)]
    keywords = {
        "number_format": "fp8",
        "repair": "none",
        "method": "minmax",
        "loud": "int8",
        "compile": False,
    }
    keywords |= options
    return onnxq.quantize(attention(keys, size), data, prove="never", **keywords)


@compiled
@pytest.mark.parametrize(("size", "sm"), [(24, 120), (48, 89), (64, 120), (256, 89)])
def test_attention_is_one_kernel(size: int, sm: int) -> None:
    """Of heads that int8 has no kernel for, too, and whatever the outputs are."""
    made = of_attention(64, size, compile=True, device=sm)
    engine = made.report.engine
    assert (engine.status, engine.planned, engine.int8) == ("compiled", 6, 6)
    kernels = kernels_of(engine.layers, {node.name: node.op_type for node in made.model.graph.node})
    (one,) = [kernel for kernel in kernels if kernel.kind == "attention"]
    assert one.precision == "fp8"


@pytest.mark.parametrize(
    ("keys", "size", "why"),
    [(16, 64, "the fp8 kernel takes 32 and more"), (64, 264, "fp8 kernels have 4 to 256")],
)
def test_attention_that_no_kernel_takes_stays_float(keys: int, size: int, why: str) -> None:
    kept = {one.node: one.because for one in of_attention(keys, size).report.plan.kept_float}
    assert kept.keys() >= {"qk", "pv"}
    assert why in kept["qk"]
