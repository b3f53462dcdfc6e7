"""What rules changed, left alone and relied on, as reports say it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from onnxq.base.plain import DocumentPart
from onnxq.base.reason import code_of
from onnxq.rewrite.change_sketch import ChangeSketch

OFF, ACCEPTED = "off", "accepted"
"""Why a proof fails whose values are off, all of them numbers; and why such a change is made all the same."""

DYNAMIC_BATCH = "dynamic_batch"
"""The change that makes a batch dynamic, as the user states."""

ProofVerdict = Literal["exact", "close", "unproven", "failed"]


@dataclass(frozen=True, slots=True)
class ProofOfChange(DocumentPart):
    """What comparing before and after found.

    Attributes:
        verdict: "exact" (bit-equal), "close" (within `bound`), "unproven" or "failed".
        inputs: on how many inputs both ran and were compared.
        bindings: how many different sizes of the dynamic dimensions were among them.
        max_abs: the greatest absolute difference of finite values.
        bound: the bound on it; 0 for "exact".
        why: of "unproven" and "failed" what happened; of others what the reader must know.
        refused: what onnxruntime says of the original, where it does not run it.
        code: a word for `why`, for programs; "" where there is none.
    """

    verdict: ProofVerdict
    inputs: int = 0
    bindings: int = 0
    max_abs: float = 0.0
    bound: float = 0.0
    why: str = ""
    refused: str = ""
    code: str = ""

    @property
    def holds(self) -> bool:
        """Whether the change is proved."""
        return self.verdict in ("exact", "close")

    @property
    def offer(self) -> str:
        """How far a change is off that may be accepted; "" for any other."""
        return (
            f"off by {self.max_abs:.3g}, bound {self.bound:.3g}"
            if OFF in (self.code, code_of(self.why))
            else ""
        )

    def told(self) -> ProofOfChange:
        """The proof for the report: without what only the engine asks of it."""
        return ProofOfChange(
            self.verdict, self.inputs, self.bindings, self.max_abs, self.bound, self.why, self.refused,
            code_of(self.why),
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Change(DocumentPart):
    """A replacement that was kept, or one that was rejected.

    Attributes:
        rule: the rule's name.
        stage: the stage in which it fired.
        node: the node that it replaced; of an upgrade what was upgraded.
        removed: names of the nodes that went, but for those that a node of the result has.
        added: names of the nodes that came.
        proof: what comparing both found.
        reproducer: where a failed change's before and after are saved; None for a kept one.
        limits: the target's numbers that the rule looked at, by name.
        sketch: the nodes before and after, for a drawing; None of most changes of a rule that fired often.
    """

    rule: str
    stage: Literal["clean", "compat", "fuse", "upgrade"]
    node: str
    removed: tuple[str, ...]
    added: tuple[str, ...]
    proof: ProofOfChange
    reproducer: str | None = None
    limits: Mapping[str, int] = field(default_factory=dict)
    sketch: ChangeSketch | None = None

    def told(self, left: Collection[str] = ()) -> Change:
        """The change for the report; `left`: the nodes of the result, which did not go."""
        removed = tuple(name for name in self.removed if name not in left)
        return replace(self, removed=removed, proof=self.proof.told())


@dataclass(frozen=True, slots=True)
class NearMiss(DocumentPart):
    """A rule's pattern that is in the model and was left alone.

    Attributes:
        rule: the rule's name.
        node: where it is.
        reason: why it was left.
        limits: the target's numbers that the rule looked at, by name.
    """

    rule: str
    node: str
    reason: str
    limits: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Assumption(DocumentPart):
    """What changes rely on.

    Attributes:
        flag: the flag that states it, or "proved".
        name: the dimension's symbol, or the input that is frozen.
        value: its size, or the input's values: a number, a text or nested lists of numbers.
        why: "stated", or what proves it.
    """

    flag: str
    name: str
    value: object
    why: str
