"""A run: what it is asked for, what its steps hand on, and the searches among these, one after another."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from onnxq.base.errors import UserError, fault_of
from onnxq.base.reason import Reason, reason
from onnxq.base.time_limit import TimeIsUp
from onnxq.calib.stats import Stats
from onnxq.data.sources import Source
from onnxq.documents.plan import FormatsTried, Heads
from onnxq.documents.repair import RepairPart
from onnxq.graph.spool import LARGE, weight_bytes
from onnxq.options.settings import AccuracyRepair, Compilation, Details, Format
from onnxq.pipeline.body import body_of
from onnxq.pipeline.building import Built
from onnxq.pipeline.calibration import Calibrating, Given, Prepared
from onnxq.pipeline.compiler import Compiled
from onnxq.pipeline.deploying import Worth
from onnxq.pipeline.file_pairs import SCALING
from onnxq.pipeline.gates import Verified
from onnxq.pipeline.goal_found import GoalFound
from onnxq.pipeline.job import Job
from onnxq.pipeline.pursuit import Pursuit
from onnxq.pipeline.ranging import Ranging
from onnxq.pipeline.sampling import Sampling
from onnxq.pipeline.verifying import References
from onnxq.quant.choice import Choice
from onnxq.quant.draft.body import BodyPlan
from onnxq.quant.plan_file import PlanFile
from onnxq.quant.ranges import Ranges
from onnxq.repair.step_search import Crossed
from onnxq.task.known import NO_TASK, KnownTask


@dataclass(frozen=True, slots=True)
class RunRequest:
    """What a run is asked for.

    Attributes:
        job: of the sanitized model, in the types that its body asks for.
        options: the method of calibration.
        source: the samples; None without any.
        given: statistics, or a calibration cache; None without any.
        format: the number formats, what stays in float, and what is not quantized.
        body: what becomes of what is not quantized.
        repair: which of its steps are tried, and on how many samples.
        file: the plan that is obeyed.
        pursuit: the goal; None: none is pursued, and no outputs are weighed.
        compilation: how the result is compiled.
        details: what the report has of each layer.
        ranks: whether decisions are ranked: whatever is loud stays in int8.
        bytes_over: what an engine moves more than predicted, as a share of what plain float16 moves.
    """

    job: Job
    options: Calibrating
    source: Source | None
    given: Given | None
    format: Format
    body: BodyPlan
    repair: AccuracyRepair
    file: PlanFile | None = None
    pursuit: Pursuit | None = None
    compilation: Compilation = field(default_factory=Compilation)
    details: Details = field(default_factory=Details)
    ranks: bool = False
    bytes_over: float = 0.0

    @staticmethod
    def of(
        job: Job,
        options: Calibrating,
        source: Source | None,
        given: Given | None,
        format: Format,
        file: PlanFile | None = None,
        repair: AccuracyRepair | None = None,
    ) -> RunRequest:
        """That of a sanitized model, and what the user gives.

        Raises:
            UserError: the plan states repair, and repair is asked for; or a type cannot be had.
        """
        repair = repair or AccuracyRepair("none")
        body = body_of(job, format, file)
        taken = job.taken
        if taken is not None and taken.adopted and taken.exact and repair.is_auto:
            repair = AccuracyRepair("none")  # nothing is lost
        if file is not None:
            repair = repair_beside(file, repair)
            options = replace(options, own_methods=file.methods)
        job = job.widened(io=body.io) if body.widens else job
        return RunRequest(job, options, source, given, format, body, repair, file)

    @property
    def pursues(self) -> bool:
        """Whether there is a goal."""
        return self.pursuit is not None and self.pursuit.goal.is_set

    @property
    def mixes(self) -> bool:
        """Whether each layer has the number format that is better for it, of several."""
        return self.file is None and len(self.job.target.formats) > 1 and len(self.format.formats) > 1

    @property
    def loud(self) -> str:
        """What loud layers run in: `int8`, `float`, `auto` or `default`."""
        settled = self.pursues or self.ranks or self.file is not None or not self.job.target.explicit
        return self.format.loud_where(settled)

    @property
    def cache(self) -> str | None:
        """The header of the calibration cache that is written, too; None: there is none."""
        return self.job.target.cache if self.format.cache or not self.job.target.explicit else None

    @property
    def edits(self) -> bool:
        """Whether the float model may be edited."""
        return self.cache is None

    @property
    def without(self) -> frozenset[str]:
        """Steps of repair that are not tried."""
        taken = self.job.taken
        return SCALING if taken is not None and taken.adopted and self.repair.is_auto else frozenset()

    @property
    def bounds_bytes(self) -> bool:
        """Whether repair is not to have the engine move more than plain float16: nobody asks for nearer."""
        return self.repair.is_auto and not self.pursues

    @property
    def weights(self) -> Mapping[str, float] | None:
        """What outputs weigh; None: all the same."""
        return None if self.pursuit is None else self.pursuit.goal.weigh

    @property
    def states_repair(self) -> bool:
        """Whether the plan states what repair makes of the model."""
        return self.file is not None and self.file.repair.is_any


def repair_beside(file: PlanFile, repair: AccuracyRepair) -> AccuracyRepair:
    """The repair of a run that obeys a plan: none where it is not asked for.

    Raises:
        UserError: it is, and the plan states what repair makes of the model.
    """
    if repair.repair is None:
        return AccuracyRepair("none")
    if file.repair.is_any:
        kind, index = ("edit", 0) if file.repair.edits else ("repairs", None)
        raise file.error(
            (kind,) if index is None else (kind, index),
            "the plan states what repair makes of the model, and this run asks for repair",
            "leave --repair out, or write the plan anew with it: onnxq plan",
        )
    return repair


@dataclass(frozen=True, slots=True)
class Run:
    """A quantized model in the making: what each step is given, and gives.

    Attributes:
        request: what is asked for.
        sampling: gives the samples.
        ranging: what makes ranges of statistics, and the plan as it was drawn up.
        built: the model as it would be written now.
        ranges: the ranges of tensors, by any method.
        stats: the statistics, of the model as it was edited.
        measured: likewise, as they were taken.
        references: what the float model gives.
        worth: what the layers weigh at the sizes of each deployment.
        task: what the model is for: what loses its answers is not taken.
        choice: how the outputs chose its scales; None where they did not.
        repair: what repair did; None: it was not asked for.
        unrepaired: what repair started from; None: it was not tried, or nobody needs it any more.
        crossed: what repair kept as some samples fitted it, with the samples that others may judge it by.
        heads: what became of the heads.
        goal: what came of the goal; None where none was searched for.
        verified: how near its outputs are; None: that is not measured yet.
        compiled: what NVIDIA's compiler makes of it; None: that is not known yet.
        formats: how the number format of each layer was chosen; None where one was asked for.
        alone: what a mix of formats took the place of; None where there is no mix.
        mixed_db: by how much less that mix loses, dB.
    """

    request: RunRequest
    sampling: Sampling
    ranging: Ranging
    built: Built
    ranges: Ranges
    stats: Stats
    measured: Stats
    references: References
    worth: Worth = ()
    task: KnownTask = NO_TASK
    choice: Choice | None = None
    repair: RepairPart | None = None
    unrepaired: Run | None = None
    crossed: tuple[Crossed, ...] = ()
    heads: Heads | None = None
    goal: GoalFound | None = None
    verified: Verified | None = None
    compiled: Compiled | None = None
    formats: FormatsTried | None = None
    alone: Run | None = None
    mixed_db: float = 0.0

    @property
    def prepared(self) -> Prepared:
        """The plan as it was drawn up, with what entries state of single layers."""
        return self.ranging.prepared

    def of(self, built: Built) -> Run:
        """That of another model, of which nothing is measured yet."""
        return replace(self, built=built, verified=None, compiled=None)

    def crossing(self, built: Built, *, confirms: bool = False) -> list[tuple[Built, Sequence[int]]]:
        """A model as some samples fitted it, with others that judge that beside those held out.

        A goal is pursued in sight of many: of one of dB, of which few samples tell, none judge. Of one of
        answers, which are rare, those verify that chose no layers: half of what only calibrated. The rest
        confirm.

        Args:
            built: the model.
            confirms: whether they confirm what is left in float for a goal.

        Returns:
            None of a large model, or where samples cannot be read again.
        """
        parts, job, pursuit = self.sampling.parts, built.job, self.request.pursuit
        goal = None if pursuit is None else pursuit.goal
        if (
            parts is None or parts.used is None or parts.shared or job.limit.is_over
            or weight_bytes(job.model.to_proto(weights=False)) >= LARGE
            or (goal is not None and goal.is_set and goal.min_agreement is None)
        ):  # fmt: skip
            return []
        apart = {index for _, some in self.crossed for index in some}
        if goal is not None and goal.is_set:
            only = set(sorted(apart - parts.choosing - parts.confirming)[::2])
            apart = apart - only - parts.confirming if confirms else only
        if not confirms:
            apart = set(sorted(apart)[: parts.room])
        drafts = [
            replace(built.draft, patches=one.patches.within(built.draft.patches)) for one in self.crossed
        ]
        return [
            (Built.of(job, draft, built.floats), [index for index in one.samples if index in apart])
            for draft, one in zip(drafts, self.crossed, strict=True)
        ]


@dataclass(frozen=True, slots=True)
class ModelSearch:
    """A search for a better model, or for one that compiles.

    Attributes:
        name: of what.
        wanted: whether there is something to search for.
        run: the run with what was found.
        left_out: the run as it was, with a word on why nothing was searched for: of the code `late` or
            `fault`.
        needed: whether it runs although the time is up.
    """

    name: str
    wanted: Callable[[Run], bool]
    run: Callable[[Run], Run]
    left_out: Callable[[Run, Reason], Run]
    needed: bool = False


def searched(searches: Sequence[ModelSearch], run: Run) -> Run:
    """What searches come to, in their order; one that ends in a fault of ours is as if it had not been.

    Args:
        searches: they. When the time is up, those that are left are not begun.
        run: what the first one starts from.

    Raises:
        UserError: something that the user gave cannot be used.
    """
    limit = run.built.job.limit
    for search in searches:
        if not search.wanted(run):
            continue
        if limit.is_over and not search.needed:
            run = search.left_out(run, reason("late", limit=limit))
            continue
        try:
            run = search.run(run)
        except UserError:
            raise
        except TimeIsUp:
            run = search.left_out(run, reason("late", limit=limit))
        except Exception as error:
            why = reason("fault", fault=fault_of(error))
            run = search.left_out(run, why)
    return run
