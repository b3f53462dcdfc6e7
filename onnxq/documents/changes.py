"""What surgery changed, and how surely it computes the same."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from onnxq.graph.sizes import Growth
from onnxq.plain import DocumentPart
from onnxq.rewrite.sketch import ChangeSketch


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

    verdict: Literal["exact", "close", "unproven", "failed"]
    inputs: int
    bindings: int
    max_abs: float
    bound: float
    why: str
    refused: str
    code: str


@dataclass(frozen=True, slots=True)
class ChangeMade(DocumentPart):
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


@dataclass(frozen=True, slots=True)
class PatternLeft(DocumentPart):
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
class Assumed(DocumentPart):
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


@dataclass(frozen=True, slots=True)
class ChangesCounted(DocumentPart):
    """How many changes are proved how.

    Attributes:
        exact: changes that are equal bit for bit.
        close: changes that are within the bound of their rule.
        unproven: changes that could not be compared.
    """

    exact: int
    close: int
    unproven: int


@dataclass(frozen=True, slots=True)
class ChangeOfInterface(DocumentPart):
    """An input or an output that is another one now.

    Attributes:
        tensor: its name.
        was: what it was: input or output, type and shape.
        now: what it is now; "constant" where it is none any more.
        because: why, where a rule changed it; else None.
    """

    tensor: str
    was: str
    now: str
    because: str | None = None


@dataclass(frozen=True, slots=True)
class ExactProduct(DocumentPart):
    """A product of whole numbers that half precision would round.

    Attributes:
        tensor: what it gives.
        because: why it has to be exact.
    """

    tensor: str
    because: str


@dataclass(frozen=True, slots=True)
class NotTaken(DocumentPart):
    """What the target does not take.

    Attributes:
        node: the node, "" where it is about the whole model.
        op: its operator.
        reason: why it is not taken.
        advice: what to do.
    """

    node: str
    op: str
    reason: str
    advice: str


@dataclass(frozen=True, slots=True)
class TakenByRuntime(DocumentPart):
    """Whether onnxruntime takes the models.

    Attributes:
        original: why it does not take the original; None where it does.
        result: the same of the result.
        parser: what NVIDIA's parser says of a result that onnxruntime does not take; None where it was not
            asked.
    """

    original: str | None
    result: str | None
    parser: str | None


@dataclass(frozen=True, slots=True)
class FileSizes(DocumentPart):
    """The sizes of the files, weights included.

    Attributes:
        before: the original, bytes.
        after: the result, bytes.
        grown: what makes it larger, the largest first; empty where it is not.
    """

    before: int
    after: int
    grown: tuple[Growth, ...]
