"""Two reports compared, part by part; what one of them lacks is said."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

from onnxq.analysis.diff.changes import changes, repair
from onnxq.analysis.diff.engine import engine
from onnxq.analysis.diff.made import files, settings
from onnxq.analysis.diff.outputs import accuracy, goal
from onnxq.analysis.diff.planned import body, plan
from onnxq.analysis.diff.rows import (
    VERDICTS,
    ComparedRun,
    Judge,
    MissingPart,
    RunDiff,
    RunDifference,
)
from onnxq.analysis.diff.scales import scales
from onnxq.analysis.reports import OpenedReport, number, text
from onnxq.patterns import fits
from onnxq.settings import Margins

_Compare = Callable[[OpenedReport, OpenedReport, Judge], None]

_PARTS: dict[str, tuple[_Compare, tuple[str, ...]]] = {
    "accuracy": (accuracy, ("accuracy",)),
    "goal": (goal, ("goal",)),
    "engine": (engine, ("engine", "status")),
    "plan": (plan, ("plan", "layers")),
    "scales": (scales, ("calibration", "scales")),
    "body": (body, ("body", "type")),
    "changes": (changes, ("changes",)),
    "repair": (repair, ("repair", "steps")),
    "files": (files, ("files",)),
    "settings": (settings, ("onnxq",)),
}
"""Each part, with what a report that has it says. Of rows that are equally bad the first part's are first."""


def compare_reports(a: OpenedReport, b: OpenedReport, margins: Margins, match: Sequence[str] = ()) -> RunDiff:
    """What run B has otherwise than run A.

    Args:
        a: the report of run A.
        b: that of run B.
        margins: by how much a figure may be worse.
        match: patterns (`*`, `?`, `[...]`): only rows whose name or node one of them fits; empty: all.
    """
    judge = Judge(margins)
    compared, missing = [], []
    for part, (compare, keys) in _PARTS.items():
        lacks = [_lacks(part, report.at(*keys)) for report in (a, b)]
        if any(lacks):
            of = "both" if all(lacks) else "A" if lacks[0] else "B"
            missing.append(MissingPart(part, of, _why(part, b if lacks[1] else a)))
            continue
        judge.part = part
        done = len(judge.rows)
        try:
            compare(a, b, judge)
        except (ArithmeticError, LookupError, TypeError, ValueError) as error:  # a report that was edited
            del judge.rows[done:]
            missing.append(MissingPart(part, "both", f"it is not understood: {error}"))
            continue
        compared.append(part)
    rows = [row for row in judge.rows if _fits(row, match)]
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
        notes=tuple(_notes(a, b)),
    )


def _lacks(part: str, value: object) -> bool:
    """Whether what stands where a part is says that there is none."""
    if part == "engine":
        return value not in ("compiled", "failed")
    return value in (None, "") or (part in ("accuracy", "scales") and not value)


def _fits(row: RunDifference, match: Sequence[str]) -> bool:
    return not match or fits((name for name in (row.name, row.node) if name), match)


def _run(report: OpenedReport) -> ComparedRun:
    said = {key: text(report.at(key)) for key in ("onnxq", "model", "output", "target")}
    return ComparedRun(report=report.path, schema=int(report.document["schema"]), **said)


def _why(part: str, report: OpenedReport) -> str:
    """Why a report lacks a part, as far as it says so."""
    why = {
        "accuracy": ("calibration", "not_verified"),
        "repair": ("repair", "why_not"),
        "engine": ("engine", "reason"),
    }.get(part)
    return text(report.at(*why)) if why is not None else ""


def _notes(a: OpenedReport, b: OpenedReport) -> list[str]:
    """What makes the comparison doubtful."""
    found = []
    layers = [set(r.by("node", "plan", "layers")) for r in (a, b)]
    if all(layers) and layers[0].isdisjoint(layers[1]):
        found.append("no layer of A is in B: these seem to be reports of two models")
    used = [r.part("calibration", "data").get("lines") for r in (a, b)]
    counts = [{number(e.get("samples")) for e in r.entries("accuracy")} for r in (a, b)]
    if all(counts) and (used[0] != used[1] or counts[0] != counts[1]):
        found.append("accuracy was measured on other data, or on another number of samples")
    engines = [(r.at("engine", "compiler"), r.at("engine", "sm")) for r in (a, b)]
    if all(r.at("engine", "status") == "compiled" for r in (a, b)) and engines[0] != engines[1]:
        found.append("the engines are of two compilers, or for two kinds of GPU")
    return found
