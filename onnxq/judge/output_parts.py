"""Outputs in parts: where one tensor holds values of different scales, each of them is judged by itself.

A detector's boxes go up to hundreds of pixels and its scores up to 1. In one tensor the power of the boxes
hides all that becomes of the scores, whatever is measured of the whole.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import numpy as np

from onnxq.base.errors import unknown_name

_RUNS_NAMED = 4


@dataclass(frozen=True, slots=True)
class OutputPart:
    """An output, or the indices along one of its axes that hold values of one scale.

    Attributes:
        output: its name.
        axis: the axis; None: it is the whole output.
        indices: the indices, ascending.
        size: how many there are along the axis.
    """

    output: str
    axis: int | None = None
    indices: tuple[int, ...] = ()
    size: int = 0

    @property
    def name(self) -> str:
        """`output`, or with its indices: `output[4:22]`, `output[0:4,85:89]`."""
        if self.axis is None:
            return self.output
        runs = [f"{first}:{last + 1}" if last > first else f"{first}" for first, last in self._runs()]
        more = ",..." if len(runs) > _RUNS_NAMED else ""
        return f"{self.output}[{','.join(runs[:_RUNS_NAMED])}{more}]"

    def of(self, value: Any) -> Any:
        """Its values in the output's; all of them where the axis has another size."""
        if self.axis is None:
            return value
        array = np.asarray(value)
        if array.ndim <= self.axis or array.shape[self.axis] != self.size:
            return array
        first, last = self.indices[0], self.indices[-1]
        if last - first + 1 == len(self.indices):
            return array[(slice(None),) * self.axis + (slice(first, last + 1),)]
        return array.take(self.indices, self.axis)

    def _runs(self) -> list[tuple[int, int]]:
        """First and last of indices that follow each other."""
        found = []
        for _, run in groupby(enumerate(self.indices), lambda entry: entry[1] - entry[0]):
            some = [index for _, index in run]
            found.append((some[0], some[-1]))
        return found


@dataclass(frozen=True, slots=True)
class OutputParts:
    """The outputs of a model as whoever judges them hears them.

    Attributes:
        outputs: names of the outputs.
        parts: theirs, in the order of the outputs; most outputs have one, which is the whole.
    """

    outputs: tuple[str, ...]
    parts: tuple[OutputPart, ...]

    @staticmethod
    def of(outputs: Sequence[str] | OutputParts) -> OutputParts:
        """Outputs that are judged as a whole; or those parts themselves."""
        if isinstance(outputs, OutputParts):
            return outputs
        return OutputParts(tuple(outputs), tuple(map(OutputPart, outputs)))

    @property
    def names(self) -> tuple[str, ...]:
        """What the parts are called."""
        return tuple(part.name for part in self.parts)

    def split(self, values: Sequence[Any]) -> list[Any]:
        """The values of each part; `values`: of the outputs, in their order."""
        by_output = dict(zip(self.outputs, values, strict=True))
        return [part.of(by_output[part.output]) for part in self.parts]

    def only(self, outputs: Sequence[str]) -> OutputParts:
        """Those of some outputs, in this order; one that is not known here is a whole."""
        known = {name: [part for part in self.parts if part.output == name] for name in outputs}
        return OutputParts(tuple(outputs), tuple(p for n in outputs for p in known[n] or [OutputPart(n)]))

    def weights(self, given: Mapping[str, float] | None) -> dict[str, float]:
        """What each part weighs: what its name is given, else its output's, else 1.

        Raises:
            UserError: there is no such output or part.
        """
        known = {*self.outputs, *self.names}
        for name in given or {}:
            if name not in known:
                raise unknown_name("output", name, sorted(known))
        found = given or {}
        return {part.name: float(found.get(part.name, found.get(part.output, 1.0))) for part in self.parts}


def owner_of(name: str, outputs: Sequence[str]) -> str | None:
    """The output that a part of this name would be of; None for no such output."""
    output = name[: name.rfind("[")] if name.endswith("]") else name
    return output if output in outputs else None
