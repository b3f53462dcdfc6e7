"""One block of samples: every source alone on each of them, and what that adds to G."""

from __future__ import annotations

import pickle
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

import numpy as np
import onnx

from onnxq.base.executors import Parcel
from onnxq.graph.constants import tensor_bytes
from onnxq.graph.external import externalize
from onnxq.graph.load import tensors
from onnxq.judge.comparable import as_tensor
from onnxq.judge.output_parts import OutputParts
from onnxq.judge.sqnr import LOUDEST, Signal
from onnxq.run import ort
from onnxq.run.piecewise import Edge, PiecewiseModel, Recipe, Setting

_INLINE = 1 << 28  # bytes of weights from which they go into a file of their own


@dataclass(frozen=True, slots=True)
class Task:
    """What is measured of each sample.

    Attributes:
        sets: the edges that are on, for each run.
        parts: the outputs that are compared, in their parts.
        budget: how many numbers are kept of a source's errors in a sample, of all outputs together.
        seed: of the projections.
    """

    sets: tuple[frozenset[Edge], ...]
    parts: OutputParts
    budget: int
    seed: int


@dataclass(slots=True)
class Sums:
    """What blocks add up to.

    Attributes:
        samples: how many samples.
        runs: how many runs of the model with a source on.
        grams: of each output, float64 [outputs][sets, sets].
        signals: of each output.
        broken: how often a set makes an output that is not finite, int [outputs][sets].
    """

    samples: int
    runs: float
    grams: list[np.ndarray]
    signals: list[Signal]
    broken: list[np.ndarray]

    @staticmethod
    def none(sets: int, outputs: int) -> Sums:
        """Those of no sample."""
        return Sums(
            0,
            0.0,
            [np.zeros((sets, sets)) for _ in range(outputs)],
            [Signal() for _ in range(outputs)],
            [np.zeros(sets, int) for _ in range(outputs)],
        )

    def add(self, later: Sums) -> None:
        """Adds those of later samples; the order counts, to the last bit."""
        self.samples += later.samples
        self.runs += later.runs
        for ours, theirs in zip(self.grams, later.grams, strict=True):
            ours += theirs
        self.signals = [a.joined(b) for a, b in zip(self.signals, later.signals, strict=True)]
        for ours, theirs in zip(self.broken, later.broken, strict=True):
            ours += theirs

    def in_parts_of_power(self, place: int) -> np.ndarray:
        """G of an output in parts of its power, [sets, sets]."""
        signal = self.signals[place]
        gram: np.ndarray = self.grams[place] / signal.about_mean
        gram[np.diag_indices(len(gram))] += LOUDEST * self.broken[place]
        return gram


def measure_block(
    model: PiecewiseModel, task: Task, feeds: Sequence[Mapping[str, np.ndarray]], first: int
) -> Sums:
    """The sums of some samples, of which the first has a number.

    Raises:
        RunError: the model does not run on one of them.
    """
    total = Sums.none(len(task.sets), len(task.parts.parts))
    before = model.runs
    for number, one in enumerate(feeds, first):
        total.add(_of_sample(model, task, one, number))
    total.runs = model.runs - before - len(feeds)  # the float model is not what is counted
    return total


