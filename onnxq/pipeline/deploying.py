"""The sizes that a run decides for: as they are stated, else those of the samples."""

from __future__ import annotations

from onnxq.data.samples import Sample
from onnxq.data.sources import Source
from onnxq.data.split import Split
from onnxq.pipeline.job import Job
from onnxq.run.deployment import Deployment


def deploy(job: Job, source: Source, parts: Split, first: Sample) -> tuple[Deployment, Sample]:
    """What a model is deployed for, and the sample that has the usual sizes, but for the batch.

    Where the batch alone is open, and of an iterator, one sample tells the sizes of all.

    Args:
        job: of the model.
        source: the samples.
        parts: which of them are read.
        first: one of them.

    Raises:
        UserError: what is stated of the sizes does not fit the model.
    """
    stated = job.deployment()
    if not parts.indices or set(stated.spans) <= {*stated.batch}:
        return job.deployment([{name: array.shape for name, array in first.feeds.items()}]), first
    with job.step("sizes"):
        found = job.deployment(source.shapes(parts.indices))
        usual = [] if found.nearest is None else [parts.indices[found.nearest]]
        return found, next(source.good(usual), first)
