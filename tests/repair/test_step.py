"""A repair step is one file, onnxq's or the user's: it is tried in its turn, and the outputs judge it."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from command import environment, net
from said import is_said

from onnxq.base.errors import UserError
from onnxq.base.registry import at
from onnxq.options.step import steps
from onnxq.quant.draft.edit_kinds import edit_of
from onnxq.repair import steps as package
from onnxq.repair.step_search import is_there
from onnxq.repair.workload import EDITED, Workload

CONTRIBUTING = Path(__file__).parents[2] / "CONTRIBUTING.md"
RANGES = '''"""Ranges of activations that are so many times as wide."""

from onnxq.repair.steps import Proposal, step


@step(nothing="no range is measured")
def {name}(turn):
    amax = {{name: {times} * entry.amax for name, entry in turn.draft.ranges.items()}}
    return Proposal([turn.draft.with_amax(amax)], {{"why": "not"}}, {{"ranges": len(amax)}})
'''
FAILS = '''"""It ends in a fault."""

from onnxq.repair.steps import step


@step(place=0, there=lambda model, draft: draft.planted)
def fails(turn):
    return [][0]
'''
EDITS = '''"""It edits the model, and fits."""

from dataclasses import dataclass

from onnxq.repair.steps import Proposal, step


@dataclass(frozen=True)
class Edit:
    tensor: str
    by: float
    kind: str = "edits"


@step(place=0, edit=Edit, fits=True, reserved="always", search=7)
def edits(turn):
    return Proposal()
'''


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A model, data, and three steps."""
    onnx.save(net(), tmp_path / "net.onnx")
    x = np.random.default_rng(1).standard_normal((40, 32, 8)).astype(np.float32)
    np.savez(tmp_path / "data.npz", x=x)
    (tmp_path / "wider.py").write_text(RANGES.format(name="wider", times=3.0))
    example = CONTRIBUTING.read_text("utf-8").partition("## Add a repair step")[2]
    (tmp_path / "narrower.py").write_text(example.partition("```python\n")[2].partition("```")[0])
    (tmp_path / "fails.py").write_text(FAILS)
    return tmp_path


FAST = (
    "-o", "out.onnx", "--force", "-q", "--no-engine", "--body", "fp32", "--json",
)  # fmt: skip


def ran(folder: Path, files: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    env = environment(folder) | {"ONNXQ_STEPS": files}
    command = [sys.executable, "-m", "onnxq", *arguments]
    return subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True)


def quantized(folder: Path, files: str, repair: str) -> tuple[list[dict[str, Any]], bytes, dict[str, float]]:
    """The ledger, the file, and the ranges; those of percentile 50 are far too narrow."""
    command = ["quantize", "net.onnx", "--calib", "data.npz", "--repair", repair]
    (folder / "onnxq.toml").write_text("[calibration]\npercentile = 50\n[engine]\nexit_zero = true\n")
    done = ran(folder, files, *command, *FAST)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    amax = {name: entry["amax"] for name, entry in report["calibration"]["thresholds"].items()}
    part = report["repair"] or {"steps": []}
    return part["steps"], (folder / "out.onnx").read_bytes(), amax


def test_a_step_of_the_users_is_kept_or_dropped_by_what_is_measured(folder: Path) -> None:
    (failed,), plain, narrow = quantized(folder, "fails.py", "fails")  # the same samples calibrate
    assert failed["verdict"] == "failed"
    entries, wide_file, wide = quantized(folder, "wider.py:narrower.py", "wider,narrower")
    narrower, wider = entries  # of one place: by name
    assert (narrower["step"], narrower["verdict"]) == ("narrower", "dropped")
    assert narrower["after_db"] < narrower["before_db"]
    assert (wider["step"], wider["verdict"]) == ("wider", "kept")
    assert wider["after_db"] > wider["before_db"] == narrower["before_db"]
    assert wider["changed"] == {"ranges": len(narrow)}
    assert wider["skipped"] == [{"node": "why", "why": "not"}]
    assert wide == pytest.approx({name: 3 * amax for name, amax in narrow.items()})
    assert wide_file != plain
    _, dropped_file, same = quantized(folder, "narrower.py", "narrower")
    assert (dropped_file, same) == (plain, narrow)


