"""Attention in int8: where the compiler makes one kernel of it, and where the outputs agree."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from grid_nets import Net

import onnxq
from onnxq.base.reason import noted
from onnxq.body.convert import to_half
from onnxq.graph.model import Model
from onnxq.judge.about_mean import AboutMeanPart
from onnxq.judge.acceptance import Levels
from onnxq.judge.answers import Answers
from onnxq.judge.loss import Loss
from onnxq.judge.policies import LOUD
from onnxq.judge.sqnr import limited_db, nsr_of
from onnxq.pipeline.searches import joints
from onnxq.pipeline.searches.joints import below_floor
from onnxq.quant.insert import insert
from onnxq.quant.placement import make_plan
from onnxq.quant.plan import Joint, QuantPlan
from onnxq.quant.post_scale import post_scale
from onnxq.rule.load import load_rules
from onnxq.run import trt
from onnxq.targets import load_target

pytestmark = pytest.mark.usefixtures("by_place")

RULES = load_rules()
PRODUCTS = {"qk", "pv"}


def net(
    keys: int = 32,
    channels: int = 16,
    *,
    queries: int | None = None,
    form: str = "bert",
    sharp: Sequence[float] = (1, 1, 1, 1),
    batch: int | str = 1,
) -> onnx.ModelProto:
    """Attention of 4 heads between dense layers.

    Args:
        keys: how many.
        channels: a head.
        queries: how many, of another input; as many as keys, of the same, by default.
        form: `bert` (a product each for q, k and v), `vit` (one, cut behind the transposition), `gpt` (one,
            cut before it).
        sharp: how far each head's scores are from 0.
        batch: its size or symbol.
    """
    heads, width = 4, 4 * channels
    made, random = Net(batch, keys, width), np.random.default_rng(3)  # type: ignore[arg-type]
    x = z = made.add("Relu", "x")
    if queries is not None:
        z = made.add("Relu", made.input("z", batch, queries, width))  # type: ignore[arg-type]

    def weights(out: int, gain: Sequence[float] = (1, 1, 1, 1)) -> np.ndarray:
        values = random.standard_normal((width, out)) / np.sqrt(width)
        return (values * np.repeat(np.sqrt(gain), out // heads)).astype(np.float32)

    def dense(given: str, values: np.ndarray, name: str) -> str:
        bias = made.const(random.standard_normal(values.shape[1]).astype(np.float32) / 8)
        return made.add("Add", made.add("MatMul", given, made.const(values), name=name), bias)

    def ints(*values: int) -> str:
        return made.const(np.array(values))

    q, k, v = weights(width, sharp), weights(width, sharp), weights(width)
    split = ints(0, -1, heads, channels)
    if form == "bert":
        q, k, v = (dense(*of) for of in ((z, q, "q"), (x, k, "k"), (x, v, "v")))
        q, k, v = (made.add("Reshape", part, split) for part in (q, k, v))
        q, v = (made.add("Transpose", part, perm=[0, 2, 1, 3]) for part in (q, v))
        k = made.add("Transpose", k, perm=[0, 2, 3, 1])
    else:
        joint = dense(x, np.concatenate([q, k, v], 1), "qkv")
        if form == "vit":
            joint = made.add("Reshape", joint, ints(0, -1, 3, heads, channels))
            joint = made.add("Transpose", joint, perm=[2, 0, 3, 1, 4])
            q, k, v = (made.add("Gather", joint, made.const(np.array(i)), axis=0) for i in range(3))
        else:
            parts = made.add("Split", joint, ints(width, width, width), outputs=3, axis=2)[:-2]
            q, k, v = (made.add("Reshape", f"{parts}_{i}", split) for i in range(3))
            q, k, v = (made.add("Transpose", part, perm=[0, 2, 1, 3]) for part in (q, k, v))
        k = made.add("Transpose", k, perm=[0, 1, 3, 2])
    if form == "gpt":
        q = made.add("Mul", q, made.const(np.float32(channels**-0.5)))
    scores = made.add("MatMul", q, k, name="qk")
    if form != "gpt":
        scores = made.add("Div", scores, made.const(np.float32(channels**0.5)))
    if form == "bert":
        scores = made.add("Add", scores, made.input("mask", 1, 1, 1, keys))
    if form == "gpt":
        past = made.const(np.tril(np.ones((1, 1, keys, keys), bool)))
        scores = made.add("Where", past, scores, made.const(np.float32(-1e4)))
    mixed = made.add("MatMul", made.add("Softmax", scores, axis=-1), v, name="pv")
    flat = made.add("Reshape", made.add("Transpose", mixed, perm=[0, 2, 1, 3]), ints(0, -1, width))
    return made.model(dense(flat, weights(width), "o"))


def samples(count: int = 16, keys: int = 32, channels: int = 16) -> list[dict[str, np.ndarray]]:
    random = np.random.default_rng(0)
    mask = np.zeros((1, 1, 1, keys), np.float32)
    return [
        {"x": random.standard_normal((1, keys, 4 * channels)).astype(np.float32), "mask": mask}
        for _ in range(count)
    ]


def plan_of(proto: onnx.ModelProto, target: str = "tensorrt-rtx") -> QuantPlan:
    model = Model.open(proto)
    model.limits = load_target(target).limits
    return make_plan(model, RULES)


def engine_of(proto: onnx.ModelProto, path: Path, half: bool = True) -> trt.Engine:
    """The engine of the quantized model with a body of float16, as deployed, or of float32."""
    model = Model.open(proto)
    quantized = insert(model, make_plan(model, RULES), dict.fromkeys(range(99), np.float32(0.05))).model
    post_scale(quantized)
    result = to_half(quantized, "fp16", {}).model if half else quantized
    onnx.save(result.to_proto(), path / "m.onnx")
    engine = trt.compile_engine(path / "m.onnx")
    assert engine.status == "compiled", engine.reason
    return engine


@pytest.mark.skipif(trt.installed() is None, reason="tensorrt-rtx is not installed")
@pytest.mark.parametrize(
    ("form", "half", "batch"), [("bert", True, 1), ("vit", True, 1), ("gpt", True, "N"), ("bert", False, 1)]
)
def test_the_engine_has_one_int8_kernel_for_it(
    form: str, half: bool, batch: int | str, tmp_path: Path
) -> None:
    engine = engine_of(net(form=form, batch=batch), tmp_path, half)
    (kernel,) = [layer for layer in engine.layers if PRODUCTS.intersection(layer.nodes)]
    assert kernel.name.startswith("_gemm_mha")
    assert set(kernel.nodes) >= PRODUCTS
    assert kernel.multiplies("int8")
    assert kernel.outputs[0].dtype == "int8"
    assert {layer.precision for layer in engine.layers if layer.is_matrix} == {"int8"}


@pytest.mark.skipif(trt.installed() is None, reason="tensorrt-rtx is not installed")
@pytest.mark.parametrize(("keys", "channels"), [(513, 16), (32, 24)])
def test_beyond_its_limits_the_engine_has_one_half_kernel(keys: int, channels: int, tmp_path: Path) -> None:
    engine = engine_of(net(keys, channels), tmp_path)
    (kernel,) = [layer for layer in engine.layers if PRODUCTS.intersection(layer.nodes)]
    assert kernel.name.startswith("_gemm_mha")
    assert kernel.precision == "fp16"


def test_the_report_says_of_both_products_why_they_are_float() -> None:
    kept = {entry.node: entry.because for entry in plan_of(net(513)).kept_float}
    assert kept == dict.fromkeys(("qk", "pv"), "attention of 513 keys: the int8 kernel takes up to 512")


@pytest.mark.parametrize(
    ("target", "queries", "quantized"),
    [
        ("tensorrt-rtx", 600, True),
        ("tensorrt-11", 600, False),
        ("tensorrt-11", 512, True),
        ("tensorrt-10", 512, True),
        ("tensorrt-8.6", 32, False),
        ("tensorrt-8.0", 32, False),
    ],
)
def test_what_is_known_of_targets(target: str, queries: int, quantized: bool) -> None:
    assert (set(plan_of(net(queries=queries), target).planned) >= PRODUCTS) == quantized


def test_a_float_layer_behind_it_takes_it_along() -> None:
    plan = make_plan(Model.open(net()), RULES, ["o"])
    assert set(plan.planned) == {"q", "k", "v"}
    assert not PRODUCTS & plan.readers


# -- the outputs -----------------------------------------------------------------------------------


def formats(report: dict) -> dict[str, str]:  # type: ignore[type-arg]
    return {layer["node"]: layer["format"] for layer in report["plan"]["layers"]}


@pytest.mark.parametrize("method", ["mse", "auto"])
def test_it_stays_in_int8_where_the_outputs_agree(method: str) -> None:
    even = net(sharp=(0.01,) * 4)
    report = onnxq.quantize(even, samples(), method=method, compile=False, repair="none").report
    assert set(formats(report).values()) == {"int8"}
    without = onnxq.quantize(
        even, samples(), method=method, compile=False, repair="none", skip=["int8_attention"]
    ).report
    (ours,), (theirs,) = report["accuracy"], without["accuracy"]
    assert ours["sqnr_db"] > theirs["sqnr_db"] - LOUD.least_db


@pytest.mark.parametrize("method", ["mse", "auto"])
def test_it_goes_where_small_weights_are_lost_beside_great_ones(method: str) -> None:
    mixed = net(sharp=(60, 0.01, 0.01, 0.01))
    result = onnxq.quantize(mixed, samples(48), method=method, compile=False, repair="none")
    without = onnxq.quantize(
        mixed, samples(48), method=method, compile=False, repair="none", skip=["int8_attention"]
    )
    assert formats(result.report) == formats(without.report)
    kept = [e for e in result.report["plan"]["kept_float"] if e["node"] in PRODUCTS]
    assert {entry["code"] for entry in kept} == {"disagrees"}
    assert all("dB of SQNR" in entry["because"] for entry in kept)
    pairs = [node.output[0] for node in result.model.graph.node if node.op_type == "QuantizeLinear"]
    assert pairs == [node.output[0] for node in without.model.graph.node if node.op_type == "QuantizeLinear"]
    assert result.report["accuracy"] == without.report["accuracy"]


def test_it_stays_in_float_where_the_time_is_up_before_scales_are_chosen_anew(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    told = joints.below_floor

    def late(*given: Any, **options: Any) -> Any:
        nodes = told(*given, **options)
        monkeypatch.setattr("onnxq.base.time_limit.time.monotonic", lambda: 1e9)
        return nodes

    monkeypatch.setattr(joints, "below_floor", late)
    mixed = net(sharp=(60, 0.01, 0.01, 0.01))
    options = {"method": "auto", "compile": False, "repair": "none"}
    report = onnxq.quantize(mixed, samples(48), time_limit=1e6, **options).report
    kept = [entry for entry in report.plan.kept_float if entry.node in PRODUCTS]
    assert {entry.because.code for entry in kept} == {"disagrees"}


def test_a_plan_says_what_the_outputs_said(tmp_path: Path) -> None:
    mixed = net(sharp=(60, 0.01, 0.01, 0.01))
    onnxq.plan(mixed, samples(48), method="mse").save(tmp_path / "p.toml")
    obeyed = onnxq.quantize(mixed, samples(48), plan=tmp_path / "p.toml", compile=False).model
    free = onnxq.quantize(mixed, samples(48), method="mse", compile=False).model
    assert obeyed.SerializeToString(deterministic=True) == free.SerializeToString(deterministic=True)


def test_without_samples_it_is_said_that_nothing_was_compared(tmp_path: Path) -> None:
    onnxq.calibrate(net(), samples(), tmp_path / "s.npz")
    report = onnxq.quantize(net(), stats=tmp_path / "s.npz", method="mse", compile=False).report
    assert noted("joints-not-measured") in report["calibration"]["notes"]
    assert set(formats(report).values()) == {"int8"}


def loss(db: float) -> Loss:
    return Loss.of({"y": nsr_of(db)}, {"y": 1.0}, None)


@pytest.mark.parametrize(
    ("rest", "costs", "bytes_of", "taken_back"),
    [
        (1.0, [0.3, 0.3, 0.3], [1, 1, 1], []),  # 30.2 dB
        (1.0, [1.0, 9.0, 0.1], [1, 1, 1], [0, 1]),
        (0.7, [0.1, 9.0, 0.2], [1, 1, 1], [1]),
        (0.9, [0.8, 0.9, 0.4], [1, 9, 1], [0, 2]),  # what gains most costs most
        (30.0, [1.0, 90.0, 1.0], [1, 1, 1], [1]),  # out of reach
        (30.0, [1.0, 1.0], [1, 1], []),
        (0.5, [9.0], [1], [0]),
    ],
)
def test_below_the_floor_as_few_are_in_float_as_it_takes(
    rest: float, costs: list[float], bytes_of: list[float], taken_back: list[int]
) -> None:
    """Noise of 2 is at 30 dB: `rest` is that of all else."""
    names = [(f"a{place}", f"b{place}") for place in range(len(costs))]

    def measure(sets: Sequence[Iterable[str]]) -> list[Levels]:
        found = []
        for floats in map(set, sets):
            on = [one for one, pair in zip(costs, names, strict=True) if not floats.issuperset(pair)]
            db = float(limited_db((rest + sum(on)) * 5e-4))
            found.append(Levels(AboutMeanPart.of(db, {"y": db}, (), 16), loss(db)))
        return found

    every = [Joint(pair, "one", tried=True) for pair in names]
    found = below_floor(every, measure, lambda nodes: bytes_of[int(min(nodes)[1:])])
    assert found is not None
    assert set(found) == {name for place in taken_back for name in names[place]}


@pytest.mark.parametrize("rest", [0.5, 30.0], ids=["reached", "out of reach"])
def test_what_is_shown_to_lose_answers_in_float_stays_in_int8(rest: float) -> None:
    joint = Joint(("a", "b"), "one", tried=True)

    def found(lost: int) -> Any:
        def measure(sets: Sequence[Iterable[str]]) -> list[Levels]:
            each = []
            for floats in map(set, sets):
                db = float(limited_db((rest + (0.0 if floats else 90.0)) * 5e-4))
                kept = (0.0,) * lost + (1.0,) * (16 - lost) if floats else (1.0,) * 16
                about = AboutMeanPart.of(db, {"y": db}, (), 16)
                answers = Answers("classes", kept, (1.0,) * 16, (0.0,) * 16)
                each.append(Levels(about, loss(db), answers=answers))
            return each

        return below_floor([joint], measure, lambda nodes: 1.0)

    assert set(found(lost=0)) == {"a", "b"}
    assert found(lost=8) == {}


def test_it_stays_in_int8_where_the_outputs_are_good_whatever_float_would_gain(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    mixed = net(sharp=(60, 0.01, 0.01, 0.01))
    options: dict[str, Any] = {"method": "mse", "compile": False, "repair": "none", "loud": "int8"}
    monkeypatch.setattr(joints, "JOINTS_FLOOR_DB", -math.inf)
    assert set(formats(onnxq.quantize(mixed, samples(48), **options).report).values()) == {"int8"}
    monkeypatch.undo()  # and by 30 dB it is not
    assert set(formats(onnxq.quantize(mixed, samples(48), **options).report).values()) != {"int8"}


def test_a_goal_says_how_good_they_are_to_be() -> None:
    mixed = net(sharp=(60, 0.01, 0.01, 0.01))
    options: dict[str, Any] = {"method": "mse", "compile": False, "repair": "none", "min_sqnr": 1.0}
    report = onnxq.quantize(mixed, samples(48), **options).report
    assert set(formats(report).values()) == {"int8"}
