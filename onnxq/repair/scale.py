"""Scale: one channel that is far larger than the others takes the codes of all of them.

    before    x = Relu(Conv(y, W, b))                           z = Conv(x, V, d)
    after     x / 2^k = Relu(Conv(y, W / 2^k, b / 2^k))         z = Conv(x / 2^k, V 2^k, d)

with a k for each channel. Positively homogeneous operators hand powers of two on without rounding, so that
the outputs are the same bits, but where a float underflows; constants that would do so are refused.

The columns of V that belong to large channels grow, and the steps of its weights with them. So a channel
comes down no further than to the rest, and only where a simple model of the noise promises a gain:

    J = Σ_o [T² Σ_c V_oc² + max_c(V_oc)² Σ_c (r a_c)²]

T is the range of the tensor, a_c the magnitude of a channel, and r the part of it that a value usually is.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np

from onnxq.base.plain import DocumentPart
from onnxq.graph.channels import along
from onnxq.graph.layers import layer_of
from onnxq.graph.model import Model
from onnxq.graph.moves import MOVES, REARRANGES
from onnxq.graph.view import Node, Tensor
from onnxq.quant.draft.draft import Draft
from onnxq.quant.draft.edits import ChannelMap
from onnxq.quant.plan import QuantPlan
from onnxq.repair.flow import Flow
from onnxq.repair.found_edits import FoundEdits, NoFit, applied
from onnxq.repair.statistics import Channels, channel_axis

_USUAL = 0.25
"""The part of a channel's greatest magnitude that its values usually have."""

_GAP = 4.0
"""So many times larger than the rest is what stands out."""

_GAIN = 1.4
"""So many times less noise (1.5 dB) an edit has to promise."""

_HALF = (2.0**-14, 65504.0)
"""The least normal number of half precision, and the greatest."""


@dataclass(frozen=True, slots=True)
class Scale(DocumentPart):
    """Multiplies channels of a tensor.

    Attributes:
        tensor: the tensor.
        axis: its channel axis.
        factors: of each channel, positive.
        ratios: by what the ranges of measured tensors are multiplied.
        kind: `scale` where the factors are powers of two, else `smooth`.
    """

    tensor: str
    axis: int = field(metadata={"least": 0})
    factors: tuple[float, ...]
    ratios: Mapping[str, float]
    kind: str = "scale"

    def __post_init__(self) -> None:
        """Refuses what turns a sign around.

        Raises:
            ValueError: a factor is not positive.
        """
        if not all(0 < value < np.inf for value in (*self.factors, *self.ratios.values())):
            raise ValueError("factors are positive")

    def ranges(self, amax: Mapping[str, float]) -> dict[str, float]:
        """The ranges times their ratios."""
        return {name: amax[name] * ratio for name, ratio in self.ratios.items() if name in amax}

    def maps(self, model: Model) -> dict[str, ChannelMap]:
        """The tensor, and all that it shares channels with on the way."""
        with applied(f"channels of {self.tensor!r}", "scaled"):
            return self._flow(model).maps()

    def apply(self, model: Model) -> None:
        """Changes weights, biases, gammas and factors.

        Raises:
            UserError: the model is another one.
        """
        with applied(f"channels of {self.tensor!r}", "scaled"):
            self._flow(model).writer.commit()

    def _flow(self, model: Model) -> Flow:
        tensor, flow = model.tensor(self.tensor), Flow(model, linear=self.kind == "smooth")
        flow.scale(*spread(tensor, self.axis, np.array(self.factors)))
        return flow


def spread(tensor: Tensor, axis: int, factors: np.ndarray) -> tuple[Tensor, np.ndarray]:
    """A tensor, and factors of its channels as an array of its rank.

    Raises:
        NoFit: its shape is another one.
    """
    if tensor.rank is None or tensor.shape is None:
        raise NoFit("unknown-shape", tensor=tensor.name)
    if tensor.rank <= axis:
        raise NoFit("no-axis.tensor", tensor=tensor.name, axis=axis)
    if tensor.shape[axis] != len(factors):
        raise NoFit("other-channels", tensor=tensor.name)
    return tensor, along(factors, axis, tensor.rank)


