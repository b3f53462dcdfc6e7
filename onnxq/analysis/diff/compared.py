"""Two reports compared, part by part; what one of them lacks is said."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

from onnxq.analysis.diff.parts import accuracy, changes, engine, files, goal, repair, scales, settings
from onnxq.analysis.diff.planned import body, plan
from onnxq.analysis.diff.rows import (
    VERDICTS,
    ComparedRun,
    Judge,
    MissingPart,
    RunDiff,
)
from onnxq.analysis.reports import OpenedReport, number, part_of
from onnxq.base.patterns import fits
from onnxq.base.reason import noted
from onnxq.documents.body import BodyPart
from onnxq.documents.calibration import CalibrationPart
from onnxq.documents.plan import PlanPart
from onnxq.documents.repair import RepairPart
from onnxq.documents.report import Report
from onnxq.options.settings import Margins

_Compare = Callable[[Report, Report, Judge], None]
_Has = Callable[[OpenedReport], bool]

_PARTS: dict[str, tuple[_Compare, _Has]] = {
    "accuracy": (accuracy, lambda opened: bool(opened.document.accuracy)),
    "goal": (goal, lambda opened: opened.document.goal is not None),
    "engine": (engine, lambda opened: opened.document.engine.status in ("compiled", "failed")),
    "plan": (plan, lambda opened: isinstance(opened.document.plan, PlanPart)),
    "scales": (scales, lambda opened: bool(part_of(CalibrationPart, opened.document.calibration).scales)),
    "body": (body, lambda opened: bool(part_of(BodyPart, opened.document.body).type)),
    "changes": (changes, lambda opened: "changes" not in opened.lacks),
    "repair": (repair, lambda opened: opened.document.repair is not None),
    "files": (files, lambda opened: "files" not in opened.lacks),
    "settings": (settings, lambda opened: True),
}
"""Each part, and which reports have it. Of rows that are equally bad the first part's are first."""


def compare_reports(
    a: OpenedReport,
    b: OpenedReport,
    margins: Margins,
    match: Sequence[str] = (),
    ops: Sequence[str] = (),
) -> RunDiff:
    """What run B has otherwise than run A.

    Args:
        a: the report of run A.
        b: that of run B.
        margins: by how much a figure may be worse.
        match: patterns (`*`, `?`, `[...]`): only rows whose name or node one of them fits; empty: all.
        ops: only rows of nodes of these operators; empty: all.
    """
    judge = Judge(margins)
    compared, missing = [], []
    for part, (compare, has) in _PARTS.items():
        lacks = [not has(report) for report in (a, b)]
        if any(lacks):
            of = "both" if all(lacks) else "A" if lacks[0] else "B"
            missing.append(MissingPart(part, of, _why(part, (b if lacks[1] else a).document)))
            continue
        judge.part = part
        done = len(judge.rows)
        try:
            compare(a.document, b.document, judge)
        except ArithmeticError as error:  # a report that was edited: figures that no float holds
            del judge.rows[done:]
            missing.append(MissingPart(part, "both", noted("two-reports.not-understood", error=error)))
            continue
        compared.append(part)
    nodes = [node for report in (a, b) for node in report.document.outline or ()]
    operators = {node.tensor: node.op for node in nodes} | {node.name: node.op for node in nodes}
    rows = [
        row
        for row in judge.rows
        if fits(filter(None, (row.name, row.node)), match)
        and (not ops or operators.get(row.node or row.name) in ops)
    ]
    order = {part: place for place, part in enumerate(_PARTS)}
    rows.sort(key=lambda row: (VERDICTS.index(row.verdict), -row.weight, order[row.part]))
    return RunDiff(
        kind="diff",
        schema=1,
        a=_run(a),
        b=_run(b),
        margins=dataclasses.asdict(margins),
        counts={verdict: sum(row.verdict == verdict for row in rows) for verdict in VERDICTS},
        differences=tuple(rows),
        compared=tuple(compared),
        missing=tuple(missing),
        notes=tuple(_notes(a.document, b.document)),
    )


def _run(report: OpenedReport) -> ComparedRun:
    said = report.document
    return ComparedRun(
        report=report.path, onnxq=said.onnxq, schema=said.schema, model=said.model or "",
        output=said.output or "", target=said.target,
    )  # fmt: skip


def _why(part: str, report: Report) -> str:
    """Why a report lacks a part, as far as it says so."""
    if part == "accuracy":
        return part_of(CalibrationPart, report.calibration).not_verified
    if part == "repair":
        return part_of(RepairPart, report.repair).why_not or ""
    return report.engine.reason if part == "engine" else ""


def _notes(a: Report, b: Report) -> list[str]:
    """What makes the comparison doubtful."""
    notes = []
    layers = [{layer.node for layer in part_of(PlanPart, report.plan).layers} for report in (a, b)]
    if all(layers) and layers[0].isdisjoint(layers[1]):
        notes.append(noted("two-reports.models"))
    used = [part_of(CalibrationPart, report.calibration).data.lines for report in (a, b)]
    counts = [{number(output.samples) for output in report.accuracy} for report in (a, b)]
    if all(counts) and (used[0] != used[1] or counts[0] != counts[1]):
        notes.append(noted("two-reports.data"))
    engines = [(report.engine.compiler, report.engine.sm) for report in (a, b)]
    if all(report.engine.status == "compiled" for report in (a, b)) and engines[0] != engines[1]:
        notes.append(noted("two-reports.engines"))
    return notes
