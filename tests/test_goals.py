"""A goal that is met by itself, and what causes the error: from the library and from the command line."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

sys.path.insert(0, str(Path(__file__).parent / "noise"))

from noise_nets import outlier_channel

import onnxq
from onnxq.cli.pages.goal import goal_section
from onnxq.cli.screen import Page
from onnxq.errors import UserError
from onnxq.noise.goal import Met
from onnxq.noise.search import Search
from onnxq.pipeline.accuracy import Accuracy
from onnxq.pipeline.scoring import Score
from onnxq.run import ort
from onnxq.run.about_mean import AboutMeanMeter, about_mean, standard_error_db
from onnxq.run.switched import Switched

GOAL = 20.0  # dB; 12 by default, 30 with the culprit in float
MODEL, CULPRIT = outlier_channel()
SAMPLES = np.random.default_rng(5).standard_normal((96, 1, 16, 8, 8)).astype(np.float32)
FLOAT = ort.load(MODEL)
(INPUT,) = FLOAT.inputs
(OUTPUT,) = FLOAT.outputs
DATA = [{INPUT: sample} for sample in SAMPLES]
COMMON: dict[str, Any] = {"compile": False, "method": "mse", "prove": "never", "body": "fp32"}


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
    order = [int(i) for i in np.random.default_rng(0).permutation(96)]  # `data/split.py`
    held = sorted(order[-12:])
    again = about_mean(FLOAT, ort.load(met.model), (DATA[index] for index in held))
    assert again.sqnr_db == pytest.approx(known["sqnr_about_mean_db"], abs=1e-3)


def test_the_same_input_gives_the_same_bytes(met: Any) -> None:
    again = quantized(min_sqnr=GOAL)
    assert again.model.SerializeToString(deterministic=True) == met.model.SerializeToString(
        deterministic=True
    )
    assert again.report["goal"] == met.report["goal"]


def test_what_meets_the_goal_as_it_is_stays_as_it_is() -> None:
    plain, gated = quantized(method="auto"), quantized(method="auto", min_sqnr=-30)
    assert gated.report["goal"]["met"]
    assert gated.report["goal"]["search"] is None
    assert gated.model.SerializeToString(deterministic=True) == plain.model.SerializeToString(
        deterministic=True
    )
    assert plain.report["goal"] is None
    assert plain.report["about_mean"] == gated.report["about_mean"]


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
    plain = quantized(eval=tell)
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
    assert (score.told, score("m", "choose")) == (told, 1)  # type: ignore[arg-type]


def test_a_score_that_is_told_nothing_uses_the_same_samples() -> None:
    def score(model: Callable[..., Any]) -> np.float32:
        return np.float32(-np.abs(model({INPUT: SAMPLES[0]})[OUTPUT] - FLOAT.run(DATA[0])[0]).max())

    assert quantized(eval=score).report["goal"]["scores"]["same_samples"]


def test_outputs_that_tell_no_noise_cost_no_run() -> None:
    """An ArgMax at the end: its changes can be counted, and say nothing of what causes them."""
    model = onnx.ModelProto()
    model.CopyFrom(MODEL)
    model.graph.node.append(onnx.helper.make_node("ArgMax", [OUTPUT], ["best"], "last", axis=1, keepdims=0))
    del model.graph.output[:]
    model.graph.output.append(onnx.helper.make_tensor_value_info("best", onnx.TensorProto.INT64, None))
    result = onnxq.quantize(model, DATA, **COMMON, min_agreement=99.9)
    goal = result.report["goal"]
    assert not goal["met"]
    assert 0 < goal["gates"][0]["measured"] < 99.9
    assert "no output tells" in goal["notes"][0]
    assert result.report["about_mean"]["sqnr_about_mean_db"] is None


def test_several_goals_at_once() -> None:
    result = quantized(min_sqnr=GOAL, min_agreement=(OUTPUT, 20))
    assert [gate["kind"] for gate in result.report["goal"]["gates"]] == ["sqnr", "agreement"]
    assert result.report["goal"]["met"]
    assert in_float(result.report) == {node_of(CULPRIT)}


def test_the_aim_is_raised_where_verification_falls_short(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first set passes where it was chosen only: too little is asked for there."""
    aims: list[float] = []
    real = Accuracy.for_score
    most = -quantized(eval=Fidelity()).report["goal"]["scores"]["int8"] / 2

    def modest(self: Accuracy, score: Callable[..., float], goal: float) -> Met:
        aims.append(goal)
        return real(self, score, goal - 2 * most)

    monkeypatch.setattr(Accuracy, "for_score", modest)
    result = quantized(eval=Fidelity(), max_drop=most)
    assert result.report["goal"]["met"]
    assert aims == sorted(set(aims))
    assert len(aims) > 1
    assert result.report["goal"]["search"]["raised"]["drop"] == pytest.approx(aims[-1] - aims[0])


def test_samples_that_verify_choose_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """The aim is a margin higher, whatever they say; where they miss the goal, that is what is said."""
    aims: list[float] = []
    real = Accuracy.for_sqnr

    def modest(self: Accuracy, goal_db: float, rounds: int = 8) -> Met:
        aims.append(goal_db)
        return real(self, goal_db - 30, rounds)

    monkeypatch.setattr(Accuracy, "for_sqnr", modest)
    goal = quantized(min_sqnr=GOAL).report["goal"]
    assert len(aims) == 1
    assert goal["search"]["margin_db"] == pytest.approx(aims[0] - GOAL)
    assert 0 < aims[0] - GOAL < 3
    assert not goal["met"]
    assert goal["search"]["met_where_chosen"]
    assert any("not on those that verify" in text for text in goal["missing"])


