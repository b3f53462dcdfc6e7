"""Repair of accuracy from the library and from the command line: what is written, obeyed, and said."""

from __future__ import annotations

import functools
import hashlib
import json
import os
import shutil
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import onnx.parser
import pytest
from command import run, run_alone
from said import is_said

import onnxq
from onnxq.base.errors import UserError
from onnxq.data.samples import InputSpec
from onnxq.data.sources import open_source
from onnxq.data.split import split
from onnxq.options.config import LayerRule
from onnxq.page.layers import layers_view
from onnxq.pipeline import pursuit, repair_bench
from onnxq.pipeline.run import Run
from onnxq.pipeline.searches import repair
from onnxq.run import ort
from tests.nearness import about_mean

pytestmark = pytest.mark.usefixtures("by_place")

NET = """<ir_version: 8, opset_import: ["" : 17]>
    net (float[1, 16, 8, 8] x) => (float[1, 16, 8, 8] y) {
        [first] a = Conv (x, w1, b1)  [relu] r = Relu (a)
        [second] b = Conv (r, w2)  [relu2] s = Relu (b)
        [third] y = Conv (s, w3) }"""
DIGITS = Path(__file__).parent.parent / "sample_models" / "digits"
COMMON: dict[str, Any] = {"prove": "never", "body": "fp32", "method": "mse"}
STEPS = ("bias", "shift", "gptq")
SPEC = InputSpec("x", np.dtype(np.float32), (1, 16, 8, 8))


@functools.cache
def net() -> onnx.ModelProto:
    model = onnx.parser.parse_model(NET)
    random = np.random.default_rng(0)
    for name in ("w1", "w2", "w3"):
        values = random.standard_normal((16, 16, 1, 1)).astype(np.float32) / 4
        model.graph.initializer.append(onnx.numpy_helper.from_array(values, name))
    bias = random.standard_normal(16).astype(np.float32)
    model.graph.initializer.append(onnx.numpy_helper.from_array(bias, "b1"))
    return model


@functools.cache
def data(count: int = 64) -> list[dict[str, np.ndarray]]:
    return samples(count, 1)


def samples(count: int, seed: int) -> list[dict[str, np.ndarray]]:
    """Samples whose channels go together: else there is nothing that rounding could make good."""
    random, mixing = np.random.default_rng(seed), np.random.default_rng(0).standard_normal((16, 5))
    found = []
    for _ in range(count):
        own, common = random.standard_normal((16, 8, 8)), random.standard_normal((5, 8, 8))
        found.append({"x": (0.5 * own + np.tensordot(mixing, common, 1)).astype(np.float32)[None]})
    return found


def quantize(given: Any = None, **options: Any) -> onnxq.pipeline.Result:  # type: ignore[name-defined]
    samples = data() if given is None and not options.keys() & {"plan", "stats"} else given
    return onnxq.quantize(net(), samples, **{**COMMON, "compile": False, **options})


@functools.cache
def repaired() -> onnxq.pipeline.Result:  # type: ignore[name-defined]
    return quantize(repair=STEPS)


@functools.cache
def plain() -> onnxq.pipeline.Result:  # type: ignore[name-defined]
    return quantize(repair="none")


def content(result: Any) -> str:
    return hashlib.sha256(result.model.SerializeToString(deterministic=True)).hexdigest()


def ledger(result: Any) -> dict[str, dict[str, Any]]:
    return {entry["step"]: entry for entry in result.report["repair"]["steps"]}


def constants(model: onnx.ModelProto) -> dict[str, np.ndarray]:
    return {tensor.name: onnx.numpy_helper.to_array(tensor) for tensor in model.graph.initializer}


def level(model: onnx.ModelProto, samples: Any) -> float:
    found = about_mean(ort.load(net()), ort.load(model), samples).sqnr_about_mean_db
    assert found is not None
    return found


def test_the_written_file_is_nearer_on_samples_that_nobody_saw() -> None:
    fresh = samples(16, 9)
    gain = level(repaired().model, fresh) - level(plain().model, fresh)
    assert gain > 1.0


