"""What a decoder keeps of the tokens that it has seen: inputs that come back as outputs with new rows.

Keys and values of attention are such (`past_key_values`). They are known by what the graph does with them,
never by their names: the length of an input grows, by a Concat or in an attention operator, and the grown
tensor is an output.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from onnxq.base.grouped import reached
from onnxq.base.plain import DocumentPart
from onnxq.graph.infer import infer
from onnxq.graph.model import Model
from onnxq.graph.pairs import QDQ
from onnxq.graph.types import Dim, Shape, set_inputs, shape_of
from onnxq.graph.view import Node, Tensor

_RANKS = (3, 4, 5)  # of 5 dimensions are keys and values in one tensor
_SAME = ("Identity", "Cast", *QDQ)

_ATTENTION: Mapping[tuple[str, str], Mapping[int, tuple[int, int]]] = {
    ("", "Attention"): {4: (1, 2), 5: (2, 2)},
    ("com.microsoft", "Attention"): {4: (1, 3)},
    ("com.microsoft", "MultiHeadAttention"): {6: (1, 2), 7: (2, 2)},
    ("com.microsoft", "GroupQueryAttention"): {3: (1, 2), 4: (2, 2)},
}
"""The operators that lengthen caches: by the input of the past the output of the present, and their axis."""

_PAST, _STEP = 3, 101  # sizes to infer with: of the past, and the multiples of this of other lengths


@dataclass(frozen=True, slots=True)
class KeyValueCache(DocumentPart):
    """Keys or values (or both in one) of the tokens that were seen.

    Attributes:
        past: the input that holds them.
        present: the output that holds them with those of the new tokens.
        axis: of the past, along which it grows.
        length: the name of that dimension: its symbol, else `input[axis]`.
        batch: the names of its other dynamic dimensions.
    """

    past: str
    present: str
    axis: int
    length: str
    batch: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Lengths(DocumentPart):
    """The dynamic dimensions of a decoder's inputs that are numbers of tokens.

    Attributes:
        past: those of the tokens that were seen.
        new: those of the new ones.
        whole: those of both together: of the mask.
        batch: those that are no number of tokens, but how many sequences there are.
        others: those of which nothing is known.
    """

    past: tuple[str, ...]
    new: tuple[str, ...]
    whole: tuple[str, ...]
    batch: tuple[str, ...]
    others: tuple[str, ...] = ()

    @property
    def sums(self) -> tuple[tuple[str, str, str], ...]:
        """The dimensions of which the third is the sum of the others."""
        return tuple((self.past[0], self.new[0], whole) for whole in self.whole if self.new)


def caches(model: Model) -> tuple[KeyValueCache, ...]:
    """The caches of a model, in the order of its inputs.

    An input of 3 to 5 dimensions, one of dynamic size, is one where it, moved and cast at most, is
    concatenated along that axis with something behind it, or handed to an attention operator as the past, and
    what that gives, moved and cast at most, is an output of the same form, which can be the next past.

    Not recognized are a cache of a fixed length that new rows are written into (ScatterElements, ScatterND,
    TensorScatter: its size says nothing of how full it is), one that is reshaped before it grows, one in the
    branch of an If, and keys and values of an encoder, which do not grow.
    """
    pairs = []
    for tensor in model.inputs:
        name, dims = tensor.name, tensor.shape
        if dims is None or len(dims) not in _RANKS:
            continue
        for axis, dim in enumerate(dims):
            present = None if isinstance(dim, int) else _present(tensor, axis)
            if present is not None:
                others = tuple(
                    named(name, at, one)
                    for at, one in enumerate(dims)
                    if at != axis and not isinstance(one, int)
                )
                pairs.append(KeyValueCache(name, present, axis, named(name, axis, dim), others))
                break
    return tuple(pairs)


def named(tensor: str, axis: int, dim: Dim) -> str:
    """What a dynamic dimension is called: its symbol, else the input and the axis."""
    return str(dim) if dim else f"{tensor}[{axis}]"


def lengths(model: Model, found: Sequence[KeyValueCache]) -> Lengths | None:
    """What the dynamic dimensions of a decoder's inputs count.

    The new tokens are as many as inference says that a present is longer than its past; where it does not
    know (operators of other domains), the one dimension that is left is theirs. The sum of both is a
    dimension that a present has as well, by its symbol, or one that inference takes as the sum and in no
    other size.

    Args:
        model: the model.
        found: its caches, one at least; else there are none.

    Returns:
        None without caches.
    """
    if not found:
        return None
    every = dict.fromkeys(
        named(tensor.name, axis, dim)
        for tensor in model.inputs
        for axis, dim in enumerate(tensor.shape or ())
        if not isinstance(dim, int)
    )
    past = tuple(dict.fromkeys(cache.length for cache in found))
    batch = tuple(dict.fromkeys(dim for cache in found for dim in cache.batch))
    free = [dim for dim in every if dim not in (*past, *batch)]
    whole = tuple(dim for dim in free if dim in _lengths_of_present(model, found))
    sizes = dict.fromkeys(past, _PAST) | dict.fromkeys(batch, 1)
    sizes |= {dim: _STEP * number for number, dim in enumerate(free, 1)}
    new = _new(model, found[0], sizes)
    if not new:
        left = [dim for dim in free if dim not in whole]
        new = tuple(left) if len(left) == 1 else ()
    if new and not whole:
        both = _PAST + sizes[new[0]]
        whole = tuple(dim for dim in free if dim not in new and _is_sum(model, sizes, dim, both))
    return Lengths(past, new, whole, batch, tuple(dim for dim in free if dim not in (*new, *whole)))


def _present(past: Tensor, axis: int) -> str | None:
    """The output that an input comes back as, longer along an axis; None where none is."""

    def onward(place: tuple[Tensor, int, bool]) -> Iterator[tuple[Tensor, int, bool]]:
        tensor, at, grown = place
        for user in tensor.users:
            yield from ((out, along, grown or grows) for out, along, grows in _steps(user, tensor, at))

    for tensor, at, grown in reached([(past, axis, False)], onward):
        if grown and at == axis and tensor.rank in (past.rank, None) and tensor.is_output:
            return tensor.name
    return None


def _steps(node: Node, tensor: Tensor, axis: int) -> Iterator[tuple[Tensor, int, bool]]:
    """Where a node leaves what it reads: the output, the axis there, and whether it is longer."""
    places = [place for place, one in enumerate(node.inputs) if one == tensor]
    for place in places:
        after = _ATTENTION.get((node.domain, node.op), {}).get(place)
        if after is not None and after[1] == axis and len(node.outputs) > after[0]:
            yield node.outputs[after[0]], axis, True
    if node.domain or not places or tensor.rank is None:
        return
    if node.op == "Concat":
        grows = node.attr("axis") % tensor.rank == axis
        if not grows or (places == [0] and len(node.inputs) > 1):
            yield node.outputs[0], axis, grows
    elif places[0] == 0:
        for out in node.outputs:
            moved = _moved(node, axis, tensor.rank)
            if moved is not None:
                yield out, moved, False


def _moved(node: Node, axis: int, rank: int) -> int | None:
    """The axis behind a node that moves values; None where it cuts that axis, or is another operator."""
    if node.op in _SAME:
        return axis
    if node.op == "Transpose":
        return list(node.attr("perm", range(rank)[::-1])).index(axis)
    if node.op in ("Gather", "Split"):
        cut = node.attr("axis", 0) % rank
        if cut == axis:
            return None
        index = node.operands(2)[1] if node.op == "Gather" else None
        return axis - (index is not None and index.rank == 0 and cut < axis)
    if node.op not in ("Squeeze", "Unsqueeze"):
        return None
    operand = node.operands(2)[1]
    axes = node.attr("axes") if operand is None else operand.constant
    if axes is None:
        return None
    numbers = [int(number) for number in np.reshape(axes, -1)]
    if node.op == "Squeeze":
        gone = {number % rank for number in numbers}
        return None if axis in gone else axis - sum(number < axis for number in gone)
    added = {number % (rank + len(numbers)) for number in numbers}
    return [place for place in range(rank + len(added)) if place not in added][axis]


def _lengths_of_present(model: Model, found: Sequence[KeyValueCache]) -> set[str]:
    """The symbols that the outputs have where the caches have grown; those of the past left out."""
    names = {cache.present for cache in found}
    past = {cache.past for cache in found}
    of_past = {dim for tensor in model.inputs if tensor.name in past for dim in tensor.shape or ()}
    grown = {dim for tensor in model.outputs if tensor.name in names for dim in tensor.shape or ()}
    return {dim for dim in grown - of_past if isinstance(dim, str)}


def _new(model: Model, cache: KeyValueCache, sizes: Mapping[str, int]) -> tuple[str, ...]:
    """The dimensions by whose size a cache grows, by inference; none where that does not know."""
    shapes = _inferred(model, sizes)
    shape = () if shapes is None else shapes.get(cache.present, ())
    grown = shape[cache.axis] if shape else None
    return tuple(dim for dim, size in sizes.items() if isinstance(grown, int) and size == grown - _PAST)


def _is_sum(model: Model, sizes: Mapping[str, int], dim: str, both: int) -> bool:
    """Whether inference takes a dimension of that size, and of no other."""
    fits, other = (_inferred(model, {**sizes, dim: size}, strict=True) for size in (both, both + 1))
    return fits is not None and other is None


def _inferred(model: Model, sizes: Mapping[str, int], *, strict: bool = False) -> dict[str, Shape] | None:
    """The shapes of the outputs for these sizes of the inputs' dimensions; None where they do not fit."""
    proto = model.to_proto(weights=False)
    bound = {
        one.name: tuple(dim if isinstance(dim, int) else sizes.get(named(one.name, axis, dim), dim)
                        for axis, dim in enumerate(one.shape))
        for one in model.inputs if one.shape is not None
    }  # fmt: skip
    set_inputs(proto.graph, bound)
    try:
        inferred = infer(proto, strict=strict)
    except Exception:  # of several classes: it does not take the sizes
        return None
    return {info.name: shape_of(info.type.tensor_type.shape) for info in inferred.graph.output}
