"""A check of the user's own: a function in a file."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Any

from onnxq.analysis.checks.evidence import Evidence
from onnxq.errors import UserError
from onnxq.finding import SEVERITIES, Finding, finding
from onnxq.user_code import CodeForm, UserFunction, load_function

_FORM = (
    "def mine(evidence): yield {'severity': 'warning', 'reason': '...', 'node': '...', 'advice': '...'}, "
    "or onnxq.finding.Finding"
)
_ASKED = CodeForm("check script", _FORM, "FILE.py:FUNCTION")
_TEXTS = ("reason", "consequence", "advice", "node", "op", "tensor")


def load_check(spec: str | os.PathLike[str]) -> UserFunction:
    """The function that `FILE.py:FUNCTION` names; the file's code is run.

    Raises:
        UserError: there is no such function, or its file raises an error.
    """
    return load_function(spec, _ASKED)


def found_by_user(function: UserFunction, evidence: Evidence) -> list[Finding]:
    """What a function of the user's finds.

    Where it raises an error, or gives something else than findings, that is one finding more, and the last.
    """
    found: list[Finding] = []
    try:
        with function.running():
            given = function.call(evidence)
            is_list = isinstance(given, Iterable) and not isinstance(given, str | Mapping)
            if given is not None and not is_list:
                raise UserError(f"{function} returned {type(given).__name__}", hint=f"the form is {_FORM}")
            found.extend(_finding(one, function, evidence) for one in given or ())
    except UserError as error:
        found.append(
            finding(
                "broken-check",
                reason=str(error),
                consequence="what else it would find is not known",
                advice=error.hint,
            )
        )
    return found


def _finding(given: Any, function: UserFunction, evidence: Evidence) -> Finding:
    if isinstance(given, Finding):
        if given.severity not in SEVERITIES:
            raise _none(function, f"severity {given.severity!r}")
        return given
    if not isinstance(given, Mapping):
        raise _none(function, f"a {type(given).__name__}")
    unknown = [key for key in given if key not in (*_TEXTS, "severity", "db")]
    if unknown:
        raise _none(function, f"a finding with {unknown[0]!r}")
    severity = given.get("severity", "warning")
    if severity not in SEVERITIES:
        raise _none(function, f"severity {severity!r}, which is none of {', '.join(SEVERITIES)}")
    if not given.get("reason"):
        raise _none(function, "a finding without a reason")
    texts = {key: str(given.get(key, "")) for key in _TEXTS}
    named = (node.op for node in evidence.nodes if node.name == texts["node"])
    texts["op"] = texts["op"] or next(named, "")
    db = given.get("db")
    if db is not None and (isinstance(db, bool) or not isinstance(db, int | float)):
        raise _none(function, f"db {db!r}, which is no number")
    return Finding(
        str(function), "own-check", severity, texts["node"], texts["op"], texts["tensor"], texts["reason"],
        texts["consequence"], texts["advice"], None if db is None else float(db),
    )  # fmt: skip


def _none(function: UserFunction, what: str) -> UserError:
    return UserError(f"{function} gave {what}", hint=f"the form is {_FORM}")
