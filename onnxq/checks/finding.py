"""What a check says against a model: one type, and how bad it may be."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from onnxq.base.plain import DocumentPart

Severity = Literal["error", "warning", "note"]

SEVERITIES: Sequence[Severity] = get_args(Severity)
"""In the order in which findings are shown: the target rejects it, or computes something else than the file
says; it works, but not in the precision or at the speed that the file asks for, or not surely; it gains
nothing, or is of interest only."""


@dataclass(frozen=True, slots=True)
class Finding(DocumentPart):
    """What a check says against a model.

    Attributes:
        kind: the group that it belongs to.
        check: the check, a key of `CHECKS`.
        severity: how bad it is.
        node: the node's name, "" where it is about the whole model.
        op: its operator.
        tensor: the tensor that it is about, "" where that is the node.
        reason: what is wrong.
        consequence: what comes of it.
        advice: what to do.
        db: the signal to rounding noise of the tensor under its scale, dB, where it is measured; of a check
            of yours what that states.
        confirmed: whether the compiled engine shows the consequence; None: it was not asked, or cannot tell.
        command: the command with which one goes on; a file that onnxq does not know is `FLOAT.onnx` in it,
            data are `DATA`.
    """

    kind: str
    check: str
    severity: Severity
    node: str
    op: str
    tensor: str
    reason: str
    consequence: str
    advice: str
    db: float | None = None
    confirmed: bool | None = None
    command: str = ""


def exit_code(findings: Iterable[Finding], *, strict: bool = False) -> int:
    """1 where there is an error, or with `strict` a warning; else 0. Notes never count."""
    failing = ("error", "warning") if strict else ("error",)
    return int(any(one.severity in failing for one in findings))


def by_severity(findings: Iterable[Finding]) -> list[Finding]:
    """The worst first, else in their order."""
    order = list(SEVERITIES)
    return sorted(findings, key=lambda one: order.index(one.severity))
