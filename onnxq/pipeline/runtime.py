"""Whether onnxruntime takes a model, before and after its repair: without it nothing is proved."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import onnx

from onnxq.base import interrupts
from onnxq.base.errors import UserError
from onnxq.base.reason import code_of
from onnxq.documents.changes import TakenByRuntime
from onnxq.emit import files
from onnxq.graph.model import Model
from onnxq.graph.parts import runnable_part
from onnxq.pipeline.result import Result
from onnxq.rewrite.engine import RewriteReport
from onnxq.rewrite.proof import BY_DEFINITION
from onnxq.run import trt
from onnxq.run.plain_words import plain
from onnxq.run.refusal import is_lack, is_valid, refusal
from onnxq.targets import load_target


def taken_by_runtime(model: Model, rewrites: RewriteReport, proto: onnx.ModelProto) -> TakenByRuntime:
    """Why onnxruntime does not take the original and the result, for the report; None where it does.

    A lack of onnxruntime's, of an operator or of a kernel, is no reason.

    Args:
        model: the sanitized model.
        rewrites: how it was sanitized.
        proto: the result.
    """
    original = _original(model, rewrites, proto)
    result = refusal(proto, model.data_dir) if original is not None else None
    return TakenByRuntime(original, result, parser=None)


def _original(model: Model, rewrites: RewriteReport, proto: onnx.ModelProto) -> str | None:
    for change in rewrites.changes:
        by_definition = change.proof.holds and code_of(change.proof.why) == BY_DEFINITION.code
        if by_definition and not is_lack(change.proof.refused):
            return plain(change.proof.refused)
    if any(entry.verdict != "unproven" for entry in rewrites.whole):
        return None
    own = {
        f"{function.domain}.{function.name}" for function in proto.functions
    }  # of other opsets: not inlined
    if not own.issuperset(runnable_part(proto)[1].values()):
        return None
    return refusal(model.source, model.data_dir)


def refuse_invalid(result: Result) -> None:
    """Refuses a model that onnxruntime, ONNX's checker and NVIDIA's parser do not take, even repaired.

    Where the last one takes it, the report says so.

    Raises:
        UserError: it is one, as far as the parser that is here speaks for the target.
    """
    why = result.report.runtime.result
    if why is None or not load_target(result.report.target).is_compiled_here or trt.installed() is None:
        return
    with interrupts.Folder() as folder:
        path = Path(folder) / "model.onnx"
        files.save_model(result.model, path, result.data_dir)
        errors = trt.check_parse(path)
    if errors and is_valid(result.model):
        return
    if errors:
        first = str(errors[0]).partition("\n")[0]
        name = "the model" if result.source is None else repr(str(result.source))
        raise UserError(
            f"onnxruntime does not take {name}: {why}\nNVIDIA's parser does not either: {first}",
            hint="the model is not valid: mend it where they point, and export it again",
        )
    runtime = replace(result.report.runtime, parser="takes the result")
    result.report = replace(result.report, runtime=runtime)
