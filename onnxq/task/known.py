"""What is known of a model's task: what the user states, else what its graph says, where that is sure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from onnxq.base.errors import UserError, unknown_name
from onnxq.base.reason import noted, reason
from onnxq.base.remarks import remark
from onnxq.graph.model import Model
from onnxq.graph.recurrence import ends
from onnxq.graph.view import Tensor
from onnxq.options.settings import PathLike
from onnxq.task.find import found_task
from onnxq.task.fits import fitted
from onnxq.task.found import TaskFound
from onnxq.task.labelled import LabelMeter
from onnxq.task.labels import Labels, read_labels
from onnxq.task.layout import Boxes, Classes, Layout, Peaks, Selections
from onnxq.task.meter import TaskFigure, TaskMeter, TaskPart
from onnxq.task.numbers import is_mask
from onnxq.task.stated import StatedTask


@dataclass(frozen=True, slots=True)
class KnownTask:
    """What is known of a model's task.

    Attributes:
        layout: how its outputs are read; None where that is not known.
        found: the same as `--task` takes it, and by what it was found.
        stated: whether the user said so.
        states: outputs that are left of many steps, of which the answers tell what they are worth.
    """

    layout: Layout | None = None
    found: TaskFound = field(default_factory=TaskFound)
    stated: bool = False
    states: tuple[str, ...] = ()

    @property
    def is_rare(self) -> bool:
        """Whether its answers are things that many samples have none of."""
        return isinstance(self.layout, Boxes | Peaks | Selections)

    @staticmethod
    def of(
        stated: StatedTask | None,
        model: Model,
        outputs: Sequence[str],
        values: Callable[[str], Iterable[Any]] | None = None,
    ) -> KnownTask:
        """That of a model.

        Args:
            stated: what the user says; None: nothing.
            model: the float model.
            outputs: the names of its outputs that run.
            values: gives what an output holds for some samples; None: nobody runs the model.

        Raises:
            UserError: what is stated does not fit the outputs.
        """
        run = [one for one in model.outputs if one.name in outputs]
        states = tuple(one.name for one in run if ends(one))
        if stated is not None:
            return KnownTask(fitted(stated, run, model.inputs), TaskFound(stated.text), True, states)
        try:
            found = found_task(model, outputs)
            asked = None if found.text or values is None or not found.ask else StatedTask.of(found.ask)
            if not found.text and (asked is None or asked.task != "segment"):
                return KnownTask(found=found)
            layout = fitted(asked or StatedTask.of(found.text), run, model.inputs)
            if asked is not None and values is not None:
                if not is_mask(values(layout.outputs[0])):
                    return KnownTask(found=found)
                found = TaskFound(found.ask, reason("mask-by-values"))
            return KnownTask(layout, found, states=states)
        except Exception as error:  # the figures are worth less than the run
            remark(noted("task.unknown", error=error))
            return KnownTask(found=TaskFound(why=reason("looking-failed")))

    def of_agreement(self, named: str | None, described: Sequence[Tensor]) -> KnownTask:
        """That of a goal for agreement, which knows one: the argmax of an output, where nothing else is.

        Args:
            named: the output that the user names; None: none.
            described: the outputs that run.

        Raises:
            UserError: the output has no classes, or it is not clear which is meant.
        """
        if named is not None and self.stated:
            task = self.found.text
            raise UserError(
                f"--min-agreement names output {named!r}, and --task {task!r} says what is to agree",
                hint="leave one of them out: with --task it is --min-agreement PERCENT",
            )
        if named is None and self.layout is not None:
            return self
        output = output_with_classes(described, named)
        return KnownTask(Classes(output), TaskFound(f"classify:scores={output}"), True)

    def heard(
        self, outputs: Sequence[str], *, needed: bool = False, labels: Labels | None = None
    ) -> HeardTask:
        """What measures it.

        Args:
            outputs: the names of those that it hears.
            needed: whether a goal asks for the figure.
            labels: the user's; None: there are none.
        """
        if self.layout is None:
            return HeardTask(self)
        by_labels = None if labels is None else LabelMeter(outputs, self.layout, labels)
        return HeardTask(self, TaskMeter(outputs, self.layout), needed or self.stated, by_labels)

    def labels(self, path: PathLike | None) -> Labels | None:
        """The user's labels for it; `path`: where they are, None: there are none.

        Raises:
            UserError: they cannot be read, or the task is not known.
        """
        if path is None:
            return None
        if self.layout is None:
            why = self.found.why
            raise UserError(
                f"--labels: it is not known what the model is for: {why}", hint="say it with --task"
            )
        return read_labels(path, self.layout)


NO_TASK = KnownTask()
"""Where nobody asks for one."""


class HeardTask:
    """Measures a task that may turn out to be another one: what nobody asked for never ends the run.

    Attributes:
        known: what is known of the task.
        meter: what hears the samples; None where there is nothing to measure.
    """

    def __init__(
        self,
        known: KnownTask,
        meter: TaskMeter | None = None,
        needed: bool = False,
        by_labels: LabelMeter | None = None,
    ) -> None:
        self.known, self.meter, self._needed, self._by_labels = known, meter, needed, by_labels

    def add(
        self,
        reference: Sequence[Any],
        candidates: Sequence[Sequence[Any]],
        feeds: Mapping[str, np.ndarray] | None = None,
    ) -> None:
        """Adds a sample; see `TaskMeter.add`.

        Raises:
            UserError: the outputs are not as the user says, or labels do not fit them.
        """
        try:
            if self.meter is not None:
                self.meter.add(reference, candidates, feeds)
            if self._by_labels is not None:
                self._by_labels.add(reference, candidates, feeds)
        except UserError as error:
            if self._needed or self._by_labels is not None:
                raise
            self._stopped(reason("outputs-misread", error=error))
        except Exception as error:
            remark(noted("task.unmeasured", error=error))
            self._stopped(reason("looking-failed.measuring"))

    def _stopped(self, why: str) -> None:
        self.meter = self._by_labels = None
        self.known = replace(self.known, found=replace(self.known.found, why=why))

    @property
    def figure(self) -> TaskFigure | None:
        """That of goals; None where nothing is measured."""
        return None if self.meter is None else self.meter.figure

    @property
    def part(self) -> TaskPart:
        """What a document says of it."""
        known, found = self.known, self.known.found
        figures = () if self.meter is None else self.meter.figures
        labels = None if self._by_labels is None else self._by_labels.part
        reads = () if known.layout is None else (*known.layout.outputs, *known.states)
        return TaskPart(found.text, known.stated, found.why, figures, labels, found.ask, reads)


def output_with_classes(outputs: Sequence[Tensor], name: str | None = None) -> str:
    """The output that an argmax is of.

    Args:
        outputs: the outputs that run.
        name: the one that is named; None where none is.

    Raises:
        UserError: it is none of them or holds no floats; or none is named, and there are several, or none.
    """
    types = {one.name: one.dtype for one in outputs}
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
    known = [one.name for one in outputs if one.name in floats and one.rank == 2]
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
