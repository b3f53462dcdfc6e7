"""Number formats: their numbers, and what FP8 makes of a trained network."""

from __future__ import annotations

import functools
import typing
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from onnx.reference import ReferenceEvaluator
from said import is_said

import onnxq
from onnxq.base.errors import UserError
from onnxq.calib.histogram import HistogramCounter
from onnxq.formats import FORMATS, FP8, INT8, LayerFormat, NumberFormat, format_of
from onnxq.options.settings import NUMBER_FORMATS
from onnxq.quant.mse import mse_threshold, noise
from onnxq.repair.moments import RowMoments
from onnxq.repair.rounding import rounded, second_moment
from onnxq.repair.threads import Threads
from onnxq.run import ort, trt

DIGITS = Path(__file__).parents[2] / "sample_models" / "digits"


def numbers(format: NumberFormat) -> np.ndarray:
    """All numbers of a format, float64."""
    return np.concatenate([-format.magnitudes[::-1], [0.0], format.magnitudes])


@pytest.mark.parametrize(
    ("format", "greatest", "count"), [(INT8, 127, 255), (FP8, 448, 253)], ids=["int8", "fp8"]
)
def test_codes_are_the_nearest_numbers(format: NumberFormat, greatest: int, count: int) -> None:
    every = numbers(format)
    assert (len(every), every[-1]) == (count, greatest)
    values = np.random.default_rng(0).standard_normal(4096).astype(np.float32)
    scale = format.scale(np.float32(2.5))
    assert scale == np.float32(2.5) / np.float32(greatest)
    codes = format.codes(values, scale)
    assert codes.dtype == format.dtype
    found = format.values(codes, scale)
    least = np.abs(values[:, None] / scale - every).min(axis=1)
    assert np.allclose(np.abs(values - found) / scale, least, atol=1e-4)
    assert np.isin(codes.astype(np.float64), every).all()


def test_options_name_all_of_them() -> None:
    assert tuple(FORMATS) == NUMBER_FORMATS == typing.get_args(LayerFormat)[1:]


def test_what_is_always_zero_has_the_scale_1() -> None:
    assert FP8.scale(np.array([0, 1e-44, 448], np.float32)).tolist() == [1, 1, 1]


def test_types_of_files_need_no_entry() -> None:
    assert format_of(np.dtype(np.int8)) is INT8
    found = [format_of(np.dtype(kind)) for kind in (np.uint8, ml_dtypes.int4, np.int16)]
    assert [(one.name, one.ends) for one in found] == [
        ("uint8", (0, 255)), ("int4", (-8, 7)), ("int16", (-(1 << 15), (1 << 15) - 1)),
    ]  # fmt: skip
    assert [one.even for one in (*found, FP8)] == [True, True, True, False]
    assert [INT8.takes(one) for one in (INT8, *found, FP8)] == [True, True, False, False, False]


def test_the_noise_of_a_threshold_is_that_of_the_numbers() -> None:
    values = np.abs(np.random.default_rng(0).standard_t(4, 20_000)).astype(np.float32)
    counter = HistogramCounter()
    counter.add(values)
    histogram, amax = counter.histogram(), float(values.max())

    def error(threshold: float) -> float:
        scale = FP8.scale(threshold)
        off = FP8.values(FP8.codes(values, scale), scale) - values
        return float(np.mean(np.square(off, dtype=np.float64)))

    for threshold in (amax, amax / 3, amax / 50):
        assert noise(histogram, threshold, FP8) == pytest.approx(error(threshold), rel=0.01)
    tried = amax * np.exp2(-np.linspace(0, 8, 400))
    assert error(mse_threshold(histogram, amax, FP8)) < 1.01 * min(map(error, tried))


