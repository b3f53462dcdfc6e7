"""What `onnxq check` shows."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from onnxq.cli.pages.changes import misses_section, rejected_text
from onnxq.cli.pages.settings import settings_section
from onnxq.cli.pages.words import FEW, counted, first_lines, listed, tally
from onnxq.cli.screen import Page


def check_page(document: Mapping[str, Any], report: Path | None = None) -> Page:
    """The findings of `check`, and what `sanitize` would change; `report`: the file that holds all of it."""
    page = Page()
    where = f"in {report}" if report is not None else "(--report FILE writes all)"
    findings = document["findings"]
    page.head(f"{document['model']}  ({document['target']}): {counted(len(findings), 'finding')}")
    settings_section(page, document)
    groups: dict[tuple[str, str, str], list[str]] = {}
    for finding in findings:
        key = (finding["op"], finding["reason"], finding["advice"])
        groups.setdefault(key, []).append(finding["node"])
    for (op, reason, advice), nodes in groups.items():
        page.section("Finding", f"{op or 'the model'}: {first_lines(reason)}", "yellow")
        if advice:
            page.entry(advice)
        page.names([node for node in nodes if node], shown=FEW)
    counts = tally(change["rule"] for change in document["changes"])
    if counts:
        page.section("Sanitize", f"would make {counted(len(document['changes']), 'change')}")
        page.entry(listed(counts))
    else:
        page.section("Sanitize", "would change nothing")
    for change in document["rejected"]:
        page.entry(rejected_text(change), 1, "red")
    said = {finding["node"] for finding in findings if finding["kind"] == "near-miss"}
    misses_section(page, [miss for miss in document["near_misses"] if miss["node"] not in said], where)
    _compiler(page, document, where)
    if report is not None:
        page.section("Files", str(report))
    return page


def _compiler(page: Page, document: Mapping[str, Any], where: str) -> None:
    """What NVIDIA's compiler made of the model, in one section."""
    compiler, engine = document["compiler"], document["engine"]
    if engine is None:
        page.section("Compiler", "NVIDIA's compiler was not asked: it is not installed or not of this target")
        return
    text = {
        ("compiled", "compiled"): "it takes the model",
        ("failed", "compiled"): "it takes the sanitized model, not the original",
        ("compiled", "failed"): "it takes the original, not the sanitized model",
        ("failed", "failed"): "it does not take the model",
        ("not-run", "not-run"): "only its parser (--no-engine)",
    }[engine["original"], engine["sanitized"]]
    page.section("Compiler", f"NVIDIA's compiler was asked ({compiler}, sm {engine['sm']}): {text}")
    if engine["original"] == "failed" and engine["beyond"]:
        ops = ", ".join(dict.fromkeys(engine["beyond"].values()))
        page.entry(f"the target takes {ops}; TensorRT-RTX, which is here, does not", style="yellow")
    for name, profile in engine["profiles"].items():
        page.entry(f"{name} {':'.join('x'.join(map(str, shape)) for shape in profile)}")
    for warning in engine["warnings"][:FEW]:
        page.entry(f"warning: {first_lines(warning)}", style="dim")
    if len(engine["warnings"]) > FEW:
        page.entry(f"+{len(engine['warnings']) - FEW} more {where}", style="dim")