def _of_sample(model: PiecewiseModel, task: Task, feeds: Mapping[str, np.ndarray], number: int) -> Sums:
    off = model.edges
    settings = [Setting(off), *(Setting(off - edges) for edges in task.sets)]
    taken = {name: feeds[name] for name in model.inputs}
    sums = Sums.none(len(task.sets), len(task.parts.parts))
    sums.samples = 1
    most = max(1, task.budget // max(1, len(task.parts.parts)))
    exact: list[np.ndarray] = []
    projections: list[Projection] = []
    errors: list[np.ndarray] = []
    for index, whole in model.run_one_by_one(taken, settings, task.parts.outputs):
        outputs = task.parts.split(whole)
        if not projections:  # the float model is the first
            assert index == 0
            sums.signals = [Signal.of(value) for value in outputs]
            exact = [as_tensor(value) for value in outputs]
            for place, (value, signal) in enumerate(zip(exact, sums.signals, strict=True)):
                size = value.size if signal.comparable else 0
                projections.append(Projection(size, most, task.seed, number, place))
                errors.append(np.zeros((len(task.sets), projections[-1].length)))
            exact = [
                value.astype(np.float64) if signal.comparable else value
                for value, signal in zip(exact, sums.signals, strict=True)
            ]
            continue
        for place, value in enumerate(outputs):
            signal = sums.signals[place]
            array = as_tensor(value)
            if signal.comparable and array.shape != exact[place].shape:
                signal.comparable = False
            if not signal.comparable:
                continue
            with np.errstate(over="ignore", invalid="ignore"):
                error = (array - exact[place]).ravel()
            if not np.isfinite(error).all():
                sums.broken[place][index - 1] += 1
                error = np.zeros(error.size)
            errors[place][index - 1] = projections[place](error)
    for place, rows in enumerate(errors):
        if sums.signals[place].comparable:
            sums.grams[place] = rows @ rows.T
    return sums


# -- elsewhere --------------------------------------------------------------------------------


def hand_over(recipe: Recipe, task: Task, folder: Path) -> None:
    """Writes a task to a folder, for processes that read it."""
    plain = []
    for name, model in (("model", recipe.model), ("floats", recipe.floats)):
        inline = (t for t in tensors(model.graph) if t.data_location != onnx.TensorProto.EXTERNAL)
        outside = recipe.data_dir is not None
        if outside or sum(map(tensor_bytes, inline)) > _INLINE:
            model, outside = externalize(model, folder / f"{name}.weights", recipe.data_dir), True
        (folder / f"{name}.onnx").write_bytes(model.SerializeToString())
        plain.append(outside)
    bare = replace(
        recipe, model=onnx.ModelProto(), floats=onnx.ModelProto(), data_dir=folder if any(plain) else None
    )
    (folder / "task").write_bytes(pickle.dumps((bare, task, ort.runs_as())))


def measure_elsewhere(folder: str, feeds: Sequence[Mapping[str, np.ndarray]], first: int) -> Sums:
    """As `measure_block`, of a task that was written to a folder."""
    model, task, runs_as = _taken_over(folder)
    with ort.running(*runs_as):
        return measure_block(model, task, feeds, first)


def measure_of_parcel(parcel: Parcel, feeds: Sequence[Mapping[str, np.ndarray]], first: int) -> Sums:
    """As `measure_elsewhere`, of a task whose folder came along."""
    with parcel.opened() as folder:
        return measure_elsewhere(str(folder), feeds, first)


@lru_cache(maxsize=1)
def _taken_over(folder: str) -> tuple[PiecewiseModel, Task, tuple[tuple[str, ...], int | None]]:
    place = Path(folder)
    recipe, task, runs_as = pickle.loads((place / "task").read_bytes())
    model, floats = (
        onnx.load(place / f"{name}.onnx", load_external_data=False) for name in ("model", "floats")
    )
    data_dir = None if recipe.data_dir is None else place
    return replace(recipe, model=model, floats=floats, data_dir=data_dir).made(), task, runs_as


class Projection:
    """The projection of one output in one sample."""

    def __init__(self, size: int, most: int, *draw: int) -> None:
        """For errors of a size.

        Args:
            size: how many values they have.
            most: how many numbers are kept; errors that have no more are kept as they are.
            draw: what the signs are drawn from: the seed, the sample, the output.
        """
        self.exact = size <= most
        self.length = size if self.exact else _prime(most)
        self._size = size
        if not self.exact:
            bits = np.random.default_rng(draw).integers(0, 256, -(-size // 8), np.uint8)
            self._signs = 1.0 - 2.0 * np.unpackbits(bits)[:size]

    def __call__(self, error: np.ndarray) -> np.ndarray:
        """The numbers of an error, float64 [size] to float64 [length]."""
        if self.exact:
            return error
        rows = -(-self._size // self.length)
        padded = np.zeros(rows * self.length)
        np.multiply(error, self._signs, out=padded[: self._size])
        numbers: np.ndarray = padded.reshape(rows, self.length).sum(0)
        return numbers


def _prime(most: int) -> int:
    """The greatest prime that is no more than a number, 2 at least."""
    number = max(2, most)
    while any(number % divisor == 0 for divisor in range(2, int(number**0.5) + 1)):
        number -= 1
    return number
