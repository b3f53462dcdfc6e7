"""What causes the error of a model that a job quantizes, and what of it goes to float for a goal."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from noise_nets import Net, before_shared_pool, dense, scaled, uneven_concat

from onnxq.base.errors import UserError
from onnxq.judge.paired import SampleScores
from onnxq.noise.measure import measure_noise
from onnxq.noise.sources import Sources
from onnxq.options.settings import CallableModel
from onnxq.pipeline.accuracy import Accuracy, Asked
from onnxq.pipeline.jobs import accuracy
from onnxq.run import ort
from onnxq.task.known import KnownTask
from onnxq.task.layout import Classes
from tests.nearness import about_mean

DIGITS = Path(__file__).resolve().parent.parent.parent / "sample_models" / "digits"
FAST: dict[str, Any] = {"method": "minmax", "prove": "never", "body": "fp32", "repair": "none"}


def noise(count: int = 40, *shape: int) -> list[dict[str, np.ndarray]]:
    rng = np.random.default_rng(0)
    return [{"x": rng.standard_normal(shape or (1, 16, 8, 8)).astype(np.float32)} for _ in range(count)]


def digits(count: int = 200) -> list[dict[str, np.ndarray]]:
    images = np.load(DIGITS / "test.npz")["image"][:count]
    return [{"image": image[None]} for image in images]


@pytest.fixture(scope="module")
def found() -> Iterator[Accuracy]:
    with accuracy(DIGITS / "digits.onnx", digits(), Asked(samples=32), **FAST) as one:
        yield one


def test_what_is_written_is_what_was_measured(found: Accuracy) -> None:
    base = found.sqnr_db([()])[0]
    met = found.for_sqnr(base + 2.0)
    assert met.met
    assert met.best.nodes
    built = found.built.in_float(found.reasons(met))
    plan = built.draft.plan
    written, floats = ort.load(built.proto), ort.load(built.floats.reference)
    level = about_mean(floats, written, found.samples()).sqnr_about_mean_db
    assert level is not None
    assert level == pytest.approx(met.best.measured, abs=0.02)
    assert met.best.predicted_sqnr_db is not None
    assert met.best.predicted_sqnr_db == pytest.approx(met.best.measured, abs=1.0)
    kept = {entry.node: entry for entry in plan.kept_float}
    for name in met.best.nodes:
        assert kept[name].because.startswith("it gains ")
        assert kept[name].code == "goal"
    assert not {x.node for x in plan.layers if x.quantized} & set(met.best.nodes)


def test_the_first_of_a_ranking_are_measured(found: Accuracy) -> None:
    ranking = found.ranked(verify=3)
    gains = [one.gain_db for one in ranking]
    assert gains == sorted(gains, reverse=True)
    assert [one.measured_gain_db is None for one in ranking[:4]] == [False, False, False, True]
    assert all(abs(one.gain_db - (one.measured_gain_db or 0)) < 1.5 for one in ranking[:3])
    assert {one.nodes for one in ranking} == {one.nodes for one in found.decisions}
    assert ranking[0].why
    assert ranking[0].cost > 0


def test_a_function_of_the_users_is_given_a_callable_model(found: Accuracy) -> None:
    labels = np.load(DIGITS / "test.npz")["labels"]
    images = np.load(DIGITS / "test.npz")["image"]
    seen: list[int] = []

    def margin(model: CallableModel) -> float:
        (values,) = model({"image": images[:64]}).values()
        seen.append(len(values))
        exact = floats({"image": images[:64]})
        (wanted,) = exact.values()
        return -float(np.abs(values - wanted).mean())

    floats = found.float_model()
    (exact,) = floats({"image": images[:64]}).values()
    assert (exact.argmax(1) == labels[:64]).mean() > 0.9
    base = margin(found.callable_of(()))
    met = found.for_score(lambda model: SampleScores(margin(model)), 0.7 * base)
    assert met.met
    assert met.best.measured >= 0.7 * base > base
    assert met.best.nodes
    with pytest.raises(UserError, match="input"):
        floats({"y": images[:1]})


def test_agreement_is_of_the_argmax(found: Accuracy) -> None:
    (name,) = found.copy.outputs
    task = KnownTask(Classes(name))
    (share,) = found.kept(task, [()])
    assert 90 <= share.value <= 100
    met = found.for_kept(task, 100.0)
    assert met.met
    with pytest.raises(UserError, match="no output 'z'"):
        found.for_kept(KnownTask(Classes("z")), 99.0)


def test_the_report_says_what_it_took(found: Accuracy) -> None:
    part = found.part()
    assert part.samples == 32
    assert part.sources == len(found.model.sources)
    assert part.runs_per_source <= 1.2
    assert part.reliable


def test_more_sources_than_are_measured_at_once_are_blocks_first() -> None:
    proto = uneven_concat()[0]
    with accuracy(proto, noise(), Asked(samples=8, most=5), **FAST) as blocks:
        few = blocks.model
        first = blocks.ranked(verify=0)[0]
    with accuracy(proto, noise(), Asked(samples=8), **FAST) as fine:
        all_ = fine.model
        best = fine.ranked(verify=0)[0]
    assert len(few.sources) < len(all_.sources)
    assert few.sqnr_db() == pytest.approx(all_.sqnr_db(), abs=1.0)
    assert first.nodes == best.nodes


def residual(blocks: int) -> tuple[onnx.ModelProto, str]:
    """Residual blocks; in the fifth one channel is 300 times the others, and its reader undoes that."""
    net = Net(1, 16, 8, 8)
    x, culprit = "x", ""
    for place in range(blocks):
        hidden = net.add("Relu", dense(net, x, 16, 16, seed=2 * place))
        factors = np.ones(16)
        if place == 4:
            factors[3] = 300.0
            hidden = scaled(net, hidden, factors)
        weights = np.random.default_rng(2 * place + 1).standard_normal((16, 16, 1, 1)) / 8
        weights /= factors.reshape(1, -1, 1, 1)
        hidden = net.add("Conv", hidden, net.const(weights.astype(np.float32)))
        culprit = hidden if place == 4 else culprit
        x = net.add("Relu", net.add("Add", hidden, x))
    return net.model(x), culprit


def test_more_sources_than_are_all_measured_take_fewer_runs_than_those() -> None:
    runs: list[int] = []

    def observe(step: str, done: int | None, total: int | None) -> None:
        if step == "sources" and done is not None:
            runs.append(done)

    most, samples = 30, 4
    proto, culprit = residual(9)
    with accuracy(
        proto, noise(4 * samples), Asked(samples=samples, most=most), observe=observe, **FAST
    ) as found:
        assert len(Sources.of(found.plan)) == 45
        loudest = found.ranked(verify=0)[0]
    assert sum(max(0, b - a) for a, b in itertools.pairwise(runs)) <= most * samples
    (node,) = (node.name for node in proto.graph.node if culprit in node.output)
    assert loudest.nodes == (node,)


def test_what_few_sources_are_measured_as_is_each_by_itself(found: Accuracy) -> None:
    alone = measure_noise(found.copy, Sources.of(found.plan), found.samples())
    assert not found.model.sources.parts
    np.testing.assert_array_equal(found.model.gram, alone.gram)


def test_a_goal_that_is_there_measures_no_source() -> None:
    steps: list[str] = []
    proto = uneven_concat()[0]
    with accuracy(
        proto, noise(), Asked(samples=8), observe=lambda step, done, total: steps.append(step), **FAST
    ) as found:
        met = found.for_sqnr(-20.0)
        assert met.met
        assert met.best.nodes == ()
        assert "sources" not in steps
        assert not found.reasons(met)


def test_a_bound_on_float_is_kept() -> None:
    proto, readers = before_shared_pool()
    with accuracy(proto, noise(), Asked(samples=8, max_float=0.02), **FAST) as found:
        met = found.for_sqnr(60.0)
        assert not met.met
        assert found.costs.share(met.best.nodes) <= 0.02 < found.costs.share(readers)
        assert not set(readers) <= set(met.best.nodes)


def test_the_noise_of_a_body_is_added_and_near_int8_it_is_said() -> None:
    net = Net(1, 16, 8, 8)
    x = net.add("Relu", dense(net, "x", 16, 16, 3, seed=1))
    y = net.add("Relu", dense(net, x, 16, 32, 3, seed=2))
    proto = net.model(dense(net, y, 32, 16, 1, seed=3))
    half = {**FAST, "body": "fp16"}
    with accuracy(proto, noise(), Asked(samples=8), **half) as found:
        model = found.model
        assert 0 < model.body_noise < 1e-4
        assert model.reliable()
        layers = [layer.node for layer in found.plan.layers if layer.quantized]
        assert not model.reliable(layers)
        assert model.sqnr_db(layers) == pytest.approx(-10 * np.log10(model.body_noise), abs=0.01)


def test_a_model_in_half_precision_is_measured() -> None:
    from onnxq.graph.source import copy_model

    net = Net(1, 16, 8, 8)
    x = net.add("Relu", dense(net, "x", 16, 16, 3, seed=1))
    proto = copy_model(net.model(dense(net, x, 16, 32, 3, seed=2)))
    for tensor in proto.graph.initializer:
        values = onnx.numpy_helper.to_array(tensor).astype(np.float16)
        tensor.CopyFrom(onnx.numpy_helper.from_array(values, tensor.name))
    for info in [*proto.graph.input, *proto.graph.output]:
        info.type.tensor_type.elem_type = onnx.TensorProto.FLOAT16
    del proto.graph.value_info[:]
    samples = [{"x": feeds["x"].astype(np.float16)} for feeds in noise()]
    with accuracy(proto, samples, Asked(samples=8), **{**FAST, "body": None}) as found:
        exact = found.sqnr_db([()])[0]
        assert 20 < exact < 60
        assert found.model.sqnr_db() == pytest.approx(exact, abs=0.7)


def test_without_data_or_pairs_it_is_said() -> None:
    net = Net(1, 16, 8, 8)
    with (
        pytest.raises(UserError, match="nothing is quantized"),
        accuracy(net.model(net.add("Relu", "x")), noise(), **FAST),
    ):
        pass
