"""How near one model is to another, measured from outside."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from onnxq.judge.about_mean import AboutMeanMeter, AboutMeanPart
from onnxq.run.compare import Runner, compare_models


def about_mean(
    reference: Runner, candidate: Runner, samples: Iterable[Mapping[str, np.ndarray]]
) -> AboutMeanPart:
    """The SQNR about the mean over samples."""
    meter = AboutMeanMeter(reference.outputs)
    compare_models(reference, candidate, samples, meters=[meter])
    return meter.result()
