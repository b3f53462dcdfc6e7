"""A goal that is met by itself, and what causes the error: from the library and from the command line."""

from __future__ import annotations

import dataclasses
import json
import re
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import onnx
import pytest
from command import run
from said import is_said

sys.path.insert(0, str(Path(__file__).parent / "noise"))

from noise_nets import outlier_channel

import onnxq
from onnxq.base.errors import UserError
from onnxq.cli.options import ChoiceFlags
from onnxq.cli.pages.goal import goal_section
from onnxq.cli.pages.sensitivity import sensitivity_page
from onnxq.cli.screen import Page
from onnxq.data.samples import InputSpec
from onnxq.data.sources import Source, open_source
from onnxq.documents.accuracy import GoalPart
from onnxq.judge.about_mean import AboutMeanMeter
from onnxq.judge.acceptance import Levels
from onnxq.judge.paired import SampleScores
from onnxq.noise.goal import Met
from onnxq.noise.search import Search
from onnxq.options.settings import CallableModel
from onnxq.pipeline.accuracy import MOST, Accuracy
from onnxq.pipeline.building import Built
from onnxq.pipeline.sampling import Sampling
from onnxq.pipeline.scoring import Score
from onnxq.run import ort
from onnxq.run.piecewise import PiecewiseModel
from tests.nearness import about_mean

pytestmark = pytest.mark.usefixtures("by_place")

GOAL = 20.0  # dB; 12 by default, 30 with the culprit in float
MODEL, CULPRIT = outlier_channel()
SAMPLES = np.random.default_rng(5).standard_normal((96, 1, 16, 8, 8)).astype(np.float32)
FLOAT = ort.load(MODEL)
(INPUT,) = FLOAT.inputs
(OUTPUT,) = FLOAT.outputs
DATA = [{INPUT: sample} for sample in SAMPLES]
COMMON: dict[str, Any] = {
    "compile": False, "method": "mse", "prove": "never", "body": "fp32", "repair": "none",
}  # fmt: skip


def quantized(**options: Any) -> onnxq.pipeline.Result:  # type: ignore[name-defined]
    return onnxq.quantize(MODEL, DATA, **{**COMMON, **options})


def node_of(tensor: str) -> str:
    """The name of the node that makes a tensor, in the plan."""
    return next(node.name for node in MODEL.graph.node if tensor in node.output)


def in_float(report: Mapping[str, Any]) -> set[str]:
    return {entry["node"] for entry in report["plan"]["kept_float"] if entry["code"] == "goal"}


@pytest.fixture(scope="module")
def met() -> Any:
    return quantized(min_sqnr=GOAL)


def test_a_goal_is_met_with_the_planted_layer_alone(met: Any) -> None:
    goal = met.report["goal"]
    (gate,) = goal["gates"]
    assert goal["met"]
    assert gate["measured"] >= GOAL
    assert goal["default"][0]["measured"] < GOAL - 5
    assert in_float(met.report) == {node_of(CULPRIT)}
    (price,) = goal["search"]["float"]
    assert price["node"] == node_of(CULPRIT)
    assert price["gain_db"] > 5
    assert price["cost"] == 16 * 16 * 64  # its multiply-accumulates
    (why,) = [e["because"] for e in met.report["plan"]["kept_float"] if e["code"] == "goal"]
    assert "gains" in why
    assert "16,384 multiply-accumulates" in why


def test_the_figure_is_that_of_the_file_on_samples_that_chose_nothing(met: Any) -> None:
    """Measured anew of the model that was written."""
    known = met.report["about_mean"]
    assert known["sqnr_about_mean_db"] == met.report["goal"]["gates"][0]["measured"]
    assert (known["worst_output"], known["samples"]) == (OUTPUT, 12)
    source = open_source(DATA, [InputSpec(name, array.dtype, array.shape) for name, array in DATA[0].items()])
    held = source.order.shuffled(0)[-12:]  # `data/split.py`
    again = about_mean(FLOAT, ort.load(met.model), (DATA[index] for index in held))
    assert again.sqnr_about_mean_db == pytest.approx(known["sqnr_about_mean_db"], abs=1e-3)


def test_the_same_input_gives_the_same_bytes(met: Any) -> None:
    again = quantized(min_sqnr=GOAL)
    assert again.model.SerializeToString(deterministic=True) == met.model.SerializeToString(
        deterministic=True
    )
    assert again.report["goal"] == met.report["goal"]


def test_what_meets_the_goal_as_it_is_stays_as_it_is() -> None:
    """What is loud is not looked for where there is a goal."""
    plain, gated = quantized(method="auto", loud="int8"), quantized(method="auto", min_sqnr=-30)
    assert gated.report["goal"]["met"]
    assert gated.report["goal"]["search"] is None
    assert gated.model.SerializeToString(deterministic=True) == plain.model.SerializeToString(
        deterministic=True
    )
    assert plain.report["goal"] is None
    assert plain.report["about_mean"] == gated.report["about_mean"]


