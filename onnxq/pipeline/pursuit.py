"""A goal of the user's: what it asks of outputs, the user's score, and how near a model comes to both."""

from __future__ import annotations

import functools
import json
import os
import sys
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import onnx

from onnxq.base import door
from onnxq.base.errors import UserError, in_short, unknown_name
from onnxq.base.executors import Submit
from onnxq.data.samples import Sample
from onnxq.data.survey import InputSurvey
from onnxq.documents.accuracy import ScoresPart
from onnxq.documents.report import Report
from onnxq.graph.model import Model
from onnxq.judge.paired import SampleScores
from onnxq.options.settings import UNITS, CallableModel, Goal
from onnxq.pipeline.accuracy import STAGES, Asked
from onnxq.pipeline.building import Built
from onnxq.pipeline.calibration import Prepared
from onnxq.pipeline.fed import Fed
from onnxq.pipeline.gates import NOTHING, BoundGoal, Verified
from onnxq.pipeline.job import Job
from onnxq.pipeline.preparation import AsTrained, preparation_seen
from onnxq.pipeline.sampling import Sampling
from onnxq.pipeline.scoring import Part, Score, callable_of
from onnxq.pipeline.verifying import Crossing, runner, verify
from onnxq.run import ort
from onnxq.run.compare import Recording
from onnxq.task.known import KnownTask
from onnxq.task.output_pictures import OutputAlbum
from onnxq.task.pictured import PicturedOutput, pictured_outputs
from onnxq.task.stated import StatedTask


@dataclass(frozen=True, slots=True)
class Measurement:
    """How what layers add to the noise is measured.

    Attributes:
        state: a file that keeps what is done, for a run that goes on.
        workers: how many processes.
        submit: `submit` of an executor, where the work goes instead.
    """

    state: Path | None = None
    workers: int = 1
    submit: Submit | None = None


