"""Calibration from the samples to the scales: methods, `auto`, statistics and caches, through `quantize`.

Inputs and weights are small integers, so that every float sum is exact and the activations are the same bits
however they are computed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.parser
import pytest
from command import weighted
from PIL import Image
from said import is_said

import onnxq
from onnxq.advice.causes import likely
from onnxq.analysis.diff.compared import scales
from onnxq.analysis.diff.rows import Judge
from onnxq.base.errors import UserError
from onnxq.calib import trt_cache
from onnxq.calib.histogram import HistogramCounter
from onnxq.calib.stats import TensorStats
from onnxq.graph.model import Model
from onnxq.judge.output_parts import OutputParts
from onnxq.options.config import LayerRule
from onnxq.options.settings import Calibration, Margins
from onnxq.pipeline import calibration, comparing, verifying
from onnxq.pipeline.searches import scales as choosing
from onnxq.quant.choice import SEARCH
from onnxq.quant.thresholds import Method, threshold
from onnxq.run import ort
from onnxq.run.finding_parts import find_parts
from onnxq.targets import load_target

pytestmark = pytest.mark.usefixtures("by_place")

CHAIN = """[c1] a = Conv <pads = [1, 1, 1, 1]> (x, w1)  [r1] b = Relu (a)
    [c2] c = Conv <pads = [1, 1, 1, 1]> (b, w2)  [r2] y = Relu (c)"""
ONE = "[c1] y = Conv <pads = [1, 1, 1, 1]> (x, w1)"
SHARED = """[c1] a = Conv <pads = [1, 1, 1, 1]> (x, w1)  [r1] b = Relu (a)
    [neg] n = Neg (a)  [cat] j = Concat <axis = 1> (b, n)  [pool] p = MaxPool <kernel_shape = [2, 2]> (j)
    [c2] y = Conv <pads = [1, 1, 1, 1]> (p, w3)"""
BOUNDED = """[c1] a = Conv <pads = [1, 1, 1, 1]> (x, w1)  s = Sigmoid (a)
    [c2] b = Conv <pads = [1, 1, 1, 1]> (s, w2)  t = Tanh (b)
    [c3] c = Conv <pads = [1, 1, 1, 1]> (t, w4)  u = Softmax <axis = 1> (c)
    [c4] y = Conv <pads = [1, 1, 1, 1]> (u, w2)"""


@pytest.fixture(autouse=True)
def one_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is read and noted is that of calibration: whether more samples help is not asked."""
    monkeypatch.setattr(comparing, "_worth_asking", lambda *_: False)


def net(body: str = CHAIN, opset: int = 17, outputs: str = "float[N, M, H, W] y") -> onnx.ModelProto:
    """A model of 16 channels, input `x` [N, 16, 8, 8]."""
    text = f"""<ir_version: 8, opset_import: ["" : {opset}]>
        g (float[N, 16, 8, 8] x) => ({outputs}) {{ {body} }}"""
    model = onnx.parser.parse_model(text)
    random = np.random.default_rng(0)
    for name, channels in (("w1", 16), ("w2", 16), ("w3", 32), ("w4", 16)):
        if name in body:
            weights = random.integers(-2, 3, (16, channels, 3, 3)).astype(np.float32)
            weights *= np.float32(2.0**-4 if name == "w4" else 1)
            model.graph.initializer.append(onnx.numpy_helper.from_array(weights, name))
    return model


def samples(count: int = 32, seed: int = 1) -> list[dict[str, np.ndarray]]:
    """Integers with heavy tails; the first value of each sample is its number."""
    values = np.rint(np.random.default_rng(seed).standard_t(3, (count, 1, 16, 8, 8)) * 8).astype(np.float32)
    values[:, 0, 0, 0, 0] = np.arange(count)
    return [{"x": value} for value in values]


def quantize(model: Any, data: Any = None, **options: Any) -> onnxq.pipeline.Result:
    common = {"prove": "never", "compile": False, "body": "fp32", "repair": "none"}
    return onnxq.quantize(model, data, **{**common, **options})


@dataclass
class Roles:
    """Which samples calibrated, chose and verified, by the number that they carry."""

    calibrated: list[int] = field(default_factory=list)
    chose: list[int] = field(default_factory=list)
    verified: list[int] = field(default_factory=list)


@pytest.fixture
def roles(monkeypatch: pytest.MonkeyPatch) -> Roles:
    """Records the samples of each step."""
    found = Roles()
    collect, heard, compare = calibration.collect, choosing.heard, verifying.compare_models

    def told(feeds: Any, into: list[int]) -> Iterator[Any]:
        for one in feeds:
            into.append(int((one if isinstance(one, dict) else one.feeds)["x"][0, 0, 0, 0]))
            yield one

    monkeypatch.setattr(
        calibration, "collect", lambda m, r, s, **o: collect(m, r, told(s, found.calibrated), **o)
    )
    monkeypatch.setattr(choosing, "heard", lambda r, c, s, *more: heard(r, c, told(s, found.chose), *more))
    monkeypatch.setattr(
        verifying, "compare_models", lambda r, c, s, **more: compare(r, c, told(s, found.verified), **more)
    )
    return found


def run(model: onnx.ModelProto, data: Sequence[dict[str, np.ndarray]], names: Sequence[str] = ()) -> Any:
    """The tensors of a model, node by node, [samples][names]; its outputs by default."""
    exposed = onnx.ModelProto()
    exposed.CopyFrom(model)
    known = {value.name for value in (*exposed.graph.output, *exposed.graph.input)}
    exposed.graph.output.extend(onnx.ValueInfoProto(name=name) for name in names if name not in known)
    session = ort.load(exposed, optimize=False)
    if "x" in names:
        return [[one[name] for name in names] for one in data]
    return [session.run(one, names or None) for one in data]


def raw_stats(model: onnx.ModelProto, data: Sequence[dict[str, np.ndarray]], tensor: str) -> TensorStats:
    """The statistics of every value of a tensor."""
    values = [one[0] for one in run(model, data, [tensor])]
    counter = HistogramCounter()
    for value in values:
        counter.add(value)
    ends = ([v.min() for v in values], [v.max() for v in values])
    sizes = sum(v.size for v in values)
    return TensorStats(*map(np.float32, ends), sizes, None, None, histogram=counter.histogram())


