"""SQNR about the mean: signal is what varies from sample to sample, so that a constant offset counts for nothing.

The one figure by which goals are set, reached and reported: `SQNR about the mean`, dB.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from onnxq.run.compare import Reference, Runner

NAME = "SQNR about the mean"
"""What it is called wherever it stands; its key in JSON is `sqnr_about_mean_db`."""


@dataclass(frozen=True, slots=True)
class AboutMean:
    """How near outputs are to the float model's.

    Attributes:
        sqnr_db: of all outputs together, each scaled to unit power about its mean over samples (and weighed): -10 log10
            of the mean of their noise-to-signal ratios. None where no output counts.
        outputs: of each output that counts, dB, the worst first.
        left_out: the outputs that do not count, and why.
        samples: how many samples.
    """

    sqnr_db: float | None
    outputs: Mapping[str, float]
    left_out: Mapping[str, str]
    samples: int

    @property
    def worst(self) -> tuple[str, float] | None:
        """The output with the least, and how much."""
        return next(iter(self.outputs.items()), None)

    def to_json(self) -> dict[str, Any]:
        """For the report: `sqnr_about_mean_db`, `worst_output`, `worst_output_db`, `outputs`, `left_out`, `samples`."""
        raise NotImplementedError


class AboutMeanMeter:
    """Accumulates it, sample by sample, for one or several candidates."""

    def __init__(
        self, outputs: Sequence[str], candidates: int = 1, weights: Mapping[str, float] | None = None
    ) -> None:
        """For outputs of these names."""
        raise NotImplementedError

    def add(self, reference: Sequence[Any], candidates: Sequence[Sequence[Any]]) -> None:
        """Adds a sample: the float outputs, and those of each candidate."""
        raise NotImplementedError

    def result(self, candidate: int = 0) -> AboutMean:
        """What the samples so far say of a candidate."""
        raise NotImplementedError


def about_mean(
    reference: Reference,
    candidate: Runner,
    samples: Iterable[Mapping[str, np.ndarray]],
    weights: Mapping[str, float] | None = None,
) -> AboutMean:
    """Compares two models on samples.

    Raises:
        RunError: one of them does not run.
    """
    raise NotImplementedError
