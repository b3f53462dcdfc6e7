"""Files and settings: what was written, by which version, with which method and which data."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import PurePath

from onnxq.analysis.diff.rows import Cell, Judge
from onnxq.analysis.reports import number, part_of
from onnxq.base.plain import to_json
from onnxq.documents.calibration import CalibrationPart
from onnxq.documents.plan import PlanPart
from onnxq.documents.repair import RepairPart
from onnxq.documents.report import Report

_Says = Callable[[Report], object]


def _of(says: Callable[[CalibrationPart], object]) -> _Says:
    """What a report says of its calibration; None where there was none."""
    return lambda report: (
        says(report.calibration) if isinstance(report.calibration, CalibrationPart) else None
    )


_SETTINGS: tuple[tuple[str, _Says], ...] = (
    ("version of onnxq", lambda report: report.onnxq),
    ("schema", lambda report: report.schema),
    ("model", lambda report: report.model),
    ("target", lambda report: report.target),
    ("opset", lambda report: report.opset),
    ("configuration", lambda report: report.config),
    ("plan", lambda report: part_of(PlanPart, report.plan).file),
    ("method", _of(lambda part: part.method)),
    ("samples that calibrated", _of(lambda part: part.samples)),
    ("seed", _of(lambda part: part.seed)),
    ("counting", _of(lambda part: part.counting)),
    ("samples held out", _of(lambda part: part.held_out)),
    ("data", _of(lambda part: part.data.lines)),
    ("images", _of(lambda part: part.data.images)),
    ("statistics from", _of(lambda part: part.stats_file)),
    ("run as float32", _of(lambda part: part.in_float32)),
    ("repair", lambda report: part_of(RepairPart, report.repair).asked),
    ("assumptions", lambda report: report.assumptions),
    ("changes of the interface", lambda report: report.interface_changes),
)


def settings(a: Report, b: Report, judge: Judge) -> None:
    """Versions, options and data."""
    for what, says in _SETTINGS:
        judge.other(what, *(_cell(says(report)) for report in (a, b)))
    counts = (
        max((number(output.samples) or 0 for output in report.accuracy), default=None) for report in (a, b)
    )
    judge.count("samples that verified", *counts)


def files(a: Report, b: Report, judge: Judge) -> None:
    """The model's file: its size, whether it is the same, what is beside it."""
    after, before = ([number(size) for size in sizes] for sizes in
                     ((a.size.after, b.size.after), (a.size.before, b.size.before)))  # fmt: skip
    judge.figure("size", *after, unit="%", better=-1)
    judge.figure("size of the original", *before, unit="%", better=0)
    judge.count("nodes", number(a.nodes), number(b.nodes))
    if a.sha256 and b.sha256:
        judge.other("SHA-256", a.sha256[:12], b.sha256[:12])
    kinds = (", ".join(sorted({_kind(name) for name in report.files})) or None for report in (a, b))
    judge.other("kinds of files", *kinds)


def _kind(name: str) -> str:
    """What kind of file it is, by the end of its name."""
    path = PurePath(name)
    return "report" if path.name.endswith(".report.json") else path.suffix


def _cell(value: object) -> Cell:
    """A value as one cell, JSON for what is no number and no text; None of what is not there."""
    if value is None or isinstance(value, bool | int | float | str):
        return value if value != "" else None
    return json.dumps(to_json(value), ensure_ascii=False)