def noise(
    reference: onnx.ModelProto,
    candidate: onnx.ModelProto,
    data: Sequence[Any],
    parts: OutputParts | None = None,
) -> np.ndarray:
    """Signal, about its mean, and noise of each output, or part of one, by sample [2, samples, outputs]."""
    ours, theirs = run(reference, data), run(candidate, data)
    if parts is not None:
        ours, theirs = ([parts.split(one) for one in some] for some in (ours, theirs))
    exact = [np.array(values, np.float64) for values in zip(*ours, strict=True)]
    given = [np.array(values, np.float64) for values in zip(*theirs, strict=True)]
    signal = [one - one.mean(0) for one in exact]
    errors = [one - other for one, other in zip(exact, given, strict=True)]
    powers = [[np.sum(value**2) for value in one] for some in (signal, errors) for one in some]
    return np.array(powers).reshape(2, len(exact), -1).swapaxes(1, 2)


def sqnr(
    reference: onnx.ModelProto,
    candidate: onnx.ModelProto,
    data: Sequence[Any],
    parts: OutputParts | None = None,
) -> float:
    """The SQNR of the outputs about the mean, dB: of the mean of their ratios."""
    signal, errors = noise(reference, candidate, data, parts).sum(axis=1)
    return float(-10 * np.log10(np.mean(errors / signal)))


def best_beyond_doubt(found: dict[str, np.ndarray], prior: str) -> str:
    """The method of the least noise of those better than the prior by half a standard error: a jackknife's.

    Args:
        found: what `noise` gives, of one output, of 32 samples at most, by method.
        prior: the method in doubt.
    """
    better = {prior: 0.0}
    for method, (_, errors) in found.items():
        before, after = found[prior][1][:, 0], errors[:, 0]
        gain = 10 * np.log10(before.sum() / after.sum())
        without = 10 * np.log10((before.sum() - before) / (after.sum() - after))
        if gain > 0.5 * np.sqrt((len(without) - 1) * np.var(without)):
            better[method] = float(gain)
    return max(better, key=better.__getitem__)


def scales_in(model: onnx.ModelProto) -> dict[str, np.float32]:
    """The scale of each quantized activation, read from the model."""
    constants = {t.name: onnx.numpy_helper.to_array(t) for t in model.graph.initializer}
    return {
        node.input[0]: np.float32(constants[node.input[1]])
        for node in model.graph.node
        if node.op_type == "QuantizeLinear" and node.input[0] not in constants  # which is a weight
    }


# -- methods ---------------------------------------------------------------------------------------


METHODS = (
    Method("minmax"), Method("average", constant=0.3), Method("percentile", 99.0), Method("percentile", 100),
    Method("entropy"), Method("mse"),
)  # fmt: skip


@pytest.mark.parametrize(("method", "exact"), [*((m, False) for m in METHODS), (METHODS[2], True)])
def test_scales_are_the_thresholds_of_all_activations(roles: Roles, method: Method, exact: bool) -> None:
    model, data = net(), samples()
    result = quantize(
        model, data, method=method.name, percentile=method.percentile, constant=method.constant, exact=exact
    )
    used = [data[i] for i in sorted(roles.calibrated)]
    assert len(used) == 28
    assert roles.chose == []
    report, scales = result.report["calibration"], scales_in(result.model)
    assert set(scales) == {"x", "b"}
    for name, scale in scales.items():
        amax = threshold(raw_stats(model, used, name), method)
        assert scale == np.float32(amax / 127)
        assert report["scales"][name] == float(scale)
        assert report["thresholds"][name] == {"amax": amax, "because": str(method), "code": "method"}
    assert report["method"] == str(method)
    assert (report["samples"], report["choice"]) == (28, None)
    assert report["counting"] == ("none" if method.name in ("minmax", "average") else
                                  "exact" if exact else "sampled")  # fmt: skip
    # by numpy alone
    values = np.abs(np.concatenate([one[0].ravel() for one in run(model, used, ["b"])]))
    if method == METHODS[0]:
        assert scales["b"] == np.float32(values.max()) / np.float32(127)
    if method == METHODS[2]:
        rank = np.sort(values)[int(np.ceil(0.99 * values.size)) - 1]
        assert rank <= float(scales["b"]) * 127 <= rank * (1 + 2**-10)


def test_the_moving_average_is_over_the_samples_that_calibrate(roles: Roles) -> None:
    model, data = net(), samples(9)
    result = quantize(model, data, method="average", constant=0.25, keep_float=["c2"])
    used = [data[i] for i in sorted(roles.calibrated)]
    average = threshold(raw_stats(model, used, "x"), Method("average", constant=0.25))
    assert scales_in(result.model) == {"x": np.float32(average / 127)}


def test_a_group_has_the_widest_threshold_of_its_sources(roles: Roles) -> None:
    """`j` and `p` are made of `b` and `n` only."""
    model, data = net(SHARED), samples()
    result = quantize(model, data, method="percentile", percentile=95)
    scales, report = scales_in(result.model), result.report["calibration"]
    used = [data[i] for i in roles.calibrated]
    own = {name: threshold(raw_stats(model, used, name), Method("percentile", 95)) for name in "bn"}
    assert {scales[name] for name in scales if name != "x"} == {np.float32(max(own.values()) / 127)}
    assert {name: entry["amax"] for name, entry in report["thresholds"].items() if name != "x"} == own
    assert own["b"] != own["n"]
    assert set(report["scales"]) >= {"b", "n", "j"}


def test_what_operators_bound_is_fixed(roles: Roles) -> None:
    report = quantize(net(BOUNDED), samples(8), method="minmax").report["calibration"]
    assert report["thresholds"]["s"] == {
        "amax": 1.0,
        "because": "fixed: the output of a Sigmoid",
        "code": "fixed",
    }
    assert report["thresholds"]["t"] == {
        "amax": 1.0,
        "because": "fixed: the output of a Tanh",
        "code": "fixed",
    }
    assert {report["scales"][name] for name in "st"} == {float(np.float32(1 / 127))}
    assert report["thresholds"]["x"]["because"] == "minmax"
    assert {"s", "t"} <= report["ranges"].keys()  # they were measured all the same


def test_the_output_of_a_softmax_is_measured(roles: Roles) -> None:
    report = quantize(net(BOUNDED), samples(8), method="minmax").report["calibration"]
    amax = report["ranges"]["u"][1]
    assert 0 < amax < 1
    assert report["thresholds"]["u"] == {"amax": amax, "because": "minmax", "code": "method"}