def test_the_ledger_says_what_was_done() -> None:
    part, steps = repaired().report["repair"], ledger(repaired())
    assert part["asked"] == list(STEPS)
    assert list(steps) == list(STEPS)
    assert {entry["verdict"] for entry in steps.values()} == {"kept"}
    judged_on = 28  # half of them: it is clear at once
    assert (part["fitted_on"], part["judged_on"], part["apart"]) == (56, judged_on, True)
    assert part["after_db"] > part["before_db"] + 1
    for entry in steps.values():  # each on as many samples as made it clear
        assert entry["after_db"] > entry["before_db"] - (0.5 if entry["rows"] else 0.0)
    assert {(edit["kind"], edit["tensor"]) for edit in part["edits"]} == {("shift", "r"), ("shift", "s")}
    assert (part["biases"], part["codes"]) == (3, 3)
    assert part["runs"] >= sum(entry["runs"] for entry in steps.values())
    json.dumps(repaired().report.to_dict())


def test_the_report_is_of_the_repaired_model() -> None:
    """Half of the range of a Relu is below zero after a shift; its scale is half."""
    before, after = (one.report["calibration"] for one in (plain(), repaired()))
    for name in ("r", "s"):
        assert after["scales"][name] == pytest.approx(before["scales"][name] / 2, rel=0.2)
        assert "shift" in after["thresholds"][name]["because"]
        assert after["thresholds"][name]["code"] == before["thresholds"][name]["code"]


def _shown(result: Any, name: str) -> dict[str, Any]:
    """What the page has of a tensor."""
    view = layers_view(result.report, None, ())
    assert view is not None
    return asdict(next(one for one in view.tensors if one.name == name))


def test_what_a_shift_makes_of_a_tensor_is_reported() -> None:
    """Its range, mean and histogram are those of the values in the file, which the pair quantizes."""
    part = repaired().report["calibration"]
    (by,) = (edit["by"] for edit in repaired().report["repair"]["edits"] if edit["tensor"] == "r")
    before = quantize(repair="bias").report["calibration"]
    low, high = before["ranges"]["r"]
    assert part["ranges"]["r"] == pytest.approx([low - by, high - by], rel=1e-6)
    assert part["statistics"]["r"]["mean"] == pytest.approx(before["statistics"]["r"]["mean"] - by, rel=1e-6)
    assert part["statistics"]["r"]["variance"] == pytest.approx(
        before["statistics"]["r"]["variance"], rel=1e-6
    )
    counts = [int(count) for count in part["histograms"]["r"]["counts"].split()]
    old = [int(count) for count in before["histograms"]["r"]["counts"].split()]
    assert sum(counts) == sum(old)
    zeros = int(by / part["histograms"]["r"]["top"] * len(counts))  # where what was 0 is now
    assert counts.index(max(counts)) == zeros
    assert part["before"] == {}
    seen = _shown(repaired(), "r")
    assert (seen["edited"], seen["before"], seen["amax"]) == ("shift", False, pytest.approx(by))


def test_none_is_what_there_was_without_repair(monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*_: Any, **__: Any) -> None:
        raise AssertionError("it is not asked for")

    monkeypatch.setattr(repair_bench, "Fitter", never)
    monkeypatch.setattr(repair, "StepSearch", never)
    result = quantize(repair="none")
    assert content(result) == content(plain())
    assert result.report["repair"] is None
    assert result.report["calibration"]["samples"] == 56  # all that do not verify
    found = constants(result.model)
    for name in ("w1", "w2", "w3"):  # the nearest codes, and the model's own biases
        values = constants(net())[name]
        scale = found[f"{name}_scale"].reshape(-1, 1, 1, 1)
        np.testing.assert_array_equal(found[f"{name}_int8"], np.rint(values / scale))
    np.testing.assert_array_equal(found["b1"], constants(net())["b1"])


def test_a_second_run_writes_the_same_bytes() -> None:
    assert content(quantize(repair=STEPS)) == content(repaired())


