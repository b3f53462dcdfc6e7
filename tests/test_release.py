"""What a release is made of: one version, constraints, the action, hooks, and what lists licences."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import onnx
import pytest
from packaging.requirements import Requirement
from packaging.version import Version

import onnxq
from onnxq.base.version import VERSION
from onnxq.cli.each_model import main as each_model
from onnxq.cli.versions import PACKAGES, versions
from release.licences import licences

sys.path.insert(0, str(Path(__file__).resolve().parent / "checks"))
from lint_nets import MISTAKES, net

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]


def text_of(name: str) -> str:
    return (ROOT / name).read_text("utf-8")


def test_there_is_one_version() -> None:
    assert onnxq.__version__ == VERSION
    assert "version" not in PROJECT
    assert PROJECT["dynamic"] == ["version"]
    assert re.findall(r"^## \[([^]]+)\]", text_of("CHANGELOG.md"), re.MULTILINE)[0] == VERSION
    assert re.findall(r"^version: (.*)$", text_of("CITATION.cff"), re.MULTILINE) == [VERSION]


def test_the_version_says_what_it_runs_with(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = versions()
    assert lines[0] == f"onnxq {VERSION}"
    assert f"onnx {onnx.__version__}" in lines
    assert [line.split()[0] for line in lines[2:]] == list(PACKAGES)
    monkeypatch.setattr("onnxq.cli.versions.PACKAGES", ("no-such-package",))
    assert versions()[-1] == "no-such-package not installed"


def test_the_changelog_is_in_its_form() -> None:
    text = text_of("CHANGELOG.md")
    headings = re.findall(r"^### (.*)$", text, re.MULTILINE)
    assert set(headings) <= {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}
    for head in re.findall(r"^## (.*)$", text, re.MULTILINE):
        assert re.fullmatch(r"\[\d+\.\d+\.\d+\] - (unreleased|\d{4}-\d\d-\d\d)", head)


def test_the_constraints_satisfy_what_is_required() -> None:
    lines = [line for line in text_of("constraints.txt").splitlines() if not line.startswith("#")]
    stated = dict(line.split("==") for line in lines)
    assert list(stated) == sorted(stated)
    required = [*PROJECT["dependencies"], *PROJECT["optional-dependencies"]["trt"]]
    for requirement in map(Requirement, required):
        name = re.sub(r"[-_.]+", "-", requirement.name).lower()
        assert requirement.specifier.contains(Version(stated[name])), requirement


# -- the action and the hook -----------------------------------------------------------------------------


@pytest.fixture
def models(tmp_path: Path) -> Path:
    """A folder with `bad.onnx` and `a dir/good.onnx`."""
    bad, good = MISTAKES["zero-point"]
    (tmp_path / "a dir").mkdir()
    onnx.save(net(bad), tmp_path / "bad.onnx")
    onnx.save(net(good), tmp_path / "a dir/good.onnx")
    return tmp_path


def acted(
    folder: Path, step: str, run: Path | None = None, **inputs: str
) -> subprocess.CompletedProcess[str]:
    """Runs a step of the action, as GitHub's runner does."""
    variables = {
        **os.environ, "PYTHONPATH": str(ROOT), "RUNNER_TEMP": str(folder / "temp"),
        "ONNXQ_RUN": str(run or sys.executable),
        "GITHUB_ACTION_PATH": str(ROOT), "GITHUB_OUTPUT": str(folder / "output"),
        **{f"ONNXQ_{name.upper()}": value for name, value in inputs.items()},
    }  # fmt: skip
    command = ["bash", str(ROOT / "release/action.sh"), step]
    return subprocess.run(command, cwd=folder, env=variables, capture_output=True, text=True, check=False)


def test_a_name_in_the_action_s_prose_is_no_command(tmp_path: Path) -> None:
    """The runner reads both streams: what a model calls its nodes is not to be taken for commands."""
    run = tmp_path / "run"
    run.write_text("#!/bin/sh\necho '::error file=a::found'\necho ' ::stop-commands::x ##[add-mask]y' >&2\n")
    run.chmod(0o755)
    ran = acted(tmp_path, "check", run, models="a.onnx")
    assert ran.stdout == "::error file=a::found\n"
    assert ran.stderr == " : :stop-commands: :x # #[add-mask]y\n"