def test_a_method_for_a_layer_wins_over_what_is_fixed(roles: Roles) -> None:
    layers = [LayerRule(match=("c2",), method="minmax"), LayerRule(match=("c3",), amax=0.5, index=2)]
    report = quantize(net(BOUNDED), samples(8), method="mse", layers=layers).report["calibration"]
    assert report["thresholds"]["s"]["amax"] == report["ranges"]["s"][1]
    assert report["thresholds"]["s"]["because"].startswith("minmax")
    assert report["thresholds"]["t"] == {"amax": 0.5, "because": "[[layer]] 2", "code": "layer"}


PIXELS = """<ir_version: 8, opset_import: ["" : 17]>
    g (float[N, 3, 8, 8] x) => (float[N, 16, 8, 8] y) { [c] y = Conv <pads = [1, 1, 1, 1]> (x, w) }"""


@pytest.mark.parametrize(
    ("preset", "amax"), [("raw", 255.0), ("tensorflow", 1.0), ("imagenet", (1 - 0.406) / 0.225), (None, 1.0)]
)
def test_the_range_of_images_is_known(tmp_path: Path, preset: str | None, amax: float) -> None:
    model = onnx.parser.parse_model(PIXELS)
    weights = np.random.default_rng(0).standard_normal((16, 3, 3, 3)).astype(np.float32)
    model.graph.initializer.append(onnx.numpy_helper.from_array(weights, "w"))
    for i in range(4):
        pixels = np.random.default_rng(i).integers(50, 200, (8, 8, 3), np.uint8)
        Image.fromarray(pixels).save(tmp_path / f"{i}.png")
    images = {"preset": preset} if preset else None
    direct = quantize(model, tmp_path, images=images, method="minmax").report["calibration"]
    why = "fixed: the range of the images' values"
    expected = {"amax": pytest.approx(amax, rel=1e-6), "because": why, "code": "fixed"}
    assert direct["thresholds"]["x"] == expected
    assert direct["ranges"]["x"][1] < amax
    # and when only the statistics are there
    onnxq.calibrate(model, tmp_path, tmp_path / "x.npz", images=images)
    again = quantize(model, stats=tmp_path / "x.npz", method="minmax").report["calibration"]
    assert again["thresholds"] == direct["thresholds"]
    assert again["data"]["images"] == direct["data"]["images"]


# -- [[layer]] -------------------------------------------------------------------------------------


def test_layers_by_name_and_by_operator(roles: Roles) -> None:
    model, data = net(), samples()
    layers = [
        LayerRule(match=("c2",), method="percentile", percentile=90.0, because="noisy", index=1),
        LayerRule(op=("Conv",), amax=50.0, index=2),
    ]
    result = quantize(model, data, method="minmax", layers=layers)
    scales, report = scales_in(result.model), result.report["calibration"]
    used = [data[i] for i in roles.calibrated]
    amax = threshold(raw_stats(model, used, "b"), Method("percentile", 90))
    assert scales == {"x": np.float32(50 / 127), "b": np.float32(amax / 127)}
    assert report["thresholds"] == {
        "x": {"amax": 50.0, "because": "[[layer]] 2", "code": "layer"},
        "b": {"amax": amax, "because": "percentile 90, [[layer]] 1: noisy", "code": "layer"},
    }
    assert report["notes"] == []


def test_a_layer_leaves_parameters_to_the_model(roles: Roles) -> None:
    layers = [LayerRule(op=("Conv",), method="percentile")]
    report = quantize(net(), samples(8), calibration=Calibration("percentile", 75.0), layers=layers).report
    assert report["calibration"]["thresholds"]["x"]["because"] == "percentile 75, [[layer]] 1"


def test_layers_in_float_and_layers_that_share_a_scale(roles: Roles) -> None:
    body = SHARED + "  [c3] z = Conv <pads = [1, 1, 1, 1]> (b, w2)"
    model = net(body, outputs="float[N, M, H, W] y, float[N, M, I, J] z")
    layers = [
        LayerRule(match=("c3",), amax=3.0, index=1),
        LayerRule(match=("c1",), format="float", because="first", index=2),
        LayerRule(op=("Conv",), amax=5.0, index=3),
        LayerRule(op=("MaxPool", "Neg"), method="mse", index=4),
        LayerRule(match=("r1",), method="mse", index=5),
    ]
    result = quantize(model, samples(8), layers=layers, method="minmax")
    report = result.report["calibration"]
    scales = scales_in(result.model)
    assert "x" not in scales
    (kept,) = result.report["plan"]["kept_float"]
    assert (kept["node"], kept["because"]) == ("c1", "[[layer]] 2: first")
    assert report["notes"] == [
        "tensor 'b' is read by layers of [[layer]] 1, 3 and 4, and has one scale: entry 1 is followed",
        "tensor 'n' is read by layers of [[layer]] 1, 3 and 4, and has one scale: entry 1 is followed",
        "[[layer]] 5 changes nothing: no quantized activation is read there",
    ]
    assert set(scales.values()) == {np.float32(3 / 127)}


def test_a_layer_that_is_not_there() -> None:
    with pytest.raises(UserError, match=r"\[\[layer\]\] 7 \(match = 'c9'\) matches no node") as caught:
        quantize(net(), samples(4), layers=[LayerRule(match=("c9",), amax=1.0, index=7)])
    assert "onnxq inspect" in caught.value.hint


def test_what_the_user_states_is_not_chosen_otherwise(roles: Roles) -> None:
    layers = [LayerRule(match=("c1",), amax=3.0)]
    report = quantize(net(), samples(), layers=layers).report["calibration"]
    assert report["thresholds"]["x"]["amax"] == 3.0
    assert all("x" not in refined["tensors"] for refined in report["choice"]["refined"])


# -- auto ------------------------------------------------------------------------------------------


def spoiled(data: Sequence[dict[str, np.ndarray]], which: Sequence[int], value: float) -> list[Any]:
    """The samples; one value of some of them is another."""
    new = [{"x": one["x"].copy()} for one in data]
    for i in which:
        new[i]["x"][0, 3, 4, 5] = value
    return new


