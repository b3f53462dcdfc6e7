"""The figures of the checks against plain numpy, statistics in the place of data, reports, own checks."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import onnx
import pytest
from misuse_nets import MISUSES, RIGHT, net, usual

import onnxq
from onnxq.base.errors import UserError
from onnxq.calib.histogram import HistogramCounter
from onnxq.checks import Check, Evidence, Fact, limits
from onnxq.checks.each.ranges import share_above, two_modes
from onnxq.checks.each.samples import interval
from onnxq.checks.evidence import own_scales
from onnxq.checks.finding import Finding
from onnxq.checks.load import CHECKS, checks_that_need, found_by
from onnxq.graph.model import Model
from onnxq.inspection import checking
from onnxq.run import ort, trt

pytestmark = pytest.mark.usefixtures("by_place")


def saved(folder: Path, body: str, data: dict[str, np.ndarray] | None = None) -> Path:
    onnx.save(net(body), folder / "net.onnx")
    if data is not None:
        np.savez(folder / "data.npz", **data)
    return folder / "net.onnx"


def histogram(values: np.ndarray):  # type: ignore[no-untyped-def]
    counter = HistogramCounter()
    counter.add(values.astype(np.float32))
    return counter.histogram()


# -- figures ---------------------------------------------------------------------------------------


def test_decibels_are_those_of_plain_numpy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a Concat whose inputs share a scale: the values that onnxruntime gives, rounded by hand."""
    path, data = saved(tmp_path, MISUSES["a Concat of very different ranges"].body), usual()
    samples = [{"x": x} for x in data["x"]]
    seen: list[Evidence] = []

    def watched(asked: Iterable[Check], evidence: Evidence) -> list[Finding]:
        seen.append(evidence)
        return found_by(asked, evidence)

    monkeypatch.setattr(checking, "found_by", watched)
    found = onnxq.check(path, samples, prove="never", compile=False, exact=True)
    (evidence,) = [one for one in seen if isinstance(one, Evidence)]
    (one,) = [one for one in found.findings if one.check == "concat-ranges"]
    model = onnx.load(path)
    model.graph.output.append(onnx.helper.make_tensor_value_info("ra", 1, None))
    session = ort.load(model)
    values = np.concatenate([session.run(feeds)[1].reshape(-1) for feeds in samples]).astype(np.float64)
    threshold = evidence.threshold("ra")
    assert threshold is not None
    step = threshold / 127
    rounded = np.clip(np.rint(values / step), -127, 127) * step
    db = 10 * np.log10((values**2).mean() / ((values - rounded) ** 2).mean())
    assert evidence.db("ra", threshold) == pytest.approx(
        db, abs=0.1
    )  # other samples: a quarter is kept apart
    assert f"'ra' has {evidence.db('ra', threshold):.1f} dB" in one.consequence
    assert "--keep-float cat" in one.advice


def test_the_interval_of_the_greatest_is_that_of_all_draws() -> None:
    amaxes = np.array([1.0, 2.0, 3.0, 7.0])
    drawn = np.sort([max(draw) for draw in itertools.product(amaxes, repeat=4)])
    low, high = interval(amaxes, 0.9)
    assert high == 7.0
    assert (drawn <= low).mean() >= 0.1
    below = amaxes[amaxes < low]
    assert not len(below) or (drawn <= below.max()).mean() < 0.1


def test_two_modes() -> None:
    rng = np.random.default_rng(0)
    one = rng.uniform(0.5, 1, 100_000)
    far = np.where(rng.random(len(one)) < 0.05, 40, 1) * one
    low, high, share = two_modes(histogram(far)) or (0.0, 0.0, 0.0)
    assert (low, high) == (pytest.approx(1, rel=2e-3), pytest.approx(20, rel=2e-2))
    assert share == pytest.approx((far > 10).mean(), abs=1e-4)
    for values in (one, rng.standard_normal(100_000), np.maximum(rng.standard_normal(100_000), 0),
                   rng.standard_cauchy(100_000), rng.lognormal(0, 2, 100_000),
                   np.where(one > 0.75, one, 1e-12 * one), np.zeros(10)):  # fmt: skip
        assert two_modes(histogram(values)) is None


