"""What `quantize` and `calibrate` say of doubtful data, of the samples that they read anyway."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.parser
import pytest
from command import Ran, made
from PIL import Image
from said import is_said

import onnxq as package
from onnxq.cli.app import app
from onnxq.data import glance
from onnxq.data.survey import Survey

NET = """<ir_version: 8, opset_import: ["" : 17]>
    net (float[N, 3, 16, 16] x) => (float[N, 16, 16, 16] y) {
        [c] a = Conv <pads = [1, 1, 1, 1]> (x, w)  [e] y = Elu (a) }"""
FAST = ("--no-engine", "--force")


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The test's folder with `net.onnx`, 64 images, and the same as arrays from 0 to 1."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "300")
    model, random = onnx.parser.parse_model(NET), np.random.default_rng(0)
    weights = random.standard_normal((16, 3, 3, 3)).astype(np.float32)
    model.graph.initializer.append(onnx.numpy_helper.from_array(weights, "w"))
    onnx.save(model, "net.onnx")
    pixels = random.integers(0, 256, (64, 16, 16, 3), np.uint8)
    Path("images").mkdir()
    for index, image in enumerate(pixels):
        Image.fromarray(image).save(f"images/{index:02}.png")
    np.savez("good.npz", x=(pixels / 255).transpose(0, 3, 1, 2).astype(np.float32))
    np.savez("bytes.npz", x=pixels.transpose(0, 3, 1, 2).astype(np.float32))
    np.savez("alike.npz", x=np.repeat(pixels[:1] / 255, 64, 0).transpose(0, 3, 1, 2).astype(np.float32))
    return tmp_path


@pytest.fixture
def onnxq(capsys: pytest.CaptureFixture[str]) -> Callable[..., Ran]:
    """Runs `onnxq ARGUMENTS` in this process; lines are joined by single spaces."""

    def run(*arguments: object) -> Ran:
        capsys.readouterr()
        code = app([str(argument) for argument in arguments], prog_name="onnxq", standalone_mode=False) or 0
        out, err = (" ".join(text.split()) for text in capsys.readouterr())
        return Ran(made(arguments, code, out), out, err)

    return run


def quantized(onnxq, *flags: object) -> tuple[Ran, dict[str, Any]]:
    ran = onnxq("quantize", "net.onnx", *FAST, *flags, "-v")
    assert ran.code == 0, ran.err
    return ran, json.loads(Path("net.int8.report.json").read_text())["calibration"]["data"]


CASES = {
    "units": (
        ("images", "--mean", 127, "--std", 128),
        "units",
        "a mean of pixels from 0 to 255 goes with --scale 1",
    ),
    "unnormalized": (("bytes.npz",), "unnormalized", "whole numbers from 0 to 255: unnormalized?"),
    "alike": (("alike.npz",), "alike", "all 16 samples are equal: they calibrate as one does"),
}


@pytest.mark.parametrize(("flags", "kind", "text"), CASES.values(), ids=CASES)
def test_doubts_stand_on_the_end_screens_and_in_the_report(
    here: Path, onnxq, flags: tuple[Any, ...], kind: str, text: str
) -> None:
    ran, data = quantized(onnxq, "--calib", *flags)
    assert [doubt["kind"] for doubt in data["doubts"]] == [kind]
    assert data["looked_at"] == 16
    assert f"Warnings {data['doubts'][0]['text']} {data['doubts'][0]['hint']}" in ran.out
    assert text in ran.out
    assert is_said(ran.out, "looked-at", some="16 samples")
    taken = onnxq("calibrate", "net.onnx", "--calib", *flags)
    assert text in taken.out
    told = onnxq("calibrate", "net.onnx", "--calib", *flags, "--json").json()
    assert ([doubt["kind"] for doubt in told["doubts"]], told["looked_at"]) == ([kind], 16)


def test_the_printed_command_mends_it(here: Path, onnxq) -> None:
    ran, data = quantized(onnxq, "--calib", *CASES["units"][0])
    assert len(data["doubts"]) == 1
    advice = json.loads(Path("net.int8.report.json").read_text())["advice"]
    assert advice["command"] in ran.out
    words = shlex.split(advice["command"])
    assert words[-2:] == ["--scale", "1"]
    assert onnxq(*words[1:]).code == 0
    assert json.loads(Path("net.int8.report.json").read_text())["calibration"]["data"]["doubts"] == []


def test_good_data_are_not_doubted(here: Path, onnxq) -> None:
    for flags in (("good.npz",), ("images",), ("images", "--mean", 127, "--std", 128, "--scale", 1)):
        ran, data = quantized(onnxq, "--calib", *flags)
        assert (data["doubts"], data["looked_at"], "Warnings" in ran.out) == ([], 16, False)
        assert "Warnings" not in onnxq("calibrate", "net.onnx", "--calib", *flags).out


def test_with_statistics_the_samples_that_choose_and_verify_are_looked_at(here: Path, onnxq) -> None:
    assert onnxq("calibrate", "net.onnx", "--calib", "bytes.npz").code == 0
    _, data = quantized(onnxq, "--stats", "net.stats.npz", "--calib", "bytes.npz")
    assert ([doubt["kind"] for doubt in data["doubts"]], data["looked_at"]) == (["unnormalized"], 16)
    _, data = quantized(onnxq, "--stats", "net.stats.npz")
    assert (data["doubts"], data["looked_at"]) == ([], 0)


def test_the_file_and_what_is_read_are_the_same(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A look costs no reading, and leaves no trace in statistics: neither do shards differ from one run."""
    model, read = onnx.load("net.onnx"), []
    arrays = np.load("bytes.npz")["x"]

    class Watched(dict):
        def __getitem__(self, name):
            read.append(1)
            return super().__getitem__(name)

    def taken(name: str, **more: Any) -> bytes:
        read.clear()
        package.calibrate(model, (Watched(x=array) for array in arrays), name, **more)
        assert len(read) == 64
        return Path(name).read_bytes()

    looked = taken("looked.npz")
    monkeypatch.setattr(glance, "LOOKED_AT", 0)
    assert taken("not.npz") == looked