@pytest.mark.parametrize(("outliers", "chosen"), [(0, "mse"), (4, "percentile 99.99")])
def test_the_best_method_is_chosen_on_other_samples(roles: Roles, outliers: int, chosen: str) -> None:
    """They calibrate as well, and the same samples calibrate each method alone: all that do not verify."""
    model, data = net(ONE), samples(64)
    if outliers:  # only those that calibrate and do not choose have them
        quantize(model, data)
        data = spoiled(data, sorted({*roles.calibrated} - {*roles.chose})[:outliers], 1e5)
        vars(roles).update(calibrated=[], chose=[], verified=[])
    result = quantize(model, data)
    used, apart, held = set(roles.calibrated), set(roles.chose), set(roles.verified)
    assert (len(used), len(apart), len(held)) == (40 + 16, 16, 8)
    assert apart < used
    assert not used & held
    choice = result.report["calibration"]["choice"]
    assert (choice["samples"], choice["why"]) == (16, "")
    others = [data[i] for i in sorted(apart)]
    alone = {}
    for trial in choice["trials"]:
        name, *value = trial["method"].split()
        roles.calibrated.clear()
        by_itself = quantize(
            model,
            data,
            samples=56,
            method=name,
            percentile=float(value[0]) if name == "percentile" else 99.99,
            constant=float(value[0]) if name == "average" else 0.01,
        )
        assert set(roles.calibrated) == used
        alone[trial["method"]] = noise(model, by_itself.model, others)
        assert trial["sqnr_db"] == pytest.approx(sqnr(model, by_itself.model, others), abs=0.02)
        assert trial["samples"] == 16
        if trial["method"] == choice["method"]:
            assert same_bytes(by_itself, result)
    assert len(alone) >= 3
    assert choice["method"] == best_beyond_doubt(alone, "mse") == choice["trials"][0]["method"] == chosen
    assert choice["sqnr_db"] == choice["trials"][0]["sqnr_db"]


def test_an_outlier_makes_auto_clip(roles: Roles) -> None:
    """For minmax it is fatal, and for mse, which does not clip one that is so large."""
    model, data = net(ONE), samples(64)
    quantize(model, data)
    data = spoiled(data, [roles.calibrated[0]], 1e5)
    report = quantize(model, data).report["calibration"]
    levels = {trial["method"]: trial["sqnr_db"] for trial in report["choice"]["trials"]}
    assert report["ranges"]["x"][1] == 1e5
    assert report["thresholds"]["x"]["amax"] < 1000
    assert report["choice"]["sqnr_db"] > levels["mse"] + 10
    assert levels["mse"] < 1


def test_information_in_the_peak_makes_auto_keep_it(roles: Roles) -> None:
    data = spoiled(samples(64), range(0, 64, 2), 10_000)
    report = quantize(net(ONE), data).report["calibration"]
    levels = {trial["method"]: trial["sqnr_db"] for trial in report["choice"]["trials"]}
    assert report["thresholds"]["x"]["amax"] > 9900
    assert report["choice"]["sqnr_db"] > levels["percentile 99.9"] + 20


TWO_WAYS = """l = Mul (x, low)  r = Mul (x, high)
    [left] p = Conv <pads = [1, 1, 1, 1]> (l, w1)  [right] q = Conv <pads = [1, 1, 1, 1]> (r, w2)"""


def two_ways() -> onnx.ModelProto:
    model = net(TWO_WAYS, outputs="float[N, 16, H, W] p, float[N, 16, H, W] q")
    halves = np.float32(np.arange(16) < 8).reshape(1, 16, 1, 1)
    for name, mask in (("low", halves), ("high", 1 - halves)):
        model.graph.initializer.append(onnx.numpy_helper.from_array(mask, name))
    return model


def test_refinement_gives_one_tensor_another_threshold(roles: Roles) -> None:
    """Left outliers that are noise, right a peak that varies, the signal: no method is good for both."""
    model, data = two_ways(), samples(128)
    quantize(model, data)
    for place, one in enumerate(data):
        one["x"][0, 10, 4, 5] = 3000 * (place % 2)
    for i in set(roles.calibrated) - set(roles.chose):
        data[i]["x"][0, 3, 4, 5] = 1e5
    roles.chose.clear()
    result = quantize(model, data)
    report = result.report["calibration"]
    choice = report["choice"]
    (refined,) = choice["refined"]
    (tensor,) = refined["tensors"]
    assert (tensor, refined["before"], refined["method"]) == ("l", 1e5, "average 0.5")
    assert choice["sqnr_db"] > choice["trials"][0]["sqnr_db"] + 3
    assert refined["gain_db"] > 3
    assert report["thresholds"][tensor] == {
        "amax": refined["after"], "because": f"{refined['method']}, chosen by the outputs",
        "code": "chosen",
    }  # fmt: skip
    assert scales_in(result.model)[tensor] == np.float32(refined["after"] / 127)
    apart = [data[i] for i in sorted(set(roles.chose))]
    parts = find_parts(Model.open(model), ort.load(model), apart)
    assert sqnr(model, result.model, apart, parts) == pytest.approx(choice["sqnr_db"], abs=0.02)


def test_outputs_that_cannot_be_compared(roles: Roles) -> None:
    body = CHAIN.replace("y = Relu (c)", "d = Relu (c)") + " y = ArgMax <axis = 1> (d)"
    report = quantize(net(body, outputs="int64[N, 1, 8, 8] y"), samples()).report["calibration"]
    assert report["method"] == "auto: mse"
    assert report["choice"]["why"].startswith("no output could")
    assert report["choice"]["trials"] == []
    assert {entry["because"] for entry in report["thresholds"].values()} == {"mse"}


FEW = "there are too few samples to keep some apart: those that calibrated chose"


@pytest.mark.parametrize("kind", [list, iter])
@pytest.mark.parametrize("count", [1, 3, 8])
def test_few_samples(roles: Roles, count: int, kind: Any) -> None:
    result = quantize(net(), kind(samples(count)))
    report = result.report["calibration"]
    used, chose, held = set(roles.calibrated), set(roles.chose), set(roles.verified)
    assert len(used) == len(roles.calibrated) == report["samples"]
    assert used
    assert chose
    assert held
    assert report["choice"]["samples"] == len(chose)
    assert len(report["choice"]["trials"]) >= 2
    if count == 1:
        assert used == chose == held == {0}
        assert is_said(report["held_out"], "shared")
    else:
        assert not held & (used | chose)
    assert chose <= used
    assert report["choice"]["why"] == ("" if count == 8 else FEW)
    # as they are few, all that calibrated choose, whether or not some are to; of an iterator, these alone
    assert chose == ({4} if count == 8 and kind is iter else used)


