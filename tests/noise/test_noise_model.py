"""Noise superposes: what is predicted of sets of sources is what is measured of them."""

from __future__ import annotations

import itertools
import tracemalloc
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from noise_nets import Case, Net, dense, outlier_channel, uneven_concat

from onnxq.base.errors import UserError
from onnxq.judge.about_mean import AboutMeanMeter
from onnxq.noise.gram import NoiseModel
from onnxq.noise.measure import BLOCK, Projection, measure_noise
from onnxq.noise.sources import NoiseSource, Sources
from onnxq.run.piecewise import Setting


def brute_force(case: Case, on: np.ndarray) -> np.ndarray:
    """The measured SQNR about the mean of sets of sources, dB."""
    whole = case.copy.piecewise.edges
    settings = [Setting(whole)]
    for row in on:
        kept = {(e.node, e.input) for place in np.flatnonzero(row) for e in case.sources.entries[place].edges}
        settings.append(Setting(whole - kept))
    meter = AboutMeanMeter(case.copy.outputs, len(on))
    for feeds in case.samples:
        exact, *given = case.copy.piecewise.run_each(feeds, settings)
        meter.add(exact, given)
    return np.array([meter.result(place).sqnr_about_mean_db for place in range(len(on))], float)


def pooled(samples: int = 24) -> Case:
    """Two branches behind a MaxPool, a residual Add, two outputs of different power."""
    net = Net(1, 16, 8, 8)
    x = net.add("Relu", dense(net, "x", 16, 32, 3, seed=1))
    pool = net.add("MaxPool", x, kernel_shape=[2, 2], strides=[2, 2])
    one = net.add("Relu", dense(net, pool, 32, 32, 3, seed=2))
    two = net.add("Relu", dense(net, pool, 32, 32, 1, seed=3))
    total = net.add("Relu", net.add("Add", dense(net, one, 32, 32, 3, seed=4), pool))
    cat = net.add("Concat", total, two, axis=1)
    first = dense(net, cat, 64, 16, 1, seed=5)
    second = net.add("Mul", dense(net, two, 32, 16, 1, seed=6), net.const(np.float32(1000)))
    return Case(net.model(first, second), samples)


def predicted(model: NoiseModel, on: np.ndarray) -> np.ndarray:
    levels: np.ndarray = -10 * np.log10(model.noises(on))
    return levels


@pytest.mark.parametrize(
    "make", [pooled, lambda: Case(uneven_concat()[0]), lambda: Case(outlier_channel()[0])]
)
def test_predictions_are_what_brute_force_measures(make: Any) -> None:
    case = make()
    model = measure_noise(case.copy, case.sources, case.samples)
    alone = case.sources.closed(np.eye(len(case.sources), dtype=bool))
    exact = (alone.sum(1) == 1) & (np.diag(model.gram) > 0)
    assert exact.sum() >= 4
    superposed = replace(model, bend=0.0)
    np.testing.assert_allclose(
        predicted(superposed, alone[exact]), brute_force(case, alone[exact]), atol=1e-4
    )
    on = case.sources.closed(np.random.default_rng(0).random((20, len(case.sources))) < 0.5)
    on = on[on.any(1)]
    apart = predicted(model, on) - brute_force(case, on)
    assert apart.std() <= 0.25
    assert np.abs(apart).max() <= 0.6


def test_what_is_rounded_before_a_pool_is_not_rounded_again_behind_it() -> None:
    """Adding up sources alone would count it twice: 6 dB."""
    case = pooled()
    model = measure_noise(case.copy, case.sources, case.samples)
    below = [place for place, under in enumerate(case.sources.under) if under]
    assert below
    again = [place for place in below if len(case.sources.entries[place].wants) == 1]
    assert np.diag(model.gram)[again].max() < 1e-9 * np.diag(model.gram).max()
    whole = np.ones((1, len(case.sources)), bool)
    assert abs(predicted(model, whole) - brute_force(case, whole))[0] < 0.5


def test_runs_are_counted() -> None:
    case = pooled(4)
    model = measure_noise(case.copy, case.sources, case.samples)
    assert model.effort.samples == 4
    assert 0.2 < model.effort.runs_per_source < 1.0
    assert model.effort.sources == len(case.sources)


def test_outputs_have_equal_power_or_the_users_weights() -> None:
    case = pooled(8)
    equal = measure_noise(case.copy, case.sources, case.samples)
    first, second = case.copy.outputs
    assert equal.weights == {first: 0.5, second: 0.5}
    one = measure_noise(case.copy, case.sources, case.samples, weights={second: 0.0})
    np.testing.assert_allclose(one.gram, equal.by_output[first], rtol=1e-12)
    assert [output.output for output in one.left_out] == [second]
    with pytest.raises(UserError, match="no output 'z'"):
        measure_noise(case.copy, case.sources, case.samples, weights={"z": 1.0})


