"""A bundle, measured by its script on a stand-in for trtexec; what is chosen, and what is refused."""

from __future__ import annotations

import ast
import itertools
import json
import math
import random
import re
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest

from onnxq.base.errors import UserError
from onnxq.compiled.exported import read_exported
from onnxq.documents.measurements import read_measurements
from onnxq.emit import measure
from onnxq.inspection.measured_bundle import proposed, times_of
from tests.measuring.machine import MACHINE, MS, Run, bundled, results


def test_the_fastest_is_used_and_what_gains_is_combined(folder: Path, run: Run) -> None:
    code, said, _ = run(folder)
    assert code == 0
    assert said.startswith("Use without-3.onnx: 1.4")
    entries = results(folder)["candidates"]
    assert {entry["status"] for entry in entries.values()} == {"right"}
    assert entries["int8"]["outputs_db"]["logits"] > 25
    times = read_exported(folder / "int8.layers.json", folder / "int8.times.json")
    assert [kernel.seconds for kernel in times] == [pytest.approx(0.8e-3)]
    found = bundled(folder, target="tensorrt-11.1")
    assert not found.done
    assert next(one.parts for one in found.candidates if one.parts) == ("without-1", "without-3")
    code, said, _ = run(folder)
    assert said.startswith("Use combined-1.onnx: 1.5")
    found = bundled(folder, target="tensorrt-11.1")
    assert found.done
    assert found.answer[0].startswith("Use combined-1.onnx")
    layers = {one.name: one.layers for one in found.candidates}
    assert layers["combined-1"]["int8"] < layers["without-1"]["int8"] < layers["int8"]["int8"]


def test_int8_that_gains_nothing_is_not_used(folder: Path, run: Run) -> None:
    slower = {name.replace("-", "_"): {"ms": 0.99} for name in MS if name != "float16"}
    code, said, _ = run(folder, **slower)
    assert code == 0
    assert said.startswith("Use float16.onnx: int8 gains less than 2%")


def test_one_candidate_that_fails_is_a_result(folder: Path, run: Run) -> None:
    code, said, _ = run(folder, without_3={"crash": True}, without_1={"refuse": True}, int8={"wrong": 0.5})
    assert code == 0
    status = {name: entry["status"] for name, entry in results(folder)["candidates"].items()}
    assert (status["without-3"], status["without-1"], status["int8"]) == ("crashed", "refused", "wrong")
    assert said.startswith("Use scales.onnx")
    assert "without-1: refused: could not find any implementation for node x" in said
    assert "int8: wrong: output logits is " in said


def test_an_engine_that_no_graph_captures(folder: Path, run: Run) -> None:
    code, said, _ = run(folder, float16={"no_graph": True})
    assert (code, said.splitlines()[0][:18]) == (0, "Use without-3.onnx")


def test_it_goes_on_where_it_was_interrupted(folder: Path, run: Run) -> None:
    code, said, _ = run(folder, "--time-limit", "2.5", slow=1.0)
    assert code == 1
    assert "run measure.py again, it goes on" in said
    built = [n for n, entry in results(folder)["candidates"].items() if entry["status"] != "new"]
    before = {name: (folder / f"{name}.engine").stat().st_mtime_ns for name in built}
    assert before
    assert len(before) < 8
    code, said, err = run(folder)
    assert code == 0
    assert all((folder / f"{name}.engine").stat().st_mtime_ns == at for name, at in before.items())
    assert not any(f"building {name}\n" in err for name in built)
    assert run(folder)[1] == said


def test_what_cannot_be_measured_is_refused(folder: Path, run: Run, tmp_path: Path) -> None:
    code, _, err = run(folder, gpu=False)
    assert (code, "there is no GPU here" in err) == (2, True)
    code, _, err = run(folder, version=100300)
    assert (code, "this is TensorRT 10.3, and the bundle is for 11.1" in err) == (2, True)
    assert run(folder, "--any-version", version=100300)[0] == 0
    code, _, err = run(folder)
    assert (code, "results.json is of another TensorRT (10.3)" in err) == (2, True)
    (folder / "results.json").write_text("{")
    code, _, err = run(folder)
    assert (code, "results.json cannot be read" in err) == (2, True)
    with pytest.raises(UserError, match=r"results\.json"):
        bundled(folder, target="tensorrt-11.1")
    (folder / "results.json").unlink()
    with (folder / "int8.onnx").open("ab") as file:
        file.write(b"x")
    code, _, err = run(folder)
    assert (code, "int8.onnx is not the file that was bundled" in err) == (2, True)
    (folder / "int8.onnx").unlink()
    assert "int8.onnx is missing" in run(folder)[2]
    assert "has no manifest.json" in run(tmp_path)[2]
    with pytest.raises(UserError, match="not an empty folder"):
        bundled(folder, target="tensorrt-11.1")


