"""The Q/DQ pairs of a model: what they quantize, by which scales, in which format, and who reads them.

Whoever asks what a tensor is dequantized from, or who reads it dequantized, asks here. What may stand between
a tensor and its pair is another for another question: each is a `Between` of this file, which says why.
"""

from __future__ import annotations

from collections.abc import Container, Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from onnxq.formats import FORMATS, INT8, NumberFormat, format_of
from onnxq.graph.moves import MOVES, REARRANGES
from onnxq.graph.topology import Topology
from onnxq.graph.types import dtype_of, is_float
from onnxq.graph.view import Node, Tensor, every_node

QUANTIZE, DEQUANTIZE = "QuantizeLinear", "DequantizeLinear"
QDQ = (QUANTIZE, DEQUANTIZE)
"""The operators of a pair."""

_DOMAINS = ("", "com.microsoft")


def is_qdq(node: Node) -> bool:
    """Whether a node quantizes or dequantizes, by ONNX's operators or onnxruntime's of the same names."""
    return node.op in QDQ and node.domain in _DOMAINS


# --- what may stand between -----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Between:
    """Which operators, of ONNX's own, may stand between a pair and who reads it.

    Attributes:
        ops: operators whose first output is values of their first input.
        joins: whether a Concat may, of which all parts are dequantized then.
        zero_pads: whether a Pad may that adds zeros, or values that are there: each has a code.
        ends: the operators that dequantize.
    """

    ops: tuple[str, ...]
    joins: bool = False
    zero_pads: bool = False
    ends: tuple[str, ...] = (DEQUANTIZE,)

    def handed_on(self, node: Node) -> tuple[Tensor | None, ...]:
        """The inputs whose values a node hands on; none where it is no such operator."""
        if node.domain:
            return ()
        if self.joins and node.op == "Concat":
            return node.inputs
        handed = node.op in self.ops or (self.zero_pads and _is_zero_pad(node))
        return node.inputs[:1] if handed else ()


NOTHING = Between(())
"""The tensor itself, whose axes are those of the codes."""

MOVED = Between((*REARRANGES, "Cast"))
"""Each value once: what reads the tensor reads the codes, channel for channel. The operand of a product."""

BUILT = Between(MOVED.ops, ends=(DEQUANTIZE, "TRT_MXFP8DequantizeLinear"))
"""The same in a file for the compiler, which may hold NVIDIA's own operators. None of ours has them."""

PLACED = Between(("Identity", "Cast"))
"""Each value in its place, so that the scale of a channel belongs to the same index of the tensor."""

PICKED = Between(MOVES)
"""Some of the values, in their type: the scale of them all holds, and a factor of it needs no rounding."""

ALONE = Between((*MOVES, "Cast"))
"""Some of the values, and no others among them."""

CARRIED = Between(ALONE.ops, joins=True, zero_pads=True)
"""What int8 goes through in an engine, whichever side of it the pair stands on: the compiler moves it."""

IN_SIGHT = Between((*ALONE.ops, "Pad"))
"""Any Pad as well: who is told that an input has no pair should not find one in front of it."""


def _is_zero_pad(node: Node) -> bool:
    if node.op != "Pad":
        return False
    value = node.operands(3)[2]
    return node.attr("mode", "constant") != "constant" or value is None or value.scalar == 0


