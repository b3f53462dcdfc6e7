"""A detector whose boxes and scores are one output: what becomes of the scores is seen, said and kept."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from one_output_detector import detector, kept, pictures
from said import is_said

import onnxq
from onnxq.base import remarks
from onnxq.base.errors import UserError
from onnxq.run import finding_parts

pytestmark = pytest.mark.usefixtures("by_place")

BOXES, SCORES = "output[0:4]", "output[4:6]"
DATA = [{"image": image} for image in pictures(2, 48)[0]]
PLAIN = {"compile": False, "repair": "none", "layer_samples": 0}


@pytest.fixture(scope="module")
def result() -> onnxq.Result:
    return onnxq.quantize(detector(), DATA, **PLAIN)


def test_scales_are_chosen_by_boxes_and_by_scores(result: onnxq.Result) -> None:
    choice = result.report["calibration"]["choice"]
    assert {one["output"] for one in choice["outputs"]} == {BOXES, SCORES}
    # by the power of the whole output another method is best, which keeps 63 % of them
    assert kept(detector(), result.model, pictures(3, 60)[0], 0.25) >= 0.8


def test_the_report_has_each_part(result: onnxq.Result) -> None:
    report = result.report
    parts = {one["output"]: one for one in report["accuracy"]}
    assert [*parts] == [BOXES, SCORES]
    assert {(one["part_of"], one["axis"]) for one in parts.values()} == {("output", 1)}
    assert parts[SCORES]["sqnr_db"] < parts[BOXES]["sqnr_db"] - 15
    assert {one["output"] for one in report["about_mean"]["outputs"]} == {BOXES, SCORES}
    assert {one["output"] for one in report["body"]["outputs"]} == {BOXES, SCORES}


def test_comparing_and_analyzing_hear_the_parts(result: onnxq.Result, tmp_path: Path) -> None:
    onnx.save(detector(), tmp_path / "float.onnx")
    onnx.save(result.model, tmp_path / "int8.onnx")
    held = [{"image": image} for image in pictures(4, 4)[0]]
    both = tmp_path / "float.onnx", tmp_path / "int8.onnx"
    found = {one.output: one.sqnr_db for one in onnxq.compare(*both, held).accuracy}
    assert [*found] == [BOXES, SCORES]
    rows = {row.tensor: row for row in onnxq.analyze(*both, held).rows if row.output}
    assert {*rows} == {"output", BOXES, SCORES}
    for name, level in found.items():
        assert rows[name].accumulated.sqnr_db == pytest.approx(level, abs=1e-4)
    assert rows["output"].accumulated.sqnr_db > rows[SCORES].accumulated.sqnr_db + 15


def test_a_fault_while_parts_are_looked_for_is_a_remark(
    result: onnxq.Result, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fault(*_: object) -> None:
        raise ZeroDivisionError("planted")

    monkeypatch.setattr(finding_parts, "spans", fault)
    onnx.save(detector(), tmp_path / "float.onnx")
    onnx.save(result.model, tmp_path / "int8.onnx")
    both = tmp_path / "float.onnx", tmp_path / "int8.onnx"
    with remarks.heard() as heard:
        (whole,) = onnxq.compare(*both, DATA[:2]).accuracy
        (row,) = (row for row in onnxq.analyze(*both, DATA[:2]).rows if row.output)
    assert (whole.output, row.tensor) == ("output", "output")
    (remark,) = heard
    assert is_said(remark, "parts-not-found", error=ZeroDivisionError("planted"))
    report = onnxq.quantize(detector(), DATA[:4], **{**PLAIN, "method": "minmax"}).report
    assert [one["output"] for one in report["accuracy"]] == ["output"]
    assert remark in report["notes"]


def test_goals_are_of_the_parts_that_weigh() -> None:
    options = {**PLAIN, "method": "entropy", "samples": 24}
    boxes = onnxq.quantize(detector(), DATA, min_sqnr=10.0, weigh={SCORES: 0}, **options).report
    assert boxes["goal"]["met"]
    assert boxes["goal"]["search"] is None  # they have it as they are
    assert [one["output"] for one in boxes["about_mean"]["outputs"]] == [BOXES]
    assert [one["output"] for one in boxes["about_mean"]["left_out"]] == [SCORES]
    both = onnxq.quantize(detector(), DATA, min_sqnr=10.0, **options).report
    assert both["goal"]["met"]
    assert [one["node"] for one in both["goal"]["search"]["float"]] == ["head"]  # for the scores
    with pytest.raises(UserError, match="output"):
        onnxq.quantize(detector(), DATA, min_sqnr=18.0, weigh={"output[1:2]": 2.0}, **options)


def test_repair_is_judged_by_parts() -> None:
    options = {**PLAIN, "method": "entropy", "repair": ["gptq"], "weigh": {BOXES: 0}}
    steps = onnxq.quantize(detector(), DATA[:24], **options).report["repair"]["steps"]
    scores = next(step for step in steps if step["step"] == "gptq")
    options["weigh"] = {SCORES: 0}
    steps = onnxq.quantize(detector(), DATA[:24], **options).report["repair"]["steps"]
    boxes = next(step for step in steps if step["step"] == "gptq")
    assert abs(scores["before_db"] - boxes["before_db"]) > 3  # of each part its own figure


def test_a_tensor_of_one_scale_is_a_whole() -> None:
    model = onnx.ModelProto()
    model.CopyFrom(detector())  # that one is everybody's
    model.graph.output[0].name = "scores"
    model.graph.output[0].type.tensor_type.shape.dim[1].dim_value = 2
    found = onnxq.quantize(model, DATA[:8], **PLAIN)
    (only,) = found.report["accuracy"]
    assert (only["output"], only["part_of"], only["axis"]) == ("scores", None, None)
    assert np.isfinite(only["sqnr_db"])
