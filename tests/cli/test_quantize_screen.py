"""What `quantize` says of flags that exclude each other, of doubtful results, and of `onnxq.toml`."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.parser
import pytest
from command import OF_TWO_LAYERS, TWO_LAYERS, Ran, made, run, weighted
from PIL import Image
from said import is_said

from onnxq.advice.advise import advise
from onnxq.analysis.reports import OpenedReport
from onnxq.base.typed import typed
from onnxq.cli.app import app
from onnxq.cli.pages.accuracy import about_mean_line, closeness, intervals_line
from onnxq.cli.pages.end import end_screen
from onnxq.cli.pages.repair import outcome
from onnxq.cli.screen import Page
from onnxq.documents.repair import RepairStep
from onnxq.documents.report import Report
from onnxq.judge.about_mean import AboutMeanGroups
from onnxq.page.sections import next_steps
from onnxq.run.compare import OutputComparison


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The test's folder with `net.onnx` and 64 samples for it, `data.npz`."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "300")
    save(TWO_LAYERS)
    np.savez("data.npz", x=np.random.default_rng(1).standard_normal((64, 3, 8, 8), np.float32))
    return tmp_path


def save(text: str) -> None:
    onnx.save(weighted(text, **OF_TWO_LAYERS), "net.onnx")


@pytest.fixture
def onnxq(capsys: pytest.CaptureFixture[str]) -> Callable[..., Ran]:
    """Runs `onnxq ARGUMENTS` in this process; lines are joined by single spaces."""

    def run(*arguments: object, long: bool = True) -> Ran:
        capsys.readouterr()
        arguments = (*arguments, *["-v"] * (long and "quantize" in arguments))
        code = app([str(argument) for argument in arguments], prog_name="onnxq", standalone_mode=False) or 0
        out, err = (" ".join(text.split()) for text in capsys.readouterr())
        return Ran(made(arguments, code, out), out, err)

    return run


FAST = ("--no-engine", "--force")
QUANTIZE = ("quantize", "net.onnx", *FAST, "--repair", "none", "--calib", "data.npz")
STATS = ("quantize", "net.onnx", *FAST, "--repair", "none", "--stats", "net.stats.npz")

CONTRADICTIONS: dict[str, tuple[tuple[Any, ...], tuple[str, str]]] = {
    "stats-samples": ((*STATS, "--samples", 5), ("--stats", "--samples")),
    "stats-data-samples": ((*STATS, "--calib", "data.npz", "--samples", 5), ("--stats", "--samples")),
    "stats-preset": ((*STATS, "--preset", "yolo"), ("--stats", "--preset")),
    "stats-mean": ((*STATS, "--mean", "0.5"), ("--stats", "--mean")),
    "stats-skip-bad": ((*STATS, "--skip-bad"), ("--stats", "--skip-bad")),
}  # fmt: skip


@pytest.mark.parametrize(("arguments", "flags"), CONTRADICTIONS.values(), ids=CONTRADICTIONS)
def test_flags_that_exclude_each_other(
    here: Path, onnxq, arguments: tuple[Any, ...], flags: tuple[str, str]
) -> None:
    ran = onnxq(*arguments, long=False)
    assert (ran.code, ran.out) == (2, "")
    orders = [f"error: {one} and {other} exclude each other: " for one, other in (flags, flags[::-1])]
    assert ran.err.startswith(tuple(orders))
    assert "hint: leave one" in ran.err


@pytest.mark.parametrize(
    ("named", "parameter", "method"),
    [
        ('method = "percentile"', "percentile = 99", "percentile 99"),
        ('method = "average"', "constant = 0.1", "average 0.1"),
    ],
)
def test_what_goes_together(here: Path, onnxq, named: str, parameter: str, method: str) -> None:
    Path("onnxq.toml").write_text(f"[calibration]\n{named}\n{parameter}\n")
    ran = onnxq(*QUANTIZE)
    assert ran.code == 0, ran.err
    assert f"(0 shared), {method}" in ran.out


@pytest.mark.parametrize(
    "said",
    ['method = "mse"\npercentile = 99', 'method = "mse"\nconstant = 0.1', 'method = "auto"\npercentile = 9',
     "percentile = 99\nconstant = 0.1"],
)  # fmt: skip
def test_a_parameter_of_another_method_is_excluded(here: Path, onnxq, said: str) -> None:
    Path("onnxq.toml").write_text(f"[calibration]\n{said}\n")
    ran = onnxq(*QUANTIZE, long=False)
    assert (ran.code, ran.out, "each other: in 'onnxq.toml' " in ran.err) == (2, "", True)


@pytest.mark.parametrize("said", ["", 'method = "percentile"\n', 'method = "auto"\n'])
def test_a_search_of_the_file(here: Path, onnxq, said: str) -> None:
    Path("onnxq.toml").write_text(f"[calibration]\nsearch = true\n{said}")
    ran = onnxq(*QUANTIZE)
    assert ran.code == 0, ran.err
    assert "search: percentile" in ran.out


@pytest.mark.parametrize("said", ['method = "average"', "percentile = 99", "constant = 0.1"])
def test_a_search_of_the_file_excludes(here: Path, onnxq, said: str) -> None:
    Path("onnxq.toml").write_text(f"[calibration]\nsearch = true\n{said}\n")
    ran = onnxq(*QUANTIZE, long=False)
    assert (ran.code, "each other: in 'onnxq.toml' " in ran.err) == (2, True), ran.err


def test_what_the_file_says_contradicts_no_flag(here: Path, onnxq) -> None:
    Path("onnxq.toml").write_text("[calibration]\npercentile = 99\nexact = true\nsamples = 40\nseed = 1\n")
    ran = onnxq(*QUANTIZE, "--method", "mse")
    assert ran.code == 0, ran.err
    assert onnxq("calibrate", "net.onnx", "--calib", "data.npz").code == 0
    ran = onnxq(*STATS)
    assert ran.code == 0, ran.err
    assert "Settings onnxq.toml" in ran.out


def test_a_cache_leaves_flags_to_the_data(here: Path, onnxq) -> None:
    """It may lack scales, which are measured then."""
    assert onnxq(*QUANTIZE, "--target", "tensorrt-7", "-o", "seven.onnx").code == 0
    stats = ("quantize", "net.onnx", *FAST, "--stats", "seven.cache")
    assert onnxq(*stats, "--calib", "data.npz", "--samples", 40).code == 0
    ran = onnxq(*stats, "--samples", 40)
    assert (ran.code, "--stats and --samples exclude" in ran.err) == (2, True)


LOST = "y has little to do with the float model's: look at the data"


def test_a_destroyed_model(here: Path, onnxq) -> None:
    Path("onnxq.toml").write_text('[[layer]]\nop = "Conv"\namax = 1e-3\n')
    ran = onnxq(*QUANTIZE)
    assert ran.code == 0
    assert LOST in ran.out
    for advice in ("onnxq data", "--method", "--keep-float"):
        assert advice in ran.out[ran.out.index(LOST) :]
    Path("onnxq.toml").unlink()
    assert "little to do" not in onnxq(*QUANTIZE).out


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """The folder of a run, and its report."""
    folder = tmp_path_factory.mktemp("plain")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        save(TWO_LAYERS)
        np.savez("data.npz", x=np.random.default_rng(1).standard_normal((64, 3, 8, 8), np.float32))
        found: dict[str, Any] = run(folder, *QUANTIZE, "--json").json()
    return folder, found


def screen_of(report: dict[str, Any]) -> Page:
    return end_screen(typed(Report, report))


@pytest.mark.parametrize(
    ("measured", "lost"),
    [
        ({"sqnr_db": 10.0, "cosine": 0.9}, False), ({"sqnr_db": 9.9, "cosine": 0.95}, True),
        ({"sqnr_db": 12.0, "cosine": 0.89}, True), ({"sqnr_db": "-inf", "cosine": None}, True),
        ({"sqnr_db": "inf", "cosine": 1.0}, False), ({"sqnr_db": None, "cosine": None}, False),
        ({"sqnr_db": 3.0, "cosine": 0.8, "max_abs": 0.045, "span": 1.0}, False),
        ({"sqnr_db": 3.0, "cosine": 0.8, "max_abs": 0.15, "span": 1.0}, True),
        ({"sqnr_db": 3.0, "cosine": 0.8, "max_abs": 0.045, "span": 0.002}, True),
        ({"sqnr_db": 3.0, "cosine": 0.8, "max_abs": 0.045, "span": None}, True),
        ({"sqnr_db": "-inf", "cosine": None, "max_abs": "inf", "nonfinite": 3, "span": 1.0}, True),
    ],
)  # fmt: skip
def test_which_outputs_are_destroyed(
    plain: tuple[Path, dict[str, Any]], monkeypatch: pytest.MonkeyPatch, measured: dict[str, Any], lost: bool
) -> None:
    monkeypatch.chdir(plain[0])
    report = dict(plain[1])
    report["accuracy"] = [report["accuracy"][0] | measured, report["accuracy"][0] | {"output": "z"}]
    said = [line for line in screen_of(report).lines if "little to do with" in line.text]
    if measured.get("nonfinite"):
        assert is_said(screen_of(report).lines[0].text, "nonfinite")
        said = said[1:] if len(said) > 1 else [screen_of(report).lines[0], *said]
        said[0] = replace(said[0], text="Do not ship it: y has ")
    assert [line.text.removeprefix("Do not ship it: ")[:6] for line in said] == ["y has ", "y has "] * lost
    assert [line.style for line in said] == ["bold red", "yellow"] * lost


def kept(kind: str, count: int, whole: int, high: float) -> dict[str, Any]:
    """What a report says of a task whose answers are kept so often."""
    figure = {
        "kind": kind, "over": 0.25 if kind == "detections" else None, "kept": count, "whole": whole,
        "percent": 100 * count / whole if whole else None, "interval": {"low": 1.0, "high": high}, "new": 0,
    }  # fmt: skip
    return {"layout": "classify", "stated": True, "why": "", "figures": [figure], "labels": None}


@pytest.mark.parametrize(
    ("figure", "told"),
    [
        (("detections", 97, 100, 99.0), ""), (("detections", 96, 100, 99.0), "alarm"),
        (("detections", 29, 30, 99.0), "entry"), (("detections", 29, 30, 96.9), "alarm"),
        (("top1", 90, 100, 95.0), ""), (("top1", 89, 100, 95.0), "alarm"), (("tokens", 0, 0, 9.0), ""),
    ],
)  # fmt: skip
def test_too_few_answers_are_told_with_what_mends_it(
    plain: tuple[Path, dict[str, Any]],
    monkeypatch: pytest.MonkeyPatch,
    figure: tuple[str, int, int, float],
    told: str,
) -> None:
    monkeypatch.chdir(plain[0])
    report = plain[1] | {"task": kept(*figure)}
    advice = advise(typed(Report, report))
    (found,) = [one for one in advice.findings if one.code == "answers"] or [None]
    assert (found is not None) == bool(told)
    if found is None:
        return
    assert found.weight == {"alarm": "bad", "entry": "open"}[told]
    lines = screen_of(report).lines
    if told == "alarm":
        assert "enough would be" in lines[0].text
        assert lines[0].style == "bold red"
    least = "97" if figure[0] == "detections" else "90"
    (command,) = [one.command for one in found.causes if "--min-agreement" in one.command]
    assert command.startswith("onnxq quantize net.onnx ")
    assert command.endswith(f"--min-agreement {least}")
    steps = next_steps(OpenedReport.made(typed(Report, report)), advice, analysed=False)
    assert command in [one.command for one in steps]


def test_a_run_with_a_goal_of_its_own_is_not_told_another(
    plain: tuple[Path, dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(plain[0])
    report = plain[1] | {"task": kept("top1", 60, 100, 70.0)}
    report["asked"] = [*report["asked"], ["--min-agreement", "95"]]
    text = "\n".join(line.text for line in screen_of(report).lines)
    assert "enough would be 90 %" in text
    assert "--min-agreement 90" not in text


@pytest.mark.parametrize(
    ("top1", "about", "named"),
    [(0.6, 0.0, None), (0.6, -4.1, "SQNR about the mean -4.1 dB"), (0.49, 12.0, "the same argmax in 49.0 %")],
)
def test_an_output_is_destroyed_though_its_sqnr_is_high(
    plain: tuple[Path, dict[str, Any]],
    monkeypatch: pytest.MonkeyPatch,
    top1: float,
    about: float,
    named: str | None,
) -> None:
    """Most of it is what samples have in common."""
    monkeypatch.chdir(plain[0])
    report = dict(plain[1])
    report["accuracy"] = [report["accuracy"][0] | {"sqnr_db": 30.2, "top1": top1}]
    levels = [{"output": "y", "sqnr_about_mean_db": about}]
    report["about_mean"] = report["about_mean"] | {"sqnr_about_mean_db": about, "outputs": levels}
    said = [line.text for line in screen_of(report).lines if "little to do with" in line.text]
    assert [line.removeprefix("Do not ship it: ").partition(": ")[0] for line in said] == (
        [f"y has little to do with the float model's ({named})"] * 2 if named else []
    )


@pytest.mark.parametrize(
    ("kind", "level", "told"),
    [("fp16", 44.9, True), ("fp16", 45.0, False), ("fp16", None, False), ("bf16", 30.0, False)],
)
def test_a_model_that_magnifies_what_is_rounded(
    plain: tuple[Path, dict[str, Any]],
    monkeypatch: pytest.MonkeyPatch,
    kind: str,
    level: float | None,
    told: bool,
) -> None:
    monkeypatch.chdir(plain[0])
    entry = plain[1]["accuracy"][0]
    output = {"output": entry["output"], "int8_db": 5.0, "body_db": level, "together_db": 5.0}
    for sqnr in (5.0, 30.0):
        report = plain[1] | {
            "accuracy": [entry | {"sqnr_db": sqnr, "cosine": 0.95}],
            "body": plain[1]["body"] | {"type": kind, "outputs": [output]},
        }
        text = "\n".join(line.text for line in screen_of(report).lines)
        assert (is_said(text, "half-alone")) == (told and sqnr == 5.0)


PROBABILITY = """<ir_version: 8, opset_import: ["" : 17]>
    net (float[N, 3, 8, 8] x) => (float[N, 1] y) {
        [c1] a = Conv <pads = [1, 1, 1, 1]> (x, w1)  [r1] b = Relu (a)
        [c2] c = Conv <pads = [1, 1, 1, 1]> (b, w2)
        [mean] d = ReduceMean <axes = [1, 2, 3], keepdims = 0> (c)
        [far] e = Sub (d, six)  [sure] f = Sigmoid (e)  [shape] y = Reshape (f, to) }"""


def test_a_small_error_of_a_probability_is_no_loss(here: Path, onnxq) -> None:
    """It is 0.002 on all samples, and a few thousandths off: far from nothing only against itself."""
    save(PROBABILITY)
    model = onnx.load("net.onnx")
    for name, values in (("six", np.float32(6)), ("to", np.array([-1, 1]))):
        model.graph.initializer.append(onnx.numpy_helper.from_array(np.asarray(values), name))
    onnx.save(model, "net.onnx")
    Path("onnxq.toml").write_text('[[layer]]\nop = "Conv"\namax = 1e-3\n')
    ran = onnxq(*QUANTIZE, "--json")
    (entry,) = ran.json()["accuracy"]
    assert entry["span"] == 1.0
    assert entry["sqnr_db"] < 10
    assert entry["max_abs"] < 0.1
    assert "little to do" not in ran.err


def test_nothing_is_quantized(here: Path, onnxq) -> None:
    ran = onnxq(*QUANTIZE, "--keep-float", "c*", "--samples", 8)
    assert "0 of 2 eligible layers" in ran.out
    assert is_said(ran.out, "no-int8")
    assert "Scales" not in ran.out
    assert "100 or more" not in ran.out
    assert not {"QuantizeLinear"} & {node.op_type for node in onnx.load("net.int8.onnx").graph.node}
    assert "nothing is quantized" not in onnxq(*QUANTIZE, "--keep-float", "c1").out


@pytest.mark.parametrize(
    ("shape", "was", "now"), [((1, 3, 8, 8), "(x, w1)", "(v, w1)"), ((1, 16, 8, 8), "(b, w2)", "(v, w2)")]
)
def test_sizes_that_only_a_run_tells(here: Path, onnxq, shape: tuple[int, ...], was: str, now: str) -> None:
    first = was[1]
    text = TWO_LAYERS.replace("] x)", "] x, int64[4] s)").replace(was, now)
    save(text.replace("[c1]" if first == "x" else "[c2]", f"v = Reshape ({first}, s) [c]"))
    x = np.load("data.npz")["x"]
    np.savez("data.npz", x=x, s=np.array(shape))
    ran = onnxq(*QUANTIZE)
    assert ran.code == 0, ran.err
    assert "2 of 2 eligible layers, 100.0 %" in ran.out
    assert "unknown size" not in ran.out


class TestMethod:
    """The line of the scales names the method that found them."""

    def method(self, ran: Ran) -> str:
        assert ran.code == 0, ran.err
        return ran.out.split("shared), ")[1].split(" over ")[0]

    def test_each_tensor_is_stated(self, here: Path, onnxq) -> None:
        Path("onnxq.toml").write_text('[[layer]]\nop = "Conv"\nmethod = "minmax"\nbecause = "so"\n')
        assert self.method(onnxq(*QUANTIZE)) == "minmax, [[layer]] 1: so"

    def test_in_different_ways(self, here: Path, onnxq) -> None:
        save(TWO_LAYERS.replace("Relu", "Sigmoid"))
        Path("onnxq.toml").write_text('[[layer]]\nmatch = "c1"\namax = 4.0\n')
        ran = onnxq(*QUANTIZE)
        assert self.method(ran) == "stated or fixed"
        assert is_said(ran.out, "fixed", op="Sigmoid")
        assert "output SQNR" not in ran.out

    def test_one_tensor_is_left(self, here: Path, onnxq) -> None:
        Path("onnxq.toml").write_text('[[layer]]\nmatch = "c1"\namax = 4.0\n')
        assert self.method(onnxq(*QUANTIZE, "--method", "entropy")) == "entropy"


@pytest.mark.parametrize(
    ("flags", "few"),
    [(("--samples", 15), "15 samples"), (("--samples", 1, "--method", "minmax"), "1 sample")],
)
def test_few_samples(here: Path, onnxq, flags: tuple[Any, ...], few: str) -> None:
    """Those that choose are among them as long as there are no more with them than are asked for."""
    assert is_said(onnxq(*QUANTIZE, *flags).out, "few-samples.calibrated", samples=few)
    assert "more are usual" not in onnxq(*QUANTIZE, "--samples", 32).out


def test_few_samples_of_a_batch(here: Path, onnxq) -> None:
    save(TWO_LAYERS.replace("N,", "4,"))
    ran = onnxq(*QUANTIZE)  # 14 batches calibrate, of which 4 choose
    assert "over 14 samples" in ran.out
    assert "more are usual" not in ran.out


@pytest.mark.parametrize(("value", "says"), [(0, "is zero in every sample"), (0.5, "is 0.5 everywhere, in")])
def test_constant_data(here: Path, onnxq, value: float, says: str) -> None:
    np.savez("data.npz", x=np.full((64, 3, 8, 8), value, np.float32))
    assert f"tensor 'x' {says}" in onnxq(*QUANTIZE).out


class TestConfig:
    def test_check_and_sanitize_take_the_target(self, here: Path, onnxq) -> None:
        Path("onnxq.toml").write_text('target = "tensorrt-8.6"\n')
        Path("mine.toml").write_text('target = "tensorrt-10"\n')
        check, sanitize = ("check", "net.onnx"), ("sanitize", "net.onnx", "--prove", "never")
        assert "net.onnx (tensorrt-8.6): 0 findings Settings onnxq.toml" in onnxq(*check).out
        assert (
            "net.onnx (tensorrt-10): 0 findings Settings mine" in onnxq(*check, "--config", "mine.toml").out
        )
        assert "(tensorrt-7)" in onnxq(*check, "--target", "tensorrt-7").out
        assert "Target tensorrt-8.6," in onnxq(*sanitize).out
        assert "s Settings onnxq.toml" in onnxq(*sanitize).out
        told = json.loads(Path("net.clean.report.json").read_text())
        assert (told["target"], told["config"]) == ("tensorrt-8.6", "onnxq.toml")
        Path("onnxq.toml").unlink()
        assert "net.onnx (tensorrt-11): 0 findings Sanitize" in onnxq(*check).out

    def test_data_takes_its_data(self, here: Path, onnxq) -> None:
        (here / "images").mkdir()
        for name in ("a", "b"):
            Image.fromarray(np.zeros((8, 8, 3), np.uint8)).save(f"images/{name}.png")
        Path("onnxq.toml").write_text('[calibration]\ndata = "images"\npreset = "tensorflow"\n')
        ran = onnxq("data", "net.onnx")
        assert ": 2 samples read Settings onnxq.toml" in ran.out
        assert "(preset tensorflow)" in ran.out
        assert "(preset raw)" in onnxq("data", "net.onnx", "--preset", "raw", "--force").out
        assert "net.onnx on data.npz" not in ran.out
        ran = onnxq("data", "net.onnx", "--calib", "data.npz")
        assert (ran.code, "preset: for images" in ran.err, "onnxq.toml" in ran.err) == (2, True, True)

    @pytest.mark.parametrize("make", [Path.mkdir, lambda path: path.symlink_to("nowhere")])
    def test_what_cannot_be_read(self, here: Path, onnxq, make: Callable[[Path], Any]) -> None:
        make(Path("onnxq.toml"))
        for verb in ("quantize", "check", "sanitize", "data"):
            ran = onnxq(verb, "net.onnx")
            assert (ran.code, "error: cannot read 'onnxq.toml': " in ran.err) == (2, True)


SEVERAL = """<ir_version: 8, opset_import: ["" : 17]>
    net (float[N, 3, 8, 8] x) => (float[N, 3, 8, 8] same, float[N, 16, 8, 8] near, float[N, 16, 8, 8] y,
                                  float[N, 1, 8, 8] sums, int64[N, 1, 8, 8] top) {
        [s] same = Abs (x)
        [c1] a = Conv <pads = [1, 1, 1, 1]> (x, w1)  [r1] near = Relu (a)
        [c2] y = Conv <pads = [1, 1, 1, 1]> (near, w2)  [soft] p = Softmax <axis = 1> (y)
        [sum] sums = ReduceSum (p, axes)  [arg] top = ArgMax <axis = 1> (y) }"""


def test_the_figure_of_auto_is_that_of_the_outputs_that_vary(here: Path, onnxq) -> None:
    save(SEVERAL)
    model = onnx.load("net.onnx")
    model.graph.initializer.append(onnx.numpy_helper.from_array(np.array([1], np.int64), "axes"))
    onnx.save(model, "net.onnx")
    ran = onnxq(*QUANTIZE, "--body", "fp32", "-v")
    assert ran.code == 0, ran.err
    report = json.loads(Path("net.int8.report.json").read_text())
    choice = report["calibration"]["choice"]
    names, levels = zip(*(entry.values() for entry in choice["outputs"]), strict=True)
    assert names == ("y", "near", "same")  # the worst first
    assert 20 < levels[0] < levels[1] < 50
    assert levels[2] == 200  # quantization does not change it
    ratios = [10 ** (-level / 10) for level in levels]
    assert choice["sqnr_db"] == pytest.approx(-10 * np.log10(np.mean(ratios)), abs=1e-6)
    assert choice["sqnr_db"] == choice["trials"][0]["sqnr_db"]
    assert [entry["output"] for entry in choice["left_out"]] == ["sums", "top"]
    assert (
        f"kept apart, the mean of 3 outputs, dB: {choice['trials'][0]['method']} {choice['sqnr_db']:.1f}"
        in (ran.out)
    )
    assert is_said(ran.out, "scales-from.outputs", levels=f"y {levels[0]:.1f}, near {levels[1]:.1f}")
    assert "not counted (it does not vary from sample to sample): sums" in ran.out
    places = [ran.out.index(text, ran.out.index("Accuracy")) for text in ("top: ", "y: SQNR", "near: SQNR")]
    assert places == sorted(places)
    assert ran.out.index("same: equal") > places[-1]


def test_where_quantization_changes_no_output_the_prior_is_taken(here: Path, onnxq) -> None:
    outputs = "float[N, 3, 8, 8] same, int64[N, 1, 8, 8] top"
    save(f"{SEVERAL.split(' => ')[0]} => ({outputs}) {SEVERAL[SEVERAL.index('{') :]}")
    model = onnx.load("net.onnx")
    model.graph.initializer.append(onnx.numpy_helper.from_array(np.array([1], np.int64), "axes"))
    onnx.save(model, "net.onnx")
    ran = onnxq(*QUANTIZE)
    assert ran.code == 0, ran.err
    assert is_said(ran.out, "unchanged-outputs")


def test_it_says_which_outputs_are_not_compared_and_why(here: Path, onnxq) -> None:
    save(f"{SEVERAL.split(' => ')[0]} => (int64[N, 1, 8, 8] top) {SEVERAL[SEVERAL.index('{') :]}")
    model = onnx.load("net.onnx")
    model.graph.initializer.append(onnx.numpy_helper.from_array(np.array([1], np.int64), "axes"))
    onnx.save(model, "net.onnx")
    ran = onnxq("quantize", "net.onnx", *FAST, "--repair", "bias", "--calib", "data.npz", "-v")
    assert ran.code == 0, ran.err
    why = (
        "no output could be compared ('top': its values are not all finite floats, or its shape differs "
        "between the models)"
    )
    assert f"Repair not tried: {why}; in the end fitted on" in ran.out
    assert f"SQNR about the mean: not measured: {why}" in ran.out
    assert ran.out.count(why) == 3  # of the scales, of repair, and in the end


def test_a_step_that_more_samples_kept_says_so() -> None:
    why = "the loss of 0.96 dB may be chance; and so on"
    step = RepairStep("biases", "kept", why, 35.01, 34.05, None, {"biases": 6}, 160.0, 0, ())
    said = outcome(step)
    assert "0.96 dB may be chance" in said
    assert outcome(replace(step, after_db=36.0)).endswith("160 runs: 6 biases")


@pytest.mark.parametrize(
    ("samples", "said"), [(1, "one sample tells no interval"), (3, "3 samples tell no interval")]
)
def test_few_samples_tell_no_interval(samples: int, said: str) -> None:
    """The screen says so, and has no brackets."""
    meter, comparison = AboutMeanGroups(["y"]), OutputComparison("y")
    for place in range(samples):
        exact = np.arange(4.0).reshape(1, 4) + place
        meter.add([exact], [[exact + 0.1 * place + 0.01]])
        comparison.add(exact, exact + 0.1 * place + 0.01)
    assert intervals_line(samples) == said
    assert re.search(r"[(]\S+ to", about_mean_line(meter.result()) + closeness(comparison.result())) is None
    assert "95 %" in intervals_line(4)
