"""What a user reads of outputs: a class, or the anchors of a detector that are over a threshold."""

from __future__ import annotations

import fnmatch
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

THRESHOLD = 0.25

Outputs = Mapping[str, np.ndarray]


def _strides(score: Callable[[Outputs, int], np.ndarray]) -> Callable[[Outputs], np.ndarray]:
    """The scores of anchors at each of three strides."""
    return lambda outputs: np.concatenate([score(outputs, stride).ravel() for stride in (8, 16, 32)])


_SCORES: dict[str, Callable[[Outputs], np.ndarray]] = {
    "ultraface*": lambda outputs: outputs["scores"][..., 1:].max(-1).ravel(),  # the first is background
    "yunet_120x160": lambda outputs: outputs["conf"][..., 1],
    "yunet_s_640": _strides(lambda outputs, s: np.sqrt(outputs[f"cls_{s}"] * outputs[f"obj_{s}"].clip(0))),
    "nanodet*": _strides(lambda outputs, s: outputs[f"cls_pred_stride_{s}"].max(-1)),
    "ortext_fastestdet": lambda outputs: outputs["output"][..., 0].ravel(),
    "osf_mnv3_detection": lambda outputs: outputs["output"][:, 0].ravel(),
}
"""The best score of each anchor, by the names of nets."""


def scores_of(net: str) -> Callable[[Outputs], np.ndarray] | None:
    """What gives the best score of each anchor, [anchors], of a detector's outputs; None of other nets."""
    return next((scores for glob, scores in _SCORES.items() if fnmatch.fnmatchcase(net, glob)), None)


def kept(exact: Any, given: Any, least: float = THRESHOLD) -> tuple[int, int, int]:
    """How many anchors the float model has over a threshold, how many of these a file has, and in all."""
    there, here = np.asarray(exact) > least, np.asarray(given) > least
    return int(there.sum()), int((there & here).sum()), int(here.sum())