def find(model: Model, draft: Draft, channels: Channels, ratio: float = 8.0) -> FoundEdits:
    """The scales that promise less noise: of tensors of which some channels are far larger than others.

    Args:
        model: with the draft's edits.
        draft: the plan, and the ranges after the edits.
        channels: the magnitudes of channels after the edits.
        ratio: by so much the range of a tensor has to fall at least.
    """
    edits: list[Scale] = []
    skipped: dict[str, str] = {}
    taken: set[str] = set()
    for tensor, amax, axis in read_by_layers(model, draft.plan, channels):
        name = tensor.name
        steps = _steps(tensor, amax, ratio)
        if not steps or name in taken:
            continue
        best, why = None, ""
        for powers in steps:
            try:
                candidate = _tried(tensor, axis, powers, draft, channels, ratio)
            except NoFit as error:
                why = why or error.why
                continue
            if (
                candidate is not None
                and (best is None or candidate[0] < best[0])
                and taken.isdisjoint(candidate[2])
            ):
                best = candidate
        if best is not None:
            edits.append(best[1])
            taken |= best[2]
        elif why:
            skipped[name] = why
    return FoundEdits(tuple(edits), skipped)


def read_by_layers(
    model: Model, plan: QuantPlan, channels: Channels
) -> Iterator[tuple[Tensor, np.ndarray, int]]:
    """The quantized tensors that layers read, the magnitudes of their channels, and the channel axis."""
    tensors = model.tensors()
    for site in plan.sites:
        if site.kind != "activation" or site.tensor not in tensors or site.tensor not in channels:
            continue
        tensor = tensors[site.tensor]
        axis = channel_axis(tensor)
        if axis is not None and readers(tensor):
            yield tensor, np.asarray(channels[site.tensor], np.float64), axis


def readers(tensor: Tensor) -> list[Node]:
    """The layers with constant weights that read a tensor."""
    reading = []
    for node in tensor.users:
        layer = layer_of(node)
        if layer is not None and layer.index == 1 and node.inputs[0] == tensor:
            reading.append(node)
    return reading


def ratios(flow: Flow, draft: Draft, channels: Channels) -> dict[str, float]:
    """By what a flow multiplies the ranges of measured tensors.

    What did not saturate does not do so afterwards, and a channel that did does as before.
    """
    model, by_name = flow.writer.model, {}
    tensors = model.tensors()
    for name in draft.plan.measured:
        factor = flow.factors.get(name)
        if factor is None or name not in draft.amax:
            continue
        told = _told(tensors[name], flow, channels)
        if told is None or draft.amax[name] <= 0:
            by_name[name] = float(np.max(factor))
        else:
            kept = np.minimum(told[0], draft.amax[name])
            by_name[name] = float(np.max(kept * told[1]) / np.max(kept))
    return by_name


def _told(tensor: Tensor, flow: Flow, channels: Channels) -> tuple[np.ndarray, np.ndarray] | None:
    """Magnitudes and factors of the channels of a tensor, or of what it is in another shape."""
    while True:
        amax, factor = channels.get(tensor.name), flow.factors.get(tensor.name)
        if amax is not None and factor is not None and factor.size == len(amax) and np.any(amax):
            return amax, factor.reshape(-1)
        moved = [node for node in tensor.users if node.op in REARRANGES and not node.domain]
        if not moved:
            return None
        tensor = moved[0].outputs[0]


def _steps(tensor: Tensor, amax: np.ndarray, ratio: float) -> list[np.ndarray]:
    """Powers of two that bring what is far larger down to the largest of the rest: channels, or branches.

    Only what a gap sets apart: a channel may be larger in samples that nobody has seen, and the less room
    there is between channels, the sooner it saturates. And the few, of channels, not the many.
    """
    distinct: dict[bytes, np.ndarray] = {}
    for sizes in (amax, _branches(tensor, amax)):
        if sizes is None:
            continue
        levels = np.unique(sizes[sizes > 0])
        for rest, above in itertools.pairwise(levels):
            if sizes is amax and 2 * np.sum(amax > rest) > np.sum(amax > 0):
                continue
            if above >= _GAP * rest and levels[-1] >= ratio * rest:
                powers = 2.0 ** -np.ceil(np.log2(np.maximum(sizes / rest, 1)))
                distinct[powers.tobytes()] = powers
    return list(distinct.values())


def _branches(tensor: Tensor, amax: np.ndarray) -> np.ndarray | None:
    """The magnitude of the branch of a Concat that each channel belongs to; None where there is none."""
    maker = tensor.producer
    while maker is not None and maker.op in MOVES and maker.op != "Split" and not maker.domain:
        first = maker.inputs[0]
        maker = None if first is None else first.producer
    if maker is None or maker.op != "Concat" or any(t is None or t.shape is None for t in maker.inputs):
        return None
    rank = maker.outputs[0].rank or 1
    axis = int(maker.attr("axis")) % rank
    sizes = [t.shape[axis] for t in maker.inputs if t is not None and t.shape is not None]
    widths = [size for size in sizes if isinstance(size, int)]
    if len(widths) != len(sizes) or sum(widths) != len(amax):
        return None
    parts = np.split(amax, np.cumsum(widths)[:-1])
    return np.concatenate([np.full(len(part), part.max(initial=0)) for part in parts])


