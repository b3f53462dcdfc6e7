"""Answers as the judge of candidates asks for them: of a sample, what each of several keeps."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np

from onnxq.base.reason import noted
from onnxq.base.remarks import remark
from onnxq.judge.answers import Answers
from onnxq.task.known import KnownTask
from onnxq.task.layout import Classes, Layout, Lines, PixelClasses, Spans, Tokens
from onnxq.task.measures import Agreed, FigureKind, agreed, kinds

_WORDS: Mapping[FigureKind, str] = {
    "top1": "top-1 classes", "labels": "labels", "detections": "detections", "tokens": "tokens",
    "spans": "answers", "masks": "masks", "selections": "selections", "neighbors": "vectors",
    "objects": "objects", "lines": "lines", "depths": "pictures", "flows": "pictures", "images": "pictures",
}  # fmt: skip


class CountedTask:
    """Counts what candidates keep; a task that turns out to be another one counts nothing from then on."""

    def __init__(self, outputs: Sequence[str], layout: Layout) -> None:
        """Of outputs of these names, which the layout reads."""
        self._outputs, self._layout = tuple(outputs), layout
        self._what = _WORDS[kinds(layout)[0][0]]
        self._tells = True

    def __call__(
        self, reference: Sequence[Any], candidates: Sequence[Sequence[Any]], feeds: Mapping[str, np.ndarray]
    ) -> Sequence[Answers]:
        """See `AnswerCounter`."""
        if not self._tells:
            return ()
        exact, *given = (dict(zip(self._outputs, some, strict=True)) for some in (reference, *candidates))
        try:
            found = agreed(self._layout, exact, given, feeds)
        except Exception as error:  # what verifies says so, where it is the user's
            remark(noted("outputs-misread", error=error))
            self._tells = False
            return ()
        return [self._answers(one) for one in found]

    def _answers(self, found: Agreed) -> Answers:
        (kept, whole, new), moves = found
        known = () if moves is None else ((moves.apart,), (moves.moved,))
        return Answers(self._what, (kept,), (whole,), (new,), *known)


def counted(known: KnownTask, outputs: Sequence[str], ordered: Collection[str] = ()) -> CountedTask | None:
    """What counts a task's answers; None where they are not known, or not to be read off these outputs.

    Args:
        known: what is known of the task.
        outputs: the names of the outputs that are heard.
        ordered: those that are heard in front of their Softmax: their order is the model's, and no more.
    """
    layout = known.layout
    if layout is None or not {*layout.outputs} <= {*outputs}:
        return None
    by_order = isinstance(layout, Classes | Tokens | Spans | Lines) or (
        isinstance(layout, PixelClasses) and layout.over is None
    )
    if not by_order and not {*layout.outputs}.isdisjoint(ordered):
        return None  # scores are held against a number: without the model's own decibels alone decide
    return CountedTask(outputs, layout)
