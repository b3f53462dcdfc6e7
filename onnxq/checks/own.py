"""The user's checks: a file that is given with --check, whose checks are as those of onnxq."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterable, Mapping
from typing import Any

from onnxq.base.catalogue import Fact
from onnxq.base.errors import UserError
from onnxq.base.user_code import CodeForm, UserFunction, load_functions
from onnxq.checks.api import Check, Need, Said
from onnxq.checks.finding import SEVERITIES, Finding
from onnxq.checks.load import CHECKS, finding

_FORM = (
    "def mine(evidence): yield {'severity': 'warning', 'reason': '...', 'node': '...', 'advice': '...'}, "
    "or onnxq.checks.finding.Finding"
)
_ASKED = CodeForm("check script", _FORM, "FILE.py:FUNCTION, or FILE.py with functions under @check")
_TEXTS = ("reason", "consequence", "advice", "node", "op", "tensor")


def load_own(spec: str | os.PathLike[str]) -> list[Check]:
    """The checks of a file of the user's, whose code is run.

    Args:
        spec: `FILE.py`, for each `@check` in it, or `FILE.py:FUNCTION`. A plain function needs "plan".

    Raises:
        UserError: there is no such function, its file raises an error, or a check has the name of one of
            onnxq's.
    """
    return [_own(function) for function in load_functions(spec, _ASKED, Check)]


def _own(function: UserFunction) -> Check:
    call = function.call
    if not isinstance(call, Check):
        return dataclasses.replace(CHECKS["own-check"], function=call, place=function, kind=str(function))
    if call.name in CHECKS:
        raise UserError(
            f"{function} is named {call.name!r}, as a check of onnxq", hint="give it another name"
        )
    if call.needs in ("target", "dla", "runtime"):
        raise UserError(f"{function} needs {call.needs!r}, which only onnxq tells", hint="let it need 'file'")
    return dataclasses.replace(call, place=function, kind=str(function))


def found_by_own(own: Iterable[Check], needed: Mapping[Need, Any]) -> list[Finding]:
    """What checks of the user's find; of one that was not asked, a note that says so.

    Args:
        own: the checks.
        needed: what there is, by the need that it fulfils.
    """
    findings: list[Finding] = []
    for check in own:
        if needed.get(check.needs) is not None:
            findings += _findings(check, needed[check.needs])
        else:
            values = {"check": check.name, "severity": "note"}
            findings.append(check.finding(Fact(f"own-check.{check.needs}", values=values)))
    return findings


def _findings(check: Check, needed: Any) -> list[Finding]:
    """What a check of the user's finds.

    Where it raises an error, or gives something else than findings, that is one finding more, and the last.
    """
    findings: list[Finding] = []
    function = check.place
    assert function is not None
    try:
        with function.running():
            answer: Any = check(needed)
            is_list = isinstance(answer, Iterable) and not isinstance(answer, str | Mapping)
            if answer is not None and not is_list:
                raise UserError(f"{function} returned {type(answer).__name__}", hint=f"the form is {_FORM}")
            findings.extend(_finding(one, check, needed) for one in answer or ())
    except UserError as error:
        values = {"message": str(error), "hint": error.hint}
        findings.append(finding(Fact("broken-check", values=values)))
    return findings


def _finding(answer: Any, check: Check, needed: Any) -> Finding:
    if isinstance(answer, Said):
        answer = check.finding(answer)
    if isinstance(answer, Finding):
        if answer.severity not in SEVERITIES:
            raise _none(check, f"severity {answer.severity!r}")
        return answer
    if not isinstance(answer, Mapping):
        raise _none(check, f"a {type(answer).__name__}")
    unknown = [key for key in answer if key not in (*_TEXTS, "severity", "db")]
    if unknown:
        raise _none(check, f"a finding with {unknown[0]!r}")
    severity = answer.get("severity", check.severity)
    if severity not in SEVERITIES:
        raise _none(check, f"severity {severity!r}, which is none of {', '.join(SEVERITIES)}")
    if not answer.get("reason"):
        raise _none(check, "a finding without a reason")
    texts = {key: str(answer.get(key, "")) for key in _TEXTS}
    named = (node.op for node in needed.nodes if node.name == texts["node"])
    texts["op"] = texts["op"] or next(named, "")
    db = answer.get("db")
    if db is not None and (isinstance(db, bool) or not isinstance(db, int | float)):
        raise _none(check, f"db {db!r}, which is no number")
    said = Said(**texts, db=None if db is None else float(db), severity=severity)  # type: ignore[arg-type]
    return check.finding(said)


def _none(check: Check, what: str) -> UserError:
    return UserError(f"{check.place} gave {what}", hint=f"the form is {_FORM}")