@pytest.mark.parametrize(
    ("steps", "options"),
    [
        (("bias",), {}),
        (("bias", "gptq"), {"method": "minmax", "body": "fp16"}),
        (("bias", "shift"), {}),
        (STEPS, {"method": "minmax", "body": "fp16"}),
    ],
)
def test_a_plan_states_it(tmp_path: Path, steps: tuple[str, ...], options: dict[str, Any]) -> None:
    before = quantize(repair=steps, **options)
    assert "kept" in {entry["verdict"] for entry in ledger(before).values()}
    common = {**COMMON, **options, "repair": steps}
    written = onnxq.plan(net(), data(), **common).save(tmp_path / "p.toml")
    assert [path.name.split(".")[1] for path in written] == ["repair", "toml"]
    aimed = quantize(repair=steps, min_sqnr=1.0, **options)  # met: the file alone judges
    assert content(aimed) == content(before)
    again = quantize(plan=tmp_path / "p.toml", method="mse", body=None)
    assert content(again) == content(before)
    assert again.report["repair"]["why_not"].startswith("as the plan")
    assert again.report["repair"]["edits"] == before.report["repair"]["edits"]
    verified = quantize(data(), plan=tmp_path / "p.toml", body=None)
    assert content(verified) == content(before)
    assert verified.report["about_mean"] == aimed.report["about_mean"]
    assert verified.report["accuracy"] == aimed.report["accuracy"]
    counted = [one.report["about_mean"]["samples"] for one in (verified, aimed, before)]
    assert counted == [8, 8, 64]


