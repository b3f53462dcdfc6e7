"""What is searched for, one search after another: a fault in one, and a time limit, cost no run."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest
from command import run
from said import is_said

import onnxq
from onnxq.cli.pages.repair import repair_section
from onnxq.cli.screen import Page
from onnxq.pipeline import quantizing, repair_bench
from onnxq.pipeline.run import ModelSearch
from onnxq.pipeline.searches import COMPILED, PLANNED, WRITTEN
from onnxq.run import trt

pytestmark = pytest.mark.usefixtures("by_place")

DIGITS = Path(__file__).parent.parent / "sample_models" / "digits"
LISTS = {"PLANNED": PLANNED, "WRITTEN": WRITTEN, "COMPILED": COMPILED}
NAMES = [search.name for searches in LISTS.values() for search in searches]
OPTIONS: dict[str, Any] = {
    "prove": "never", "compile": False, "loud": "auto", "repair": ["bias", "gptq"], "min_sqnr": 10.0,
}  # fmt: skip


def quantize(**options: Any) -> onnxq.pipeline.Result:  # type: ignore[name-defined]
    return onnxq.quantize(DIGITS / "digits.onnx", DIGITS / "calib", **{**OPTIONS, **options})


def content(result: Any) -> bytes:
    return result.model.SerializeToString(deterministic=True)  # type: ignore[no-any-return]


def said(result: Any) -> str:
    return json.dumps(result.report.to_dict())


def replaced(monkeypatch: pytest.MonkeyPatch, name: str, **changed: Any) -> None:
    """One search is another one."""
    for of, searches in LISTS.items():
        others = [dataclasses.replace(one, **changed) if one.name == name else one for one in searches]
        monkeypatch.setattr(quantizing, of, tuple(others))


def test_the_order_of_searches() -> None:
    assert NAMES == ["scales", "repair", "joints", "loud", "goal", "body", "compile", "bytes", "mix"]


@pytest.mark.parametrize("name", NAMES)
def test_a_fault_in_a_search_costs_that_search_alone(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The model is what it is without the search, and the report says what happened."""
    options: dict[str, Any] = {"min_sqnr": None} if name == "body" else {}  # the goal decides one, too
    if name in ("compile", "bytes"):
        options = {"body": "fp32", **({"compile": True} if name != "compile" else {})}
    if "body" in options and trt.installed() is None:
        pytest.skip("NVIDIA's compiler is not installed")

    def fails(*_: Any) -> None:
        raise ZeroDivisionError("planted")

    with monkeypatch.context() as patch:
        if name == "body":  # the model is finished all the same
            replaced(
                patch, name, run=lambda _, state: dataclasses.replace(state, built=state.built.finished())
            )
        elif name != "compile":
            replaced(patch, name, wanted=lambda run: False)
        expected = content(quantize(**options, **({"compile": False} if name == "compile" else {})))
    replaced(monkeypatch, name, wanted=lambda run: True, run=fails)
    result = quantize(**{**options, "compile": "body" in options})
    assert content(result) == expected
    assert "(ZeroDivisionError: planted)" in said(result)


def test_a_limit_of_no_time_leaves_out_all_that_is_searched_for() -> None:
    """What is written is the method's own, and each part says why."""
    report = (result := quantize(time_limit=0)).report
    plain = quantize(repair="none", method="mse", min_sqnr=-100)  # of as many samples of each kind
    assert content(result) == content(plain)
    assert is_said(report.calibration.choice.why, "no-choice", why="the time limit of 0 s is reached")
    assert {entry.verdict for entry in report.repair.steps} == {"left-out"}
    assert {str(entry.why) for entry in report.repair.steps} == {"the time limit of 0 s is reached"}
    assert is_said(report.goal.cut, "goal-cut.sources", limit="the time limit of 0 s")
    assert report.accuracy  # it is verified all the same
    assert report.layer_errors.why_not.endswith("of 0 s is reached")


@pytest.mark.parametrize(
    ("over", "kept", "first_left"), [("split", ["bias", "gptq"], "thresholds"), ("gptq", [], "bias")]
)
def test_the_best_so_far_is_written_when_the_time_is_up(
    over: str, kept: list[str], first_left: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Over when a step begins: what was kept before is; steps tried together are kept or left out."""
    begin = repair_bench._Bench.begin

    def late(self: Any, step: str) -> None:
        begin(self, step)
        if step == over:
            monkeypatch.setattr("onnxq.base.time_limit.time.monotonic", lambda: 1e9)

    alone = quantize(repair=kept or "none", loud="int8", min_sqnr=None)
    steps = alone.report.repair.steps if kept else ()
    assert {entry.step: entry.verdict for entry in steps} == dict.fromkeys(kept, "kept")
    monkeypatch.setattr(repair_bench._Bench, "begin", late)
    asked = ["bias", "gptq", "split", "thresholds"]
    result = quantize(repair=asked, loud="int8", min_sqnr=None, time_limit=1e6)
    verdicts = {entry.step: (entry.verdict, entry.why) for entry in result.report.repair.steps}
    assert [step for step, (verdict, _) in verdicts.items() if verdict == "kept"] == kept
    assert verdicts[first_left] == ("left-out", "the time limit of 1e+06 s is reached")
    assert content(result) == content(alone)
    said: list[str] = []
    monkeypatch.setattr(Page, "entry", lambda page, text, *more, **style: said.append(text))
    repair_section(Page(), dataclasses.replace(result.report.repair, asked="auto"))
    if kept:  # else the summary says it
        (told,) = [text for text in said if "of 1e+06 s is reached" in text]
        assert told.startswith("not tried: ")
        assert first_left in told
    assert not [text for text in said if "would be run" in text]


def test_a_search_ends_within_itself_when_the_time_is_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """In the middle of choosing scales: they are the method's own."""

    def observe(step: str, done: int | None, total: int | None) -> None:
        if step.startswith("choose") and done:
            monkeypatch.setattr("onnxq.base.time_limit.time.monotonic", lambda: 1e9)

    plain = quantize(repair="none", min_sqnr=None, method="mse")
    result = quantize(repair="none", min_sqnr=None, time_limit=1e6, observe=observe)
    assert is_said(
        result.report.calibration.choice.why, "no-choice", why="the time limit of 1e+06 s is reached"
    )
    assert content(result) == content(plain)


def test_the_command_with_a_time_limit(tmp_path: Path) -> None:
    """It needs no goal, and the file is there."""
    (tmp_path / "onnxq.toml").write_text("[goal]\ntime_limit = 0\n")
    ran = run(
        tmp_path, "quantize", str(DIGITS / "digits.onnx"), "--calib", str(DIGITS / "calib"),
        "-o", "q.onnx",
    )  # fmt: skip
    assert ran.code == 0
    assert (tmp_path / "q.onnx").stat().st_size
    assert "of 0 s is reached" in " ".join(ran.out.split())


def test_a_search_is_data() -> None:
    """Frozen, so that no run changes what another one does."""
    for searches in LISTS.values():
        for search in searches:
            assert isinstance(search, ModelSearch)
            with pytest.raises(dataclasses.FrozenInstanceError):
                search.name = "other"  # type: ignore[misc]