def test_a_fault_of_a_step_of_the_users_is_undone(folder: Path) -> None:
    """Also where it is asked whether there is something to do, for others that come before it or behind."""
    entries, without, _ = quantized(folder, "", "auto")
    (first, *others), file, _ = quantized(folder, "fails.py", "auto")
    assert (first["step"], first["verdict"]) == ("fails", "failed")
    assert is_said(first["why"], "fault.of", whose="its file", cause="IndexError: list index out of range")
    assert others == entries
    assert file == without


def test_options_know_the_steps_of_the_users(folder: Path) -> None:
    shown = ran(folder, "wider.py", "quantize", "--help").stdout
    assert "thresholds" in shown
    assert "wider" in shown
    (folder / "onnxq.toml").write_text(
        '[repair]\nsteps = ["wider"]\n[[layer]]\nop = "MatMul"\nrepair = ["wyder"]\n'
    )
    done = ran(folder, "wider.py", "quantize", "net.onnx", "--calib", "data.npz")
    assert done.returncode == 2
    assert "there is no repair step 'wyder'" in done.stderr
    assert "did you mean 'wider'" in done.stderr


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("def f(:\n", "line 1: SyntaxError"),
        (RANGES.format(name="shift", times=2), "has a step 'shift', and there is one"),
        (RANGES.format(name="auto", times=2), "has a step 'auto', and there is one"),
        ("", "has no repair step"),
    ],
)
def test_a_file_that_cannot_be_used_is_the_users_error(folder: Path, text: str, said: str) -> None:
    (folder / "other.py").write_text(text)
    done = ran(folder, "other.py", "--version")
    assert done.returncode == 2
    assert said in done.stderr
    assert "Traceback" not in done.stderr


@pytest.fixture
def edits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A step of the user's in this process."""
    (tmp_path / "edits.py").write_text(EDITS)
    (tmp_path / "fails.py").write_text(FAILS)
    monkeypatch.setenv("ONNXQ_STEPS", str(tmp_path))
    steps.cache_clear()
    yield
    monkeypatch.undo()
    steps.cache_clear()


@pytest.mark.usefixtures("edits")
def test_plans_and_the_workload_ask_the_steps() -> None:
    edit: Any = edit_of({"kind": "edits", "tensor": "x", "by": 2.0})
    assert (edit.tensor, edit.by, type(edit).__name__) == ("x", 2.0, "Edit")
    with pytest.raises(UserError, match="edit 'edits' of tensor 'x' is not complete"):
        edit_of({"kind": "edits", "tensor": "x"})
    with pytest.raises(UserError, match="no kind of edit 'fails'"):
        edit_of({"kind": "fails", "tensor": "x"})
    work = Workload(50, 10, 3)
    assert work.cost("edits", 2) == 7 + 2 * (3 + EDITED + 2 * 10)
    assert work.cost("fails") == 3  # of the same place: nothing is fitted yet
    assert work.cost("smooth") == 3 + EDITED + 2 * 10  # behind what fits
    assert [work.is_sure(name) for name in ("edits", "fails")] == [True, False]
    model: Any = None
    assert [is_there(steps()[name], model, model) for name in ("edits", "fails")] == [
        True,
        True,
    ]  # its turn tells the fault


def test_each_file_holds_one_step_of_its_name() -> None:
    files = {path.stem for path in Path(package.__file__).parent.glob("*.py")} - {"__init__"}
    ours = [one for one in steps().values() if one.ours]
    assert {one.name for one in ours} == files
    assert len({one.place for one in ours}) == len(ours)
    assert {name for one in ours for name in one.goes_with} <= files
    for one in ours:
        assert one.edit is None or {"kind", "tensor"} <= set(at(str(one.edit)).__dataclass_fields__)
        assert one.there is None or callable(at(str(one.there)))


def test_steps_are_tried_in_their_order() -> None:
    """By their places, not by their names: each is judged with what those before it left."""
    wanted = ["lattice", "scale", "smooth", "residual", "bias", "shift", "gptq", "split", "thresholds"]
    assert [name for name, one in steps().items() if one.ours] == wanted
