"""The command with which one goes on from a finding, filled in with what it is about."""

from __future__ import annotations

import dataclasses
import re
import shlex
from collections.abc import Iterable
from dataclasses import dataclass, field

from onnxq.checks.api import AT_NODE, UNTIL_COMPILES
from onnxq.checks.finding import Finding
from onnxq.checks.load import CHECKS
from onnxq.options.command_line import Takes, accepted, without_refused

_SANITIZE = "onnxq sanitize"
_FOR_TARGET = ("onnxq quantize", _SANITIZE, "onnxq pieces split")
_WHOLE = "onnxq inspect MODEL"
_STATED = re.compile(rf"{_SANITIZE}((?: --[a-z-]+ (?:'[^']*'|,(?=\S)|[^\s;,)'])+)*)(?! --)")
"""What the advice says to run, with its flags; not where it only names a flag."""
_PLACE = re.compile(r"(\bonnxq (?:[a-z]+ ){1,2})MODEL\b")


@dataclass(frozen=True, slots=True)
class Checked:
    """What was checked, for command lines.

    Attributes:
        model: the path of the model.
        target: the value of `--target`; "" for the one that commands have without it.
        data: where the data are.
        flags: those of `quantize` that name data and statistics, and others that it is to be given again.
        feeding: those of `data` that are to be given again.
        takes: which commands the model lets stand.
        compiles: whether NVIDIA's compiler is here, and speaks for the target.
    """

    model: str
    target: str = ""
    data: str = "DATA"
    flags: str = "--calib DATA"
    feeding: str = ""
    takes: Takes = field(default_factory=dict)
    compiles: bool = True


def commanded(findings: Iterable[Finding], checked: Checked) -> list[Finding]:
    """Findings with their commands.

    What the advice itself says to run comes first: `quantize` with its flags, or `sanitize` where a rule
    repairs it. Else the check says it. Where that would be refused, the place is shown.

    Args:
        findings: the findings, of whatever check.
        checked: what was checked.
    """
    quoted = shlex.quote(checked.model)
    return [
        dataclasses.replace(
            one,
            advice=_PLACE.sub(lambda found: found[1] + quoted, without_refused(one.advice, checked.takes)),
            command=_of(one, checked),
        )
        for one in findings
    ]


def _of(finding: Finding, checked: Checked) -> str:
    quoted = shlex.quote(checked.model)
    _, said, flags = finding.advice.partition(f"onnxq quantize {quoted}")
    advised = said + flags.partition("; ")[0]
    known = {
        "MODEL": quoted, "NODE": shlex.quote(finding.node), "OP": shlex.quote(finding.op),
        "SAMPLES": f"--calib {shlex.quote(checked.data)} {checked.feeding}".rstrip(), "DATA": checked.flags,
        "REASON": shlex.quote(finding.reason.partition(": ")[2] or finding.reason),
    }  # fmt: skip
    others = (
        " ".join(known.get(word, word) for word in template.split())
        for template in (_template(finding, checked), AT_NODE, _WHOLE)
    )
    for command in filter(None, (advised, *others)):
        takes_target = command.startswith(_FOR_TARGET) and not re.search("--target|--at-op", command)
        for_target = f" --target {shlex.quote(checked.target)}" * bool(checked.target and takes_target)
        if accepted(command + for_target, checked.takes):
            return command + for_target
    return ""


def _template(finding: Finding, checked: Checked) -> str:
    if stated := _STATED.search(finding.advice):
        return f"{_SANITIZE} MODEL{stated[1]}"
    check = CHECKS.get(finding.check)  # None of the user's own
    if check is not None and check.command == UNTIL_COMPILES and not checked.compiles:
        return "onnxq pieces split MODEL --at-op OP"
    return AT_NODE if check is None else check.command
