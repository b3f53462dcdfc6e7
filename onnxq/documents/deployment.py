"""What a model is deployed for, and what that decides."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from onnxq.base.plain import DocumentPart
from onnxq.compiled.verdict import Verdict


@dataclass(frozen=True, slots=True)
class DimensionDeployed(DocumentPart):
    """A dynamic dimension.

    Attributes:
        name: its symbol, else the input and the axis, "x[2]".
        smallest: the least size that there is.
        usual: that for which it is decided what is in int8.
        largest: the greatest.
        origin: "stated", "data" (of the samples) or "assumed".
        batch: whether it is the batch, and the model runs in others than the usual one.
    """

    name: str
    smallest: int
    usual: int
    largest: int
    origin: str
    batch: bool


@dataclass(frozen=True, slots=True)
class SizesWorth(DocumentPart):
    """What the target's limits let be int8 at some sizes.

    Attributes:
        at: the sizes, in words.
        share: the share of the layers that may be in all multiply-accumulates, 0 to 1.
        weights: the share of the weights in what products read and write, all of one type, 0 to 1.
        reads_weights: whether most multiply-accumulates are in layers of too few rows for int8, which wait
            for their weights.
    """

    at: str
    share: float
    weights: float = 0.0
    reads_weights: bool = False


@dataclass(frozen=True, slots=True)
class DeploymentPart(DocumentPart):
    """The sizes that a run decided for.

    Attributes:
        dimensions: the dynamic ones; empty where all sizes are static.
        worth: what could be int8, the usual sizes first, where all are static these alone; empty where sizes
            are not known.
    """

    dimensions: tuple[DimensionDeployed, ...] = ()
    worth: tuple[SizesWorth, ...] = ()


@dataclass(frozen=True, slots=True)
class NamedDeployment(DocumentPart):
    """One of several deployments that a run decided for.

    Attributes:
        name: its name.
        weight: its share of all work, 0 to 1.
        is_weight_assumed: whether nobody stated that.
        samples: how many of the samples belong to it.
        dimensions: the dynamic ones.
        profiles: the least, the usual and the greatest shape of each dynamic input, by input.
        worth: what could be int8 in it, the usual sizes first; empty where sizes are not known.
        activation_mb: what the engine needs for activations, 1e6 bytes; None where there is none.
        verdict: what int8 does to the engine in it; None where nothing was compiled.
    """

    name: str
    weight: float
    is_weight_assumed: bool
    samples: int
    dimensions: tuple[DimensionDeployed, ...] = ()
    profiles: Mapping[str, tuple[tuple[int, ...], ...]] = field(default_factory=dict)
    worth: tuple[SizesWorth, ...] = ()
    activation_mb: float | None = None
    verdict: Verdict | None = None