def test_no_room_on_the_disk(folder: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measure.shutil, "disk_usage", lambda _: shutil._ntuple_diskusage(1, 1, 1000))
    code, _, err = run(folder)
    assert (code, "0 MB are free" in err) == (2, True)


def test_results_of_another_model(folder: Path, run: Run, tmp_path: Path) -> None:
    run(folder)
    held = json.loads((folder / "manifest.json").read_text())
    (folder / "manifest.json").write_text(json.dumps({**held, "model_sha256": "0" * 64}))
    code, _, err = run(folder)
    assert (code, "results.json is of another bundle" in err) == (2, True)
    with pytest.raises(UserError, match="bundle of another model"):
        bundled(folder, target="tensorrt-11.1")


def test_what_is_in_a_bundle(whole: Path) -> None:
    held = json.loads((whole / "manifest.json").read_text())
    assert [one["name"] for one in held["candidates"]][:2] == ["float16", "int8"]
    assert len({measure.sha256(whole / one["file"]) for one in held["candidates"]}) == len(held["candidates"])
    for name, digest in held["files"].items():
        assert measure.sha256(whole / name) == digest
    own = sum((whole / one["file"]).stat().st_size for one in held["candidates"])
    arrays = sum(path.stat().st_size for path in whole.glob("*.plan.*"))
    whole_size = sum(path.stat().st_size for path in whole.iterdir())
    reports = sum(path.stat().st_size for path in whole.glob("*.report.json"))
    assert whole_size - arrays - reports < 1.3 * own
    assert len(Path(measure.__file__).read_text().splitlines()) <= 900


@pytest.mark.parametrize(("target", "version"), [("tensorrt-8.6", 8601), ("tensorrt-10.3", 100300)])
def test_older_releases_have_flags_of_their_own(target: str, version: int, tmp_path: Path, run: Run) -> None:
    found = bundled(tmp_path / "b", target=target)
    flags = {one.name: one.build for one in found.candidates}
    assert "--int8" not in flags["float16"]
    assert {"--int8", "--fp16"} <= set(flags["int8"])
    assert run(tmp_path / "b", version=version)[0] == 0


def test_a_target_that_calibrates_by_itself_has_no_candidates(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="calibrates by itself"):
        bundled(tmp_path / "b", target="tensorrt-7")


class World:
    """Costs that are hidden: of groups in float16 and in int8, and of each place where the type changes."""

    def __init__(self, seed: int, groups: int = 4) -> None:
        self.random = random.Random(seed)
        draw = self.random.uniform
        self.float16 = [draw(0.5, 2) for _ in range(groups)]
        self.int8 = [one * draw(0.55, 1.35) for one in self.float16]
        self.rest, self.change = draw(0.2, 1), draw(0, 0.06)
        self.every = frozenset(range(groups))

    def ms(self, int8: frozenset[int]) -> float:
        own = [self.int8[g] if g in int8 else self.float16[g] for g in self.every]
        ends = [False, *(g in int8 for g in sorted(self.every)), False]
        return self.rest + sum(own) + self.change * sum(a != b for a, b in itertools.pairwise(ends))


class Drifting(measure.Measuring):
    """Times with 3 % of noise, of a clock that drifts by 10 %."""

    def __init__(self, world: World, placed: dict[str, frozenset[int]]) -> None:
        self.world, self.placed, self.count = world, placed, 0
        self.results, self.until, self.say = {"candidates": {}}, math.inf, lambda line: None

    def save(self) -> None:
        pass

    def _timed(self, name: str) -> float:
        self.count += 1
        clock = 1 + 0.1 * math.sin(self.count / 9)
        return self.world.ms(self.placed[name]) * clock * self.world.random.gauss(1, 0.03)


def test_what_is_chosen_is_near_the_best_of_all_placements(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measure, "clocks", lambda: "")
    near = slower = 0
    for seed in range(100):
        world = World(seed)
        placed = {"float16": frozenset[int](), "int8": world.every}
        placed |= {f"without-{g}": world.every - {g} for g in world.every}
        made = {"int8": frozenset[str](), **{name: frozenset([name]) for name in [*placed][2:]}}
        device = Drifting(world, placed)
        for trip in range(3):
            device.time([*placed])
            times = device.times([*placed])
            tries = proposed(times, made, 12 - len(placed)) if trip < 2 else []
            for number, parts in enumerate(tries):
                name = f"combined-{trip}-{number}"
                made[name] = frozenset(parts)
                placed[name] = world.every - {int(part[-1]) for part in parts}
            if not tries:
                break
        assert len(placed) <= 12
        chosen = measure.choose(times, "float16", dict.fromkeys(times, 0.0))
        took = world.ms(placed[chosen])
        best = min(
            world.ms(frozenset(some))
            for size in range(5)
            for some in itertools.combinations(world.every, size)
        )
        near += took <= 1.02 * best
        slower += took > 1.005 * world.ms(frozenset())
    assert near >= 95
    assert slower == 0


