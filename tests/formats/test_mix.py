"""Layers of several number formats in one file: stated by a plan, and chosen."""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.parser
import pytest
from onnx import numpy_helper
from onnx.reference import ReferenceEvaluator
from said import is_said

import onnxq
from onnxq.base.errors import UserError
from onnxq.cli.pages.end import end_screen
from onnxq.cli.pages.short import short_screen
from onnxq.formats import FP8, INT8
from onnxq.graph.model import Model
from onnxq.graph.pairs import PairIndex
from onnxq.graph.view import Tensor
from onnxq.pipeline.searches import formats as mixes
from onnxq.quant.plan import QuantPlan
from onnxq.repair.engine_bytes import engine_bytes
from onnxq.run import ort, trt
from tests.formats.test_fp8_files import attention

DIGITS = Path(__file__).parents[2] / "sample_models" / "digits"
FLOAT, DATA = DIGITS / "digits.onnx", DIGITS / "calib"
compiled = pytest.mark.skipif(trt.installed() is None, reason="tensorrt-rtx is not installed")
QUICK: Mapping[str, Any] = {
    "repair": "none", "method": "minmax", "loud": "int8", "compile": False, "layer_samples": 0,
    "prove": "never",
}  # fmt: skip


def plan_with(path: Path, formats: Mapping[str, str], model: Any = FLOAT, data: Any = DATA) -> Path:
    """The plan of a model, written, with other formats of some layers."""
    asked = {one: QUICK[one] for one in ("repair", "method", "loud", "prove")}
    onnxq.plan(model, data, **asked).save(path, force=True)
    tables = re.split(r"(?=^\[\[)", path.read_text("utf-8"), flags=re.MULTILINE)
    for place, one in enumerate(tables):
        node = re.search(r'^node = "(.*)"', one, re.MULTILINE)
        if one.startswith("[[layer]]") and node and node[1] in formats:
            stated = re.sub('format = "[a-z0-9]+"', f'format = "{formats[node[1]]}"', one)
            tables[place] = re.sub(r"(?m)^(because|inputs) = .*\n", "", stated)
    path.write_text("".join(tables), "utf-8")
    return path


CONVS = (
    "/stem/stem.0/Conv", "/fine/first/first.0/Conv", "/fine/second/second.0/Conv", "/reduce/reduce.0/Conv",
    "/coarse/first/first.0/Conv", "/coarse/second/second.0/Conv",
)  # fmt: skip
MIXED = {name: ("fp8", "int8")[place % 2] for place, name in enumerate(CONVS)}


def stated(folder: Path, **options: Any) -> Any:
    """The digits with every second convolution in FP8."""
    plan = plan_with(folder / "plan.toml", MIXED)
    return onnxq.quantize(FLOAT, DATA, plan=plan, **{**QUICK, "repair": None, "loud": None, **options})


def formats_of(model: onnx.ModelProto) -> dict[str, str]:
    """The format of both operands of each convolution."""
    opened = Model(model, None, None)
    index = PairIndex.of(opened)
    found = {}
    for node in opened.graph.nodes:
        if node.op == "Conv":
            pairs = [index.behind(Tensor(opened, tensor).name) for tensor in node.inputs[:2]]
            (found[node.name],) = {"float" if one is None else one.format.name for one in pairs}
    return found


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("mix")
    result = stated(folder, compile=trt.installed() is not None)
    result.save(folder / "digits.mix.onnx")
    return result


def test_each_layer_has_the_format_that_the_plan_states(made: Any) -> None:
    assert {x.node: x.format for x in made.report.plan.layers if x.quantized} == MIXED
    assert formats_of(made.model) == MIXED
    assert {(one.format, one.numbers) for one in made.report.plan.sites} == {("int8", INT8), ("fp8", FP8)}
    assert made.report.plan.format == "int8 and fp8"
    assert made.report.about_mean.worst_output_db > 20


@compiled
@pytest.mark.parametrize("sm", [89, 120])
def test_each_layer_runs_in_its_format(tmp_path: Path, sm: int) -> None:
    engine = stated(tmp_path, compile=True, device=sm).report.engine
    assert (engine.status, engine.planned, engine.int8, engine.not_int8) == ("compiled", 6, 6, ())
    for name, format in MIXED.items():
        layers = [layer for layer in engine.layers if name in layer.nodes and layer.is_matrix]
        assert {layer.precision for layer in layers} == {format}, name