def test_one_sample_is_enough_for_workers(here: Path, onnxq) -> None:
    ran = onnxq("calibrate", "net.onnx", "--calib", "images", "--mean", 127, "--std", 128, "--workers", 2)
    assert ran.code == 0, ran.err
    assert is_said(ran.out, "units/do")
    assert is_said(ran.out, "looked-at", some="sample")


def test_a_fault_of_the_look_does_not_cost_the_run(here: Path, onnxq, monkeypatch) -> None:
    def fail(self: Survey, sample: object) -> None:
        raise ValueError("something of ours")

    monkeypatch.setattr(Survey, "add", fail)
    ran, data = quantized(onnxq, "--calib", "good.npz")
    assert [doubt["kind"] for doubt in data["doubts"]] == ["not-looked-at"]
    assert is_said(ran.out, "not-looked-at", fault="ValueError: something of ours")


# -- names -----------------------------------------------------------------------------------------


def test_a_lone_array_is_said(here: Path, onnxq) -> None:
    np.savez("lone.npz", np.load("good.npz")["x"])
    ran, data = quantized(onnxq, "--calib", "lone.npz")
    assert data["notes"] == [
        "'arr_0', the only array in a file, is fed to input 'x' (assumed; to state it: --input-name x=arr_0)"
    ]
    assert data["notes"][0] in ran.out


def test_names_are_stated_to_every_verb(here: Path, onnxq) -> None:
    """The statistics are those of data with the right name, from one process or two."""
    x = np.load("good.npz")["x"]
    np.savez("named.npz", image=x, label=x)
    name = ("--input-name", "x=image")
    assert onnxq("calibrate", "net.onnx", "--calib", "good.npz", "-o", "good.stats.npz").code == 0
    for workers in (1, 2):
        ran = onnxq(
            "calibrate", "net.onnx", "--calib", "named.npz", *name, "-o", "n.stats.npz", "--workers", workers
        )
        assert ran.code == 0, ran.err
        one, other = (np.load(file) for file in ("good.stats.npz", "n.stats.npz"))
        assert all(np.array_equal(one[key], other[key]) for key in ("indices", "digests", "counts", "highs"))
    quantized(onnxq, "--calib", "named.npz", *name)
    for verb in (
        ("data", "net.onnx", "--calib", "named.npz"),
        ("compare", "net.onnx", "net.int8.onnx", "--data", "named.npz"),
    ):
        assert onnxq(*verb).code == 2
        ran = onnxq(*verb, *name)
        assert ran.code == 0, ran.err
    assert onnxq("pieces", "split", "net.onnx", "--at-op", "Elu").code == 0
    ran = onnxq("pieces", "run", "net.split.json", "--data", "named.npz", *name)
    assert ran.code == 0, ran.err
    result = package.quantize(
        "net.onnx", [{"image": row, "label": row} for row in x], input_names={"x": "image"}, compile=False
    )
    assert result.report["calibration"]["samples"] > 0
    ran = onnxq("quantize", "net.onnx", *FAST, "--stats", "n.stats.npz", *name)
    assert (ran.code, "--stats and --input-name exclude" in ran.err) == (2, True)


def test_a_change_that_codes_make_large_is_no_bug_of_a_rule() -> None:
    """Where a model rounds to codes, outputs may move further than what a change was proved to."""
    from onnxq.base.reason import Reason
    from onnxq.cli.pages.changes import changes_section
    from onnxq.cli.screen import Page
    from onnxq.rewrite.changes import Change
    from onnxq.rewrite.proof import Proof

    report = package.sanitize(onnx.parser.parse_model(_PLAIN)).report
    for code, bug in (("grows", False), ("differs", True)):
        page = Page()
        proof = Proof("failed", why=Reason(code, "with it outputs change"))
        change = Change("fold_scale", "clean", "n", (), (), proof).told()
        changes_section(page, replace(report, rejected=(change,)))
        assert (is_said(str(page.lines), "change.bug")) == bug


_PLAIN = """<ir_version: 8, opset_import: ["" : 17]> g (float[4] x) => (float[4] y) { y = Relu (x) }"""
