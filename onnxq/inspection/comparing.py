"""The outputs of two models, side by side."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Unpack

from onnxq.base.errors import UserError, unknown_name
from onnxq.base.plain import DocumentPart
from onnxq.base.progress import Observer, told
from onnxq.base.reason import say
from onnxq.base.shown import Shown, Words, count, decibels
from onnxq.body.emulate import Emulated
from onnxq.data.fed_sample import FedSample
from onnxq.data.samples import specs_of, watched
from onnxq.data.sources import DataSource
from onnxq.data.understood import DataRead
from onnxq.documents.accuracy import GoalPart, ScoresPart
from onnxq.documents.data import path_of
from onnxq.graph.half import speaks_half
from onnxq.graph.model import Model
from onnxq.inspection.opened_data import open_data
from onnxq.judge.about_mean import AboutMeanPart
from onnxq.options.call_options import CompareOptions
from onnxq.options.grouped import Options
from onnxq.options.keywords import takes_options
from onnxq.pipeline.gates import BoundGoal, goal_part
from onnxq.pipeline.scoring import Score, callable_of
from onnxq.run import ort
from onnxq.run.compare import OutputAccuracy, compare_models
from onnxq.run.finding_parts import LOOKS, find_parts
from onnxq.run.ort import Feeds
from onnxq.run.versions import refuse_unreadable
from onnxq.task.known import KnownTask
from onnxq.task.meter import TaskPart
from onnxq.task.stated import StatedTask

_ROWS = 10


@dataclass(frozen=True, slots=True, repr=False)
class Comparison(Shown, DocumentPart):
    """How near the outputs of a model are to those of another one.

    Attributes:
        kind: "comparison".
        schema: 7.
        reference: the path of the reference.
        candidate: the path of the other.
        emulated: whether half precision was rounded after every node.
        data: where the data are, and how they were understood.
        accuracy: each output, or part of one, over all samples.
        about_mean: the SQNR about the mean, dB, of all outputs together and of each.
        goal: what was asked for and whether it is met; None where nothing was.
        task: what is kept of the answers of the model's task.
    """

    kind: str
    schema: int
    reference: str
    candidate: str
    emulated: bool
    data: DataRead
    accuracy: tuple[OutputAccuracy, ...]
    about_mean: AboutMeanPart
    goal: GoalPart | None
    task: TaskPart

    @property
    def met(self) -> bool:
        """Whether the goal is met; without one it is."""
        return self.goal is None or self.goal.met

    def words(self) -> Words:
        """How near the outputs are, the worst first."""
        part = self.about_mean
        level = decibels(part.sqnr_about_mean_db, part.interval)
        facts = [
            f"{level} about the mean",
            *(one.said for one in self.task.figures[:1]),
            count(part.samples, "sample"),
        ]
        worst = sorted(self.accuracy, key=lambda one: float("inf") if one.sqnr_db is None else one.sqnr_db)
        rows = [
            (
                one.output,
                decibels(one.sqnr_db, one.sqnr_interval),
                "" if one.cosine is None else f"{one.cosine:.6f}",
            )
            for one in worst[:_ROWS]
        ]
        alarms = () if self.met else (say("goal-missed"),)
        return Words(
            f"{self.candidate} against {self.reference}", facts, ("output", "SQNR", "cosine"), rows, alarms
        )


@takes_options
def compare(
    reference: str | os.PathLike[str],
    candidate: str | os.PathLike[str],
    data: DataSource,
    *,
    samples: int | None = None,
    observe: Observer | None = None,
    **options: Unpack[CompareOptions],
) -> Comparison:
    """Compares the outputs of two models on data.

    Args:
        reference: the path of the model that is right; of a goal the float one.
        candidate: that of the other, which has no inputs that the first lacks.
        data: as in `onnxq.quantize`, for the inputs of the reference.
        samples: how many at most; None: all.
        observe: is told the steps.
        options: groups of options, or fields of these as keywords of their own: `min_sqnr=30`.

    Raises:
        UserError: a model, the data or an option cannot be used, or a model does not run on a sample.
        TypeError: there is no such keyword.
    """
    asked = Options.of("compare", options)
    if samples is not None and samples < 1:
        raise UserError(f"--samples {samples}: there must be at least 1")
    with ort.running(asked.runtime):
        return _compared(Path(reference), Path(candidate), data, samples, asked, told(observe))


def _compared(
    reference: Path,
    candidate: Path,
    data: DataSource,
    samples: int | None,
    asked: Options,
    observe: Observer,
) -> Comparison:
    goal = asked.goal
    score = None if goal.eval is None else Score.of(goal.eval)
    stated = None if goal.task is None else StatedTask.of(goal.task)
    models = [Model.open(path) for path in (reference, candidate)]
    for path, model in zip((reference, candidate), models, strict=True):
        refuse_unreadable(model.source, repr(str(path)))
    specs = specs_of(models[0])
    fed = [spec.name for spec in specs]
    for tensor in models[1].inputs:
        if tensor.name not in fed:
            raise unknown_name(f"input of {str(reference)!r} named", tensor.name, fed)
    source, chosen, progress = open_data(data, specs, asked, samples, observe, "compare")
    observe("compare", None, None)
    feeds: Iterator[Feeds] = (
        FedSample(one.feeds, one.where, source.images) for one in watched(chosen, progress)
    )
    types = {tensor.name: tensor.dtype for tensor in models[1].inputs}
    half = [speaks_half(model.to_proto(weights=False)) for model in models]
    one, other = (
        Emulated(model.source, data_dir=model.data_dir) if is_half else ort.load(path)
        for path, model, is_half in zip((reference, candidate), models, half, strict=True)
    )
    first = list(itertools.islice(feeds, LOOKS))
    feeds = itertools.chain(first, feeds)
    task = KnownTask.of(
        stated, models[0], one.outputs,
        lambda name: (one.run(sample)[one.outputs.index(name)] for sample in first),
    )  # fmt: skip
    bound = BoundGoal.of(goal, one.outputs, models[0].outputs, task)
    parts = find_parts(models[0], one, first)
    gauge = bound.gauge(parts)
    result = compare_models(one, other, feeds, types, gauge.meters, parts)
    part, scores = None, None
    if score is not None:
        observe("score", None, None)
        scores = score(callable_of(one), "verify"), score(callable_of(other), "verify")
        part = ScoresPart(score.name, False, scores[0].value, scores[1].value, names=("A", "B"))
    gates = bound.gates(gauge, scores, "" if score is None else score.name)
    return Comparison(
        kind="comparison",
        schema=7,
        reference=str(reference),
        candidate=str(candidate),
        emulated=any(half),
        data=source.told(path_of(data)),
        accuracy=tuple(result),
        about_mean=gauge.about_mean,
        goal=goal_part(gates, part),
        task=gauge.task.part,
    )
