"""The nodes of a stage between matched tensors, and the layer among them as an affine map of its input."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np
import onnx

from onnxq.analysis.parts import Part, PartRunner, bare_model
from onnxq.analysis.stages import THROUGH, Stage
from onnxq.formats import format_of
from onnxq.graph.layers import WEIGHTED
from onnxq.graph.order import reads
from onnxq.graph.pairs import PLACED, QDQ, Pair
from onnxq.run.ort import RunError


@dataclass(frozen=True, slots=True)
class Segment:
    """What computes a matched tensor of those before it.

    Attributes:
        tensor: the tensor.
        nodes: in the order of the model; those that compute constants are left out.
        reads: the matched tensors and inputs that they read.
        layer: the one node among them that multiplies by constant weights; None: there is none, or several.
    """

    tensor: str
    nodes: tuple[onnx.NodeProto, ...]
    reads: tuple[str, ...]
    layer: onnx.NodeProto | None


def segment_of(stage: Stage, tensor: str, matched: Collection[str]) -> Segment:
    """The segment of a tensor."""
    inside: dict[str, onnx.NodeProto] = {}
    ends: dict[str, None] = {}
    todo = [tensor]
    while todo:
        name = todo.pop()
        node = stage.maker.get(name)
        if node is None or (name != tensor and name in matched):
            ends[name] = None
        elif node.name not in inside:
            inside[node.name] = node
            todo += [one for one in reads(node) if one not in stage.fixed]
    nodes = [inside[name] for name in sorted(inside, key=stage.places.__getitem__)]
    layers = [node for node in nodes if weight_place(stage, node) is not None]
    return Segment(tensor, tuple(nodes), tuple(ends), layers[0] if len(layers) == 1 else None)


def weight_place(stage: Stage, node: onnx.NodeProto) -> int | None:
    """Which input of a node holds the constant weights of a layer; None where it is no such layer."""
    if node.op_type not in WEIGHTED or node.domain or len(node.input) < 2:
        return None
    fixed = [name in stage.fixed for name in node.input[:2]]
    return None if fixed[0] == fixed[1] else int(fixed[1])


_FAR, _FAR_HALF = 2.0**20, 2.0**6


@dataclass(frozen=True, slots=True)
class Affine:
    """A layer and what follows it in its segment, as one product: gain * (W x + bias) + offset.

    Attributes:
        weights: float64 [outputs, inputs, ...], the gain of what follows in them.
        bias: float64 [outputs], of all together.
        step: float64 [outputs or 1, inputs or 1, ...], the step that weights are rounded to, likewise; None
            where they are not quantized.
        codes: the codes of the weights at the ends of their range, bool like weights; None likewise.
    """

    weights: np.ndarray
    bias: np.ndarray
    step: np.ndarray | None
    codes: np.ndarray | None


def affine_of(stage: Stage, segment: Segment) -> Affine | None:
    """A segment's layer as a product; None where it is none that can be told."""
    node = segment.layer
    if node is None or node.op_type == "ConvTranspose":
        return None
    place = weight_place(stage, node)
    assert place is not None
    parts = values_of(
        stage, [name for name in (node.input[place], _bias(node)) if name in stage.fixed and name]
    )
    if parts is None or (_bias(node) and _bias(node) not in parts):
        return None
    weights = np.array(parts.pop(node.input[place]), np.float64)
    flip = _flips(node, place, weights.ndim)
    if flip is None or not np.isfinite(weights).all():
        return None
    outputs = (weights.T if flip else weights).shape[0]
    bias = np.asarray(parts.get(_bias(node), np.zeros(1)), np.float64).reshape(-1)
    if bias.size not in (1, outputs):
        return None
    tail = _tail(stage, segment, node, outputs, weights.ndim)
    if tail is None:
        return None
    gain, offset = tail
    pair = stage.pairs.behind(node.input[place], PLACED)
    step, ends = None, None
    if pair is not None:
        steps = _steps(stage, pair, weights)
        if steps is None:
            return None
        step, ends = steps
    if flip:
        weights = weights.T
        step, ends = (None if s is None else s.T for s in (step, ends))
    spread = gain.reshape(-1, *[1] * (weights.ndim - 1))
    weights *= spread  # in place: large weights would be in memory once more
    return Affine(
        weights,
        gain * np.broadcast_to(bias, outputs) + offset,
        None if step is None else step * np.abs(spread),
        ends,
    )