@compiled
def test_screens_say_how_many_are_in_which(made: Any) -> None:
    report = made.report
    said = {"end": end_screen(report), "short": short_screen(report)}
    for where, page in said.items():
        assert "3 in int8, 3 in fp8" in str(page.lines), where
    assert ": 3 in int8, 3 in fp8" in str(made)
    page = Path(report.output).with_name("digits.mix.report.html").read_text("utf-8")
    assert is_said(page, "card.mixed", done=6, planned=6, formats="3 in int8, 3 in fp8")


@compiled
def test_verbs_read_each_layer_by_itself(made: Any) -> None:
    file = Path(made.report.output)
    document = onnxq.engine(file, against_fp16=True)
    totals = document.reading.totals
    assert (totals.planned, totals.as_planned) == (6, 6)
    assert min(totals.int8_macs, totals.fp8_macs) > 0
    assert document.verdict.format == "int8 and fp8"
    types = {row.dtype for row in onnxq.weights(file).rows if row.channel is None}
    assert types >= {"int8", "float8_e4m3fn"}
    assert not [one for one in onnxq.check(file, device=89).findings if one.severity == "error"]
    (old,) = [one for one in onnxq.check(file, device=80).findings if one.check == "number-format"]
    assert is_said(old.reason, "number-format.of-gpu", format="fp8", sm="8.0")


def test_analysis_compares_it(made: Any) -> None:
    rows = onnxq.analyze(FLOAT, Path(made.report.output), DATA).rows
    assert {row.layer for row in rows} >= set(CONVS)


def test_numbers_are_as_onnx_defines_them(made: Any) -> None:
    images = {"image": np.load(DIGITS / "test.npz")["image"][:4]}
    (run,) = ort.load(made.model).run(images)
    (said,) = ReferenceEvaluator(made.model).run(None, images)
    assert np.abs(run - said).max() < 0.02 * np.abs(said).max()  # a sum in another order moves few codes


def test_quantized_again_it_stays_as_it_is(made: Any) -> None:
    images = {"image": np.load(DIGITS / "test.npz")["image"][:64]}
    exact = ort.load(made.model).run(images)[0]
    for asked in (None, "int8,fp8"):
        again = onnxq.quantize(
            Path(made.report.output), DATA, number_format=asked, compile=False, layer_samples=0, prove="never"
        )
        assert {x.node: x.format for x in again.report.plan.layers if x.quantized} == MIXED
        assert np.array_equal(ort.load(again.model).run(images)[0], exact)
        assert again.report.plan.formats is None


def test_diff_says_which_layers_changed(made: Any, tmp_path: Path) -> None:
    onnxq.quantize(FLOAT, DATA, **QUICK).save(tmp_path / "digits.int8.onnx")
    reports = [tmp_path / "digits.int8.report.json", Path(made.report.output).with_suffix(".report.json")]
    rows = [row for row in onnxq.diff(*reports).differences if row.what == "format"]
    assert {row.name for row in rows} == {name for name, format in MIXED.items() if format == "fp8"}
    assert {(row.a, row.b) for row in rows} == {("int8", "fp8")}


def test_the_command_line_asks_for_both_types(tmp_path: Path) -> None:
    asked = {one: QUICK[one] for one in ("repair", "method", "loud", "prove")}
    path = plan_with(tmp_path / "plan.toml", {})
    onnxq.plan(FLOAT, DATA, target="tensorrt-10", **asked).save(path, force=True)
    text = path.read_text("utf-8")
    path.write_text(text.replace('format = "int8"', 'format = "fp8"', 1), "utf-8")
    onnxq.quantize(FLOAT, DATA, plan=path, target="tensorrt-10", compile=False).save(tmp_path / "x.onnx")
    build, run, *_ = json.loads((tmp_path / "x.report.json").read_text("utf-8"))["commands"]
    for command in (build, run):
        assert "--int8 --fp8 --fp16" in command


# -- one tensor in two formats, and attention ----------------------------------------------------------


