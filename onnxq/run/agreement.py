"""In how many of its rows an output's greatest entry is the float model's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from onnxq.base.errors import UserError, unknown_name
from onnxq.graph.types import Shape
from onnxq.judge.comparable import as_tensor
from onnxq.judge.intervals import Interval
from onnxq.judge.paired import SampleScores


class AgreementMeter:
    """Counts rows along the last axis, sample by sample.

    Attributes:
        output: the name of the output.
        same: rows with the same greatest entry.
        rows: all rows.
        samples: how many samples.
    """

    def __init__(self, outputs: Sequence[str], output: str) -> None:
        """Of one of some outputs.

        Raises:
            UserError: it is none of them.
        """
        if output not in outputs:
            raise unknown_name("output", output, list(outputs))
        self._place, self.output = list(outputs).index(output), output
        self.same = self.rows = self.samples = 0
        self._missed: list[int] = []

    def add(self, reference: Sequence[Any], candidates: Sequence[Sequence[Any]]) -> None:
        """Adds a sample; of the candidates the first counts. What has another shape agrees in no row.

        Raises:
            UserError: the output has no rows.
        """
        wanted = as_tensor(reference[self._place])
        if wanted.ndim < 1 or wanted.shape[-1] < 2 or wanted.dtype.kind not in "fiu":
            raise UserError(
                f"output {self.output!r} has no classes to compare: its shape is {list(wanted.shape)}",
                hint="name an output whose last axis is that of the classes",
            )
        given = as_tensor(candidates[0][self._place])
        best = wanted.argmax(-1)
        self.samples += 1
        self.rows += best.size
        same = int((given.argmax(-1) == best).sum()) if given.shape == wanted.shape else 0
        self.same += same
        self._missed.append(best.size - same)

    @property
    def scores(self) -> SampleScores:
        """In how many percent of the rows it agrees, by sample: the float model has 100 of each."""
        row, count = 100 / max(1, self.rows), len(self._missed)
        each = 100 - row * count * np.array(self._missed, np.float64)
        return SampleScores(100 * self.same / max(1, self.rows), each, row, self.rows)

    @property
    def interval(self) -> Interval | None:
        """Where that lies with other samples, percent; a sample is one trial, as its rows may be alike."""
        found = Interval.of_share(self.same / self.rows if self.rows else None, self.samples)
        return None if found is None else found.times(100)


def output_with_classes(
    outputs: Sequence[tuple[str, np.dtype | None, Shape | None]], name: str | None = None
) -> str:
    """The output that an argmax is of.

    Args:
        outputs: name, type and shape of each.
        name: the one that is named; None where none is.

    Raises:
        UserError: it is none of them or holds no floats; or none is named, and there are several, or none.
    """
    types = {name: dtype for name, dtype, _ in outputs}
    floats = [name for name, dtype in types.items() if dtype is None or _is_float(dtype)]
    if name is not None and name not in types:
        raise unknown_name("output", name, list(types))
    if name is None and len(types) == 1:
        (name,) = types
    if name is not None:
        if name not in floats:
            raise UserError(
                f"the argmax of output {name!r} is to agree, and that holds no scores of classes: its type "
                f"is {types[name]}",
                hint=f"name one of floats, as in {floats[0]}=99"
                if floats
                else "give a model whose output is the scores in front of an ArgMax",
            )
        return name
    known = [name for name, _, shape in outputs if name in floats and len(shape or ()) == 2]
    if len(known) == 1:
        return known[0]
    example = (known or floats)[:1]
    raise UserError(
        f"the model has {len(types)} outputs, and it is not said whose argmax is to agree: "
        + ", ".join([*types][:5]),
        hint=f"name it, as in {example[0]}=99" if example else "none of them is of floats",
    )


def _is_float(dtype: np.dtype) -> bool:
    """Whether a type is one of floats, those of `ml_dtypes` as well."""
    return dtype.kind == "f" or "float" in dtype.name
