"""What the steps of a run hand on: a quantized model in the making, and what was found out on the way."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from onnxq.base.errors import Fault
from onnxq.calib.stats import Stats
from onnxq.documents.plan import FormatsTried, Heads
from onnxq.documents.repair import RepairPart
from onnxq.options.config import LayerRule
from onnxq.options.settings import AccuracyRepair, Compilation
from onnxq.pipeline.building import Built
from onnxq.pipeline.calibration import Calibrating
from onnxq.pipeline.compiler import Compiled
from onnxq.pipeline.deploying import Worth
from onnxq.pipeline.gates import Verified
from onnxq.pipeline.goal_found import GoalFound
from onnxq.pipeline.pursuit import Pursuit
from onnxq.pipeline.sampling import Sampling
from onnxq.pipeline.verifying import References
from onnxq.quant.choice import Choice
from onnxq.quant.draft.draft import Draft
from onnxq.quant.plan_file import PlanFile
from onnxq.quant.ranges import Ranges
from onnxq.repair.step_search import Crossed
from onnxq.task.known import NO_TASK, KnownTask

Drafted = Callable[[Mapping[str, str]], tuple[Draft, Mapping[str, LayerRule]]]


def _as_it_is(formats: Mapping[str, str]) -> tuple[Draft, Mapping[str, LayerRule]]:
    raise Fault("nothing says what other formats make of the model")


@dataclass(frozen=True, slots=True)
class RunRequest:
    """What a run is asked for, and what it has to do it with.

    Attributes:
        options: the method of calibration.
        sampling: gives the samples.
        repair: which of its steps are tried, and on how many samples.
        pursuit: the goal; None: none is pursued, and no outputs are weighed.
        loud: what loud layers run in: `int8`, `float`, `auto` or `default`.
        compilation: how the result is compiled.
        file: the plan that is obeyed.
        edits: whether the float model may be edited.
        repairs_of: which steps of repair nodes may have that not all may have.
        without: steps of repair that are not tried.
        bytes_over: what an engine moves more than predicted, as a share of what plain float16 moves.
        task: what the model is for: what loses its answers is not taken.
        drafted: the draft whose layers have these number formats, by name, without measured ranges; and the
            `[[layer]]` that gives a tensor its range.
    """

    options: Calibrating
    sampling: Sampling
    repair: AccuracyRepair
    pursuit: Pursuit | None
    loud: str
    compilation: Compilation
    file: PlanFile | None = None
    edits: bool = True
    repairs_of: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    without: frozenset[str] = frozenset()
    bytes_over: float = 0.0
    task: KnownTask = NO_TASK
    drafted: Drafted = _as_it_is

    @property
    def bounds_bytes(self) -> bool:
        """Whether repair is not to have the engine move more than plain float16: nobody asks for nearer."""
        return self.repair.is_auto and not (self.pursuit is not None and self.pursuit.goal.is_set)

    @property
    def weights(self) -> Mapping[str, float] | None:
        """What outputs weigh; None: all the same."""
        return None if self.pursuit is None else self.pursuit.goal.weigh

    @property
    def states_repair(self) -> bool:
        """Whether the plan states what repair makes of the model."""
        return self.file is not None and self.file.repair.is_any


@dataclass(frozen=True, slots=True)
class RunState:
    """A quantized model in the making.

    Attributes:
        built: the model as it would be written now.
        ranges: the ranges of tensors, by any method.
        stats: the statistics, of the model as it was edited.
        measured: likewise, as they were taken.
        references: what the float model gives.
        worth: what the layers weigh at the sizes of each deployment.
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

    built: Built
    ranges: Ranges
    stats: Stats
    measured: Stats
    references: References
    worth: Worth = ()
    choice: Choice | None = None
    repair: RepairPart | None = None
    unrepaired: RunState | None = None
    crossed: tuple[Crossed, ...] = ()
    heads: Heads | None = None
    goal: GoalFound | None = None
    verified: Verified | None = None
    compiled: Compiled | None = None
    formats: FormatsTried | None = None
    alone: RunState | None = None
    mixed_db: float = 0.0

    def of(self, built: Built) -> RunState:
        """That of another model, of which nothing is measured yet."""
        return replace(self, built=built, verified=None, compiled=None)