def test_outputs_without_variance_are_left_out_by_name() -> None:
    net = Net(1, 16, 8, 8)
    x = net.add("Relu", dense(net, "x", 16, 16, 3, seed=1))
    y = dense(net, x, 16, 16, 1, seed=2)
    still = net.add(
        "Add", net.add("Mul", y, net.const(np.float32(1e-9)), name="tiny"), net.const(np.float32(5))
    )
    shape = net.add("Shape", y)
    case = Case(net.model(y, still, shape))
    model = measure_noise(case.copy, case.sources, case.samples)
    left_out = {one.output: one.why for one in model.left_out}
    assert set(left_out) == {still, shape}
    assert "does not vary" in left_out[still]


def test_no_output_that_tells_anything_is_said() -> None:
    case = pooled(1)
    with pytest.raises(UserError, match="there are no samples"):
        measure_noise(case.copy, case.sources, [])


# -- the projection ---------------------------------------------------------------------------


def test_the_projection_is_exact_where_it_is_large_enough() -> None:
    error = np.random.default_rng(0).standard_normal(100)
    assert Projection(100, 100, 0)(error) is error


def test_the_projection_is_unbiased_and_tight() -> None:
    rng = np.random.default_rng(1)
    size, most = 40_000, 1000
    one = rng.standard_normal(size) * (np.arange(size) % 4 == 0)  # all in one channel of 4
    other = one + 0.5 * rng.standard_normal(size) * (np.arange(size) % 4 == 0)
    products = []
    for draw in range(200):
        projection = Projection(size, most, 0, draw)
        assert projection.length <= most
        products.append(projection(one) @ projection(other))
    lengths, error = np.linalg.norm(one) * np.linalg.norm(other), np.sqrt(2 / most)
    assert abs(np.mean(products) - one @ other) < 4 * error / np.sqrt(200) * lengths
    assert 0.3 * error * lengths < np.std(products) < 1.3 * error * lengths


def test_a_small_budget_predicts_as_a_large_one() -> None:
    case = pooled(16)
    whole = np.ones((1, len(case.sources)), bool)
    large, small = (measure_noise(case.copy, case.sources, case.samples, budget=n) for n in (1 << 15, 256))
    assert 0 < abs(predicted(large, whole) - predicted(small, whole))[0] < 0.3


def test_memory_knows_neither_how_many_samples_there_are_nor_how_large_outputs_are() -> None:
    def peak(samples: int, budget: int = 512) -> int:
        net = Net(1, 16, 24, 24)
        x = net.add("Relu", dense(net, "x", 16, 16, 3, seed=1))
        for seed in range(2, 5):
            x = net.add("Relu", dense(net, x, 16, 16, 1, seed=seed))
        case = Case(net.model(x), 1)
        one = case.samples[0]["x"]
        measure_noise(case.copy, case.sources, case.samples, budget=budget)  # sessions are made
        tracemalloc.start()
        feeds = ({"x": one * np.float32(1 + i / samples)} for i in range(samples))
        measure_noise(case.copy, case.sources, feeds, budget=budget)
        found = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return found

    few, many, exact = peak(12), peak(36), peak(12, 1 << 15)
    assert many < 1.1 * few
    assert exact - few > 6 * 16 * 24 * 24 * 8  # the errors of 8 sources at an output of 16 x 24 x 24


# -- the same bits ----------------------------------------------------------------------------


def same(one: NoiseModel, other: NoiseModel) -> bool:
    return one.gram.tobytes() == other.gram.tobytes() and one.effort == other.effort


class Here:
    """An executor that does the work in its own time, in this process."""

    def __init__(self) -> None:
        self.calls: list[Any] = []

    def submit(self, work: Any, /, *args: Any) -> Future[Any]:
        self.calls.append(work)
        future: Future[Any] = Future()
        future.set_result(work(*args))
        return future


def test_an_executor_and_workers_give_the_same_bits() -> None:
    case = pooled(2 * BLOCK + 1)
    alone = measure_noise(case.copy, case.sources, case.samples, budget=512)
    here = Here()
    assert same(alone, measure_noise(case.copy, case.sources, case.samples, budget=512, submit=here.submit))
    assert len(here.calls) == 3
    assert same(alone, measure_noise(case.copy, case.sources, case.samples, budget=512, workers=2))


def test_a_run_that_was_interrupted_goes_on_to_the_same_bits(tmp_path: Path) -> None:
    case = pooled(3 * BLOCK)
    alone = measure_noise(case.copy, case.sources, case.samples)
    state = tmp_path / "noise.npz"

    def stop(done: int, total: int | None) -> None:
        if done >= BLOCK * len(case.sources):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        measure_noise(case.copy, case.sources, case.samples, state=state, progress=stop)
    heard: list[tuple[int, int | None]] = []
    again = measure_noise(
        case.copy, case.sources, case.samples, state=state, progress=lambda *one: heard.append(one), total=12
    )
    assert same(alone, again)
    assert heard[0][0] >= BLOCK * len(case.sources)
    assert heard[-1][0] == heard[-1][1]


