"""Whether onnxruntime takes a model, before and after its repair: without it nothing is proved."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import onnx

from onnxq import interrupts
from onnxq.emit import files
from onnxq.errors import UserError
from onnxq.graph.deciders import deciding_inputs
from onnxq.graph.runnable import runnable_part
from onnxq.pipeline.result import Result
from onnxq.reason import code_of
from onnxq.rewrite.proof import BY_DEFINITION
from onnxq.run import ort, trt
from onnxq.run.blame import runs_on_made_up, sizes_that_run
from onnxq.run.refusal import is_lack, is_valid, plain, refusal
from onnxq.target import SAME_PARSER

if TYPE_CHECKING:
    from onnxq.pipeline.job import Job


def runtime_part(job: Job, proto: onnx.ModelProto) -> dict[str, str | None]:
    """Why onnxruntime does not take the original and the result, for the report; None where it does.

    A lack of onnxruntime's, of an operator or of a kernel, is no reason.

    Args:
        job: of a sanitized model.
        proto: the result.
    """
    original = _original(job, proto)
    return {
        "original": original,
        "result": refusal(proto, job.model.data_dir) if original is not None else None,
        "parser": None,
    }


def _original(job: Job, proto: onnx.ModelProto) -> str | None:
    for change in job.rewrites.changes:
        by_definition = change.proof.holds and code_of(change.proof.why) == BY_DEFINITION.code
        if by_definition and not is_lack(change.proof.refused):
            return plain(change.proof.refused)
    if any(entry.verdict != "unproven" for entry in job.rewrites.whole) or runnable_part(proto)[1]:
        return None
    return refusal(job.model.source, job.model.data_dir)


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
    for name, dtype, shape in job.model.inputs:
        sizes = [dim for dim in shape or () if isinstance(dim, int)]
        if dtype is None or shape is None or len(sizes) < len(shape):
            return
        feeds[name] = np.zeros(sizes, dtype)
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


def refuse_invalid(result: Result) -> None:
    """Refuses a model that onnxruntime, ONNX's checker and NVIDIA's parser do not take, even repaired.

    Where the last one takes it, the report says so.

    Raises:
        UserError: it is one, as far as the parser that is here speaks for the target.
    """
    why = result.report["runtime"]["result"]
    if why is None or result.report["target"] not in SAME_PARSER or trt.installed() is None:
        return
    with interrupts.Folder() as folder:
        path = Path(folder) / "model.onnx"
        files.save_model(result.model, path, result.data_dir)
        errors = trt.check_parse(path)
    if errors and is_valid(result.model):
        return
    if errors:
        said = str(errors[0]).partition("\n")[0]
        name = "the model" if result.source is None else repr(str(result.source))
        raise UserError(
            f"onnxruntime does not take {name}: {why}\nNVIDIA's parser does not either: {said}",
            hint="the model is not valid: mend it where they point, and export it again",
        )
    result.report["runtime"]["parser"] = "takes the result"
