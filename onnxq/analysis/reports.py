"""Reports of any version, opened to be read."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from onnxq.base.errors import UserError
from onnxq.base.typed import nothing
from onnxq.documents.reading import Readable, read_document, read_plain
from onnxq.documents.report import REPORT_SCHEMA, Report

D = TypeVar("D")

RUNS = ("report", "plan", "sensitivity")
"""The kinds of reports. Those of plan and sensitivity are read as reports that say less."""


@dataclass(frozen=True, slots=True)
class OpenedReport:
    """A report (`X.report.json`), whoever wrote it.

    Attributes:
        path: where it was read from, "" for nowhere.
        document: what it says.
        lacks: the fields of `document` that are not there.
    """

    path: str
    document: Report
    lacks: frozenset[str] = frozenset()

    @classmethod
    def made(cls, report: Report) -> OpenedReport:
        """That of a run that was just made."""
        return cls(
            "",
            report,
            frozenset(name for name in Report.__dataclass_fields__ if getattr(report, name) is None),
        )

    @classmethod
    def of(cls, plain: Mapping[str, Any], path: str = "") -> OpenedReport:
        """That of plain JSON.

        Raises:
            Unlike: a value is of another type than in a report.
        """
        return cls(path, read_plain(Report, plain), _lacks(plain))


def open_report(path: str | os.PathLike[str], kinds: tuple[str, ...] = RUNS) -> OpenedReport:
    """Opens a report of this version of onnxq or of an earlier one.

    Args:
        path: the file.
        kinds: the kinds that it may be of.

    Raises:
        UserError: the file cannot be read, is no report, is one of a newer version, or one that was edited so
            that a value is of another type.
    """
    file = Path(path)
    readable = dict.fromkeys(kinds, Readable(Report, REPORT_SCHEMA))
    read = read_document(file, readable, "report of onnxq", _hint(file))
    if not read.document.onnxq:
        raise UserError(
            f"{str(file)!r} is no report of onnxq: it does not say which version wrote it", hint=_hint(file)
        )
    return OpenedReport(str(file), read.document, _lacks(read.plain))


def _lacks(plain: Mapping[str, Any]) -> frozenset[str]:
    return frozenset(name for name in Report.__dataclass_fields__ if plain.get(name) is None)


def _hint(file: Path) -> str:
    """What to give in its place: the report beside a model, where one is."""
    beside = file.parent / f"{file.stem}.report.json"
    if beside != file and file.suffix != ".json" and os.path.isfile(beside):
        return f"its report is {str(beside)!r}"
    return "give the X.report.json that onnxq writes beside a model"


def part_of(kind: type[D], part: object) -> D:
    """A part of a report; where it was not made, one of which nothing is known."""
    return part if isinstance(part, kind) else nothing(kind)


def number(value: float | None) -> float | None:
    """A number of a report; None of one that is not known, which JSON may have as NaN."""
    return None if value is None or math.isnan(value) else float(value)
