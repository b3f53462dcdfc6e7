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
from said import is_said

import onnxq
from onnxq.analysis import layerwise
from onnxq.analysis.parts import Part
from onnxq.analysis.reports import OpenedReport
from onnxq.analysis.stages import Stage
from onnxq.base.plain import to_json
from onnxq.page.making import html_of, page_of
from onnxq.pipeline import layer_errors
from onnxq.pipeline.layer_errors import SHARE, Allowance, Fewer, to_run

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
    given = {"layer_samples": 3, **QUICK}  # whatever share of the run they take
    report = onnxq.quantize(folder / "net.onnx", folder / "samples.npz", **given).report
    assert report["layer_errors"] == document["layer_errors"]
    assert len(sizes) > 4
    assert most[0] == 2


def test_the_page_shows_them_without_an_analysis(document: dict[str, Any]) -> None:
    page = page_of(OpenedReport.of(document))
    assert page.layers is not None
    levels = {row["layer"]: row["isolated"]["sqnr_db"] for row in document["layer_errors"]["rows"]}
    shown = {line.name: line.isolated for line in page.layers.layers if line.isolated is not None}
    assert shown == {name: value for name, value in levels.items() if name in shown}
    assert len(shown) >= 3
    assert page.depth is not None
    assert page.depth.errors is not None
    assert page.worst is not None
    assert page.worst.outputs
    assert not any("onnxq analyze" in one.command for one in page.next)
    assert "layers against float" in html_of(page)


def test_zero_leaves_them_out_and_says_how_to_get_them(folder: Path) -> None:
    report = onnxq.quantize(folder / "net.onnx", folder / "samples.npz", layer_samples=0, **QUICK).report
    assert report.layer_errors is not None
    assert report.layer_errors.why_not == "left out"
    assert "layers" not in report.phases
    page = page_of(OpenedReport.made(report))
    assert page.layers is not None
    assert not page.layers.analysed
    assert is_said(page.layers.errors, "layer-errors.not", why="left out")
    assert any("onnxq analyze" in one.command for one in page.next)
    with pytest.raises(onnxq.UserError, match="layer samples is -1"):
        onnxq.quantize(folder / "net.onnx", folder / "samples.npz", layer_samples=-1)


def test_a_fault_of_ours_costs_no_run(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*args: object) -> None:
        raise ZeroDivisionError("planted")

    monkeypatch.setattr(layer_errors, "beside", broken)
    report = onnxq.quantize(folder / "net.onnx", folder / "samples.npz", **QUICK).report
    why = "it ends in a fault of onnxq (ZeroDivisionError: planted)"
    assert report["layer_errors"]["why_not"] == why
    assert report["accuracy"]


def test_how_many_samples_are_run() -> None:
    assert to_run(None, 16, 10**6) == (4, "")
    assert to_run(None, 3, 10**6) == (3, "")
    assert to_run(32, 16, 10**6) == (16, "")
    assert to_run(0, 16, 10**6) == (0, "left out")
    assert is_said(to_run(None, 16, 1 << 29)[1], "large-model")
    assert to_run(1, 16, 1 << 29) == (1, "")


class Clock:
    """What a run has spent, of the clock and of the processors; each pass through a part takes `each`."""

    def __init__(self, *each: float) -> None:
        self.each, self.spent = np.array(each), np.array([100.0, 100.0])

    def __call__(self) -> tuple[float, float]:
        wall, cpu = self.spent.tolist()
        return wall, cpu

    def walk(self, allowance: Allowance, samples: int, parts: int = 10) -> int:
        """Runs so many samples through parts of equal work; how many it is told to run then."""
        allowance.pace(0.0, samples)
        for done in range(1, parts * samples + 1):
            self.spent += self.each
            try:
                allowance.pace(done / (parts * samples), samples)
            except Fewer as fewer:
                return fewer.samples
        return samples


@pytest.mark.parametrize(
    ("each", "samples"),
    [((0.1, 0.1), 4), ((0.5, 0.1), 2), ((0.1, 0.5), 2), ((0.9, 0.9), 1), ((3.0, 0.1), 0)],
    ids=["quick", "slow by the clock", "slow by the processors", "slower", "hopeless"],
)
def test_there_are_as_many_samples_as_there_is_time_for(each: tuple[float, float], samples: int) -> None:
    """They begin again with fewer; of all of it no more than the share is taken, the search included."""
    clock = Clock(*each)
    allowance, count, rounds = Allowance(clock), 4, 0
    while count and (fewer := clock.walk(allowance, count)) < count:
        count, rounds = fewer, rounds + 1
    assert count == samples
    assert rounds == (samples < 4)
    spent = clock.spent - 100.0
    assert (spent <= SHARE * clock.spent).all()
    assert spent.max() > 0.3 * SHARE * 100 or samples == 4


def test_a_run_that_is_over_at_once_measures_them_all() -> None:
    clock = Clock(0.02, 0.02)
    clock.spent[:] = 0.1
    assert clock.walk(Allowance(clock), 4) == 4


def test_fewer_samples_are_whole_and_said(
    folder: Path, document: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was begun with more leaves nothing in the figures; each layer is there."""
    heard = []

    class Slow(Allowance):
        def pace(self, share: float, samples: int) -> None:
            heard.append((share, samples))
            if samples > 1 and share > 0.4:
                raise Fewer(1)

    monkeypatch.setattr(layer_errors, "Allowance", Slow)
    monkeypatch.setattr(layerwise, "BUDGET", 1)
    found = onnxq.quantize(folder / "net.onnx", folder / "samples.npz", **QUICK).report["layer_errors"]
    one = onnxq.quantize(folder / "net.onnx", folder / "samples.npz", layer_samples=1, **QUICK).report
    assert is_said(found.pop("notes"), "layer-errors.few", share="15%")
    assert found == {name: value for name, value in one["layer_errors"].items() if name != "notes"}
    assert (found["samples"], len(found["rows"])) == (1, len(document["layer_errors"]["rows"]))
    begins = [place for place, (share, _) in enumerate(heard) if not share]
    assert [heard[place][1] for place in begins] == [document["layer_errors"]["samples"], 1]
    for start, end in zip(begins, [*begins[1:], len(heard)], strict=True):
        shares = [share for share, _ in heard[start:end]]
        assert shares == sorted(set(shares))
    assert heard[-1] == (1.0, 1)


def test_without_time_for_one_they_are_left_out(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def never(self: Allowance, share: float, samples: int) -> None:
        raise Fewer(0)

    monkeypatch.setattr(Allowance, "pace", never)
    found = onnxq.quantize(folder / "net.onnx", folder / "samples.npz", **QUICK).report["layer_errors"]
    assert (found["samples"], found["rows"]) == (0, [])
    assert is_said(found["why_not"], "long-sample", share="15%")
    asked = onnxq.quantize(folder / "net.onnx", folder / "samples.npz", layer_samples=2, **QUICK).report
    assert asked["layer_errors"]["samples"] == 2


def test_what_is_stated_of_inputs_holds_for_the_original_too(folder: Path) -> None:
    """The original of the run is what is compared, with its sizes stated, not the file as it is."""
    report = onnxq.quantize(
        folder / "net.onnx", folder / "samples.npz", shapes={"x": (1, 16, 8, 8)}, **QUICK
    ).report
    assert report["layer_errors"]["samples"] > 0
