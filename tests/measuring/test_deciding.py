"""What a measured bundle says here: the answer, the layers, the plan, and what may be faster still."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import onnx
import pytest

import onnxq
from onnxq.base.errors import UserError
from onnxq.emit import measure
from onnxq.inspection.measured_bundle import layer_times, longer_in_int8
from onnxq.pipeline.planning import plan_at
from tests.measuring.machine import DIGITS, MS, Run, bundled

MODEL = DIGITS / "digits.onnx"


@pytest.fixture
def layers(folder: Path) -> dict[str, tuple[float, float]]:
    """What each layer takes in float16 and in int8: the second and the fourth lose in int8."""
    names = [
        node.name
        for node in onnx.load(str(folder / "int8.onnx")).graph.node
        if node.op_type in ("Conv", "Gemm")
    ]
    return {name: (0.2, 0.3 if place in (1, 3) else 0.1) for place, name in enumerate(names)}


def test_the_answer_and_what_layers_gain(folder: Path, run: Run, layers: Any) -> None:
    assert run(folder, layers=layers)[0] == 0
    found = onnxq.decide(folder / "results.json")
    assert found.chosen == "without-3"
    assert found.answer[0].startswith("Use without-3.onnx: 1.4")
    assert [one.name for one in found.candidates] == sorted(
        MS.keys() - {"combined-1", "combined-2"}, key=MS.__getitem__
    )
    (base,) = (one for one in found.candidates if one.name == "float16")
    assert (base.times_as_fast, base.low, base.high) == (1, 1, 1)
    assert {one.engine.status for one in found.candidates} == {"right"}
    first = found.candidates[0]
    assert first.times_as_fast == pytest.approx(1 / MS["without-3"], rel=0.02)
    assert first.low is not None
    assert first.high is not None
    assert 1.3 < first.low <= first.times_as_fast <= first.high < 1.6
    assert {name for one in found.layers for name in one.nodes} == set(layers)
    assert [one.lost > 0 for one in found.layers] == sorted(
        (one.lost > 0 for one in found.layers), reverse=True
    )
    converting = next(one for one in found.layers if not one.nodes)
    assert converting.ms["float16"] == 0
    assert converting.lost > 0
    assert found.to_dict() == json.loads(json.dumps(found.to_dict()))


def test_its_plan_makes_the_same_file(folder: Path, run: Run, tmp_path: Path) -> None:
    run(folder)
    found = onnxq.decide(folder, tmp_path / "kept.plan.toml")
    assert found.plan == str(tmp_path / "kept.plan.toml")
    with pytest.raises(UserError, match="may have been edited"):
        onnxq.decide(folder, tmp_path / "kept.plan.toml")
    measured = plan_at(tmp_path / "kept.plan.toml").measured
    assert measured.startswith("1.4")
    assert " times as fast as float16 (" in measured
    assert measured.endswith(results_at(folder))
    for plan in (folder / "results.json", tmp_path / "kept.plan.toml"):
        result = onnxq.quantize(MODEL, DIGITS / "calib", plan=plan, target="tensorrt-11.1", compile=False)
        result.save(tmp_path / "x.onnx", page=False, force=True)
        assert (tmp_path / "x.onnx").read_bytes() == (folder / "without-3.onnx").read_bytes()
        assert f"the plan was measured: {measured}" in result.report.calibration.notes


def results_at(folder: Path) -> str:
    held = json.loads((folder / "results.json").read_text())
    return f"on {held['device']}, TensorRT 11.1, {held['date']}"


def test_no_plan_makes_float16(folder: Path, run: Run) -> None:
    run(folder, **{name.replace("-", "_"): {"ms": 0.99} for name in MS if name != "float16"})
    assert onnxq.decide(folder).chosen == "float16"
    for asked in (lambda: onnxq.decide(folder, folder / "p.toml"), lambda: plan_at(folder / "results.json")):
        with pytest.raises(
            UserError, match=r"no plan makes the file to use, .*: Use float16\.onnx: int8 gains less"
        ):
            asked()


@pytest.mark.parametrize("change", [{"bundle": "0"}, {"candidates": 3}, {"answer": 3}, {"kind": ...}])
def test_results_that_are_none(folder: Path, run: Run, change: dict[str, Any]) -> None:
    run(folder)
    path = folder / "results.json"
    held = {**json.loads(path.read_text()), **change}
    path.write_text(json.dumps({key: value for key, value in held.items() if value is not ...}))
    with pytest.raises(UserError, match=r"results\.json"):
        onnxq.decide(path)


def test_results_of_another_model_are_refused_by_quantize(folder: Path, run: Run, tmp_path: Path) -> None:
    run(folder)
    model = onnx.load(str(MODEL))
    model.graph.initializer[0].raw_data = bytes(len(model.graph.initializer[0].raw_data))
    onnx.save(model, str(tmp_path / "other.onnx"))
    with pytest.raises(UserError, match="the plan is of another model"):
        onnxq.quantize(
            tmp_path / "other.onnx", DIGITS / "calib", plan=folder / "results.json", target="tensorrt-11.1"
        )


def test_layers_that_lose_in_int8_are_tried_in_float(folder: Path, run: Run, layers: Any) -> None:
    run(folder, layers=layers)
    times = layer_times(folder, {name: folder / f"{name}.onnx" for name in ("float16", "int8")})
    longer = longer_in_int8(times)
    assert longer == {name for name, (half, int8) in layers.items() if int8 > half}
    found = bundled(folder, target="tensorrt-11.1")
    new = next(one for one in found.candidates if one.parts == ("longer-layers",))
    kept = {one.node: one.format for one in plan_at(folder / f"{new.name}.plan.toml").layers}
    assert {kept[name] for name in longer if name in kept} == {"float"}
    code, said, _ = run(folder, layers=layers, **{new.name.replace("-", "_"): {"ms": 0.5}})
    assert (code, said.startswith(f"Use {new.file}: 2.0")) == (0, True)
    again = bundled(folder, target="tensorrt-11.1")
    assert [one.parts for one in again.candidates].count(("longer-layers",)) == 1


def test_a_folder_that_nobody_measured(folder: Path) -> None:
    with pytest.raises(UserError, match=r"results\.json"):
        onnxq.decide(folder)
    with pytest.raises(UserError, match=r"manifest\.json"):
        onnxq.decide(folder.parent / "results.json")
    assert measure.RESULTS == "results.json"


def test_a_finished_file_is_measured_beside(folder: Path, run: Run, tmp_path: Path) -> None:
    """Of whatever tool: here one with other weights, the float model itself, and one of another shape."""
    near = onnx.load(str(folder / "int8.onnx"))
    near.producer_name = "another tool"
    onnx.save(near, str(tmp_path / "their int8.onnx"))
    other = onnx.parser.parse_model(
        """<ir_version: 8, opset_import: ["" : 17]>
        g (float[1, 1, 8, 8] image) => (float[1, 1, 8, 8] y) { y = Abs (image) }"""
    )
    onnx.save(other, str(tmp_path / "other.onnx"))
    made = tmp_path / "made"
    found = bundled(
        made, target="tensorrt-11.1", also=[tmp_path / "their int8.onnx", tmp_path / "other.onnx"]
    )
    (one,) = (one for one in found.candidates if one.name == "their_int8")
    assert (one.plan, one.what) == (None, "their int8.onnx, as it is")
    assert one.outputs_db == next(other.outputs_db for other in found.candidates if other.name == "int8")
    assert "other" in found.left_out
    assert not list(made.glob("other*"))
    code, said, _ = run(made)
    assert (code, said.startswith("Use their_int8.onnx: 2.0")) == (0, True)
    with pytest.raises(UserError, match="no plan makes the file to use"):
        plan_at(made / "results.json")