def test_the_standard_error_is_the_spread_of_draws() -> None:
    """Of a mean of powers, 1/n of them each: sd / sqrt(n) over the mean, in dB."""
    rng = np.random.default_rng(0)
    levels, told = [], []
    for _ in range(60):
        groups = [AboutMeanMeter(["y"]) for _ in range(16)]
        for number in range(64):
            exact = rng.standard_normal(200)
            groups[number % 16].add([exact], [[exact + 0.01 * rng.exponential() * rng.standard_normal(200)]])
        levels.append(groups[0].joined(groups[1:]).result().sqnr_db)
        told.append(standard_error_db(groups))
    assert np.mean(told) == pytest.approx(np.std(levels), rel=0.3)
    assert standard_error_db(groups[:2]) == 0


def test_a_fault_in_the_search_costs_no_run(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(self: Accuracy, goal_db: float) -> Met:
        raise ZeroDivisionError("planted")

    monkeypatch.setattr(Accuracy, "for_sqnr", fails)
    result = quantized(min_sqnr=GOAL)
    assert not result.report["goal"]["met"]
    assert "planted" in result.report["goal"]["notes"][0]
    assert len(result.report["plan"]["layers"]) == 4


PLACES = {
    "copy": (sys.modules[Accuracy.__module__], "measuring_copy"),
    "sources": (sys.modules[Accuracy.__module__], "measure_noise"),
    "body": (Accuracy, "measure_body"),
    "search": (Search, "cheapest"),
    "set": (Switched, "run_each"),
    "result": (sys.modules[Accuracy.__module__], "refined"),
    "report": (Accuracy, "to_json"),
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
            monkeypatch.setattr("onnxq.pipeline.goals.time.monotonic", lambda: 1e9)
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
    from onnxq.config import load_config

    rules = load_config(tmp_path / "best.toml").layers
    again = onnxq.quantize(MODEL, DATA, layers=rules, **COMMON)
    kept = {e["node"] for e in again.report["plan"]["kept_float"] if e["code"] == "layer"}
    assert kept == set(part["best"]["float"])
    level = again.report["about_mean"]["sqnr_about_mean_db"]
    assert level == pytest.approx(part["best"]["verified"]["sqnr_about_mean_db"], abs=0.3)


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "onnxq", *arguments], cwd=folder, capture_output=True, text=True, check=False
    )


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
        "--prove",
        "never",
    )
    ran = run(tmp_path, *base, "--min-sqnr", str(GOAL), "--max-float", "0.1%", "-o", "q.onnx")
    assert ran.returncode == 1, ran.stderr
    assert "Goal       not met: SQNR about the mean" in ran.stdout
    assert "are missing" in ran.stdout
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "data.npz", "net.onnx", "q.onnx", "q.report.json",
    ]  # fmt: skip
    compare = ("compare", "net.onnx", "q.onnx", "--data", "data.npz", "--json")
    ran = run(tmp_path, *compare, "--min-sqnr", str(GOAL))
    document = json.loads(ran.stdout)
    assert ran.returncode == 1
    assert not document["goal"]["met"]
    assert document["about_mean"]["sqnr_about_mean_db"] == document["goal"]["gates"][0]["measured"] < GOAL
    ran = run(tmp_path, *compare[:-1], "--min-sqnr", str(GOAL), "-q")
    assert (ran.returncode, ran.stdout) == (1, "")
    ran = run(tmp_path, *compare, "--min-sqnr", "-30", "--min-agreement", f"{OUTPUT}=1")
    assert ran.returncode == 0
    assert json.loads(ran.stdout)["goal"]["met"]


def test_sensitivity_takes_no_more_than_the_bound(tmp_path: Path) -> None:
    """The smallest takes 3.33 %, and the screen says so."""
    onnx.save(MODEL, tmp_path / "net.onnx")
    np.savez(tmp_path / "data.npz", **{INPUT: SAMPLES[:, 0]})
    base = ("sensitivity", "net.onnx", "--calib", "data.npz", "--method", "minmax", "--prove", "never")
    ran = run(tmp_path, *base, "--top", "0", "-o", "best.toml", "--max-float", "1%")
    assert ran.returncode == 0, ran.stderr
    screen = " ".join(ran.stdout.split())
    assert "no layer is small enough: no more than 1 % of the int8 MACs" in screen
    smallest = re.search(r"the smallest takes ([\d.]+) % \(--max-float ([\d.]+)%\)", screen)
    assert smallest is not None
    assert "it leaves nothing in float" in screen
    assert "Next" not in screen
    assert "[[layer]]" not in (tmp_path / "best.toml").read_text()
    ran = run(tmp_path, *base, "--top", "0", "-o", "best.toml", "--max-float", f"{smallest[2]}%")
    assert "Next" in ran.stdout
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
    goal = ("--max-drop", "0.5", "--eval", "score.py:late", "--prove", "never", "-o", "q.onnx")
    ran = run(tmp_path, *base, *goal)
    assert ran.returncode == 2, ran.stderr
    assert "line 6: KeyError" in ran.stderr
    assert sorted(tmp_path.iterdir()) == before


def test_sensitivity_takes_no_more_than_its_own_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (onnxq.pipeline.causes, onnxq.pipeline.quantization):  # type: ignore[attr-defined]
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
    goal_section(page, {"gates": [], "scores": None, "cut": "the time limit", "kept": "q.onnx.part"})
    assert any("kept in q.onnx.part" in text for text in said)
