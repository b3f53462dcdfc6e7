"""What `onnxq check` shows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from onnxq.base.escapes import visible
from onnxq.base.grouped import grouped
from onnxq.checks.finding import SEVERITIES
from onnxq.cli.options import ALL_ROWS, ChoiceFlags
from onnxq.cli.pages.changes import misses_section, rejected_text
from onnxq.cli.pages.words import FEW, counted, first_lines, listed, say, tally
from onnxq.cli.screen import Page
from onnxq.run import trt
from onnxq.targets import load_target

if TYPE_CHECKING:
    from onnxq.checks.finding import Finding
    from onnxq.inspection.checking import Checks, MeasuredForChecks

_STYLES = {"error": "red", "warning": "yellow", "note": "dim"}


def check_page(document: Checks, report: Path | None = None, choice: ChoiceFlags = ALL_ROWS) -> Page:
    """The findings of `check`, and what `sanitize` would change.

    Args:
        document: what was found.
        report: the file that holds all of it.
        choice: of which nodes the findings are shown.
    """
    page = Page()
    where = f"in {report}" if report is not None else "(--report FILE writes all)"
    findings = document.findings
    counts = tally(finding.severity for finding in findings)
    each = ", ".join(counted(counts[name], name) for name in SEVERITIES if name in counts)
    of = f" ({each})" if each else ""
    warnings = len(document.engine.warnings) if document.engine is not None else 0
    warns = f"; the compiler gives {counted(warnings, 'warning')}" if warnings else ""
    page.head(f"{document.model}  ({document.target}): {counted(len(findings), 'finding')}{of}{warns}")
    page.sections("Settings", filter(None, [document.config]))
    shown = [one for one in findings if choice.wants(filter(None, (one.node, one.tensor)), one.op)]
    if len(shown) < len(findings):
        page.section("Shown", say("shown-of", shown=len(shown), all=len(findings), choice=choice.said))
    _findings(page, shown)
    _measured(page, document.measured)
    changed = tally(change.rule for change in document.changes)
    if changed:
        page.section("Sanitize", f"would make {counted(len(document.changes), 'change')}")
        page.entry(listed(changed))
    else:
        page.section("Sanitize", "would change nothing")
    for change in document.rejected:
        page.entry(rejected_text(change), 1, "red")
    said = {finding.node for finding in findings if finding.kind == "near-miss"}
    misses = [miss for miss in document.near_misses if miss.node not in said]
    misses_section(page, [miss for miss in misses if choice.wants([miss.node], "")], where)
    _compiler(page, document, where)
    if report is not None:
        page.section("Files", str(report))
    return page


def _findings(page: Page, findings: Sequence[Finding]) -> None:
    """The findings, alike ones together: what is wrong, what comes of it, what to do, where."""
    groups = grouped(
        (replace(finding, kind="", check="", node="", tensor="", db=None, command=""), finding)
        for finding in findings
    )
    printed: set[str] = set()
    for said, found in groups.items():
        text = f"{visible(said.op) or 'the model'}: {first_lines(said.reason)}"
        page.section(said.severity.capitalize(), text, _STYLES[said.severity], lines=True)
        if said.consequence:
            shows = said.confirmed
            page.entry(say("confirmed", consequence=said.consequence) if shows else said.consequence)
        if said.advice:
            page.entry(f"-> {said.advice}" if said.consequence else said.advice)
        page.names([one.node for one in found if one.node], shown=FEW)
        command = found[0].command
        if command and command not in said.advice and command not in printed:
            page.code(command, "Command")
            printed.add(command)


def _measured(page: Page, measured: MeasuredForChecks | None) -> None:
    """What the checks on data looked at."""
    if measured is not None:
        of = f"{counted(measured.tensors, 'tensor')} on {counted(measured.samples, 'sample')}"
        page.section("Data", say("checked-scales.pairs" if measured.pairs else "checked-scales", tensors=of))


def _compiler(page: Page, document: Checks, where: str) -> None:
    """What NVIDIA's compiler made of the model, in one section."""
    engine = document.engine
    if engine is None:
        is_here = load_target(document.target).is_compiled_here
        not_asked = say("asked-compiler.not", why=trt.missing())
        page.section("Compiler", not_asked if is_here else document.not_known)
        return
    answer = {
        ("compiled", "compiled"): "asked-compiler.both",
        ("failed", "compiled"): "asked-compiler.sanitized",
        ("compiled", "failed"): "asked-compiler.original",
        ("failed", "failed"): "asked-compiler.neither",
        ("not-run", "not-run"): "asked-compiler.parser",
    }[engine.original, engine.sanitized]
    text = say("asked-compiler", compiler=document.compiler, sm=engine.sm, answer=say(answer))
    page.section("Compiler", text)
    if engine.original == "failed" and engine.beyond:
        ops = ", ".join(dict.fromkeys(engine.beyond.values()))
        title = load_target(document.target).title
        page.entry(say("asked-compiler.beyond", ops=ops, target=title), style="yellow")
    for name, profile in engine.profiles.items():
        sizes = dict.fromkeys("x".join(map(str, shape)) for shape in profile)
        page.entry(f"compiled for {name} {' to '.join(sizes)}")
    for warning in engine.warnings[:FEW]:
        page.entry(f"warning: {first_lines(warning)}", style="dim", lines=True)
    page.more(len(engine.warnings) - FEW, where)
