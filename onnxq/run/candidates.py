"""Many candidates for one quantized model: how near the outputs are with each of its settings."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol, TypeVar

import numpy as np

from onnxq.judge.about_mean import AboutMeanGroups, AboutMeanMeter
from onnxq.judge.answers import AnswerCounter
from onnxq.judge.intervals import GROUPS
from onnxq.judge.output_parts import OutputParts
from onnxq.run.compare import Reference

_Setting = TypeVar("_Setting", contravariant=True)


class Candidates(Protocol[_Setting]):
    """Many models of the same outputs, one for each setting: of scales, say."""

    @property
    def inputs(self) -> Sequence[str]:
        """Names of the inputs."""

    def run_each(
        self,
        feeds: Mapping[str, np.ndarray],
        settings: Sequence[_Setting],
        outputs: Sequence[str] | None = None,
    ) -> list[list[Any]]:
        """The outputs wanted, or all, with each setting."""


def heard(
    reference: Reference,
    candidates: Candidates[_Setting],
    samples: Iterable[Mapping[str, np.ndarray]],
    settings: Sequence[_Setting],
    parts: OutputParts | None = None,
    counter: AnswerCounter | None = None,
    weights: Mapping[str, float] | None = None,
    groups: int = GROUPS,
) -> list[AboutMeanMeter]:
    """Runs a float model once on each sample, and a quantized one with each setting.

    Args:
        reference: the float model, or what it gave for the same samples.
        candidates: the quantized model.
        samples: feeds of the float model.
        settings: what makes a candidate of it.
        parts: in which the outputs are judged; None: each as a whole.
        counter: counts the answers that are kept, too; None: nobody asks.
        weights: what outputs weigh.
        groups: into so many groups the samples are dealt, at most.

    Returns:
        What each group of samples says of all candidates.

    Raises:
        RunError: a model does not run.
    """
    dealt = AboutMeanGroups(parts or reference.outputs, weights, groups, len(settings), counter)
    for feeds in samples:
        exact = reference.run(feeds)
        taken = {name: array for name, array in feeds.items() if name in candidates.inputs}
        dealt.add(exact, candidates.run_each(taken, settings, reference.outputs), feeds)
    return dealt.meters
