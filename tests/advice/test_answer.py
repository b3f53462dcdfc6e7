"""The answer to a report: what decides it, which cause is named, which command is given."""

from __future__ import annotations

import ast
import copy
import json
import re
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.parser
import pytest
from command import OF_TWO_LAYERS, TWO_LAYERS, run, weighted
from documentation.blocks import ROOT
from said import is_said

import onnxq
from onnxq.advice import findings
from onnxq.advice.advise import advise
from onnxq.advice.causes import MORE_DO_NOT_HELP, MORE_HELP
from onnxq.analysis.reports import OpenedReport
from onnxq.data.warnings import SURER
from onnxq.documents.advice import Advice
from onnxq.judge.intervals import Interval
from onnxq.options.settings import Outcome
from onnxq.pipeline import comparing

UNLIKE = (
    "alike", "constant-input", "units", "unnormalized", "normalized-twice", "reshaped", "duplicates",
)  # fmt: skip
QUANTIZE = ("quantize", "net.onnx", "--no-engine", "--repair", "none", "--calib", "x.npz")


def save(folder: Path) -> None:
    onnx.save(weighted(TWO_LAYERS, **OF_TWO_LAYERS), folder / "net.onnx")
    np.savez(folder / "x.npz", x=np.random.default_rng(1).standard_normal((64, 3, 8, 8)).astype(np.float32))


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The report of a run that went well, as if it had been compiled."""
    folder = tmp_path_factory.mktemp("answer")
    save(folder)
    asked = [word for word in QUANTIZE if word not in ("--repair", "none")]
    report: dict[str, Any] = run(folder, *asked, "--json").json()
    report["engine"] |= {"status": "compiled", "planned": 2, "int8": 2, "not_int8": [], "reason": ""}
    report["asked"] = [part for part in report["asked"] if part != ["--no-engine"]]
    return report


def of(report: dict[str, Any], change: Callable[[dict[str, Any]], object] = lambda report: None) -> Advice:
    edited = copy.deepcopy(report)
    change(edited)
    return advise(OpenedReport.of(edited).document)


def test_what_holds_is_shipped(plain: dict[str, Any]) -> None:
    advice = of(plain)
    assert advice.answer == "ship"
    assert "2 of 2 planned" in advice.because
    assert advice.command == plain["commands"][0]
    assert [one for one in advice.findings if one.weight != "told"] == []


def level(decibels: float, low: float, high: float) -> Callable[[dict[str, Any]], object]:
    def change(report: dict[str, Any]) -> None:
        entry = {"output": "y", "sqnr_about_mean_db": decibels, "interval": {"low": low, "high": high}}
        report["about_mean"] |= {"worst_output": "y", "worst_output_db": decibels, "outputs": [entry]}
        report["accuracy"][0] |= {"sqnr_db": decibels}

    return change


@pytest.mark.parametrize(
    ("change", "answer"),
    [
        (level(30.0, 28.0, 32.0), "ship"), (level(29.9, 28.0, 32.0), "not-known"),
        (level(19.0, 18.0, 20.1), "not-known"), (level(19.0, 18.0, 19.9), "do-not-ship"),
    ],
)  # fmt: skip
def test_the_level_of_an_unknown_task(
    plain: dict[str, Any], change: Callable[[dict[str, Any]], object], answer: str
) -> None:
    advice = of(plain, change)
    assert advice.answer == answer
    if answer != "ship":
        assert "'y'" in advice.because
        commands = [cause.command for one in advice.findings for cause in one.causes]
        assert any(command.endswith("--min-sqnr 30") for command in commands)


def doubt(kind: str, without: list[str], more: list[str]) -> Callable[[dict[str, Any]], object]:
    def change(report: dict[str, Any]) -> None:
        report["asked"] += [["--scale", "1"], ["--mean", "0.5"]]
        report["calibration"]["data"]["doubts"] = [
            {"kind": kind, "input": "x", "text": "as seen", "hint": "do so", "without": without, "more": more}
        ]

    return change


def test_a_doubt_about_the_data_leaves_it_open_with_its_own_flags(plain: dict[str, Any]) -> None:
    advice = of(plain, doubt("units", ["--scale"], ["--scale", "1/255"]))
    assert (advice.answer, advice.because, advice.do) == ("not-known", "as seen", "do so")
    words = shlex.split(advice.command)
    assert words[:3] == ["onnxq", "quantize", "net.onnx"]
    assert [words[place + 1] for place, word in enumerate(words) if word == "--scale"] == ["1/255"]
    assert "--mean" in words
    assert of(plain, doubt("alike", [], [])).command == ""


@pytest.mark.parametrize("kind", UNLIKE)
def test_what_explains_that_answers_are_alike_is_said_in_its_place(plain: dict[str, Any], kind: str) -> None:
    def change(report: dict[str, Any]) -> None:
        doubt(kind, [], [])(report)
        (other,) = report["calibration"]["data"]["doubts"]
        report["calibration"]["data"]["doubts"] += [{**other, "kind": "unlike"}]

    codes = [one.code for one in of(plain, change).findings]
    assert kind in codes
    assert ("unlike" in codes) == (kind == "duplicates")


def test_all_that_leaves_it_open_is_on_the_page() -> None:
    room = ast.parse(Path(findings.__file__).read_text("utf-8"))
    calls = [
        one
        for one in ast.walk(room)
        if isinstance(one, ast.Call) and getattr(one.func, "id", "") == "advised"
    ]
    found = {
        one.value.partition(".")[0]
        for code, weight in (call.args[:2] for call in calls)
        if any(isinstance(one, ast.Constant) and one.value == "open" for one in ast.walk(weight))
        for one in ast.walk(code)
        if isinstance(one, ast.Constant) and isinstance(one.value, str)
    } - {""}
    assert {"compiler-not-asked", "goal", "mismatch", "unread"} < found
    page = (ROOT / "docs" / "advice.md").read_text("utf-8")
    table = page.partition("## Not known")[2].partition("## Causes")[0]
    rows = [line.split("|")[1] for line in table.splitlines() if line.startswith("| `")]
    assert set(re.findall("`([a-z-]+)`", " ".join(rows))) - {"code"} == found


def test_bytes_decide_only_where_the_data_are_sure(plain: dict[str, Any]) -> None:
    """With other data all figures would be others: the doubt comes first."""

    def heavier(report: dict[str, Any]) -> None:
        sides = {"fp16": {"moved_mb": 1.0, "weights_mb": 0.0}, "int8": {"moved_mb": 2.0, "weights_mb": 0.0}}
        report["verdict"] = {"form": "merged", "merged": sides}

    advice = of(plain, heavier)
    assert advice.answer == "do-not-ship"
    assert "2.00 times the bytes" in advice.because
    assert advice.command.startswith("onnxq sanitize net.onnx ")
    both = of(plain, lambda report: (heavier(report), doubt("alike", [], [])(report)))
    assert (both.answer, both.because) == ("do-not-ship", "as seen")
    assert [one.code for one in both.findings] == ["alike", "bytes"]
    few = lambda report: report["accuracy"][0].update(samples=2)  # noqa: E731
    open_elsewhere = of(plain, lambda report: (heavier(report), few(report)))
    assert (open_elsewhere.answer, open_elsewhere.because) == (advice.answer, advice.because)
    assert [one.weight for one in open_elsewhere.findings[:2]] == ["bad", "open"]


def test_what_moves_the_bytes_is_the_step_that_does_and_then_the_layer(plain: dict[str, Any]) -> None:
    """Layers that are in float move what they move in float16: they are no cause."""

    def change(report: dict[str, Any]) -> None:
        sides = {"fp16": {"moved_mb": 1.0, "weights_mb": 0.0}, "int8": {"moved_mb": 1.1, "weights_mb": 0.0}}
        layers = [
            {
                "layers": [name],
                "nodes": [name],
                "kernels_fp16": 1,
                "kernels_int8": 2,
                "fp16_mb": 0.2,
                "int8_mb": mb,
            }
            for name, mb in (("c1", 0.1), ("c2", 0.3))
        ]
        report["verdict"] = {"form": "merged", "merged": sides, "layers": layers}
        report["plan"]["kept_float"] = [{"node": "c9", "code": "padded-groups", "because": "depthwise"}]
        report["asked"] += [["--repair", "bias,split"]]
        report["repair"] = {"steps": [
            {"step": "bias", "verdict": "kept", "before_db": 20.0, "after_db": 22.0, "more_bytes": 0.0},
            {"step": "split", "verdict": "kept", "before_db": 22.0, "after_db": 24.0, "more_bytes": 0.2},
        ]}  # fmt: skip

    finding = next(one for one in of(plain, change).findings if one.code == "bytes")
    assert [cause.code for cause in finding.causes] == ["step", "bytes-layer", "float16"]
    step, layer, _ = finding.causes

    def wide(report: dict[str, Any]) -> None:
        change(report)
        report["body"]["type"] = "fp32"

    (own,) = [one for one in of(plain, wide).findings if one.code == "bytes"]
    assert [cause.code for cause in own.causes] == ["step", "bytes-layer", "float16"]
    asked = of(plain, lambda report: (wide(report), report["asked"].append(["--body", "fp32"])))
    assert asked.findings[0].causes[0].code == "wide-body"
    assert "--body" not in asked.command
    assert is_said(step.said, "step", step="split", more="0.20", ratio="1.10")
    assert shlex.split(step.command)[-2:] == ["--repair", "bias"]
    assert step.command.count("--repair") == 1
    assert "'c2'" in layer.said
    assert shlex.split(layer.command)[-2:] == ["--keep-float", "c2"]

    def of_all(report: dict[str, Any]) -> None:
        change(report)
        report["verdict"]["layers"][1]["layers"] = ["c1", "c2"]

    (whole,) = [one for one in of(plain, of_all).findings if one.code == "bytes"]
    assert [cause.code for cause in whole.causes] == ["step", "float16"]  # without both nothing is in int8

    def of_pairs(report: dict[str, Any]) -> None:
        change(report)
        report["calibration"]["notes"] = ["2 of the file's pairs stay float arithmetic. --pairs adopt: 20 dB"]

    finding = next(one for one in of(plain, of_pairs).findings if one.code == "bytes")
    assert [cause.code for cause in finding.causes] == ["float-pairs", "step", "bytes-layer", "float16"]
    assert finding.causes[0].said.endswith("--pairs adopt: 20 dB")
    assert shlex.split(finding.causes[0].command)[-2:] == ["--pairs", "adopt"]


@pytest.mark.parametrize("dynamic", [True, False])
def test_layers_of_few_rows_are_told_of_a_batch_that_the_model_can_have(
    plain: dict[str, Any], dynamic: bool
) -> None:
    def change(report: dict[str, Any]) -> None:
        no_int8("few-rows", met=False)(report)
        batch = {"name": "N", "smallest": 1, "usual": 2, "largest": 2, "origin": "stated", "batch": True}
        report["deployment"]["dimensions"] = [batch] if dynamic else []

    advice = of(plain, change)
    if dynamic:
        assert is_said(advice.do, "few-rows.dynamic/do")
        assert shlex.split(advice.command)[-2:] == ["--batch", "1:16:32"]
    else:
        assert is_said(advice.do, "few-rows/do")
        assert advice.command == ""


def body(report: dict[str, Any]) -> None:
    level(12.0, 11.0, 13.0)(report)
    outputs = [{"output": "y", "int8_db": 40.0, "body_db": 12.1, "together_db": 12.0}]
    report["body"] |= {"type": "fp16", "outputs": outputs}


def loud(report: dict[str, Any]) -> None:
    level(12.0, 11.0, 13.0)(report)
    one = {
        "name": "c2", "nodes": ["c2"], "output": "y", "noise_share": 0.9, "gain_db": 9.0, "share": 0.001,
        "left_float": False, "why": "c2 in int8: 90 % of the noise",
    }  # fmt: skip
    report["plan"]["heads"] = {"asked": "default", "heads": [], "loud": [one]}


def freed(report: dict[str, Any]) -> None:
    """What was loud is in float."""
    loud(report)
    report["plan"]["heads"] |= {"noise_share": 0.9, "why": ""}
    report["plan"]["heads"]["loud"][0] |= {"left_float": True}


def everywhere(report: dict[str, Any]) -> None:
    level(12.0, 11.0, 13.0)(report)
    report["plan"]["heads"] = {"asked": "default", "heads": [], "loud": [], "why": "the noise is spread"}


def lost_beside(change: Callable[[dict[str, Any]], object]) -> Callable[[dict[str, Any]], object]:
    """Outputs that are far off, and nothing is loud."""
    return lambda report: (everywhere(report), change(report))


def test_a_trained_model_that_magnifies_what_is_rounded_has_a_command(plain: dict[str, Any]) -> None:
    def change(report: dict[str, Any]) -> None:
        everywhere(report)
        outputs = [{"output": "y", "int8_db": 12.0, "body_db": 30.8, "together_db": 12.0}]
        report["body"] |= {"type": "fp16", "outputs": outputs}

    (cause,) = [one for one in of(plain, change).findings[0].causes if one.code == "magnifies"]
    assert is_said(cause.said, "half-alone")
    assert is_said(cause.do, "magnifies/do")
    assert "--min-sqnr" in shlex.split(cause.command)


def without_repair(report: dict[str, Any]) -> None:
    report["asked"].append(["--repair", "none"])
    report["repair"] = None


def some_repair(report: dict[str, Any]) -> None:
    report["repair"] |= {"asked": ["bias", "shift"]}


def loud_off(report: dict[str, Any]) -> None:
    report["plan"]["heads"] = {"asked": "int8", "heads": []}


def foreseen(share: float, *, reached: bool = True) -> Callable[[dict[str, Any]], object]:
    def change(report: dict[str, Any]) -> None:
        goals = [{"sqnr_db": goal, "share": share, "reached": reached} for goal in (20.0, 30.0)]
        report["plan"]["heads"] |= {"noise_share": 0.2, "foreseen": goals}

    return change


NOT_KNOWN = "not known: run alone, 'c2' (36.7 dB) and 'c1'"

CAUSES: dict[str, tuple[Callable[[dict[str, Any]], object], str, str]] = {
    "body": (body, "the fp16 body loses more than int8", "--body fp32"),
    "loud": (loud, "c2 in int8: 90 % of the noise", "--keep-float c2"),
    "everywhere": (everywhere, NOT_KNOWN, "--min-sqnr 30"),
    "freed": (freed, NOT_KNOWN, "--min-sqnr 30"),
    "no repair": (lost_beside(without_repair), NOT_KNOWN, "--calib x.npz"),
    "some repair": (lost_beside(some_repair), NOT_KNOWN, "--repair auto"),
    "loud off": (lost_beside(loud_off), NOT_KNOWN, "--min-sqnr 30"),
    "some in float": (lost_beside(foreseen(0.4)), NOT_KNOWN, "--min-sqnr 30"),
    "all in float": (lost_beside(foreseen(0.97)), "int8 is not for this model as it is", "--body fp16"),
    "not at all": (
        lost_beside(foreseen(0.5, reached=False)),
        "int8 is not for this model as it is: 30 dB would take more",
        "--body fp16",
    ),
}


@pytest.mark.parametrize(("change", "cause", "flags"), CAUSES.values(), ids=CAUSES)
def test_the_cause_is_named_with_what_mends_it(
    plain: dict[str, Any], change: Callable[[dict[str, Any]], object], cause: str, flags: str
) -> None:
    advice = of(plain, change)
    assert advice.answer == "do-not-ship"
    assert advice.cause.startswith(cause)
    assert advice.command.endswith(flags)
    assert "--calib x.npz" in advice.command


def codes(advice: Advice) -> list[str]:
    return [one.code for one in advice.findings[0].causes]


def few(*notes: str) -> Callable[[dict[str, Any]], object]:
    """Twenty samples calibrated, the outputs are far off, and nothing is loud."""

    def change(report: dict[str, Any]) -> None:
        foreseen(0.4)(report)
        level(12.0, 11.0, 13.0)(report)
        report["calibration"]["samples"] = 20
        report["calibration"]["notes"] = [*report["calibration"]["notes"], *notes]

    return change


def test_few_samples_are_the_cause_where_more_were_measured_to_help(plain: dict[str, Any]) -> None:
    """With none of it measured it is only suspected, behind that the cause is not known."""
    helps = of(plain, few(f"{MORE_HELP}: scales of half of them leave 8.0 dB, those of all 12.0 dB"))
    assert is_said(helps.cause, "half-samples", half="8.0 dB")
    assert helps.do.startswith("give more samples")
    useless = of(
        plain, few(f"{MORE_DO_NOT_HELP}: scales of half of them leave 11.9 dB, those of all 12.0 dB")
    )
    assert useless.cause.startswith("not known: ")
    assert "few-samples" not in codes(useless)
    not_measured = of(plain, few())
    assert not_measured.cause.startswith("not known: ")
    assert codes(not_measured)[-1] == "few-samples"
    assert not_measured.findings[0].causes[-1].said.startswith("not measured: 20 samples")
    assert "--min-sqnr" in not_measured.command


@pytest.mark.parametrize("kind", ["constant-input", "units", "noise", "mixed-scales"])
def test_what_is_doubtful_about_the_data_is_no_cause_before_it_was_measured(
    plain: dict[str, Any], kind: str
) -> None:
    """What the float model itself tells of them is."""

    def change(text: str, kind: str) -> Callable[[dict[str, Any]], object]:
        def changed(report: dict[str, Any]) -> None:
            few(MORE_DO_NOT_HELP)(report)
            doubt(kind, ["--scale"], ["--scale", "1/255"])(report)
            report["calibration"]["data"]["doubts"][0]["text"] = text

        return changed

    suspected = of(plain, change("input 'x' is 0 everywhere", kind))
    assert suspected.cause.startswith("not known: ")
    assert suspected.findings[0].causes[-2].said.startswith("not measured: input 'x'")
    assert suspected.command.endswith("--scale 1/255")  # what may be wrong is mended before a goal is set
    for text, measured in (
        (f"input 'x': {SURER} with pixel / 255", "channel-order"),
        ("fits", "preparation"),
    ):
        seen = of(plain, change(text, measured))
        assert seen.cause == text
        assert seen.command.endswith("--scale 1/255")
    assert of(plain, lambda report: (loud(report), change("0", kind)(report))).cause.startswith("c2 in int8")


def test_what_is_switched_off_can_be_tried_and_is_no_cause(plain: dict[str, Any]) -> None:
    advice = of(plain, lost_beside(without_repair))
    assert codes(advice)[:2] == ["not-known", "repair-off"]
    assert is_said(advice.do, "repair-off/do")


def test_the_body_of_a_plan_is_changed_in_the_plan(plain: dict[str, Any]) -> None:
    """No flag says otherwise than a plan."""
    advice = of(plain, lambda report: (body(report), report["plan"].update(file="p.toml")))
    assert is_said(advice.cause, "body", type="fp16", format="int8")
    assert is_said(advice.do, "body.plan/do", plan="p.toml")
    assert advice.command == ""


def test_images_that_no_task_judges_are_named_before_a_costly_goal(plain: dict[str, Any]) -> None:
    """What stands out goes before them, and arrays are prepared where onnxq sees nothing of it."""
    image = {
        "input": "x", "dtype": "float32", "layout": "NCHW", "color": "rgb", "size": "stretched to 8x8",
        "scale": 1.0, "mean": [0.0], "std": [1.0], "range": [-2.1, 2.6], "preset": None,
    }  # fmt: skip

    def fed(report: dict[str, Any]) -> None:
        report["calibration"]["data"]["images"] = [image]

    advice = of(plain, lambda report: (everywhere(report), fed(report)))
    assert is_said(advice.cause, "not-known.alone")
    assert is_said(advice.cause, "unjudged", color="rgb", low="-2.1", high="2.6")
    assert advice.command.endswith("--min-sqnr 30")
    assert of(plain, lambda report: (loud(report), fed(report))).cause.startswith("c2 in int8")
    assert "first see how" not in of(plain, everywhere).cause


def test_what_a_goal_would_take_is_said(plain: dict[str, Any]) -> None:
    advice = of(plain, lost_beside(foreseen(0.4)))
    assert is_said(advice.do, "everywhere.foreseen/do", goal="--min-sqnr 30", share="40%", format="int8")


@pytest.mark.parametrize(
    ("interval", "said"), [(None, "up to +9.0 dB for"), ((2.0, 16.0), "+9.0 dB (2.0 to 16.0) for")]
)
def test_what_is_gained_is_said_with_its_spread(
    plain: dict[str, Any], interval: tuple[float, float] | None, said: str
) -> None:
    def change(report: dict[str, Any]) -> None:
        loud(report)
        ends = None if interval is None else dict(zip(("low", "high"), interval, strict=True))
        report["plan"]["heads"]["loud"][0]["interval"] = ends

    assert f"in float: {said} 0.10%" in of(plain, change).do


def no_int8(code: str, *, met: bool) -> Callable[[dict[str, Any]], object]:
    """No layer in int8: most of them by one reason, the rest for a goal."""

    def change(report: dict[str, Any]) -> None:
        for layer in report["plan"]["layers"]:
            layer["format"] = "float"
        first, second = (layer["node"] for layer in report["plan"]["layers"])
        report["plan"]["kept_float"] = [
            {"node": first, "op": "Conv", "because": "as said", "code": "goal" if met else code},
            {"node": second, "op": "Conv", "because": "as said", "code": code},
        ]
        gate = {
            "kind": "sqnr",
            "what": "SQNR",
            "of": "",
            "goal": 90.0,
            "measured": 99.0,
            "met": True,
            "missing": 0.0,
        }
        report["goal"] = {"met": True, "gates": [gate], "scores": None} if met else None

    return change


def test_a_goal_that_left_no_int8_is_met_by_the_float_model(plain: dict[str, Any]) -> None:
    advice = of(plain, no_int8("few-channels", met=True))
    assert is_said(advice.because, "no-int8.goal")
    assert is_said(advice.cause, "goal.layers")  # though the other layer has more of the work
    assert advice.command.endswith("--body fp16")
    other = of(plain, no_int8("few-channels", met=False))
    assert (other.because, "too few channels" in other.cause) == (
        "nothing is quantized: the file is a float model", True
    )  # fmt: skip


def test_a_goal_that_was_met_where_layers_were_chosen_is_asked_for_higher(plain: dict[str, Any]) -> None:
    """Others have less: that no layers meet it is not said."""

    def change(report: dict[str, Any], *, met: bool) -> None:
        gate = {"kind": "sqnr", "what": "SQNR", "of": "", "goal": 41.0, "measured": 39.8, "met": False,
                "missing": 1.2, "interval": {"low": 38.0, "high": 40.5}, "samples": 16}  # fmt: skip
        report["goal"] = {"met": False, "gates": [gate], "scores": None, "search": {"met_where_chosen": met}}
        report["asked"].append(["--min-sqnr", "41"])

    advice = of(plain, lambda report: change(report, met=True))
    assert advice.answer == "do-not-ship"
    assert is_said(advice.cause, "met-where-chosen")
    assert shlex.split(advice.command)[-2:] == ["--min-sqnr", "43.4"]
    assert advice.command.count("--min-sqnr") == 1
    other = of(plain, lambda report: change(report, met=False))
    assert (is_said(other.cause, "unreachable"), other.command) == (True, "")


def test_wide_intervals_are_not_shipped(plain: dict[str, Any]) -> None:
    """Of a model without a task, and of one whose answers are all kept."""
    advice = of(plain, level(31.0, 12.0, 36.0))
    assert (advice.answer, advice.findings[0].code) == ("not-known", "spread")

    def kept(report: dict[str, Any]) -> None:
        figure = {
            "kind": "top1", "over": None, "kept": 64, "percent": 100.0, "whole": 64, "new": 0,
            "interval": {"low": 94.3, "high": 100.0},
        }  # fmt: skip
        report["task"] = {"text": "classify", "figures": [figure]}

    for ends, answer in (((-5.0, 37.7), "not-known"), ((12.0, 22.0), "ship")):
        advice = of(plain, lambda report, ends=ends: (level(18.9, *ends)(report), kept(report)))
        assert advice.answer == answer


ENGINES: dict[str, tuple[dict[str, Any], str, str]] = {
    "failed": ({"status": "failed", "reason": "no kernel\nat all"}, "do-not-ship", "it does not compile"),
    "beyond": (
        {"status": "failed", "reason": "it takes X\nat all"},
        "not-known",
        "nothing compiled it here: it takes X",
    ),
    "not run": (
        {"int8": 1, "not_int8": ["c2"]},
        "do-not-ship",
        "1 layer is planned in int8 but does not run in it, for example 'c2'",
    ),
    "none run": (
        {"int8": 0, "not_int8": ["c1", "c2"]},
        "do-not-ship",
        "2 layers are planned in int8 but do not run in it, for example 'c1'",
    ),
    "not asked": ({"status": "not-run", "reason": "--no-engine"}, "not-known", "nothing compiled it"),
    "not here": ({"status": "not-installed", "reason": "it is missing"}, "not-known", "nothing compiled it"),
}


@pytest.mark.parametrize(("engine", "answer", "said"), ENGINES.values(), ids=ENGINES)
def test_the_compiler_has_a_say(
    plain: dict[str, Any], engine: dict[str, Any], answer: str, said: str
) -> None:
    def change(report: dict[str, Any]) -> None:
        report["engine"].update(engine)
        if answer == "do-not-ship" and engine.get("status") == "failed":  # which node, is noted
            report["unsupported"] = [
                {"node": "c1", "op": "Conv", "reason": "no kernel", "advice": "replace it"}
            ]

    advice = of(plain, change)
    assert advice.answer == answer
    assert said in advice.because
    if said == "it does not compile":
        assert (advice.cause, advice.do) == ("'c1' (Conv): no kernel", "replace it")


def test_few_samples_judge(plain: dict[str, Any]) -> None:
    advice = of(plain, lambda report: report["accuracy"][0].update(samples=3))
    assert (advice.answer, advice.findings[0].code) == ("not-known", "few-judge")


def test_a_call_in_python_is_told_no_command_line(plain: dict[str, Any]) -> None:
    def call(report: dict[str, Any]) -> None:
        loud(report)
        report["asked"] = []

    advice = of(plain, call)
    assert advice.command == ""
    assert "1 layer in float" in advice.do


def test_screen_report_and_python_say_the_same(tmp_path: Path) -> None:
    save(tmp_path)
    ran = run(tmp_path, *QUANTIZE, "-o", "q.onnx")
    written = json.loads((tmp_path / "q.report.json").read_text())["advice"]
    assert written["answer"] == "not-known"
    assert ran.out.splitlines()[0] == f"Not known: {written['because']}"
    assert written["command"] in ran.out
    assert "--no-engine" not in shlex.split(written["command"])


def one_great_channel(folder: Path) -> None:
    """A channel a hundred times as great as the others, and read by weights that are as much smaller."""
    save(folder)
    model = onnx.load(folder / "net.onnx")
    for weight, place, factor in zip(
        model.graph.initializer, (np.s_[3], np.s_[:, 3]), (100, 0.01), strict=True
    ):
        values = onnx.numpy_helper.to_array(weight).copy()
        values[place] *= factor
        weight.CopyFrom(onnx.numpy_helper.from_array(values, weight.name))
    onnx.save(model, folder / "net.onnx")


def test_what_is_measured_is_named_before_what_the_user_switched_off_and_its_command_mends_it(
    tmp_path: Path,
) -> None:
    one_great_channel(tmp_path)
    ran = run(tmp_path, *QUANTIZE, "-o", "q.onnx")
    lost = json.loads((tmp_path / "q.report.json").read_text())
    assert not is_said(" ".join(ran.out.splitlines()[:3]), "repair-off")  # not measured
    assert "repair-off" in [one["code"] for one in lost["advice"]["findings"][0]["causes"]]
    run(tmp_path, *shlex.split(lost["advice"]["command"])[1:], "--force")
    mended = json.loads((tmp_path / "q.report.json").read_text())
    levels = [one["about_mean"]["worst_output_db"] for one in (lost, mended)]
    assert levels[0] < 10 < 20 < levels[1]


def test_a_goal_that_only_floats_meet_says_so_first(tmp_path: Path) -> None:
    save(tmp_path)
    ran = run(tmp_path, *QUANTIZE, "--min-sqnr", "60", "-o", "q.onnx")
    said = " ".join(ran.out.split())
    assert is_said(said, "no-int8.goal", format="int8")


def test_the_exit_code_is_the_answer(tmp_path: Path) -> None:
    """A layer whose range is a thousandth of what it holds: the output is lost, and a pipeline stops."""
    pytest.importorskip("tensorrt_rtx")
    save(tmp_path)
    (tmp_path / "onnxq.toml").write_text('[[layer]]\nop = "Conv"\namax = 1e-3\n')
    words = [word for word in QUANTIZE if word != "--no-engine"]
    ran = run(tmp_path, *words, "--force")
    assert (ran.answered, is_said(ran.out, "outputs-lost", have="y has")) == (1, True)
    assert "trtexec" not in ran.out
    assert "N 1 (assumed; to state it: --batch" in ran.out
    with (tmp_path / "onnxq.toml").open("a") as file:
        file.write("[engine]\nexit_zero = true\n")
    assert run(tmp_path, *words, "--force").answered == 0
    assert run(tmp_path, *words, "--force", "--strict").code == 2


@pytest.mark.parametrize(
    ("answer", "codes"), [("ship", (0, 0, 0)), ("not-known", (0, 1, 0)), ("do-not-ship", (1, 1, 0))]
)
def test_strict_asks_for_a_sure_answer(answer: str, codes: tuple[int, int, int]) -> None:
    outcomes = (Outcome(), Outcome(strict=True), Outcome(exit_zero=True))
    assert tuple(one.exit_code(answer) for one in outcomes) == codes
    assert all(one.exit_code(answer, missed=True) == 1 for one in outcomes)


def test_what_nobody_stated_of_the_sizes_is_said(tmp_path: Path) -> None:
    """Those of the samples are all that the engine takes."""
    save(tmp_path)
    model = onnx.load(tmp_path / "net.onnx")
    for info in (*model.graph.input, *model.graph.output):
        for axis, name in ((2, "H"), (3, "W")):
            info.type.tensor_type.shape.dim[axis].dim_param = name
    onnx.save(model, tmp_path / "net.onnx")
    ran = run(tmp_path, *QUANTIZE, "--force")
    assert (
        "H 8, W 8, as in the samples: the engine takes no others (assumed; to state it: --profile INPUT"
        in " ".join(ran.out.split())
    )
    stated = run(tmp_path, *QUANTIZE, "--force", "--profile", "x=1x3x8x8:1x3x8x8:1x3x16x16")
    assert (stated.code, "assumed; to state it: --profile" in stated.out) == (0, False), stated.err


@pytest.mark.parametrize(
    ("kept", "whole", "judged", "more"),
    [(8, 8, 8, "8 more samples"), (15, 16, 16, "17 more samples"), (4, 4, 4, "12 more samples")],
)
def test_what_few_samples_keep_is_near_and_not_shipped(
    plain: dict[str, Any], kept: int, whole: int, judged: int, more: str
) -> None:
    """Of 8 of 8 other samples may keep 68 % alone. With as many more as are asked for, it is shipped."""

    def counted(kept: float, whole: int, samples: int) -> Callable[[dict[str, Any]], object]:
        def change(report: dict[str, Any]) -> None:
            level(14.1, 10.0, 17.0)(report)
            report["accuracy"][0]["samples"] = samples
            report["calibration"]["held_out_code"] = "crossed"
            interval = Interval.of_share(kept / whole, whole)
            assert interval is not None
            figure = {
                "kind": "top1", "over": None, "kept": kept, "percent": 100 * kept / whole, "whole": whole,
                "new": 0, "interval": interval.times(100).to_dict(),
            }  # fmt: skip
            report["task"] = {"text": "classify", "figures": [figure], "reads": ["y"]}

        return change

    advice = of(plain, counted(kept, whole, judged))
    assert (advice.answer, advice.findings[0].code) == ("not-known", "few-answers")
    assert is_said(advice.because, "few-answers")
    assert is_said(advice.do, "few-samples.more/do", samples=more)
    enough = judged + int(more.split()[0])
    assert of(plain, counted(kept / whole * enough, enough, enough)).answer == "ship"
    assert of(plain, counted(kept / whole * (enough - 1), enough - 1, enough - 1)).answer == "not-known"


def test_of_64_samples_a_few_answers_may_be_lost(plain: dict[str, Any]) -> None:
    """A classifier that keeps 96 % is shipped by 64 samples in nearly all draws: 58 of them are enough."""

    def kept(count: int) -> Callable[[dict[str, Any]], object]:
        def change(report: dict[str, Any]) -> None:
            level(14.1, 10.0, 17.0)(report)
            interval = Interval.of_share(count / 64, 64)
            assert interval is not None
            figure = {
                "kind": "top1", "over": None, "kept": count, "percent": 100 * count / 64, "whole": 64,
                "new": 0, "interval": interval.times(100).to_dict(),
            }  # fmt: skip
            report["task"] = {"text": "classify", "figures": [figure], "reads": ["y"]}

        return change

    assert [of(plain, kept(count)).answer for count in (64, 61, 58)] == ["ship"] * 3
    stated = of(plain, lambda report: (kept(58)(report), report["task"].update(ship_from=85.0)))
    assert stated.answer == "not-known"


def test_a_model_in_which_nothing_is_quantized_is_not_shipped(plain: dict[str, Any]) -> None:
    """It was: 0 of 0 planned layers ran as planned."""

    def nothing(report: dict[str, Any]) -> None:
        report["plan"].update(layers=[], kept_float=[], sites=[])
        report["near_misses"] = [
            {"rule": "inline_if", "node": "branch", "reason": "--freeze flag=true states it", "limits": {}}
        ]

    advice = of(plain, nothing)
    assert (advice.answer, advice.findings[0].code) == ("do-not-ship", "no-int8")
    assert "--freeze flag=true" in advice.cause


def test_what_is_told_of_outputs_and_profiles_stands_beside_the_cause(plain: dict[str, Any]) -> None:
    """It was said in a later line alone."""

    def wide(report: dict[str, Any]) -> None:
        level(25.0, 24.0, 26.0)(report)
        size = {"name": "N", "smallest": 1, "usual": 8, "largest": 8192, "origin": "stated", "batch": True}
        report["deployment"] = {"dimensions": [size], "worth": []}

    advice = of(plain, wide)
    assert advice.answer == "not-known"
    assert is_said(advice.cause, "wide-profile", name="N", low=1, high=8192)


def test_outputs_whose_answers_are_kept_are_not_judged_by_decibels(plain: dict[str, Any]) -> None:
    """Where enough are kept, beyond chance; others that no answer is read off still are."""

    def kept(percent: float, whole: int, reads: list[str]) -> Callable[[dict[str, Any]], object]:
        def change(report: dict[str, Any]) -> None:
            level(9.0, 8.0, 10.0)(report)
            figure = {
                "kind": "detections", "over": 0.25, "kept": percent * whole / 100, "percent": percent,
                "whole": whole, "new": 0, "interval": {"low": percent - 1, "high": percent + 1},
            }  # fmt: skip
            report["task"] = {"text": "detect", "figures": [figure], "reads": reads}

        return change

    assert of(plain, kept(99.0, 300, ["y"])).answer == "ship"
    for change in (kept(99.0, 300, ["other"]), kept(90.0, 300, ["y"]), kept(100.0, 30, [])):
        assert of(plain, change).answer == "do-not-ship"


@pytest.mark.parametrize("decibels", [12.0, 25.0])
def test_a_task_that_is_likely_is_asked_for_first(plain: dict[str, Any], decibels: float) -> None:
    def likely(report: dict[str, Any]) -> None:
        level(decibels, decibels - 1, decibels + 1)(report)
        report["task"] = {
            "why": "a row may be of classes, or a vector",
            "ask": "embed:vectors=y",
            "figures": [],
        }

    advice = of(plain, likely)
    assert advice.answer == "not-known"
    assert is_said(advice.because, "task", task="embed:vectors=y")
    assert is_said(advice.do, "task.again/do")
    assert advice.command == ""  # it is a guess, which nobody tries
    assert of(plain, lambda report: (likely(report), level(31.0, 30.5, 32.0)(report))).answer == "ship"


@pytest.mark.parametrize(("seed", "helps"), [(8, True), (10, False)])
def test_whether_more_samples_help_is_measured(seed: int, helps: bool, tmp_path: Path) -> None:
    """Scales of half of the samples are measured beside those of all."""
    save(tmp_path)
    random = np.random.default_rng(seed)
    values = random.standard_normal((24, 3, 8, 8)) * np.exp(2 * random.standard_normal((24, 1, 1, 1)))
    np.savez(tmp_path / "x.npz", x=values.astype(np.float32))
    (tmp_path / "onnxq.toml").write_text('[format]\nloud = "int8"\n')
    run(tmp_path, *QUANTIZE, "-o", "q.onnx", "--method", "minmax")
    report = json.loads((tmp_path / "q.report.json").read_text())
    (note,) = [one for one in report["calibration"]["notes"] if one.startswith("more samples")]
    codes = [one["code"] for one in report["advice"]["findings"][0]["causes"]]
    assert report["advice"]["answer"] == "do-not-ship"
    assert note.startswith(MORE_HELP if helps else MORE_DO_NOT_HELP)
    assert (codes[0] == "few-samples", "few-samples" in codes) == (helps, helps)


def test_a_result_that_is_near_costs_no_such_measurement(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save(tmp_path)
    monkeypatch.setattr(comparing, "_told_of_half", lambda *_: pytest.fail("it was measured"))
    samples = np.load(tmp_path / "x.npz")["x"][:24]
    result = onnxq.quantize(tmp_path / "net.onnx", {"x": samples}, compile=False, repair="none")
    assert not [one for one in result.report.calibration.notes if one.startswith("more samples")]
