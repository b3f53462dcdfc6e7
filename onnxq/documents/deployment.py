"""What a model is deployed for, and what that decides."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class DimensionDeployed:
    """A dynamic dimension.

    Attributes:
        name: its symbol, else the input and the axis, "x[2]".
        smallest: the least size that there is.
        usual: that for which it is decided what is in int8.
        largest: the greatest.
        origin: "stated", "data" (of the samples) or "assumed".
        batch: whether it is the batch.
    """

    name: str
    smallest: int
    usual: int
    largest: int
    origin: str
    batch: bool


@dataclass(frozen=True, slots=True)
class SizesWorth:
    """What the target's limits let be int8 at some sizes.

    Attributes:
        at: the sizes, in words.
        share: the share of the layers that may be in all multiply-accumulates, 0 to 1.
    """

    at: str
    share: float


@dataclass(frozen=True, slots=True)
class DeploymentPart:
    """The sizes that a run decided for.

    Attributes:
        dimensions: the dynamic ones; empty where all sizes are static.
        worth: what could be int8, the usual sizes first; empty likewise, and where sizes are not known.
    """

    dimensions: tuple[DimensionDeployed, ...] = ()
    worth: tuple[SizesWorth, ...] = ()
