"""The order of steps, what they start from, what is undone, and what the ledger says."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import onnx.parser
import pytest
from edit_nets import ranges
from said import is_said

from onnxq.graph.model import Model
from onnxq.graph.wiring import new_tensor
from onnxq.judge.about_mean import AboutMeanMeter
from onnxq.judge.acceptance import GROUPS
from onnxq.options.step import Step, steps
from onnxq.quant.draft.draft import Draft
from onnxq.quant.draft.edits import ChannelMap
from onnxq.quant.patches import Patches
from onnxq.quant.placement import make_plan
from onnxq.quant.plan import Edge
from onnxq.repair import lattice, residual, scale, shift, smooth, split, step_search, workload
from onnxq.repair.allowed import heads
from onnxq.repair.fit import Fitted
from onnxq.repair.found_edits import FoundEdits
from onnxq.repair.ledger import LayerSkipped
from onnxq.repair.step_search import Refused, StepSearch, Tools, Version
from onnxq.repair.steps.smooth import ALPHAS
from onnxq.repair.turn import Proposal, Turn
from onnxq.repair.waves import Waves
from onnxq.repair.workload import Workload
from onnxq.rule.load import load_rules

NET = """<ir_version: 8, opset_import: ["" : 17]>
    net (float[1, 16, 8, 8] x) => (float[1, 16, 8, 8] y) {
        [first] a = Conv (x, w1)  [relu] r = Relu (a)  [second] b = Conv (r, w2)
        [relu2] s = Relu (b)  [third] y = Conv (s, w3) }"""


@dataclass(frozen=True)
class Nothing:
    """An edit of the float model that changes nothing."""

    tensor: str
    kind: str = "shift"

    def apply(self, model: Model) -> None:
        pass

    def maps(self, model: Model) -> Mapping[str, ChannelMap]:
        return {}

    def ranges(self, amax: Mapping[str, float]) -> dict[str, float]:
        return {self.tensor: amax[self.tensor] / 2}

    def to_dict(self) -> dict[str, Any]:
        return {"kind": self.kind, "tensor": self.tensor}


def heard(level: float, spread: float = 0.0, **others: float) -> list[AboutMeanMeter]:
    """Groups of two samples each, of so many dB; every other group of so many more, or less.

    `others`: the dB of outputs beside `y`, by name.
    """
    groups = []
    levels = {"y": level, **others}
    for place in range(GROUPS):
        meter = AboutMeanMeter(list(levels))
        for exact in (np.array([1.0, -1.0]), np.array([-1.0, 1.0])):
            meter.add([exact] * len(levels), [[exact + _noise(db, spread, place) for db in levels.values()]])
        groups.append(meter)
    return groups


def _noise(level: float, spread: float, place: int) -> float:
    powers = [10 ** (-(level + (-1) ** place * spread) / 10) for place in range(GROUPS)]
    return float(np.sqrt(powers[place] / (np.mean(powers) * 10 ** (level / 10))))


@dataclass
class Bench(Tools):
    """Says how near drafts are by what is in them: in the first wave, in later ones; with which spread."""

    gain: Mapping[str, float]
    fails: str = ""
    near: float = 120.0
    later: Mapping[str, float] = field(default_factory=dict)
    spread: float = 0.0
    rows_each: float = 64.0
    ran: float = 0.0
    fits: list[dict[str, frozenset[str]]] = field(default_factory=list)
    folds: list[int | None] = field(default_factory=list)
    begun: list[str] = field(default_factory=list)
    waves: Waves = field(default_factory=lambda: Waves.of(100))

    @property
    def runs(self) -> float:
        return self.ran

    def begin(self, step: str) -> None:
        self.begun.append(step)
        if step == self.fails:
            raise ZeroDivisionError("planted")

    def heard(self, model: Model, draft: Draft, patches: Patches, wave: int) -> list[AboutMeanMeter]:
        self.ran += 10
        has = [*draft.fitted, *(edit.kind for edit in draft.edits)]
        gain = self.later if wave and self.later else self.gain
        return heard(20.0 + sum(gain.get(name, 0.0) for name in has), self.spread * bool(has))

    def nearness(self, model: Model) -> float:
        return self.near

    def fit(self, model: Model, maps: Mapping[str, ChannelMap], draft: Draft, fold: int | None) -> Fitted:
        self.ran += 5
        self.folds.append(fold)
        self.fits.append({layer: draft.steps_of(layer) for layer in draft.plan.planned})
        biases = {"first": np.ones(16, np.float32)}
        return Fitted(
            replace(draft.patches, biases=biases), 64, {"biases": 1}, {"third": "why not"}, self.rows_each
        )

    def values(self, model: Model, tensor: str) -> Sequence[np.ndarray]:
        return [np.linspace(-1, 1, 999, dtype=np.float32)]

    def channels(self) -> Mapping[str, np.ndarray]:
        return {}

    def shares(self, state: Version, edges: Mapping[str, Sequence[Edge]]) -> Mapping[str, float]:
        return {}

    def refined(self, state: Version) -> Mapping[str, float]:
        return {}


def model(text: str = NET) -> Model:
    proto = onnx.parser.parse_model(text)
    rng = np.random.default_rng(0)
    for name in ("w1", "w2", "w3", "w4")[: text.count("Conv")]:
        values = rng.standard_normal((16, 16, 1, 1)).astype(np.float32)
        proto.graph.initializer.append(onnx.numpy_helper.from_array(values, name))
    return Model.open(proto)


@pytest.fixture(autouse=True)
def one_shift(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (scale, smooth, split):
        monkeypatch.setattr(module, "find", lambda *_, **__: FoundEdits())
    monkeypatch.setattr(
        shift, "find", lambda *_: FoundEdits((Nothing("r"), Nothing("s")), {"x": "it is an input"})
    )


def search(bench: Bench, *steps: str, **more: Any) -> StepSearch:
    net = more.pop("net", None) or model()
    plan = make_plan(net, load_rules(()))
    draft = Draft(plan, ranges(dict.fromkeys(plan.measured, 1.0)))
    work = more.pop("work", Workload(8, 8, 8))
    return StepSearch(net, draft, bench, steps, work, **more)


def verdicts(found: StepSearch) -> dict[str, str]:
    return {entry.step: entry.verdict for entry in found.ledger}


GAINS = {"bias": 3.0, "shift": 1.0, "gptq": 0.5}


def test_steps_are_tried_in_their_order_and_build_on_what_is_kept() -> None:
    bench = Bench(GAINS)
    found = search(bench, "gptq", "shift", "bias")
    state, _ = found.run()
    assert bench.begun == ["bias", "shift", "gptq"]
    assert verdicts(found) == dict.fromkeys(bench.begun, "kept")
    befores = [entry.before_db for entry in found.ledger]
    assert befores == pytest.approx([20, 20, 20])  # all are judged together
    assert found.ledger[1].why.startswith("it gains 5.50 dB, together with bias and gptq; ")
    assert state.levels().sqnr_db == pytest.approx(25.5)
    assert state.draft.fitted == {"bias", "gptq"}
    assert [edit.tensor for edit in state.draft.edits] == ["r", "s"]
    assert (state.draft.amax["r"], state.draft.amax["s"]) == (0.5, 0.5)
    assert found.ledger[1].changed == {"tensors": 2, "biases": 1}
    assert found.ledger[1].skipped == (LayerSkipped("x", "it is an input"), LayerSkipped("third", "why not"))
    assert "within 120 dB" in found.ledger[1].why
    assert bench.folds == [0, None, 1]  # in the end to all samples, and to those that judged, for the others
    assert found.spent == 10 * 2 + 5 * 3 == sum(entry.runs for entry in found.ledger) + 10 + 5 * 2


def test_what_loses_is_dropped_and_the_next_step_starts_without_it() -> None:
    """All together lose: they are tried one by one."""
    found = search(Bench({**GAINS, "shift": -3.0}), "bias", "shift", "gptq")
    state, _ = found.run()
    assert sum(entry.runs for entry in found.ledger) == found.spent - 10 - 5 * 2
    assert "together" not in " ".join(entry.why for entry in found.ledger)
    assert verdicts(found) == {"bias": "kept", "shift": "dropped", "gptq": "kept"}
    assert state.draft.edits == ()
    assert state.levels().sqnr_db == pytest.approx(23.5)


def test_steps_of_which_it_is_not_clear_are_judged_together_by_more_samples() -> None:
    """By those that the same fit has not seen; what they say decides, and nothing is fitted again."""
    bench = Bench({**GAINS, "shift": -1.2}, later=GAINS, spread=2.0)
    found = search(bench, "bias", "shift", "gptq")
    found.run()
    assert verdicts(found) == dict.fromkeys(GAINS, "kept")
    assert "together with shift" in found.ledger[0].why
    assert bench.folds == [0, None, 1]
    little = {"bias": 0.5, "shift": 0.2, "gptq": 0.1}
    worse = Bench(little, later={**little, "shift": -9.0}, spread=2.0)
    found = search(worse, "bias", "shift", "gptq")
    found.run()
    assert "together" not in " ".join(entry.why for entry in found.ledger)
    assert len(worse.folds) > 2  # each alone


def test_shift_and_gptq_bring_bias_along() -> None:
    """Alone it may lose where it gains with them."""
    found = search(Bench({**GAINS, "bias": -1.0}), "bias", "shift")
    state, _ = found.run()
    assert verdicts(found) == {"bias": "kept", "shift": "kept"}
    assert "together with shift" in found.ledger[0].why
    assert state.draft.fitted == {"bias"}
    alone = search(Bench(GAINS), "shift", "gptq")
    alone.run()
    assert verdicts(alone) == {"shift": "not-applicable", "gptq": "not-applicable"}


@pytest.mark.parametrize("step", ["bias", "shift", "gptq"])
def test_a_fault_of_ours_is_undone_and_the_run_goes_on(step: str, monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench(GAINS)

    def fails(*given: Any) -> list[AboutMeanMeter]:
        if bench.begun and (bench.begun[-1] == step or len(bench.begun) == 3):  # all together, too
            raise ZeroDivisionError("planted")
        return Bench.heard(bench, *given)

    monkeypatch.setattr(bench, "heard", fails)
    found = search(bench, "bias", "shift", "gptq")
    state, _ = found.run()
    assert verdicts(found)[step] == "failed"
    assert "ZeroDivisionError: planted" in next(e.why for e in found.ledger if e.step == step)
    assert verdicts(found)["gptq" if step != "gptq" else "bias"] == "kept"
    assert step not in state.draft.fitted or step == "bias"  # gptq brings it along


def test_an_edited_model_that_is_another_one_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    far = search(Bench(GAINS, near=40.0), "bias", "shift")
    assert far.run()[0].draft.edits == ()
    assert "only within 40.0 dB" in far.ledger[1].why
    bench = Bench(GAINS)

    def refuses(_: Model) -> float:
        raise Refused("its outputs change")

    monkeypatch.setattr(bench, "nearness", refuses)
    other = search(bench, "bias", "shift")
    other.run()
    assert (other.ledger[1].verdict, other.ledger[1].why) == ("dropped", "its outputs change")


def test_a_candidate_that_is_refused_goes_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    found_at = iter([FoundEdits((Nothing(name, "smooth"),)) for name in ("r", "s", "r")])
    monkeypatch.setattr(smooth, "find", lambda *_: next(found_at))
    bench = Bench({"smooth": 1.0})
    nearness = iter([40.0, 120.0, 30.0])
    monkeypatch.setattr(bench, "nearness", lambda _: next(nearness))
    found = search(bench, "smooth")
    assert [edit.tensor for edit in found.run()[0].draft.edits] == ["s"]
    assert verdicts(found) == {"smooth": "kept"}


def test_where_nothing_is_fitted_all_samples_judge_what_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(smooth, "find", lambda *_: FoundEdits((Nothing("r", "smooth"),)))
    bench = Bench({"smooth": 1.0}, waves=Waves.of(40))
    state, _ = search(bench, "smooth").run()
    crossed = state.crossed(bench.waves)
    assert sorted(place for one in crossed for place in one.samples) == [*range(40)]
    assert bench.folds == []


@dataclass
class Planted:
    """Steps of a test, beside those that there are."""

    monkeypatch: pytest.MonkeyPatch

    def __call__(self, *planted: Step) -> None:
        every = {**steps(), **{one.name: one for one in planted}}
        for module in (step_search, workload):
            self.monkeypatch.setattr(module, "steps", lambda: every)


@pytest.fixture
def plant(monkeypatch: pytest.MonkeyPatch) -> Planted:
    return Planted(monkeypatch)


@pytest.mark.parametrize("sure", [False, True])
def test_a_step_that_has_nothing_to_do_spends_no_run(sure: bool, plant: Planted) -> None:
    """It is asked in front of all else, of the model as the steps before it left it."""
    asked: list[tuple[Model, Draft]] = []

    def there(model: Model, draft: Draft) -> bool:
        asked.append((model, draft))
        return False

    def propose(turn: Turn) -> Proposal:
        turn.channels()
        raise AssertionError

    always = "always" if sure else ""
    plant(Step("planted", propose, "it is empty", 8, there=there, search=500, reserved=always))
    bench = Bench(GAINS)
    found = search(bench, "bias", "shift", "planted", work=Workload(8, 8, 8, 0.0))
    state, _ = found.run()
    entry = found.ledger[-1]
    assert (entry.verdict, entry.why, entry.runs) == ("not-applicable", "it is empty", 0)
    assert [(model, draft.edits) for model, draft in asked] == [(state.model, state.draft.edits)]
    assert [edit.tensor for edit in asked[0][1].edits] == ["r", "s"]


def test_of_steps_that_are_tried_together_one_may_have_nothing_to_do(plant: Planted) -> None:
    bench, shifts = Bench(GAINS), steps()["shift"]
    plant(replace(shifts, there=lambda *_: False, propose=lambda _: pytest.fail("it has nothing to do")))
    found = search(bench, "bias", "shift", "gptq")
    found.run()
    assert verdicts(found) == {"bias": "kept", "shift": "not-applicable", "gptq": "kept"}
    assert found.ledger[0].why == "it gains 3.50 dB, together with gptq"
    assert found.ledger[1].why == shifts.nothing


@pytest.mark.parametrize(
    ("gain", "costs", "shares", "sums"),
    [
        (0.9, (0.02, 0.025), None, None),  # some of them gain less than all
        (1.5, (0.02, 0.025), None, 2),  # all of them: nobody asks which
        (1.5, (0.02, 0.045), (0.11, 0.05), 1),  # a dB is a fifth of the noise: twice what they make alone
        (1.5, (0.02, 0.045), (0.09, 0.1), None),
        (1.5, (0.02, 0.055), None, 1),  # what is too dear alone is not among all
    ],
)  # fmt: skip
def test_sums_of_little_noise_are_not_tried(
    gain: float,
    costs: tuple[float, float],
    shares: tuple[float, float] | None,
    sums: int | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    names = ("first", "second")
    edges = {name: (Edge(name, 0),) for name in names}
    found = residual.ResidualSums(edges, dict(zip(names, costs, strict=True)), dict.fromkeys(names, "Add"))
    bench, asked = Bench({}), list[object]()
    monkeypatch.setattr(residual, "find", lambda *_: found)
    alone = dict(zip(names, shares or (), strict=False))
    monkeypatch.setattr(bench, "shares", lambda *_: asked.append(0) or alone)

    tried = search(bench, "residual")
    monkeypatch.setattr(
        bench, "heard", lambda _, draft, *__: heard(20.0 + gain * (draft is not tried._first))
    )
    tried.run()
    assert verdicts(tried) == {"residual": "not-applicable" if sums is None else "kept"}
    assert (tried.ledger[0].changed or {}).get("sums") == sums
    assert bool(asked) == (shares is not None)


def smoothed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(smooth, "find", lambda *_: FoundEdits((Nothing("r", "smooth"),)))


@pytest.mark.parametrize(("first", "then", "verdict"), [(-1.0, 3.0, "kept"), (1.0, -3.0, "dropped")])
def test_more_samples_judge_what_is_not_clear(
    first: float, then: float, verdict: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    smoothed(monkeypatch)
    bench = Bench({"smooth": first}, later={"smooth": then}, spread=3.0)
    found = search(bench, "smooth")
    state, _ = found.run()
    assert verdicts(found) == {"smooth": verdict}
    assert bench.ran == 2 * 10 * len(bench.waves.waves) + 10  # the other candidate, once
    assert (found.ledger[0].before_db, state.draft.edits != ()) == (pytest.approx(20.0), verdict == "kept")
    clear = Bench({"smooth": first}, later={"smooth": then})
    search(clear, "smooth").run()
    assert clear.ran == 3 * 10


@pytest.mark.parametrize(("most", "waves"), [(40 + 64, 3), (40 + 64 - 1, 2), (20 + 32, 2), (20 + 32 - 1, 1)])
def test_more_samples_judge_a_search_where_runs_are_left(
    most: float, waves: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The bench takes 10 a wave; expected are as many as there are samples, 2 * 16 and then 2 * 32."""
    smoothed(monkeypatch)
    bench = Bench({"smooth": -1.0}, spread=3.0)
    found = search(bench, "smooth", work=Workload(0, 0, 0, most))
    found.run()
    assert bench.ran == 2 * 10 * waves + 10