def test_few_samples_of_one_that_can_be_iterated_again(roles: Roles) -> None:
    """Each is read once: what calibrated is not divided anew."""

    class Again:
        def __iter__(self) -> Iterator[dict[str, np.ndarray]]:
            return iter(samples(3))

    quantize(net(), Again())
    assert (roles.calibrated, sorted(set(roles.chose)), roles.verified) == ([1, 2], [1, 2], [0])


def test_search_tries_percentiles_only(roles: Roles) -> None:
    """99.99 is the one in doubt."""
    model, data = net(ONE), spoiled(samples(64), range(0, 64, 9), 300)
    result = quantize(model, data, search=True, samples=40)
    choice = result.report["calibration"]["choice"]
    assert {trial["method"] for trial in choice["trials"]} <= {str(method) for method in SEARCH}
    apart, found = [data[i] for i in sorted(set(roles.chose))], {}
    for trial in choice["trials"]:
        percentile = float(trial["method"].split()[1])
        other = quantize(model, data, method="percentile", percentile=percentile, samples=40)
        found[trial["method"]] = noise(model, other.model, apart)
        if trial["samples"] == len(apart):
            assert trial["sqnr_db"] == pytest.approx(sqnr(model, other.model, apart), abs=0.02)
        if trial["method"] == choice["method"]:
            assert same_bytes(other, result)
    assert len(found) >= 4
    assert choice["method"] == best_beyond_doubt(found, "percentile 99.99")
    assert choice["refined"] == []


def test_two_runs_give_the_same_bytes() -> None:
    data = spoiled(samples(32), [3, 5], 3000)
    one, other = (quantize(net(SHARED), data) for _ in range(2))
    assert one.model.SerializeToString(deterministic=True) == other.model.SerializeToString(
        deterministic=True
    )
    for name in ("calibration", "accuracy", "plan"):
        assert one.report[name] == other.report[name]


# -- statistics ------------------------------------------------------------------------------------


def same_bytes(one: Any, other: Any) -> bool:
    return one.model.SerializeToString(deterministic=True) == other.model.SerializeToString(
        deterministic=True
    )


def test_statistics_of_a_file_give_the_same_model(tmp_path: Path, roles: Roles) -> None:
    """`auto` divides the samples as `calibrate` does; another method, where `samples` leaves enough over."""
    model, data, path = net(SHARED), samples(64), tmp_path / "x.stats.npz"
    onnxq.calibrate(model, data, path)
    direct = quantize(model, data)
    used, chose, held = set(roles.calibrated), set(roles.chose), roles.verified.copy()
    vars(roles).update(calibrated=[], chose=[], verified=[])
    again = quantize(model, data, stats=path)
    assert same_bytes(direct, again)
    assert (roles.calibrated, set(roles.chose), roles.verified) == ([], chose, held)
    assert chose < used
    assert used.isdisjoint(held)
    for part in ("accuracy", "plan"):
        assert again.report[part] == direct.report[part]
    ours, theirs = direct.report["calibration"], again.report["calibration"]
    assert theirs["stats_file"] == str(path)
    assert {key for key in ours if ours[key] != theirs[key]} == {"stats_file"}
    onnxq.calibrate(model, data, path, samples=40, seed=3)
    for method in ("entropy", "average"):
        alone = quantize(model, data, method=method, samples=40, seed=3)
        assert same_bytes(alone, quantize(model, data, method=method, stats=path))


def test_statistics_alone(tmp_path: Path) -> None:
    model, data, path = net(), samples(), tmp_path / "x.stats.npz"
    onnxq.calibrate(model, data, path)
    result = quantize(model, stats=path, method="entropy")
    assert same_bytes(result, quantize(model, data, stats=path, method="entropy"))
    assert result.report["accuracy"] == []
    assert is_said(result.report["calibration"]["held_out"], "none")
    assert result.report["calibration"]["samples"] == 28
    choice = quantize(model, stats=path).report["calibration"]["choice"]
    assert (choice["method"], is_said(choice["why"], "no-choice.no-data")) == ("mse", True)


def test_statistics_of_another_model_or_other_data(tmp_path: Path) -> None:
    model, data, path = net(), samples(), tmp_path / "x.stats.npz"
    onnxq.calibrate(model, data, path)
    other = net()
    other.graph.initializer[0].CopyFrom(
        onnx.numpy_helper.from_array(np.ones((16, 16, 3, 3), np.float32), "w1")
    )
    for changed, options in ((other, {}), (model, {"shapes": {"x": [1, 16, 8, 8]}})):
        with pytest.raises(UserError, match="statistics of another model") as caught:
            quantize(changed, data, stats=path, **options)
        assert str(path) in str(caught.value)
    with pytest.raises(UserError, match=r"of other data: sample \d+ \(item \d+ of the data\) is another"):
        quantize(model, samples(seed=2), stats=path)
    with pytest.raises(UserError, match=r"of other data: of a sample \d+, and there are only 8 now"):
        quantize(model, data[:8], stats=path)
    with pytest.raises(UserError, match="which of its samples calibrated before is not known"):
        quantize(model, iter(data), stats=path)
    with pytest.raises(UserError, match="there is no calibration data") as caught:
        quantize(model)
    assert "--stats" in caught.value.hint


def test_what_statistics_lack_is_measured(tmp_path: Path, roles: Roles) -> None:
    """A pool in float no longer moves values: its output has a range of its own."""
    model, data, path = net(SHARED), samples(), tmp_path / "x.stats.npz"
    onnxq.calibrate(model, data, path)
    with pytest.raises(
        UserError, match=r"x.stats.npz' has no statistics of tensor 'p' \(1 of those"
    ) as caught:
        quantize(model, stats=path, keep_float=["pool"])
    assert "--calib DATA" in caught.value.hint
    result = quantize(model, data, stats=path, keep_float=["pool"], method="minmax")
    used = [data[i] for i in roles.calibrated]
    assert len(used) == 28
    assert scales_in(result.model)["p"] == np.float32(raw_stats(model, used, "p").amax / 127)
    assert same_bytes(result, quantize(model, data, keep_float=["pool"], method="minmax", samples=28))


# -- TensorRT's calibration caches -----------------------------------------------------------------


