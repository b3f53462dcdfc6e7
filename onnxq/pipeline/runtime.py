"""Whether onnxruntime takes a model, before and after its repair: without it nothing is proved."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import onnx

from onnxq import interrupts
from onnxq.emit import files
from onnxq.errors import UserError
from onnxq.graph.part import runnable_part
from onnxq.pipeline.result import Result
from onnxq.rewrite.proof import BY_DEFINITION
from onnxq.run import trt
from onnxq.run.refusal import is_valid, plain, refusal
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
        if change.proof.holds and change.proof.why.startswith(BY_DEFINITION):
            return plain(change.proof.why.removeprefix(BY_DEFINITION)[2:-1].partition(": ")[2])
    if any(entry.verdict != "unproven" for entry in job.rewrites.whole) or runnable_part(proto)[1]:
        return None
    return refusal(job.model.source, job.model.data_dir)


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
