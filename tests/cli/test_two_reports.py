"""`onnxq diff`: exit codes, files and documents."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from command import ROOT, Ran

Run = Callable[..., Ran]
EARLY = ROOT / "tests" / "analysis" / "early.report.json"


@pytest.fixture
def worse(tmp_path: Path) -> Path:
    """A report that is worse than the early one: its only output is 3 dB further off."""
    document = json.loads(EARLY.read_text("utf-8"))
    document["accuracy"][0]["sqnr_db"] -= 3
    path = tmp_path / "worse.report.json"
    path.write_text(json.dumps(document), "utf-8")
    return path


def test_strict_ends_with_1_where_b_is_worse(worse: Path, onnxq: Run) -> None:
    told = onnxq("diff", EARLY, worse)
    assert told.code == 0
    assert "SQNR logits: 40.0042 -> 37.0042 (-3 dB)" in told.out
    assert onnxq("diff", EARLY, worse, "--strict").code == 1
    assert onnxq("diff", worse, EARLY, "--strict").code == 0
    (worse.parent / "onnxq.toml").write_text("[diff]\nmargin_db = 3.5\n")
    assert onnxq("diff", EARLY, worse, "--strict").code == 0


def test_the_document_and_the_table_have_all_rows(worse: Path, onnxq: Run, tmp_path: Path) -> None:
    ran = onnxq("diff", EARLY, worse, "-q", "--json", "--csv", "rows.csv")
    found = ran.json()
    assert (found["kind"], found["schema"], found["counts"]["worse"]) == ("diff", 1, 1)
    with (tmp_path / "rows.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert [row["what"] for row in rows] == [row["what"] for row in found["differences"]] == ["SQNR"]
    assert float(rows[0]["change"]) == found["differences"][0]["change"]


def test_margins_of_the_file(worse: Path, onnxq: Run, tmp_path: Path) -> None:
    (tmp_path / "onnxq.toml").write_text("[diff]\nmargin_db = 4\n")
    assert onnxq("diff", EARLY, worse, "--strict").code == 0


@pytest.mark.parametrize("content", ["no JSON", '{"schema": 1}'])
def test_what_is_no_report_ends_with_2(content: str, worse: Path, onnxq: Run) -> None:
    worse.write_text(content, "utf-8")
    ran = onnxq("diff", EARLY, worse)
    assert ran.code == 2
    assert "is no report" in ran.err
    assert "hint: " in ran.err
    assert "Traceback" not in ran.err