def _tried(
    tensor: Tensor, axis: int, powers: np.ndarray, draft: Draft, channels: Channels, ratio: float
) -> tuple[float, Scale, set[str]] | None:
    """The noise that is left with these powers, of what is there without them; None where they gain nothing.

    Raises:
        NoFit: they do not fit.
    """
    flow = Flow(tensor.model)  # type: ignore[arg-type]
    old, new = _noise(tensor, np.asarray(channels[tensor.name], np.float64), powers)
    flow.scale(*spread(tensor, axis, powers))
    changed = ratios(flow, draft, channels)
    (group,) = (g for g in draft.plan.groups if tensor.name in g.tensors)
    before = max(draft.amax[name] for name in group.sources)
    after = max(draft.amax[name] * changed.get(name, 1.0) for name in group.sources)
    if after * ratio > before or new * _GAIN > old:
        return None
    flow.writer.check(exact=True)
    check_half(flow, channels)
    return new / old, Scale(tensor.name, axis, tuple(powers.tolist()), changed), set(flow.factors)


def _noise(tensor: Tensor, amax: np.ndarray, powers: np.ndarray) -> tuple[float, float]:
    """What the model predicts of the layers that read a tensor: before, and after."""
    before = after = 0.0
    for node in readers(tensor):
        columns = column_magnitudes(node, len(amax))
        if columns is None:
            continue
        for total, factor in ((0, np.ones(len(amax))), (1, powers)):
            scaled = columns / factor
            top = np.max(amax * factor)
            values = np.sum((_USUAL * amax * factor) ** 2)
            noise = float(top**2 * np.sum(scaled**2) + np.sum(scaled.max(1) ** 2) * values)
            before, after = (before + noise, after) if total == 0 else (before, after + noise)
    return before, after


def column_magnitudes(node: Node, channels: int, *, largest: bool = False) -> np.ndarray | None:
    """How large the weights of each output and input channel are, float64 [outputs, inputs].

    Args:
        node: a layer.
        channels: of its input.
        largest: the greatest magnitude; else the root of the sum of squares.

    Returns:
        Zero where a convolution in groups has no weights; None where the layer has other channels.
    """
    layer = layer_of(node)
    if layer is None or layer.weight.constant is None:
        return None
    weights = np.asarray(layer.weight.constant, np.float64)
    if node.op == "ConvTranspose":
        weights = np.swapaxes(weights, 0, 1)
    elif node.op in ("Gemm", "MatMul") and layer.axis == 1:
        weights = weights.T
    if weights.ndim < 2:
        return None
    others = tuple(range(2, weights.ndim))
    magnitudes = np.max(np.abs(weights), others) if largest else np.sqrt(np.sum(weights**2, others))
    if layer.groups > 1:
        wide = np.zeros((layer.outputs, layer.inputs))
        per = layer.inputs // layer.groups
        rows = layer.outputs // layer.groups
        for group in range(layer.groups):
            part = magnitudes[group * rows : (group + 1) * rows]
            if part.shape != (rows, per):
                return None
            wide[group * rows : (group + 1) * rows, group * per : (group + 1) * per] = part
        magnitudes = wide
    return magnitudes if magnitudes.shape[1] == channels else None


def check_half(flow: Flow, channels: Channels) -> None:
    """Looks whether what half precision holds stays so: channels of tensors, and the largest of constants.

    Raises:
        NoFit: something does not.
    """
    low, high = _HALF
    for node, index, values in flow.writer.given:
        old = node.operands(index + 1)[index]
        was = 0.0 if old is None or old.constant is None else float(np.max(np.abs(old.constant), initial=0))
        top = float(np.max(np.abs(values), initial=0))
        if low <= was <= high and not low <= top <= high:
            raise NoFit("half-range", node=node.name)
    for name, factor in flow.factors.items():
        amax, along = channels.get(name), factor.reshape(-1)
        if amax is None or len(along) not in (1, len(amax)):
            continue
        inside = (amax >= low) & (amax <= high)
        after = amax * along
        if np.any(inside & ((after < low) | (after > high))):
            raise NoFit("half-range.channels", tensor=name)
