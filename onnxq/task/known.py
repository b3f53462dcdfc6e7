"""What is known of a model's task: what the user states, else what its graph says, where that is sure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from onnxq.base.errors import UserError, unknown_name
from onnxq.base.remarks import remark
from onnxq.graph.model import Model
from onnxq.task.find import found_task
from onnxq.task.fits import Described, fitted
from onnxq.task.layout import Classes, Layout
from onnxq.task.meter import TaskFigure, TaskMeter, TaskPart
from onnxq.task.stated import StatedTask


@dataclass(frozen=True, slots=True)
class KnownTask:
    """What is known of a model's task.

    Attributes:
        layout: how its outputs are read; None where that is not known.
        text: the same as `--task` takes it; "" likewise.
        stated: whether the user said so.
        why: by what it was found, or why it is not known.
    """

    layout: Layout | None = None
    text: str = ""
    stated: bool = False
    why: str = ""

    @staticmethod
    def of(stated: StatedTask | None, model: Model, outputs: Sequence[str]) -> KnownTask:
        """That of a model.

        Args:
            stated: what the user says; None: nothing.
            model: the float model.
            outputs: the names of its outputs that run.

        Raises:
            UserError: what is stated does not fit the outputs.
        """
        run = [one for one in model.outputs if one[0] in outputs]
        if stated is not None:
            return KnownTask(fitted(stated, run, model.inputs), stated.text, True)
        try:
            found = found_task(model, outputs)
            if not found.text:
                return KnownTask(why=found.why)
            return KnownTask(
                fitted(StatedTask.of(found.text), run, model.inputs), found.text, False, found.why
            )
        except Exception as error:  # the figures are worth less than the run
            remark(f"the task is not known: looking for it ends in a fault of onnxq ({error!r})")
            return KnownTask(why="looking for it ended in a fault of onnxq")

    def of_agreement(self, named: str | None, described: Sequence[Described]) -> KnownTask:
        """That of a goal for agreement, which knows one: the argmax of an output, where nothing else is.

        Args:
            named: the output that the user names; None: none.
            described: the outputs that run.

        Raises:
            UserError: the output has no classes, or it is not clear which is meant.
        """
        if named is not None and self.stated:
            raise UserError(
                f"--min-agreement names output {named!r}, and --task {self.text!r} says what is to agree",
                hint="leave one of them out: with --task it is --min-agreement PERCENT",
            )
        if named is None and self.layout is not None:
            return self
        output = output_with_classes(described, named)
        return KnownTask(Classes(output), f"classify:scores={output}", True)

    def heard(self, outputs: Sequence[str], *, needed: bool) -> HeardTask:
        """What measures it; `needed`: whether a goal asks for the figure."""
        meter = None if self.layout is None else TaskMeter(outputs, self.layout)
        return HeardTask(self, meter, needed or self.stated)


NO_TASK = KnownTask()
"""Where nobody asks for one."""


class HeardTask:
    """Measures a task that may turn out to be another one: what nobody asked for never ends the run.

    Attributes:
        known: what is known of the task.
        meter: what hears the samples; None where there is nothing to measure.
    """

    def __init__(self, known: KnownTask, meter: TaskMeter | None, needed: bool) -> None:
        self.known, self.meter, self._needed = known, meter, needed

    def add(
        self,
        reference: Sequence[Any],
        candidates: Sequence[Sequence[Any]],
        feeds: Mapping[str, np.ndarray] | None = None,
    ) -> None:
        """Adds a sample; see `TaskMeter.add`.

        Raises:
            UserError: the outputs are not as the user says.
        """
        if self.meter is None:
            return
        try:
            self.meter.add(reference, candidates, feeds)
        except UserError as error:
            if self._needed:
                raise
            self._stopped(f"the outputs are not read as the graph says: {error}")
        except Exception as error:
            remark(f"the task is not measured: it ends in a fault of onnxq ({error!r})")
            self._stopped("measuring it ended in a fault of onnxq")

    def _stopped(self, why: str) -> None:
        self.meter, self.known = None, replace(self.known, why=why)

    @property
    def figure(self) -> TaskFigure | None:
        """That of goals; None where nothing is measured."""
        return None if self.meter is None else self.meter.figure

    @property
    def part(self) -> TaskPart:
        """What a document says of it."""
        known = self.known
        return TaskPart(known.text, known.stated, known.why, () if self.meter is None else self.meter.figures)


def output_with_classes(outputs: Sequence[Described], name: str | None = None) -> str:
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
