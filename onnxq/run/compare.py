"""Comparing the outputs of two models over samples, one sample in memory at a time."""

from __future__ import annotations

import math
import pickle
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from onnxq.base.errors import UserError, unknown_name
from onnxq.base.plain import DocumentPart
from onnxq.judge.comparable import as_tensor, is_real
from onnxq.judge.intervals import GROUPS, Interval
from onnxq.judge.output_parts import OutputParts
from onnxq.judge.sqnr import Energy, cosine, sqnr_db
from onnxq.run.in_parts import Runs, given, run_all
from onnxq.run.ort import Session


@dataclass(frozen=True, slots=True)
class OutputAccuracy(DocumentPart):
    """How near a candidate's output is to the reference's, over all samples.

    Attributes:
        output: its name, with indices of one that is compared in parts: `output0[4:22]`.
        samples: how many samples were compared.
        equal: the fraction of equal elements (NaN equals NaN); the measure of integers.
        sqnr_db: signal to quantization noise, 10 log10(sum ref^2 / sum (ref - cand)^2) dB; inf
            where both are equal, -inf where the candidate is not finite and the reference is.
        cosine: cosine similarity of all values as one vector; 1 where both are zero.
        max_abs: the greatest absolute difference.
        max_ref: the greatest absolute value of the reference.
        top1: the fraction of rows with the same greatest entry, of an output `[N, C]` of floats.
        nonfinite: values that are NaN or infinite in the candidate, finite in the reference.
        skipped: values that are NaN or infinite in the reference; only `equal` counts them.
        mismatched: samples whose outputs differ in shape; no other field counts them.
        sqnr_interval: where `sqnr_db` lies with other samples, dB; None where too few tell.
        top1_interval: where `top1` lies likewise, 0 to 1; a sample is one trial, as its rows may be alike.

    The cosine follows the SQNR, and a maximum is that of these samples: they have no intervals.
    What does not apply is None: all from `sqnr_db` to `max_ref` for integers, and for floats
    where nothing could be compared; `top1` for other ranks.
    """

    output: str
    samples: int
    equal: float | None
    sqnr_db: float | None
    cosine: float | None
    max_abs: float | None
    max_ref: float | None
    top1: float | None
    nonfinite: int
    skipped: int
    mismatched: int
    sqnr_interval: Interval | None = None
    top1_interval: Interval | None = None


class OutputComparison:
    """Accumulates the comparison of an output, in float64."""

    def __init__(self, output: str) -> None:
        self.output, self._energy = output, Energy()
        self._samples = self._values = self._equal = self._floats = self._finite = 0
        self._rows = self._same_top = 0
        self._cand2 = self._cross = self._max_abs = 0.0
        self._dealt = np.zeros((2, GROUPS))  # signal and noise of groups of samples

    def add(self, reference: np.ndarray, candidate: np.ndarray) -> None:
        """Adds the outputs of one sample."""
        self._samples += 1
        if reference.shape != candidate.shape:
            self._energy.mismatched += 1
            return
        self._values += reference.size
        if not (is_real(reference.dtype) and is_real(candidate.dtype)):
            self._equal += int(np.count_nonzero(reference == candidate))
            return
        self._floats += reference.size
        ref = reference.astype(np.float64)
        cand = candidate.astype(np.float64)
        self._equal += int(np.count_nonzero((ref == cand) | (np.isnan(ref) & np.isnan(cand))))
        if ref.ndim == 2 and ref.shape[1] > 1:
            self._rows += ref.shape[0]
            self._same_top += int(np.count_nonzero(ref.argmax(1) == cand.argmax(1)))
        was = self._energy.signal, self._energy.noise
        ref, cand = self._energy.add(ref, cand)
        more = self._energy.signal - was[0], self._energy.noise - was[1]
        self._dealt[:, (self._samples - 1) % GROUPS] += more
        self._finite += ref.size
        self._cand2 += float(cand @ cand)
        self._cross += float(ref @ cand)
        self._max_abs = max(self._max_abs, float(np.abs(ref - cand).max(initial=0.0)))

    def result(self) -> OutputAccuracy:
        """The comparison of all samples added so far."""
        energy = self._energy
        broken = energy.beyond > 0
        measured = self._finite > 0 or broken
        noise = math.inf if broken else energy.noise
        level = sqnr_db(energy.signal, noise) if measured else None
        top1 = self._same_top / self._rows if self._rows else None
        rest = np.sum(self._dealt, 1, keepdims=True) - self._dealt[:, : self._samples]
        without = [sqnr_db(float(one), float(other)) for one, other in rest.T]
        return OutputAccuracy(
            output=self.output,
            samples=self._samples,
            equal=self._equal / self._values if self._values else None,
            sqnr_db=level,
            cosine=cosine(energy.signal, self._cand2, self._cross, noise) if measured else None,
            max_abs=(math.inf if broken else self._max_abs) if measured else None,
            max_ref=energy.amax if measured else None,
            top1=top1,
            nonfinite=energy.beyond,
            skipped=self._floats - self._finite - energy.beyond,
            mismatched=energy.mismatched,
            sqnr_interval=Interval.of_level(level, without),
            top1_interval=Interval.of_share(top1, self._samples - energy.mismatched),
        )


class Runner(Protocol):
    """What runs on a sample: a session, or several in a chain.

    Attributes:
        inputs: names of the inputs.
        outputs: names of the outputs.
    """

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]

    def run(self, feeds: Mapping[str, np.ndarray], outputs: Sequence[str] | None = None) -> list[Any]:
        """The outputs wanted, or all; see `Session.run`."""