def test_rounding_by_the_inputs_is_right_for_it() -> None:
    random = np.random.default_rng(0)
    mixed = random.standard_normal((4000, 12)) @ random.standard_normal((12, 64))
    rows = FP8.codes(mixed + 0.3 * random.standard_normal(mixed.shape), np.float32(0.05))
    weights = 30 * random.standard_normal((32, 64))
    threads = Threads(1)
    try:
        codes = rounded(weights, second_moment(RowMoments.of(rows, threads), centred=False), format=FP8)
    finally:
        threads.close()
    held = rows.astype(np.float64)
    errors = [np.square(held @ (found.astype(np.float64) - weights).T).mean() for found in
              (codes, FP8.nearest(weights))]  # fmt: skip
    assert codes.dtype == FP8.dtype
    assert errors[0] < errors[1] / 2


def quantized(**options: Any) -> Any:
    data = None if "plan" in options else DIGITS / "calib"
    keywords = {"compile": False, "number_format": "fp8", **options}
    return onnxq.quantize(DIGITS / "digits.onnx", data, **keywords)


@functools.cache
def held_out() -> tuple[np.ndarray, np.ndarray]:
    """Images that neither calibration nor repair saw, and the float model's outputs."""
    images = np.load(DIGITS / "test.npz")["image"][:256]
    return images, ort.load(DIGITS / "digits.onnx").run({"image": images})[0]


def sqnr_db(model: onnx.ModelProto) -> float:
    images, exact = held_out()
    found = ort.load(model).run({"image": images})[0].astype(np.float64)
    return float(10 * np.log10(np.square(exact).sum() / np.square(exact - found).sum()))


def test_a_model_in_fp8(tmp_path: Path) -> None:
    plain, repaired = quantized(repair="none", loud="int8"), quantized(loud="int8")
    repaired.save(tmp_path / "digits.onnx")
    model = onnx.load(tmp_path / "digits.onnx")
    assert [entry.version for entry in model.opset_import] == [19]
    onnx.checker.check_model(model)
    float8 = onnx.TensorProto.FLOAT8E4M3FN
    codes = [t for t in model.graph.initializer if t.data_type == float8 and len(t.dims) > 1]
    assert len(codes) == 6
    assert {float(np.abs(onnx.numpy_helper.to_array(one).astype(np.float32)).max()) for one in codes} == {448}
    assert not [t.name for t in model.graph.initializer if t.data_type == onnx.TensorProto.INT8]

    report = repaired.report
    (output,) = report.accuracy
    assert output.sqnr_db > 20
    assert sqnr_db(model) > 25
    assert sqnr_db(model) > sqnr_db(plain.model) + 2  # biases are fitted, and codes at least lose nothing

    planned = [layer.format for layer in report.plan.layers]
    assert (planned.count("fp8"), planned.count("float")) == (6, 1)
    assert "Conv runs in fp8" in {site.because for site in report.plan.sites}
    (kept,) = report.plan.kept_float
    assert is_said(kept.because, "few-rows.one")
    assert is_said(str(repaired), "share-of-work", format="fp8", percent="100.0")

    tried = {trial.method.split()[0] for trial in report.calibration.choice.trials}
    assert tried == {"minmax", "average", "percentile", "mse"}  # entropy is for evenly spaced numbers
    steps = {step.step: step for step in report.repair.steps}
    assert steps["bias"].verdict == "kept"
    assert steps["gptq"].verdict != "failed"
    for name in ("lattice", "shift", "split"):
        assert (steps[name].verdict, steps[name].why) == (
            "not-applicable", "the numbers of fp8 are not evenly spaced",
        )  # fmt: skip


def test_entropy_is_refused() -> None:
    with pytest.raises(UserError, match="method entropy is for evenly spaced numbers, and those of fp8"):
        quantized(method="entropy", repair="none")


