"""What the checks of all examples share: the model of one, and how one fails."""

from __future__ import annotations

import onnx
import onnx.parser

from onnxq.base.errors import OnnxqError
from onnxq.graph.model import Model
from onnxq.rule.api import Example
from onnxq.run import ort, reference


class ExampleError(OnnxqError):
    """A rule does not do what its example says."""

    exit_code = 1


def opened(example: Example) -> Model:
    """The model of an example, which onnxruntime or, what that has no kernel for, ONNX's evaluator loads."""
    source = example.model
    proto = onnx.parser.parse_model(source) if isinstance(source, str) else source()
    try:
        ort.load(proto, optimize=False)
    except ort.RunError:
        if not _is_defined(proto):
            raise
    model = Model.open(proto)
    model.runtime = ort.evaluate
    model.limits = {**model.limits, **example.limits}
    return model


def _is_defined(proto: onnx.ModelProto) -> bool:
    """Whether a model is a valid one that ONNX's own evaluator knows."""
    try:
        onnx.checker.check_model(proto, full_check=True)
        reference.Evaluator(proto)
    except (onnx.checker.ValidationError, onnx.shape_inference.InferenceError, ort.RunError):
        return False
    return True