class Meter(Protocol):
    """What is measured of outputs beside the comparison, in the same pass."""

    def add(
        self,
        reference: Sequence[Any],
        candidates: Sequence[Sequence[Any]],
        feeds: Mapping[str, np.ndarray] | None,
        /,
    ) -> None:
        """Adds a sample: the reference's outputs, each candidate's in the same order, what they were fed."""


class Recording:
    """A session's outputs on samples, in a file: it runs once on each, and is open only while it does.

    Attributes:
        outputs: names of the outputs.
    """

    def __init__(
        self,
        load: Callable[[], Runs],
        outputs: Sequence[str],
        session: Runs | None = None,
        *,
        most_bytes: int = 1 << 28,
    ) -> None:
        """Nothing is run yet.

        Args:
            load: opens the session.
            outputs: names of its outputs.
            session: the same, where it is open already.
            most_bytes: from so large a file on, what samples give is not kept, and they run each time.
        """
        self.outputs = tuple(outputs)
        self._load, self._session, self._most = load, session, most_bytes
        self._file = tempfile.TemporaryFile(prefix="onnxq-")  # noqa: SIM115 (it lives as long as this)
        self._starts: list[int] = []  # where in the file the samples are
        self._end = self._at = 0

    @classmethod
    def of(cls, session: Session, samples: Iterable[Mapping[str, np.ndarray]]) -> Recording:
        """That of an open session, which is run on the samples now.

        Raises:
            RunError: it does not run.
        """
        found = cls(lambda: session, session.outputs)
        found.record(samples)
        return found

    def record(self, samples: Iterable[Mapping[str, np.ndarray]]) -> None:
        """Runs the samples now, so that the session is not in memory beside another one; all are kept.

        Raises:
            RunError: it does not run.
        """
        record_all(self._load(), [(self, samples)])

    def keep(self, found: list[Any]) -> None:
        """Keeps what the sample behind those that are kept gave."""
        self._file.seek(self._end)
        pickle.dump(found, self._file, protocol=5)
        self._starts.append(self._end)
        self._end = self._file.tell()

    def rewind(self) -> None:
        """Goes back to the first sample, and closes the session."""
        self._session = None
        self.again()

    def forget(self) -> None:
        """Begins again, without what was kept."""
        self._starts.clear()
        self._end = self._at = 0

    def again(self) -> None:
        """Goes back to the first sample."""
        self._at = 0

    def run(self, feeds: Mapping[str, np.ndarray]) -> list[Any]:
        """The outputs of the next sample."""
        place, self._at = self._at, self._at + 1
        if place < len(self._starts):
            self._file.seek(self._starts[place])
            return list(pickle.load(self._file))
        if self._session is None:
            self._session = self._load()
        found = self._session.run(feeds, self.outputs)
        if place == len(self._starts) and self._end < self._most:
            self.keep(found)
        return found


def record_all(session: Runs, wanted: Sequence[tuple[Recording, Iterable[Mapping[str, np.ndarray]]]]) -> None:
    """Records several of one session: what each is to have of samples, in one go.

    Raises:
        RunError: it does not run on a sample.
    """
    whose: list[Recording] = []

    def fed() -> Iterator[Mapping[str, np.ndarray]]:
        for recording, samples in wanted:
            recording.forget()
            for feeds in samples:
                whose.append(recording)
                yield feeds

    for place, found in enumerate(run_all(session, fed(), wanted[0][0].outputs)):
        whose[place].keep(given(found))
    for recording, _ in wanted:
        recording.rewind()


Reference = Runner | Recording
"""A model, or what it gave."""


def compare_models(
    reference: Reference,
    candidate: Runner,
    samples: Iterable[Mapping[str, np.ndarray]],
    dtypes: Mapping[str, np.dtype | None] | None = None,
    meters: Sequence[Meter] = (),
    parts: OutputParts | None = None,
) -> list[OutputAccuracy]:
    """Runs both models on the samples and compares each output of the reference.

    Args:
        reference: the model to be near to, or what it gave for the same samples.
        candidate: the other; its outputs have the same names, in any order. An input that it lacks
            (frozen to a constant, say) is not fed to it.
        samples: feeds of the reference, `{input: array}`.
        dtypes: the types of the candidate's inputs, where they are others.
        meters: hear the outputs of each sample as well, those of the candidate in the reference's order.
        parts: in which the outputs are compared; None: each as a whole.

    Returns:
        A comparison for each part of an output, in the reference's order.

    Raises:
        UserError: the candidate lacks an output, or there are no samples.
        RunError: a model does not run.
    """
    for name in reference.outputs:
        if name not in candidate.outputs:
            raise unknown_name("output of the compared model named", name, candidate.outputs)
    heard = OutputParts.of(parts or reference.outputs)
    comparisons = [OutputComparison(name) for name in heard.names]
    ran = False
    for feeds in samples:
        ran = True
        ours = reference.run(feeds)
        taken = {
            name: array.astype((dtypes or {}).get(name) or array.dtype, copy=False)
            for name, array in feeds.items()
            if name in candidate.inputs
        }
        theirs = candidate.run(taken, reference.outputs)
        for comparison, a, b in zip(comparisons, heard.split(ours), heard.split(theirs), strict=True):
            comparison.add(as_tensor(a), as_tensor(b))
        for meter in meters:
            meter.add(ours, [theirs], feeds)
    if not ran:
        raise UserError("there are zero samples to compare with", hint="check the data")
    return [comparison.result() for comparison in comparisons]