def test_a_plan_says_the_format(tmp_path: Path) -> None:
    plan = tmp_path / "plan.toml"
    onnxq.plan(
        DIGITS / "digits.onnx", DIGITS / "calib", number_format="fp8", method="minmax", repair="none"
    ).save(plan)
    text = plan.read_text("utf-8")
    assert text.count('format = "fp8"') >= 6
    again = quantized(plan=plan)
    assert sqnr_db(again.model) > 20
    plan.write_text(text.replace('format = "fp8"', 'format = "int8"'), "utf-8")
    with pytest.raises(UserError, match="is to be in int8, and --format is fp8"):
        quantized(plan=plan)
    some = text.replace('format = "fp8"', 'format = "int8"', 1)
    plan.write_text(some, "utf-8")
    formats = [x.format for x in quantized(plan=plan, number_format=None).report.plan.layers]
    assert (formats.count("int8"), formats.count("fp8")) == (1, 5)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"target": "tensorrt-8.6"}, "TensorRT 8.6 multiplies nothing in fp8"),
        (
            {"compile": True, "device": 80},
            r"8.0 \(A100, A30\) multiplies nothing in fp8: that came with compute capability 8.9",
        ),
        ({"cache": True}, "a calibration cache is of int8"),
        ({"number_format": "fp9"}, "there is no number format 'fp9'"),
    ],
    ids=["target", "sm", "cache", "name"],
)
def test_where_there_is_none(options: dict[str, Any], said: str) -> None:
    with pytest.raises(UserError, match=said):
        quantized(**options)


@pytest.mark.skipif(trt.installed() is None, reason="tensorrt-rtx is not installed")
def test_the_gpu_is_refused_whoever_says_the_format(tmp_path: Path) -> None:
    """A plan, or a file whose pairs are FP8 already."""
    made = quantized(repair="none", method="minmax")
    made.save(tmp_path / "digits.onnx")
    plan = onnxq.plan(
        DIGITS / "digits.onnx", DIGITS / "calib", number_format="fp8", method="minmax", repair="none"
    )
    plan.save(tmp_path / "plan.toml")
    said = r"compute capability 8.0 \(A100, A30\) multiplies nothing in fp8"
    with pytest.raises(UserError, match=said):
        quantized(plan=tmp_path / "plan.toml", number_format=None, compile=True, device=80)
    with pytest.raises(UserError, match=said):
        onnxq.quantize(tmp_path / "digits.onnx", DIGITS / "calib", compile=True, device=80)


def wide(side: int) -> onnx.ModelProto:
    """A convolution of `side` x `side` taps."""
    model = onnx.parser.parse_model(f"""<ir_version: 8, opset_import: ["" : 17]>
        g (float[1, 16, 16, 16] x) => (y) {{ [c] y = Conv <kernel_shape = [{side}, {side}]> (x, w) }}""")
    weights = np.random.default_rng(0).standard_normal((16, 16, side, side)).astype(np.float32)
    model.graph.initializer.append(onnx.numpy_helper.from_array(weights, "w"))
    return model


@pytest.mark.skipif(trt.installed() is None, reason="tensorrt-rtx is not installed")
@pytest.mark.parametrize(("side", "format", "planned"), [(5, "fp8", 1), (6, "fp8", 0), (6, "int8", 1)])
def test_a_convolution_of_many_taps_stays_in_float(side: int, format: str, planned: int) -> None:
    """It is planned where the compiler runs it; in FP8 it runs 32 taps at most."""
    data = [
        {"x": np.random.default_rng(seed).standard_normal((1, 16, 16, 16)).astype(np.float32)}
        for seed in range(4)
    ]
    report = onnxq.quantize(
        wide(side), data, number_format=format, repair="none", method="minmax", layer_samples=0, loud="int8"
    ).report
    assert (report.engine.planned, report.engine.int8, report.engine.not_int8) == (planned, planned, ())
    assert [one.code for one in report.plan.kept_float] == ["wide-kernel"] * (not planned)


# -- exactly as ONNX defines it ------------------------------------------------------------------------


@functools.cache
def pair() -> onnx.ModelProto:
    """A Q/DQ pair of FP8 whose scale is an input."""
    float8, float32 = onnx.TensorProto.FLOAT8E4M3FN, onnx.TensorProto.FLOAT
    nodes = [
        onnx.helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"]),
        onnx.helper.make_node("DequantizeLinear", ["q", "s", "z"], ["y"]),
    ]
    zero = onnx.helper.make_tensor("z", float8, [], b"\0", raw=True)
    graph = onnx.helper.make_graph(
        nodes, "g",
        [onnx.helper.make_tensor_value_info("x", float32, ["n"]),
         onnx.helper.make_tensor_value_info("s", float32, [])],
        [onnx.helper.make_tensor_value_info("y", float32, ["n"])], [zero],
    )  # fmt: skip
    return onnx.helper.make_model(graph, ir_version=10, opset_imports=[onnx.helper.make_opsetid("", 19)])