@pytest.mark.parametrize("opset", [11, 17])
def test_tensorrt_7_gets_the_float_model_and_a_cache(tmp_path: Path, roles: Roles, opset: int) -> None:
    model, data = net(opset=opset), samples()
    onnx.save(model, tmp_path / "net.onnx")
    result = quantize(tmp_path / "net.onnx", data, target="tensorrt-7")
    sanitized = onnxq.sanitize(tmp_path / "net.onnx", target="tensorrt-7", prove="never")
    assert same_bytes(result, sanitized)
    assert "QuantizeLinear" not in {node.op_type for node in result.model.graph.node}
    for part in ("opset", "nodes", "unsupported", "changes", "interface_changes"):
        assert result.report[part] == sanitized.report[part]
    assert {str(path.name) for path in result.save(tmp_path / "out.onnx")} == {
        "out.onnx", "out.cache", "out.report.json", "out.report.html"
    }  # fmt: skip
    cache = trt_cache.read_cache(tmp_path / "out.cache")
    assert (cache.header, set(cache.scales)) == ("TRT-7103-EntropyCalibration2", set("xabcy"))
    report = result.report["calibration"]
    for name, scale in report["scales"].items():
        assert cache.scales[name] == np.float32(scale)
    used = [data[i] for i in sorted(roles.calibrated)]
    method = Method(report["choice"]["method"])
    for name in "acy":
        assert cache.scales[name] == np.float32(threshold(raw_stats(model, used, name), method) / 127)
    (command,) = result.report["commands"]
    assert command == (
        f"trtexec --onnx={tmp_path}/out.onnx --saveEngine=out.engine --int8 --calib={tmp_path}/out.cache "
        "--minShapes=x:1x16x8x8 --optShapes=x:1x16x8x8 --maxShapes=x:1x16x8x8"
    )
    assert report["cached"] == 5
    assert is_said(report["not_verified"], "cache-not-verified", target="TensorRT 7")
    assert result.report["engine"]["status"] == "not-run"
    # what was verified: Q/DQ pairs at these scales
    layers = [LayerRule(match=("c1",), amax=report["thresholds"]["x"]["amax"], index=1),
              LayerRule(match=("c2",), amax=report["thresholds"]["b"]["amax"], index=2)]  # fmt: skip
    explicit = quantize(model, data, layers=layers)
    assert scales_in(explicit.model) == {name: cache.scales[name] for name in "xb"}
    assert result.report["accuracy"] == explicit.report["accuracy"]


def test_a_cache_that_is_read_gives_the_same_scales(tmp_path: Path, roles: Roles) -> None:
    model, data = net(SHARED), samples()
    written = quantize(model, data, target="tensorrt-7")
    written.save(tmp_path / "out.onnx")
    scales = trt_cache.read_cache(tmp_path / "out.cache").scales
    roles.calibrated.clear()  # nothing is left to measure or to choose
    for given in (None, data):
        explicit = quantize(model, given, stats=tmp_path / "out.cache")
        found = scales_in(explicit.model)
        assert found == {name: scales[name] for name in found}
        assert set(found) >= {"x", "b", "n"}
        assert {e["because"] for e in explicit.report["calibration"]["thresholds"].values()} == {
            "calibration cache"
        }
        assert bool(explicit.report["accuracy"]) == bool(given)
        assert (explicit.report["calibration"]["method"], roles.calibrated) == ("calibration cache", [])
        again = quantize(model, given, target="tensorrt-7", stats=tmp_path / "out.cache")
        assert again.cache == written.cache


@pytest.mark.parametrize("bits", [0x3C010204, 0x0A800001, 0x7E000001])
def test_the_bits_of_a_scale_survive(tmp_path: Path, bits: int) -> None:
    (tmp_path / "a.cache").write_text(f"TRT-8601-MinMaxCalibration\nx: {bits:08x}\nb: 3f000000\n")
    result = quantize(net(), stats=tmp_path / "a.cache")
    assert scales_in(result.model)["x"].view(np.uint32) == bits


def test_a_cache_that_lacks_a_tensor(tmp_path: Path, roles: Roles) -> None:
    model, data, path = net(), samples(), tmp_path / "part.cache"
    path.write_text("TRT-8601-EntropyCalibration2\nx: 3f000000\nother: 3f000000\n")
    with pytest.raises(UserError, match=r"part.cache' has no scale of tensor 'b' \(1 of those") as caught:
        quantize(model, stats=path)
    assert "--calib DATA" in caught.value.hint
    result = quantize(model, data, stats=path, method="minmax")
    used = [data[i] for i in roles.calibrated]
    assert scales_in(result.model) == {"x": 0.5, "b": np.float32(raw_stats(model, used, "b").amax / 127)}
    because = {n: e["because"] for n, e in result.report["calibration"]["thresholds"].items()}
    assert because == {"x": "calibration cache", "b": "minmax"}


def test_a_cache_states_a_group_by_any_of_its_tensors(tmp_path: Path) -> None:
    """By the widest; a scale of 0 is of a tensor that is always zero."""
    (tmp_path / "a.cache").write_text("TRT-8601-EntropyCalibration2\nx: 00000000\nj: 3f000000\np: 3e000000\n")
    scales = scales_in(quantize(net(SHARED), stats=tmp_path / "a.cache").model)
    assert scales.pop("x") == 1
    assert set(scales.values()) == {0.5}


@pytest.mark.parametrize("target", ["tensorrt-8.6", "tensorrt-10"])
def test_targets_that_take_both(tmp_path: Path, target: str) -> None:
    model, data = net(), samples(8)
    result = quantize(model, data, target=target, cache=True)
    assert {path.name for path in result.save(tmp_path / "out.onnx")} == {
        "out.onnx", "out.cache", "out.report.json", "out.report.html"
    }  # fmt: skip
    cache = trt_cache.read_cache(tmp_path / "out.cache")
    assert cache.header == load_target(target).cache
    assert set(cache.scales) == set("xabcy")
    found = scales_in(result.model)
    assert found == {name: cache.scales[name] for name in "xb"}
    assert "--calib" not in result.report["commands"][0]
    assert result.report["calibration"]["not_verified"] == ""
    assert same_bytes(result, quantize(model, data, target=target))


def test_targets_without_caches() -> None:
    with pytest.raises(UserError, match="TensorRT 11 reads no calibration caches"):
        quantize(net(), samples(4), cache=True)


