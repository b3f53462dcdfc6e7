"""What is quantized, and why."""

from __future__ import annotations

from dataclasses import dataclass

from onnxq.base.plain import DocumentPart
from onnxq.quant.plan import Joint, KeptFloat, OwnPair, PlannedLayer, ScaleGroup, Site


@dataclass(frozen=True, slots=True)
class Heads(DocumentPart):
    """What became of the heads of a model (`onnxq.quant.heads` says what they are).

    Attributes:
        asked: `int8`, `float` or `auto`, by flag.
        heads: names of those that int8 gains something for; the one that costs the outputs most is first
            where that was measured, by the noise model.
        left_float: names of those that are in float.
        gain_db: by how much the SQNR of all outputs about their mean rises with them in float, dB, measured
            on samples that confirm; where none is left in float, with those that were tried. None: not
            measured.
        chosen_gain_db: the same on the samples that chose them.
        share: what they take from the int8 share of the eligible multiply-accumulates, 0 to 1.
        why: why no head is in float, or why it was not measured; "" where neither is so.
        few: which samples did two things, as there are too few; None where none did.
    """

    asked: str
    heads: tuple[str, ...]
    left_float: tuple[str, ...] = ()
    gain_db: float | None = None
    chosen_gain_db: float | None = None
    share: float = 0.0
    why: str = ""
    few: str | None = None


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
