"""What causes the error of a quantized model, and what to leave in float for a goal."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from onnxq.noise.decisions import Costs, Unit
from onnxq.noise.goal import Met
from onnxq.noise.gram import NoiseModel
from onnxq.noise.measure import Submit
from onnxq.noise.ranking import Ranked
from onnxq.pipeline.calibration import Prepared
from onnxq.pipeline.choosing import Quantized
from onnxq.pipeline.job import Job
from onnxq.pipeline.sampling import Sampling
from onnxq.quant.plan import QuantPlan
from onnxq.quant.ranges import Ranges
from onnxq.run.compare import Reference

SAMPLES = 32
"""How many samples measure the sources, at most."""

CallableModel = Callable[[Mapping[str, np.ndarray]], dict[str, np.ndarray]]
"""A model that a user's function calls: arrays by input name in, arrays by output name out."""


@dataclass(frozen=True, slots=True)
class Asked:
    """How the noise is measured.

    Attributes:
        samples: how many samples at most.
        weights: what outputs weigh; None: all the same.
        unit: what a decision costs, where `costs` says nothing.
        costs: what nodes cost, in any unit.
        max_float: which share of the int8 MACs may go to float, 0 to 1.
        state: a file that keeps what is done.
        workers: how many processes.
        submit: where the work goes instead.
    """

    samples: int = SAMPLES
    weights: Mapping[str, float] | None = None
    unit: Unit = "macs"
    costs: Mapping[str, float] | None = None
    max_float: float | None = None
    state: Path | None = None
    workers: int = 1
    submit: Submit | None = None


class Accuracy:
    """The noise of a model whose scales are chosen; made once, the sources are measured when they are needed."""

    def __init__(
        self,
        job: Job,
        sampling: Sampling,
        prepared: Prepared,
        ranges: Ranges,
        done: Quantized,
        floats: Reference,
        asked: Asked,
    ) -> None:
        """What `pipeline.quantization` has when the scales are chosen."""
        raise NotImplementedError

    @property
    def model(self) -> NoiseModel:
        """The noise model, measured on samples that choose when it is first asked for.

        Raises:
            UserError: there is nothing to measure with or of.
        """
        raise NotImplementedError

    @property
    def costs(self) -> Costs:
        """What nodes cost."""
        raise NotImplementedError

    def ranked(self, verify: int = 5) -> list[Ranked]:
        """All decisions by gain; the gains of the first are measured."""
        raise NotImplementedError

    def for_sqnr(self, goal_db: float) -> Met:
        """The cheapest set for an SQNR about the mean, dB."""
        raise NotImplementedError

    def for_score(self, score: Callable[[CallableModel], float], goal: float) -> Met:
        """The cheapest set for a score of the user's function, on the samples that it takes itself."""
        raise NotImplementedError

    def for_agreement(self, output: str, goal: float) -> Met:
        """The cheapest set whose argmax of an output agrees with the float model's in so many percent of rows."""
        raise NotImplementedError

    def sqnr_db(self, sets: Sequence[Collection[str]]) -> list[float]:
        """The measured SQNR about the mean of sets of nodes in float, on the samples that choose."""
        raise NotImplementedError

    def callable_of(self, floats: Collection[str]) -> CallableModel:
        """The quantized model with some nodes in float, for a function of the user's."""
        raise NotImplementedError

    def float_model(self) -> CallableModel:
        """The float model likewise."""
        raise NotImplementedError

    def plan_with(self, floats: Collection[str], why: Mapping[str, str]) -> QuantPlan:
        """The plan with some nodes in float; it reads no range that was not measured.

        Args:
            floats: the nodes.
            why: for each of them the reason, as the report says it.
        """
        raise NotImplementedError

    def finished(self, floats: Collection[str], why: Mapping[str, str]) -> tuple[Prepared, Quantized]:
        """Plan and model with some nodes in float, in the place of those that this was made of.

        Args:
            floats: the nodes.
            why: for each of them the reason, as the report says it.
        """
        raise NotImplementedError

    def to_json(self) -> dict[str, Any]:
        """The part of the report: figures, effort, ranking, outputs left out."""
        raise NotImplementedError
