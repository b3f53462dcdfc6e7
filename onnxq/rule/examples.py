"""What the checks of all examples share: the model of one, and how one fails."""

from __future__ import annotations

import onnx
import onnx.parser

from onnxq.errors import OnnxqError
from onnxq.graph.model import Model
from onnxq.rule.api import Example
from onnxq.run import ort


class ExampleError(OnnxqError):
    """A rule does not do what its example says."""

    exit_code = 1


def opened(example: Example) -> Model:
    """The model of an example, which must be one that onnxruntime loads."""
    source = example.model
    proto = onnx.parser.parse_model(source) if isinstance(source, str) else source()
    ort.load(proto, optimize=False)
    model = Model.open(proto)
    model.runtime = ort.evaluate
    model.limits = {**model.limits, **example.limits}
    return model
