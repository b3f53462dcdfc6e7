"""Sides of a snippet that compute nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import onnx

from onnxq.graph.snippet import Snippet
from onnxq.run import ort


class Wires:
    """Outputs that are there already, as inputs or constants: nothing needs to run."""

    def __init__(self, sources: Sequence[str], constants: Mapping[str, np.ndarray]) -> None:
        self._sources = sources
        self._constants = constants

    @classmethod
    def of(cls, snippet: Snippet) -> Wires | None:
        """A snippet's replacement as wires; None where it computes something."""
        graph = snippet.after.graph
        computes = any(node.op_type != "Identity" for node in graph.node)
        if computes or len(graph.node) != len(graph.output):
            return None
        constants = {tensor.name: onnx.numpy_helper.to_array(tensor) for tensor in graph.initializer}
        dtypes = [*(array.dtype for array in constants.values()), *(dtype for _, dtype, _ in snippet.inputs)]
        if any(dtype.isbuiltin != 1 for dtype in dtypes):
            return None  # of ml_dtypes: onnxruntime has its own arrays for them
        return cls([node.input[0] for node in graph.node], constants)

    @classmethod
    def computed(cls, snippet: Snippet) -> Wires | None:
        """The original's outputs where it has no inputs; None where it has, or does not run."""
        outputs = None if snippet.inputs else ort.evaluate(snippet.before)
        if outputs is None or not all(isinstance(array, np.ndarray) for array in outputs):
            return None
        names = [info.name for info in snippet.before.graph.output]
        return cls(names, dict(zip(names, outputs, strict=True)))

    def run(self, feeds: Mapping[str, np.ndarray], *, seconds: float | None = None) -> list[np.ndarray]:
        """The outputs for these inputs."""
        return [feeds[name] if name in feeds else self._constants[name] for name in self._sources]