def _bias(node: onnx.NodeProto) -> str:
    return node.input[2] if node.op_type in ("Conv", "Gemm") and len(node.input) > 2 else ""


def _flips(node: onnx.NodeProto, place: int, rank: int) -> bool | None:
    """Whether the weights' outputs are their second axis; None for a form that is not looked at."""
    attributes = {a.name: a for a in node.attribute}
    if node.op_type == "Conv":
        return False
    if rank != 2:
        return None
    if node.op_type == "MatMul":
        return place == 1
    plain = all(attributes[k].f == 1.0 for k in ("alpha", "beta") if k in attributes)
    if place != 1 or not plain:
        return None
    return not ("transB" in attributes and attributes["transB"].i)


def values_of(stage: Stage, names: Collection[str]) -> dict[str, np.ndarray] | None:
    """The values of tensors that depend on no input; of half precision as float32."""
    values = {name: stage.constant(name) for name in names if name in stage.constants}
    rest = [name for name in names if name not in values]
    if not rest:
        return values
    model = bare_model(stage, (), rest)
    for name in rest:
        if name not in stage.infos:
            return None
        model.graph.output.add(name=name).type.CopyFrom(stage.infos[name].type)
    try:
        computed, _ = PartRunner(stage, Part(model, (), (), ()), 1).run({}, {})
    except RunError:
        return None
    return {**values, **computed}


def _tail(
    stage: Stage, segment: Segment, node: onnx.NodeProto, outputs: int, rank: int
) -> tuple[np.ndarray, np.ndarray] | None:
    """What follows the layer, as a gain and an offset of each channel: measured on 0, and far from it."""
    start = node.output[0]
    if start == segment.tensor:
        return np.ones(outputs), np.zeros(outputs)
    behind = {start}
    nodes = []
    for other in segment.nodes:
        if behind.intersection(reads(other)):
            if any(name not in behind and name not in stage.fixed for name in reads(other)):
                return None
            nodes.append(other)
            behind.update(other.output)
    if all(other.op_type in THROUGH for other in nodes):
        return np.ones(outputs), np.zeros(outputs)
    if any(other.op_type in QDQ for other in nodes):
        return None
    if segment.tensor not in stage.infos or start not in stage.infos:
        return None
    model = bare_model(stage, nodes)
    for name, entries in ((start, model.graph.input), (segment.tensor, model.graph.output)):
        info = entries.add(name=name)
        info.type.CopyFrom(stage.infos[name].type)
        info.type.tensor_type.ClearField("shape")
    shape = (1, outputs, *[1] * (rank - 2)) if node.op_type == "Conv" else (1, outputs)
    far = _FAR_HALF if stage.half else _FAR  # a gain next to a great offset would be lost in its rounding
    try:
        runner = PartRunner(stage, Part(model, (start,), (), ()), 1)
        results = [
            np.asarray(runner.run({start: np.full(shape, x, np.float32)}, {})[0][segment.tensor], np.float64)
            for x in (0.0, far, -far)
        ]
    except RunError:
        return None
    if any(array.size != outputs or not np.isfinite(array).all() for array in results):
        return None
    zero, above, below = (array.reshape(-1) for array in results)
    if (np.abs(above + below - 2 * zero) > 1e-3 * np.maximum(np.abs(above), np.abs(below))).any():
        return None
    return (above - below) / (2 * far), zero


def _steps(stage: Stage, pair: Pair, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
    """The step of each weight, and which are at an end of their codes; None where that is not told."""
    if pair.codes is None or pair.scale is None:
        return None
    stored = values_of(stage, [pair.codes.name, pair.scale.name])
    if stored is None:
        return None
    codes, scale = stored[pair.codes.name], np.asarray(stored[pair.scale.name], np.float64)
    if codes.shape != weights.shape or codes.dtype.kind not in "iu" or pair.block:
        return None
    step = pair.spread(scale, codes.shape)
    if step is None:
        return None
    low, high = format_of(codes.dtype).ends
    return step, (codes <= low + 1) | (codes >= high)