@dataclass(frozen=True, eq=False)
class Pursuit:
    """What a goal asks for; of a run that has begun, what the float model says of that.

    Attributes:
        goal: what is asked for.
        measurement: how what layers add to the noise is measured.
        scores: the user's function; None: there is none.
        costs: what decisions cost, a unit or by node.
        stated: what the user says of the task; None: nothing.
        job: of the float model; None until it begins.
        bound: the goal for the outputs that run; None until it begins, and where none runs.
        floats: the float model's score, on the samples that choose and on those that verify.
        fed: what the user's function feeds; None: there is none.
        trained: the float model, to be asked how pictures are prepared; None likewise.
        pictured: the outputs that are drawn.
    """

    goal: Goal
    measurement: Measurement
    scores: Score | None
    costs: str | Mapping[str, float]
    stated: StatedTask | None
    job: Job | None = None
    bound: BoundGoal | None = None
    floats: Mapping[Part, SampleScores] = field(default_factory=dict)
    fed: Fed | None = None
    trained: AsTrained | None = None
    pictured: Sequence[PicturedOutput] = ()

    @staticmethod
    def of(goal: Goal, measurement: Measurement) -> Pursuit:
        """Loads the user's function, whose code is run, and reads the costs and the task.

        Raises:
            UserError: one of them cannot be used.
        """
        scores = None if goal.eval is None else Score.of(goal.eval)
        costs = read_costs(goal.costs)
        return Pursuit(
            goal, measurement, scores, costs, None if goal.task is None else StatedTask.of(goal.task)
        )

    def begun(self, job: Job, prepared: Prepared, samples: Callable[[], Iterable[Sample]]) -> Pursuit:
        """With the float model scored, and names looked for: before the long work begins.

        Args:
            job: of the float model.
            prepared: it, and its parts that run.
            samples: gives some, which the float model is run on where what it gives tells the task.

        Raises:
            UserError: a name does not exist, nothing runs, or the user's function fails.
        """
        reference, goal, costs = prepared.floats.reference, self.goal, self.costs
        outputs = tuple(info.name for info in reference.graph.output)
        if not outputs:
            if goal.is_set or self.scores is not None:
                raise UserError("no part of the model runs in onnxruntime: there is no goal to be measured")
            return self
        model = functools.cache(lambda: ort.load(reference, data_dir=job.model.data_dir))
        task = KnownTask.of(
            self.stated, job.model, outputs,
            lambda name: (model().run(sample.feeds)[outputs.index(name)] for sample in samples()),
        )  # fmt: skip
        bound = BoundGoal.of(goal, outputs, job.model.outputs, task)
        drawn = job.glance is not None and job.glance.pictures
        pictured = pictured_outputs(job.model, outputs, task.layout) if drawn else ()
        if goal.min_sqnr is not None:
            _check_floats(goal, outputs, job)
        if isinstance(costs, Mapping):
            costs = costs_of_nodes(costs, job, prepared)
        found = replace(self, costs=costs, job=job, bound=bound, pictured=pictured)
        if self.scores is None:
            return found
        with job.step("score"):
            fed, norms = Fed(job.input_specs()), {} if job.glance is None else job.glance.norms
            trained = AsTrained.of(prepared.unedited, job.model, task.layout, norms)
            scored = callable_of(model(), job, fed)
            verify = self.scores(scored, "verify")
            choose = self.scores(scored, "choose") if self.scores.told else verify
        return replace(found, floats={"verify": verify, "choose": choose}, fed=fed, trained=trained)

    def asked(self) -> Asked:
        """How the noise is measured."""
        goal, costs = self.goal, self.costs
        return Asked(
            samples=goal.measure,
            weights=goal.weigh,
            unit="bytes" if costs == "bytes" else "macs",
            costs=costs if isinstance(costs, Mapping) else None,
            max_float=goal.max_float,
            state=self.measurement.state,
            workers=self.measurement.workers,
            submit=self.measurement.submit,
        )

    def verified(
        self,
        sampling: Sampling,
        built: Built,
        expected: Recording | None,
        *,
        confirms: bool = False,
        score: SampleScores | None = None,
        crossed: Sequence[tuple[Built, Sequence[int]]] = (),
    ) -> Verified:
        """How near a model is as it is written.

        Args:
            sampling: gives the samples.
            built: the model; of one of which a part runs the ends are others in half precision.
            expected: the float model.
            confirms: whether on the samples that confirm, and not on those that verify; the user's function
                has no more than two kinds, so that what chose confirms.
            score: the user's score, where it is known.
            crossed: the model as some samples fitted it, and the indices of others, which judge it as well.
        """
        bound, job = self.bound, built.job
        if expected is None or bound is None:
            return Verified(verify(job, sampling, built.proto, expected, confirms=confirms), NOTHING)
        emulate = built.emulates

        def run(one: Built) -> onnx.ModelProto:
            return one.written.proto if emulate else one.proto

        proto, others = run(built), [Crossing(run(one), indices) for one, indices in crossed]
        gauge = bound.gauge(job.parts_of(expected.outputs))
        album = OutputAlbum(expected.outputs, self.pictured) if self.pictured and not confirms else None
        meters = [*gauge.meters, *([] if album is None else [album])]
        accuracy = verify(
            job, sampling, proto, expected, emulate=emulate, meters=meters, confirms=confirms, crossed=others
        )
        if self.scores is None:
            return Verified(accuracy, gauge, bound.gates(gauge), album=album)
        part: Part = "choose" if confirms else "verify"
        if score is None:
            with job.step("score"):
                score = self.scores(callable_of(runner(job, proto, emulate=emulate), job), part)
        gates = bound.gates(gauge, (self.floats[part], score), self.scores.name)
        return Verified(accuracy, gauge, gates, score, album)

    @property
    def same_score(self) -> bool:
        """Whether the user's function gives the same score wherever it is asked; False without one."""
        return self.scores is not None and not self.scores.told

    @functools.cached_property
    def mismatch(self) -> tuple[str, ...]:
        """How what the user's function feeds differs from what calibrated, for people."""
        job, fed, trained = self.job, self.fed, self.trained
        if fed is None or trained is None or job is None or job.glance is None:
            return ()
        glance = job.glance

        def turned(given: InputSurvey, samples: Sequence[Sample]) -> bool:
            """Whether the float model says so of what the function gave, and not of what calibrates."""
            look = preparation_seen(trained, [given], job.feeds(samples), None)
            given_so, calibrated_so = (
                any((one.kind, one.input) == ("channel-order", given.spec.name) for one in some.doubts)
                for some in (look, glance.look)
            )
            return given_so and not calibrated_so

        return fed.beside(glance.inputs, turned)

    def score(self, model: CallableModel, part: Part) -> SampleScores | None:
        """The user's score of a model; None where there is none."""
        return None if self.scores is None else self.scores(model, part)

    def scores_of(self, int8: Verified, result: Verified) -> ScoresPart | None:
        """The user's scores, on the samples that verify; None where there is none.

        Args:
            int8: the model as it was planned.
            result: the same with layers in float.
        """
        if self.scores is None:
            return None
        exact, name = self.floats, self.scores.name
        of_int8, of_result = (None if one.score is None else one.score.value for one in (int8, result))
        return ScoresPart(
            name, not self.scores.told, exact["verify"].value, of_int8, of_result, exact["choose"].value
        )


