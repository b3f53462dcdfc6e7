"""The end screen of `sanitize` and `quantize`: what a run did."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from onnxq.cli.pages.accuracy import accuracy_section, lost_alarm
from onnxq.cli.pages.body import body_section, outputs_alone
from onnxq.cli.pages.changes import changes_section, misses_section
from onnxq.cli.pages.engine import engine_section, regression_alarm
from onnxq.cli.pages.goal import goal_section
from onnxq.cli.pages.plan import plan_section
from onnxq.cli.pages.repair import repair_section
from onnxq.cli.pages.settings import settings_section
from onnxq.cli.pages.size import size_section
from onnxq.cli.pages.verdict import verdict_section
from onnxq.cli.pages.words import FEW, size_text
from onnxq.cli.screen import Page, shorten


def end_screen(report: Mapping[str, Any], *, estimated: bool = False) -> Page:
    """What a run of `sanitize` or `quantize` did; `estimated`: with the estimate of the speed."""
    page = Page()
    regression_alarm(page, report["engine"])
    lost_alarm(page, report)
    page.head(f"{report['model']} -> {report['output']}")
    _runtime(page, report["runtime"])
    page.section("Target", f"{report['target']}, done in {report['seconds']:.1f} s")
    settings_section(page, report)
    changes_section(page, report)
    misses_section(page, report["near_misses"])
    if report["plan"]:
        plan_section(page, report)
    _unsupported(page, report["unsupported"])
    for entry in report["assumptions"]:
        page.section("Assumed", f"{entry['flag']} {entry['name']}={entry['value']}: {entry['why']}")
    for entry in report["interface_changes"]:
        page.section("Interface", f"{entry['tensor']}: {entry['was']} -> {entry['now']}", "yellow")
    for entry in report["exact_products"][:1]:
        page.section("TF32", f"off (--noTF32): {shorten(entry['tensor'])}: {entry['because']}")
    if report["plan"]:
        repair_section(page, report["repair"])
        body_section(page, report["body"])
        accuracy_section(
            page, report["accuracy"], report["calibration"], report["body"], report["about_mean"]
        )
        if report["goal"] is not None:
            goal_section(page, report["goal"])
        engine_section(page, report["engine"])
        verdict_section(page, report, estimated=estimated)
    if not report["plan"]:
        if report["body"]:
            body_section(page, report["body"])
            outputs_alone(page, report["body"])
        size_section(page, report)
    for number, file in enumerate(report["files"]):
        text = f"{file}  {size_text(Path(file).stat().st_size)}"
        page.section("Files" if number == 0 else "", text)
    for number, line in enumerate(report["commands"]):
        if number == 0:
            page.section("Next", "")
        page.code(line)
    return page


def _runtime(page: Page, runtime: Mapping[str, str | None]) -> None:
    """That onnxruntime does not take the original: the reader must know it before everything else."""
    if runtime["original"] is not None:
        taken = "it takes the result" if runtime["result"] is None else "nor the result: nothing was run"
        taken += f"; NVIDIA's parser {runtime['parser']}" if runtime["parser"] is not None else ""
        page.section("Careful", f"onnxruntime does not take the original: {runtime['original']}", "yellow")
        page.entry(taken, style="yellow")


def _unsupported(page: Page, entries: Sequence[Mapping[str, Any]]) -> None:
    for number, entry in enumerate(entries[:FEW]):
        text = entry["reason"]
        if entry["node"]:
            text = f"{shorten(entry['node'])} ({entry['op']}): {text}"
        page.section("Not taken" if number == 0 else "", text, "yellow")
        page.entry(entry["advice"])
    if len(entries) > FEW:
        page.section("", f"+{len(entries) - FEW} more in the report", "dim")
