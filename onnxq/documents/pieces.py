"""The documents of models in pieces: of `onnxq pieces split`, `run` and `extract`."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from onnxq.base.plain import DocumentPart
from onnxq.base.shown import Shown, Words, count, decibels
from onnxq.data.understood import DataRead
from onnxq.documents.changes import NotTaken
from onnxq.options.profile import Profile
from onnxq.run.compare import OutputAccuracy

PIECES_SCHEMA, EXTRACT_SCHEMA, RUN_SCHEMA = 3, 2, 3
"""The schemas of `Manifest`, `ExtractReport` and `ChainRun`. Those of 1 had no `kind`."""

_ROWS = 10


@dataclass(frozen=True, slots=True)
class TensorDescribed(DocumentPart):
    """An input or an output.

    Attributes:
        name: its name.
        dtype: its type; None where it is not known, or no tensor.
        shape: sizes and symbols, null for a dimension without either; None where the rank is not known.
    """

    name: str
    dtype: str | None
    shape: tuple[int | str | None, ...] | None


@dataclass(frozen=True, slots=True)
class PieceWritten(DocumentPart):
    """A piece of a model.

    Attributes:
        file: its file, beside the manifest; None before it is saved.
        runs: where it is to run, "tensorrt" or "onnxruntime".
        nodes: how many nodes it has.
        inputs: its inputs.
        outputs: its outputs.
        refused: its nodes that the target or its compiler does not take, with why.
        macs: multiply-accumulates of its nodes, as far as they are known; None where nobody asked.
        profiles: smallest, usual and largest shape of its dynamic inputs, as compiled for.
        numbers: the same of the numbers in its integer inputs, which may decide sizes.
    """

    file: str | None
    runs: Literal["tensorrt", "onnxruntime"]
    nodes: int
    inputs: tuple[TensorDescribed, ...]
    outputs: tuple[TensorDescribed, ...]
    refused: tuple[NotTaken, ...] = ()
    macs: int | None = None
    profiles: Mapping[str, Profile] = field(default_factory=dict)
    numbers: Mapping[str, Profile] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class OutputOfChain(OutputAccuracy):
    """An output of the pieces beside the original's, over all samples.

    Attributes:
        verdict: whether it is equal, bit for bit.
    """

    verdict: Literal["equal", "differs"] = field(kw_only=True)


@dataclass(frozen=True, slots=True)
class UntilCompiles(DocumentPart):
    """How a model was cut until each piece for an engine compiled.

    Attributes:
        target: what the engines are for.
        sm: the compute capability compiled for, 89 for 8.9.
        compiler: the compiler and its version.
        compilations: how many there were.
        whole: why the model as it is does not compile in one piece; empty where it does.
        repairs: how many changes of `sanitize` are in the pieces; none where the model compiles as it is.
        share: the share of its multiply-accumulates that is in engines, 0 to 1; None where it has none.
        uncounted: nodes whose multiply-accumulates are not known.
        samples: on how many samples the chain ran beside the original.
        outputs: each output beside the original's.
    """

    target: str
    sm: int
    compiler: str
    compilations: int
    whole: str
    repairs: int
    share: float | None
    uncounted: tuple[str, ...]
    samples: int
    outputs: tuple[OutputOfChain, ...]

    @property
    def equal(self) -> bool | None:
        """Whether all outputs are equal; None where the chain did not run."""
        return all(one.verdict == "equal" for one in self.outputs) if self.samples else None


@dataclass(frozen=True, slots=True)
class Manifest(DocumentPart):
    """A model in pieces, `X.split.json`.

    Attributes:
        kind: "pieces".
        schema: 3.
        onnxq: the version of onnxq.
        model: the path of the original, relative to the manifest; None for one in memory.
        sha256: the hash of its file, in hexadecimal; None likewise.
        inputs: its inputs.
        outputs: its outputs.
        pieces: the pieces, in the order in which they run.
        notes: what may not be expected.
        files: the files that were written.
        until: how it was cut until each piece compiled; None where that was not asked.
    """

    kind: str
    schema: int
    onnxq: str
    model: str | None
    sha256: str | None
    inputs: tuple[TensorDescribed, ...]
    outputs: tuple[TensorDescribed, ...]
    pieces: tuple[PieceWritten, ...]
    notes: tuple[str, ...]
    files: tuple[str, ...]
    until: UntilCompiles | None = None

    @property
    def compiles(self) -> bool:
        """Whether there is an engine, as far as that was asked."""
        return self.until is None or any(piece.runs == "tensorrt" for piece in self.pieces)


@dataclass(frozen=True, slots=True)
class ExtractReport(DocumentPart):
    """A part of a model, `X.report.json` of `onnxq pieces extract`.

    Attributes:
        kind: "extract".
        schema: 2.
        onnxq: the version of onnxq.
        model: the path of the original, None for one in memory.
        output: the file that was written; None where none was.
        from: the tensors that become inputs; empty: the original's.
        to: the tensors that become outputs.
        node: the node that was taken; None where tensors were given.
        ops: how many nodes there are of each operator, the most frequent first.
        inputs: the part's inputs.
        outputs: its outputs.
        files: the files that were written.
    """

    kind: str
    schema: int
    onnxq: str
    model: str | None
    output: str | None
    start: tuple[str, ...] = field(metadata={"key": "from"})
    to: tuple[str, ...]
    node: str | None
    ops: Mapping[str, int]
    inputs: tuple[TensorDescribed, ...]
    outputs: tuple[TensorDescribed, ...]
    files: tuple[str, ...]


@dataclass(frozen=True, slots=True, repr=False)
class ChainRun(Shown, DocumentPart):
    """What `onnxq pieces run` found.

    Attributes:
        kind: "run".
        schema: 3.
        manifest: the manifest that was read.
        original: the model that was compared with; None where none was.
        pieces: the files that ran, in order.
        data: the data.
        samples: how many samples ran.
        tolerance_db: the least signal-to-noise ratio that an output may have, dB; None: all must be equal.
        outputs: each output beside the original's.
        within: whether all are near enough; None where there is no original.
        saved: the folder of each sample's tensors; None for none.
        notes: what may not be expected.
    """

    kind: str
    schema: int
    manifest: str
    original: str | None
    pieces: tuple[str, ...]
    data: DataRead
    samples: int
    tolerance_db: float | None
    outputs: tuple[OutputOfChain, ...]
    within: bool | None
    saved: str | None
    notes: tuple[str, ...]

    def words(self) -> Words:
        """Whether the outputs are near enough, those that are furthest off first."""
        against = f" against {self.original}" if self.original is not None else ""
        worst = sorted(self.outputs, key=lambda one: math.inf if one.sqnr_db is None else one.sqnr_db)
        rows = [(one.output, one.verdict, decibels(one.sqnr_db)) for one in worst[:_ROWS]]
        differ = sum(one.verdict == "differs" for one in self.outputs)
        facts = [count(self.samples, "sample"), f"{differ} of {count(len(self.outputs), 'output')} differ"]
        alarms = ("the outputs are not near enough",) if self.within is False else ()
        head = f"{count(len(self.pieces), 'piece')} in a chain{against}"
        return Words(head, [*facts, *self.notes], ("output", "", "SQNR"), rows, alarms)