def test_ratios_of_rounds_do_not_see_what_all_share() -> None:
    clock = np.linspace(1, 2, 10)
    took, low, high = measure.ratio(list(0.5 * clock), list(clock))
    assert (took, low, high) == (pytest.approx(0.5), pytest.approx(0.5), pytest.approx(0.5))
    assert measure.ratio([1.0], [2.0])[1:] == (0.0, math.inf)
    assert not measure.apart({"a": [1.0, 1.1, 0.9], "b": [1.02, 1.0, 1.06]})


def test_nan_of_an_engine_is_wrong_and_of_the_model_is_no_matter() -> None:
    wanted = np.array([1.0, -np.inf, 3.0])
    assert measure.powers(wanted, np.array([1.0, 7.0, 3.0])) == (1.0, 0.0)
    assert measure.decibels(*measure.powers(wanted, np.array([np.nan, 7.0, 3.0]))) < -99
    said = measure._NO_NUMBER.sub(lambda one: measure._JSON[one[0]], '[1, nan, -inf, "inf", -nan]')
    assert said == '[1, NaN, -Infinity, "inf", NaN]'


def test_the_script_is_one_for_python_3_8() -> None:
    text = Path(measure.__file__).read_text("utf-8")
    tree = ast.parse(text, feature_version=(3, 8))
    modules = {
        name.partition(".")[0]
        for node in ast.walk(tree)
        for name in ([one.name for one in node.names] if isinstance(node, ast.Import)
                     else [str(node.module)] if isinstance(node, ast.ImportFrom) else [])
    }  # fmt: skip
    assert modules - set(sys.stdlib_module_names) == {"numpy"}
    assert not re.search(r"strict=|removeprefix|removesuffix|zoneinfo|\bmatch ", text)


def test_a_gain_that_is_not_shown_is_none() -> None:
    times = {"float16": [1.0, 1.0, 1.0, 1.0], "int8": [0.7, 1.2, 0.8, 1.05]}
    assert measure.choose(times, "float16", dict.fromkeys(times, 0.0)) == "float16"
    times["int8"] = [0.9, 0.91, 0.89, 0.9]
    assert measure.choose(times, "float16", dict.fromkeys(times, 0.0)) == "int8"
    times["near"] = [0.903, 0.912, 0.893, 0.903]
    assert measure.choose(times, "float16", {"float16": 60, "int8": 20, "near": 30}) == "near"


def test_each_round_begins_with_another_one() -> None:
    order: list[str] = []

    class Ordered(Drifting):
        def _timed(self, name: str) -> float:
            order.append(name)
            return 1.0 if name == "a" else 1.015

    Ordered(World(0), {}).time(["a", "b", "c"])
    assert [order[place] for place in (0, 3, 6)] == ["a", "b", "c"]


@pytest.mark.parametrize(("version", "size"), [((8, 6), 4), ((10, 3), 8)])
def test_older_releases_are_fed_int32(version: tuple[int, int], size: int, tmp_path: Path) -> None:
    device = Drifting(World(0), {})
    device.tool = type("Tool", (), {"version": version, "graph": False})()  # type: ignore[assignment]
    device.bundle = type("B", (), {"folder": tmp_path, "manifest": {"dynamic": "ids:1x3"}})()  # type: ignore
    words = device._fed("int8", {"ids": np.array([[1, 2, 3]])}, 0)
    assert (tmp_path / "fed" / "0.0.bin").stat().st_size == 3 * size
    assert f"--loadInputs=ids:{tmp_path}/fed/0.0.bin" in words
    assert "--shapes=ids:1x3" in words


def test_what_was_measured_is_of_the_rounds_that_all_ran_in(tmp_path: Path) -> None:
    entries = {
        "a": {"status": "right", "ms": {"0": 1.0, "1": 2.0}},
        "b": {"status": "right", "ms": {"1": 3.0}},
    }
    entries |= {"c": {"status": "wrong", "ms": {}}}
    (tmp_path / "results.json").write_text(
        json.dumps(
            {
                "candidates": entries,
                "answer": ["Use b"],
                **dict.fromkeys(MACHINE, "x"),
                "schema": 1,
                "kind": "measurements",
            }
        )
    )
    found = read_measurements(tmp_path / "results.json")
    assert (times_of(found), found.answer) == ({"a": [2.0], "b": [3.0]}, ("Use b",))