def test_the_share_that_saturates() -> None:
    values = np.random.default_rng(0).standard_normal(50_000)
    assert share_above(histogram(values), 1.0) == pytest.approx((np.abs(values) > 1).mean(), abs=1e-3)


def test_one_scale_of_a_file_is_one_group(tmp_path: Path) -> None:
    model = Model.open(saved(tmp_path, MISUSES["one operator called twice under one scale"].body))
    (group,) = own_scales(model)
    assert (group.tensors, group.threshold, group.scale) == (("x", "t"), 4.0 * 127, "wide")


# -- where figures come from -----------------------------------------------------------------------


def test_statistics_in_the_place_of_data(tmp_path: Path) -> None:
    misuse = MISUSES["a range far over its percentile"]
    path = saved(tmp_path, misuse.body)
    samples = [{"x": x} for x in misuse.data()["x"]]
    onnxq.calibrate(path, samples, tmp_path / "x.stats.npz")
    calibration = {"stats": tmp_path / "x.stats.npz", "method": "minmax"}
    found = onnxq.check(path, calibration=calibration, prove="never", compile=False)
    assert "far-range" in {one.check for one in found.findings}
    other = saved(tmp_path, RIGHT["int8"][0])
    with pytest.raises(UserError, match="another model"):
        onnxq.check(other, calibration=calibration, prove="never", compile=False)


def test_an_int8_model_with_its_report_beside_it(tmp_path: Path) -> None:
    """Why a layer is float is what the report says; statistics are those of the float model."""
    body = """(float[1, 32, 16, 16] x) => (float[1, 32, 16, 16] y) {
        [one] a = Conv <pads = [1, 1, 1, 1]> (x, w)  b = Relu (a)
        [two] y = Conv <pads = [1, 1, 1, 1]> (b, w2) }"""
    path = saved(tmp_path, body)
    samples = [{"x": x} for x in usual()["x"]]
    made = onnxq.quantize(
        path, samples, keep_float=["two"], prove="never", repair="none", compile=False, body="fp32"
    )
    made.save(tmp_path / "net.int8.onnx")
    onnxq.calibrate(path, samples, tmp_path / "x.stats.npz")
    for given in ({"data": samples}, {"calibration": {"stats": tmp_path / "x.stats.npz"}}):
        found = onnxq.check(tmp_path / "net.int8.onnx", **given, prove="never", compile=False)
        assert found.measured is not None
        assert found.measured.pairs
        (one,) = found.findings
        assert (one.check, one.node) == ("heavy-float", "two")
        assert "--keep-float" in one.advice
        assert str(path) in one.advice


@pytest.mark.skipif(trt.installed() is None, reason="tensorrt-rtx is not installed")
def test_the_engine_says_what_is_not_fused(tmp_path: Path) -> None:
    """An output in the middle keeps the Relu out of the kernel; without an engine nobody knows."""
    body = """(float[1, 32, 16, 16] x) => (float[1, 32, 16, 16] y, float[1, 32, 16, 16] c) {
        [l] c = Conv <pads = [1, 1, 1, 1]> (x, w)  [act] y = Relu (c) }"""
    path, samples = saved(tmp_path, body), [{"x": x} for x in usual()["x"]]
    (one,) = onnxq.check(path, samples, prove="never").findings
    assert (one.check, one.node, one.confirmed) == ("unfused", "act", True)
    assert onnxq.check(path, samples, prove="never", compile=False).findings == ()
    alone = saved(tmp_path, RIGHT["float"][0])
    assert onnxq.check(alone, samples, prove="never").findings == ()


def test_what_has_no_kernel_of_bool_is_said_by_its_operator(tmp_path: Path) -> None:
    path = tmp_path / "net.onnx"
    onnx.save(onnx.parser.parse_model("""<ir_version: 9, opset_import: ["" : 20]>
        g (bool[4, 4] x) => (bool[1, 4] y) <int64[1] k = {0}> { y = ReduceMax (x, k) }"""), path)  # fmt: skip
    reasons = [one.reason for one in onnxq.check(path, compile=False).findings]
    assert reasons[0] == "tensorrt-11 has no ReduceMax of bool"


def test_a_model_that_gives_nan_is_a_finding(tmp_path: Path) -> None:
    path = saved(tmp_path, RIGHT["float"][0])
    samples = [{"x": x} for x in usual()["x"]]
    samples[3]["x"][0, 0, 0, 0] = np.nan
    found = onnxq.check(path, samples, prove="never", compile=False)
    assert "not-measured" in {one.check for one in found.findings}


