"""Which tests are deep is measured; every test is in one tier, and in one shard of it."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tiers import LIST, Spent, costs, function_of, of_shard, read, shard, shared_out, written

ROOT = Path(__file__).resolve().parent.parent

LISTED = {"a.py::x": 3.0, "a.py::C::y[1]": 2.0, "b.py::gone": 9.0}


def test_only_what_was_measured_is_listed_anew() -> None:
    text = written({"b.py::z[1]": 4.0, "b.py::z[2]": 0.3, "a.py::x": 0.2, "a.py::new": 0.2}, LISTED)
    assert read(text) == {"a.py::C::y[1]": 2.0, "b.py::gone": 9.0, "b.py::z[1]": 4.0}
    assert written({}, read(text)) == text


def test_a_function_all_of_whose_cases_are_deep_is_one_line() -> None:
    assert read(written({"a.py::x[p q]": 4.0, "a.py::x[2]": 5.0}, {})) == {"a.py::x": 9.0}
    assert read(written({"a.py::x[p q]": 4.0, "a.py::x[2]": 0.3}, {})) == {"a.py::x[p q]": 4.0}


def test_a_case_costs_its_part_of_a_function() -> None:
    assert costs(["a.py::x[1]", "a.py::x[2]", "a.py::C::y[1]", "c.py::z"], LISTED) == {
        "a.py::x[1]": 1.5, "a.py::x[2]": 1.5, "a.py::C::y[1]": 2.0, "c.py::z": 0.05,
    }  # fmt: skip


def test_shards_cost_the_same_and_hold_each_test_once() -> None:
    known = {f"a.py::x[{number}]": 1.0 + number % 7 for number in range(100)}
    parts = [shard(known, part, 3) for part in (1, 2, 3)]
    assert sorted(test for part in parts for test in part) == sorted(known)
    loads = [sum(known[test] for test in part) for part in parts]
    assert max(loads) - min(loads) <= 7
    assert shard(known, 1, 1) == set(known)
    assert shard({}, 1, 4) == set()


@pytest.mark.parametrize("text", ["", "0/3", "4/3", "1", "1/", "a/b", "-1/3"])
def test_a_shard_that_there_is_not(text: str) -> None:
    assert of_shard("2/3") == (2, 3)
    with pytest.raises(pytest.UsageError, match="give one like 1/3"):
        of_shard(text)


def test_all_that_use_a_fixture_share_its_cost() -> None:
    spent = {
        "a": Spent(5.0, {"one": 4.0, "unasked": 0.5}, ["one", "none"]),
        "b": Spent(0.5, {}, ["one"]),
        "c": Spent(0.25, {}, []),
    }
    assert shared_out(spent) == {"a": 3.0, "b": 2.5, "c": 0.25}


def test_what_is_listed_is_there() -> None:
    gone = []
    for function in sorted({function_of(test) for test in read(LIST.read_text("utf-8"))}):
        path, *_, name = function.split("::")
        file = ROOT / path
        if not file.exists() or not re.search(rf"^ *def {name}\(", file.read_text("utf-8"), re.MULTILINE):
            gone.append(function)
    assert not gone, "no such tests; `make deep`, or leave them out:\n" + "\n".join(gone)


TESTS = """
import time
import pytest

@pytest.mark.parametrize("long", [True, False])
def test_a(long):
    while long and time.process_time() < 2.5:
        pass

def test_b():
    pass
"""


def outcome(folder: Path, *options: str) -> tuple[int, list[str]]:
    """The exit code of pytest in a folder, and the tests that it ran."""
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-v", *options, "tests"],
        cwd=folder, capture_output=True, text=True, check=False,
    )  # fmt: skip
    return ran.returncode, re.findall(r"(\S+) PASSED", ran.stdout)


def test_a_run(tmp_path: Path) -> None:
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests/test_x.py").write_text(TESTS)
    (tmp_path / "tests/conftest.py").write_text('pytest_plugins = ("tiers",)\n')
    (tmp_path / "tests/deep.txt").write_text("   7 tests/test_x.py::test_b\n")
    shutil.copy(LIST.with_name("tiers.py"), tmp_path / "tests")
    long, short, other = (
        "tests/test_x.py::test_a[True]",
        "tests/test_x.py::test_a[False]",
        "tests/test_x.py::test_b",
    )
    assert outcome(tmp_path, "--measure") == (0, [long, short, other])
    assert list(read((tmp_path / "tests/deep.txt").read_text())) == [long]
    assert outcome(tmp_path, "--tier", "quick") == (0, [short, other])
    assert outcome(tmp_path, "--tier", "deep", "--shard", "1/2") == (0, [long])
    assert outcome(tmp_path, "--tier", "deep", "--shard", "2/2") == (0, [])
    assert outcome(tmp_path, "--shard", "3/2")[0] == pytest.ExitCode.USAGE_ERROR
    (tmp_path / "tests/deep.txt").write_text("")
    assert outcome(tmp_path, "--tier", "deep")[0] == pytest.ExitCode.NO_TESTS_COLLECTED
