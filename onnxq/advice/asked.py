"""The command line of a report's run, to be given again."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from onnxq.documents.report import Report


def again(report: Report, *, without: Sequence[str] = (), more: Sequence[str] = ()) -> str:
    """The command line of a run, to be given again; "" where it was not a command line.

    Args:
        report: its report.
        without: flags that are left out, with their values.
        more: what is given beside.
    """
    kept = [part for part in asked_of(report) if part[0] not in without]
    return shlex.join(["onnxq", *(word for part in kept for word in part), *more]) if kept else ""


def given(report: Report, flag: str) -> bool:
    """Whether a flag was given."""
    return any(part[0] == flag for part in asked_of(report))


def asked_of(report: Report) -> list[tuple[str, ...]]:
    """The words of the command line: the verb and its places, then each flag with its values."""
    return [part for part in report.asked if part]
