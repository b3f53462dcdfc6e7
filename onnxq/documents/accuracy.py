"""How near outputs are, and what a goal asks of them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from onnxq.base.plain import DocumentPart
from onnxq.judge.comparable import OutputLeftOut
from onnxq.judge.intervals import Interval
from onnxq.judge.paired import Resolution
from onnxq.noise.breakdown import NoiseBreakdown
from onnxq.noise.goal import FloatSetTried
from onnxq.run.compare import OutputAccuracy

GateKind = Literal["sqnr", "agreement", "drop"]


@dataclass(frozen=True, slots=True)
class OutputOfRun(OutputAccuracy):
    """An output of the result beside the float model's, over the samples that verify.

    Attributes:
        span: how far its values can be apart, 1 of a probability; None where its operators do not tell.
        part_of: the output that it is a part of, as the rest has another scale; None for a whole output.
        axis: the axis that its indices are of; None likewise.
    """

    span: float | None = None
    part_of: str | None = None
    axis: int | None = None


@dataclass(frozen=True, slots=True)
class GateMeasured(DocumentPart):
    """One thing that a goal asks for.

    Attributes:
        kind: what kind of figure: "sqnr" (dB), "agreement" (percent) or "drop" (of the score, its units).
        what: its name, for people.
        of: the output or the function that it is of; "" of all outputs together.
        goal: what is asked for: at least that, of a drop at most.
        measured: what was measured; None where nothing could be.
        met: whether it is met.
        missing: by how much it is missed, 0 where it is not; None where nothing was measured.
        interval: where `measured` lies with other samples, in its units; None where too few tell, and of a
            score, which is a function of the user's.
        resolution: the least difference that the samples tell from chance, in its units; None where that is
            not known.
        samples: how many samples tell it; None likewise.
        undecided: whether these samples do not tell if it is met.
    """

    kind: GateKind
    what: str
    of: str
    goal: float
    measured: float | None
    met: bool
    missing: float | None
    interval: Interval | None = None
    resolution: float | None = None
    samples: int | None = None
    undecided: bool = False

    @property
    def tells(self) -> str:
        """What its samples tell apart, for people; "" where that is not known."""
        if self.resolution is None:
            return ""
        unit = {"sqnr": " dB", "agreement": " points", "drop": ""}[self.kind]
        rows = "answers" if self.kind == "agreement" else "samples"
        who = f"{self.samples:,} {rows}" if self.samples else "the samples of one number"
        return f"{who} tell {self.resolution:.2g}{unit} apart"

    @classmethod
    def judged(
        cls, kind: GateKind, what: str, of: str, goal: float, measured: float | None,
        interval: Interval | None = None, resolution: Resolution | None = None, *, finest: bool = False,
    ) -> GateMeasured:  # fmt: skip
        """One by what was measured.

        `finest`: whether a goal that allows less than is resolved cannot be met either.
        """
        missing, undecided = None, False
        if measured is not None:
            missing = max(0.0, goal - measured if kind != "drop" else measured - goal)
            allowed = {"sqnr": math.inf, "agreement": 100 - goal, "drop": goal}[kind]
            if resolution is not None and abs(measured - goal) < resolution.least:
                undecided = missing > 0 or (finest and allowed < resolution.least)
        met = missing == 0 and not undecided
        least, samples = (None, None) if resolution is None else resolution
        return cls(kind, what, of, goal, measured, met, missing, interval, least, samples, undecided)


@dataclass(frozen=True, slots=True)
class ScoresPart(DocumentPart):
    """What the user's function gives.

    Attributes:
        function: its name.
        same_samples: whether it scores the same samples whatever is asked of it.
        float: the score of the float model, in the function's units.
        int8: that with all of the plan in int8; None where it was not taken.
        result: that of the result; None in a comparison of two models.
        float_where_chosen: the float model's on the samples that choose; None in a comparison.
        names: what the two are called in a comparison, else empty.
    """

    function: str
    same_samples: bool
    floating: float = field(metadata={"key": "float"})
    int8: float | None
    result: float | None = None
    float_where_chosen: float | None = None
    names: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class LeftInFloat(DocumentPart):
    """A node that a goal left in float.

    Attributes:
        node: its name.
        gain_db: what that gains, predicted, dB.
        cost: what it costs, in the unit of the search.
        share_of_int8_macs: which share of the int8 multiply-accumulates it takes, 0 to 1.
        why: in words.
    """

    node: str
    gain_db: float
    cost: float
    share_of_int8_macs: float
    why: str


@dataclass(frozen=True, slots=True)
class NoiseMeasured(DocumentPart):
    """How the noise model was made.

    Attributes:
        samples: on how many samples the sources of noise were measured.
        apart: whether they calibrated nothing.
        few: which samples did two things, as there are too few; None where none did.
        sources: how many sources of noise there are.
        runs_per_source: how many runs of the model one took, on the average.
        unit: what costs are in: "macs", "bytes" or "given".
        weights: what each output weighs, by name.
        left_out: the outputs that do not count.
        predicted_sqnr_db: of all outputs together, about the mean, by the model, dB.
        body_noise_db: what the half-precision body alone gives, dB; None where there is none.
        reliable: whether prediction and measurement agree.
        noise: who makes the noise, where nothing is left in float.
    """

    samples: int
    apart: bool
    few: str | None
    sources: int
    runs_per_source: float
    unit: str
    weights: Mapping[str, float]
    left_out: tuple[OutputLeftOut, ...]
    predicted_sqnr_db: float
    body_noise_db: float | None
    reliable: bool
    noise: NoiseBreakdown


@dataclass(frozen=True, slots=True)
class GoalSearch(NoiseMeasured):
    """What the search for a goal did.

    Attributes:
        max_float: which share of the int8 multiply-accumulates may go to float, 0 to 1; None: any.
        cost: what the nodes in float cost, in `unit`.
        share_of_int8_macs: which share they take, 0 to 1.
        float: the nodes, the greatest gain first.
        met_where_chosen: whether it is met on the samples that chose.
        aim: what was aimed at, in the goal's units.
        margin_db: how much above the goal that is for the difference of samples, dB; None for other gates.
        raised: by how much each aim was raised, by the kind of the gate.
        trials: all sets that were measured, in order.
        predicted: the signal-to-noise ratio of the best by the model, dB; None where none was needed.
        measured: what was measured of it, in the goal's units.
    """

    max_float: float | None
    cost: float
    share_of_int8_macs: float
    floats: tuple[LeftInFloat, ...] = field(metadata={"key": "float"})
    met_where_chosen: bool
    aim: float
    margin_db: float | None
    raised: Mapping[str, float]
    predicted: float | None
    measured: float
    trials: tuple[FloatSetTried, ...]


@dataclass(frozen=True, slots=True)
class GoalPart(DocumentPart):
    """A goal, and whether it is met.

    Attributes:
        met: whether all gates are.
        gates: what was asked for, with what was measured.
        scores: what the user's function gives; None where there is none.
        default: the gates of the model with all of the plan in int8.
        search: what the search did; None where none was needed.
        missing: why nothing meets it, for people.
        cut: why the search ended early; None where it did not.
        notes: what may not be expected.
        kept: the file with which a search that was cut goes on; None for none.
        mismatch: how what the user's function feeds differs from what calibrated, for people.
    """

    met: bool
    gates: tuple[GateMeasured, ...]
    scores: ScoresPart | None
    default: tuple[GateMeasured, ...] = ()
    search: GoalSearch | None = None
    missing: tuple[str, ...] = ()
    cut: str | None = None
    notes: tuple[str, ...] = ()
    kept: str | None = None
    mismatch: tuple[str, ...] = ()