@functools.cache
def drawn() -> list[dict[str, np.ndarray]]:
    return [
        {"x": np.random.default_rng(seed).standard_normal((1, 64, 128)).astype(np.float32)}
        for seed in range(4)
    ]


def of_attention(folder: Path, formats: Mapping[str, str], **options: Any) -> Any:
    onnx.save(attention(64, 64), folder / "net.onnx")
    path = plan_with(folder / "plan.toml", formats, folder / "net.onnx", drawn())
    asked = {"compile": False, "layer_samples": 0, "prove": "never", **options}
    return onnxq.quantize(folder / "net.onnx", drawn(), plan=path, **asked)


@compiled
@pytest.mark.parametrize("sm", [89, 120])
def test_a_tensor_has_a_pair_for_each_format(tmp_path: Path, sm: int) -> None:
    """One kernel writes it in both; attention in FP8 is one kernel beside projections in int8."""
    made = of_attention(
        tmp_path, {"q0": "fp8", "qk": "fp8", "pv": "fp8", "y": "fp8"}, compile=True, device=sm
    )
    report = made.report
    pairs = [site for site in report.plan.sites if site.tensor == "x"]
    assert {(site.format, tuple(edge.node for edge in site.readers)) for site in pairs} == {
        ("fp8", ("q0",)), ("int8", ("k0", "v0")),
    }  # fmt: skip
    quantizers = [node for node in made.model.graph.node if node.op_type == "QuantizeLinear"]
    scales = {t.name: float(numpy_helper.to_array(t)) for t in made.model.graph.initializer if not t.dims}
    read = {scales[node.input[1]] for node in quantizers if node.input[0].startswith("x")}
    assert max(read) / min(read) == pytest.approx(448 / 127, rel=1e-5)
    assert (report.engine.planned, report.engine.int8) == (6, 6)
    (one,) = [layer for layer in report.engine.layers if "qk" in layer.nodes and layer.is_matrix]
    assert (one.precision, "pv" in one.nodes) == ("fp8", True)
    written = [{out.dtype for out in layer.outputs} for layer in report.engine.layers]
    assert {"int8", "fp8"} in written


@compiled
def test_attention_in_two_formats_is_obeyed(tmp_path: Path) -> None:
    """It is no kernel of its own then: each product runs by itself, in its format."""
    report = of_attention(tmp_path, {"qk": "fp8", "pv": "int8"}, compile=True).report
    assert (report.engine.planned, report.engine.int8) == (6, 6)
    runs = {
        node: layer.precision for layer in report.engine.layers for node in layer.nodes if layer.is_matrix
    }
    assert (runs["qk"], runs["pv"]) == ("fp8", "int8")
    assert report.plan.together == ()


def test_what_moves_values_read_in_both_is_not_rounded_twice(tmp_path: Path) -> None:
    model = onnx.parser.parse_model("""<ir_version: 9, opset_import: ["" : 19]>
        g (float[1, 32, 64] x) => (float[1, 64, 32] y, float[1, 64, 32] z) {
            t = Tanh (x)  m = Transpose <perm = [0, 2, 1]> (t)
            [a] y = MatMul (m, w)  [b] z = MatMul (m, v) }""")
    random = np.random.default_rng(0)
    for name in "wv":
        values = random.standard_normal((32, 32)).astype(np.float32)
        model.graph.initializer.append(numpy_helper.from_array(values, name))
    onnx.save(model, tmp_path / "net.onnx")
    data = [{"x": random.standard_normal((1, 32, 64)).astype(np.float32)} for _ in range(4)]
    path = plan_with(tmp_path / "plan.toml", {"b": "fp8"}, tmp_path / "net.onnx", data)
    made = onnxq.quantize(tmp_path / "net.onnx", data, plan=path, compile=False, layer_samples=0)
    assert {(site.tensor, site.format) for site in made.report.plan.sites if site.kind == "activation"} == {
        ("m", "int8"), ("m", "fp8"),
    }  # fmt: skip
    assert min(one.sqnr_db for one in made.report.accuracy) > 27


# -- chosen --------------------------------------------------------------------------------------------


