"""`onnxq quantize --budget`: tries what the advice would try, and leaves the best."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.parser
import pytest
from command import run, weighted
from said import is_said

import onnxq
from onnxq.cli.app import app

# The second layer's weights have one huge channel: in int8 it is most of the noise of y.
NET = """<ir_version: 8, opset_import: ["" : 17]>
    net (float[N, 16, 12, 12] x) => (float[N, 16, 12, 12] y) {
        [c1] a = Conv <pads = [1, 1, 1, 1]> (x, w1)  [r1] b = Relu (a)
        [c2] y = Conv <pads = [1, 1, 1, 1]> (b, w2) }"""
FLAGS = ("--calib", "x.npz", "--repair", "none", "--no-engine", "--body", "fp32")


@pytest.fixture
def here(tmp_path: Path) -> Path:
    """A folder with a net whose settings lose layer c1, and 64 samples."""
    random, shape = np.random.default_rng(1), (16, 16, 3, 3)
    onnx.save(weighted(NET, w1=shape, w2=shape), tmp_path / "net.onnx")
    np.savez(tmp_path / "x.npz", x=random.standard_normal((64, 16, 12, 12)).astype(np.float32))
    (tmp_path / "onnxq.toml").write_text('[[layer]]\nmatch = "c1"\namax = 1e-3\n')
    return tmp_path


def test_it_tries_and_keeps_the_best(here: Path) -> None:
    ran = run(here, "quantize", "net.onnx", *FLAGS, "--budget", "6", "-o", "q.onnx", "--json")
    found = ran.json()
    attempts = found["attempts"]
    assert 2 <= len(attempts) <= 6
    levels = [one["figure"] for one in attempts]
    assert attempts[0]["answer"]["answer"] == "do-not-ship"
    assert levels[found["best"]] == max(levels) > levels[0] + 20
    report = json.loads((here / "q.report.json").read_text())
    assert report["about_mean"]["worst_output_db"] == levels[found["best"]]
    before = (here / "q.onnx").read_bytes()
    again = shlex.split(attempts[found["best"]]["command"])
    assert again[:2] == ["onnxq", "quantize"]
    assert run(here, *again[1:], "--force").code == 0
    assert (here / "q.onnx").read_bytes() == before


def test_the_budget_is_kept(here: Path) -> None:
    ran = run(here, "quantize", "net.onnx", *FLAGS, "--budget", "1")
    assert ran.answered == 1
    assert "Tried      1 run" in ran.out
    assert is_said(ran.out, "ended.budget")
    refused = run(here, "quantize", "net.onnx", *FLAGS, "--budget", "soon")
    assert refused.code == 2
    assert "--budget 'soon'" in refused.err


def test_what_is_fed_is_told_and_not_tried(here: Path) -> None:
    """All samples are one: the same doubt whatever is tried, and nothing of it is."""
    one = np.random.default_rng(3).standard_normal((1, 16, 12, 12)).astype(np.float32)
    np.savez(here / "x.npz", x=np.repeat(one, 64, 0))
    found = run(here, "quantize", "net.onnx", *FLAGS, "--budget", "6", "--json").json()
    assert any("samples are equal" in one["why"] for one in found["untried"])


def test_a_later_run_that_fails_costs_nothing(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A fault of ours: the first one stands, and what happened is said."""
    monkeypatch.chdir(here)
    made, runs = onnxq.quantize, []

    def quantize(*arguments: Any, **named: Any) -> Any:
        runs.append(named)
        if len(runs) > 1:
            raise RuntimeError("no luck")
        return made(*arguments, **named)

    monkeypatch.setattr(onnxq, "quantize", quantize)
    code = app(
        ["quantize", "net.onnx", *FLAGS, "--budget", "6", "-o", "q.onnx"],
        prog_name="onnxq",
        standalone_mode=False,
    )
    assert (code, len(runs) > 1) == (1, True)
    assert "RuntimeError: no luck" in " ".join(capsys.readouterr().out.split())
    assert (here / "q.onnx").exists()


def test_what_quantize_refuses_is_refused(here: Path) -> None:
    for flags, said in (((), "no data is given"), ((*FLAGS, "--samples", "0"), "0 calibration samples")):
        ran = run(here, "quantize", "net.onnx", *flags, "--budget", "6")
        assert ran.code == 2
        assert ran.err.startswith("error: ")
        assert said in ran.err
        assert not (here / "net.int8.onnx").exists()
