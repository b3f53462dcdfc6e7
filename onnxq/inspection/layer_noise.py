"""What the noise model gives each layer: how far the outputs are off by its quantization alone."""

from __future__ import annotations

import numpy as np

from onnxq.base.progress import Observer
from onnxq.data.sources import DataSource
from onnxq.graph.load import ModelSource
from onnxq.judge.sqnr import limited_db
from onnxq.options.settings import Feeding, ImageOptions
from onnxq.pipeline.accuracy import Asked
from onnxq.pipeline.jobs import accuracy

SAMPLES = 16
"""How many samples measure it at most."""


def predicted_db(
    original: ModelSource,
    data: DataSource,
    feeding: Feeding,
    images: ImageOptions | None,
    observe: Observer | None,
) -> dict[str, float]:
    """The SQNR about the mean of the outputs with the noise of one layer, dB, by the layer's node.

    Raises:
        UserError: nothing is quantized, or the data or the model cannot be used.
    """
    asked = Asked(samples=SAMPLES)
    with accuracy(
        original, data, asked, feeding=feeding, images=images, observe=observe, repair="none"
    ) as measured:
        model = measured.model
    entries = model.sources.entries
    nodes = dict.fromkeys(edge.node for entry in entries for edge in entry.edges)
    on = np.array([[any(e.node == node for e in entry.edges) for entry in entries] for node in nodes], bool)
    noises = model.noises(model.sources.closed(on))
    return {node: limited_db(float(noise)) for node, noise in zip(nodes, noises, strict=True)}
