"""Whether the model runs at the sizes that the user states for its inputs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx

from onnxq.base.errors import UserError
from onnxq.graph.deciders import deciding_inputs
from onnxq.graph.types import is_static
from onnxq.pipeline.job import Job
from onnxq.run import ort
from onnxq.run.blame import runs_on_made_up, sizes_that_run
from onnxq.run.plain_words import plain


def refuse_sizes(job: Job) -> None:
    """Refuses stated shapes at which the model does not run, where it does at others, or does not load.

    Args:
        job: of a sanitized model; where that was compared with the original, it runs.

    Raises:
        UserError: they are such.
    """
    if deciding_inputs(job.model.to_proto(weights=False)):
        job.check_loads()  # which says what to state of them
    _refuse_others_run(job)
    job.check_loads()


def _refuse_others_run(job: Job) -> None:
    shapes, _, _ = job.statements
    compared = any(entry.verdict != "unproven" for entry in job.rewrites.whole)
    feeds: dict[str, np.ndarray] = {}
    for one in job.model.inputs:
        if one.dtype is None or not is_static(one.shape):
            return
        feeds[one.name] = np.zeros(one.shape, one.dtype)
    if not shapes or compared:
        return
    why = _fails(job.model.to_proto(), job.model.data_dir, feeds)
    if why is None:
        return
    try:
        original = ort.load(job.model.source, optimize=False, data_dir=job.model.data_dir)
    except ort.RunError:
        return
    others = sizes_that_run(original, feeds)  # an input that is frozen is missing: then none is found
    if others:
        stated = " ".join(f"--shape {n}={'x'.join(map(str, s))}" for n, s in shapes.items())
        runs = ", ".join(f"{name}={'x'.join(map(str, shape))}" for name, shape in others.items())
        raise UserError(
            f"with {stated} the model does not run: {plain(why)}",
            hint=f"it runs with other sizes, as with {runs}",
        )


def _fails(proto: onnx.ModelProto, data_dir: Path | None, feeds: dict[str, np.ndarray]) -> str | None:
    """Why a model does not run on zeros and not on ones; None where it does."""
    try:
        session = ort.load(proto, optimize=False, data_dir=data_dir)
        if runs_on_made_up(session, feeds):
            return None
        session.run(feeds)
    except ort.RunError as error:
        return str(error)
    return None