@pytest.mark.parametrize(
    ("gain", "spread", "rows_each", "verdict"),
    [
        (-0.3, 2.0, 64.0, "kept"),  # the interval does not show the loss
        (-0.3, 2.0, 4.0, "kept"),
        (-0.3, 2.0, 3.9, "dropped"),  # few rows: it may be fitted to chance
        (-2.0, 0.2, 64.0, "dropped"),
    ],
)
def test_a_loss_that_is_not_shown_drops_nothing_that_many_rows_fitted(
    gain: float, spread: float, rows_each: float, verdict: str
) -> None:
    found = search(Bench({"bias": gain}, spread=spread, rows_each=rows_each), "bias")
    found.run()
    assert verdicts(found) == {"bias": verdict}


@pytest.mark.parametrize("most", [None, 0.0, 1.0])
def test_what_fits_is_judged_by_as_many_samples_as_it_takes(most: float | None) -> None:
    found = search(Bench({"bias": 0.2}, spread=3.0), "bias", work=Workload(10, 4, 0, most))
    found.run()
    assert found.ledger[0].runs == 60  # three waves of two versions, of which one was there; two fits of 5


@pytest.mark.parametrize(
    ("most", "runs"),
    [(None, 50), (30 + 64, 50), (30 + 64 - 1, 30), (10 + 32, 30), (10 + 32 - 1, 10), (0, 10)],
)
def test_what_is_always_tried_is_judged_by_more_samples_where_runs_are_left(
    most: float | None, runs: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the first ones in any case."""
    monkeypatch.setattr(lattice, "find", lambda *_: FoundEdits((Nothing("r", "lattice"),)))
    found = search(Bench({"lattice": 0.2}, spread=3.0), "lattice", work=Workload(10, 4, 0, most))
    found.run()
    assert found.ledger[0].runs == runs


def test_each_fold_fits_what_the_other_one_judges() -> None:
    bench = Bench({"bias": 0.0}, spread=3.0)
    found = search(bench, "bias")
    found.run()
    assert bench.folds == [0, 1, None]


@pytest.mark.parametrize(("most", "tried"), [(32.0, 2), (31.0, 1), (16.0, 1), (15.0, 0)])
def test_fewer_candidates_where_all_are_too_dear(
    most: float, tried: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    smoothed(monkeypatch)
    found = search(Bench({"smooth": 1.0}), "smooth", work=Workload(0, 8, 8, most))
    found.run()
    (entry,) = found.ledger
    assert (entry.verdict, entry.runs) == ("kept" if tried else "left-out", 10 * tried)
    too_dear = "it may take 16 runs of the model, and 15 are left for searches; --repair smooth tries it"
    assert (entry.why == too_dear) == (not tried)


@pytest.mark.parametrize(("most", "tried"), [(60 + 16.0, True), (60 + 16.0 - 1, False)])
def test_the_tensors_that_may_be_split_are_tried_together(
    most: float, tried: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    edits = tuple(Nothing(name, "split") for name in ("r", "s"))
    monkeypatch.setattr(split, "find", lambda *_: FoundEdits(edits, {}, {"r": 1, "s": 1}))
    bench = Bench({"split": 1.0})
    monkeypatch.setattr(bench, "shares", lambda *_: {"r": 0.2, "s": 0.1})
    found = search(bench, "split", work=Workload(0, 0, 8, most))
    state, _ = found.run()
    assert [edit.tensor for edit in state.draft.edits] == (["r", "s"] if tried else [])
    assert verdicts(found) == {"split": "kept" if tried else "left-out"}


@dataclass(frozen=True)
class Wide(Nothing):
    """An edit that has the engine move a tensor once more."""

    kind: str = "split"

    def apply(self, model: Model) -> None:
        node = next(node for node in model.graph.nodes if node.name == "second")
        again = new_tensor("again", np.dtype(np.float32), (1, 16, 8, 8))
        raw = node.inputs[0]
        model.graph.nodes.append(model.new_node("GlobalLpPool", [raw], [again], name="pool"))
        model.sort()


@pytest.mark.parametrize(
    ("gain", "most", "why"),
    [
        (1.0, np.inf, ""), (0.1, np.inf, ""), (1.0, 2.0, ""),
        (0.1, 2.0, "not worth"), (1.0, 0.92, "more bytes than plain float16"),
    ],
)  # fmt: skip
def test_a_step_has_a_price_in_bytes(
    gain: float, most: float, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is told with its gain, and the flag that takes it anyway."""
    monkeypatch.setattr(split, "find", lambda *_: FoundEdits((Wide("r"),), {}, {"r": 1}))
    bench = Bench({"bias": 3.0, "split": gain})
    monkeypatch.setattr(bench, "shares", lambda *_: {"r": 0.2})
    monkeypatch.setattr(StepSearch, "bytes_of", _at_least_so_many)
    found = search(bench, "bias", "split", most_bytes=most)
    found.run()
    entry = found.ledger[-1]
    assert (entry.verdict == "kept") == (not why)
    assert entry.more_bytes == pytest.approx(0.05 * (most != 0.92))
    assert why in entry.why
    assert (f"{gain:.2f} dB" if most != 0.92 else "20% of the noise") in entry.why
    assert entry.verdict in ("kept", "dropped")
    assert ("--repair bias,split takes it" in entry.why) == bool(why)


@pytest.mark.parametrize(("shares", "tried"), [({"r": 0.2, "s": 0.2}, "rs"), ({"r": 0.2, "s": 0.02}, "r")])
def test_tensors_that_are_not_worth_their_bytes_are_not_split(
    shares: dict[str, float], tried: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each moves a twentieth of float16's bytes more, a quarter of a dB: 2 % of the noise is 0.05 dB."""
    edits = (Wide("r"), Wide("s"))
    monkeypatch.setattr(split, "find", lambda *_: FoundEdits(edits, {}, {"r": 1, "s": 1}))
    bench = Bench({"split": 3.0})
    monkeypatch.setattr(bench, "shares", lambda *_: shares)
    monkeypatch.setattr(StepSearch, "bytes_of", _at_least_so_many)
    state, _ = search(bench, "split", most_bytes=2.0).run()
    assert "".join(edit.tensor for edit in state.draft.edits) == tried


def test_what_is_worth_nothing_is_not_fitted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(split, "find", lambda *_: FoundEdits((Wide("r"),), {}, {"r": 1}))
    bench = Bench({"split": 3.0})
    monkeypatch.setattr(bench, "shares", lambda *_: {"r": 0.02})
    monkeypatch.setattr(StepSearch, "bytes_of", _at_least_so_many)
    found = search(bench, "split", most_bytes=2.0)
    found.run()
    (entry,) = found.ledger
    assert (entry.verdict, entry.runs) == ("dropped", 0)
    assert is_said(entry.why, "more-bytes.unworth", share="2%", bytes="5.0%", flag="--repair split")


@pytest.mark.parametrize(("most", "kept"), [(0.96, True), (0.93, False)])
def test_a_step_that_does_not_ask_for_room_is_dropped_where_it_passes_float16(
    most: float, kept: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(smooth, "find", lambda *_: FoundEdits((Wide("r", "smooth"),)))
    monkeypatch.setattr(StepSearch, "bytes_of", _at_least_so_many)
    found = search(Bench({"smooth": 3.0}), "smooth", most_bytes=most)
    state, _ = found.run()
    (entry,) = found.ledger
    assert verdicts(found) == {"smooth": "kept" if kept else "dropped"}
    assert (state.draft.edits != ()) == kept
    said = (
        "the engine would move 0.95 times the bytes of plain float16, 0.90 without; --repair smooth takes it"
    )
    assert (said in entry.why) != kept


def _at_least_so_many(self: StepSearch, model: Model, plan: Any) -> float:
    return 0.9 + 0.05 * sum(node.op == "GlobalLpPool" for node in model.graph.nodes)


def test_smoothing_that_finds_nothing_is_not_looked_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[float] = []

    def find(*given: Any) -> FoundEdits:
        asked.append(given[-1])
        return FoundEdits((), {"r": "a Relu is on the way"})

    monkeypatch.setattr(smooth, "find", find)
    found = search(Bench(GAINS), "smooth")
    found.run()
    assert asked == [ALPHAS[0]]
    assert found.ledger[0].skipped == (LayerSkipped("r", "a Relu is on the way"),)


def test_a_layer_has_the_steps_that_it_may_have() -> None:
    bench = Bench(GAINS)
    found = search(bench, "bias", "shift", "gptq", allowed={"first": (), "third": ("bias",)})
    state, _ = found.run()
    assert state.draft.edits == ()  # r is made by first, and s is read by third
    assert found.ledger[1].verdict == "not-applicable"
    both = frozenset({"bias", "gptq"})
    assert bench.fits[-1] == {"first": frozenset(), "second": both, "third": frozenset({"bias"})}


@pytest.mark.parametrize("most", [None, 10_000.0, 10.0, 0.0])
def test_fits_run_with_any_budget(most: float | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """And what looking finds; the file gets what they fit to all samples."""
    monkeypatch.setattr(scale, "find", lambda *_, **__: FoundEdits((Nothing("r", "scale"),)))
    bench = Bench({**GAINS, "scale": 1.0})
    found = search(bench, "scale", "bias", "shift", "gptq", work=Workload(0, 5, 10, most))
    state, _ = found.run()
    assert verdicts(found) == dict.fromkeys(("scale", "bias", "shift", "gptq"), "kept")
    assert (state.draft.fitted, bench.folds[:2]) == ({"bias", "gptq"}, [0, None])
    losing = search(Bench({**GAINS, "shift": -3.0}), "bias", "shift", "gptq", work=Workload(0, 5, 10, most))
    losing.run()  # they are tried one by one as well
    assert verdicts(losing) == {"bias": "kept", "shift": "dropped", "gptq": "kept"}


def test_a_search_that_is_too_dear_is_left_out_and_names_the_flag(monkeypatch: pytest.MonkeyPatch) -> None:
    """What fits is not charged to it; beside the flag stand the steps that are kept."""
    work = Workload(0, 5, 10, 100 + 10 + 2 * 5)
    asked: list[str] = []
    for most, verdict in ((work.most, "kept"), (work.most - 1, "left-out")):
        bench = Bench({**GAINS, "shift": -9.0})
        monkeypatch.setattr(bench, "refined", lambda _: asked.append("") or {"r": 0.5})
        monkeypatch.setattr(bench, "heard", lambda *given, bench=bench: nearer(bench, *given))
        found = search(bench, "bias", "shift", "thresholds", "split", work=replace(work, most=most))
        found.run()
        assert verdicts(found)["thresholds"] == verdict
        assert verdicts(found)["split"] == "not-applicable"  # which takes nothing to find out
        entry = found.ledger[-1]
        assert (entry.runs == 0) == (verdict == "left-out")
    assert len(asked) == 1  # who is left out does not search
    assert is_said(entry.why, "too-dear", cost=120, left=119, flag="--repair bias,thresholds")


def nearer(bench: Bench, model: Model, draft: Draft, patches: Patches, wave: int) -> list[AboutMeanMeter]:
    """By a dB where a range is another one."""
    bench.ran += 10
    has = [*draft.fitted, *(edit.kind for edit in draft.edits)]
    return heard(20.0 + sum(bench.gain.get(name, 0.0) for name in has) + (draft.amax["r"] != 1.0))


def test_what_one_search_takes_is_not_left_for_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    smoothed(monkeypatch)
    for taken, verdict in ((20, "not-applicable"), (20 - 1, "left-out")):
        found = search(
            Bench({"smooth": 1.0}), "smooth", "thresholds", work=Workload(0, 0, 10, 100 + 10 + taken)
        )
        found.run()
        assert [entry.runs for entry in found.ledger] == [20, 0]
        assert verdicts(found) == {"smooth": "kept", "thresholds": verdict}
    assert is_said(found.ledger[1].why, "too-dear", cost=110, left=109, flag="--repair smooth,thresholds")


def test_what_is_always_tried_takes_of_what_is_left_for_searches(monkeypatch: pytest.MonkeyPatch) -> None:
    """A fit takes nothing of it."""
    monkeypatch.setattr(scale, "find", lambda *_, **__: FoundEdits((Nothing("r", "scale"),)))
    for left, verdict in ((10, "not-applicable"), (9, "left-out")):
        most = 100 + 10 + 2 * 5 + left
        bench = Bench({"scale": 1.0, "bias": 1.0})
        found = search(bench, "scale", "bias", "thresholds", work=Workload(0, 5, 10, most))
        found.run()
        assert [entry.runs for entry in found.ledger] == [10, 15, 0]
        assert verdicts(found) == {"scale": "kept", "bias": "kept", "thresholds": verdict}


def test_of_many_samples_what_they_tell_is_no_matter_of_effort(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(split, "find", lambda *_: FoundEdits((Nothing("r", "split"),), {}, {"r": 1}))
    for samples, verdict in ((48, "kept"), (47, "left-out")):
        bench = Bench({"split": 1.0})
        monkeypatch.setattr(bench, "shares", lambda *_: {"r": 0.2})
        found = search(bench, "split", work=Workload(samples, 8, 8, 0.0))
        found.run()
        assert verdicts(found) == {"split": verdict}


def test_outputs_that_tell_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench(GAINS)
    still = AboutMeanMeter(["y"])
    for _ in range(2):
        still.add([np.ones(3)], [[np.zeros(3)]])
    monkeypatch.setattr(bench, "heard", lambda *_: [still])
    found = search(bench, "bias", "shift")
    found.run()
    assert verdicts(found) == {"bias": "not-applicable", "shift": "not-applicable"}
    assert found.ledger[0].why == "no output could be compared ('y': it does not vary from sample to sample)"


HEADS = """<ir_version: 8, opset_import: ["" : 17]>
    net (float[1, 16, 8, 8] x) => (float[1, 16, 8, 8] y, float[1, 16, 8, 8] z) {
        [first] a = Conv (x, w1)  [relu] r = Relu (a)  [second] y = Conv (r, w2)
        [third] b = Conv (r, w3)  [relu2] s = Relu (b)  [fourth] z = Conv (s, w4) }"""
LOSES = "output 'z' loses 1.00 dB with it"


class TwoHeads(Bench):
    """`y` gains by what changes its layers, or what both outputs read; `z` loses by what changes `harmed`."""

    harmed: str = "fourth"

    def heard(self, model: Model, draft: Draft, patches: Patches, wave: int) -> list[AboutMeanMeter]:
        self.ran += 10
        changed = {edit.tensor for edit in draft.edits}
        changed |= {layer for layer in draft.plan.planned if draft.steps_of(layer)}
        y, z = 20.0 + 2 * len(changed & {"r", "second"}), 20.0 - (self.harmed in changed)
        return heard(y, z=z)


def of_heads(bench: Bench, *steps: str, **more: Any) -> StepSearch:
    return search(bench, *steps, net=model(HEADS), **more)


def test_a_step_is_kept_without_the_layers_of_an_output_that_loses() -> None:
    bench = TwoHeads({})
    tried = of_heads(bench, "bias")
    state, _ = tried.run()
    (entry,) = tried.ledger
    assert entry.verdict == "kept"
    assert LayerSkipped("fourth", LOSES) in entry.skipped
    bias, none = frozenset({"bias"}), frozenset[str]()
    assert bench.fits[-1] == {"first": bias, "second": bias, "third": none, "fourth": none}
    assert state.levels().of_all.levels == pytest.approx({"y": 22.0, "z": 20.0})


def test_what_is_fitted_later_may_be_had_where_a_step_before_it_may_not() -> None:
    bench = TwoHeads({})
    of_heads(bench, "bias", "gptq").run()
    assert bench.fits[-1]["first"] == {"bias", "gptq"}
    assert "bias" not in bench.fits[-1]["fourth"]


def test_an_edit_of_an_output_that_loses_is_left_out() -> None:
    bench = TwoHeads({})
    bench.harmed = "s"
    tried = of_heads(bench, "bias", "shift")
    state, _ = tried.run()
    assert [edit.tensor for edit in state.draft.edits] == ["r"]
    entry = tried.ledger[1]
    assert (entry.verdict, entry.changed["tensors"]) == ("kept", 1)
    assert LayerSkipped("s", LOSES) in entry.skipped


@pytest.mark.parametrize("harmed", ["first", "second"])
def test_a_step_that_does_harm_in_front_of_all_outputs_is_tried_once_more_at_most(harmed: str) -> None:
    bench = TwoHeads({})
    bench.harmed = harmed
    tried = of_heads(bench, "bias")
    state, _ = tried.run()
    assert verdicts(tried) == {"bias": "dropped"}
    assert "output 'z' loses 1.00 dB" in tried.ledger[0].why
    assert (state.draft.fitted, state.draft.barred) == (frozenset(), {})
    assert bench.folds == [0, 1, 0, 1]


@pytest.mark.parametrize(("most", "verdict"), [(20 + 16, "kept"), (20 + 16 - 1, "dropped")])
def test_a_search_is_tried_once_more_only_where_runs_are_left(
    most: float, verdict: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two candidates take 20, and another one 16."""
    edits = tuple(Nothing(name, "smooth") for name in ("r", "s"))
    monkeypatch.setattr(smooth, "find", lambda *_: FoundEdits(edits))
    bench = TwoHeads({})
    bench.harmed = "s"
    tried = of_heads(bench, "smooth", work=Workload(8, 8, 8, most))
    state, _ = tried.run()
    assert verdicts(tried) == {"smooth": verdict}
    assert [edit.tensor for edit in state.draft.edits] == (["r"] if verdict == "kept" else [])


def test_a_fit_is_tried_once_more_whatever_is_left() -> None:
    tried = of_heads(TwoHeads({}), "bias", work=Workload(8, 8, 8, 0.0))
    tried.run()
    assert verdicts(tried) == {"bias": "kept"}


def test_only_outputs_that_lose_too_much_have_heads() -> None:
    net = model(HEADS)
    assert heads(net, {"y": 1.0, "z": -0.4}) == {}
    assert heads(net, {"y": 1.0, "z": -1.0}) == dict.fromkeys(("w3", "w4", "b", "s", "z"), LOSES)
    assert heads(net, {"y": 1.0, "z[0:4]": 0.5, "z[4:16]": -1.0}).keys() == {"w3", "w4", "b", "s", "z"}
    assert heads(net, {"z": -1.0}).keys() == {"w3", "w4", "b", "s", "z"}  # nobody knows what y does
    both = heads(net, {"y": -0.7, "z": -1.0})
    assert (both["a"], both["s"], both["y"]) == (LOSES, LOSES, "output 'y' loses 0.70 dB with it")