# --- pairs ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Pair:
    """A Q/DQ pair, seen from one of its nodes, which may be all that there is of it.

    Everything else is read from the graph when somebody asks: a pair of a model that changes is right.

    Attributes:
        node: the DequantizeLinear, or the QuantizeLinear.
    """

    node: Node

    @property
    def dequantizes(self) -> bool:
        """Whether it is seen from what dequantizes."""
        return self.node.op != QUANTIZE

    @property
    def quantizer(self) -> Node | None:
        """The QuantizeLinear; None where the codes are constants, or come from elsewhere."""
        if not self.dequantizes:
            return self.node
        maker = self.codes.producer if self.codes is not None else None
        return maker if maker is not None and maker.op == QUANTIZE else None

    @property
    def source(self) -> Tensor | None:
        """The floats that are quantized; None where nothing quantizes them in this model."""
        maker = self.quantizer
        return maker.inputs[0] if maker is not None else None

    @property
    def codes(self) -> Tensor | None:
        """The codes; None in a node without its first input."""
        return self.node.operands(1)[0] if self.dequantizes else self.node.outputs[0]

    @property
    def scale(self) -> Tensor | None:
        """The scale: one, one a channel of `axis`, or one a block."""
        return self.node.operands(2)[1]

    @property
    def zero(self) -> Tensor | None:
        """The zero point, of the scale's shape; None where it is left out, for 0."""
        return self.node.operands(3)[2]

    @property
    def axis(self) -> int:
        """The axis of channels or blocks, as the node has it: maybe negative, 1 where it says nothing."""
        return int(self.node.attr("axis", 1))

    @property
    def block(self) -> int:
        """How many values of the axis have one scale; 0: all of a channel."""
        return int(self.node.attr("block_size", 0) or 0)

    @property
    def format(self) -> NumberFormat | None:
        """The format of the codes; None where nothing tells."""
        codes, zero = self.codes, self.zero
        for tensor in (codes, zero) if self.dequantizes else (zero, codes):
            if tensor is not None and tensor.dtype is not None:
                return format_of(tensor.dtype)
        if self.dequantizes or zero is not None:
            return None
        # the standard's, where nothing is said
        return format_of(dtype_of(self.node.attr("output_dtype", 0)) or np.dtype(np.uint8))

    @property
    def is_int8(self) -> bool:
        """Whether a product in int8 reads the codes, or nobody knows their type."""
        return self.format is None or INT8.takes(self.format)

    @property
    def scales(self) -> np.ndarray | None:
        """The values of the scale, float64, any shape; None where it is computed."""
        values = self.scale.constant if self.scale is not None else None
        return None if values is None else np.asarray(values).astype(np.float64)

    @property
    def ends(self) -> tuple[int, int] | None:
        """The least and the greatest code; None of unknown codes, or no integers of up to 16 bits."""
        found = self.format
        return found.ends if found is not None and found.even and found.greatest < 1 << 16 else None

    @property
    def is_per_channel(self) -> bool:
        """Whether there is a scale for each of several channels."""
        shape = self.scale.shape if self.scale is not None else None
        return shape is not None and len(shape) == 1 and shape != (1,) and not self.block

    @property
    def is_constant(self) -> bool:
        """Whether it holds a constant: of codes, or of floats that are quantized."""
        return any(one is not None and one.is_constant for one in (self.codes, self.source))

    @property
    def readers(self) -> Iterator[tuple[Node, Tensor]]:
        """Who reads what it dequantizes; see `readers_of`."""
        return readers_of(self.node.outputs[0])

    def spread(self, values: np.ndarray, shape: tuple[int, ...]) -> np.ndarray | None:
        """Its scales or zero points in the shape of the codes; None where they do not fit it.

        Args:
            values: one, one a channel, or one a block.
            shape: of the codes.

        Returns:
            The same numbers in the same type, not to be written to.
        """
        if values.size == 1:
            return np.broadcast_to(values.reshape(()), shape)
        if not -len(shape) <= self.axis < len(shape):
            return None
        axis = self.axis % len(shape)
        if values.ndim == 1 and len(values) == shape[axis]:
            along = [-1 if i == axis else 1 for i in range(len(shape))]
            return np.broadcast_to(values.reshape(along), shape)
        if self.block and values.ndim == len(shape):
            whole = np.repeat(values, self.block, axis=axis).take(np.arange(shape[axis]), axis=axis)
            return whole if whole.shape == shape else None
        return None

    def grid(self, shape: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray] | None:
        """Its scales and its zero points in the shape of the codes, both float32, not to be written to.

        None where they are computed, or do not fit the shape.
        """
        scale = self.scale.constant if self.scale is not None else None
        zero = np.zeros(()) if self.zero is None else self.zero.constant
        if scale is None or zero is None:
            return None
        steps, zeros = (self.spread(one.astype(np.float32), shape) for one in (scale, zero))
        return None if steps is None or zeros is None else (steps, zeros)


class PairIndex:
    """The pairs of a model as it stands.

    Attributes:
        pairs: one for each QuantizeLinear and each DequantizeLinear, in the order of the nodes.
    """

    def __init__(self, model: Topology, pairs: tuple[Pair, ...]) -> None:
        self._model = model
        self.pairs = pairs

    @classmethod
    def of(cls, model: Topology, *, bodies: bool = True) -> PairIndex:
        """Looks through a model; of a ModelProto `Topology(proto, None, data_dir)` is enough, without types.

        Args:
            model: the model.
            bodies: whether those in bodies of control flow are among them.
        """
        nodes = every_node(model) if bodies else (Node(model, raw) for raw in model.graph.nodes)
        return cls(model, tuple(Pair(node) for node in nodes if is_qdq(node)))

    def __iter__(self) -> Iterator[Pair]:
        return iter(self.pairs)

    def __len__(self) -> int:
        return len(self.pairs)

    @property
    def quantizing(self) -> Iterator[Pair]:
        """Those that are seen from a QuantizeLinear."""
        return (pair for pair in self.pairs if not pair.dequantizes)

    @property
    def dequantizing(self) -> Iterator[Pair]:
        """Those that are seen from a DequantizeLinear."""
        return (pair for pair in self.pairs if pair.dequantizes)

    @property
    def formats(self) -> tuple[str, ...]:
        """The names of the formats, of `FORMATS`, that pairs of the model have."""
        held = {pair.format.name for pair in self.pairs if pair.format is not None}
        return tuple(name for name in FORMATS if name in held)

    def behind(self, name: str, between: Between = MOVED) -> Pair | None:
        """The pair that a tensor of the main graph comes from; None where there is none."""
        tensor = self._tensors.get(name)
        return None if tensor is None else pair_of(Tensor(self._model, tensor), between)

    @cached_property
    def _tensors(self) -> dict[str, object]:
        return dict(self._model.graph.tensors())