@functools.cache
def runtime() -> ort.Session:
    return ort.load(pair())


@functools.cache
def reference() -> ReferenceEvaluator:
    return ReferenceEvaluator(pair())


def assert_exact(values: np.ndarray, scale: np.float32) -> None:
    """Our codes are onnxruntime's, and those of ONNX's reference, bit for bit."""
    ours = FP8.values(FP8.codes(values, scale), scale)
    (run,) = runtime().run({"x": values, "s": np.array(scale)})
    (said,) = reference().run(None, {"x": values, "s": np.array(scale)})
    for other in (run, said):
        assert np.array_equal(ours, other)
        assert np.array_equal(np.signbit(ours), np.signbit(other))


def test_each_code_comes_back_as_itself() -> None:
    every = np.arange(256, dtype=np.uint8).view(FP8.dtype).astype(np.float32)
    every = every[~np.isnan(every)]
    assert len(every) == 254
    assert_exact(every, np.float32(1))
    assert np.array_equal(FP8.values(FP8.codes(every, np.float32(1)), np.float32(1)), every)


def test_halfway_and_past_the_greatest() -> None:
    numbers_ = np.append(0.0, FP8.magnitudes)
    halves = (numbers_[1:] + numbers_[:-1]) / 2
    around = [np.nextafter(halves.astype(np.float32), np.float32(end)) for end in (0, 1e9)]
    far = np.array([447, 448, 449, 463.9, 464, 464.1, 479, 480, 481, 1e9, np.inf], np.float32)
    values = np.concatenate([halves.astype(np.float32), *around, far])
    assert_exact(np.concatenate([values, -values]), np.float32(1))


@settings(deadline=None)
@given(
    arrays(np.float32, 64, elements=st.floats(-1e4, 1e4, width=32)),
    st.floats(2**-20, 2**10, width=32).map(np.float32),
)
def test_any_values_and_scales(values: np.ndarray, scale: np.float32) -> None:
    assert_exact(values, scale)


@pytest.mark.skipif(trt.installed() is None, reason="tensorrt-rtx is not installed")
@pytest.mark.parametrize("sm", [89, 120])
def test_it_compiles(sm: int) -> None:
    engine = quantized(repair="none", method="minmax", compile=True, device=sm).report.engine
    assert engine.status == "compiled", engine.reason
    assert (engine.int8, engine.planned, engine.not_int8) == (6, 6, ())
    assert sum(layer.multiplies(FP8.name) for layer in engine.layers) >= 6


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("op", ["Relu", "Clip"])
def test_onnxruntime_optimizes_what_is_in_front_of_it(op: str) -> None:
    """It takes a Relu there for one that does nothing, and fails at a Clip: both of its rules are off."""
    model = pair()
    clip = op == "Clip"
    before = onnx.helper.make_node(op, ["x", "low", "high"] if clip else ["x"], ["r"])
    quantize, dequantize = model.graph.node
    changed = onnx.NodeProto()
    changed.CopyFrom(quantize)
    changed.input[0] = "r"
    model = onnx.ModelProto.FromString(model.SerializeToString())
    del model.graph.node[:]
    model.graph.node.extend([before, changed, dequantize])
    model.graph.initializer.extend(
        onnx.helper.make_tensor(name, onnx.TensorProto.FLOAT, [], [end])
        for name, end in (("low", 0.0), ("high", 3.0))
    )
    feeds = {"x": np.linspace(-5, 5, 64, dtype=np.float32), "s": np.array(0.01, np.float32)}
    (found,) = ort.load(model).run(feeds)
    (exact,) = ort.load(model, optimize=False).run(feeds)
    assert np.array_equal(found, exact)
    assert found.min() == 0