def test_a_state_of_something_else_is_not_used(tmp_path: Path) -> None:
    case, state = pooled(BLOCK), tmp_path / "noise.npz"
    measure_noise(case.copy, case.sources, case.samples, state=state)
    other = measure_noise(case.copy, case.sources, case.samples, state=state, seed=1)
    assert other.effort.samples == BLOCK
    with pytest.raises(UserError, match="other samples"):
        measure_noise(case.copy, case.sources, pooled(BLOCK + 1).samples[1:], state=state, seed=1)
    state.write_text("mine")
    with pytest.raises(UserError, match="in the way"):
        measure_noise(case.copy, case.sources, case.samples, state=state)


# -- blocks -----------------------------------------------------------------------------------


def test_blocks_hold_all_sources_and_can_be_opened() -> None:
    case = pooled(6)
    blocks = case.sources.blocks(4)
    assert len(blocks) <= 4
    whole = measure_noise(case.copy, blocks, case.samples)
    fine = measure_noise(case.copy, case.sources, case.samples)
    assert abs(whole.sqnr_db() - fine.sqnr_db()) < 0.7
    loudest = int(np.argmax(whole.shares()))
    opened = blocks.opened(whole.shares(), len(case.sources) - 1, 1)
    assert {e for s in opened.entries for e in s.edges} == {e for s in case.sources.entries for e in s.edges}
    assert len(blocks) < len(opened) < len(case.sources)
    assert set(blocks.parts[loudest]) <= set(opened.entries)


def test_of_many_sources_the_loudest_are_opened_and_there_are_no_more_than_asked_for() -> None:
    entries = tuple(
        NoiseSource(f"t{i}{half}", "weight", -1, (f"t{i}{half}",), frozenset(), (frozenset([f"n{i}"]),))
        for i in range(500)
        for half in "ab"
    )
    blocks = Sources(entries, {}).blocks(40)
    assert len(blocks) == 40
    loud = np.random.default_rng(0).random(40)
    for size, most in ((1, 100), (5, 60), (5, 40), (1, 8)):
        opened = blocks.opened(loud, most, size)
        held = [opened.parts.get(place, (entry,)) for place, entry in enumerate(opened.entries)]
        assert tuple(itertools.chain(*held)) == entries
        assert len(opened) <= most
        if most > 8:  # room for what is in one block of 25
            widths = {source.name: len(block) for block in held for source in block}
            assert all(widths[source.name] <= size + 1 for source in blocks.parts[int(np.argmax(loud))])
        for block, after in itertools.pairwise(held):  # of a layer both are in one, or both by themselves
            assert block[-1].wants != after[0].wants or len(block) == len(after) == 1


def test_what_is_quiet_stays_whole_where_only_the_loud_is_opened() -> None:
    entries = tuple(
        NoiseSource(f"t{i}", "weight", -1, (f"t{i}",), frozenset(), (frozenset([f"n{i}"]),))
        for i in range(113)
    )
    blocks = Sources(entries, {}).blocks(6)
    loud = np.array([0.1, 0.1, 0.5, 0.2, 0.1, 0.0])
    parts = blocks.opened(loud, 7, 4, least=0.3)
    held = [parts.parts.get(place, (entry,)) for place, entry in enumerate(parts.entries)]
    assert tuple(itertools.chain(*held)) == entries
    opened, wide = blocks.parts[2], [len(block) for block in held]
    assert tuple(itertools.chain(*held[1:-1])) == opened
    assert max(wide[1:-1]) <= 4 < min(wide[0], wide[-1])
    assert len(blocks.opened(loud, 100, 1, least=0.6)) == 1  # none is
    two = sum(len(blocks.parts[place]) for place in (2, 3))
    assert len(blocks.opened(loud, 100, 1, least=0.2)) == two + 2


def sets_of(case: Case, count: int) -> Sequence[list[str]]:
    rng = np.random.default_rng(5)
    layers = [layer.node for layer in case.plan.layers if layer.quantized]
    return [list(rng.choice(layers, rng.integers(1, len(layers)), replace=False)) for _ in range(count)]


def test_what_is_on_for_many_sets_is_what_is_on_for_each() -> None:
    case = pooled(1)
    sets = sets_of(case, 12)
    each = case.sources.on_each(sets)
    for floats, row in zip(sets, each, strict=True):
        stays = [any(want.isdisjoint(floats) for want in source.wants) for source in case.sources.entries]
        np.testing.assert_array_equal(row, stays)
        np.testing.assert_array_equal(row, case.sources.closed(row[None])[0])