def _check_floats(goal: Goal, outputs: Collection[str], job: Job) -> None:
    """Refuses a goal of dB where every output that counts is known to be no float.

    Raises:
        UserError: that is so.
    """
    weights = goal.weigh or {}
    counting = [one for one in job.model.outputs if one.name in outputs and weights.get(one.name, 1.0) > 0]
    if counting and all(one.dtype is not None and one.dtype.kind in "iub" for one in counting):
        named = ", ".join(f"{one.name!r} is {one.dtype}" for one in counting[:5])
        raise UserError(
            f"--min-sqnr: no output that counts is a float ({named}): how near it is has no SQNR",
            hint="give a model whose outputs are floats, the scores in front of an ArgMax",
        )


def tell_cut(report: Report, state: Path) -> Report:
    """The report; where the time limit cut the search for a goal, it says where what is measured is kept."""
    goal = report.goal
    if goal is None or not goal.cut or not state.exists():
        return report
    return replace(report, goal=replace(goal, kept=str(state)))


def forget(state: Path) -> None:
    """Removes what was kept of a measurement that is done."""
    for path in (state, *(state.with_name(f"{state.name}.{stage}") for stage in STAGES)):
        path.unlink(missing_ok=True)


def read_costs(costs: str | os.PathLike[str] | Mapping[str, float]) -> str | dict[str, float]:
    """A unit, or what nodes cost: of a mapping, or of a JSON file.

    Raises:
        UserError: the file cannot be read, or is no object of numbers.
    """
    if isinstance(costs, str) and costs in UNITS:
        return costs
    if isinstance(costs, Mapping):
        return _checked(dict(costs), "the costs")
    path = Path(costs)
    hint = 'the form is {"node": 1.5, ...}; or give ' + " or ".join(UNITS)
    try:
        document = json.loads(door.content(path))
    except OSError as error:
        near = (
            [entry.name for entry in sorted(path.parent.glob("*.json"))] if os.path.isdir(path.parent) else []
        )
        near += UNITS
        missing = unknown_name("file of costs", str(path), near)
        raise UserError(f"cannot read {str(path)!r}: {error.strerror}", hint=missing.hint or hint) from error
    except (ValueError, RecursionError) as error:
        raise UserError(f"{str(path)!r} is no JSON: {error}", hint=hint) from error
    if not isinstance(document, dict):
        raise UserError(f"{str(path)!r} holds no costs by node, but {type(document).__name__}", hint=hint)
    return _checked(document, repr(str(path)))


def _checked(costs: dict[str, Any], where: str) -> dict[str, float]:
    for name, cost in costs.items():
        number = isinstance(cost, int | float) and not isinstance(cost, bool)
        if not number or not 0 <= cost <= sys.float_info.max:
            raise UserError(
                f"{where}: the cost of node {name!r} is {in_short(cost)}",
                hint="give a number that is not negative",
            )
    if not costs:
        raise UserError(f"{where}: there is no node", hint='the form is {"node": 1.5, ...}')
    return {str(name): float(cost) for name, cost in costs.items()}


def costs_of_nodes(costs: Mapping[str, float], job: Job, prepared: Prepared) -> dict[str, float]:
    """The costs of the nodes that are quantized; others may have some too, if they exist.

    Raises:
        UserError: a node does not exist, or none is quantized.
    """
    now = {node.name for node in prepared.floats.model.nodes}
    names = now | {node.name for node in Model.open(job.source).nodes} if set(costs) - now else now
    for name in costs:
        if name not in names:
            raise unknown_name("node", name, sorted(names))
    readers = prepared.draft.plan.readers
    of_readers = {name: cost for name, cost in costs.items() if name in readers}
    if not of_readers and readers:
        raise UserError(
            "no node that costs something is quantized: there is nothing to choose by",
            hint=f"quantized are {', '.join(sorted(readers)[:5])}",
        )
    return of_readers
