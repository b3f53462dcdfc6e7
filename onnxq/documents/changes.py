"""What surgery changed, and how surely it computes the same."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

import onnx

from onnxq.base.plain import DocumentPart
from onnxq.graph.sizes import Growth, file_bytes, growth
from onnxq.rewrite.changes import Change


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

    @classmethod
    def of(cls, changes: Iterable[Change]) -> ChangesCounted:
        """Those of changes."""
        verdicts = Counter(change.proof.verdict for change in changes)
        return cls(verdicts["exact"], verdicts["close"], verdicts["unproven"])


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

    @classmethod
    def of(cls, before: onnx.ModelProto, after: onnx.ModelProto) -> FileSizes:
        """Those of the original's and the new model's file."""
        was, now = file_bytes(before), file_bytes(after)
        return cls(was, now, tuple(growth(before, after)) if now > was else ())
