"""What `measure.py` found out on the device: its `results.json`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from onnxq.base.plain import DocumentPart
from onnxq.base.reason import say
from onnxq.documents.reading import Readable, read_document

RESULTS = "results.json"
"""The name of the file."""


@dataclass(frozen=True, slots=True)
class MeasuredEngine(DocumentPart):
    """What became of a candidate.

    Attributes:
        status: "right"; "wrong": its engine answers otherwise; "refused", "crashed", "late" or "failed": it
            was not built or does not run; "new" or "built": the time was over before.
        why: why it is not right; else "".
        ms: what it takes, ms, by the number of the round.
        where: where a wrong one goes wrong; else "".
    """

    status: str
    why: str
    ms: Mapping[str, float]
    where: str = ""


@dataclass(frozen=True, slots=True)
class Measurements(DocumentPart):
    """What was found out.

    Attributes:
        kind: "measurements".
        schema: 1.
        bundle: which bundle it is of: a hash, in hexadecimal.
        device: what it was measured on.
        tensorrt: the release of TensorRT there.
        date: when that was begun, UTC.
        candidates: what became of each.
        answer: which file to use, in lines.
        chosen: the candidate to use; None: it is not known.
    """

    kind: str
    schema: int
    bundle: str
    device: str
    tensorrt: str
    date: str
    candidates: Mapping[str, MeasuredEngine]
    answer: tuple[str, ...]
    chosen: str | None = None

    @property
    def measured(self) -> str:
        """The answer in one line: how fast the chosen one is, where and when that was measured."""
        said = self.answer[0].partition(": ")[2] if self.answer else ""
        return f"{said} on {self.device}, TensorRT {self.tensorrt}, {self.date}"


def read_measurements(path: Path) -> Measurements:
    """Reads the file.

    Raises:
        UserError: it cannot be read, or is none.
    """
    kinds = {"measurements": Readable(Measurements, 1)}
    return read_document(path, kinds, "results of measure.py", say("decision.results")).document
