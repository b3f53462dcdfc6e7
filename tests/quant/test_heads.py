"""Heads, found by position; and left in float by flag, or where samples say so."""

from __future__ import annotations

import dataclasses
import importlib
import re
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from grid_nets import Net
from said import is_said

import onnxq
from onnxq.base.errors import UserError
from onnxq.cli.pages.plan import heads_entry
from onnxq.cli.screen import Page
from onnxq.graph.model import Model
from onnxq.judge import policies
from onnxq.judge.acceptance import Levels
from onnxq.noise.gram import Effort, NoiseModel
from onnxq.noise.sources import NoiseSource, Sources
from onnxq.pipeline.searches import loud
from onnxq.quant.heads import eligible_heads, heads
from onnxq.quant.plan import Edge


def ints(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


def layer(net: Net, x: str, out: int, cin: int, kernel: int = 1, *, name: str, op: str = "Conv") -> str:
    weights = np.random.default_rng(len(name)).standard_normal((out, cin, kernel, kernel)) / np.sqrt(cin)
    return net.add(op, x, net.const(weights.astype(np.float32)), name=name, pads=[kernel // 2] * 4)


def found(net: Net, *outputs: str) -> set[str]:
    return set(heads(Model.open(net.model(*outputs))))


def trunk() -> tuple[Net, str]:
    net = Net(1, 16, 8, 8)
    return net, net.add("Relu", layer(net, "x", 16, 16, 3, name="trunk"))


def test_a_detector_with_decoding_and_an_expectation_over_bins() -> None:
    net, x = trunk()
    bins = net.add("Reshape", layer(net, x, 64, 16, name="boxes"), net.const(ints(1, 4, 16, 64)))
    bins = net.add("Softmax", net.add("Transpose", bins, perm=[0, 2, 1, 3]), axis=1)
    distance = net.add("Reshape", layer(net, bins, 1, 16, name="expectation"), net.const(ints(1, 4, 64)))
    pixels = net.add("Mul", distance, net.const(np.float32(8).reshape(())))
    scores = net.add("Reshape", layer(net, x, 5, 16, name="classes"), net.const(ints(1, 5, 64)))
    scores = net.add("Sigmoid", scores)
    both = net.add("Concat", pixels, scores, axis=1)
    assert found(net, both) == {"boxes", "expectation", "classes"}


@pytest.mark.parametrize(
    ("ops", "is_head"),
    [
        ([("Relu", {}), ("GlobalAveragePool", {}), ("Softmax", {"axis": 1})], True),
        ([("Sigmoid", {}), ("ArgMax", {"axis": 1})], True),
        ([("DepthToSpace", {"blocksize": 2}), ("Clip", {})], True),
        ([("MaxPool", {"kernel_shape": [2, 2]})], False),
        ([("AveragePool", {"kernel_shape": [2, 2]})], False),
        ([("LpNormalization", {})], False),
    ],
    ids=["mean of a map", "labels", "pixels", "max pool", "pool", "normalization"],
)
def test_what_is_between_a_head_and_the_output(ops: list[tuple[str, dict[str, Any]]], is_head: bool) -> None:
    net, x = trunk()
    y = layer(net, x, 16, 16, name="last")
    for op, attrs in ops:
        y = net.add(op, y, **attrs)
    assert found(net, y) == ({"last"} if is_head else set())


def test_what_another_layer_reads_is_no_head_though_it_is_an_output() -> None:
    net, x = trunk()
    first = layer(net, x, 16, 16, name="first")
    last = layer(net, net.add("Relu", first), 16, 16, name="last", op="ConvTranspose")
    size = net.add("Shape", last)  # that passes no value on
    assert found(net, first, last, net.add("Resize", layer(net, x, 16, 16, name="map"), "", "", size)) == {
        "last",
        "map",
    }


def test_scores_of_attention_are_no_heads() -> None:
    net, x = trunk()
    a, b = (layer(net, x, 16, 16, name=name) for name in ("a", "b"))
    assert found(net, net.add("MatMul", a, b)) == set()


def test_what_gains_nothing_from_int8_is_not_offered() -> None:
    net, x = trunk()
    depthwise = net.const(np.ones((16, 1, 1, 1), np.float32))
    y = net.add("Conv", x, depthwise, name="depthwise", group=16)
    model = Model.open(net.model(y, layer(net, x, 16, 16, name="last")))
    assert heads(model) == ("depthwise", "last")
    assert eligible_heads(model) == ("last",)


# -- the option --------------------------------------------------------------------------------------


def two_heads(*, outlier: float) -> onnx.ModelProto:
    """Two heads; one reads a tensor of which one channel is so many times greater, and next to unused."""
    net, x = trunk()
    much = np.ones((1, 16, 1, 1), np.float32)
    much[0, 3] = outlier
    wide = net.add("Mul", net.add("Sigmoid", x), net.const(much))
    weights = np.random.default_rng(1).standard_normal((16, 16, 1, 1)).astype(np.float32)
    weights[:, 3] = 0
    hurt = net.add("Conv", wide, net.const(weights), name="hurt")
    return net.model(layer(net, x, 16, 16, name="fine"), hurt)


SAMPLES = [
    {"x": sample} for sample in np.random.default_rng(5).standard_normal((32, 1, 16, 8, 8)).astype(np.float32)
]
COMMON: dict[str, Any] = {
    "compile": False, "method": "minmax", "prove": "never", "body": "fp32", "repair": "none",
}  # fmt: skip


def report_of(proto: onnx.ModelProto, **options: Any) -> dict[str, Any]:
    report: dict[str, Any] = onnxq.quantize(proto, SAMPLES, **{**COMMON, **options}).report
    return report


def in_float(report: dict[str, Any]) -> dict[str, str]:
    return {entry["node"]: entry["because"] for entry in report["plan"]["kept_float"]}


def test_by_default_what_is_loud_is_named_and_stays_in_int8_where_that_is_much_work() -> None:
    report = report_of(two_heads(outlier=200))
    assert in_float(report) == {}
    told = report["plan"]["heads"]
    assert told["asked"] == "default"
    assert told["left_float"] == []
    (source,) = told["loud"]
    assert [one["sqnr_db"] for one in told["foreseen"]] == [20.0, 30.0]
    assert (source["name"], source["output"], source["left_float"]) == ("hurt", "hurt", False)
    assert source["share"] == pytest.approx(1 / 11)
    assert is_said(source["why"], "loud-share.output", several="it alone makes", share="100%", output="hurt")
    assert is_said(source["why"], "loud-worth", share="9.09%", format="int8")


def test_all_heads_are_float_where_that_is_asked_for() -> None:
    report = report_of(two_heads(outlier=1), loud="float")
    assert in_float(report) == dict.fromkeys(("fine", "hurt"), "a head, and heads are asked for in float")
    assert report["plan"]["heads"]["share"] == pytest.approx(2 / 11)  # 1x1 twice, beside one of 3x3
    assert report["plan"]["int8_share_of_eligible_macs"] == pytest.approx(9 / 11)


def test_auto_leaves_the_head_in_float_that_costs_the_outputs_most() -> None:
    int8, report = report_of(two_heads(outlier=200)), report_of(two_heads(outlier=200), loud="auto")
    told = report["plan"]["heads"]
    assert told["left_float"] == ["hurt"]
    ((node, why),) = in_float(report).items()
    assert node == "hurt"
    assert is_said(why, "loud-worth", gain=told["gain_db"], share="9.09%", format="int8")
    gain = report["about_mean"]["sqnr_about_mean_db"] - int8["about_mean"]["sqnr_about_mean_db"]
    assert gain > 10
    assert told["gain_db"] == pytest.approx(gain, abs=1)


def test_auto_leaves_none_in_float_where_that_gains_too_little_for_its_price() -> None:
    report = report_of(two_heads(outlier=1), loud="auto")
    told = report["plan"]["heads"]
    assert in_float(report) == {}
    assert report["plan"]["int8_share_of_eligible_macs"] == 1.0
    assert 0 < told["gain_db"] < 100 / 11 / 2  # half a dB for each percent
    assert is_said(told["why"], "loud-refused.gain", share="9.09% of the eligible multiply-accumulates")


@pytest.mark.parametrize(("count", "few"), [(12, True), (16, False)])
def test_samples_that_confirm_what_they_chose_are_said(count: int, few: bool) -> None:
    options = {**COMMON, "loud": "auto"}
    plan = onnxq.quantize(two_heads(outlier=200), SAMPLES[:count], **options).report.plan
    said = "the samples that chose confirmed it as well: give more, 16 at least"
    assert plan
    assert plan.heads is not None
    assert plan.heads.few == (said if few else None)
    page = Page()
    heads_entry(page, plan.heads)
    assert (said in [line.text for line in page.lines]) == few


def test_a_plan_states_heads_itself(tmp_path: Path) -> None:
    model = tmp_path / "m.onnx"
    onnx.save(two_heads(outlier=200), model)
    planned = onnxq.plan(model, SAMPLES, loud="auto", **{k: v for k, v in COMMON.items() if k != "compile"})
    path = tmp_path / "p.toml"
    planned.save(path)
    again = onnxq.quantize(model, SAMPLES, plan=path, compile=False, prove="never")
    assert set(in_float(again.report)) == {"hurt"}
    chosen = onnxq.quantize(model, SAMPLES, loud="auto", **COMMON)
    assert again.model.SerializeToString(deterministic=True) == chosen.model.SerializeToString(
        deterministic=True
    )
    with pytest.raises(UserError, match="says which layers are in float"):
        onnxq.quantize(model, SAMPLES, plan=path, loud="auto")
    with pytest.raises(UserError, match="no choice of loud layers 'flaot'"):
        onnxq.quantize(model, SAMPLES, loud="flaot")


# -- what is loud, by default ------------------------------------------------------------------------


def spiked(*, spike: float, rest: int = 3) -> onnx.ModelProto:
    """A cheap head on a pooled map that is greater at one place; behind the head that is taken away."""
    net, x = trunk()
    for place in range(rest):
        x = net.add("Relu", layer(net, x, 16, 16, 3, name=f"trunk{place}" + "x" * place))
    x = net.add("AveragePool", x, kernel_shape=[2, 2], strides=[2, 2])
    much = np.zeros((1, 16, 4, 4), np.float32)
    much[..., 0, 1] = spike
    weights = np.random.default_rng(1).standard_normal((16, 16, 1, 1)).astype(np.float32) / 4
    wide = net.add("Add", x, net.const(much))
    undone = -np.einsum("oc,nchw->nohw", weights[..., 0, 0], much)
    head = net.add("Conv", wide, net.const(weights), name="head")
    return net.model(net.add("Add", head, net.const(undone)), layer(net, x, 16, 16, name="quiet"))


def test_a_loud_head_that_is_cheap_is_in_float_by_default() -> None:
    int8, report = (report_of(spiked(spike=3000), loud=heads) for heads in ("int8", None))
    told = report["plan"]["heads"]
    assert told["left_float"] == ["head"]
    assert told["share"] < 0.01
    ((node, why),) = in_float(report).items()
    assert node == "head"
    assert is_said(why, "loud-share.output", several="it alone makes", share="100%")
    assert f"{told['gain_db']:+.1f} dB for {told['share']:.2%} of the int8 work" in why
    (source,) = told["loud"]
    assert source["left_float"]
    assert source["why"].startswith("'head' in float: it alone makes 100%")
    gain = report["about_mean"]["sqnr_about_mean_db"] - int8["about_mean"]["sqnr_about_mean_db"]
    assert gain > 20
    assert told["gain_db"] == pytest.approx(gain, abs=2)


def test_where_outputs_are_good_nothing_is_looked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    def measured(*_: object) -> None:
        raise AssertionError("the noise is measured")

    monkeypatch.setattr(importlib.import_module("onnxq.pipeline.accuracy"), "measure_noise", measured)
    int8, result = (
        onnxq.quantize(spiked(spike=1, rest=0), SAMPLES, **COMMON, loud=h) for h in ("int8", None)
    )
    assert result.model.SerializeToString(deterministic=True) == int8.model.SerializeToString(
        deterministic=True
    )
    plan = result.report.plan
    assert plan
    assert plan.heads is not None
    assert re.search("every output has .* dB or more", plan.heads.why)
    assert plan.heads.noise_share is None
    page = Page()
    heads_entry(page, plan.heads)
    assert not page.lines


def test_where_the_noise_is_spread_a_sentence_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    default = loud._EFFORTS["default"]
    monkeypatch.setitem(loud._EFFORTS, "default", dataclasses.replace(default, good_db=100.0))
    report = report_of(spiked(spike=1, rest=8))
    told = report["plan"]["heads"]
    assert (told["left_float"], told["loud"]) == ([], [])
    assert (
        f"the noise is spread: no layer or tensor makes more than {told['noise_share']:.0%} of it"
        == (told["why"])
    )


@pytest.mark.parametrize("options", [{"min_sqnr": 5.0}, {"loud": "int8"}], ids=["goal", "int8"])
def test_where_something_else_says_what_is_in_float_nothing_is_looked_for(options: dict[str, Any]) -> None:
    told = report_of(spiked(spike=300), **options)["plan"]["heads"]
    assert (told["asked"], told["loud"]) == ("int8", [])


@pytest.mark.parametrize(
    ("bad_db", "answers_db", "all_of_them"),
    [(5.0, np.inf, False), (40.0, np.inf, True), (5.0, 4.0, True)],
    ids=["near", "bad output", "answers move"],
)
def test_each_source_is_measured_where_an_output_is_bad_or_answers_move(
    monkeypatch: pytest.MonkeyPatch, bad_db: float, answers_db: float, all_of_them: bool
) -> None:
    """What layers of a block make may cancel: a block hides the one that is loud."""
    default = loud._EFFORTS["default"]
    asked = dataclasses.replace(default.asked, most=18)
    effort = dataclasses.replace(default, asked=asked, good_db=100.0)
    monkeypatch.setitem(loud._EFFORTS, "default", effort)
    monkeypatch.setattr(policies, "BAD_DB", bad_db)
    monkeypatch.setattr(Levels, "answers_db", answers_db)
    accuracy, measured = importlib.import_module("onnxq.pipeline.accuracy"), list[int]()
    measure = accuracy.measure_noise

    def watched(copy: Any, sources: Any, *args: Any, **options: Any) -> Any:
        measured.append(len(sources))
        return measure(copy, sources, *args, **options)

    monkeypatch.setattr(accuracy, "measure_noise", watched)
    report_of(spiked(spike=1, rest=8))
    assert (max(measured) > asked.most) == all_of_them


def test_blocks_are_all_that_is_measured_where_none_is_loud(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a model of many sources whose outputs are not bad; else what is in the loud ones is."""
    monkeypatch.setattr(policies, "BAD_DB", 5.0)
    measured: list[int] = []
    accuracy = importlib.import_module("onnxq.pipeline.accuracy")
    measure = accuracy.measure_noise

    def watched(copy: Any, sources: Any, *args: Any, **options: Any) -> Any:
        measured.append(len(sources))
        return measure(copy, sources, *args, **options)

    monkeypatch.setattr(accuracy, "measure_noise", watched)
    effort = loud._EFFORTS["default"]
    for least, stages in ((0.99, 1), (0.0, 2)):
        measured.clear()
        asked = dataclasses.replace(effort.asked, most=18, loud=least)
        changed = dataclasses.replace(effort, asked=asked, good_db=100.0)
        monkeypatch.setitem(loud._EFFORTS, "default", changed)
        report = report_of(spiked(spike=1, rest=8))
        assert len(measured) >= stages
        assert (len(measured) == 1) == (stages == 1)
        assert not report["plan"]["heads"]["foreseen"]  # of blocks it is not known which layer needs float


def test_the_loudest_tensor_has_a_name_where_no_layer_gains_what_it_costs() -> None:
    """The first of two makes nearly all of the noise, and is read by two layers."""
    edges = [frozenset({Edge("one", 0), Edge("two", 0)}), frozenset({Edge("two", 1)})]
    entries = tuple(
        NoiseSource(name, "activation", place, (name,), some, (frozenset({edge.node for edge in some}),))
        for place, (name, some) in enumerate(zip(("mid", "last"), edges, strict=True))
    )
    noise = {"y": np.diag([9e-4, 1e-4])}
    model = NoiseModel(Sources(entries, {}), noise, {"y": 1.0}, (), Effort(4, 4, 2))
    said = loud._spread(model, float(model.loudness().max()))
    assert is_said(
        said, "spread-noise.tensor", tensor="mid", layers="'one'", reads="and 1 more read", share="90%"
    )
    blocks = Sources((dataclasses.replace(entries[0], kind="block"), entries[1]), {0: entries[:1]})
    said = loud._spread(dataclasses.replace(model, sources=blocks), 0.9)
    assert is_said(said, "spread-noise.parts", count=2, layers="'one' and 1 more", share="90%")


def drowned() -> onnx.ModelProto:
    """A layer that reads one channel 60 times greater than the others; those behind it are fitted to that."""
    net, x = trunk()
    much = np.ones((1, 16, 1, 1), np.float32)
    much[0, 3] = 60
    weights = np.random.default_rng(1).standard_normal((16, 16, 1, 1)).astype(np.float32)
    weights[:, 3] = 0
    wide = net.add("Mul", net.add("Sigmoid", x), net.const(much))
    x = net.add("Relu", net.add("Conv", wide, net.const(weights), name="hurt"))
    x = net.add("Relu", layer(net, x, 16, 16, 3, name="behind"))
    return net.model(layer(net, x, 16, 16, name="last"))


def test_what_is_loud_gains_what_it_does_when_the_others_are_fitted_to_it() -> None:
    """What was fitted makes up for it: with that it would seem to gain less than half of it."""
    options = {**COMMON, "repair": ["bias", "gptq"]}
    (source,) = report_of(drowned(), **options, loud="auto")["plan"]["heads"]["loud"]
    assert source["nodes"] == ["hurt"]
    int8, by_hand = (
        report_of(drowned(), **options, loud="int8", keep_float=kept)["about_mean"]["sqnr_about_mean_db"]
        for kept in ([], ["hurt"])
    )
    assert source["gain_db"] == pytest.approx(by_hand - int8, abs=1.5)


def test_more_than_one_percent_is_in_float_only_where_an_output_is_bad() -> None:
    """The head is 2.6 % of the work; at 20.8 dB it is named, at 18.1 it is in float."""
    fair, bad = (report_of(spiked(spike=spike, rest=0)) for spike in (20, 30))
    assert in_float(fair) == {}
    (named,) = fair["plan"]["heads"]["loud"]
    assert (named["name"], named["left_float"]) == ("head", False)
    assert 5 < named["gain_db"] <= 30 - 20  # of what is beyond 30 dB nothing is gained
    assert set(in_float(bad)) == {"head"}
    assert 0.01 < bad["plan"]["heads"]["share"] < 0.05


def test_repair_begins_anew_behind_what_is_loud() -> None:
    """As if the head had been in float by hand."""
    options = {**COMMON, "repair": ["bias"], "method": "minmax"}
    by_hand = onnxq.quantize(spiked(spike=300), SAMPLES, **options, loud="int8", keep_float=["head"])
    default = onnxq.quantize(spiked(spike=300), SAMPLES, **options)
    assert default.model.SerializeToString(deterministic=True) == by_hand.model.SerializeToString(
        deterministic=True
    )
