"""Repairing a model, and no more: what `onnxq sanitize` does, and `onnxq check` with what it looks at."""

from __future__ import annotations

from dataclasses import replace
from typing import Unpack

from onnxq.base import remarks
from onnxq.base.errors import UserError
from onnxq.base.heap import uncollected
from onnxq.base.progress import Observer
from onnxq.data.sources import DataSource
from onnxq.graph.load import ModelSource
from onnxq.options.call_options import SanitizeOptions
from onnxq.options.grouped import Options
from onnxq.options.keywords import takes_options
from onnxq.options.settings import NO_HALF, AccuracyRepair, Inputs, Repairs
from onnxq.pipeline.job import Job
from onnxq.pipeline.result import Result
from onnxq.pipeline.runtime import refuse_invalid
from onnxq.pipeline.stated_sizes import refuse_sizes
from onnxq.run import ort


@takes_options
def sanitize(
    model: ModelSource,
    data: DataSource | None = None,
    *,
    observe: Observer | None = None,
    **options: Unpack[SanitizeOptions],
) -> Result:
    """Repairs a model so that the target takes it; what it computes does not change.

    Without `body` and `io` no type changes. With them `stats`, data or both say what a type holds. Without
    any of these weights bound what they can, and the rest stays float32.

    Args:
        model: a path or a ModelProto, which is not modified.
        data: as in `quantize`, for a body of half precision: it says what such a type holds.
        observe: is told the steps.
        options: groups of options, or fields of these as keywords of their own: `target="tensorrt-8.6"`.

    Raises:
        UserError: the model or an option cannot be used; neither onnxruntime nor NVIDIA's parser takes it.
        TypeError: there is no such keyword.
        Fault: a fault of onnxq.
    """
    asked = Options.of("sanitize", options)
    asked = replace(asked, repairs=replace(asked.repairs, pairs="keep"))
    body = asked.format.body
    if body is None and asked.format.io in (None, "fp32"):
        if asked.format.keep_fp32:
            raise UserError(NO_HALF, hint="give --body fp16, or leave keep_fp32 out")
        with remarks.heard(), ort.running(asked.runtime):
            result = sanitize_any(model, asked.repairs, asked.inputs, observe)
            refuse_invalid(result)
        return result
    asked = replace(
        asked, calibration=replace(asked.calibration, method="minmax"), accuracy=AccuracyRepair("none")
    )
    from onnxq.pipeline.jobs import sanitized  # loads what quantizes
    from onnxq.pipeline.quantizing import converted

    with sanitized(model, data, asked, observe) as request:
        result = converted(request)
        refuse_invalid(result)
    return result


def sanitize_any(model: ModelSource, repairs: Repairs, inputs: Inputs, observe: Observer | None) -> Result:
    """The same as `sanitize`, but a model that nobody takes is not refused."""
    with uncollected():
        run = Job.of(model, replace(repairs, pairs="keep"), inputs, observe).sanitized()
        refuse_sizes(run)
        return run.result(run.model.to_proto()).deployed(run.deployments())
