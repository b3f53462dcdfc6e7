"""Both sides of a snippet in one session, which says as well how large the terms are that it sums.

A replacement may be off from double precision by several times what the original is, and by what rounding
explains (`onnxq.rewrite.oracle.room`). So one that is no further from the original than rounding explains is
right, whatever double precision gives. Of one that is further off nothing is said.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx

from onnxq.graph.load import tensors
from onnxq.graph.snippet import Snippet
from onnxq.rewrite import batch
from onnxq.rewrite.oracle import Oracle, Truth, magnitudes
from onnxq.run import ort
from onnxq.run.ort import Feeds

_AFTER = "after:"


class Together(Oracle):
    """A snippet of float32 that sums.

    Attributes:
        before: the original's outputs.
        after: the replacement's.
    """

    def __init__(self, snippet: Snippet, sums: onnx.GraphProto) -> None:
        """Takes a snippet.

        Args:
            snippet: the two sides.
            sums: the original's magnitudes, see `onnxq.rewrite.oracle.magnitudes`.

        Raises:
            RunError: onnxruntime does not take it.
        """
        both = onnx.ModelProto()
        both.CopyFrom(snippet.before)
        both.graph.MergeFrom(sums)
        _add(snippet.after.graph, both.graph, {name for name, _, _ in snippet.inputs} | {""})
        self._both = ort.load(both, optimize=False, threads=1)
        self._feeds: Feeds | None = None
        self._outputs: list[Any] = []
        count = len(snippet.before.graph.output)
        self.before, self.after = Side(self, 0, count), Side(self, 2 * count, 3 * count)
        self._describe(snippet.before, summed=True)

    @classmethod
    def of(cls, snippet: Snippet) -> Together | None:
        """The two sides; None where they are of another type, do more than sums, or do not load."""
        kinds = {t.data_type for side in (snippet.before, snippet.after) for t in tensors(side.graph)}
        if kinds != {onnx.TensorProto.FLOAT} or any(dtype != np.float32 for _, dtype, _ in snippet.inputs):
            return None
        sums = magnitudes(snippet.before.graph)
        try:
            return None if sums is None else cls(snippet, sums)
        except ort.RunError:
            return None

    def outputs(self, feeds: Feeds) -> list[Any]:
        """Those of the original, their magnitudes, those of the replacement; run once for the same inputs."""
        if feeds is not self._feeds:
            self._outputs = self._both.run(feeds)
            self._feeds = feeds
        return self._outputs

    def run(self, samples: Sequence[Mapping[str, np.ndarray]]) -> list[list[Truth | None]]:
        """The original's outputs for the samples that it ran on last, as the truth."""
        count = 2 * len(self._outputs) // 3
        told = [array.astype(np.float64) for array in self._outputs[:count]]
        for sums in told[count // 2 :]:  # where a magnitude overflows nothing is excused
            sums[~np.isfinite(sums)] = 0.0
        return [self._truths(*one) for one in zip(samples, batch.cut(told, samples), strict=True)]


@dataclass(frozen=True, slots=True)
class Side:
    """One side of a snippet: some of the outputs of both."""

    both: Together
    start: int
    end: int

    def run(self, feeds: Feeds, *, seconds: float | None = None) -> list[Any]:
        """The outputs for these inputs."""
        return self.both.outputs(feeds)[self.start : self.end]


def _add(graph: onnx.GraphProto, to: onnx.GraphProto, shared: set[str]) -> None:
    """Adds a graph to another one under names of its own, but for those that both share."""

    def renamed(name: str) -> str:
        return name if name in shared else _AFTER + name

    for tensor in graph.initializer:
        to.initializer.add().CopyFrom(tensor)
        to.initializer[-1].name = renamed(tensor.name)
    for node in graph.node:
        to.node.add().CopyFrom(node)
        added = to.node[-1]
        added.name = ""
        added.input[:], added.output[:] = map(renamed, node.input), map(renamed, node.output)
    to.output.extend(onnx.ValueInfoProto(name=renamed(info.name)) for info in graph.output)
