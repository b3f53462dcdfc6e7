"""Several samples as one batch: a session takes longer to call than to compute what is small."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np


class Runs(Protocol):
    """What runs a model."""

    def run(self, feeds: Mapping[str, np.ndarray], /) -> list[Any]:
        """The outputs for these inputs."""


def run(session: Runs, samples: Sequence[Mapping[str, np.ndarray]]) -> list[list[Any]]:
    """The outputs for each of several inputs, which are joined along their first axis.

    Args:
        session: runs a model that computes each sample of a batch alone.
        samples: the inputs; of all samples the same shapes but for the first axis.

    Raises:
        RunError: the session fails.
        ValueError: the outputs are not as many samples.
    """
    return cut(session.run(joined(samples)), samples)


def joined(samples: Sequence[Mapping[str, np.ndarray]]) -> Mapping[str, np.ndarray]:
    """Several inputs as one; a single one as it is."""
    if len(samples) == 1:
        return samples[0]
    return {name: np.concatenate([feeds[name] for feeds in samples]) for name in samples[0]}


def cut(outputs: Sequence[Any], samples: Sequence[Mapping[str, np.ndarray]]) -> list[list[Any]]:
    """The outputs for each of several inputs, of those for what they are joined to.

    Raises:
        ValueError: the outputs are not as many samples.
    """
    if len(samples) == 1:
        return [list(outputs)]
    sizes = [len(next(iter(feeds.values()))) for feeds in samples]
    for output in outputs:
        if not isinstance(output, np.ndarray) or not output.ndim or len(output) != sum(sizes):
            raise ValueError("an output is no batch")
    cuts = np.cumsum(sizes)[:-1]
    return [list(parts) for parts in zip(*(np.split(output, cuts) for output in outputs), strict=True)]
