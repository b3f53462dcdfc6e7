"""What the checks of all examples share: the model of one, and how one fails."""

from __future__ import annotations

from collections.abc import Sequence

import onnx
import onnx.parser

from onnxq.base.errors import OnnxqError
from onnxq.graph.model import Model
from onnxq.rule.api import Example, Skips
from onnxq.run import ort, reference


class ExampleError(OnnxqError):
    """A rule does not do what its example says."""

    exit_code = 1


def check_reasons(example: Skips, given: Sequence[tuple[str, str]]) -> None:
    """Checks why a rule leaves an example alone.

    Args:
        example: the example.
        given: the rule's reasons, each behind the name of its node.

    Raises:
        ExampleError: a reason is missing.
    """
    for name in example.nodes or ("",) * bool(example.because):
        reasons = [reason for node, reason in given if name in ("", node)]
        if not any(example.because in reason for reason in reasons):
            of = f" of {name!r}" if name else ""
            raise ExampleError(f"{example.because!r} is not among its reasons{of}: {reasons}")


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
