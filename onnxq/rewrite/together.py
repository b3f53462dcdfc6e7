"""Both sides of a snippet in one session, which says as well how large the terms are that it sums.

A replacement may be off from double precision by several times what the original is, and by what rounding
explains (`onnxq.rewrite.oracle.room`). So one that is no further from the original than rounding explains is
right, whatever double precision gives. Of one that is further off nothing is said.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper

from onnxq.graph.load import tensors
from onnxq.graph.snippet import Snippet
from onnxq.graph.types import value_info
from onnxq.rewrite import batch
from onnxq.rewrite.oracle import Oracle, Truth, magnitudes
from onnxq.run import ort
from onnxq.run.ort import Feeds

Sessions = dict[bytes, ort.Session]
"""Sessions by their models, whose constants are inputs: the snippets of a form share them."""


class BothSides(Oracle):
    """A snippet of float32 that sums.

    Attributes:
        before: the original's outputs.
        after: the replacement's.
    """

    def __init__(self, snippet: Snippet, sums: onnx.GraphProto, known: Sessions) -> None:
        """Takes a snippet.

        Args:
            snippet: the two sides, which hold no graphs.
            sums: the original's magnitudes, see `onnxq.rewrite.oracle.magnitudes`.
            known: the sessions of its form, which grow.

        Raises:
            RunError: onnxruntime does not take it.
        """
        both = onnx.ModelProto(ir_version=snippet.before.ir_version, opset_import=snippet.before.opset_import)
        both.graph.name = "both"
        self._inputs = {name: f"x{place}" for place, (name, _, _) in enumerate(snippet.inputs)}
        self._weights: dict[str, np.ndarray] = {}
        before, after = {"": "", **self._inputs}, {"": "", **self._inputs}
        for graph, names in ((snippet.before.graph, before), (sums, before), (snippet.after.graph, after)):
            self._add(graph, names, both.graph)
        for name in (*self._inputs.values(), *self._weights):
            both.graph.input.append(value_info(name, np.dtype(np.float32), None))
        key = both.SerializeToString(deterministic=True)
        if key not in known:
            known[key] = ort.load(both, optimize=False, threads=1)
        self._both = known[key]
        self._feeds: Feeds | None = None
        self._outputs: list[Any] = []
        count = len(snippet.before.graph.output)
        self.before, self.after = Side(self, 0, count), Side(self, 2 * count, 3 * count)
        self._describe(snippet.before, summed=True)

    @classmethod
    def of(cls, snippet: Snippet, known: Sessions) -> BothSides | None:
        """The two sides; None where they are of another type, do more than sums, or do not load."""
        kinds = {t.data_type for side in (snippet.before, snippet.after) for t in tensors(side.graph)}
        if kinds != {onnx.TensorProto.FLOAT} or any(dtype != np.float32 for _, dtype, _ in snippet.inputs):
            return None
        sums = magnitudes(snippet.before.graph)
        try:
            return None if sums is None else cls(snippet, sums, known)
        except ort.RunError:
            return None

    def _add(self, graph: onnx.GraphProto, names: dict[str, str], to: onnx.GraphProto) -> None:
        """Adds a graph to another one, its weights as inputs; all names are the same for all of a form."""
        for tensor in graph.initializer:
            names[tensor.name] = f"w{len(self._weights)}"
            self._weights[names[tensor.name]] = numpy_helper.to_array(tensor)
        for node in graph.node:
            added = to.node.add()
            added.CopyFrom(node)
            added.ClearField("name")
            added.ClearField("doc_string")
            for name in node.output:
                names.setdefault(name, f"y{len(to.node)}.{len(names)}")
            added.input[:] = [names[name] for name in node.input]
            added.output[:] = [names[name] for name in node.output]
        to.output.extend(onnx.ValueInfoProto(name=names[info.name]) for info in graph.output)

    def outputs(self, feeds: Feeds) -> list[Any]:
        """Those of the original, their magnitudes, those of the replacement; run once for the same inputs."""
        if feeds is not self._feeds:
            given = {self._inputs[name]: array for name, array in feeds.items()}
            self._outputs = self._both.run({**given, **self._weights})
            self._feeds = feeds
        return self._outputs

    def run(self, samples: Sequence[Feeds]) -> list[list[Truth | None]]:
        """The original's outputs for the samples that it ran on last, as the truth."""
        count = 2 * len(self._outputs) // 3
        told = [array.astype(np.float64) for array in self._outputs[:count]]
        for sums in told[count // 2 :]:  # where a magnitude overflows nothing is excused
            sums[~np.isfinite(sums)] = 0.0
        return [self._truths(*one) for one in zip(samples, batch.cut(told, samples), strict=True)]


@dataclass(frozen=True, slots=True)
class Side:
    """One side of a snippet: some of the outputs of both."""

    both: BothSides
    start: int
    end: int

    def run(self, feeds: Feeds, *, seconds: float | None = None) -> list[Any]:
        """The outputs for these inputs."""
        return self.both.outputs(feeds)[self.start : self.end]
