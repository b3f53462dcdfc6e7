"""What causes the error: decisions ranked by what they gain, and settings that take the best."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from onnxq.base.errors import UserError
from onnxq.base.plain import extended
from onnxq.base.reason import noted
from onnxq.base.shown import Shown, Words
from onnxq.documents.calibration import CalibrationPart
from onnxq.documents.repair import RepairPart
from onnxq.documents.report import BestFloats, SensitivityPart, SensitivityReport
from onnxq.emit import files
from onnxq.noise.goal import FloatSetTried, Met
from onnxq.noise.ranking import DecisionRanked
from onnxq.pipeline.accuracy import Accuracy
from onnxq.pipeline.building import Built
from onnxq.pipeline.gates import Verified
from onnxq.pipeline.goal_found import prices_of
from onnxq.pipeline.job import Job
from onnxq.pipeline.pursuit import Pursuit
from onnxq.pipeline.words import sensitivity_words
from onnxq.quant.layer_settings import is_as_written, layer_settings

MAX_FLOAT = 0.05
"""How much of the int8 MACs the best decisions take to float, where nothing else is said."""


@dataclass(slots=True, repr=False)
class Sensitivity(Shown):
    """Decisions, ranked by what they gain.

    Attributes:
        report: what was measured: `report.sensitivity.decisions`, the greatest gain first.
        floats: the nodes that the best decisions leave in float, each with its reason.
        source: the path of the model, or None.
    """

    report: SensitivityReport
    floats: dict[str, str]
    source: Path | None = None

    def words(self) -> Words:
        """How near the outputs are, and the first decisions."""
        return sensitivity_words(self.report)

    def save(self, path: str | os.PathLike[str], *, force: bool = False) -> list[Path]:
        """Writes `X.toml`, settings that take the best decisions: `quantize --config X.toml`.

        Args:
            path: the file.
            force: replace a file that onnxq did not write, or that was edited.

        Returns:
            The file written.

        Raises:
            UserError: the path is taken, or cannot be written.
        """
        output = Path(path)
        check_settings_output(output, self.source, force=force)
        samples = self.report.sensitivity.samples
        name = self.source.name if self.source is not None else "a model"
        title = noted("ranking-title", model=name, samples=samples)
        files.save_file(output, layer_settings(self.floats, title, output.name))
        self.report = replace(self.report, output=str(output), files=(str(output),))
        return [output]


def check_settings_output(output: Path, source: Path | None, *, force: bool) -> None:
    """Refuses the path of settings before any work is done.

    Raises:
        UserError: a file that onnxq did not write is there, or one that was edited; or it cannot be written.
    """
    if os.path.isfile(output) and output.stat().st_size and not force and not is_as_written(output):
        raise UserError(
            f"{str(output)!r} exists, and onnxq did not write it, or it was edited",
            hint="give another path with -o, or --force to replace it",
        )
    files.check_output(output, source, force=True, record=output)


def sensitivity_of(
    job: Job,
    accuracy: Accuracy,
    pursuit: Pursuit,
    verified: Callable[[Built], Verified],
    data: CalibrationPart,
    repair: RepairPart | None,
    top: int,
) -> Sensitivity:
    """Ranks, confirms the first by measuring, and measures the best set on samples that chose nothing.

    Args:
        job: of the float model.
        accuracy: the noise of the model.
        pursuit: the user's score, and the costs.
        verified: how near a model is as it would be written, its body with it.
        data: what the report says of calibration.
        repair: likewise of repair.
        top: how many decisions are measured.
    """
    decisions = accuracy.ranked(top)
    limit = pursuit.goal.max_float
    best = accuracy.search.cheapest(math.inf).floats
    levels = accuracy.sqnr_db([(), best])
    if best and levels[1] <= levels[0]:
        best, levels = (), [levels[0], levels[0]]
    prices = prices_of(accuracy, best)
    why = _reasons(accuracy, prices)
    before = verified(accuracy.built)
    after = verified(accuracy.built.in_float(why)) if why else before
    scored = top if pursuit.goal.eval is not None else 0
    if scored:
        times, name = 2 * len(decisions[:scored]), accuracy.plan.format_names
        job.observe(noted("ranking-score", times=times, format=name), None, None)
    ranking = [_scored(one, accuracy, pursuit) for one in decisions[:scored]]
    ops = {node.name: node.op for node in accuracy.built.floats.model.nodes}
    part = extended(
        SensitivityPart,
        accuracy.part(),
        trials=accuracy.trials,
        sqnr_about_mean_db=levels[0],
        decisions=tuple(
            replace(one, op=ops.get(one.nodes[0], "")) for one in (*ranking, *decisions[len(ranking) :])
        ),
        best=BestFloats(
            nodes=tuple(price.nodes[0] for price in prices),
            max_float=MAX_FLOAT if limit is None else limit,
            smallest_share=min((one.share_of_int8_macs for one in decisions), default=None),
            share_of_int8_macs=accuracy.costs.share(best),
            cost=accuracy.costs.cost(best),
            predicted_sqnr_db=accuracy.model.sqnr_db(best),
            sqnr_about_mean_db=levels[1],
            verified_before=before.gauge.about_mean,
            verified=after.gauge.about_mean,
        ),
        scores=pursuit.scores_of(before, after),
        calibration=data,
        repair=repair,
        format=accuracy.built.draft.plan.format_names,
    )
    report = extended(
        SensitivityReport, job.run(accuracy.built.floats.model, "sensitivity"), sensitivity=part
    )
    return Sensitivity(report, why, job.model.path)


def _reasons(accuracy: Accuracy, prices: Sequence[DecisionRanked]) -> dict[str, str]:
    """Why each node is in float, and its price."""
    none = FloatSetTried((), 0.0, 0.0, 0.0)
    return accuracy.reasons(Met(0.0, True, none, none, (), tuple(prices)))


def _scored(one: DecisionRanked, accuracy: Accuracy, pursuit: Pursuit) -> DecisionRanked:
    """The same with the user's scores: it alone in float, and all else in float."""
    others = accuracy.plan.readers - {*one.nodes}
    scores = [pursuit.score(accuracy.callable_of(floats), "choose") for floats in (one.nodes, others)]
    off, on = (None if score is None else score.value for score in scores)
    return replace(one, score=off, score_alone=on)
