"""What the report beside a model tells of it to whoever uses the model next."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from onnxq.base import door
from onnxq.base.errors import UserError
from onnxq.base.reason import noted
from onnxq.base.typed import Unlike
from onnxq.documents.reading import REPORT_HINT, read_plain
from onnxq.documents.report import Report
from onnxq.emit.files import report_path, sha256
from onnxq.run.profiles import Profile


def recorded_profiles(model: Path) -> tuple[list[dict[str, Profile]], str]:
    """The profiles in the report beside a model, and what the user should know of that.

    Args:
        model: the model's file.

    Returns:
        Smallest, usual and largest shape of each dynamic input, for each deployment, those with most of the
        work first; none where no report of this very file has any. And where they are from or why they are
        not used, "" where there are none.
    """
    path = report_path(model)
    if path == model or not os.path.isfile(path):
        return [], ""
    try:
        document = json.loads(door.content(path))
        named = sorted(document.get("deployments") or (), key=lambda one: -float(one["weight"]))
        several = [one["profiles"] for one in named] or [document.get("profiles") or {}]
        profiles: list[dict[str, Profile]] = [
            {
                name: (tuple(map(int, low)), tuple(map(int, usual)), tuple(map(int, high)))
                for name, (low, usual, high) in recorded.items()
            }
            for recorded in several
            if recorded
        ]
        own = bool(profiles) and document.get("sha256") == sha256(model)
    except (OSError, ValueError, TypeError, AttributeError, LookupError, OverflowError, RecursionError):
        return [], noted("recorded-profiles.no-report", path=path)
    if profiles and not own:
        return [], noted("recorded-profiles.other-file", path=path)
    return profiles, noted("recorded-profiles", path=path) if profiles else ""


def recorded_report(model: Path) -> Report | None:
    """The report beside a model, where it is one of this very file; else None.

    Raises:
        UserError: a value in it is of another type than onnxq writes.
    """
    document = _beside(model)
    own = document is not None and document.get("sha256") == sha256(model)
    return _read(model, document) if own else None


def report_beside(model: Path) -> Report | None:
    """The report beside a model, of whatever file it is; None where there is none.

    Raises:
        UserError: a value in it is of another type than onnxq writes.
    """
    return _read(model, _beside(model))


def _beside(model: Path) -> dict[str, Any] | None:
    path = report_path(model)
    try:
        document = None if path == model else json.loads(door.content(path))
    except (OSError, ValueError, RecursionError):
        return None
    known = isinstance(document, dict) and document.get("kind", "report") == "report"
    return document if known else None


def _read(model: Path, document: dict[str, Any] | None) -> Report | None:
    try:
        return None if document is None else read_plain(Report, document)
    except Unlike as error:
        said = f"{str(report_path(model))!r} is no report of onnxq: {error}"
        raise UserError(said, hint=REPORT_HINT) from error
