"""What a measured bundle says: which file to use, how much faster it is, and which layers gain or lose."""

from __future__ import annotations

import os
import shlex
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from onnxq.base.errors import UserError
from onnxq.base.plain import DocumentPart
from onnxq.base.reason import say
from onnxq.base.shown import Shown, Words
from onnxq.documents.measurements import MeasuredEngine, Measurements, read_measurements
from onnxq.emit import measure
from onnxq.inspection.bundling import Bundle, read_bundle
from onnxq.inspection.measured_bundle import BASELINE, WHOLE, LayerTimes, layer_times, times_of
from onnxq.options.flag_words import tells_keywords
from onnxq.pipeline.planning import plan_at, save_plan

_NEW = MeasuredEngine("new", "", {})


@dataclass(frozen=True, slots=True)
class MeasuredModel(DocumentPart):
    """A candidate as it was measured.

    Attributes:
        name: its name.
        what: what is in int8, in words.
        engine: what became of its engine.
        ms: the median of its rounds, ms; None: it was not timed.
        times_as_fast: as float16, of the same rounds; None likewise.
        low: the lower end of its 95 % interval.
        high: the upper end.
        near: how near its outputs are, as known where it was made.
    """

    name: str
    what: str
    engine: MeasuredEngine
    ms: float | None
    times_as_fast: float | None
    low: float | None
    high: float | None
    near: str


@dataclass(frozen=True, slots=True, repr=False)
class BundleDecision(Shown, DocumentPart):
    """What a measured bundle says.

    Attributes:
        kind: "decision".
        schema: 1.
        folder: the bundle.
        device: what it was measured on.
        tensorrt: the release of TensorRT there.
        date: when that was begun, UTC.
        answer: which file to use, in lines.
        chosen: the candidate; None: it is not known.
        candidates: all of them, the fastest first.
        layers: what layers take in float16 and in the chosen one (where that is float16, in int8), those that
            lose most first; none where the device did not tell.
        plan: the plan that was written, or "".
    """

    kind: str
    schema: int
    folder: str
    device: str
    tensorrt: str
    date: str
    answer: tuple[str, ...]
    chosen: str | None
    candidates: tuple[MeasuredModel, ...]
    layers: tuple[LayerTimes, ...]
    plan: str = ""

    @property
    def following(self) -> str:
        """What to type next."""
        folder = shlex.quote(self.folder)
        return say("decision.next", results=shlex.quote(f"{self.folder}/{measure.RESULTS}"), folder=folder)

    def words(self) -> Words:
        """The answer, and the candidates."""
        rows = [
            (one.name, one.engine.status, "" if one.ms is None else f"{one.ms:.3f} ms", said(one), one.near)
            for one in self.candidates
        ]
        return Words(
            f"{self.folder}, measured on {self.device}, TensorRT {self.tensorrt}, {self.date}",
            self.answer, ("candidate", "engine", "takes", "as fast as float16", "outputs"), rows,
        )  # fmt: skip


def said(one: MeasuredModel) -> str:
    """How fast a candidate is, in words; "" where nobody knows."""
    if one.times_as_fast is None:
        return ""
    return f"{one.times_as_fast:.2f} ({one.low:.2f} to {one.high:.2f})"


@tells_keywords
def decide(
    results: str | os.PathLike[str], output: str | os.PathLike[str] | None = None, *, force: bool = False
) -> BundleDecision:
    """Reads what was measured on the device.

    Args:
        results: results.json in its bundle, or the bundle.
        output: where the plan of the chosen file is written; it says what was measured. None: nowhere.
        force: replace a plan that is there.

    Raises:
        UserError: nothing was measured there, it is of another bundle, or the chosen file has no plan.
    """
    path = Path(results)
    folder = path if path.is_dir() else path.parent
    bundle = read_bundle(folder)
    held = read_measurements(folder / measure.RESULTS)
    if held.bundle != measure.BundleFolder(folder).hash:
        raise UserError(f"{str(folder / measure.RESULTS)!r} is of another bundle", hint="measure this one")
    found = BundleDecision(
        "decision", 1, str(folder), held.device, held.tensorrt, held.date, held.answer, held.chosen,
        _models(bundle, held), _layers(folder, bundle, held.chosen),
    )  # fmt: skip
    if output is None:
        return found
    save_plan(plan_at(folder / measure.RESULTS), Path(output), force=force)
    return replace(found, plan=str(output))


def _models(bundle: Bundle, held: Measurements) -> tuple[MeasuredModel, ...]:
    times, found = times_of(held), []
    for one in bundle.candidates:
        entry, ms = held.candidates.get(one.name, _NEW), times.get(one.name)
        as_fast = low = high = None
        if ms and times.get(BASELINE):
            took, least, most = measure.ratio(ms, times[BASELINE])
            as_fast, low, high = 1 / took, 1 / most, 1 / least if least else None
        median = float(np.median(ms)) if ms else None
        found.append(MeasuredModel(one.name, one.what, entry, median, as_fast, low, high, one.near))
    return tuple(sorted(found, key=lambda one: (one.ms is None, one.ms)))


def _layers(folder: Path, bundle: Bundle, chosen: str | None) -> tuple[LayerTimes, ...]:
    """Of float16 and of the chosen one; where that is float16, of int8."""
    other = chosen if chosen not in (None, BASELINE) else WHOLE
    models = {one.name: folder / one.file for one in bundle.candidates if one.name in (BASELINE, other)}
    return tuple(layer_times(folder, models)) if len(models) == 2 else ()
