"""Lattice: an input that is made of 8-bit pixels has 256 values, and int8 a code for each.

    before    z = Conv(x, W, b)
    after     z = Conv((x - c) * k, W / k, b + c ΣW)

Whatever normalized the pixels, what a channel holds is c + s * code, with a code -128..127; k makes the steps
s of the channels equal. With the scale s the quantized input has no error at all. Where all steps are equal
there is no Mul; where zero is a level, and all others are at most 128 steps away, no Add.

What a convolution pads with is zero before it is moved, and so a Pad in front of the Add pads.

It is found from the samples: from a graph's inputs, and from what is only moved, normalized or cast of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np
import onnx

from onnxq.base.plain import DocumentPart
from onnxq.base.reason import reason
from onnxq.formats import INT8
from onnxq.graph.layers import layer_of
from onnxq.graph.model import Model
from onnxq.graph.moves import MOVES
from onnxq.graph.types import Shape, is_float
from onnxq.graph.view import Node, Tensor
from onnxq.graph.wiring import new_tensor, replace_input
from onnxq.quant.draft.draft import Draft
from onnxq.quant.draft.edits import ChannelMap
from onnxq.quant.plan import QuantPlan, Site
from onnxq.repair.found_edits import FoundEdits, NoFit, applied
from onnxq.repair.offset import by_column, pads, restore
from onnxq.repair.statistics import channel_axis
from onnxq.repair.windows import Windows
from onnxq.repair.writer import Writer

_NORMALIZES = ("Cast", "Add", "Sub", "Mul", "Div", "Concat", *MOVES)
_MOST = 24  # nodes between inputs and a tensor
_CHANNELS = 16  # images have few: with more, one lattice for all is sought alone


@dataclass(frozen=True, slots=True)
class Lattice(DocumentPart):
    """Gives int8 layers an input of which each value is a code.

    Attributes:
        tensor: the tensor.
        step: its scale, from now on.
        centres: what is subtracted: nothing, one number or one a channel.
        factors: what the difference is multiplied with: likewise.
        axis: the channel axis.
        readers: the nodes that read it so; others read it as it was.
        kind: `lattice`.
    """

    tensor: str
    step: float
    centres: tuple[float, ...]
    factors: tuple[float, ...]
    axis: int = field(metadata={"least": 0})
    readers: tuple[str, ...]
    kind: str = "lattice"

    def __post_init__(self) -> None:
        """Refuses what makes no code of a value.

        Raises:
            ValueError: a number is none that it can be.
        """
        if not 0 < self.step < np.inf or not all(0 < one < np.inf for one in self.factors):
            raise ValueError("steps and factors are positive")
        if not np.isfinite(self.centres).all():
            raise ValueError("centres are finite")
        if not self.readers:
            raise ValueError("nothing reads it")

    def ranges(self, amax: Mapping[str, float]) -> dict[str, float]:
        """That of 127 steps, of what the layers read."""
        return {self.tensor: INT8.greatest * self.step} if self.tensor in amax else {}

    def maps(self, model: Model) -> dict[str, ChannelMap]:
        """The tensor itself stays; what it is moved to is as its readers have it."""
        with applied(repr(self.tensor), "read as codes"):
            return self._fit(model).maps

    def apply(self, model: Model) -> None:
        """Changes weights and biases, and puts nodes between the tensor and its readers.

        Raises:
            UserError: the model is another one.
        """
        with applied(repr(self.tensor), "read as codes"):
            fit = self._fit(model)
            fit.writer.commit()
        fit.insert()

    def _fit(self, model: Model) -> _Readers:
        return _Readers(model.tensor(self.tensor), self)


def find(model: Model, draft: Draft, values: Callable[[str], Iterable[np.ndarray]]) -> FoundEdits:
    """The inputs of int8 layers whose values lie on a lattice.

    Args:
        model: with the draft's edits.
        draft: the plan, and the ranges after the edits.
        values: what a tensor of the model holds, sample by sample; asked only for inputs, and for what a
            few nodes make of them.
    """
    edits: list[Lattice] = []
    skipped: dict[str, str] = {}
    for site, tensor in near_inputs(model, draft):
        try:
            edit = _lattice(tensor, site, draft, values)
            _Readers(tensor, edit).writer.check()
        except NoFit as error:
            skipped[site.tensor] = error.why
        else:
            edits.append(edit)
    if not edits and not skipped:
        floats = [one.name for one in model.inputs if is_float(one.dtype)]
        skipped.update(dict.fromkeys(floats, reason("no-reader")))
    return FoundEdits(tuple(edits), skipped)


def near_inputs(model: Model, draft: Draft) -> list[tuple[Site, Tensor]]:
    """The pairs of inputs, or of what a few nodes make of them, that int8 layers read.

    Args:
        model: with the draft's edits.
        draft: its plan and ranges.
    """
    tensors = model.tensors()
    near = []
    for site in draft.plan.sites:
        if site.kind == "activation" and site.tensor in tensors and site.tensor in draft.amax:
            tensor = tensors[site.tensor]
            if _is_near(tensor):
                near.append((site, tensor))
    return near


def there(model: Model, draft: Draft) -> bool:
    """Whether there are such whose readers can have other codes, whatever their values are."""
    return any(_fits(tensor, site) for site, tensor in near_inputs(model, draft))


def _fits(tensor: Tensor, site: Site) -> bool:
    try:
        _readers_of(tensor, site)
    except NoFit:
        return False
    return True


def _readers_of(tensor: Tensor, site: Site) -> tuple[str, ...]:
    """The layers that read a tensor.

    Raises:
        NoFit: something reads it that cannot have other codes.
    """
    readers = tuple(dict.fromkeys(edge.node for edge in site.readers))
    _Readers(tensor, Lattice(tensor.name, 1.0, (), (), 0, readers))
    return readers


def _lattice(
    tensor: Tensor, site: Site, draft: Draft, values: Callable[[str], Iterable[np.ndarray]]
) -> Lattice:
    """The edit of a tensor."""
    readers = _readers_of(tensor, site)
    axis = channel_axis(tensor)
    shape = tensor.shape
    count = None if axis is None or shape is None else shape[axis]
    few = isinstance(count, int) and count <= _CHANNELS
    spacing = spacing_of(values(tensor.name), axis if few else None)
    scale = float(draft.scales[site.group])
    if is_exact(spacing, scale):
        raise NoFit("exact-already")
    edit = _edit(tensor, spacing, axis or 0, readers)
    _check_group(draft.plan, site, _Readers(tensor, edit).names)
    return edit


def _edit(tensor: Tensor, spacing: Spacing, axis: int, readers: tuple[str, ...]) -> Lattice:
    assert tensor.dtype is not None
    centres = tuple(map(float, spacing.centres.astype(tensor.dtype))) if spacing.centres.any() else ()
    factors = tuple(map(float, spacing.factors.astype(tensor.dtype))) if (spacing.factors != 1).any() else ()
    return Lattice(tensor.name, float(np.float32(spacing.step)), centres, factors, axis, readers)


def _check_group(plan: QuantPlan, site: Site, names: set[str]) -> None:
    """Looks whether tensors are all that a scale is for."""
    if any(pair.tensor in names for pair in plan.own):
        raise NoFit("own-pair")
    group = next(group for group in plan.groups if group.id == site.group)
    others = [name for name in group.tensors if name not in names]
    if others:
        raise NoFit("shared-scale.tensor", tensor=others[0])
    if any(other.group != site.group for other in plan.sites if other.tensor in names):
        raise NoFit("other-scale")


def _is_near(tensor: Tensor) -> bool:
    """Whether a tensor is an input, or made of inputs and constants by a few nodes that keep levels."""
    todo, seen = [tensor], set[str]()
    inputs = False
    while todo:
        source = todo.pop()
        maker = source.producer
        if source.is_constant or source.name in seen:
            continue
        seen.add(source.name)
        if maker is None:
            inputs = True
            continue
        if maker.domain or maker.op not in _NORMALIZES or len(seen) > _MOST:
            return False
        todo += [read for read in maker.inputs if read is not None]
    return inputs and is_float(tensor.dtype)


class _Readers:
    """What becomes of what reads a tensor.

    Attributes:
        writer: weights and biases.
        maps: what becomes of what the tensor is moved to.
        names: the tensor, and what it is moved to.
    """

    def __init__(self, tensor: Tensor, edit: Lattice) -> None:
        if not is_float(tensor.dtype) or tensor.rank is None:
            raise NoFit("unknown-shape.type", tensor=tensor.name)
        self.writer = Writer(tensor.model)  # type: ignore[arg-type]
        self.maps: dict[str, ChannelMap] = {}
        self.names = {tensor.name}
        self._tensor, self._edit = tensor, edit
        self._padded: list[tuple[Node, tuple[int, ...]]] = []
        self._centres, self._factors = _of(edit.centres), _of(edit.factors)
        self._apart = max(self._centres.size, self._factors.size) > 1
        if self._apart and not 0 <= edit.axis < tensor.rank:
            raise NoFit("no-axis", axis=edit.axis)
        self._nodes = [node for node in tensor.users if node.name in edit.readers]
        if len(self._nodes) != len(edit.readers):
            raise NoFit("other-tensor")
        factor, centre = _spread(self._factors, 1.0), _spread(self._centres, 0.0)
        change = ChannelMap.of(factor, -centre * factor)
        for node in self._nodes:
            self._read(node, tensor, edit.axis, change)
        if self._padded and (len(self._padded) != len(self._nodes) or len({p for _, p in self._padded}) != 1):
            raise NoFit("padding")

    def insert(self) -> None:
        """Puts the nodes between the tensor and its readers."""
        model, tensor, edit = self.writer.model, self._tensor, self._edit
        assert tensor.rank is not None
        assert tensor.dtype is not None
        last, shape, added = tensor.tensor, tensor.shape, []
        amounts = np.array(self._padded[0][1], np.int64) if self._padded else None

        def put(op: str, operands: list[np.ndarray], what: str) -> None:
            nonlocal last
            out = new_tensor(model.unique(f"{tensor.name}_{what}"), tensor.dtype, shape)
            inputs = [last, *(model.new_constant(f"{tensor.name}_{what}_by", one) for one in operands)]
            added.append(model.new_node(op, inputs, [out], name=f"{tensor.name}_{what}"))
            last = out

            def made(typical: Shape) -> dict[str, Shape | None]:
                return {out.name: typical if amounts is None else _wider(typical, amounts)}

            model.derive_typical(tensor.name, made)

        def along(values: np.ndarray) -> np.ndarray:
            wide = values.reshape([-1 if a == edit.axis else 1 for a in range(tensor.rank or 1)])
            return (wide if values.size > 1 else values.reshape(())).astype(tensor.dtype)

        if amounts is not None:
            shape = _wider(shape, amounts)
            put("Pad", [amounts], "padded")
            for node, _ in self._padded:
                _unpad(node)
        if edit.centres:
            put("Sub", [along(self._centres)], "centred")
        if edit.factors:
            put("Mul", [along(self._factors)], "even")
        if not added:
            return
        for node in self._nodes:
            for index, read in enumerate(node.inputs):
                if read == tensor:
                    replace_input(node.node, index, last)
        model.add_nodes(added, self._nodes[0].node)
        model.sort()

    def _read(self, node: Node, tensor: Tensor, axis: int, change: ChannelMap) -> None:
        """Makes a reader read codes: a layer, or what moves the tensor to layers."""
        if sum(one == tensor for one in node.inputs) != 1:
            raise NoFit("reads-it", node=node.name, op=node.op)
        if not node.domain and node.op in MOVES and node.inputs[0] == tensor:
            axis = _moved(node, axis, self._apart)
            for out in node.outputs:
                if out is None or out.is_output or not is_float(out.dtype):
                    raise NoFit("to-output", node=node.name)
                self.names.add(out.name)
                self.maps[out.name] = change
                for user in out.users:
                    self._read(user, out, axis, change)
            return
        self._layer(node, tensor, axis)

    def _layer(self, node: Node, tensor: Tensor, axis: int) -> None:
        layer = layer_of(node)
        if layer is None or node.op == "ConvTranspose" or layer.index != 1 or node.inputs[0] != tensor:
            raise NoFit("reads-it", node=node.name, op=node.op)
        last = (tensor.rank or 0) - 1
        own = last if node.op == "MatMul" else 0 if node.op == "Gemm" and node.attr("transA", 0) else 1
        if self._apart and axis != own:
            raise NoFit("other-axis.along", node=node.name, own=own, axis=axis)
        if self._edit.centres:
            padded = node.op == "Conv" and pads(node)
            if padded:
                self._padded.append((node, self._padding(node, tensor)))
            by = self._centres
            wide = np.broadcast_to(by, layer.inputs) if by.size == 1 else by
            restore(node, tensor, wide.astype(np.float64), self.writer, self.maps, padded=padded)
        if self._edit.factors:
            weights = self.writer.value(node, 1)
            if weights is None:
                raise NoFit("several-matrices", node=node.name)
            factors = np.broadcast_to(self._factors, layer.inputs)
            self.writer.put(node, 1, weights / by_column(layer, np.array(factors)), weight=True)

    def _padding(self, node: Node, tensor: Tensor) -> tuple[int, ...]:
        """What a convolution pads with, as a Pad has it."""
        if tensor != self._tensor:
            raise NoFit("padding.moved", node=node.name)
        kernel = (node.inputs[1].shape or ())[2:] if node.inputs[1] is not None else ()
        sizes = (tensor.shape or ())[2:]
        if node.attr("auto_pad", "NOTSET") != "NOTSET" and not all(isinstance(size, int) for size in sizes):
            raise NoFit("padding.unknown", node=node.name)
        whole = [size if isinstance(size, int) else 0 for size in sizes]
        padding = Windows.of(node, [int(size or 0) for size in kernel]).padding(whole)
        begins, ends = zip(*padding, strict=True)
        if min(*begins, *ends) < 0:
            raise NoFit("padding.crops", node=node.name)
        return (0, 0, *begins, 0, 0, *ends)


def _moved(node: Node, axis: int, apart: bool) -> int:
    """Where a node moves the channel axis; any where channels are alike."""
    if not apart or node.op in ("Identity", "MaxPool"):
        return axis
    if node.op == "Transpose":
        rank = node.inputs[0].rank if node.inputs[0] is not None else None
        return list(node.attr("perm") or reversed(range(rank or 0))).index(axis)
    raise NoFit("lattices", node=node.name, op=node.op)


def _wider(shape: Shape | None, amounts: np.ndarray) -> Shape | None:
    """A shape with what a Pad adds."""
    if shape is None:
        return None
    added = amounts.reshape(2, -1).sum(0)
    return tuple(
        size + int(by) if isinstance(size, int) else size if not by else None
        for size, by in zip(shape, added, strict=True)
    )


def _of(values: tuple[float, ...]) -> np.ndarray:
    return np.array(values, np.float64) if values else np.zeros(0)


def _spread(values: np.ndarray, default: float) -> np.ndarray:
    """One number for all channels, or one for each."""
    return values if values.size > 1 else np.array(values[0] if values.size else default)


def _unpad(node: Node) -> None:
    """Makes a convolution one without padding."""
    attributes = {
        one.name: onnx.helper.get_attribute_value(one)
        for one in node.node.proto.attribute
        if one.name not in ("pads", "auto_pad")
    }
    node.node.proto = onnx.helper.make_node(node.op, [], [], **attributes)


CODES = INT8.ends[1] - INT8.ends[0] + 1
"""So many codes int8 has, -128..127; activations may have the least one, weights have it not."""

_LOOKED = 1 << 18  # values of a sample, about
_MANY = 16 * CODES  # distinct values: rounding makes several of one level
_FEW, _FEW_EACH = 3, 16  # distinct values: fewer lie on a lattice by chance
_NOISE = 2.0**-20  # of the greatest magnitude: the rounding of float32, and of what made the values
_EXACT = 1e-3  # of a step
_EQUAL = 1e-5  # by which steps may differ that are one


@dataclass(frozen=True, slots=True)
class Spacing:
    """`centre + step * code`, a code -128..127.

    Attributes:
        centres: float64, one or one a channel.
        steps: likewise.
        channels: whether there is one a channel.
        ends: the least and the greatest value that were seen.
    """

    centres: np.ndarray
    steps: np.ndarray
    channels: bool
    ends: tuple[float, float]

    @property
    def step(self) -> float:
        """The greatest step."""
        return float(self.steps.max())

    @property
    def factors(self) -> np.ndarray:
        """What makes all steps the greatest one, float64; 1 where they are equal but for rounding."""
        factors: np.ndarray = self.step / self.steps
        return np.ones_like(factors) if (factors < 1 + _EQUAL).all() else factors


def spacing_of(samples: Iterable[np.ndarray], axis: int | None) -> Spacing:
    """The levels that values lie on.

    Args:
        samples: arrays of any shape; they are gone through once.
        axis: the channel axis, along which levels may differ; None: they may not.

    Raises:
        NoFit: the values are on no lattice of at most 256 levels.
    """
    seen = _seen(samples, axis)
    noise = _NOISE * max((float(np.abs(one).max()) for one in seen if len(one)), default=0.0)
    if noise == 0:
        raise NoFit("always-zero")
    try:
        return _found([_clusters(np.unique(np.concatenate(seen)), noise)], noise, _FEW)
    except NoFit:
        if axis is None or len(seen) < 2:
            raise
        return _found([_clusters(one, noise) for one in seen], noise, _FEW_EACH)


def is_exact(spacing: Spacing, scale: float) -> bool:
    """Whether a scale gives each level a code of its own, without an error, as it is."""
    if spacing.channels:
        return False
    codes = np.array([*spacing.ends, spacing.step]) / scale
    least, greatest = codes.min(), codes.max()
    held = least > -CODES / 2 - _EXACT and greatest < CODES / 2 - 1 + _EXACT
    return bool(held and np.abs(codes - np.rint(codes)).max() < _EXACT)


def _seen(samples: Iterable[np.ndarray], axis: int | None) -> list[np.ndarray]:
    """The distinct values of each channel, float64, ascending."""
    seen: list[np.ndarray] = []
    for array in samples:
        values = np.asarray(array)
        if values.size == 0:
            continue
        if axis is None:
            rows = values.reshape(1, -1)
        else:
            rows = np.moveaxis(values, axis, 0).reshape(values.shape[axis], -1)
        if not np.isfinite(rows).all():
            raise NoFit("not-finite")
        seen = seen or [np.empty(0)] * len(rows)
        if len(rows) != len(seen):
            raise NoFit("spacing")
        step = -(-values.size // _LOOKED) | 1  # odd, as sizes of images are even
        for channel, row in enumerate(rows):
            distinct = np.unique(np.append(row[::step], (row.min(), row.max())))
            seen[channel] = np.union1d(seen[channel], distinct.astype(np.float64))
            if len(seen[channel]) > _MANY:
                raise NoFit("many-values", most=CODES)
    if not seen:
        raise NoFit("no-sample")
    return seen


def _clusters(values: np.ndarray, noise: float) -> np.ndarray:
    """Sorted values, those that differ by rounding taken together."""
    if not len(values):
        return values
    starts = np.flatnonzero(np.append(True, np.diff(values) > 2 * noise))
    ends = np.append(starts[1:], len(values)) - 1
    centres: np.ndarray = (values[starts] + values[ends]) / 2
    if len(centres) > CODES:
        raise NoFit("many-values", most=CODES)
    return centres


def _found(points: list[np.ndarray], noise: float, few: int) -> Spacing:
    """The levels of each channel; a channel with one value has the step of the others."""
    steps, lows, spans = np.zeros(len(points)), np.zeros(len(points)), np.zeros(len(points))
    for channel, found in enumerate(points):
        if 1 < len(found) < few or (len(found) < few and len(points) == 1):
            where = f"channel {channel}" if len(points) > 1 else "it"
            raise NoFit("few-values", where=where, count=len(found))
        lows[channel] = found[0] if len(found) else 0.0
        if len(found) > 1:
            steps[channel], lows[channel], spans[channel] = _line(found, noise)
    if not steps.any():
        raise NoFit("few-values.one")
    steps[steps == 0] = steps.max()
    if (steps.max() / steps < 1 + _EQUAL).all():
        steps[:] = np.median(steps)
    centres = [_centre(*one, noise) for one in zip(lows, steps, spans, strict=True)]
    ends = min(float(one[0]) for one in points), max(float(one[-1]) for one in points)
    return Spacing(np.array(centres), steps, len(points) > 1, ends)


def _line(points: np.ndarray, noise: float) -> tuple[float, float, float]:
    """The step of points, the first one, and how many steps away the last one is."""
    gaps = np.diff(points)
    step = float(gaps.min())
    while True:
        count = np.rint(gaps / step)
        if count.sum() >= CODES:
            raise NoFit("not-even.lattice", levels=CODES)
        rest = np.abs(gaps - count * step)
        rest = rest[rest > 2 * noise * (1 + count)]
        if not len(rest):
            break
        step = float(rest.min())
    places = np.append(0.0, np.cumsum(count))
    step, low = map(float, np.polyfit(places, points, 1))
    if np.abs(points - (low + step * places)).max() > noise or noise > _EXACT * step:
        raise NoFit("not-even")
    return step, low, float(places[-1])


def _centre(low: float, step: float, span: float, noise: float) -> float:
    """The level that code 0 is for: zero, where that leaves each value a code."""
    first = low / step
    if abs(first - round(first)) * step > 2 * noise:
        return low + step * _middle(0, round(span))
    at = round(first)
    return step * _middle(at, at + round(span))


def _middle(first: int, last: int) -> int:
    half = CODES // 2
    if first >= -half and last < half:
        return 0
    if first >= 0 and last < CODES:  # what begins at zero ends at 255, whether or not a sample shows it
        return half
    return first - (CODES - (last - first)) // 2 + half
