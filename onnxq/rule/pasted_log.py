"""The errors of a log that a user pastes, each with the lines that belong to it."""

from __future__ import annotations

import re

_BEGINS = re.compile(r"\[[VIWEF]\]|\b(ERROR|WARNING)\b ?:|^\S*ERROR\b|Error Code|\bError\[\d+\]")
"""Where TensorRT, its tools and servers begin a line of a log."""

_ERROR = re.compile(r"\[[EF]\]|\bERROR\b|Error Code|\bError\[\d+\]")

_MOST = 10
"""Errors that are looked at: behind so many there are only consequences."""


def errors_of(log: str) -> list[str]:
    """The errors of a log in their order, at most 10; none where nothing else stands beside one.

    Args:
        log: lines as they were printed, other lines among them.
    """
    records: list[list[str]] = []
    for line in log.splitlines():
        if _BEGINS.search(line) or not records:
            records.append([])
        records[-1].append(line)
    errors = ["\n".join(lines) for lines in records if _ERROR.search(lines[0])]
    return errors[:_MOST] if len(records) > 1 else []