# --- from a tensor --------------------------------------------------------------------------------


def pair_of(tensor: Tensor, between: Between = MOVED) -> Pair | None:
    """The pair that a tensor comes from; None where there is none."""
    return next(iter(pairs_of(tensor, between)), None)


def pairs_of(tensor: Tensor, between: Between = CARRIED) -> tuple[Pair, ...]:
    """The pairs that a tensor comes from, several where it is joined; none where a part of it is float."""
    dequantizers: dict[Node, None] = {}
    todo, seen = [tensor], {tensor}
    while todo:
        maker = todo.pop().producer
        if maker is None:
            return ()
        if maker.op in between.ends:
            dequantizers[maker] = None
            continue
        handed = between.handed_on(maker)
        for source in handed:
            if source is None:
                return ()
            if source not in seen:
                seen.add(source)
                todo.append(source)
        if not handed:
            return ()
    return tuple(Pair(node) for node in dequantizers)


def readers_of(tensor: Tensor, between: Between = CARRIED) -> Iterator[tuple[Node, Tensor]]:
    """Who reads a tensor, behind what only moves it: the node, and what of the tensor it reads."""
    for moved in _onward(tensor, between):
        for user in moved.users:
            if moved not in between.handed_on(user):
                yield user, moved


def outputs_of(tensor: Tensor) -> list[Tensor]:
    """The outputs of the model that are a tensor, moved at most."""
    return [one for one in _onward(tensor, ALONE) if one.is_output]


def _onward(tensor: Tensor, between: Between) -> Iterator[Tensor]:
    """A tensor, and those that hold values of it."""
    todo, seen = [tensor], {tensor}
    while todo:
        moved = todo.pop()
        yield moved
        for user in moved.users:
            for out in user.outputs if moved in between.handed_on(user) else ():
                if out not in seen:
                    seen.add(out)
                    todo.append(out)


def is_dequantized(tensor: Tensor) -> bool:
    """Whether a tensor is what a DequantizeLinear gives, moved or cast at most."""
    return pair_of(tensor) is not None


def is_quantized_constant(tensor: Tensor) -> bool:
    """Whether a tensor is dequantized from a constant: of codes, or of floats that are quantized."""
    pair = pair_of(tensor)
    return pair is not None and pair.is_constant


def own_format(node: Node) -> str:
    """The number format of the codes that the model itself gives a product; "" where it gives none."""
    held = (pair.format for tensor in node.operands(2) if tensor is not None and (pair := pair_of(tensor)))
    return next((one.name for one in held if one is not None and one.name in FORMATS), "")


def other_codes(tensor: Tensor, format: NumberFormat = INT8) -> str:
    """What codes a tensor is dequantized from, where a product in a format cannot read them; "" else."""
    pair = pair_of(tensor)
    if pair is None or pair.format is None:
        return ""
    if format.takes(pair.format) and (format.blocks or not pair.block):
        return ""
    return f"{pair.format.name} in blocks of {pair.block}" if pair.block else pair.format.name


def own_pair(tensor: Tensor, nodes: Container[Node]) -> Tensor | None:
    """The dequantized tensor, where a pair of the model quantizes this one for somebody.

    In a model that is not float32 there may be casts around the pair. A pair whose scales are computed,
    or differ between the two nodes, serves nobody else.

    Args:
        tensor: a tensor.
        nodes: the nodes of its graph: a pair in a subgraph body is not for readers outside.
    """
    for quantize in _users(tensor, QUANTIZE):
        for dequantize in _users(quantize.outputs[0], DEQUANTIZE):
            if not _is_symmetric(Pair(quantize), Pair(dequantize)):
                continue
            out = dequantize.outputs[0]
            casts = [user.outputs[0] for user in out.users if user.op == "Cast"]
            for dequantized in (out, *casts):
                if dequantized.dtype == tensor.dtype and dequantized.producer in nodes:
                    return dequantized
    return None


def _users(tensor: Tensor, op: str) -> list[Node]:
    """The nodes of an operator that read a tensor first, itself or cast."""
    cast = [u.outputs[0] for u in tensor.users if u.op == "Cast" and is_float(u.outputs[0].dtype)]
    return [user for one in (tensor, *cast) for user in one.users if user.op == op and user.inputs[0] == one]


def _is_symmetric(one: Pair, other: Pair) -> bool:
    """Whether the one node undoes the other: the same constant scales and zero points, along one axis."""
    if one.axis != other.axis:
        return False
    for first, second in ((one.scale, other.scale), (one.zero, other.zero)):
        if first is None and second is None:
            continue
        if first is None or second is None or first.constant is None or second.constant is None:
            return False
        if not np.array_equal(first.constant, second.constant):
            return False
    return True