class Judged:
    """The models of a run that judge its samples, and which samples fitted what.

    Attributes:
        crossed: each model beside that of the file, and the indices of the samples that it judges.
        fits: the biases that were fitted, by node, and the indices of the samples that fitted them.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch, given: list[dict[str, np.ndarray]]) -> None:
        self.crossed: list[tuple[onnx.ModelProto, list[int]]] = []
        self.fits: list[tuple[dict[str, np.ndarray], set[int]]] = []
        index = {one["x"].tobytes(): place for place, one in enumerate(given)}
        fits, verify = self.fits, pursuit.verify

        class Watched(repair_bench.Fitter):  # type: ignore[misc]
            def __init__(self, model: Any, plan: Any, samples: Any, **more: Any) -> None:
                self.fed = set[int]()

                def told() -> Any:
                    for feeds in samples():
                        self.fed.add(index[feeds["x"].tobytes()])
                        yield feeds

                super().__init__(model, plan, told, **more)

            def fit(self, *what: Any) -> Any:
                fitted = super().fit(*what)
                fits.append((dict(fitted.patches.biases), self.fed))
                return fitted

        def watched(*what: Any, crossed: Any = (), **more: Any) -> Any:
            self.crossed += [(one.proto, list(one.indices)) for one in crossed]
            return verify(*what, crossed=crossed, **more)

        monkeypatch.setattr(repair_bench, "Fitter", Watched)
        monkeypatch.setattr(pursuit, "verify", watched)


@pytest.mark.parametrize("count", [16, 24, 65])
def test_a_sample_is_judged_by_a_model_that_it_did_not_fit(
    count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All are counted, 64 at most: those that verify by the file as it is, others by what half fitted."""
    given = data(count)
    judged = Judged(monkeypatch, given)
    result = quantize(given, repair=("bias",))
    report = result.report
    held = set(split(open_source(given, [SPEC]), 512, 0, choose=True).held_indices or ())
    assert len(held) == count // 8
    assert ledger(result)["bias"]["verdict"] == "kept"
    assert len(judged.crossed) == 2
    models = dict.fromkeys(held, ort.load(result.model))
    for model, indices in judged.crossed:
        assert held.isdisjoint(indices)
        assert models.keys().isdisjoint(indices)
        named, values = {node.name: node for node in model.graph.node}, constants(model)
        biases = {node: values[named[node].input[2]] for node in ("first", "second", "third")}
        fed = [
            some
            for fitted, some in judged.fits
            if fitted.keys() == biases.keys() and all(np.array_equal(fitted[n], biases[n]) for n in biases)
        ]
        assert fed
        for some in fed:  # half of the others, none of which it judges
            assert some.isdisjoint(indices)
            assert some.isdisjoint(held)
            assert len(some) >= min(16, (count - len(held)) // 2)
        models |= dict.fromkeys(indices, ort.load(model))
    assert len(models) == min(count, 64)
    part = report["about_mean"]
    assert part["samples"] == len(models)
    assert [one["samples"] for one in report["accuracy"]] == [len(models)]

    class Each:
        """The model that judges a sample, whichever is given."""

        inputs, outputs = ("x",), ("y",)

        def run(self, feeds: Any, outputs: Any = None) -> Any:
            (place,) = (n for n in models if np.array_equal(given[n]["x"], feeds["x"]))
            return models[place].run(feeds, outputs)

    near = about_mean(ort.load(net()), Each(), [given[place] for place in sorted(models)])
    assert part["sqnr_about_mean_db"] == pytest.approx(near.sqnr_about_mean_db, abs=0.02)
    assert report["calibration"]["held_out_code"] == "crossed"
    assert report["calibration"]["held_out"] == (
        f"{len(held)} other samples, and {len(models) - len(held)} cross-validated"
    )


def test_a_goal_of_answers_is_judged_by_samples_that_chose_no_layers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few samples hold few answers: half of those that only calibrated verify as well, the rest confirm."""
    given, heard = data(64), list[tuple[bool, set[int], Any]]()
    crossing = Run.crossing

    def told(run: Run, built: Any, *, confirms: bool = False) -> Any:
        found = crossing(run, built, confirms=confirms)
        heard.append((confirms, {index for _, some in found for index in some}, run.sampling.parts))
        return found

    monkeypatch.setattr(Run, "crossing", told)
    report = quantize(given, repair=("bias",), min_agreement=99.0, task="classify").report
    confirming = next(some for confirms, some, _ in heard if confirms)
    verifying = next(some for confirms, some, _ in heard if not confirms)
    parts = heard[0][2]
    assert len(verifying) >= 16
    assert len(confirming) >= len(verifying)
    assert confirming.isdisjoint(verifying)
    assert verifying.isdisjoint(parts.choosing | parts.confirming | set(parts.held_indices))
    assert report["about_mean"]["samples"] == len(verifying) + parts.held
    assert report["calibration"]["held_out"] == f"8 other samples, and {len(verifying)} cross-validated"


@pytest.mark.parametrize(
    ("count", "options"),
    [(24, {"min_sqnr": 1.0}), (24, {"repair": "none"}), (12, {"repair": "auto"}), (520, {})],
    ids=["goal", "none", "few", "many"],
)
def test_those_that_verify_count_alone(
    count: int, options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a goal, without repair, and of few samples and many: by the file as it is."""
    judged = Judged(monkeypatch, data(count))
    result = quantize(data(count), **{"repair": ("bias",), **options})
    held = sorted(split(open_source(data(count), [SPEC]), 512, 0, choose=True).held_indices or ())
    part = result.report["about_mean"]
    assert sum(len(indices) for _, indices in judged.crossed) == 0
    assert part["samples"] == len(held) == max(1, min(64, count // 8))
    near = level(result.model, [data(count)[place] for place in held])
    assert part["sqnr_about_mean_db"] == pytest.approx(near, abs=0.02)
    code = result.report["calibration"]["held_out_code"], result.report["calibration"]["held_out"]
    assert code == ("apart", "other samples")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("plan")
    onnxq.plan(net(), data(), **COMMON, repair=STEPS).save(folder / "p.toml")
    return folder


@pytest.fixture
def plan(made: Path, tmp_path: Path) -> Path:
    """A plan of one's own."""
    shutil.copytree(made, tmp_path, dirs_exist_ok=True)
    return tmp_path / "p.toml"


def test_a_layer_that_the_user_puts_into_float_has_its_own_bias_and_weights(plan: Path) -> None:
    text = plan.read_text().replace(
        'node = "second"\nop = "Conv"\nformat = "int8"', 'node = "second"\nop = "Conv"\nformat = "float"'
    )
    plan.write_text(text)
    result = quantize(data(), plan=plan)
    nodes = {node.name: node for node in result.model.graph.node}
    found, (edits, own) = constants(result.model), (repaired().report["repair"]["edits"], constants(net()))
    assert nodes["second"].input[1] == "w2"
    np.testing.assert_array_equal(found["w2"], own["w2"])
    by = {edit["tensor"]: np.float32(edit["by"]) for edit in edits}
    expected = own["w2"].sum((1, 2, 3)) * by["r"] - by["s"]  # the shifts stay
    np.testing.assert_allclose(found[nodes["second"].input[2]], expected, rtol=1e-5, atol=1e-5)
    assert is_said(result.report["calibration"]["notes"], "plan-read.unfitted", layer="second")
    assert result.report["about_mean"]["sqnr_about_mean_db"] > 20


def test_a_table_that_is_taken_out_is_not_obeyed(plan: Path) -> None:
    text = plan.read_text()
    assert '[[bias]]\nnode = "third"' in text
    plan.write_text(text.replace('[[bias]]\nnode = "third"\n', ""))
    report = quantize(plan=plan).report["repair"]
    assert (report["biases"], report["codes"]) == (2, 3)


def test_a_file_of_fitted_values_that_is_another_one(plan: Path) -> None:
    (beside,) = plan.parent.glob("*.repair.*.npz")
    beside.write_bytes(beside.read_bytes()[:-40])
    with pytest.raises(UserError, match="is another file than was written"):
        quantize(plan=plan)
    beside.unlink()
    with pytest.raises(UserError, match="cannot read"):
        quantize(plan=plan)


def test_a_plan_with_repair_is_not_repaired_again(plan: Path) -> None:
    with pytest.raises(UserError, match="the plan states what repair makes of the model"):
        quantize(data(), plan=plan, repair="auto")


def test_a_plan_without_repair_is_repaired_where_that_is_asked_for(tmp_path: Path) -> None:
    onnxq.plan(net(), data(), **COMMON, repair="none").save(tmp_path / "p.toml")
    assert quantize(data(), plan=tmp_path / "p.toml").report["repair"] is None
    asked = quantize(data(), plan=tmp_path / "p.toml", repair="bias")
    assert ledger(asked)["bias"]["verdict"] == "kept"


def test_layers_have_the_steps_that_they_may_have() -> None:
    rules = [
        LayerRule(match=("second",), repair=(), index=1),
        LayerRule(match=("third",), repair=("bias",), index=2),
    ]
    result = quantize(repair=STEPS, layers=rules)
    found, own = constants(result.model), constants(net())
    nodes = {node.name: node for node in result.model.graph.node}
    assert list(nodes["second"].input)[2:] == []
    assert len(nodes["third"].input) == 3
    for name in ("w2", "w3"):
        scale = found[f"{name}_scale"].reshape(-1, 1, 1, 1)
        np.testing.assert_array_equal(found[f"{name}_int8"], np.rint(own[name] / scale))
    scale = found["w1_scale"].reshape(-1, 1, 1, 1)
    assert (found["w1_int8"] != np.rint(own["w1"] / scale)).any()
    assert result.report["repair"]["edits"] == []
    skipped = {entry["node"] for entry in ledger(result)["shift"]["skipped"]}
    assert {"r", "s"} <= skipped


def test_a_goal_takes_repair_along() -> None:
    """A layer that goes to float for a goal has its own weights; predicted is the repaired model."""
    met = quantize(repair=STEPS, min_sqnr=1.0)
    assert content(met) == content(repaired())
    assert met.report["goal"]["met"]
    level = met.report["about_mean"]["sqnr_about_mean_db"]
    result = quantize(repair=STEPS, min_sqnr=level + 2)
    goal = result.report["goal"]
    assert goal["met"]
    (first, *_) = goal["search"]["float"]
    assert goal["default"][0]["measured"] == pytest.approx(level, abs=1e-6)
    nodes = {node.name: node for node in result.model.graph.node}
    weight = nodes[first["node"]].input[1]
    found, own = constants(result.model), constants(net())
    np.testing.assert_array_equal(found[weight], own[weight])


def test_sensitivity_is_that_of_the_repaired_model() -> None:
    part = onnxq.sensitivity(net(), data(), **COMMON, repair=STEPS).report["sensitivity"]
    assert part["repair"]["after_db"] > part["repair"]["before_db"] + 1
    assert part["sqnr_about_mean_db"] == pytest.approx(part["repair"]["after_db"], abs=1.0)  # others judge


def test_reports_count_the_nodes_of_the_repaired_model(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("onnxq.repair.steps.split._MOST_SPLIT", 1.0)
    options = {**COMMON, "repair": "split"}
    reports = (
        onnxq.plan(net(), data(), **options).report,
        onnxq.sensitivity(net(), data(), **options).report,
    )
    assert [report.nodes for report in reports] == [11, 11]  # 5, and three for each of two edits


def test_auto_costs_no_more_than_all_else() -> None:
    part = quantize(method="auto").report["repair"]
    assert part["asked"] == "auto"
    assert part["runs"] <= part["runs_before"]
    assert {entry["step"] for entry in part["steps"]} == set(onnxq.options.settings.STEPS)  # type: ignore[attr-defined]
    left_out = [entry for entry in part["steps"] if entry["verdict"] == "left-out"]
    assert all("runs of the model" in entry["why"] for entry in left_out)


def test_auto_leaves_few_samples_to_calibration() -> None:
    result = quantize(data(12))
    assert result.report["calibration"]["samples"] == 11
    assert "too few" in result.report["repair"]["why_not"]
    asked = quantize(data(12), repair="bias")
    assert asked.report["calibration"]["samples"] == 11  # those that choose calibrate as well
    assert ledger(asked)["bias"]["verdict"] in ("kept", "dropped")


def test_statistics_alone_are_not_enough(tmp_path: Path) -> None:
    onnx.save(net(), tmp_path / "net.onnx")
    onnxq.calibrate(tmp_path / "net.onnx", data(), tmp_path / "s.npz")
    result = onnxq.quantize(
        tmp_path / "net.onnx", stats=tmp_path / "s.npz", compile=False, body="fp32", repair=["bias", "shift"]
    )
    assert "--calib DATA" in result.report["repair"]["why_not"]
    assert {entry["verdict"] for entry in result.report["repair"]["steps"]} == {"not-applicable"}
    both = onnxq.quantize(
        tmp_path / "net.onnx", data(), stats=tmp_path / "s.npz", compile=False, body="fp32", repair="bias"
    )
    assert ledger(both)["bias"]["verdict"] == "kept"


def test_a_target_that_quantizes_by_itself() -> None:
    result = quantize(target="tensorrt-7", body=None, repair="bias")
    assert "by itself" in result.report["repair"]["why_not"]
    assert result.report["calibration"]["samples"] == 56


def test_data_that_is_read_once() -> None:
    part = quantize(iter(data()), repair="bias").report["repair"]
    assert part["steps"][0]["verdict"] == "kept"
    assert part["fitted_on"] >= 40


@pytest.mark.parametrize("method", ["mse", "auto"])
def test_a_bad_sample_is_the_users(method: str) -> None:
    """One that neither calibrates nor verifies."""
    bad = [{"x": one["x"] * np.float32(np.nan if n == 7 else 1)} for n, one in enumerate(data(40))]
    with pytest.raises(UserError, match="item 7 of the data"):
        quantize(bad, repair="bias", method=method)
    skipped = quantize(bad, repair="bias", method=method, skip_bad=True).report
    assert [entry["verdict"] for entry in skipped["repair"]["steps"]] != ["failed"]


@pytest.mark.parametrize(
    "options",
    [{"repair": ()}, {"repair": "x"}, {"repair": 3}, {"repair": ["bias", "none"]}, {"repair_samples": 0}],
)
def test_options_that_make_no_sense(options: dict[str, Any]) -> None:
    with pytest.raises(UserError) as error:
        quantize(**options)
    assert error.value.hint


@pytest.mark.parametrize(
    "where", ["repair_bench.Fitter", "repair_bench.insert", "searches.repair.workload_of"]
)
def test_a_fault_of_ours_costs_no_run(where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: Any, **__: Any) -> None:
        raise ZeroDivisionError("planted")

    monkeypatch.setattr(f"onnxq.pipeline.{where}", fails)
    before = quantize(repair="none", samples=40)
    monkeypatch.setattr(f"onnxq.pipeline.{where}", fails)
    result = quantize(repair=STEPS)
    assert {entry["verdict"] for entry in result.report["repair"]["steps"]} == {"failed"}
    assert "planted" in ledger(result)["bias"]["why"]
    assert result.report["repair"]["edits"] == []
    assert len(result.model.graph.node) == len(before.model.graph.node)


def test_no_file_beside_the_cache_is_edited() -> None:
    result = quantize(target="tensorrt-8.6", body=None, cache=True, repair=STEPS)
    assert ledger(result)["shift"]["verdict"] == "left-out"
    assert "calibration cache" in ledger(result)["shift"]["why"]
    assert ledger(result)["bias"]["verdict"] == "kept"


# -- the command line -----------------------------------------------------------------------------


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="no affinity on this system")
def test_the_same_bytes_on_one_core_and_on_two(tmp_path: Path) -> None:
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) < 2:
        pytest.skip("there is one core")
    for number in (1, 2):
        words = (
            "quantize",
            str(DIGITS / "digits.onnx"),
            "--calib",
            str(DIGITS / "calib"),
            "--no-engine",
            "-q",
        )
        ran = run_alone(
            tmp_path, *words, "--repair", "bias,gptq", "-o", f"{number}.onnx", cores=set(cores[:number])
        )
        assert ran.code == 0, ran.err
    assert (tmp_path / "1.onnx").read_bytes() == (tmp_path / "2.onnx").read_bytes()
    reports = [json.loads((tmp_path / f"{number}.report.json").read_text())["repair"] for number in (1, 2)]
    assert "kept" in {entry["verdict"] for entry in reports[0]["steps"]}
    assert reports[0] == reports[1]


@pytest.mark.parametrize(
    ("given", "message", "hint"),
    [
        ("bais", "there is no repair step 'bais'", "did you mean 'bias'?"),
        ("bias,auto", "repair step 'auto' stands alone", "leave it out"),
        (",", "there is no repair step ''", "known: "),
    ],
)
def test_bad_steps(tmp_path: Path, given: str, message: str, hint: str) -> None:
    onnx.save(net(), tmp_path / "net.onnx")
    np.savez(tmp_path / "d.npz", x=np.concatenate([one["x"] for one in data(8)]))
    ran = run(tmp_path, "quantize", "net.onnx", "--calib", "d.npz", "--repair", given)
    assert ran.code == 2
    assert message in ran.err
    assert hint in ran.err
    assert "Traceback" not in ran.err
    (tmp_path / "onnxq.toml").write_text(f'[repair]\nsteps = "{given}"\n')
    ran = run(tmp_path, "quantize", "net.onnx", "--calib", "d.npz")
    assert ran.code == 2
    assert "line 2" in ran.err


def test_the_screen_says_what_was_won(tmp_path: Path) -> None:
    onnx.save(net(), tmp_path / "net.onnx")
    np.savez(tmp_path / "d.npz", x=np.concatenate([one["x"] for one in data()]))
    (tmp_path / "onnxq.toml").write_text(
        '[repair]\nsteps = ["bias", "shift"]\nsamples = 16\n[[layer]]\nmatch = "third"\nrepair = "none"\n'
    )
    ran = run(tmp_path, "quantize", "net.onnx", "--calib", "d.npz", "--no-engine", "--method", "mse", "-v")
    assert ran.code == 0, ran.err
    section = " ".join(ran.out.split("\n  Repair  ")[1].split("\n  Body ")[0].split())
    # the 16 that choose, and as many others that calibrate as are asked for
    assert "samples, cross-validated; in the end fitted on 32, " in section
    assert " bias kept " in section
    assert " shift not applicable no Relu or Clip is read" in section or " shift kept " in section


# -- edits with which a net that int8 spoils is as good as another --------------------------------


def planted(kind: str) -> onnx.ModelProto:
    """A channel 300 times as large as the others, which the layer behind it undoes."""
    lines = {
        "scale": "a = Conv (x, w1)  r = Relu (a)  b = Conv (r, w2)  s = Relu (b)  y = Conv (s, w3)",
        "smooth": """n = LayerNormalization <axis = -1> (x, gamma, beta)  b = MatMul (n, v2)
            s = Relu (b)  y = MatMul (s, v3)""",
    }[kind]
    shape = "1, 16, 8, 8" if kind == "scale" else "1, 32, 16"
    model = onnx.parser.parse_model(
        f"""<ir_version: 8, opset_import: ["" : 17]>
        net (float[{shape}] x) => (float[{shape}] y) {{ {lines} }}"""
    )
    random = np.random.default_rng(0)
    values = {f"w{number}": random.standard_normal((16, 16, 1, 1)) / 4 for number in (1, 2, 3)}
    values |= {f"v{number}": random.standard_normal((16, 16)) / 4 for number in (2, 3)}
    values |= {"gamma": np.ones(16), "beta": random.standard_normal(16) / 4}
    values["w1"][3] *= 300
    values["w2"][:, 3] /= 300
    values["gamma"][3], values["v2"][3] = 300, values["v2"][3] / 300
    read = {name for node in model.graph.node for name in node.input}
    for number, node in enumerate(model.graph.node):
        node.name = f"{node.op_type}_{number}"
    for name in sorted(read & values.keys()):
        model.graph.initializer.append(onnx.numpy_helper.from_array(values[name].astype(np.float32), name))
    return model


@pytest.mark.parametrize("heavy", [0, 1 << 25])
def test_the_noise_of_one_tensor_alone_is_that_with_all_other_pairs_off(
    heavy: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Fitted biases go off with the weights; a model of large weights is not copied with its pairs."""
    bench, seen, copies = repair_bench._Bench, [], []
    shares, copy = bench.shares, bench._copy

    def both(self: Any, state: Any, edges: Any) -> Any:
        seen.append((self._with_pairs_off(state, edges), self._one_by_one(state, edges)))
        copies.clear()
        return shares(self, state, edges)

    monkeypatch.setattr("onnxq.repair.steps.split._MOST_SPLIT", 1.0)
    monkeypatch.setattr(repair_bench, "_HEAVY", heavy)
    monkeypatch.setattr(bench, "shares", both)
    monkeypatch.setattr(bench, "_copy", lambda *given, **more: copies.append(1) or copy(*given, **more))
    result = quantize(repair=("bias", "split"))
    assert ledger(result)["bias"]["changed"]["biases"] > 0
    ((off, alone),) = seen
    assert len(off) > 2
    assert alone == pytest.approx(off, abs=0.05)  # dB; of 20 to 60
    assert bool(copies) is (heavy > 0)


@pytest.mark.parametrize("kind", ["scale", "smooth"])
def test_an_edit_by_factors(kind: str, tmp_path: Path) -> None:
    model, random = planted(kind), np.random.default_rng(3)
    shape = (1, 16, 8, 8) if kind == "scale" else (1, 32, 16)
    feeds = [{"x": random.standard_normal(shape).astype(np.float32)} for _ in range(64)]
    common = {**COMMON, "repair": kind}
    result = onnxq.quantize(model, feeds, compile=False, **common)
    (entry,) = result.report["repair"]["steps"]
    assert entry["verdict"] == "kept", entry
    assert entry["after_db"] > entry["before_db"] + 5
    verified = result.report["about_mean"]["sqnr_about_mean_db"]
    assert verified == pytest.approx(entry["after_db"], abs=1)
    ((tensor, by),) = result.report["calibration"]["before"].items()
    shown = _shown(result, tensor)
    assert (by, shown["edited"], shown["before"]) == (kind, kind, True)
    assert shown["top"] > 30 * shown["amax"]  # the histogram has the large channel, the scale has not
    assert shown["mean"] is not None
    onnxq.plan(model, feeds, **common).save(tmp_path / "p.toml")
    again = onnxq.quantize(model, plan=tmp_path / "p.toml", compile=False, prove="never")
    assert content(again) == content(result)


def test_a_range_that_clips_is_found() -> None:
    result = quantize(data(160), method="percentile", percentile=90.0, repair="thresholds")
    (entry,) = result.report["repair"]["steps"]
    assert entry["verdict"] == "kept", entry
    assert entry["after_db"] > entry["before_db"] + 1
    assert entry["changed"]["ranges"] >= 1
    verified = result.report["about_mean"]["sqnr_about_mean_db"]
    assert verified == pytest.approx(entry["after_db"], abs=1.0)
