"""The tensors of a sequence, where the graph says which they are."""

import numpy as np

from onnxq.rule import Node, Skip, Tensor, Value, constant, inline, made_by, op, operands

_MAKERS = ("SequenceConstruct", "SequenceEmpty", "SequenceMap", "SplitToSequence")
_EDITS = ("SequenceInsert", "SequenceErase", "Identity")
_MOST = 256  # so many copies of a SequenceMap's body


def items(sequence: Tensor | None) -> list[Value]:
    """The tensors of a sequence, in order.

    Raises:
        Skip: they are not known before the model runs.
    """
    edits: list[Node] = []
    node = made_by(sequence, *_MAKERS, *_EDITS)
    while node is not None and node.op in _EDITS:
        edits.append(node)
        sequence = node.inputs[0]
        node = made_by(sequence, *_MAKERS, *_EDITS)
    if node is None or sequence is None:
        name = sequence.name if sequence is not None else ""
        raise Skip(f"the tensors of sequence {name!r} are not known before the model runs")
    found = _made(node, node.outputs.index(sequence))
    for edit in reversed(edits):
        _edit(found, edit)
    return found


def split_of(sequence: Tensor | None) -> tuple[Tensor, int, int, bool] | None:
    """What a sequence is split from: the tensor, the axis, the size of a piece, whether it keeps the axis.

    None where it is no SplitToSequence, or one into pieces of different sizes.
    """
    node = made_by(sequence, "SplitToSequence")
    x, split = operands(node, 2) if node is not None else (None, None)
    if node is None or x is None or x.rank is None:
        return None
    axis = int(node.attr("axis", 0)) % x.rank
    if split is None:
        return x, axis, 1, bool(node.attr("keepdims", 1))
    size = constant(split)
    return None if size is None or size.ndim or size < 1 else (x, axis, int(size), True)


def _made(node: Node, output: int) -> list[Value]:
    if node.op == "SequenceEmpty":
        return []
    if node.op == "SequenceConstruct":
        return [tensor for tensor in node.inputs if tensor is not None]
    return _pieces(node) if node.op == "SplitToSequence" else _mapped(node, output)


def _edit(found: list[Value], node: Node) -> None:
    """Inserts a tensor into a list of them, or takes one out, as a node says."""
    if node.op == "Identity":
        return
    tensor, place = operands(node, 3)[1:] if node.op == "SequenceInsert" else (None, operands(node, 2)[1])
    at = None if place is None else place.scalar
    if place is not None and at is None:
        raise Skip(f"the position {place.name!r} of {node.op} is not known before the model runs")
    if tensor is not None:
        found.insert(len(found) if at is None else int(at), tensor)
        return
    at = -1 if at is None else int(at)
    if not -len(found) <= at < len(found):
        raise Skip(f"{node.op} takes out number {at} of {len(found)}")
    del found[at]


def _pieces(node: Node) -> list[Value]:
    x, split = operands(node, 2)
    if x is None or x.shape is None:
        raise Skip("the rank of what is split is not known")
    axis = int(node.attr("axis", 0)) % len(x.shape)
    size, lengths = x.shape[axis], None if split is None else constant(split)
    if split is not None and lengths is None:
        raise Skip(f"the sizes {split.name!r} of SplitToSequence are not known before the model runs")
    if lengths is None or not lengths.ndim:
        each = 1 if lengths is None else int(lengths)
        if not isinstance(size, int) or each < 1:
            raise Skip(f"dimension {axis} of {x.name!r}, which is split, is dynamic ({size})")
        starts = list(range(0, size, each))
        ends = [min(start + each, size) for start in starts]
    else:
        ends = [int(end) for end in np.cumsum(lengths)]
        starts = [0, *ends[:-1]]
    if split is None and not node.attr("keepdims", 1):
        return [op.Gather(x, np.array(start), axis=axis) for start in starts]
    pairs = zip(starts, ends, strict=True)
    return [op.Slice(x, np.array([start]), np.array([end]), np.array([axis])) for start, end in pairs]


def _mapped(node: Node, output: int) -> list[Value]:
    """What a SequenceMap gives: its body once for each tensor."""
    first, *others = node.inputs
    rows = items(first)
    if len(rows) * len(node.body("body").nodes) > _MOST:
        raise Skip(f"SequenceMap runs its body {len(rows)} times: more than {_MOST} nodes")
    columns: list[list[Value | None]] = [list(rows)]
    for other in others:
        is_list = made_by(other, *_MAKERS, *_EDITS[:2]) is not None
        columns.append(list(items(other)) if is_list else [other] * len(rows))
    return [inline(node.body("body"), *given)[output] for given in zip(*columns, strict=True)]
