"""A Loop or a Scan of a known number of iterations, as the nodes of these iterations."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from _opsets import unsqueezed

from onnxq.rule import RANDOM, Body, Node, Skip, Tensor, Value, constant, inline, op

MOST = 2000
"""So many nodes the iterations of a Loop have together at most: 500 of a MatMul and a Tanh in int8 compile in 10 s."""


def unrolled(node: Node, because: str, most: int = MOST) -> dict[int, Value]:
    """What a Loop or a Scan computes, each iteration by nodes of its own.

    Args:
        node: the Loop, or a Scan of opset 9 or above.
        because: why it is unrolled; reasons begin with it.
        most: how many nodes its iterations may have together.

    Raises:
        Skip: how many iterations there are is not known before the model runs, there are none, or too many.
    """
    body, is_loop = node.body("body"), node.op == "Loop"
    read = node.attr("num_scan_inputs", 0)
    tensors = node.inputs[2 * is_loop :]
    if (node.op == "Scan" and node.opset < 9) or None in tensors:
        raise Skip(f"{because}, and it is of opset 8, or leaves an input out")
    if any(one.op in RANDOM for one in node.with_bodies):
        raise Skip(f"{because}, and it draws numbers at random")
    carried, given = tensors[: len(tensors) - read], tensors[len(tensors) - read :]
    axes = node.attr("scan_input_axes") or [0] * read
    back = node.attr("scan_input_directions") or [0] * read
    count, nodes = _trips(node, because) if is_loop else _steps(given, axes, because), _nodes(body)
    if not 1 <= count <= most / max(1, nodes):
        asked = f"{count} iterations of {nodes} nodes"
        raise Skip(f"{because}, and {asked} are not unrolled: 1 to {most} nodes are")
    values: Sequence[Value | None] = carried
    steps = list[Sequence[Value]]()
    for iteration in range(count):
        places = [np.array(count - 1 - iteration if one else iteration) for one in back]
        rows = [op.Gather(x, at, axis=axis) for x, at, axis in zip(given, places, axes, strict=True)]
        told = (np.int64(iteration), np.array(True)) if is_loop else ()
        results = inline(body, *told, *values, *rows)
        if is_loop and not _is_true(results[0]) and iteration < count - 1:
            raise Skip(f"{because}, and it may end before")
        results = results[is_loop:]
        values = results[: len(carried)]
        steps.append(results[len(carried) :])
    kept = zip(node.outputs[len(carried) :], zip(*steps, strict=True), strict=False)
    stacked = [_stacked(node, number, *pair, because) for number, pair in enumerate(kept)]
    named = zip(range(len(node.outputs)), (*values, *stacked), strict=False)
    return {index: value for index, value in named if value is not None}


def _trips(node: Node, because: str) -> int:
    """How often a Loop runs, unless its body ends it."""
    trip, going = node.operands(2)
    number = constant(trip)
    if number is None:
        state = f": state it with --freeze {trip.name}=NUMBER" if trip is not None and trip.is_input else ""
        raise Skip(f"{because}, and how often it runs is not known before the model runs{state}")
    if going is not None and not _is_true(going):
        raise Skip(f"{because}, and it may not begin")
    return int(number.reshape(-1)[0])


def _steps(given: Sequence[Tensor | None], axes: Sequence[int], because: str) -> int:
    """How many rows a Scan reads."""
    sizes = [one.shape[axis] for one, axis in zip(given, axes, strict=True) if one is not None and one.shape]
    for size in sizes:
        if isinstance(size, int):
            return size
    raise Skip(
        f"{because}, and how many steps it takes is not known{f' ({sizes[0]})' if sizes else ''}: give --shape"
    )


def _nodes(body: Body) -> int:
    """How many nodes a body has, the iterations of Loops inside of it counted where they are known."""
    total = 0
    for node in body.nodes:
        number = constant(node.inputs[0]) if node.op == "Loop" else None
        times = 1 if number is None else max(1, int(number.reshape(-1)[0]))
        total += 1 + times * sum(map(_nodes, node.bodies.values()))
    return total


def _stacked(node: Node, number: int, output: Tensor, rows: Sequence[Value], because: str) -> Value:
    """What is collected for an output, as one tensor."""
    axis = (node.attr("scan_output_axes") or [0] * (number + 1))[number]
    if axis < 0:
        if output.rank is None:
            raise Skip(f"{because}, and the rank of what it collects is not known")
        axis += output.rank
    if (node.attr("scan_output_directions") or [0] * (number + 1))[number]:
        rows = rows[::-1]
    stacked: Value = op.Concat(*(unsqueezed(node, one, [axis]) for one in rows), axis=axis)
    return stacked


def _is_true(condition: Value) -> bool:
    known = constant(condition)
    return known is not None and bool(known.all())