# -- own checks ------------------------------------------------------------------------------------


def test_a_check_of_the_users_own(tmp_path: Path) -> None:
    path = saved(tmp_path, RIGHT["float"][0])
    own = tmp_path / "own.py"
    own.write_text(
        "def mine(evidence):\n"
        "    yield {'severity': 'error', 'reason': f'{len(list(evidence.nodes))} nodes', 'node': 'l'}\n"
        "def none(evidence): return None\n"
        "def wrong(evidence): return [{'severity': 'fatal', 'reason': 'x'}]\n"
        "def odd(evidence): return [3]\n"
        "def broken(evidence): return [1 / 0]\n"
        "def late(evidence):\n"
        "    yield {'reason': 'first'}\n"
        "    raise KeyError('second')\n"
    )

    def check(name: str) -> checking.Checks:
        return onnxq.check(path, checks=[f"{own}:{name}"], prove="never", compile=False)

    found = check("mine")
    (one,) = found.findings
    assert (one.check, one.severity, one.node, one.op) == ("own-check", "error", "l", "Conv")
    assert one.reason == "2 nodes"
    assert found.exit_code() == 1
    assert found.measured is None
    assert check("none").findings == ()
    for name, says in (
        ("wrong", "severity 'fatal'"), ("odd", "a int"), ("broken", "own.py', line 6: ZeroDivisionError: "),
        ("late", "own.py', line 9: KeyError: 'second'"),
    ):  # fmt: skip
        found = check(name)
        *before, last = sorted(found.findings, key=lambda one: one.check != "own-check")
        assert (last.check, last.severity, found.exit_code()) == ("broken-check", "error", 1)
        assert says in last.reason
        assert last.advice
        assert [one.reason for one in before] == ["first"] * (name == "late")


def test_a_broken_check_costs_no_other_finding(tmp_path: Path) -> None:
    path = saved(tmp_path, RIGHT["float"][0])
    own = tmp_path / "own.py"
    own.write_text("def broken(evidence): raise ValueError('planted')\n")
    data = [{"x": x} for x in usual(5)["x"]]
    found = onnxq.check(path, data, checks=[f"{own}:broken"], prove="never", compile=False)
    assert [one.check for one in found.findings] == ["broken-check", "few-samples"]


def test_without_data_nothing_is_measured(tmp_path: Path) -> None:
    path = saved(tmp_path, MISUSES["one operator called twice under one scale"].body)
    found = onnxq.check(path, prove="never", compile=False)
    assert found.measured is None
    assert not {one.check for one in found.findings} & {check.name for check in checks_that_need("data")}


# -- the registry ----------------------------------------------------------------------------------


def test_every_check_has_a_misuse_and_a_line() -> None:
    of_data = {name for name, check in CHECKS.items() if check.kind == "data"}
    provoked = {misuse.check for misuse in MISUSES.values()}
    spoken = {"heavy-ineligible", "not-measured", "failed-check", "doubtful-data"}
    assert of_data == provoked | spoken
    assert {check.name for check in CHECKS.values() if check.is_cause} < of_data


def test_a_fault_in_a_check_costs_no_other(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def fails(evidence: Evidence) -> list[Fact]:
        raise ZeroDivisionError("planted")

    planted = dataclasses.replace(CHECKS["far-range"], function=fails)
    monkeypatch.setitem(CHECKS, "far-range", planted)  # type: ignore[misc]
    path = saved(tmp_path, RIGHT["float"][0])
    found = onnxq.check(path, [{"x": x} for x in usual(5)["x"]], prove="never", compile=False)
    assert {one.check for one in found.findings} == {"failed-check", "few-samples"}


def test_limits_are_what_they_say() -> None:
    gauss = np.random.default_rng(0).standard_normal(400_000)
    step = 6 / 127
    noise = ((gauss - np.rint(gauss / step) * step) ** 2).mean()
    assert 10 * np.log10((gauss**2).mean() / noise) == pytest.approx(37, abs=0.5)
    assert 10 ** (-limits.POOR_DB / 20) > 0.05
    assert pytest.approx(0.03, abs=0.002) == 10 ** (-limits.OUTPUT_DB / 20)