def test_a_goal_tells_more_sources_apart_than_a_ranking(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    made = Accuracy.__init__

    def noted(accuracy: Accuracy, *args: Any) -> None:
        asked.append(args[-1].most)
        made(accuracy, *args)

    monkeypatch.setattr(Accuracy, "__init__", noted)
    quantized(min_sqnr=GOAL)
    assert asked == [2 * MOST]


def test_nothing_meets_the_goal() -> None:
    result = quantized(min_sqnr=GOAL, max_float=0.001)
    goal = result.report["goal"]
    assert not goal["met"]
    assert goal["gates"][0]["missing"] == pytest.approx(GOAL - goal["gates"][0]["measured"])
    assert in_float(result.report) == set()
    assert any("0.1 %" in text and "--max-float" in text for text in goal["missing"])
    beyond = quantized(min_sqnr=150, body="fp16")
    assert not beyond.report["goal"]["met"]
    assert len(in_float(beyond.report)) == 4  # all that there are
    assert any("--body fp32" in text for text in beyond.report["goal"]["missing"])


class Fidelity:
    """A score: 0 for the float model, less with each mistake; remembers what it was told."""

    def __init__(self) -> None:
        self.parts: list[str] = []

    def __call__(self, model: Callable[..., Any], part: str) -> float:
        self.parts.append(part)
        samples = SAMPLES[:6] if part == "choose" else SAMPLES[6:12]
        off = [model({INPUT: x})[OUTPUT] - FLOAT.run({INPUT: x})[0] for x in samples]
        return -float(np.square(off).mean() ** 0.5)


def test_a_score_of_the_users() -> None:
    tell = Fidelity()
    plain = quantized(eval=tell, loud="int8")
    scores = plain.report["goal"]["scores"]
    assert plain.report["goal"]["met"]  # nothing is asked for
    assert tell.parts == ["verify", "choose", "verify"]  # the float model twice, and what is written
    assert scores["float"] == pytest.approx(0, abs=1e-5)
    assert scores["int8"] < -0.05
    assert not scores["same_samples"]
    met = quantized(eval=Fidelity(), max_drop=-scores["int8"] / 2)
    goal = met.report["goal"]
    assert goal["met"]
    assert goal["gates"][0]["kind"] == "drop"
    assert in_float(met.report) == {node_of(CULPRIT)}
    assert goal["scores"]["int8"] == scores["int8"]
    assert goal["scores"]["result"] == pytest.approx(-goal["gates"][0]["measured"], abs=1e-6)


@pytest.mark.parametrize(
    ("function", "told"),
    [
        (lambda model: 1 if model == "m" else 0, False),
        (lambda model, n=50: int(n == 50), False),
        (lambda model, which: int(which == "choose"), True),
        (lambda model, part="verify": int(part == "choose"), True),
        (lambda model, n=50, *, part: int(n == 50 and part == "choose"), True),
        (lambda model, *more, **named: int(not more and not named), False),
    ],
)
def test_a_word_is_given_to_what_takes_it(function: Callable[..., Any], told: bool) -> None:
    score = Score.of(function)
    assert (score.told, score("m", "choose").value) == (told, 1)  # type: ignore[arg-type]


def test_a_score_that_is_told_nothing_uses_the_same_samples() -> None:
    def score(model: Callable[..., Any]) -> np.float32:
        return np.float32(-np.abs(model({INPUT: SAMPLES[0]})[OUTPUT] - FLOAT.run(DATA[0])[0]).max())

    assert quantized(eval=score).report["goal"]["scores"]["same_samples"]


def test_outputs_that_tell_no_noise_cost_no_run() -> None:
    """An ArgMax at the end: its changes can be scored, and say nothing of what causes them."""
    model = onnx.ModelProto()
    model.CopyFrom(MODEL)
    model.graph.node.append(onnx.helper.make_node("ArgMax", [OUTPUT], ["best"], "last", axis=1, keepdims=0))
    del model.graph.output[:]
    model.graph.output.append(onnx.helper.make_tensor_value_info("best", onnx.TensorProto.INT64, None))
    session = ort.load(model)
    expected = [session.run({INPUT: x})[0] for x in SAMPLES[:8]]

    def same(called: Callable[..., Any]) -> float:
        found = [called({INPUT: x})["best"] for x in SAMPLES[:8]]
        return 100 * float(np.mean(np.equal(found, expected)))

    result = onnxq.quantize(model, DATA, **COMMON, eval=same, max_drop=0.1)
    goal = result.report["goal"]
    assert not goal["met"]
    assert 0.1 < goal["gates"][0]["measured"] < 100
    assert "('best': " in goal["notes"][0]
    assert result.report["about_mean"]["sqnr_about_mean_db"] is None


def test_several_goals_at_once() -> None:
    result = quantized(min_sqnr=GOAL, min_agreement=(OUTPUT, 20))
    assert [gate["kind"] for gate in result.report["goal"]["gates"]] == ["sqnr", "agreement"]
    assert result.report["goal"]["met"]
    assert in_float(result.report) == {node_of(CULPRIT)}


def test_the_aim_is_raised_where_confirmation_falls_short(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first set passes where it was chosen only: too little is asked for there."""
    aims: list[float] = []
    real = Accuracy.for_score
    plain = quantized(eval=Fidelity(), loud="int8")
    most = -plain.report["goal"]["scores"]["int8"] / 2
    int8 = ort.load(plain.model)
    chosen = Fidelity()(lambda feeds: dict(zip(int8.outputs, int8.run(feeds), strict=True)), "choose")

    def modest(self: Accuracy, score: Callable[..., float], goal: float, **more: int) -> Met:
        aims.append(goal)
        return real(self, score, goal - 2 * most if len(aims) == 1 else goal, **more)

    monkeypatch.setattr(Accuracy, "for_score", modest)
    result = quantized(eval=Fidelity(), max_drop=most)
    assert result.report["goal"]["met"]
    assert aims == sorted(aims)
    assert len(set(aims)) > 1
    assert aims[-1] <= 0, "the float model's score"
    assert result.report["goal"]["search"]["raised"]["drop"] == pytest.approx(
        1.25 * (-chosen - most), rel=1e-3
    )


def test_samples_that_verify_choose_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """The aim is a margin higher, whatever they say; where they miss the goal, that is what is said."""
    aims: list[float] = []
    real = Accuracy.for_sqnr

    def modest(self: Accuracy, goal_db: float) -> Met:
        aims.append(goal_db)
        return real(self, goal_db - 30)

    monkeypatch.setattr(Accuracy, "for_sqnr", modest)
    goal = quantized(min_sqnr=GOAL).report["goal"]
    assert len(aims) == 1
    assert goal["search"]["margin_db"] == pytest.approx(aims[0] - GOAL)
    assert 0 < aims[0] - GOAL < 3
    assert not goal["met"]
    assert goal["search"]["met_where_chosen"]
    assert is_said(goal["missing"], "goal.met-where-chosen")


def test_the_standard_error_is_the_spread_of_draws() -> None:
    """Of a mean of powers, 1/n of them each: sd / sqrt(n) over the mean, in dB."""
    rng = np.random.default_rng(0)
    levels, told = [], []
    for _ in range(60):
        groups = [AboutMeanMeter(["y"]) for _ in range(16)]
        for number in range(64):
            exact = rng.standard_normal(200)
            groups[number % 16].add([exact], [[exact + 0.01 * rng.exponential() * rng.standard_normal(200)]])
        levels.append(groups[0].joined(groups[1:]).result().sqnr_about_mean_db)
        told.append(Levels.of(groups).error_db)
    assert np.mean(told) == pytest.approx(np.std(levels), rel=0.3)
    assert Levels.of(groups[:2]).error_db == 0


def test_a_fault_in_the_search_costs_no_run(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(self: Accuracy, goal_db: float) -> Met:
        raise ZeroDivisionError("planted")

    monkeypatch.setattr(Accuracy, "for_sqnr", fails)
    result = quantized(min_sqnr=GOAL)
    assert not result.report["goal"]["met"]
    assert "planted" in result.report["goal"]["notes"][0]
    assert len(result.report["plan"]["layers"]) == 4


PLACES = {
    "copy": (Built, "copy"),
    "sources": (sys.modules[Accuracy.__module__], "measure_noise"),
    "body": (Accuracy, "measure_body"),
    "search": (Search, "cheapest"),
    "set": (PiecewiseModel, "run_each"),
    "result": (Built, "in_float"),
    "report": (Accuracy, "part"),
}


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("error", [ZeroDivisionError("planted"), ort.RunError("planted")])
def test_a_fault_wherever_it_is_costs_no_run(
    place: str, error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*args: Any, **options: Any) -> Any:
        raise error

    monkeypatch.setattr(*PLACES[place], fails)
    result = quantized(min_sqnr=GOAL)
    goal = result.report["goal"]
    assert any("planted" in note for note in goal["notes"])
    assert goal["met"] == (place == "report")  # there it fails to say what was done, not to do it
    assert in_float(result.report) == ({node_of(CULPRIT)} if goal["met"] else set())


def test_a_goal_of_outputs_that_do_not_vary_costs_no_run() -> None:
    """No figure says how near they are: the model is written, the goal is not met."""
    samples = [DATA[0]] * 32
    goal = onnxq.quantize(MODEL, samples, **COMMON, min_sqnr=GOAL).report["goal"]
    assert not goal["met"]
    assert goal["gates"][0]["measured"] is None
    assert "does not vary" in goal["notes"][0]


def test_a_time_limit_says_what_it_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    """Over before the sources are measured; then, while sets are tried: the set is that of the prediction."""
    none = quantized(min_sqnr=GOAL, time_limit=0).report
    assert not none["goal"]["met"]
    assert "before all sources" in none["goal"]["cut"]
    assert in_float(none) == set()
    real = Accuracy.sqnr_db

    def late(self: Accuracy, sets: Any) -> list[float]:
        found = real(self, sets)
        if any(sets):  # the first set with something in float
            monkeypatch.setattr("onnxq.base.time_limit.time.monotonic", lambda: 1e9)
            self._tell()
        return found

    monkeypatch.setattr(Accuracy, "sqnr_db", late)
    some = quantized(min_sqnr=GOAL, time_limit=1e6).report
    assert "by prediction" in some["goal"]["cut"]
    assert some["goal"]["met"]
    assert in_float(some) == {node_of(CULPRIT)}


def test_costs_choose(tmp_path: Path) -> None:
    """The planted layer is dear, and taken all the same: without it no others reach the goal."""
    others = [node.name for node in MODEL.graph.node if node.op_type == "Conv"]
    costs = dict.fromkeys(others, 1.0) | {node_of(CULPRIT): 50.0}
    (tmp_path / "costs.json").write_text(json.dumps(costs))
    result = quantized(min_sqnr=GOAL, costs=tmp_path / "costs.json")
    search = result.report["goal"]["search"]
    assert result.report["goal"]["met"]
    assert search["unit"] == "given"
    assert search["cost"] == 50
    with pytest.raises(UserError, match="there is no node 'nowhere'"):
        quantized(min_sqnr=GOAL, costs={"nowhere": 1.0})


def test_sensitivity_names_the_planted_layer_and_writes_settings(tmp_path: Path) -> None:
    onnx.save(MODEL, tmp_path / "net.onnx")
    options = {name: value for name, value in COMMON.items() if name != "compile"}
    found = onnxq.sensitivity(tmp_path / "net.onnx", DATA, top=2, max_float=0.5, **options)
    part = found.report["sensitivity"]
    first, second, third, _ = part["decisions"]
    assert first["nodes"] == [node_of(CULPRIT)]
    assert first["measured_gain_db"] == pytest.approx(first["gain_db"], abs=1.5)
    assert second["measured_gain_db"] is not None
    assert third["measured_gain_db"] is None
    assert node_of(CULPRIT) in part["best"]["float"]
    assert part["best"]["verified"]["sqnr_about_mean_db"] > GOAL
    found.save(tmp_path / "best.toml")
    found.save(tmp_path / "best.toml")  # its own
    text = (tmp_path / "best.toml").read_text()
    (tmp_path / "best.toml").write_text(text + "# mine\n")
    with pytest.raises(UserError, match="onnxq did not write it, or it was edited"):
        found.save(tmp_path / "best.toml")
    from onnxq.options.config import load_config

    rules = load_config(tmp_path / "best.toml").layers
    again = onnxq.quantize(MODEL, DATA, layers=rules, **COMMON)
    kept = {e["node"] for e in again.report["plan"]["kept_float"] if e["code"] == "layer"}
    assert kept == set(part["best"]["float"])
    level = again.report["about_mean"]["sqnr_about_mean_db"]
    assert level == pytest.approx(part["best"]["verified"]["sqnr_about_mean_db"], abs=0.3)


def test_sensitivity_scores_a_decision_alone_in_float_and_alone_quantized() -> None:
    """Each score is the one of the model with exactly these nodes in float."""
    asked: list[float] = []

    def score(model: CallableModel) -> float:
        fed = [{INPUT: one} for one in SAMPLES[:4]]
        error = [np.square(model(one)[OUTPUT] - FLOAT.run(one, [OUTPUT])[0]).sum() for one in fed]
        asked.append(-float(np.mean(error)))
        return asked[-1]

    options = {name: value for name, value in COMMON.items() if name != "compile"}
    said: list[str] = []
    found = onnxq.sensitivity(
        MODEL, DATA, top=2, eval=score, observe=lambda step, done, total: said.append(step), **options
    )
    first, second, third, _ = found.report.sensitivity.decisions
    assert is_said(said, "ranking-score", times=4, format="int8")
    assert first.nodes == (node_of(CULPRIT),)
    assert (first.op, second.op) == ("Conv", "Conv")
    # the culprit alone in int8 is far off; with all but it in int8 the model is near
    assert first.score is not None
    assert first.score_alone is not None
    assert second.score_alone is not None
    assert first.score_alone < 4 * first.score < 0
    assert second.score_alone > first.score_alone
    assert (third.score, third.score_alone) == (None, None)
    rows = [line.text for line in sensitivity_page(found.report, (), ChoiceFlags([second.nodes[0]])).lines]
    assert any(f"1 of {len(found.report.sensitivity.decisions)}: what is of" in row for row in rows)
    assert not any(row.strip().startswith(first.nodes[0]) and "+" in row for row in rows)
    every = [line.text for line in sensitivity_page(found.report, (), ChoiceFlags(None, ["Relu"])).lines]
    assert any(f"0 of {len(found.report.sensitivity.decisions)}" in row for row in every)


def test_exit_codes_of_the_command_line(tmp_path: Path) -> None:
    onnx.save(MODEL, tmp_path / "net.onnx")
    np.savez(tmp_path / "data.npz", **{INPUT: SAMPLES[:, 0]})
    base = (
        "quantize",
        "net.onnx",
        "--calib",
        "data.npz",
        "--no-engine",
        "--method",
        "mse",
        "--repair",
        "none",
    )
    ran = run(tmp_path, *base, "--min-sqnr", str(GOAL), "--max-float", "0.1%", "-o", "q.onnx")
    assert ran.code == 1, ran.err
    assert "Goal       not met: " in ran.out
    assert "are missing" in ran.out
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "data.npz", "net.onnx", "q.onnx", "q.report.html", "q.report.json",
    ]  # fmt: skip
    compare = ("compare", "net.onnx", "q.onnx", "--data", "data.npz", "--json")
    ran = run(tmp_path, *compare, "--min-sqnr", str(GOAL))
    document = json.loads(ran.out)
    assert ran.code == 1
    assert not document["goal"]["met"]
    assert document["about_mean"]["sqnr_about_mean_db"] == document["goal"]["gates"][0]["measured"] < GOAL
    ran = run(tmp_path, *compare[:-1], "--min-sqnr", str(GOAL), "-q")
    assert (ran.code, ran.out) == (1, "")
    ran = run(tmp_path, *compare, "--min-sqnr", "-30", "--min-agreement", f"{OUTPUT}=1")
    assert ran.code == 0
    assert json.loads(ran.out)["goal"]["met"]


def test_sensitivity_takes_no_more_than_the_bound(tmp_path: Path) -> None:
    """The smallest takes 3.33 %, and the screen says so."""
    onnx.save(MODEL, tmp_path / "net.onnx")
    np.savez(tmp_path / "data.npz", **{INPUT: SAMPLES[:, 0]})
    (tmp_path / "onnxq.toml").write_text("[goal]\ntop = 0\n")
    base = ("sensitivity", "net.onnx", "--calib", "data.npz", "--method", "minmax", "--prove", "never")
    ran = run(tmp_path, *base, "-o", "best.toml", "--max-float", "1%")
    assert ran.code == 0, ran.err
    screen = " ".join(ran.out.split())
    assert is_said(screen, "in-float.too-small", limit="1 % of the int8 MACs")
    smallest = re.search(r"the smallest takes ([\d.]+) % \(--max-float ([\d.]+)%\)", screen)
    assert smallest is not None
    assert is_said(screen, "in-float.no-file")
    assert "Next" not in screen
    assert "[[layer]]" not in (tmp_path / "best.toml").read_text()
    ran = run(tmp_path, *base, "-o", "best.toml", "--max-float", f"{smallest[2]}%")
    assert "Next" in ran.out
    assert (tmp_path / "best.toml").read_text().count("[[layer]]") == 1


SCORE = """calls = 0
def late(model):
    global calls
    calls += 1
    if calls > 3:
        raise KeyError("label")
    return -calls
"""


def test_what_was_kept_goes_with_the_users_error(tmp_path: Path) -> None:
    onnx.save(MODEL, tmp_path / "net.onnx")
    np.savez(tmp_path / "data.npz", **{INPUT: SAMPLES[:, 0]})
    (tmp_path / "score.py").write_text(SCORE)
    base = ("quantize", "net.onnx", "--calib", "data.npz", "--no-engine", "--method", "minmax")
    before = sorted(tmp_path.iterdir())
    goal = ("--max-drop", "0.5", "--eval", "score.py:late", "-o", "q.onnx")
    ran = run(tmp_path, *base, *goal)
    assert ran.code == 2, ran.err
    assert "line 6: KeyError" in ran.err
    assert sorted(tmp_path.iterdir()) == before


def test_sensitivity_takes_no_more_than_its_own_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (onnxq.pipeline.decision_ranking, onnxq.pipeline.quantizing):  # type: ignore[attr-defined]
        monkeypatch.setattr(module, "MAX_FLOAT", 0.01)
    options = {name: value for name, value in COMMON.items() if name != "compile"}
    found = onnxq.sensitivity(MODEL, DATA, top=0, **options)
    best = found.report["sensitivity"]["best"]
    assert (best["float"], found.floats) == ([], {})
    assert best["max_float"] == 0.01
    assert best["smallest_share"] == pytest.approx(1 / 30)


def test_the_screen_names_what_a_time_limit_left(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    page = Page()
    monkeypatch.setattr(Page, "entry", lambda page, text, *more, **style: said.append(text))
    goal_section(page, GoalPart(False, (), None, cut="the time limit", kept="q.onnx.part"), "int8")
    assert any("kept in q.onnx.part" in text for text in said)


class Scaled:
    """A score as `Fidelity`, 1 for the float model, in any unit."""

    def __init__(self, unit: float) -> None:
        self.unit = unit

    def __call__(self, model: Callable[..., Any], part: str) -> float:
        samples = SAMPLES[:4] if part == "choose" else SAMPLES[6:18]
        off = [model({INPUT: x})[OUTPUT] - FLOAT.run({INPUT: x})[0] for x in samples]
        return self.unit * (1 - float(np.square(off).mean() ** 0.5))


def test_a_score_has_any_unit(monkeypatch: pytest.MonkeyPatch) -> None:
    """The sets and the aims are the same; none is above the float model's score."""
    aims: list[float] = []
    real = Accuracy.for_score

    def modest(self: Accuracy, score: Any, goal: float, **more: int) -> Met:
        """What is chosen first falls short where it is judged."""
        aims.append(goal)
        return real(self, score, goal - abs(2 * drop) if len(aims) == 1 else goal, **more)

    monkeypatch.setattr(Accuracy, "for_score", modest)
    base = quantized(eval=Scaled(1.0)).report["goal"]["scores"]
    found = []
    for unit in (1e-3, 1.0, 100.0):
        aims.clear()
        drop = unit * 0.4 * (base["float"] - base["int8"])
        report = quantized(eval=Scaled(unit), max_drop=drop).report
        assert all(aim <= unit * (1 + 1e-5) for aim in aims)
        found.append((in_float(report), [aim / unit for aim in aims]))
    assert found[0][0] == found[1][0] == found[2][0]
    assert found[0][1] == pytest.approx(found[1][1], rel=1e-5)
    assert found[2][1] == pytest.approx(found[1][1], rel=1e-5)
    assert found[0][0]
    assert len(found[0][1]) > 1


def test_the_aim_of_a_score_is_raised_by_what_is_missing() -> None:
    from onnxq.documents.accuracy import GateMeasured
    from onnxq.options.settings import Goal
    from onnxq.pipeline.pursuit import Measurement, Pursuit
    from onnxq.pipeline.searches.goal import _GoalSearch

    started = SimpleNamespace(sampling=None, built=SimpleNamespace(job=None))
    for unit in (1e-6, 1.0, 1e6):
        pursuit = Pursuit.of(Goal(eval=lambda model: 0.0, max_drop=0.02 * unit), Measurement())
        search = _GoalSearch(started, pursuit)  # type: ignore[arg-type]
        raised = search._raised({}, [GateMeasured.judged("drop", "", "", 0.02 * unit, 0.03 * unit)])
        assert raised["drop"] == pytest.approx(0.0125 * unit)
        bound = sys.modules["onnxq.pipeline.gates"].BoundGoal(pursuit.goal, (), None)
        pursuit = dataclasses.replace(pursuit, floats={"choose": SampleScores(0.9 * unit)}, bound=bound)
        search = _GoalSearch(started, pursuit)  # type: ignore[arg-type]
        assert search._aims(0.0, {"drop": unit})["drop"] == pytest.approx(0.9 * unit, rel=1e-5)


@pytest.mark.parametrize(("best", "score", "most"), [(0.8, 0.7, 0.1), (80.3, 80.2, 0.1), (0.3, 0.1, 0.2)])
@pytest.mark.parametrize("kind", [float, np.float32])
def test_float_rounding_misses_no_goal(best: float, score: float, most: float, kind: Any) -> None:
    calls: list[str] = []

    def constant(model: Callable[..., Any]) -> Any:
        calls.append("")
        return kind(best if len(calls) == 1 else score)

    goal = quantized(eval=constant, max_drop=most).report["goal"]
    assert goal["met"]
    assert goal["gates"][0]["missing"] == 0
    assert len(calls) == 2
    calls.clear()
    assert not quantized(eval=constant, max_drop=0.99 * most).report["goal"]["met"]


def test_a_noisy_score_writes_nothing_that_is_worse_and_dearer(monkeypatch: pytest.MonkeyPatch) -> None:
    """In the search all in float is best; where it is confirmed, as it is written, int8 as it is."""
    real, searching, written = Accuracy.scores, [False], list[float]()

    def scores(self: Accuracy, *given: Any) -> list[float]:
        searching[0] = True
        found = real(self, *given)
        searching[0] = False
        return found

    def score(model: Callable[..., Any], part: str) -> float:
        off = model({INPUT: SAMPLES[0]})[OUTPUT] - FLOAT.run({INPUT: SAMPLES[0]})[0]
        if searching[0]:
            return 1 - float(np.abs(off).max())
        if part == "verify":
            return 1 - float(np.abs(off).max() > 0)
        written.append(1.0 if not written else 0.5 if len(written) == 1 else 0.2)
        return written[-1]

    monkeypatch.setattr(Accuracy, "scores", scores)
    report = quantized(eval=score, max_drop=0.1).report
    goal = report["goal"]
    assert len(written) > 2
    assert in_float(report) == set()
    assert goal["scores"]["result"] == goal["scores"]["int8"] == 0
    assert goal["search"]["float"] == []
    assert not goal["met"]
    assert any("no nearer" in note for note in goal["notes"])


def test_samples_that_verify_decide_nothing_of_a_score() -> None:
    """What was confirmed is worse than int8 on those that verify: it is written, and that is said."""
    verified: list[float] = []

    def score(model: Callable[..., Any], part: str) -> float:
        off = model({INPUT: SAMPLES[0]})[OUTPUT] - FLOAT.run({INPUT: SAMPLES[0]})[0]
        if part == "choose":
            return -float(np.abs(off).max())
        verified.append(1.0 if not verified else 0.5 if len(verified) == 1 else 0.2)
        return verified[-1]

    report = quantized(eval=score, max_drop=0.1).report
    goal = report["goal"]
    assert verified == [1.0, 0.5, 0.2]  # the float model, int8, and what is written: once each
    assert in_float(report)
    assert not goal["met"]
    assert goal["gates"][0]["missing"] == pytest.approx(0.7)
    assert is_said(goal["missing"], "goal.met-where-decided")
    assert is_said(goal["missing"], "goal.no-nearer")


class Reads:
    """Remembers which samples were read, in order, and to do what."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.of = {name: set[int]() for name in ("calibrating", "proposing", "confirming", "held_out")}
        self.before, self.verifies = set[int](), False
        shown = Source._shown

        def read(source: Source, index: int, row: Any) -> Any:
            if not self.verifies:
                self.before.add(index)
            return shown(source, index, row)

        monkeypatch.setattr(Source, "_shown", read)
        for name in self.of:
            monkeypatch.setattr(Sampling, name, self.told(name, getattr(Sampling, name)))

    def told(self, name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def samples(*given: Any, **more: Any) -> Any:
            self.verifies |= name == "held_out"
            for sample in real(*given, **more):
                self.of[name].add(sample.index)
                yield sample

        return samples


@pytest.mark.parametrize(
    "asked",
    [
        {"min_sqnr": GOAL},
        {"min_agreement": (OUTPUT, 60)},
        {"eval": Fidelity(), "max_drop": 0.3, "min_sqnr": 15},
        {"loud": "auto"},
        {"loud": "auto", "min_sqnr": GOAL, "method": "auto", "repair": "bias"},
    ],
    ids=lambda asked: "-".join(asked),
)
@pytest.mark.parametrize(("count", "samples"), [(96, 512), (96, 24), (20, 512)])
def test_samples_that_verify_decide_nothing(
    asked: Mapping[str, Any], count: int, samples: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are read when all is decided; who proposes does not confirm, and both calibrate.

    Except where others are left over to confirm; the rest is as without a goal.
    """
    reads = Reads(monkeypatch)
    onnxq.quantize(MODEL, DATA[:count], **{**COMMON, **asked, "samples": samples})
    held = {int(i) for i in np.random.default_rng(0).permutation(count)[-(count // 8) :]}
    assert reads.of["held_out"] >= held  # and what is left over
    assert (reads.of["held_out"] == held) is (samples == 512)
    assert len(reads.of["confirming"]) >= 2
    assert reads.of["confirming"] <= reads.before
    assert reads.before.isdisjoint(reads.of["held_out"])
    roles = reads.of
    assert all(roles.values())
    assert sum(map(len, roles.values())) - len(roles["calibrating"]) == len(decided_apart(roles))
    if samples == 512:
        assert roles["proposing"] <= roles["calibrating"]
        assert roles["confirming"] <= roles["calibrating"]
        assert roles["calibrating"] | held == set(range(count))
    else:
        assert roles["confirming"].isdisjoint(roles["calibrating"])
    assert roles["held_out"].isdisjoint(roles["calibrating"])


def decided_apart(roles: Mapping[str, set[int]]) -> set[int]:
    """Those that propose, confirm, or verify."""
    return roles["proposing"] | roles["confirming"] | roles["held_out"]


def test_of_an_iterator_likewise(monkeypatch: pytest.MonkeyPatch) -> None:
    reads = Reads(monkeypatch)
    report = onnxq.quantize(MODEL, iter(DATA), **COMMON, loud="auto", min_sqnr=GOAL).report
    roles = reads.of
    assert report["goal"]["met"]
    assert roles["held_out"] == set(range(0, 96, 8))
    assert roles["proposing"] == set(range(4, 96, 16))
    assert roles["confirming"] == set(range(12, 96, 16))
    assert sum(map(len, roles.values())) - len(roles["calibrating"]) == len(decided_apart(roles))
    assert roles["calibrating"] == set(range(96)) - roles["held_out"]


def test_it_is_said_where_other_samples_say_otherwise() -> None:
    """Those that verify are quieter than all others: the goal is met where it is decided alone."""
    order = np.random.default_rng(0).permutation(96)
    quiet = SAMPLES.copy()
    quiet[order[-12:]] *= 0.2
    data = [{INPUT: sample} for sample in quiet]
    result = onnxq.quantize(MODEL, data, **COMMON, min_sqnr=GOAL)
    goal = result.report["goal"]
    assert goal["search"]["met_where_chosen"]
    assert not goal["met"]
    assert goal["gates"][0]["missing"] > 1
    assert is_said(goal["missing"], "goal.met-where-decided")
    assert goal["search"]["few"] is None


@pytest.mark.parametrize(
    ("count", "goal", "said"),
    [
        (15, GOAL, "the samples that chose confirmed it as well: give more, 16 at least"),
        (3, GOAL, "the samples that calibrated chose as well, and confirmed it: give more, 16 at least"),
        (15, -30, "the samples that chose confirmed it as well: give more, 16 at least"),  # no search
        (16, GOAL, None),
    ],
)
def test_too_few_samples_to_confirm_with_are_said(count: int, goal: float, said: str | None) -> None:
    part = onnxq.quantize(MODEL, DATA[:count], **COMMON, min_sqnr=goal).report["goal"]
    told = [*part["notes"], (part["search"] or {}).get("few")]
    assert (said in told) if said else not any(text and "at least" in text for text in told)


def test_a_plan_changes_nothing_that_is_predicted(tmp_path: Path) -> None:
    """The body is the plan's: its noise is in all predictions, as without the plan."""
    onnx.save(MODEL, tmp_path / "net.onnx")
    common = {**COMMON, "method": "minmax", "body": "fp16"}
    planned = {name: value for name, value in common.items() if name != "compile"}
    onnxq.plan(tmp_path / "net.onnx", DATA, **planned).save(tmp_path / "net.toml")
    plain = onnxq.quantize(tmp_path / "net.onnx", DATA, min_sqnr=80, **common).report["goal"]
    common.pop("body")
    obeyed = onnxq.quantize(tmp_path / "net.onnx", DATA, min_sqnr=80, plan=tmp_path / "net.toml", **common)
    goal = obeyed.report["goal"]
    assert goal["search"]["body_noise_db"] == pytest.approx(plain["search"]["body_noise_db"], abs=0.5)
    assert goal["missing"]
    assert any("--body fp32" in text for text in goal["missing"])


def test_sensitivity_verifies_what_would_be_written(tmp_path: Path) -> None:
    """All of int8 in float leaves the noise of the body."""
    onnx.save(MODEL, tmp_path / "net.onnx")
    options = {name: value for name, value in COMMON.items() if name not in ("compile", "body")}
    found = onnxq.sensitivity(
        tmp_path / "net.onnx", DATA, top=1, max_float=1.0, body="fp16", eval=Fidelity(), **options
    )
    best, scores = found.report["sensitivity"]["best"], found.report["sensitivity"]["scores"]
    assert len(best["float"]) == 4
    half = best["verified"]["sqnr_about_mean_db"]
    assert 50 < half < 90
    assert half == pytest.approx(best["predicted_sqnr_db"], abs=3)
    assert scores["result"] < -1e-6
    assert best["verified_before"]["sqnr_about_mean_db"] < GOAL


def test_a_time_limit_leaves_the_halves_of_a_score(monkeypatch: pytest.MonkeyPatch) -> None:
    """The time is up at the first set: not all that there is goes to float."""
    aim = quantized(eval=Fidelity(), loud="int8").report["goal"]["scores"]["int8"]
    real = Accuracy.scores

    def late(self: Accuracy, score: Any, sets: Any) -> list[float]:
        found = real(self, score, sets)
        if any(sets):
            monkeypatch.setattr("onnxq.base.time_limit.time.monotonic", lambda: 1e9)
            self._tell()
        return found

    monkeypatch.setattr(Accuracy, "scores", late)
    report = quantized(eval=Fidelity(), max_drop=-aim / 2, time_limit=1e6).report
    assert "halves" in report["goal"]["cut"]
    assert report["goal"]["met"]
    assert 1 <= len(in_float(report)) < 4
    assert not any("no int8 is left" in note for note in report["goal"]["notes"])


def test_it_is_said_that_no_int8_is_left() -> None:
    goal = quantized(min_sqnr=100).report["goal"]
    assert goal["met"]
    assert "no int8 is left" in goal["notes"][0]


@pytest.mark.parametrize(("count", "said"), [(1, "calibrated, chose and judged"), (2, "chose as well")])
def test_few_samples_are_not_said_to_be_apart(count: int, said: str, tmp_path: Path) -> None:
    onnx.save(MODEL, tmp_path / "net.onnx")
    np.savez(tmp_path / "data.npz", **{INPUT: SAMPLES[:count, 0]})
    common = ["net.onnx", "--calib", "data.npz", "--method", "minmax"]
    (tmp_path / "onnxq.toml").write_text('[goal]\ntop = 1\n[repair]\nprove = "never"\n')
    ran = run(tmp_path, "sensitivity", *common, "--max-float", "100%")
    screen = " ".join(ran.out.split())
    assert said in screen
    assert "calibrated nothing" not in screen
    assert ("chose nothing" in screen) == (count == 2)
    ran = run(tmp_path, "quantize", *common, "--no-engine", "--min-sqnr", "60", "-o", "q.onnx", "-v")
    screen = " ".join(ran.out.split())
    assert said in screen
    assert ("kept apart" in screen) == (count == 2)  # the one that verifies
    assert "kept apart" not in screen.partition(" Goal ")[2]


def test_a_goal_that_cannot_be_measured_is_refused_before_the_work(monkeypatch: pytest.MonkeyPatch) -> None:
    model = onnx.ModelProto()
    model.CopyFrom(MODEL)
    model.graph.node.append(onnx.helper.make_node("ArgMax", [OUTPUT], ["best"], "last", axis=1, keepdims=0))
    model.graph.output.append(onnx.helper.make_tensor_value_info("best", onnx.TensorProto.INT64, None))
    with monkeypatch.context() as patch:
        patch.setattr("onnxq.pipeline.starting.Ranging", None)  # what calibrates
        with pytest.raises(UserError, match="no output that counts is a float"):
            onnxq.quantize(model, DATA, **COMMON, min_sqnr=GOAL, weigh={OUTPUT: 0})
    goal = quantized(min_agreement=99.9, weigh={OUTPUT: 0}).report["goal"]  # that has a figure
    assert not goal["met"]
    assert 0 < goal["gates"][0]["measured"] < 99.9
    assert "its weight is 0" in goal["notes"][0]


def test_equal_outputs_pass_any_gate() -> None:
    """Also those that do not vary, or are integers: no noise needs no signal."""
    from onnxq.options.settings import Goal
    from onnxq.pipeline.gates import BoundGoal

    goal = BoundGoal.of(Goal(min_sqnr=90.0), ("still", "whole"), [])
    for off, met in ((0, True), (1, False)):
        gauge = goal.gauge()
        for _ in range(2):
            values = [np.ones((1, 3), np.float32), np.arange(3)]
            gauge.about.add(values, [[values[0], values[1] + off]])
        (gate,) = goal.gates(gauge)
        assert gate.met == met
    assert not goal.gates(goal.gauge())[0].met  # nothing was heard
