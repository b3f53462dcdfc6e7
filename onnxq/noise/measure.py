"""Measuring G: each source runs alone, sample by sample, block by block of the samples."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from pathlib import Path
from typing import Any, Protocol

from onnxq.noise.gram import NoiseModel
from onnxq.noise.sources import Sources
from onnxq.quant.measuring import MeasuringCopy
from onnxq.run.ort import Feeds

BLOCK = 4
"""Samples that are measured together: what a worker gets, and what is kept when a run is interrupted."""

BUDGET = 1 << 14
"""Numbers that are kept of a source's error in a sample; of larger outputs random projections."""


class Submit(Protocol):
    """`submit` of an executor whose workers can import onnxq and read this machine's files."""

    def __call__(self, work: Callable[..., Any], /, *args: Any) -> Future[Any]:
        """Runs a function somewhere."""
        ...


def measure_noise(
    copy: MeasuringCopy,
    sources: Sources,
    samples: Iterable[Feeds],
    *,
    weights: Mapping[str, float] | None = None,
    seed: int = 0,
    budget: int = BUDGET,
    state: Path | None = None,
    workers: int = 1,
    submit: Submit | None = None,
    progress: Callable[[int, int | None], None] = lambda done, total: None,
    total: int | None = None,
) -> NoiseModel:
    """Runs each source alone on each sample.

    The result is the same, bit for bit, by any number of workers and after any interruption.

    Args:
        copy: the quantized model; all its sources can be off.
        sources: they.
        samples: feeds that calibrated nothing, read once.
        weights: what outputs weigh, 1 by default; those of weight 0 are left out.
        seed: of the projection.
        budget: how many numbers of an output's error are kept a sample and source, exactly where that is enough.
        state: a file that keeps blocks that are done, for a run that goes on; of other content it is not used.
        workers: how many processes.
        submit: where the work goes instead.
        progress: hears how many runs of sources are done, and of how many.
        total: how many samples there are, where that is known.

    Raises:
        UserError: there is no sample, an output that is weighed does not exist, or no output counts.
        RunError: the model does not run on a sample.
    """
    raise NotImplementedError
