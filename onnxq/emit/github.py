"""Findings as workflow commands of GitHub Actions, which annotate a run: `::error file=F,title=T::text`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from onnxq.base.escapes import visible
from onnxq.checks.finding import Finding
from onnxq.emit.sarif import in_words

_LEVELS = {"error": "error", "warning": "warning", "note": "notice"}
_IN_TEXT = {"%": "%25", "\r": "%0D", "\n": "%0A"}
_IN_PROPERTY = {**_IN_TEXT, ":": "%3A", ",": "%2C"}


def annotated(findings: Sequence[Finding], model: Path) -> Iterator[str]:
    """A line for each finding.

    Args:
        findings: the findings.
        model: the file that they are of.
    """
    for one in findings:
        text = visible("\n".join(filter(None, (in_words(one), one.command))), kept="\n")
        title = _escaped(visible(f"onnxq {one.check}"), _IN_PROPERTY)
        file = _escaped(visible(model.as_posix()), _IN_PROPERTY)
        yield f"::{_LEVELS[one.severity]} file={file},title={title}::{_escaped(text, _IN_TEXT)}"


def _escaped(text: str, table: Mapping[str, str]) -> str:
    return "".join(table.get(char, char) for char in text)