def test_the_action_checks_each_model(models: Path) -> None:
    quick = "--no-engine\n--prove\nnever\n"
    ran = acted(models, "check", models="**/*.onnx\n", flags=quick)
    assert ran.returncode == 1, ran.stderr
    assert {line.split(",")[0] for line in ran.stdout.splitlines()} == {"::error file=bad.onnx"}
    ran = acted(models, "check", models="a dir/good.onnx", flags=quick)
    assert (ran.returncode, ran.stdout) == (0, "")
    ran = acted(
        models, "check", models="$(touch hacked)\n; touch hacked", flags=f"{quick}--op\n$(touch hacked)"
    )
    assert ran.returncode == 2
    assert "'$(touch hacked)'" in ran.stderr
    assert not (models / "hacked").exists()
    assert acted(models, "check", models="\n", flags=quick).returncode == 2


def test_the_action_writes_a_log_for_each_model(models: Path) -> None:
    ran = acted(models, "check", models="**/*.onnx", flags="--no-engine\n--prove\nnever", form="sarif")
    assert ran.returncode == 1, ran.stderr
    name, _, folder = (models / "output").read_text().strip().partition("=")
    assert name == "sarif"
    logs = [json.loads(path.read_text())["runs"][0] for path in sorted(Path(folder).iterdir())]
    assert {one["automationDetails"]["id"]: len(one["results"]) for one in logs} == {
        "onnxq/a%20dir/good.onnx/": 0, "onnxq/bad.onnx/": 2,
    }  # fmt: skip


def test_the_action_hands_on_its_inputs() -> None:
    """Through the environment alone, so that nothing of them is read as shell."""
    text = text_of("action.yml")
    inputs, _, runs = text.partition("\nruns:\n")
    names = re.findall(
        r"^  (\w+):$", inputs.partition("inputs:\n")[2].partition("outputs:\n")[0], re.MULTILINE
    )
    given = dict(re.findall(r"^        (ONNXQ_\w+): \$\{\{ inputs\.(\w+) \}\}$", runs, re.MULTILINE))
    assert sorted(given.values()) == sorted(names)
    assert all(key == f"ONNXQ_{name.upper()}" for key, name in given.items())
    lines = re.findall(r"^      run: (.*)$", runs, re.MULTILINE)
    assert lines == [f'bash "$GITHUB_ACTION_PATH/release/action.sh" {step}' for step in ("install", "check")]
    script = text_of("release/action.sh")
    assert all(key in script for key in given)


def test_the_hook_takes_many_files(models: Path, monkeypatch: pytest.MonkeyPatch, capfd: Any) -> None:
    monkeypatch.chdir(models)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    text = text_of(".pre-commit-hooks.yaml")
    (given,) = re.findall(r"^  args: \[(.*)\]$", text, re.MULTILINE)
    assert "entry: python -P -m onnxq.cli.each_model\n" in text
    args = [word.strip() for word in given.split(",")]
    assert each_model([*args, "bad.onnx", "a dir/good.onnx"]) == 1
    assert each_model([*args, "a dir/good.onnx"]) == 0
    assert each_model([*args, "none.onnx", "bad.onnx"]) == 2
    assert each_model(args) == 2
    assert "no model" in capfd.readouterr().err


def test_the_hook_is_told_that_a_check_was_killed(models: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file is checked by its own name, whatever it is as a pattern; what died is no success."""
    monkeypatch.chdir(models)
    shutil.copy("bad.onnx", "m[1].onnx")
    shutil.copy("a dir/good.onnx", "m1.onnx")
    asked: list[list[str]] = []

    def run(command: list[str], **options: Any) -> subprocess.CompletedProcess[bytes]:
        asked.append(command)
        return subprocess.CompletedProcess(command, -9 if len(asked) == 1 else 0)

    monkeypatch.setattr(subprocess, "run", run)
    assert each_model(["--", "m[1].onnx", "m?.onnx"]) == 137
    assert [command[-1] for command in asked] == ["m[1].onnx", "m1.onnx"]


def test_licences_of_a_list() -> None:
    components = [
        {
            "name": "b",
            "version": "1",
            "licenses": [{"license": {"id": "MIT"}}, {"license": {"name": "X\nmore"}}],
        },
        {"name": "A", "licenses": [{"expression": "MIT OR Apache-2.0"}]},
        {"name": "c", "version": "2"},
    ]
    assert list(licences({"components": components})) == [
        ("A", "", "MIT OR Apache-2.0"), ("b", "1", "MIT; X"), ("c", "2", "not stated"),
    ]  # fmt: skip
