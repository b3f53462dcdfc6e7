"""Reports of any version, opened to be read: what a part lacks or has of another type is not there."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from onnxq.errors import UserError
from onnxq.json_file import read_document

REPORT_SCHEMA = 2
"""What is written. A report of schema 1 has no `kind`, and no fields for what was left out."""


RUNS = dict.fromkeys(("report", "plan", "sensitivity"), REPORT_SCHEMA)
"""The kinds of reports, and the newest schema of each."""


@dataclass(frozen=True, slots=True)
class OpenedReport:
    """A report (`X.report.json`), whoever wrote it.

    Attributes:
        path: where it was read from.
        document: what it says.
    """

    path: str
    document: Mapping[str, Any]

    def at(self, *keys: str) -> Any:
        """What stands at a path of keys, None where nothing does."""
        value: Any = self.document
        for key in keys:
            value = value.get(key) if isinstance(value, Mapping) else None
        return value

    def part(self, *keys: str) -> Mapping[str, Any]:
        """The object that stands there, an empty one where none does."""
        value = self.at(*keys)
        return value if isinstance(value, Mapping) else {}

    def entries(self, *keys: str) -> list[Mapping[str, Any]]:
        """The objects of the list that stands there."""
        return objects(self.at(*keys))

    def by(self, key: str, *keys: str) -> dict[str, Mapping[str, Any]]:
        """The objects of the list that stands there, by what they are called."""
        return {name: entry for entry in self.entries(*keys) if isinstance(name := entry.get(key), str)}


def open_report(path: str | os.PathLike[str], kinds: Mapping[str, int] = RUNS) -> OpenedReport:
    """Opens a report of this version of onnxq or of an earlier one.

    Args:
        path: the file.
        kinds: the kinds that it may be of, and the newest schema of each.

    Raises:
        UserError: the file cannot be read, is no report, or is one of a newer version.
    """
    file = Path(path)
    document = read_document(file, kinds, "report of onnxq", _hint(file))
    if not isinstance(document.get("onnxq"), str):
        raise UserError(
            f"{str(file)!r} is no report of onnxq: it does not say which version wrote it", hint=_hint(file)
        )
    return OpenedReport(str(file), document)


def _hint(file: Path) -> str:
    """What to give in its place: the report beside a model, where one is."""
    beside = file.with_suffix("").with_name(f"{file.with_suffix('').name}.report.json")
    if beside != file and file.suffix != ".json" and beside.is_file():
        return f"its report is {str(beside)!r}"
    return "give the X.report.json that onnxq writes beside a model"


def number(value: Any) -> float | None:
    """A number of a report, infinities included; None for anything else, and for what no float holds."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        try:
            return None if math.isnan(value) else float(value)
        except OverflowError:
            return None
    return {"inf": math.inf, "-inf": -math.inf}.get(value) if isinstance(value, str) else None


def text(value: Any) -> str:
    """A text of a report, "" for nothing, JSON for what is no text."""
    if value is None or isinstance(value, str):
        return value or ""
    return json.dumps(value, ensure_ascii=False)


def names(value: Any) -> tuple[str, ...]:
    """The texts of a list of a report."""
    return tuple(entry for entry in value if isinstance(entry, str)) if isinstance(value, list) else ()


def objects(value: Any) -> list[Mapping[str, Any]]:
    """The objects of a list of a report; none of what is no list."""
    return [entry for entry in value if isinstance(entry, Mapping)] if isinstance(value, list | tuple) else []
