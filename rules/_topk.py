"""What rules know of a TopK: how many it asks for, and whether only the first of them are read."""

import numpy as np

from onnxq.rule import Node, constant, made_by, operands


def asked(node: Node) -> int | None:
    """K, where it is a constant."""
    count = constant(operands(node, 2)[1]) if node.opset >= 10 else np.array(node.attr("k"))
    return None if count is None or count.size != 1 else int(count.reshape(-1)[0])


def first_only(node: Node) -> tuple[Node, int] | None:
    """Of a Slice: the TopK that it reads and how many of its first elements; None where it is another one."""
    data, starts, ends, axes, steps = operands(node, 5)
    source = made_by(data, "TopK")
    if node.op != "Slice" or node.opset < 11 or source is None or not source.attr("sorted"):
        return None
    values = [constant(value) for value in (starts, ends, axes)]
    if any(value is None or value.size != 1 for value in values) or (steps is not None and steps.scalar != 1):
        return None
    rank = None if data is None else data.rank
    start, end, axis = (int(value.reshape(-1)[0]) for value in values if value is not None)
    if rank is None or axis % rank != source.attr("axis") % rank or start != 0 or end <= 0:
        return None
    return source, end


def is_cut(node: Node) -> bool:
    """Whether of all that a TopK gives, Slices read the first elements only."""
    most, count = node.limit("topk-k"), asked(node)
    if most is None or count is None or any(tensor.is_output for tensor in node.outputs):
        return False
    readers = [user for tensor in node.outputs for user in tensor.users]
    cuts = [first_only(user) for user in readers]
    return bool(cuts) and all(cut is not None and min(cut[1], count) <= most for cut in cuts)
