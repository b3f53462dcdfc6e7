"""`onnxq report` of two reports: exit codes, files and documents."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from command import ROOT, Ran
from said import is_said

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
    told = onnxq("report", EARLY, worse)
    assert told.code == 0
    assert "SQNR logits: 40.0042 -> 37.0042 (-3 dB)" in told.out
    assert onnxq("report", EARLY, worse, "--strict").code == 1
    assert onnxq("report", worse, EARLY, "--strict").code == 0
    (worse.parent / "onnxq.toml").write_text("[diff]\nmargin_db = 3.5\n")
    assert onnxq("report", EARLY, worse, "--strict").code == 0


def test_the_document_and_the_table_have_all_rows(worse: Path, onnxq: Run, tmp_path: Path) -> None:
    ran = onnxq("report", EARLY, worse, "-q", "--json", "--csv", "rows.csv")
    found = ran.json()
    assert (found["kind"], found["schema"], found["counts"]["worse"]) == ("diff", 1, 1)
    with (tmp_path / "rows.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert [row["what"] for row in rows] == [row["what"] for row in found["differences"]] == ["SQNR"]
    assert float(rows[0]["change"]) == found["differences"][0]["change"]


def test_margins_of_the_file(worse: Path, onnxq: Run, tmp_path: Path) -> None:
    (tmp_path / "onnxq.toml").write_text("[diff]\nmargin_db = 4\n")
    assert onnxq("report", EARLY, worse, "--strict").code == 0


@pytest.mark.parametrize("content", ["no JSON", '{"schema": 1}'])
def test_what_is_no_report_ends_with_2(content: str, worse: Path, onnxq: Run) -> None:
    worse.write_text(content, "utf-8")
    ran = onnxq("report", EARLY, worse)
    assert ran.code == 2
    assert "is no report" in ran.err
    assert "hint: " in ran.err
    assert "Traceback" not in ran.err


def test_a_page_only_where_it_is_asked_for(worse: Path, onnxq: Run, tmp_path: Path) -> None:
    """It is B's, and says what the screen says."""
    assert onnxq("report", EARLY, worse).code == 0
    assert not list(tmp_path.glob("*.html"))
    ran = onnxq("report", EARLY, worse, "-o", "x.html", "--json")
    assert (ran.code, ran.json()["kind"], ran.json()["counts"]["worse"]) == (0, "diff", 1)
    assert is_said(ran.err, "diff.page")
    text = (tmp_path / "x.html").read_text("utf-8")
    assert 'id="beside"' in text
    assert '<span class="tag worse">' in text.partition('id="beside"')[2]
    other, same = (
        onnxq("report", worse, EARLY, "--all", "-o", "x.html"),
        onnxq("report", worse, EARLY, "--all"),
    )
    assert other.out.startswith(same.out)


@pytest.mark.parametrize("flag", ["--strict", "--all", "--match=*", "--op=Conv", "--csv=x.csv"])
def test_a_flag_about_two_is_refused_with_one(flag: str, worse: Path, onnxq: Run, tmp_path: Path) -> None:
    ran = onnxq("report", worse, flag)
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith(f"error: {flag.partition('=')[0]} is about how two runs differ")
    assert not {*tmp_path.glob("*.html"), *tmp_path.glob("*.csv")}


def test_an_analysis_is_refused_without_a_page(worse: Path, onnxq: Run) -> None:
    ran = onnxq("report", EARLY, worse, "--analysis", "a.json")
    assert (ran.code, "--analysis is about the page" in ran.err) == (2, True)


def test_nothing_is_shown_where_the_page_is_refused(worse: Path, onnxq: Run, tmp_path: Path) -> None:
    (tmp_path / "mine.html").write_text("<p>mine</p>")
    ran = onnxq("report", EARLY, worse, "-o", "mine.html", "--csv", "rows.csv")
    assert (ran.code, ran.out, (tmp_path / "rows.csv").exists()) == (2, "", False)
    assert (tmp_path / "mine.html").read_text() == "<p>mine</p>"
