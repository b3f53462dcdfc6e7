"""The task's figures: how many of the float model's answers are kept, over samples."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from onnxq.base.catalogue import Fact
from onnxq.base.errors import unknown_name
from onnxq.base.plain import DocumentPart
from onnxq.judge.intervals import Interval
from onnxq.judge.paired import SampleScores
from onnxq.judge.policies import SHIP_FROM
from onnxq.task.labelled import LabelsPart
from onnxq.task.layout import Layout, Vectors
from onnxq.task.measures import MEANS, Count, FigureKind, counts, kinds
from onnxq.task.vectors import Gallery, vectors


@dataclass(frozen=True, slots=True)
class TaskFigure(DocumentPart):
    """How many of the float model's answers are kept.

    Attributes:
        kind: what is counted: "top1", "top5" (rows), "labels" (of either model), "detections", "masks" (the
            sum of their IoU), "tokens", "spans", "starts", "ends", "selections"; of vectors "neighbors",
            "cosines", "ranks" (the sums of cosines and of rank correlations); of points "objects",
            "distances" (the sum of shares of their sizes, of which less is better); "lines", "characters";
            of pictures "depths", "flows" (the sums of shares of pixels), "images".
        over: the score over which detections count; None of others.
        kept: how many are kept.
        whole: how many the float model has.
        percent: the one of the other; None where there are none.
        interval: where that lies with other samples, percent; None where too few tell.
        new: detections that the float model has not.
    """

    kind: FigureKind
    over: float | None
    kept: float
    whole: float
    percent: float | None
    interval: Interval | None
    new: int

    @property
    def name(self) -> str:
        """What it is, for people: `detections kept over 0.25`."""
        return Fact(self.kind).text("figures", "name") + ("" if self.over is None else f" over {self.over:g}")

    @property
    def said(self) -> str:
        """The figure in a sentence: `Of 312 detections over 0.25, 310 are kept (99.4 %, ...)`."""
        what, how = (Fact(self.kind).text("figures", part) for part in ("counts", "says"))
        over = "" if self.over is None else f" over {self.over:g}"
        if self.percent is None:
            return f"The float model gives no {what}s{over}: there is nothing to compare"
        ends = ""
        if self.interval is not None:
            by = "" if self.kind in ("top1", "top5") else " by sample"
            ends = f", 95 % interval{by} {self.interval.low:.1f} to {self.interval.high:.1f}"
        plural = "" if self.whole == 1 else "s"
        head = f"Of {self.whole:,.0f} {what}{plural}{over}"
        if self.kind in MEANS:
            return f"{head}, {self.percent:.1f} % {how}{ends}"
        text = f"{head}, {self.kept:,.0f} {how} ({self.percent:.1f} %{ends})"
        return text + (f"; {self.new:,} {'is' if self.new == 1 else 'are'} new" if self.new else "")


@dataclass(frozen=True, slots=True)
class TaskPart(DocumentPart):
    """What the model is for, as far as that is known, and how many of its answers are kept.

    Attributes:
        layout: how the outputs are read, as `--task` takes it; "" where that is not known.
        stated: whether the user said so; else it was found in the graph.
        why: by what it was found, or why it is not known; "" where it was stated.
        figures: what was measured, that of goals first.
        labels: how right both models are by the user's labels; None without any.
        ask: what `--task` would say where it is likely and not known; "" where it is, or nothing is likely.
        reads: the outputs that the answers are read off, and states that tell in them, of many steps.
        ship_from: percent that the interval of the first figure begins at, at least, of what is shipped.
    """

    layout: str
    stated: bool
    why: str
    figures: tuple[TaskFigure, ...] = ()
    labels: LabelsPart | None = None
    ask: str = ""
    reads: tuple[str, ...] = ()
    ship_from: float = SHIP_FROM


class TaskMeter:
    """Counts answers that are kept, sample by sample; of each sample two numbers a figure are remembered.

    Attributes:
        layout: how the outputs are read.
    """

    def __init__(self, outputs: Sequence[str], layout: Layout) -> None:
        """Of some outputs.

        Raises:
            UserError: one that the layout reads is none of them.
        """
        for name in layout.outputs:
            if name not in outputs:
                raise unknown_name("output", name, list(outputs))
        self._outputs, self.layout = tuple(outputs), layout
        self._counts: list[list[Count]] = [[] for _ in kinds(layout)]
        self._gallery = Gallery()

    def add(
        self,
        reference: Sequence[Any],
        candidates: Sequence[Sequence[Any]],
        feeds: Mapping[str, np.ndarray] | None = None,
    ) -> None:
        """Adds a sample; of the candidates the first counts.

        Args:
            reference: outputs of the float model.
            candidates: those of others.
            feeds: what they were fed: of tokens the padding, of cells the picture's size.

        Raises:
            UserError: the float model's outputs are not as the layout says.
        """
        one, other = (dict(zip(self._outputs, some, strict=True)) for some in (reference, candidates[0]))
        for kept, count in zip(self._counts, counts(self.layout, one, other, feeds or {}), strict=True):
            kept.append(count)
        if isinstance(self.layout, Vectors):
            self._gallery.add(*(vectors(self.layout, some, feeds or {}) for some in (one, other)))

    def _all(self) -> list[tuple[FigureKind, float | None, list[Count]]]:
        """Each figure's counts, the first one's first; of few vectors there are no neighbors."""
        counts = self._counts
        if isinstance(self.layout, Vectors):
            same, ranks, sizes = self._gallery.shared()
            neighbors, ordered = (list(map(Count, some, sizes)) for some in (same, ranks))
            counts = [neighbors, counts[1], ordered]
        found = [(kind, over, some) for (kind, over), some in zip(kinds(self.layout), counts, strict=True)]
        return found[1:2] if isinstance(self.layout, Vectors) and not any(sizes) else found

    @property
    def figures(self) -> tuple[TaskFigure, ...]:
        """All that is measured; what there is nothing of beside the first figure is left out."""
        found = [_figure(*one) for one in self._all()]
        return tuple(one for place, one in enumerate(found) if not place or one.whole or one.over is not None)

    @property
    def scores(self) -> SampleScores:
        """The first figure, by sample: in percent, of which the float model has 100."""
        kind, _, some = self._all()[0]
        kept, whole, _ = np.reshape(some, (-1, 3)).T
        total, count = max(1.0, float(whole.sum())), len(whole)
        each = 100 - 100 * count / total * (whole - kept)
        step = 0.0 if kind in MEANS else 100 / total
        return SampleScores(100 * float(kept.sum()) / total, each, step, int(whole.sum()))

    @property
    def figure(self) -> TaskFigure:
        """The first one, which goals are about."""
        return self.figures[0]


def _figure(kind: FigureKind, over: float | None, some: Sequence[Count]) -> TaskFigure:
    kept, whole, new = np.reshape(some, (-1, 3)).T
    total = float(whole.sum())
    if kind in MEANS:
        each = kept[whole > 0] / whole[whole > 0]
        interval = Interval.of_mean(each.tolist(), 0.0, 1.0)
        if interval is None and len(each):  # all alike: as of answers that are kept or not
            interval = Interval.of_share(min(1.0, float(each.mean())), len(each))
    else:
        interval = Interval.of_ratio(kept.tolist(), whole.tolist())
    return TaskFigure(
        kind, over, float(kept.sum()), total,
        100 * float(kept.sum()) / total if total else None,
        None if interval is None else interval.times(100),
        int(new.sum()),
    )  # fmt: skip
