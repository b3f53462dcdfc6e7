"""What a check is: its name, what it needs, how bad it is, its words, and the function that looks."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

from onnxq.base.catalogue import Fact, table
from onnxq.base.user_code import MisusedError, UserFunction
from onnxq.checks.engine import Judge
from onnxq.checks.finding import SEVERITIES, Finding, Severity

Need = Literal["file", "pairs", "plan", "data", "engine", "target", "dla", "runtime"]

NEEDS: Mapping[Need, str] = {
    "file": "the model as the user gave it, a `Subject`; always there",
    "pairs": "the same, where the target takes int8 as Q/DQ pairs",
    "plan": "what `quantize` would do, an `Evidence`, with what was measured where there are data",
    "data": "the same, where there are data or statistics",
    "engine": "the engine of the model as it is, a `Seen`, where NVIDIA's compiler built it",
    "target": "what the target's table and the rules say, a `TargetAnswer`",
    "dla": "the repaired model, where it is to run on DLA, an `OnDla`",
    "runtime": "what onnxruntime and NVIDIA's parser and compiler say, a `RuntimeAnswer`",
}
"""What a check may need, and what its function is called with."""

_KINDS: Mapping[str, str] = {"pairs": "qdq", "data": "data"}

AT_NODE = "onnxq inspect MODEL --around NODE"
UNTIL_COMPILES = "onnxq pieces split MODEL --until-compiles"
"""Where nothing here compiles for the target, it is `--at-op OP`."""
COMPLETE = "onnxq quantize MODEL DATA"
COMMANDS: Mapping[Need, str] = {
    "file": AT_NODE,
    "pairs": "onnxq quantize FLOAT.onnx DATA",
    "plan": COMPLETE,
    "data": COMPLETE,
    "engine": "onnxq engine MODEL --match NODE",
    "target": AT_NODE,
    "dla": AT_NODE,
    "runtime": "onnxq rules explain --message REASON",
}
"""What goes on from a finding of a check that states no command: each word in capitals is filled in."""


@dataclass(frozen=True, slots=True)
class Said:
    """What a check says against a model. Its name and its group are the check's.

    Attributes:
        node: the node's name, "" where it is about the whole model.
        op: its operator.
        reason: what is wrong.
        advice: what to do.
        tensor: the tensor that it is about, "" where that is the node.
        consequence: what comes of it.
        db: the signal to rounding noise of the tensor under its scale, dB, where it is measured.
        confirmed: whether the compiled engine shows it, where the check asked it.
        severity: how bad it is; None: as bad as the check says.
    """

    node: str = ""
    op: str = ""
    reason: str = ""
    advice: str = ""
    tensor: str = ""
    consequence: str = ""
    db: float | None = None
    confirmed: bool | None = None
    severity: Severity | None = None


Function = Callable[[Any], Iterable[Fact | Said]]
"""What looks: called with what the check needs. It changes nothing, and knows of no other check.

A check of onnxq's gives facts, whose `about` is the node, its operator and the tensor, as far as there are.
Of the values `db`, `confirmed` and `severity` are those of `Said`. One of the user's says what it finds.
"""


@dataclass(frozen=True, slots=True)
class Check:
    """What is looked for.

    Attributes:
        name: its name, which findings have.
        what: what is wrong then, in a few words.
        needs: what has to be there, a key of `NEEDS`.
        severity: how bad a finding is.
        kind: the group of its findings, `Finding.kind`.
        lacks: the feature of the target's table that a repair rule of `onnxq sanitize` makes up for.
        parser: what NVIDIA's parser or builder says of it, as a regular expression; "": nothing.
        command: what goes on from a finding, as in `COMMANDS`, where the advice has no command.
        judge: how the engine is asked about a finding; None: it cannot tell.
        is_cause: whether it is why a scale does not suit a tensor: of each tensor the first that applies is
            told.
        function: what looks; None: it is told by another's function, or by what asks checks.
        place: where the user's function stands; None: it is onnxq's.
    """

    name: str
    what: str
    needs: Need
    severity: Severity
    kind: str
    lacks: str = ""
    parser: str = ""
    command: str = ""
    judge: Judge | None = None
    is_cause: bool = False
    function: Function | None = None
    place: UserFunction | None = None

    def __call__(self, needed: Any) -> Iterable[Any]:
        """What its function finds in what it needs."""
        return () if self.function is None else self.function(needed)

    def finding(self, found: Fact | Said) -> Finding:
        """What was found, as a finding of this check; a fact has the words of its row."""
        said = found if isinstance(found, Said) else _in_words(found)
        return Finding(
            self.kind, self.name, said.severity or self.severity, said.node, said.op, said.tensor,
            said.reason, said.consequence, said.advice, said.db, said.confirmed,
        )  # fmt: skip


def _in_words(fact: Fact) -> Said:
    node, op, tensor = (*fact.about, "", "", "")[:3]
    reason, advice, consequence = (fact.text("checks", part) for part in ("says", "do", "so"))
    more: dict[str, Any] = {name: fact.values.get(name) for name in ("db", "confirmed", "severity")}
    return Said(node, op, reason, advice, tensor, consequence, **more)


def stated(
    name: str,
    what: str = "",
    *,
    needs: Need,
    severity: Severity = "warning",
    kind: str = "",
    lacks: str = "",
    parser: str = "",
    command: str = "",
    judge: Judge | None = None,
    is_cause: bool = False,
) -> Check:
    """A check without a function of its own; arguments as the attributes of `Check`.

    What is wrong is said by the catalogue of onnxq's own checks, and stated for others.

    Raises:
        MisusedError: there is no such need or severity, it is no name, or nothing says what is wrong.
    """
    if not isinstance(name, str) or not re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", name):
        raise MisusedError(f"{name!r} is no name of a check", hint="a name is like 'no-bias'")
    if needs not in get_args(Need):
        raise MisusedError(f"the check {name!r} needs {needs!r}", hint=f"it may need {', '.join(NEEDS)}")
    if severity not in SEVERITIES:
        raise MisusedError(
            f"the check {name!r} has severity {severity!r}", hint=f"there are {', '.join(SEVERITIES)}"
        )
    if not what and name in table("checks"):
        what = Fact(name).text("checks", "cause")
    if not what:
        raise MisusedError(
            f"the check {name!r} does not say what is wrong", hint="in a few words, behind its name"
        )
    kind = kind or _KINDS.get(needs, name)
    command = command or COMMANDS[needs]
    return Check(name, what, needs, severity, kind, lacks, parser, command, judge, is_cause)


def check(name: str, what: str = "", **options: Any) -> Callable[[Function], Check]:
    """Makes a function a check. It is called with what the check needs, and yields `Said`; onnxq's, `Fact`.

    Args:
        name: its name, as in "fp16-scale".
        what: what is wrong where it says something, in a few words; of onnxq's own the catalogue says it.
        options: `needs`, and what else `stated` takes.

    Raises:
        MisusedError: as `stated`.
    """
    plain = stated(name, what, **options)
    return lambda function: dataclasses.replace(plain, function=function)
