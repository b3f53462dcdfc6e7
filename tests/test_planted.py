"""Lines of onnxq that are broken on purpose, one at a time, in a copy: the tests named with each notice it.

`planted.toml` lists them. Of each only the tests that reach it are run, so that all take a minute or two.
Where a line or a test is gone, name another one: a line whose fault users would notice.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
from tiers import LIST, function_of, read

ROOT = Path(__file__).resolve().parent.parent
PLANTED = tomllib.loads(Path(__file__).with_name("planted.toml").read_text("utf-8"))["planted"]
PACKAGES = (
    "analysis", "base", "body", "calib", "cli", "compiled", "data", "documents", "emit", "graph", "judge",
    "methods", "noise", "page", "pipeline", "quant", "repair", "rewrite", "run",
)  # fmt: skip


def test_lines_of_all_packages_are_planted() -> None:
    assert len(PLANTED) >= 40
    assert {Path(one["file"]).parts[1] for one in PLANTED} == {*PACKAGES}
    assert all(one["line"] != one["broken"] for one in PLANTED)


def test_every_line_is_there_once() -> None:
    found = [(one, (ROOT / one["file"]).read_text("utf-8").count(one["line"])) for one in PLANTED]
    wrong = [f"{one['file']}: {count} times: {one['line']}" for one, count in found if count != 1]
    assert not wrong, "name another line in tests/planted.toml:\n" + "\n".join(wrong)


def test_most_are_noticed_by_quick_tests() -> None:
    deep = read(LIST.read_text("utf-8"))
    of_lines = [{name for test in one["tests"] for name in (test, function_of(test))} for one in PLANTED]
    noticed = [names for names in of_lines if names.isdisjoint(deep)]
    assert len(noticed) >= 36, "CONTRIBUTING.md says how many"


@pytest.fixture(scope="session")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("planted")
    for name in ("onnxq", "rules", "tests", "sample_models", "benchmarks"):
        shutil.copytree(ROOT / name, folder / name)
    shutil.copy(ROOT / "pyproject.toml", folder)
    return folder


@pytest.mark.parametrize("planted", PLANTED, ids=[one["file"] for one in PLANTED])
def test_a_broken_line_is_noticed(planted: dict[str, Any], copy: Path) -> None:
    file, text = copy / planted["file"], (ROOT / planted["file"]).read_text("utf-8")
    assert text.count(planted["line"]) == 1, "the line is not there any more: name another one"
    file.write_text(text.replace(planted["line"], planted["broken"]), "utf-8")
    try:
        ran = subprocess.run(
            [sys.executable, "-m", "pytest", "-n", "0", "-p", "no:cacheprovider", *planted["tests"]],
            cwd=copy, env={**os.environ, "PYTHONPATH": str(copy), "PYTHONDONTWRITEBYTECODE": "1"},
            capture_output=True, text=True, check=False,
        )  # fmt: skip
    finally:
        shutil.copy2(ROOT / planted["file"], file)
    assert ran.returncode == pytest.ExitCode.TESTS_FAILED, ran.stdout + ran.stderr
    blind = [test for test in planted["tests"] if f"FAILED {test}" not in ran.stdout]
    assert not blind, f"they do not notice it: {blind}"