def test_the_users_cache_is_not_written_over(tmp_path: Path) -> None:
    (tmp_path / "out.cache").write_text("TRT-8601-EntropyCalibration2\nx: 3f000000\n")
    result = quantize(net(), samples(4))
    result.save(tmp_path / "out.onnx")  # it writes no cache
    (tmp_path / "out.onnx").unlink()
    (tmp_path / "out.report.json").unlink()
    other = quantize(net(), samples(4), target="tensorrt-7")
    with pytest.raises(UserError, match=r"out.cache' exists, and onnxq did not write it"):
        other.save(tmp_path / "out.onnx")
    with pytest.raises(UserError, match=r"new.cache' is an ONNX model, and its name ends in '.cache'"):
        other.save(tmp_path / "new.cache")
    other.save(tmp_path / "out.onnx", force=True)
    other.save(tmp_path / "out.onnx")


def test_scales_of_a_float16_model_are_those_of_the_report() -> None:
    model = onnx.parser.parse_model(f"""<ir_version: 8, opset_import: ["" : 17]>
        g (float16[N, 16, 8, 8] x) => (float16[N, M, H, W] y) {{ {CHAIN} }}""")
    for tensor in net().graph.initializer:
        values = onnx.numpy_helper.to_array(tensor).astype(np.float16) / 16
        model.graph.initializer.append(onnx.numpy_helper.from_array(values, tensor.name))
    data = [{"x": one["x"].astype(np.float16) / 16} for one in samples()]
    result = quantize(model, data)
    report = result.report["calibration"]
    assert len(report["choice"]["trials"]) >= 3
    assert set(scales_in(result.model).values()) == set(map(np.float32, report["scales"].values()))


def test_layers_in_float_have_no_scale_of_their_own_in_the_cache() -> None:
    for options in ({"keep_float": ["c2"]}, {"layers": [LayerRule(match=("c2",), format="float")]}):
        cache = quantize(net(), samples(4), target="tensorrt-7", **options).cache
        assert [line.split(":")[0] for line in (cache or "").splitlines()[1:]] == ["x", "a", "b", "y"]


# -- what is odd about a model or its samples --------------------------------------------------------


GATHERED = """z = NonZero (x)  t = Transpose <perm = [1, 0]> (z)  g = GatherND (x, t)  k = Relu (g)
    u = Unsqueeze (k, one)  e = Expand (u, wide)  y = MatMul (e, w)"""


@pytest.mark.parametrize("kind", ["float", "double", "bfloat16"])
def test_a_tensor_of_unknown_size_in_any_type(kind: str) -> None:
    """Its size is asked of the model, on a sample in the type that onnxruntime runs."""
    model = onnx.parser.parse_model(
        f"""<ir_version: 10, opset_import: ["" : 17]>
        g ({kind}[8, 8] x) => ({kind}[R, 32] y) <int64[1] one = {{1}}, int64[2] wide = {{1, 32}}> {{
            {GATHERED} }}"""
    )
    weights = np.random.default_rng(0).standard_normal((32, 32)).astype(np.float32)
    dtype = onnx.TensorProto.DataType.Value(kind.upper())
    model.graph.initializer.append(onnx.helper.make_tensor("w", dtype, (32, 32), weights.ravel()))
    random = np.random.default_rng(1)
    dense = onnx.helper.tensor_dtype_to_np_dtype(dtype)
    data = [{"x": random.integers(-2, 3, (8, 8)).astype(dense)} for _ in range(12)]
    report = quantize(model, data, method="mse").report
    assert report["calibration"]["samples"] == 11
    assert report["calibration"]["in_float32"] == (kind != "float")


def test_a_cache_lacks_what_onnxruntime_does_not_compute() -> None:
    model = net(CHAIN.replace("y = Relu (c)", "f = my.Foo (c)  y = Relu (f)"))
    model.opset_import.append(onnx.helper.make_opsetid("my", 1))
    result = quantize(model, samples(), target="tensorrt-7")
    assert result.cache is not None
    named = {line.rpartition(":")[0] for line in result.cache.splitlines()[1:]}
    assert named == {"x", "a", "b", "c"}


@pytest.mark.parametrize(
    "keep", [{"keep_float": ["r2"]}, {"layers": [LayerRule(match=("r2",), format="float")]}]
)
def test_a_cache_lacks_what_the_user_keeps_in_float(keep: dict[str, Any]) -> None:
    result = quantize(net(), samples(), target="tensorrt-7", **keep)
    assert result.cache is not None
    named = {line.rpartition(":")[0] for line in result.cache.splitlines()[1:]}
    assert named == {"x", "a", "b", "c"}


def test_a_stated_range_needs_no_statistics(tmp_path: Path) -> None:
    path = tmp_path / "x.cache"
    path.write_text(trt_cache.write_cache({"x": np.float32(0.5)}, "TRT-8601-EntropyCalibration2"))
    with pytest.raises(UserError, match="has no scale of tensor 'b'"):
        quantize(net(), stats=path)
    report = quantize(net(), stats=path, layers=[LayerRule(match=("c2",), amax=12.7)]).report
    assert report["calibration"]["scales"] == {"x": 0.5, "b": pytest.approx(0.1)}


RESHAPED = "[c1] a = Conv <pads = [1, 1, 1, 1]> (x, w1)  [shape] y = Reshape (a, eight)"


def fussy() -> onnx.ModelProto:
    """A model that runs on images of 8 x 8 only, though its input may have any size."""
    model = net(RESHAPED, outputs="float[1, 1024] y")
    model.graph.input[0].CopyFrom(onnx.helper.make_tensor_value_info("x", 1, [1, 16, "H", "W"]))
    model.graph.initializer.append(onnx.numpy_helper.from_array(np.array([1, 1024]), "eight"))
    return model


@pytest.mark.parametrize("method", ["mse", "auto"])
def test_samples_on_which_the_model_does_not_run(roles: Roles, method: str) -> None:
    """Wherever they are: among those that calibrate, that choose, or all that would verify."""
    quantize(fussy(), samples(), method=method)
    used, chose, held = list(roles.calibrated), sorted(set(roles.chose)), list(roles.verified)
    for bad in (used[:2], chose[:2], held[:1], held):
        data = samples()
        for i in bad:
            data[i] = {"x": np.concatenate([data[i]["x"]] * 2, 3)}
        if bad:
            named = "|".join(map(str, bad))
            with pytest.raises(UserError, match=rf"the model does not run on item ({named}) of the data: "):
                quantize(fussy(), data, method=method)
        report = quantize(fussy(), data, method=method, skip_bad=True).report
        assert report["calibration"]["data"]["skipped"]["count"] == len(bad)
        assert report["accuracy"][0]["samples"] > 0
        assert report["calibration"]["held_out"].startswith("samples that") == (bad == held)


