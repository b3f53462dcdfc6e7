"""The body through `quantize`, `plan` and `sanitize`: types, reasons, round trips, refusals."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, numpy_helper, parser
from said import is_said

import onnxq
from onnxq.base.errors import UserError
from onnxq.body.decide import Decision
from onnxq.body.emulate import Emulated
from onnxq.pipeline.accuracy import Accuracy
from onnxq.run import ort, trt

HEAD = '<ir_version: 8, opset_import: ["" : 17]>'
NET = """g (float[N, 16, 8, 8] x) => (float[N, 16, 8, 8] y) {
    [one] c = Conv <pads = [1, 1, 1, 1]> (x, w)  [act] r = Relu (c)
    [two] d = Conv <pads = [1, 1, 1, 1]> (r, v)  [add] s = Add (d, r)  [out] y = Sigmoid (s) }"""
QUICK = {"method": "minmax", "prove": "never", "compile": False, "repair": "none"}
HALF = {"fp16": TensorProto.FLOAT16, "bf16": TensorProto.BFLOAT16}


def net(text: str = NET, **constants: np.ndarray) -> onnx.ModelProto:
    model = parser.parse_model(HEAD + text)
    random = np.random.default_rng(0)
    for name in ("w", "v"):
        if name in text.split() or f"{name})" in text:
            values = (random.standard_normal((16, 16, 3, 3)) / 12).astype(np.float32)
            model.graph.initializer.append(numpy_helper.from_array(values, name))
    model.graph.initializer.extend(numpy_helper.from_array(array, name) for name, array in constants.items())
    return model


def samples(count: int = 16, scale: float = 1.0) -> list[dict[str, np.ndarray]]:
    random = np.random.default_rng(1)
    values = random.standard_normal((count, 1, 16, 8, 8)) * scale
    return [{"x": value.astype(np.float32)} for value in values]


def types(model: onnx.ModelProto) -> dict[str, int]:
    """The element type of what each Conv, Add and Sigmoid gives."""
    inferred = onnx.shape_inference.infer_shapes(model)
    known = {info.name: info.type.tensor_type.elem_type for info in inferred.graph.value_info}
    known.update((info.name, info.type.tensor_type.elem_type) for info in model.graph.output)
    return {
        node.name: known[node.output[0]] for node in model.graph.node if node.name in ("one", "two", "add")
    }


def scale_types(model: onnx.ModelProto) -> set[int]:
    kinds = {tensor.name: tensor.data_type for tensor in model.graph.initializer}
    return {kinds[n.input[1]] for n in model.graph.node if n.op_type.endswith("quantizeLinear")}


@pytest.mark.parametrize(
    ("target", "kind"),
    [("tensorrt-11", "fp16"), ("tensorrt-rtx", "fp16"), ("tensorrt-10", "fp32"), ("tensorrt-8.6", "fp32")],
)
def test_the_default_is_half_where_the_file_states_the_types(target: str, kind: str) -> None:
    result = onnxq.quantize(net(), samples(), target=target, **QUICK)  # type: ignore[arg-type]
    assert result.report["body"]["type"] == kind
    assert set(types(result.model).values()) == {HALF.get(kind, TensorProto.FLOAT)}
    assert scale_types(result.model) == {TensorProto.FLOAT}
    for info in (*result.model.graph.input, *result.model.graph.output):
        assert info.type.tensor_type.elem_type == TensorProto.FLOAT


@pytest.mark.parametrize("kind", HALF)
def test_inputs_and_outputs_by_request(kind: str) -> None:
    result = onnxq.quantize(net(), samples(), body=kind, io=kind, **QUICK)  # type: ignore[arg-type]
    for info in (*result.model.graph.input, *result.model.graph.output):
        assert info.type.tensor_type.elem_type == HALF[kind]
    changed = {entry["tensor"] for entry in result.report["interface_changes"]}
    assert changed == {"x", "y"} == set(result.report["body"]["interface"])
    onnx.checker.check_model(result.model)


WIDE = NET.replace("(float[N, 16, 8, 8] y)", "(float[N, 16, 8, 8] y, float[N, 16, 8, 8] z)").replace(
    "[out]", "[far] z = Mul (s, k)  [out]"
)


def test_what_float16_does_not_reach_stays_float32_whatever_io_says(tmp_path: Path) -> None:
    """z goes up to some millions, which are infinite in float16."""
    model, data = net(WIDE, k=np.array(1e6, np.float32)), samples()
    result = onnxq.quantize(model, data, io="fp16", **QUICK)  # type: ignore[arg-type]
    ends = {
        i.name: i.type.tensor_type.elem_type for i in (*result.model.graph.input, *result.model.graph.output)
    }
    assert ends == {"x": TensorProto.FLOAT16, "y": TensorProto.FLOAT16, "z": TensorProto.FLOAT}
    assert result.report["body"]["interface"] == ["x", "y"]
    (note,) = (note for note in result.report["body"]["notes"] if "of io," in note)
    assert "'z' stays float32: " in note
    assert "e+06; float16 ends at 65,504" in note
    (wanted,), (found,) = (
        ort.load(one).run({"x": data[0]["x"].astype(kind)}, ["z"])
        for one, kind in ((model, np.float32), (result.model, np.float16))
    )
    assert np.abs(found - wanted).max() < 0.1 * np.abs(wanted).max()

    plan = {name: value for name, value in QUICK.items() if name != "compile"}
    onnxq.plan(model, data, io="fp16", **plan).save(tmp_path / "p.toml")  # type: ignore[arg-type]
    again = onnxq.quantize(model, plan=tmp_path / "p.toml", **QUICK)  # type: ignore[arg-type]
    assert again.model.SerializeToString() == result.model.SerializeToString()
    text = (tmp_path / "p.toml").read_text()
    (tmp_path / "p.toml").write_text(text.replace('float32_io = [\n    "z"', 'float32_io = [\n    "u"'))
    with pytest.raises(UserError, match="no input or output 'u'"):
        onnxq.quantize(model, plan=tmp_path / "p.toml", **QUICK)  # type: ignore[arg-type]


def test_the_figures_are_of_the_emulation() -> None:
    model, data = net(), samples()
    result = onnxq.quantize(model, data, **QUICK)  # type: ignore[arg-type]
    (entry,) = result.report["body"]["outputs"]
    assert entry["body_db"] > entry["int8_db"] + 15
    assert abs(entry["together_db"] - entry["int8_db"]) < 1
    assert result.report["accuracy"][0]["sqnr_db"] == entry["together_db"]


@pytest.mark.parametrize("options", [
    {}, {"target": "tensorrt-rtx"}, {"body": "bf16"}, {"body": "fp32"}, {"io": "fp16"},
    {"scale_form": "per-tensor"}, {"scale_form": "post-scale"},
    {"target": "tensorrt-rtx", "scale_form": "per-channel"}, {"target": "tensorrt-8.6"},
    {"target": "tensorrt-10.13", "body": "fp16"},
])  # fmt: skip
def test_a_plan_gives_the_same_bytes_without_data(options: dict[str, Any], tmp_path: Path) -> None:
    data = samples(scale=100.0)  # Exp overflows float16: something stays float32
    model = net(
        NET.replace("[out] y = Sigmoid (s)", "[e] e = Exp (r)  f = MatMul (s, m) [out] y = Div (f, e)"),
        m=np.random.default_rng(3).standard_normal((8, 8)).astype(np.float32),
    )
    wanted = onnxq.quantize(model, data, **QUICK, **options)
    plan = {name: value for name, value in QUICK.items() if name != "compile"}
    onnxq.plan(model, data, **plan, **options).save(tmp_path / "p.toml")  # type: ignore[arg-type]
    target = {"target": options["target"]} if "target" in options else {}
    found = onnxq.quantize(model, plan=tmp_path / "p.toml", **QUICK, **target)  # type: ignore[arg-type]
    assert found.model.SerializeToString() == wanted.model.SerializeToString()
    assert found.report["body"]["type"] == wanted.report["body"]["type"]


def test_a_layer_has_the_form_of_scales_that_a_plan_says(tmp_path: Path) -> None:
    plan = {name: value for name, value in QUICK.items() if name != "compile"}
    onnxq.plan(net(), samples(), **plan).save(tmp_path / "p.toml")  # type: ignore[arg-type]
    text = (tmp_path / "p.toml").read_text()
    (tmp_path / "p.toml").write_text(
        text.replace('node = "two"\n', 'node = "two"\nscales = "post-scale"\n', 1)
    )
    result = onnxq.quantize(net(), plan=tmp_path / "p.toml", **QUICK)  # type: ignore[arg-type]
    body = result.report["body"]
    assert (body["scale_form"], body["post_scaled"], body["per_channel"]) == ("per-channel", ["two"], {})


def test_a_plan_says_what_stays_float32(tmp_path: Path) -> None:
    model, path = net(), tmp_path / "p.toml"
    onnxq.plan(model, samples(), method="minmax", prove="never", repair="none").save(path)
    text = path.read_text() + '\n[[float32]]\nnode = "add"\nbecause = "I say so"\n'
    path.write_text(text)
    result = onnxq.quantize(model, plan=path, **QUICK)  # type: ignore[arg-type]
    assert types(result.model)["add"] == TensorProto.FLOAT
    assert types(result.model)["two"] == TensorProto.FLOAT16
    said = {entry["node"]: entry["because"] for entry in result.report["body"]["float32"]}
    assert said["add"] == "I say so"
    path.write_text(text.replace('"add"', '"ad"'))
    with pytest.raises(UserError, match="no node 'ad'"):
        onnxq.quantize(model, plan=path, **QUICK)  # type: ignore[arg-type]
    with pytest.raises(UserError, match="the plan's body is fp16, and this run's fp32"):
        onnxq.quantize(model, plan=path, body="fp32", **QUICK)  # type: ignore[arg-type]


def test_ranges_are_those_of_the_data() -> None:
    """Two nets that are the same but for the data: one overflows float16."""
    model = net(NET.replace("[out] y = Sigmoid (s)", "[sq] q = Mul (s, s)  [out] y = Sigmoid (q)"))
    small = onnxq.quantize(model, samples(), **QUICK).report["body"]  # type: ignore[arg-type]
    large = onnxq.quantize(model, samples(scale=1000.0), **QUICK)  # type: ignore[arg-type]
    assert "sq" not in {entry["node"] for entry in small["float32"]}
    stays = {entry["node"]: entry for entry in large.report["body"]["float32"]}
    assert stays["sq"]["code"] == "range"
    assert "bfloat16 would hold it" in stays["sq"]["because"]
    (y,) = Emulated(large.model).run(samples(scale=1000.0)[0])
    assert np.isfinite(y).all()


def test_statistics_without_ranges_leave_float32(tmp_path: Path) -> None:
    """A calibration cache states scales and no ranges."""
    model, data = net(), samples()
    whole = onnxq.quantize(model, data, target="tensorrt-8.6", cache=True, **QUICK)  # type: ignore[arg-type]
    assert whole.cache is not None
    (tmp_path / "x.cache").write_text(whole.cache)
    result = onnxq.quantize(model, stats=tmp_path / "x.cache", **QUICK)  # type: ignore[arg-type]
    body = result.report["body"]
    assert body["type"] == "fp16"
    assert {e["code"] for e in body["float32"] if e["node"] in ("add", "two")} == {"no-range"}
    assert is_said(body["notes"], "body-ranges.not-measured")
    assert any("was not run" in note for note in body["notes"])


def test_statistics_of_calibrate_have_the_ranges(tmp_path: Path) -> None:
    model, data = net(), samples()
    onnxq.calibrate(model, data, tmp_path / "s.npz")
    result = onnxq.quantize(model, stats=tmp_path / "s.npz", **QUICK)  # type: ignore[arg-type]
    assert not {e["code"] for e in result.report["body"]["float32"]} & {"no-range"}
    assert set(types(result.model).values()) == {TensorProto.FLOAT16}


def failed(node: str) -> trt.Engine:
    return trt.Engine("failed", f"{node}_1 has no runners ", "a compiler", 89)


@pytest.fixture
def compiler(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[onnx.ModelProto], trt.Engine]], None]:
    def install(judge: Callable[[onnx.ModelProto], trt.Engine]) -> None:
        def compile_engine(path: Path, **_: object) -> trt.Engine:
            return judge(onnx.load(path))

        monkeypatch.setattr(trt, "compile_engine", compile_engine)
        several = lambda paths, **given: [trt.compile_engine(path, **given) for path in paths]  # noqa: E731
        monkeypatch.setattr(trt, "compile_engines", several)
        monkeypatch.setattr(trt, "installed", lambda: "a compiler")

    return install


COMPILED = trt.Engine("compiled", "", "a compiler", 89)


def test_what_the_compiler_refuses_in_half_stays_float32(compiler: Any) -> None:
    compiler(lambda m: failed("add") if types(m).get("add") == TensorProto.FLOAT16 else COMPILED)
    result = onnxq.quantize(net(), samples(), method="minmax", prove="never", repair="none")
    assert result.report["engine"]["status"] == "compiled"
    assert types(result.model) == {"one": 10, "two": 10, "add": 1}
    stays = {entry["node"]: entry["code"] for entry in result.report["body"]["float32"]}
    assert stays["add"] == "compiler"


def test_a_body_that_the_compiler_does_not_take_is_float32(compiler: Any) -> None:
    def judge(model: onnx.ModelProto) -> trt.Engine:
        inferred = onnx.shape_inference.infer_shapes(model).graph.value_info
        half = any(info.type.tensor_type.elem_type == TensorProto.FLOAT16 for info in inferred)
        return failed("nobody") if half else COMPILED

    compiler(judge)
    result = onnxq.quantize(net(), samples(), method="minmax", prove="never", repair="none")
    assert result.report["engine"]["status"] == "compiled"
    assert set(types(result.model).values()) == {TensorProto.FLOAT}
    assert result.report["body"]["type"] == "fp32"
    assert any("takes a float32 one" in note for note in result.report["body"]["notes"])


def test_sanitize_changes_types_where_it_is_asked_to() -> None:
    model, data = net(), samples()
    assert set(types(onnxq.sanitize(model).model).values()) == {TensorProto.FLOAT}
    half = onnxq.sanitize(model, data, body="fp16")
    assert set(types(half.model).values()) == {TensorProto.FLOAT16}
    assert half.report["body"]["outputs"][0]["body_db"] > 50
    assert not half.report["plan"]
    wide = onnxq.sanitize(half.model, body="fp32")
    assert set(types(wide.model).values()) == {TensorProto.FLOAT}
    without = onnxq.sanitize(model, body="fp16")  # of 16 channels weights bound one layer, and the next
    assert TensorProto.FLOAT16 in types(without.model).values()


def test_a_model_of_half_precision_is_widened_where_it_is_asked_to() -> None:
    model = onnxq.sanitize(net(), samples(), body="fp16", io="fp16").model
    data = [{"x": one["x"].astype(np.float16)} for one in samples()]
    own = onnxq.quantize(model, data, **QUICK)  # type: ignore[arg-type]
    assert own.report["body"]["type"] == "own"
    assert set(types(own.model).values()) == {TensorProto.FLOAT16}
    wide = onnxq.quantize(model, data, body="fp32", **QUICK)  # type: ignore[arg-type]
    assert set(types(wide.model).values()) == {TensorProto.FLOAT}
    assert wide.report["interface_changes"] == []
    ends = onnxq.quantize(model, data, body="fp32", io="fp32", **QUICK)  # type: ignore[arg-type]
    assert {entry["tensor"] for entry in ends.report["interface_changes"]} == {"x", "y"}
    with pytest.raises(UserError, match="one type of half precision"):
        onnxq.quantize(model, data, body="bf16", **QUICK)  # type: ignore[arg-type]


def test_two_types_are_refused() -> None:
    with pytest.raises(UserError, match="inputs and outputs in fp16 do not go with a body in bf16"):
        onnxq.quantize(net(), samples(), body="bf16", io="fp16", **QUICK)  # type: ignore[arg-type]
    with pytest.raises(UserError, match="calibrates a float32 model by itself"):
        onnxq.quantize(net(), samples(), body="fp16", target="tensorrt-7", **QUICK)  # type: ignore[arg-type]


def quantized(model: onnx.ModelProto, node: str) -> bool:
    """Whether a node reads what a DequantizeLinear gives, cast at most."""
    makers = {name: one for one in model.graph.node for name in one.output}
    (found,) = (one for one in model.graph.node if one.name == node)
    sources = [makers[name] for name in found.input if name in makers]
    sources += [
        makers[name] for one in sources if one.op_type == "Cast" for name in one.input if name in makers
    ]
    return any(one.op_type == "DequantizeLinear" for one in sources)


def test_a_layer_that_breaks_the_build_leaves_the_body_half(compiler: Any) -> None:
    """Int8 is to blame, in a float32 body too: the body of what is left is float16 as before."""
    compiler(lambda m: failed("two") if quantized(m, "two") else COMPILED)
    result = onnxq.quantize(net(), samples(), method="minmax", prove="never", repair="none")
    assert result.report["engine"]["status"] == "compiled"
    assert result.report["engine"]["regression"]["by"] == "quantization"
    assert (quantized(result.model, "one"), quantized(result.model, "two")) == (True, False)
    assert set(types(result.model).values()) == {TensorProto.FLOAT16}
    assert result.report["body"]["type"] == "fp16"
    assert "compiler" not in {entry["code"] for entry in result.report["body"]["float32"]}


BIASED = """g (float[1, 64, 16, 16] x) => (float[1, 32, 1, 1] y{0}) {{
    [one] c = Conv <pads = [1, 1, 1, 1]> (x, w, b)  t = Tanh (c)  [two] d = Conv (t, v, e)
    y = GlobalAveragePool (d) {1} }}"""
ANOTHER = "[three] h = Conv <pads = [1, 1, 1, 1]> (x, u, b)  z = GlobalAveragePool (h)"
FITTED: dict[str, Any] = {**QUICK, "repair": "bias"}


def biased(more: str = "") -> onnx.ModelProto:
    """A layer whose bias is large, as inputs have a mean; `more`: with another one that reads the bias."""
    random = np.random.default_rng(0)
    w = (random.standard_normal((32, 64, 3, 3)) * 0.08 + 0.08).astype(np.float16).astype(np.float32)
    u = (random.standard_normal((32, 64, 3, 3)) * 0.01).astype(np.float32)
    u = (u + (w - u).mean((1, 2, 3), keepdims=True)).astype(np.float16).astype(np.float32)
    v = (random.standard_normal((32, 32, 3, 3)) * 0.06).astype(np.float32)
    constants = {"w": w, "b": -0.4 * w.sum((1, 2, 3)), "v": v, "e": v[0, :, 0, 0]}
    if more:
        constants["u"] = u
    model = parser.parse_model(HEAD + BIASED.format(", float[1, 32, 1, 1] z" if more else "", more))
    model.graph.initializer.extend(numpy_helper.from_array(array, name) for name, array in constants.items())
    return model


def with_a_mean(count: int = 32) -> list[dict[str, np.ndarray]]:
    """The range is that of one value, so that int8 loses more than the rounding of the bias."""
    random = np.random.default_rng(5)
    values = (random.standard_normal((count, 1, 64, 16, 16)) + 0.4).astype(np.float16).astype(np.float32)
    values[:, 0, 0, 0, 0] = 9.0
    return [{"x": value} for value in values]


def test_the_body_holds_a_bias_that_is_fitted_so() -> None:
    body = onnxq.quantize(biased(), with_a_mean(), **FITTED).report["body"]
    assert "one" not in {entry["node"] for entry in body["float32"]}
    (figures,) = body["outputs"]
    assert figures["body_db"] > 70
    assert figures["together_db"] > figures["int8_db"] - 0.5


@pytest.mark.parametrize("keep", [[], ["three"]], ids=["two fits", "float"])
def test_what_reads_a_refitted_bias_too_is_no_less_near(keep: list[str]) -> None:
    """Of two layers with one bias, one has another that the body holds: the loss of the other one counts."""
    result = onnxq.quantize(biased(ANOTHER), with_a_mean(), keep_float=keep, **FITTED)
    for figures in result.report["body"]["outputs"]:
        assert figures["together_db"] > min(float(figures["int8_db"]), figures["body_db"]) - 1


def test_a_layer_that_goes_back_to_float_has_its_own_bias_in_the_body(compiler: Any) -> None:
    """That is not what the body was decided with."""
    compiler(lambda m: failed("one") if quantized(m, "one") else COMPILED)
    result = onnxq.quantize(biased(), with_a_mean(), **(FITTED | {"compile": True}))
    assert not quantized(result.model, "one")
    (figures,) = result.report["body"]["outputs"]
    assert figures["together_db"] > figures["int8_db"] - 0.5


def test_a_goal_does_not_count_what_the_body_does_not_lose(monkeypatch: pytest.MonkeyPatch) -> None:
    noise: list[float] = []
    measure = Accuracy.measure_body

    def measured(self: Accuracy, decision: Decision | None) -> None:
        measure(self, decision)
        noise.extend(self._body.values())

    monkeypatch.setattr(Accuracy, "measure_body", measured)
    onnxq.quantize(biased(), with_a_mean(), min_sqnr=35.0, **FITTED)
    assert -10 * np.log10(noise[0]) > 50  # 41 of the bias of the float model


@pytest.mark.parametrize("body", [None, "fp32"])
@pytest.mark.parametrize(
    "step",
    [
        "onnxq.pipeline.searches.body.decide",
        "onnxq.body.decide.to_half",
        "onnxq.pipeline.building.set_slices_apart",
    ],
)
def test_a_fault_of_the_body_does_not_cost_the_run(
    step: str, body: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = net(
        NET.replace("[N, 16, 8, 8] y", "[N, 16, 32] y").replace(
            "[out] y = Sigmoid (s)", "t = Reshape (s, size) [product] f = MatMul (t, m) [out] y = Sigmoid (f)"
        ),
        size=np.array([-1, 16, 64]),
        m=np.random.default_rng(3).standard_normal((64, 32)).astype(np.float32),
    )
    wanted = onnxq.quantize(model, samples(), body="fp32", **QUICK)  # type: ignore[arg-type]

    def broken(*_: object, **__: object) -> None:
        raise KeyError("a fault")

    monkeypatch.setattr(step, broken)
    result = onnxq.quantize(model, samples(), body=body, **QUICK)  # type: ignore[arg-type]
    assert result.model == wanted.model
    told = any("fault of onnxq (KeyError" in note for note in result.report["body"]["notes"])
    assert told == (body is None or "slices" in step)


INSIDE = """g (float[1, 16, 8, 8] x, bool c) => (float[1, 16, 8, 8] y) {
    [one] a = Conv <pads = [1, 1, 1, 1]> (x, w)
    [if] y = If (c) <then_branch = t () => (p) { q = Div (a, a)  p = Add (q, a) },
                     else_branch = e () => (r) { r = Relu (a) }> }"""


def test_what_no_data_measure_is_told_without_advice_to_give_data() -> None:
    feeds = [{**one, "c": np.array(number % 2 == 0)} for number, one in enumerate(samples(6))]
    notes = " ".join(onnxq.quantize(net(INSIDE), feeds, **QUICK).report["body"]["notes"])
    assert is_said(notes, "body-ranges.not-measured", tensor="q")
    assert is_said(notes, "body-ranges.in-bodies")
    assert "--calib" not in notes


def test_no_figure_is_given_of_a_body_that_did_not_run() -> None:
    """Behind an operator that onnxruntime does not know, the ends of the part that runs are others."""
    text = NET.replace("[out] y = Sigmoid (s)", "i = Identity (s)  [out] y = own.Unknown (i)")
    model = net(text)
    model.opset_import.append(onnx.helper.make_opsetid("own", 1))
    body = onnxq.quantize(model, samples(), **QUICK).report["body"]  # type: ignore[arg-type]
    assert body["type"] == "fp16"
    assert any("was not run" in note for note in body["notes"])
    assert all(entry["body_db"] is None and entry["together_db"] is None for entry in body["outputs"])
