"""Finding the parts of outputs: once, on the float model."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx

from onnxq.base.errors import UserError
from onnxq.base.reason import noted
from onnxq.base.remarks import remark
from onnxq.graph.cut import extract_between
from onnxq.graph.model import Model
from onnxq.graph.moves import MOVES
from onnxq.graph.spans import spans
from onnxq.graph.view import Node
from onnxq.judge.comparable import is_comparable
from onnxq.judge.output_parts import OutputPart, OutputParts
from onnxq.judge.sqnr import power_db
from onnxq.run import ort
from onnxq.run.compare import Reference

LOOKS = 8
"""Samples at most that tell of which scale the values are."""

_BLOCKS_APART, _INDICES_APART = 10.0, 20.0
"""dB of power by which two operands of a Concat, and two indices of an axis, are of different scales."""

_MOST = 16  # parts of an output: what has more has no scales, but a continuum of them
_MOVED = frozenset({*MOVES, "Cast", "Concat"} - {"MaxPool"})
_FAR = 200  # nodes that are followed back from an output

Runnable = Callable[[onnx.ModelProto], onnx.ModelProto]
"""Gives a part of a model in the type in which it is run."""


def find_parts(
    model: Model,
    reference: Reference,
    samples: Iterable[Mapping[str, np.ndarray]],
    runnable: Runnable = lambda part: part,
) -> OutputParts:
    """The parts of a float model's outputs; wholes, and a remark, where a fault of ours is in the way.

    An output that a Concat makes (behind it nothing but what moves values) has the parts of that, as far as
    their powers are 10 dB apart. Of others, indices along one axis are parts where their powers are 20 dB
    apart, over all samples and in each of them; the values of a Sigmoid are of one scale by themselves.

    Args:
        model: the float model.
        reference: the same, or what it gave for the samples.
        samples: what it is fed, of which `LOOKS` are read at most.
        runnable: gives a part of it in the type in which it is run.

    Raises:
        RunError: it does not run on a sample.
    """
    try:
        return _found(model, reference, samples, runnable)
    except (UserError, ort.RunError):
        raise
    except Exception as error:
        remark(noted("parts-not-found", error=error))
        return OutputParts.of(reference.outputs)


def _found(
    model: Model, reference: Reference, samples: Iterable[Mapping[str, np.ndarray]], runnable: Runnable
) -> OutputParts:
    bounded = spans(model, reference.outputs)
    powers: dict[str, _Powers] = {}
    first: Mapping[str, np.ndarray] | None = None
    for number, feeds in enumerate(samples):
        if number == LOOKS:
            break
        first = feeds if first is None else first
        for name, value in zip(reference.outputs, reference.run(feeds), strict=True):
            powers.setdefault(name, _Powers()).add(value)
    found: list[OutputPart] = []
    for name in reference.outputs:
        known = powers.get(name)
        parts: list[OutputPart] = []
        if first is not None and known is not None and known.comparable:
            labels = _labels(model, name, first, runnable)
            if labels is not None:
                parts = known.parts_of_blocks(name, labels)
            elif name not in bounded:
                parts = known.parts_of_indices(name)
        found += parts or [OutputPart(name)]
    return OutputParts(tuple(reference.outputs), tuple(found))


@dataclass(slots=True)
class _Powers:
    """The mean square of an output's values by index of each axis, a row a sample.

    Attributes:
        comparable: whether all were finite floats of one rank.
        axes: of each axis, the rows, float64 [samples][size]; None where its size is not the same in all.
    """

    comparable: bool = True
    axes: dict[int, list[np.ndarray] | None] = field(default_factory=dict)

    def add(self, value: Any) -> None:
        """Adds a sample."""
        array = np.asarray(value) if isinstance(value, np.ndarray | np.generic) else np.empty(0)
        fits = array.ndim > 0 and array.size > 0 and len(self.axes or array.shape) == array.ndim
        self.comparable = self.comparable and fits and is_comparable(array)
        if not self.comparable:
            return
        squares = np.square(array, dtype=np.float64)
        for axis in range(array.ndim):
            row = squares.mean(tuple(other for other in range(array.ndim) if other != axis))
            rows = self.axes.setdefault(axis, [])
            if rows is not None and rows and len(rows[0]) != len(row):
                self.axes[axis] = None
            elif rows is not None:
                rows.append(row)

    def parts_of_blocks(self, output: str, labels: np.ndarray) -> list[OutputPart]:
        """Parts by what the values are made of; those of the axis along which their powers are most apart.

        Args:
            output: the name.
            labels: a number for each value in the first sample: which operand of a Concat it is of.
        """
        best: tuple[float, list[OutputPart]] = (0.0, [])
        for axis, rows in self.axes.items():
            if rows is None or labels.ndim <= axis or labels.shape[axis] != len(rows[0]):
                continue
            flat = np.moveaxis(labels, axis, 0).reshape(labels.shape[axis], -1)
            blocks = np.unique(flat, axis=0, return_inverse=True)[1].reshape(-1)
            power = np.mean(rows, axis=0)
            mean = np.bincount(blocks, power) / np.bincount(blocks)
            groups = _apart(mean, _BLOCKS_APART)[blocks]
            spread = power_db(mean.max()) - power_db(max(mean.min(), 1e-300))
            if groups.max() and spread > best[0]:
                best = spread, _parts(output, axis, groups)
        return best[1]

    def parts_of_indices(self, output: str) -> list[OutputPart]:
        """Parts by powers alone; those of the axis of the fewest indices that has any, the batch aside."""
        known = [(axis, rows) for axis, rows in self.axes.items() if axis and rows is not None]
        for axis, rows in sorted(known, key=lambda entry: len(entry[1][0])):
            if len(rows) < 2:
                continue
            groups = _apart(np.mean(rows, axis=0), _INDICES_APART)
            if groups.max() and all(_hold(row, groups, _INDICES_APART) for row in rows):
                return _parts(output, axis, groups)
        return []


def _apart(power: np.ndarray, least: float) -> np.ndarray:
    """Groups of powers with so many dB between any two of them, the least power first, int [powers].

    What is zero is of the first group: it has no scale.
    """
    groups = np.zeros(len(power), int)
    some = np.flatnonzero(power > 0)
    if len(some):
        order = some[np.argsort(power[some], kind="stable")]
        steps = np.diff(power_db(power[order])) > least
        groups[order] = np.concatenate([[0], np.cumsum(steps)])
    return groups


def _hold(power: np.ndarray, groups: np.ndarray, least: float) -> bool:
    """Whether the least power of each group is above all of the group before, by so many dB."""
    ends = [(power[groups == group].min(), power[groups == group].max()) for group in range(groups.max() + 1)]
    return all(
        above[0] > 0 and power_db(above[0]) - power_db(below[1]) > least
        for below, above in itertools.pairwise(ends)
    )


def _parts(output: str, axis: int, groups: np.ndarray) -> list[OutputPart]:
    """The parts of groups of indices, in the order in which they begin; none where there are too many."""
    found = dict.fromkeys(groups.tolist())
    if not 1 < len(found) <= _MOST:
        return []
    indices = (tuple(np.flatnonzero(groups == group).tolist()) for group in found)
    return [OutputPart(output, axis, some, len(groups)) for some in indices]


# -- what an output is made of ----------------------------------------------------------------


def _labels(
    model: Model, output: str, feeds: Mapping[str, np.ndarray], runnable: Runnable
) -> np.ndarray | None:
    """Which operand of a Concat each value of an output is of, on a sample; None where no Concat makes it.

    What moves the values is run on numbers of the operands in their place.
    """
    sources = _sources(model, output)
    if len(sources) < 2:
        return None
    try:
        values = dict(feeds)
        computed = [name for name in sources if name not in feeds]
        if computed:
            values |= zip(computed, _run(model, (), computed, runnable, values), strict=True)
        for number, name in enumerate(sources):
            values[name] = np.full_like(values[name], number)
        (labels,) = _run(model, sources, (output,), runnable, values)
    except (UserError, ort.RunError):  # it is judged by its powers
        return None
    return np.asarray(labels)


def _run(
    model: Model,
    start: Sequence[str],
    end: Sequence[str],
    runnable: Runnable,
    values: Mapping[str, np.ndarray],
) -> list[Any]:
    """What the part of a model between tensors gives."""
    part = runnable(extract_between(model, start, end).model)
    session = ort.load(part, data_dir=model.data_dir)
    return session.run({name: values[name] for name in session.inputs}, end)


def _sources(model: Model, output: str) -> list[str]:
    """The tensors whose values an output is, one after another; none where no Concat puts them together."""
    todo = [one for one in model.outputs if one.name == output]
    found: dict[str, None] = {}
    joined = False
    for _ in range(_FAR):
        if not todo:
            return list(found) if joined else []
        tensor = todo.pop()
        node = tensor.producer
        if tensor.is_constant:
            return []
        if node is None or not _moves(node):
            found[tensor.name] = None
            continue
        joined = joined or node.op == "Concat"
        todo += [one for one in node.inputs[: None if node.op == "Concat" else 1] if one is not None]
    return []


def _moves(node: Node) -> bool:
    return not node.domain and node.op in _MOVED