def test_statistics_of_other_data_in_the_middle(tmp_path: Path) -> None:
    """A sample that is new, in front of others, moves them to other places."""
    stats, data = tmp_path / "x.stats.npz", samples(40)
    onnxq.calibrate(net(), data, stats)
    quantize(net(), data, stats=stats)
    with pytest.raises(UserError, match="holds statistics of other data"):
        quantize(net(), [*data[:5], *samples(1, seed=9), *data[5:]], stats=stats)


TWO_OUTPUTS = """<ir_version: 8, opset_import: ["" : 17]>
    net (float[1, 32, 8, 8] x) => (float[1, 16, 8, 8] y, float[1, 16, 8, 8] z) {
        [split] a, b = Split <axis = 1> (x)  [left] c = Sqrt (a)  [right] d = Exp (b)
        [c1] y = Conv (c, w1)  [c2] z = Conv (d, w2)  }"""


def two_outputs() -> onnx.ModelProto:
    return weighted(TWO_OUTPUTS, w1=(16, 16, 1, 1), w2=(16, 16, 1, 1))


def positive(count: int = 8) -> list[dict[str, np.ndarray]]:
    random = np.random.default_rng(1)
    return [{"x": random.random((1, 32, 8, 8), np.float32)} for _ in range(count)]


def amax_in(model: onnx.ModelProto, weight: str) -> np.ndarray:
    (scale,) = (t for t in model.graph.initializer if t.name == f"{weight}_scale")
    return np.float32(127) * onnx.numpy_helper.to_array(scale)


def test_a_layer_about_one_output() -> None:
    layers = [LayerRule(match=("left",), output=0, amax=3.0)]
    scales = scales_in(quantize(two_outputs(), positive(), layers=layers, method="minmax").model)
    assert scales["c"] == np.float32(3 / 127)
    assert scales["d"] == scales_in(quantize(two_outputs(), positive(), method="minmax").model)["d"]
    with pytest.raises(UserError, match=r"is of output 1, and node 'left' has 1"):
        quantize(two_outputs(), positive(), layers=[replace(layers[0], output=1)])


def test_layers_about_weights() -> None:
    layers = [
        LayerRule(match=("c1",), of="weights", method="mse", index=1),
        LayerRule(match=("c2",), of="weights", percentile=90.0, method="percentile", index=2),
        LayerRule(match=("c1",), amax=3.0, index=3),
        LayerRule(op=("Sqrt",), of="weights", amax=1.0, index=4),
    ]
    result = quantize(two_outputs(), positive(), layers=layers, method="minmax")
    assert scales_in(result.model)["c"] == np.float32(3 / 127)  # rules about weights leave activations alone
    w1, w2 = (onnx.numpy_helper.to_array(t).reshape(16, 16) for t in two_outputs().graph.initializer)

    def noise(amax: np.ndarray) -> np.ndarray:
        scale = (amax / np.float32(127)).reshape(-1, 1)
        return np.asarray(((np.clip(np.rint(w1 / scale), -127, 127) * scale - w1) ** 2).sum(axis=1))

    least, most = amax_in(result.model, "w1"), np.abs(w1).max(axis=1)
    assert (noise(least) <= noise(most) * (1 + 1e-5)).all()
    assert (noise(least) < 0.999 * noise(most)).any()
    assert (least <= most * (1 + 1e-6)).all()
    # the least of 16 that 90 % do not exceed is the 15th
    np.testing.assert_allclose(amax_in(result.model, "w2"), np.sort(np.abs(w2), axis=1)[:, 14], rtol=1e-6)
    stated = result.report.calibration.weights
    assert {name: (one.node, one.because) for name, one in stated.items()} == {
        "w1": ("c1", "[[layer]] 1 (mse)"), "w2": ("c2", "[[layer]] 2 (percentile 90)"),
    }  # fmt: skip

    def level(weights: np.ndarray, amax: np.ndarray) -> float:
        scale = (amax / np.float32(127)).reshape(-1, 1)
        error = np.clip(np.rint(weights / scale), -127, 127) * scale - weights
        return float(10 * np.log10((weights**2).sum() / (error.astype(np.float64) ** 2).sum()))

    for name, weights in (("w1", w1), ("w2", w2)):
        assert stated[name].db == pytest.approx(level(weights, amax_in(result.model, name)), abs=1e-3)
        assert stated[name].whole_db == pytest.approx(level(weights, np.abs(weights).max(axis=1)), abs=1e-3)
    lost = stated["w2"]
    assert lost.lost_db > 10
    assert result.report["calibration"]["notes"] == [
        "[[layer]] 4 changes nothing: no quantized weight is read there",
        f"[[layer]] 2 (percentile 90) costs the weights of 'c2' {lost.lost_db:.1f} dB: {lost.whole_db:.1f} "
        f"dB without it, {lost.db:.1f} dB with it",
    ]
    plain = quantize(two_outputs(), positive(), method="minmax").report
    judge = Judge(Margins())
    scales(plain, result.report, judge)
    row = next(one for one in judge.rows if one.name == "w2")
    assert (row.verdict, row.what, row.node, row.why) == (
        "worse", "SQNR of weights", "c2", "[[layer]] 2 (percentile 90)",
    )  # fmt: skip
    assert (row.a, row.b) == (lost.whole_db, lost.db)
    cause = next(one for one in likely(result.report) if one.code == "stated-weights")
    assert is_said(cause.said, "stated-weights", entry="[[layer]] 2 (percentile 90)", node="c2")
    assert not [one for one in likely(plain) if one.code == "stated-weights"]


def test_a_fixed_range_of_weights() -> None:
    layers = [LayerRule(op=("Conv",), of="weights", amax=2.54)]
    result = quantize(two_outputs(), positive(), layers=layers, method="minmax")
    assert amax_in(result.model, "w2") == pytest.approx([2.54] * 16, rel=1e-6)
