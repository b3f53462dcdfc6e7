"""The cheapest set of decisions: against all sets, on random noise whose removals are nested."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np
import onnx
import pytest
from noise_nets import Case, Net, before_shared_pool, bimodal, dense, outlier_channel, uneven_concat
from test_own_pairs import pair

from onnxq.base.errors import UserError
from onnxq.judge.about_mean import AboutMeanMeter
from onnxq.noise.decisions import Costs, FloatDecision, decisions_of
from onnxq.noise.goal import Met, meet_score, meet_sqnr
from onnxq.noise.gram import Effort, NoiseModel
from onnxq.noise.measure import measure_noise
from onnxq.noise.ranking import ranked
from onnxq.noise.search import Search
from onnxq.noise.sources import NoiseSource, Sources
from onnxq.quant.plan import PlannedLayer, QuantPlan
from onnxq.quant.wants import Wants
from onnxq.run.piecewise import Setting

# -- random problems --------------------------------------------------------------------------


def problem(seed: int, count: int = 12) -> tuple[NoiseModel, list[FloatDecision], Costs]:
    """Layers with sources of their own, sources that two or three of them keep, and correlated errors."""
    rng = np.random.default_rng(seed)
    nodes = [f"n{i}" for i in range(count)]
    keeps = [[node] for node in nodes for _ in range(2)]
    keeps += [list(rng.choice(nodes, rng.integers(2, 4), replace=False)) for _ in range(count // 2)]
    entries = tuple(
        NoiseSource(
            f"t{i}",
            "activation",
            i,
            (f"t{i}",),
            frozenset(),
            tuple(frozenset([name]) for name in sorted(some)),
        )
        for i, some in enumerate(keeps)
    )
    errors = rng.standard_normal((len(keeps), 40)) * rng.lognormal(0, 1, (len(keeps), 1)) * 1e-2
    errors += rng.standard_normal((1, 40)) * rng.normal(0, 0.005, (len(keeps), 1))
    gram = errors @ errors.T
    model = NoiseModel(Sources(entries, {}), {"y": gram}, {"y": 1.0}, {}, Effort(1, 1.0, len(keeps)))
    layers = tuple(
        PlannedLayer(name, "Conv", int(macs), True, True, "int8")
        for name, macs in zip(nodes, rng.lognormal(12, 1, count), strict=True)
    )
    plan = QuantPlan(layers=layers)
    costs = Costs(plan, {layer.node: float(layer.macs or 0) for layer in layers}, "macs")
    decisions = [FloatDecision((name,)) for name in nodes]
    decisions += [
        FloatDecision(tuple(sorted(some)), f"t{i}") for i, some in enumerate(keeps) if len(some) > 1
    ]
    return model, decisions, costs


def goals(model: NoiseModel, nodes: list[str]) -> list[float]:
    low = model.sqnr_db()
    high = model.sqnr_db(nodes[:-1])
    return list(np.linspace(low + 0.5, min(high, low + 15), 4))


def test_the_search_finds_what_trying_all_sets_finds() -> None:
    same, count = 0, 0
    for seed in range(10):
        model, decisions, costs = problem(seed)
        search = Search(model, decisions, costs)
        for goal in goals(model, search.nodes):
            best, found = search.cheapest(goal, exact=True), search.cheapest(goal, exact=False)
            assert (best.sqnr_db >= goal - 1e-6) == (found.sqnr_db >= goal - 1e-6)
            assert found.cost <= 1.1 * best.cost + 1e-9
            same += found.cost <= best.cost * (1 + 1e-9)
            count += 1
    assert same >= 0.9 * count


def test_all_sets_are_what_the_exact_search_tries() -> None:
    model, decisions, costs = problem(3, count=6)
    search = Search(model, decisions, costs)
    nodes = search.nodes
    sets = [some for size in range(7) for some in itertools.combinations(nodes, size)]
    for goal in goals(model, nodes):
        met = [some for some in sets if model.sqnr_db(some) >= goal]
        assert search.cheapest(goal, exact=True).cost == pytest.approx(min(map(costs.cost, met)))


def test_a_bound_on_what_is_float_holds_and_what_misses_is_as_quiet_as_can_be() -> None:
    model, decisions, costs = problem(1, count=8)
    bound = 0.3
    search = Search(model, decisions, costs, bound)
    allowed = [
        some
        for size in range(9)
        for some in itertools.combinations(search.nodes, size)
        if costs.share(some) <= bound
    ]
    best = max(map(model.sqnr_db, allowed))
    for exact in (True, False):
        found = search.cheapest(60.0, exact=exact)
        assert found.sqnr_db < 60.0
        assert costs.share(found.floats) <= bound
        assert found.sqnr_db == pytest.approx(best, abs=0.2 if not exact else 1e-9)


def test_the_path_is_nested_and_ends_with_all() -> None:
    model, decisions, costs = problem(2)
    path = Search(model, decisions, costs).path()
    assert path[0].floats == ()
    assert set(path[-1].floats) == {layer for decision in decisions for layer in decision.nodes}
    for before, after in itertools.pairwise(path):
        assert set(before.floats) < set(after.floats)


def test_the_same_input_gives_the_same_set() -> None:
    model, decisions, costs = problem(4, count=20)
    found = [Search(model, decisions, costs).cheapest(model.sqnr_db() + 4) for _ in range(2)]
    assert found[0] == found[1]


# -- goals ------------------------------------------------------------------------------------


def test_a_goal_is_met_where_the_model_is_off() -> None:
    model, decisions, costs = problem(5)
    search = Search(model, decisions, costs)
    goal = model.sqnr_db() + 5

    def measured(sets: object) -> list[float]:
        return [model.sqnr_db(floats) - 1.5 for floats in sets]  # type: ignore[attr-defined]

    met = meet_sqnr(search, goal, measured)
    assert met.met
    assert met.best.measured >= goal
    assert met.best.cost <= search.cheapest(goal + 1.5).cost * 1.0001
    assert set(met.best.nodes) == {price.nodes[0] for price in met.prices}
    assert met.base.nodes == ()


def test_a_goal_that_is_there_costs_nothing() -> None:
    model, decisions, costs = problem(6)
    met = meet_sqnr(
        Search(model, decisions, costs), model.sqnr_db() - 1, lambda sets: [*map(model.sqnr_db, sets)]
    )
    assert met.met
    assert met.best.nodes == ()
    assert len(met.trials) == 1


def test_a_goal_out_of_reach_gives_the_best_that_was_measured() -> None:
    model, decisions, costs = problem(7)
    search = Search(model, decisions, costs, max_float=0.2)
    met = meet_sqnr(search, model.sqnr_db() + 60, lambda sets: [*map(model.sqnr_db, sets)])
    assert not met.met
    assert met.best.measured == max(trial.measured for trial in met.trials) > met.base.measured
    assert costs.share(met.best.nodes) <= 0.2


def test_a_score_of_the_users_is_met_with_few_calls() -> None:
    model, decisions, costs = problem(8)
    search = Search(model, decisions, costs)
    calls = []

    def score(sets: object) -> list[float]:
        found = []
        for floats in sets:  # type: ignore[attr-defined]
            calls.append(tuple(floats))
            found.append(100 - 50 * model.noise(floats) / model.noise())
        return found

    met = meet_score(search, 80.0, score)
    assert met.met
    assert met.best.measured >= 80
    assert met.best.cost <= 1.3 * search.cheapest(model.sqnr_db() + 4, exact=True).cost
    assert len(calls) == len(set(calls)) <= 2 + 5 + 1 + 8


# -- costs ------------------------------------------------------------------------------------


def test_costs_are_macs_bytes_or_what_is_given() -> None:
    net = Net(1, 16, 8, 8)
    x = net.add("Relu", dense(net, "x", 16, 16, 3, seed=1))
    y = dense(net, x, 16, 32, 1, seed=2)
    case = Case(net.model(y), 1)
    first, second = (layer.node for layer in case.plan.layers)
    macs = Costs.of(case.plan, case.model)
    assert macs.cost([first]) == 64 * 16 * 16 * 9
    assert macs.cost([first, second]) == 64 * 16 * 16 * 9 + 64 * 16 * 32
    assert macs.share([second]) == pytest.approx(32 / (32 + 144))
    assert Costs.of(case.plan, case.model, "bytes").cost([second]) == 3 * (16 * 64 + 16 * 32)
    given = Costs.given(case.plan, {second: 2.5})
    assert (given.cost([first]), given.cost([second]), given.unit) == (0.0, 2.5, "given")
    with pytest.raises(UserError, match="no quantized node 'z'"):
        Costs.given(case.plan, {"z": 1.0})
    with pytest.raises(UserError, match="is -1"):
        Costs.given(case.plan, {first: -1})


# -- decisions and planted causes -------------------------------------------------------------


def setting(case: Case, floats: object) -> Setting:
    wants = Wants(case.plan)
    along = wants.along(list(floats))  # type: ignore[call-overload]
    gone = {e for e, some in wants.of_edge.items() if not any(want.isdisjoint(along) for want in some)}
    return Setting(frozenset((edge.node, edge.input) for edge in gone))


def measuring(case: Case) -> Callable[[object], list[float]]:
    def measured(sets: object) -> list[float]:
        settings = [setting(case, floats) for floats in sets]  # type: ignore[attr-defined]
        meter = AboutMeanMeter(case.copy.outputs, len(settings))
        for feeds in case.samples:
            exact, *given = case.copy.piecewise.run_each(
                feeds, [Setting(case.copy.piecewise.edges), *settings]
            )
            meter.add(exact, given)
        return [float(meter.result(i).sqnr_about_mean_db or 0) for i in range(len(settings))]

    return measured


def test_a_pair_before_a_shared_pool_is_a_decision_of_all_its_readers() -> None:
    proto, readers = before_shared_pool()
    case = Case(proto)
    decisions = decisions_of(case.plan, case.sources)
    together = [one for one in decisions if set(one.nodes) == set(readers)]
    assert len(together) == 1
    assert together[0].removes
    model = measure_noise(case.copy, case.sources, case.samples)
    one, other = readers
    both = model.sqnr_db(readers)
    assert max(model.sqnr_db([one]), model.sqnr_db([other])) < model.sqnr_db() + 1
    assert both > model.sqnr_db() + 5
    exact = measuring(case)([(), [one], readers])
    np.testing.assert_allclose([model.sqnr_db(), model.sqnr_db([one]), both], exact, atol=0.7)


def test_what_the_model_itself_quantizes_is_no_decision() -> None:
    net = Net(1, 16, 8, 8)
    x = net.add("Relu", dense(net, "x", 16, 16, 3, seed=1))
    own = dense(net, pair(net, x, 0.1), 16, 16, 1, seed=2)
    case = Case(net.model(dense(net, own, 16, 16, 1, seed=3)), 1)
    assert len([layer for layer in case.plan.layers if layer.quantized]) == 3
    nodes = {name for one in decisions_of(case.plan, case.sources) for name in one.nodes}
    assert len(nodes) == 2
    assert own not in nodes


def goal_of(case: Case, cause: set[str]) -> tuple[Met, float]:
    """What is found for a goal 0.5 dB under what leaving the cause in float measures."""
    model = measure_noise(case.copy, case.sources, case.samples)
    decisions = decisions_of(case.plan, case.sources)
    costs = Costs.of(case.plan, case.model)
    first = ranked(model, decisions, costs)[0]
    assert set(first.nodes) == cause
    measured = measuring(case)
    base, without = measured([(), sorted(cause)])
    assert without > base + 5.5
    return meet_sqnr(Search(model, decisions, costs), without - 0.5, measured), without


@pytest.mark.parametrize(("quiet", "first"), [(5e-4, ("a",)), (0.5, ("a", "b"))])
def test_what_adds_little_to_a_cause_comes_behind_it(quiet: float, first: tuple[str, ...]) -> None:
    """A pair that goes with two layers gains more than either; it is first where that is its own doing."""

    def source(place: int, *wants: str) -> NoiseSource:
        kept = tuple(frozenset([name]) for name in wants)
        return NoiseSource(f"t{place}", "activation", place, (f"t{place}",), frozenset(), kept)

    entries = source(0, "a"), source(1, "b"), source(2, "a", "b"), source(3, "c")
    gram = np.diag([1.0, 1e-3, quiet, 1e-2])
    model = NoiseModel(Sources(entries, {}), {"y": gram}, {"y": 1.0}, {}, Effort(1, 1.0, 4))
    plan = QuantPlan(layers=tuple(PlannedLayer(name, "Conv", 9, True, True, "int8") for name in "abc"))
    decisions = [*(FloatDecision((name,)) for name in "abc"), FloatDecision(("a", "b"), "t2")]
    found = ranked(model, decisions, Costs(plan, dict.fromkeys("abc", 9.0), "macs"))
    assert found[0].nodes == first
    assert {one.nodes for one in found[:2]} == {("a",), ("a", "b")}


@pytest.mark.parametrize("plant", [outlier_channel, bimodal, uneven_concat])
def test_a_planted_cause_is_ranked_first_and_all_that_goes_to_float(
    plant: Callable[[], tuple[onnx.ModelProto, str]],
) -> None:
    proto, culprit = plant()
    met, _ = goal_of(Case(proto), {culprit})
    assert met.met
    assert met.best.nodes == (culprit,)
    assert abs((met.best.predicted_sqnr_db or 0.0) - met.best.measured) < 1.0


def test_a_cause_before_a_shared_pool_is_ranked_first_and_all_that_goes_to_float() -> None:
    proto, readers = before_shared_pool()
    met, _ = goal_of(Case(proto), set(readers))
    assert met.met
    assert set(met.best.nodes) == set(readers)
    assert abs((met.best.predicted_sqnr_db or 0.0) - met.best.measured) < 1.0


def test_what_is_on_of_many_sets_is_as_the_sources_say() -> None:
    model, decisions, costs = problem(3)
    search = Search(model, decisions, costs)
    sets = np.random.default_rng(0).random((40, len(search.nodes))) < 0.3
    named = [[name for name, on in zip(search.nodes, row, strict=True) if on] for row in sets]
    assert np.array_equal(search._on(sets), model.sources.on_each(named))
    worth = search._worth(sets)
    assert np.allclose(worth.cost, [costs.cost(names) for names in named], rtol=1e-12)
    assert np.allclose(worth.noise, [model.noise(names) for names in named], rtol=1e-12)


# -- blocks -----------------------------------------------------------------------------------


@pytest.mark.parametrize("layers", [80, 320])
def test_layers_of_a_block_are_decided_on_together_and_so_many_sets_are_looked_at(
    layers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    entries = tuple(
        NoiseSource(f"t{i}", "weight", -1, (f"t{i}",), frozenset(), (frozenset([f"n{i}"]),))
        for i in range(layers)
    )
    sources = Sources(entries, {}).blocks(20)
    gram = np.diag(1e-3 * (1.0 + np.arange(20)))
    model = NoiseModel(sources, {"y": gram}, {"y": 1.0}, {}, Effort(1, 1.0, 20))
    plan = QuantPlan(
        layers=tuple(PlannedLayer(f"n{i}", "Conv", 1, True, True, "int8") for i in range(layers))
    )
    costs = Costs(plan, {layer.node: 1.0 for layer in plan.layers}, "macs")
    looked: list[int] = []
    noises = NoiseModel.noises

    def counted(model: NoiseModel, on: np.ndarray) -> np.ndarray:
        looked.append(len(on))
        return noises(model, on)

    monkeypatch.setattr(NoiseModel, "noises", counted)
    goal = -10 * np.log10(0.21 - 0.055)
    found = Search(model, [FloatDecision((layer.node,)) for layer in plan.layers], costs).cheapest(goal)
    assert found.sqnr_db >= goal - 1e-6
    assert found.floats == tuple(f"n{i}" for i in range(layers * 17 // 20, layers))  # 18 + 19 + 20
    assert sum(looked) < 10_000
