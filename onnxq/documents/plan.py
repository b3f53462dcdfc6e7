"""What is quantized, and why."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from onnxq.base.plain import DocumentPart
from onnxq.base.shown import count
from onnxq.documents.engine import EnginePart
from onnxq.formats import INT8
from onnxq.judge.answers import AnswersChange
from onnxq.judge.intervals import Interval
from onnxq.quant.plan import Joint, KeptFloat, OwnPair, PlannedLayer, ScaleGroup, Site


@dataclass(frozen=True, slots=True)
class LoudSource(DocumentPart):
    """A layer, or a tensor, that makes much of the noise of an output.

    Attributes:
        name: the layer's, or the tensor's.
        nodes: the layers that are in float where it makes none.
        output: the output, or the part of one, that has most of that noise.
        noise_share: which part of that output's noise it makes, 0 to 1; beyond where it undoes other noise.
        gain_db: by how much the SQNR about the mean rises with them in float, dB, on samples that choose.
        interval: where that lies with other samples, dB; None where too few tell.
        answers: what is kept then of the float model's answers beyond what is kept in int8; None where the
            task is not known.
        share: what they take from the int8 share of the eligible multiply-accumulates, 0 to 1.
        left_float: whether they are left in float.
        why: in words.
    """

    name: str
    nodes: tuple[str, ...]
    output: str
    noise_share: float
    gain_db: float
    share: float
    left_float: bool
    why: str
    interval: Interval | None = None
    answers: AnswersChange | None = None


@dataclass(frozen=True, slots=True)
class GoalForeseen(DocumentPart):
    """What a goal would take, by the noise that was measured of each layer.

    Attributes:
        sqnr_db: the goal: the SQNR about the mean of all outputs together, dB.
        share: what would be in float for it, of the int8 multiply-accumulates, 0 to 1.
        reached: whether that is enough.
    """

    sqnr_db: float
    share: float
    reached: bool


@dataclass(frozen=True, slots=True)
class Heads(DocumentPart):
    """What became of the heads of a model (`onnxq.quant.heads` says what they are), and of what is loud.

    Attributes:
        asked: `int8`, `float` or `auto`, by flag; `default`: what is loud, for next to none of the int8 work.
        heads: names of the heads that int8 gains something for, in the order of the model.
        left_float: names of the layers that are in float for it, heads or not.
        gain_db: by how much the SQNR of all outputs about their mean rises with them in float, dB, measured
            on samples that confirm; of an output alone that is lost, where they are in float for it. Where
            none is left in float, with those that were tried. None: not measured.
        chosen_gain_db: the same on the samples that chose them.
        share: what they take from the int8 share of the eligible multiply-accumulates, 0 to 1.
        why: why no layer is in float, or why it was not measured; "" where neither is so.
        few: which samples did two things, as there are too few; None where none did.
        loud: what is loud, whether in float or not; the loudest first.
        noise_share: which part of an output's noise a tensor, or a block of layers, makes at most, 0 to 1;
            None: not measured.
        foreseen: what goals would take that are advised; empty where that is not known.
    """

    asked: str
    heads: tuple[str, ...]
    left_float: tuple[str, ...] = ()
    gain_db: float | None = None
    chosen_gain_db: float | None = None
    share: float = 0.0
    why: str = ""
    few: str | None = None
    loud: tuple[LoudSource, ...] = ()
    noise_share: float | None = None
    foreseen: tuple[GoalForeseen, ...] = ()


@dataclass(frozen=True, slots=True)
class FormatTried(DocumentPart):
    """A number format, or a mix of them, that was tried for the whole model.

    Attributes:
        format: "int8", "fp8", or "int8 and fp8".
        layers: how many layers were in each.
        sqnr_db: of all outputs about their mean, dB, on samples that confirm.
        worst_output_db: that of the worst output, or part of one.
        bytes: what the engine moves, predicted from shapes, as a share of what plain float16 moves.
        verdict: "chosen" or "dropped".
        why: why.
    """

    format: str
    layers: Mapping[str, int]
    sqnr_db: float | None
    worst_output_db: float | None
    bytes: float
    verdict: str
    why: str


@dataclass(frozen=True, slots=True)
class FormatsTried(DocumentPart):
    """How the number format of each layer was chosen, where several were asked for.

    Attributes:
        tried: what was compared; empty where nothing could be.
        why: what decided.
    """

    tried: tuple[FormatTried, ...] = ()
    why: str = ""


@dataclass(frozen=True, slots=True)
class PlanPart(DocumentPart):
    """What is quantized, and why.

    Attributes:
        sites: the Q/DQ pairs that are new, one for each quantized tensor.
        own_pairs_read: the model's own pairs that get new readers.
        groups: the tensors that share scales.
        kept_float: the layers that stay in float.
        layers: the layers with constant weights, and the products of two activations.
        together: the decisions that hold together.
        int8_share_of_eligible_macs: the int8 share of the eligible multiply-accumulates, 0 to 1; None where
            there are none.
        int8_share_of_all_macs: that of all of them; None where a size is not known.
        file: the plan file that was obeyed, None for none.
        heads: what became of the last layers; None where that was not asked.
        format: the number formats that layers are quantized to: "int8", "fp8", "int8 and fp8".
        formats: how that of each layer was chosen; None where one was asked for, or a plan says it.
    """

    sites: tuple[Site, ...]
    own_pairs_read: tuple[OwnPair, ...]
    groups: tuple[ScaleGroup, ...]
    kept_float: tuple[KeptFloat, ...]
    layers: tuple[PlannedLayer, ...]
    together: tuple[Joint, ...]
    int8_share_of_eligible_macs: float | None
    int8_share_of_all_macs: float | None
    file: str | None
    heads: Heads | None
    format: str = INT8.name
    formats: FormatsTried | None = None

    def in_each(self, without: Collection[str] = ()) -> Mapping[str, int]:
        """How many layers are in each format but float; `without`: some that are not counted."""
        held = (one.format for one in self.layers if one.quantized and one.node not in without)
        return dict(sorted(Counter(held).items(), key=lambda one: self.format.find(one[0])))

    @property
    def is_mixed(self) -> bool:
        """Whether layers have several formats."""
        return len(self.in_each()) > 1

    def in_words(self, without: Collection[str] = ()) -> str:
        """The same in words: "12 in int8, 6 in fp8"."""
        each = self.in_each(without)
        return ", ".join(f"{each.get(name, 0)} in {name}" for name in self.in_each())

    def said_to_run(self, engine: EnginePart) -> str:
        """How many of the planned layers run in their format, in words."""
        run = "runs" if engine.planned == 1 else "run"
        if self.is_mixed:
            planned = count(engine.planned, "planned layer")
            return f"{engine.int8} of {planned} {run} as planned: {self.in_words(engine.not_int8)}"
        planned = count(engine.planned, f"planned {self.format} layer")
        return f"{engine.int8} of {planned} {run} in {self.format}"
