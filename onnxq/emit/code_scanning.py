"""Findings as code scanning reads them: SARIF 2.1.0, and commands of GitHub Actions."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

from onnxq.base.escapes import visible
from onnxq.base.plain import to_json
from onnxq.base.version import VERSION
from onnxq.checks.finding import Finding
from onnxq.checks.load import CHECKS

SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
_PROPERTIES = ("op", "tensor", "consequence", "advice", "command", "confirmed", "db")


def sarif(findings: Sequence[Finding], model: Path) -> dict[str, Any]:
    """A SARIF log of one run.

    Args:
        findings: the findings.
        model: the file that they are of; relative paths are to the folder that one is in.
    """
    rules = list(dict.fromkeys(one.check for one in findings))
    place = {"uri": model.as_uri() if model.is_absolute() else quote(os.fsencode(model.as_posix()))}
    driver = {"name": "onnxq", "version": VERSION, "rules": [_rule(name) for name in rules]}
    run = {
        "tool": {"driver": driver},
        "automationDetails": {
            "id": f"onnxq/{place['uri']}/"
        },  # GitHub keeps the logs of several models apart
        "artifacts": [{"location": place, "roles": ["analysisTarget"]}],
        "invocations": [{"executionSuccessful": True}],
        "results": [_result(one, rules.index(one.check), place) for one in findings],
    }
    return {"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}


def in_words(finding: Finding) -> str:
    """A finding in a line: where, what is wrong, what comes of it, what to do."""
    about = ": ".join(filter(None, (finding.op, finding.node)))
    wrong = "; ".join(filter(None, (finding.reason, finding.consequence)))
    text = f"{wrong} -> {finding.advice}" if finding.advice else wrong
    return f"{about}: {text}" if about else text


def _rule(name: str) -> dict[str, Any]:
    check = CHECKS.get(name)  # None of the user's own
    if check is None:
        return {"id": name}
    return {
        "id": name,
        "shortDescription": {"text": check.what},
        "defaultConfiguration": {"level": check.severity},
        "help": {"text": f"onnxq help symptoms {name}"},
    }


def _result(finding: Finding, rule: int, place: dict[str, str]) -> dict[str, Any]:
    where: dict[str, Any] = {"physicalLocation": {"artifactLocation": place, "region": {"startLine": 1}}}
    if finding.node:
        where["logicalLocations"] = [{"fullyQualifiedName": finding.node, "kind": "node"}]
    same = "\0".join((finding.check, finding.node, finding.tensor))
    return {
        "ruleId": finding.check,
        "ruleIndex": rule,
        "level": finding.severity,
        "message": {"text": visible(in_words(finding), kept="\n")},
        "locations": [where],
        "partialFingerprints": {"primaryLocationLineHash": hashlib.sha256(same.encode()).hexdigest()[:16]},
        "properties": {name: to_json(getattr(finding, name)) for name in _PROPERTIES},
    }


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