@functools.cache
def tailed() -> tuple[onnx.ModelProto, list[dict[str, np.ndarray]]]:
    """A layer whose input has a long tail, which int8 does not hold, and layers that int8 holds better."""
    depth, width = 8, 64
    chain = "  ".join(f"[l{i}] a{i} = MatMul (h{i}, w{i})  h{i + 1} = Sin (a{i})" for i in range(depth))
    model = onnx.parser.parse_model(f"""<ir_version: 9, opset_import: ["" : 19]>
        g (float[1, 64, {width}] x, float[1, 64, {width}] u) => (float[1, 64, {width}] y) {{
            [tail] t = MatMul (x, wt)  h0 = Sin (u)  {chain}  y = Add (h{depth}, t) }}""")
    random = np.random.default_rng(0)
    for name in ("wt", *(f"w{i}" for i in range(depth))):
        values = (random.standard_normal((width, width)) / 8).astype(np.float32)
        model.graph.initializer.append(numpy_helper.from_array(values, name))
    data = [
        {
            "x": (0.1 * random.standard_t(2, (1, 64, width))).astype(np.float32),
            "u": random.uniform(-2, 2, (1, 64, width)).astype(np.float32),
        }
        for _ in range(48)
    ]
    return model, data


def chosen(format: str, **options: Any) -> Any:
    model, data = tailed()
    return onnxq.quantize(model, data, number_format=format, **{**QUICK, **options})


@pytest.fixture(scope="module")
def mix() -> Any:
    return chosen("int8,fp8", compile=trt.installed() is not None)


def test_the_mix_is_nearer_than_either(mix: Any) -> None:
    report = mix.report
    formats = {x.node: x.format for x in report.plan.layers}
    assert formats["tail"] == "fp8"
    assert "int8" in formats.values()
    levels = [one.report.about_mean.worst_output_db for one in (chosen("int8"), chosen("fp8"), mix)]
    assert levels[2] > max(levels[:2]) + 1
    first, *others = report.plan.formats.tried
    assert (first.format, first.verdict) == ("int8 and fp8", "chosen")
    assert {one.format for one in others} == {"int8", "fp8"}
    assert {one.verdict for one in others} == {"dropped"}
    assert re.search(r"'l\d' and \d more are in int8: \+\d+.\d dB on all in fp8", report.plan.formats.why)
    assert report.engine.int8 == report.engine.planned == 9 or trt.installed() is None


