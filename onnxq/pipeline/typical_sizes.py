"""Sizes of layers that inference leaves open, as they are in a sample: behind a Loop, a NonZero and such."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from onnxq.base.errors import UserError
from onnxq.calib.shapes import shapes_of
from onnxq.data.samples import Sample
from onnxq.graph.layers import layer_of, multiplies, other_macs
from onnxq.graph.types import Shape
from onnxq.graph.view import Node
from onnxq.pipeline.building import FloatModel
from onnxq.pipeline.job import Job
from onnxq.run import ort


def measure_open_sizes(
    job: Job, floats: FloatModel, sample: Sample, each: Sequence[Sample | None] = ()
) -> None:
    """Completes the model's typical shapes for layers of which a size is not known, by one run.

    A sample that does not run leaves them open: calibration says so, or skips it.

    Args:
        job: of the model.
        floats: the model, whose typical shapes are those that inference finds.
        sample: the sample that they are typical of.
        each: the samples that its workloads are typical of, in their order.
    """
    model, reference = floats.model, floats.reference
    made = floats.computed
    layers = [node for node in model.nodes if multiplies(node) and _is_open(node)]
    read = [
        tensor for node in layers for tensor in (*node.operands(2), node.outputs[0]) if tensor is not None
    ]
    names = list(dict.fromkeys(t.name for t in read if t.name in made and not t.is_constant))
    if not names:
        return

    def completed(known: Mapping[str, Shape], own: Sample | None) -> dict[str, Shape]:
        try:
            fed = list(job.feeds([own])) if own is not None else []
            by_sample = [shapes_of(reference, names, one, known, model.data_dir) for one in fed]
        except (UserError, ort.RunError):
            return dict(known)
        # where the sample has nothing (a detection, say), it tells nothing of others
        measured = {name: shape for one in by_sample for name, shape in one.items() if 0 not in shape}
        return {**known, **measured}

    model.typical_shapes = completed(model.typical_shapes, sample)
    model.workloads = tuple(
        replace(one, shapes=completed(one.shapes, own))
        for one, own in zip(model.workloads, each if model.workloads else (), strict=True)
    )


def _is_open(node: Node) -> bool:
    layer = layer_of(node, quantized=True)
    return (other_macs(node) if layer is None else layer.macs) is None
