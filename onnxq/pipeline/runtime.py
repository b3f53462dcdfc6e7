"""Whether onnxruntime takes a model, before and after its repair: without it nothing is proved."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import onnx

from onnxq.base import interrupts
from onnxq.base.errors import UserError
from onnxq.base.reason import code_of, noted
from onnxq.documents.changes import TakenByRuntime
from onnxq.emit import files
from onnxq.graph.constants import tensor_bytes
from onnxq.graph.load import opset_of
from onnxq.graph.model import Model
from onnxq.graph.parts import runnable_part
from onnxq.graph.source import without_graph
from onnxq.graph.spool import weight_bytes
from onnxq.graph.types import dtype_of, value_info
from onnxq.pipeline.result import Result
from onnxq.rewrite.engine import RewriteReport
from onnxq.rewrite.proof import BY_DEFINITION
from onnxq.run import ort, trt
from onnxq.run.plain_words import plain
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


# A model with more bytes of weights is first tried without the large ones: what refuses it seldom reads them.
_MUCH, _LARGE = 1 << 26, 1 << 12

_OLDEST = 7

# Words of onnxruntime's that say that it lacks something.
_LACKS = (
    " : NOT_IMPLEMENTED : ",
    "is not a registered function/op",
    "No Op registered for",
    "No opset import",
    "can't be converted to MLDataType",  # of arrays that are bfloat16
)


def refusal(model: onnx.ModelProto, data_dir: Path | None = None) -> str | None:
    """Why onnxruntime does not load a model.

    Args:
        model: the model.
        data_dir: the folder of its external data.

    Returns:
        Its words; None where it loads the model, or only lacks an operator or a kernel. Of opsets that it
        has no kernels for, that.
    """
    if weight_bytes(model) > _MUCH and _refused(_light(model), data_dir) is None:
        return None
    return _refused(model, data_dir)


def is_lack(text: str) -> bool:
    """Whether onnxruntime's words say that it lacks an operator or a kernel."""
    return any(words in text for words in _LACKS)


def is_valid(model: onnx.ModelProto) -> bool:
    """Whether ONNX's own checker, shapes and types included, has nothing against a model."""
    try:
        onnx.checker.check_model(_light(model), full_check=True)
    except Exception:  # of several classes
        return False
    return True


def _refused(model: onnx.ModelProto, data_dir: Path | None) -> str | None:
    try:
        ort.try_as_written(model, data_dir)
    except ort.RunError as error:
        opset = opset_of(model, _OLDEST)
        if is_lack(str(error)) and opset < _OLDEST:
            return noted("onnxruntime.old-opset", opset=opset, oldest=_OLDEST)
        return None if is_lack(str(error)) else plain(str(error))
    return None


def _light(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model with its large weights as inputs."""
    light = without_graph(model)
    light.graph.name = model.graph.name
    for field in ("node", "input", "output", "value_info", "sparse_initializer"):
        getattr(light.graph, field).extend(getattr(model.graph, field))
    listed = {info.name for info in light.graph.input}
    for tensor in model.graph.initializer:
        dtype = dtype_of(tensor.data_type)
        if dtype is None or tensor_bytes(tensor) < _LARGE:
            light.graph.initializer.append(tensor)
        elif tensor.name not in listed:
            light.graph.input.append(value_info(tensor.name, dtype, tuple(tensor.dims)))
    return light
