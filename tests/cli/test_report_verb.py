"""`onnxq report`, and the page that `sanitize` writes."""

from __future__ import annotations

import json
from pathlib import Path


def test_a_page_beside_the_report(folder: Path, onnxq) -> None:
    ran = onnxq("sanitize", "net.onnx", "-q")
    assert ran.code == 0, ran.err
    first = (folder / "net.clean.report.html").read_text("utf-8")
    assert first.startswith("<!doctype html>")
    (folder / "net.clean.report.html").unlink()
    ran = onnxq("report", "net.clean.report.json", "--json")
    assert (ran.code, ran.json()["kind"], ran.json()["page"]) == (0, "page", "net.clean.report.html")
    assert (folder / "net.clean.report.html").read_text("utf-8") == first


def test_no_page(folder: Path, onnxq) -> None:
    (folder / "onnxq.toml").write_text("[report]\nno_page = true\n")
    ran = onnxq("sanitize", "net.onnx", "--json", "-q")
    assert ran.json()["files"] == ["net.clean.onnx", "net.clean.report.json"]
    assert not (folder / "net.clean.report.html").exists()


def test_files_of_others_stay(folder: Path, onnxq) -> None:
    (folder / "net.clean.report.html").write_text("<p>mine</p>")
    ran = onnxq("sanitize", "net.onnx")
    assert (ran.code, "net.clean.report.html" in ran.err) == (2, True)
    (folder / "a.report.json").write_text(json.dumps({"schema": 1, "onnxq": "0.1.0"}))
    (folder / "a.report.html").write_text("<p>mine</p>")
    ran = onnxq("report", "a.report.json")
    assert (ran.code, "no page of" in ran.err) == (2, True)
    assert (folder / "a.report.html").read_text() == "<p>mine</p>"
    assert onnxq("report", "a.report.json", "--force").code == 0


def test_what_is_no_report(folder: Path, onnxq) -> None:
    for arguments, said in (
        (("net.onnx",), "is no report of onnxq"),
        (("none.report.json",), "cannot read"),
        ((".",), "cannot read"),
        (("", "--open"), "cannot read"),
    ):
        ran = onnxq("report", *arguments)
        assert (ran.code, said in ran.err, "Traceback" in ran.err) == (2, True, False)
