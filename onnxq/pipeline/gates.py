"""Gates: what a goal asks of a model's outputs, and whether they pass: the same wherever they stand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from onnxq.base.errors import UserError, unknown_name
from onnxq.documents.accuracy import GateMeasured, GoalPart, ScoresPart
from onnxq.graph.view import Tensor
from onnxq.judge.about_mean import NAME, AboutMeanGroups, AboutMeanPart
from onnxq.judge.acceptance import Levels
from onnxq.judge.output_parts import OutputParts, owner_of
from onnxq.judge.paired import Resolution, SampleScores
from onnxq.judge.policies import CLEAR_DB, SURE
from onnxq.judge.sqnr import BEST_DB
from onnxq.options.settings import Goal
from onnxq.run.compare import Meter, OutputAccuracy
from onnxq.task.known import NO_TASK, HeardTask, KnownTask
from onnxq.task.labels import Labels
from onnxq.task.output_pictures import OutputAlbum


@dataclass(frozen=True, slots=True)
class BoundGoal:
    """A goal for the outputs of one model: names are known to exist.

    Attributes:
        goal: what is asked for.
        outputs: names of the outputs.
        task: what is known of the model's task.
        agreement: how much of the task's answers is to be kept, percent; None where that is not asked for.
        labels: the user's; None: there are none.
    """

    goal: Goal
    outputs: tuple[str, ...]
    task: KnownTask = NO_TASK
    agreement: float | None = None
    labels: Labels | None = None

    @staticmethod
    def of(
        goal: Goal,
        outputs: Sequence[str],
        described: Sequence[Tensor],
        task: KnownTask | None = None,
    ) -> BoundGoal:
        """That of the outputs that run.

        Args:
            goal: what is asked for.
            outputs: their names.
            described: all outputs.
            task: what is known of the model's task.

        Raises:
            UserError: an output that is named is none of them, or it is not clear which is meant.
        """
        for name in goal.weigh or {}:
            if name not in outputs and owner_of(name, outputs) is None:
                raise unknown_name("output", name, list(outputs))
        asked, agreement, task = goal.min_agreement, None, task or NO_TASK
        if asked is not None:
            named, percent = asked if isinstance(asked, tuple) else (None, asked)
            run = [entry for entry in described if entry.name in outputs]
            agreement, task = float(percent), task.of_agreement(named, run)
        weigh = goal.weigh or {}
        weighed = [weigh.get(name, 1.0) for name in (*outputs, *weigh)]
        other = agreement is not None or goal.max_drop is not None  # measured whatever outputs weigh
        if not any(weight > 0 for weight in weighed) and (goal.min_sqnr is not None or not other):
            raise UserError("every output weighs 0", hint="weigh those that matter with more")
        return BoundGoal(goal, tuple(outputs), task, agreement, task.labels(goal.labels))

    def gauge(self, parts: OutputParts | None = None) -> Gauge:
        """What measures the outputs of one candidate; `parts`: in which they are judged.

        Raises:
            UserError: a part that is weighed does not exist.
        """
        about = AboutMeanGroups(parts or self.outputs, self.goal.weigh)
        needed = self.agreement is not None
        return Gauge(about, self.task.heard(self.outputs, needed=needed, labels=self.labels))

    def gates(
        self,
        gauge: Gauge,
        scores: tuple[SampleScores, SampleScores] | None = None,
        function: str = "",
    ) -> list[GateMeasured]:
        """The gates that are asked for, with what was measured.

        Args:
            gauge: heard the outputs.
            scores: those of the float model and of this one; None without a function.
            function: what scores.
        """
        gates, gate = list[GateMeasured](), GateMeasured.judged
        if self.goal.min_sqnr is not None:
            part = gauge.about_mean
            level = part.sqnr_about_mean_db
            if level is None and gauge.about.equal:  # whatever their signal is
                level = BEST_DB
            error = Levels.of(gauge.about.groups).error_db
            resolution = Resolution(SURE * error, part.samples) if error else None
            gates.append(gate("sqnr", NAME, "", self.goal.min_sqnr, level, part.interval, resolution))
        if self.agreement is not None:
            gates.append(_agreement(self.agreement, gauge.task))
        if self.goal.max_drop is not None and scores is not None:
            drop = drop_of(scores[0].value, scores[1].value, self.goal.max_drop)
            resolution, stated = scores[0].resolution(scores[1]), len(scores[1].each) > 0
            gates.append(
                gate("drop", "drop of the score", function, self.goal.max_drop, drop, None, resolution,
                     finest=stated)
            )  # fmt: skip
        return gates


@dataclass(frozen=True, slots=True)
class Gauge:
    """What hears the outputs of a candidate beside the float model's.

    Attributes:
        about: the SQNR about the mean.
        task: what is kept of the task's answers.
    """

    about: AboutMeanGroups
    task: HeardTask

    @property
    def meters(self) -> list[Meter]:
        """All of them."""
        return [self.about, self.task]

    @property
    def about_mean(self) -> AboutMeanPart:
        """What the first one says."""
        return self.about.result()


@dataclass(frozen=True, slots=True)
class Verified:
    """How near a model is to the float one, on samples that verify, or confirm.

    Attributes:
        accuracy: of each output.
        gauge: of the goal's figures.
        gates: what is asked for, with what was measured.
        score: the user's; None where there is none.
        album: pictures of the outputs; None where none are kept.
    """

    accuracy: Sequence[OutputAccuracy]
    gauge: Gauge
    gates: Sequence[GateMeasured] = ()
    score: SampleScores | None = None
    album: OutputAlbum | None = None

    @property
    def met(self) -> bool:
        """Whether it passes."""
        return all(gate.met for gate in self.gates)

    @property
    def undecided(self) -> bool:
        """Whether it may pass: none of its gates is surely missed, and the samples do not tell of one."""
        return not self.met and all(gate.met or gate.undecided for gate in self.gates)

    @property
    def clear(self) -> bool:
        """Whether it passes, and other samples of the kind cannot say otherwise by chance."""
        return self.met and all(
            gate.kind != "sqnr" or (gate.measured or 0.0) >= gate.goal + CLEAR_DB for gate in self.gates
        )


def _agreement(percent: float, task: HeardTask) -> GateMeasured:
    """The gate of the task's figure."""
    figure = task.figure
    if figure is None or task.meter is None or figure.percent is None:
        what = "the task's figure" if figure is None else figure.name
        return GateMeasured.judged("agreement", what, "", percent, None)
    layout, agrees = task.meter.layout, task.meter.scores
    whole = replace(agrees, value=100.0, each=np.full_like(agrees.each, 100.0))
    of = layout.outputs[0] if len(layout.outputs) == 1 else ""
    return GateMeasured.judged(
        "agreement", figure.name, of, percent, agrees.value, figure.interval, whole.resolution(agrees),
        finest=True,
    )  # fmt: skip


def drop_of(reference: float, score: float, most: float | None) -> float:
    """By how much a score is below the float model's; `most` itself where only rounding tells them apart.

    Args:
        reference: the float model's score.
        score: the other.
        most: how much is allowed, if anything is.
    """
    drop = reference - score
    return most if most is not None and abs(drop - most) <= rounding(reference, most) else drop


def rounding(score: float, drop: float) -> float:
    """What counts as no difference: a millionth of the score, at most a thousandth of the drop allowed."""
    size = abs(score)
    return 1e-9 * size + min(1e-6 * size, 1e-3 * drop)


def goal_part(
    gates: Sequence[GateMeasured], scores: ScoresPart | None = None, **more: Any
) -> GoalPart | None:
    """What a report says of a goal; None where nothing was asked for."""
    if not gates and scores is None:
        return None
    return GoalPart(all(gate.met for gate in gates), tuple(gates), scores, **more)


NOTHING = BoundGoal(Goal(), ()).gauge()
"""Where nothing runs, or nothing is compared."""