@compiled
def test_a_mix_whose_engine_moves_too_much_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was predicted from shapes is held against the engine that is there."""
    moved = mixes._moved

    def heavier(state: Any) -> Any:
        worth = moved(state)
        return worth and replace(worth, ratio=worth.ratio + (state.alone is not None) * 10)

    monkeypatch.setattr(mixes, "_moved", heavier)
    made = chosen("int8,fp8", compile=True)
    formats = made.report.plan.formats
    assert is_said(formats.why, "mix-undone", format="fp8", after="10.62")
    assert (formats.tried[0].format, formats.tried[0].verdict) == ("fp8", "chosen")
    assert (formats.tried[-1].format, formats.tried[-1].verdict) == ("int8 and fp8", "dropped")
    assert {one.format for one in made.report.plan.layers} == {"fp8"}
    assert made.report.engine.int8 == made.report.engine.planned == 9


def test_no_sample_that_verifies_chose(mix: Any) -> None:
    data = mix.report.calibration
    assert data.held_out_code == "apart"


def test_where_one_format_is_better_everywhere_it_is_taken() -> None:
    report = onnxq.quantize(FLOAT, DATA, number_format=["fp8", "int8"], **QUICK).report
    assert report.plan.format == "int8"
    assert [(one.format, one.verdict) for one in report.plan.formats.tried][:2] == [
        ("int8", "chosen"), ("fp8", "dropped"),
    ]  # fmt: skip
    assert report.plan.formats.why.startswith("all in int8")


def test_without_samples_nothing_is_compared() -> None:
    part = onnxq.plan(FLOAT, number_format="int8,fp8", prove="never").report.plan
    assert (part.format, part.formats.tried) == ("int8", ())
    assert is_said(part.formats.why, "no-samples-for-formats", format="int8")


def test_a_goal_holds_for_the_mix(mix: Any) -> None:
    goal = mix.report.about_mean.sqnr_about_mean_db + 2
    report = chosen("int8,fp8", min_sqnr=goal, loud=None).report
    assert report.goal.met
    assert report.about_mean.sqnr_about_mean_db >= goal
    assert report.plan.formats.tried[0].format == "int8 and fp8"  # of which the goal leaves some in float
    assert [one for one in report.plan.kept_float if one.code == "goal"]


def test_steps_for_even_numbers_change_int8_layers_alone() -> None:
    report = chosen("int8,fp8", repair="auto", method="minmax").report
    formats = {site.tensor: site.format for site in report.plan.sites}
    tensors = {edit.tensor for edit in report.repair.edits if edit.kind in ("lattice", "shift", "split")}
    assert report.plan.format == "int8 and fp8"
    assert {formats[name] for name in tensors} <= {"int8"}


def test_the_plan_of_a_choice_is_obeyed(mix: Any, tmp_path: Path) -> None:
    model, data = tailed()
    asked = {one: QUICK[one] for one in ("repair", "method", "loud", "prove")}
    onnxq.plan(model, data, number_format="int8,fp8", **asked).save(tmp_path / "plan.toml")
    again = onnxq.quantize(model, data, plan=tmp_path / "plan.toml", compile=False, layer_samples=0)
    held = [{x.node: x.format for x in one.report.plan.layers} for one in (mix, again)]
    assert held[0] == held[1]
    assert again.report.plan.formats is None
    for one, other in zip(mix.model.graph.initializer, again.model.graph.initializer, strict=True):
        assert (one.name, one.SerializeToString()) == (other.name, other.SerializeToString())


@pytest.mark.parametrize(
    ("options", "said", "hint"),
    [
        ({"target": "tensorrt-8.6"}, "TensorRT 8.6 multiplies nothing in fp8", "--format int8"),
        (
            {"compile": True, "device": 80},
            "multiplies nothing in fp8: that came with compute capability 8.9",
            "give --format int8, or a --device of compute capability 8.9",
        ),
        (
            {"cache": True},
            "a calibration cache is of int8, and the format is to be int8 and fp8",
            "leave the cache out",
        ),
        ({"number_format": "int8,fp9"}, "there is no number format 'fp9'", "fp8"),
        ({"method": "entropy"}, "method entropy is for evenly spaced numbers", "mse"),
    ],
    ids=["target", "sm", "cache", "name", "entropy"],
)
def test_what_is_refused(options: dict[str, Any], said: str, hint: str) -> None:
    with pytest.raises(UserError, match=said) as caught:
        onnxq.quantize(FLOAT, DATA, **{"number_format": "int8,fp8", **QUICK, **options})
    assert hint in (caught.value.hint or "")


def test_a_tensor_in_two_formats_is_written_twice(tmp_path: Path) -> None:
    """A byte an element more, as one kernel writes both; where layers that follow each other differ, none."""
    opened = Model(onnx.shape_inference.infer_shapes(attention(64, 64)), None, None)

    def moved(formats: Mapping[str, str]) -> int:
        plan = of_attention(tmp_path, formats).report.plan
        return engine_bytes(opened, QuantPlan(sites=plan.sites, layers=plan.layers))

    alike = moved({})
    assert moved({"q0": "fp8", "k0": "fp8", "v0": "fp8"}) == alike
    assert moved({"q0": "fp8"}) == alike + 64 * 128


def test_codes_that_were_fitted_for_another_format_are_left_out(tmp_path: Path) -> None:
    images = [{"image": image[None]} for image in np.load(DIGITS / "test.npz")["image"][:64]]
    path = tmp_path / "plan.toml"
    onnxq.plan(FLOAT, images, repair=["bias", "gptq"], method="minmax", loud="int8", prove="never").save(path)
    text = path.read_text("utf-8")
    assert "\n[[codes]]" in text
    path.write_text(text.replace('format = "int8"', 'format = "fp8"'), "utf-8")
    report = onnxq.quantize(FLOAT, images, plan=path, compile=False, layer_samples=0, prove="never").report
    assert [x.format for x in report.plan.layers].count("fp8") == 6
    assert [one for one in report.calibration.notes if is_said(one, "plan-read.other-codes")]
    assert report.about_mean.worst_output_db > 20
