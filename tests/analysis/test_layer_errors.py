"""What a report says of each layer's error: the figures of an analysis, at a cost that is bounded."""

from __future__ import annotations

import json
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from layer_nets import made, samples_of

import onnxq
from onnxq.analysis import layerwise
from onnxq.analysis.parts import Part
from onnxq.analysis.reports import OpenedReport
from onnxq.analysis.stages import Stage
from onnxq.page.making import html_of, page_of
from onnxq.pipeline import layer_errors
from onnxq.pipeline.layer_errors import SHARE, WorkDone, to_run
from onnxq.reporting import to_json

QUICK: dict[str, Any] = {"repair": "none", "method": "minmax", "compile": False}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A net, 24 samples as a file, and what is made of it by one call."""
    found = tmp_path_factory.mktemp("errors")
    model = made("branches")
    onnx.save(model, found / "net.onnx")
    np.savez(found / "samples.npz", x=np.concatenate([one["x"] for one in samples_of(model, 24)]))
    onnxq.quantize(found / "net.onnx", found / "samples.npz", **QUICK).save(found / "q.onnx")
    return found


@pytest.fixture(scope="module")
def document(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "q.report.json").read_text())
    return found


def test_the_figures_are_those_of_an_analysis(folder: Path, document: dict[str, Any]) -> None:
    part = document["layer_errors"]
    samples = part["samples"]
    assert (part["why_not"], samples) == ("", len(document["calibration"]["data"]["place"]["held_out"][:4]))
    found = onnxq.analyze(folder / "q.onnx", samples=samples)
    theirs = {row.tensor: row for row in found.rows}
    assert [row["tensor"] for row in part["rows"]] == sorted(theirs, key=lambda name: theirs[name].place)
    assert len(theirs) >= 3
    for row in part["rows"]:
        other = theirs[row["tensor"]]
        assert (row["layer"], row["op"], row["output"]) == (other.layer, other.op, other.output)
        for mine, figures in ((row["accumulated"], other.accumulated), (row["isolated"], other.isolated)):
            assert figures is not None
            for key, value in mine.items():
                assert to_json(getattr(figures, key)) == value, (row["tensor"], key)
    assert found.worst is not None
    assert (part["worst"]["sample"], part["worst"]["sqnr_db"]) == (found.worst.sample, found.worst.sqnr_db)
    assert part["worst"]["outputs"][0]["values"][0]["b"] == found.worst.outputs[0].values[0].b
    assert part["drift"] == found.drift


def test_heavy_weights_are_in_memory_part_by_part(
    folder: Path, document: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same figures, of more parts, of which one of each model is loaded at a time."""
    alive: weakref.WeakSet[layerwise.PartRunner] = weakref.WeakSet()
    most, sizes = [0], list[int]()

    class Counted(layerwise.PartRunner):
        def __init__(self, stage: Stage, part: Part, threads: int = 0) -> None:
            super().__init__(stage, part, threads)
            alive.add(self)
            most[0] = max(most[0], len(alive))
            sizes.append(part.model.ByteSize())
            assert stage.data_dir is not None  # the weights are in files
            assert (stage.data_dir / "weights").is_file()

    monkeypatch.setattr(layer_errors, "_HEAVY", 0)
    monkeypatch.setattr(layerwise, "WEIGHTS", 1)
    monkeypatch.setattr(layerwise, "PartRunner", Counted)
    report = onnxq.quantize(folder / "net.onnx", folder / "samples.npz", **QUICK).report
    assert report["layer_errors"] == document["layer_errors"]
    assert len(sizes) > 4
    assert most[0] == 2


def test_the_page_shows_them_without_an_analysis(document: dict[str, Any]) -> None:
    page = page_of(OpenedReport("", document))
    assert page.layers is not None
    levels = {row["layer"]: row["isolated"]["sqnr_db"] for row in document["layer_errors"]["rows"]}
    shown = {line.name: line.isolated for line in page.layers.layers if line.isolated is not None}
    assert shown == {name: value for name, value in levels.items() if name in shown}
    assert len(shown) >= 3
    assert page.depth is not None
    assert page.depth.errors is not None
    assert page.worst is not None
    assert page.worst.outputs
    assert not any("onnxq analyze" in one.command for one in page.advice)
    assert "Errors of layers against float, on" in html_of(page)


def test_zero_leaves_them_out_and_says_how_to_get_them(folder: Path) -> None:
    report = onnxq.quantize(folder / "net.onnx", folder / "samples.npz", layer_samples=0, **QUICK).report
    assert report["layer_errors"]["why_not"] == "left out"
    assert "layers" not in report["phases"]
    page = page_of(OpenedReport("", report))
    assert page.layers is not None
    assert not page.layers.analysed
    assert "were not measured: left out" in page.layers.errors
    assert any("onnxq analyze" in one.command for one in page.advice)
    with pytest.raises(onnxq.UserError, match="-1 samples"):
        onnxq.quantize(folder / "net.onnx", folder / "samples.npz", layer_samples=-1)


def test_a_fault_of_ours_costs_no_run(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*args: object) -> None:
        raise ZeroDivisionError("planted")

    monkeypatch.setattr(layer_errors, "beside", broken)
    report = onnxq.quantize(folder / "net.onnx", folder / "samples.npz", **QUICK).report
    why = "it ends in a fault of onnxq (ZeroDivisionError: planted)"
    assert report["layer_errors"]["why_not"] == why
    assert report["accuracy"]


def test_they_cost_a_share_of_the_run_at_most() -> None:
    """As many samples as may be, down to one; none where one is too dear; what is asked for is done."""
    macs = (10**9, 10**9)
    rich, poor = WorkDone(macs, 300.0), WorkDone(macs, 40.0)
    assert to_run(None, 16, 10**6, rich) == (4, "")
    assert to_run(None, 3, 10**6, rich) == (3, "")
    some, why = to_run(None, 16, 10**6, poor)
    assert (1 <= some < 4, why) == (True, "")
    assert poor.cost(some, 10**6) <= SHARE * poor.before < poor.cost(some + 1, 10**6)
    heavy = WorkDone((10**11,), 4.0)
    assert "runs of the model, more than 25%" in to_run(None, 16, 10**6, heavy)[1]
    assert to_run(2, 16, 10**6, heavy) == (2, "")
    assert to_run(32, 16, 10**6, heavy) == (16, "")
    assert to_run(0, 16, 10**6, rich) == (0, "left out")
    assert to_run(None, 16, 1 << 29, rich)[1] == "the model is large"
    assert to_run(1, 16, 1 << 29, rich) == (1, "")
    assert rich.cost(1, 10**8) > rich.cost(1, 10**6)


def test_what_is_stated_of_inputs_holds_for_the_original_too(folder: Path) -> None:
    """The original of the run is what is compared, with its sizes stated, not the file as it is."""
    report = onnxq.quantize(
        folder / "net.onnx", folder / "samples.npz", shapes={"x": (1, 16, 8, 8)}, **QUICK
    ).report
    assert report["layer_errors"]["samples"] > 0
