"""A model's graph node by node, for a person; a drawing of it, or of an engine."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence

from onnxq.analysis.drawing import drawing
from onnxq.analysis.nodes import ModelNodes, nodes_of
from onnxq.base.dot import COLORS, arrow, framed, outside, quoted
from onnxq.base.errors import UserError, nearest
from onnxq.base.patterns import fits
from onnxq.base.shown import size
from onnxq.compiled.kernels import CODES, CONVERSIONS, FLOATS, Kernel, tensor_bytes
from onnxq.compiled.reading import EngineReading
from onnxq.graph.load import ModelSource
from onnxq.graph.model import Model
from onnxq.inspection.engine_reading import EngineDocument
from onnxq.options.flag_words import tells_keywords
from onnxq.run.engine_log import EngineTensor

__all__ = ["draw", "inspect"]


@tells_keywords
def inspect(
    model: ModelSource,
    *,
    match: Sequence[str] = (),
    ops: Sequence[str] = (),
    around: str | None = None,
    depth: int = 2,
    shapes: Mapping[str, Sequence[int | str]] | None = None,
) -> ModelNodes:
    """The nodes of a model with types, shapes, attributes and constants.

    Args:
        model: a path or a ModelProto, which is not modified; its weights may be missing.
        match: patterns (`*`, `?`, `[...]`): only nodes of which one fits the name, or that of a tensor that
            they write, or of a constant or an input that they read.
        ops: only nodes of these operators.
        around: only nodes near the node of this name, or near those that write and read this tensor.
        depth: how near: how many tensors away at most.
        shapes: shapes of inputs, for the shapes that follow.

    Raises:
        UserError: the model cannot be read; there is no such node, tensor, operator or input.
    """
    opened = Model.open(model, stripped=True)
    for name, dims in (shapes or {}).items():
        opened.set_input_shape(name, tuple(dims))
    if shapes:
        opened.infer_shapes()
    return nodes_of(opened, match=match, ops=ops, around=around, depth=depth)


@tells_keywords
def draw(found: ModelNodes | EngineDocument, *, match: Sequence[str] = (), ops: Sequence[str] = ()) -> str:
    """What `inspect` or `engine` found as a drawing, in Graphviz's DOT: `dot -Tsvg`.

    Args:
        found: the nodes; or the engine, whose kernels are drawn.
        match: of an engine, patterns: only kernels of which one fits the name, or that of a node in it.
        ops: of an engine, only kernels that run a node of one of these operators.

    Raises:
        UserError: there is no engine, no kernel is left, or there are more than 2000; or nodes that `inspect`
            has chosen already are to be chosen here.
    """
    if isinstance(found, ModelNodes):
        if match or ops:
            raise UserError("the nodes are chosen by `inspect`", hint="give match and ops there")
        return drawing(found)
    if found.reading is None:
        raise UserError(f"there are no kernels of {found.model} to draw", hint="see .engine.reason for why")
    return kernel_drawing(found.reading, found.model, match=match, ops=ops)


MOST_KERNELS = 2000
"""What Graphviz lays out in minutes, and a person finds something in."""

_NODES = 12


def kernel_drawing(
    reading: EngineReading, name: str, *, match: Sequence[str] = (), ops: Sequence[str] = ()
) -> str:
    """The kernels of an engine in DOT, for `dot -Tsvg`; what only waits is left out.

    A kernel has the ONNX nodes that run in it, the type that it computes in, and its time where one was
    measured; an arrow the type, shape and size of its tensor. What leads out of the piece is dashed. Where
    the engine's file has no tensors, dotted arrows are the order in which the kernels run.

    Args:
        reading: what stands in the engine.
        name: the model's.
        match: patterns (`*`, `?`, `[...]`): only kernels of which one fits the name, or that of a node in it.
        ops: only kernels that run a node of one of these operators.

    Raises:
        UserError: no kernel is left, or there are more than `MOST_KERNELS`.
    """
    operators = {node.node: node.op for node in reading.nodes}
    kernels = {place: kernel for place, kernel in enumerate(reading.kernels) if kernel.is_kernel}
    shown = {
        place: kernel
        for place, kernel in kernels.items()
        if fits((kernel.name, *kernel.nodes), match)
        and (not ops or any(operators.get(node) in ops for node in kernel.nodes))
    }
    if not shown:
        asked = " or ".join(map(repr, (*match, *ops)))
        names = [entry for kernel in kernels.values() for entry in (kernel.name, *kernel.nodes)]
        said = f"no kernel fits {asked}" if asked else f"the engine of {name} has no kernels"
        raise UserError(said, hint=nearest(match[0], names) if match else "")
    if len(shown) > MOST_KERNELS:
        raise UserError(
            f"the drawing would have {len(shown)} kernels, and has {MOST_KERNELS} at most",
            hint="give --match GLOB or --op TYPE: only the kernels of those nodes are drawn",
        )
    title = [
        name,
        f"{len(shown)} of {len(kernels)} kernels",
        "green: 8 bits and less, orange: only converts, blue: 16-bit float",
    ]
    boxes = [
        f"  k{place} [label={quoted(_label(kernel, operators))}, fillcolor={_color(kernel)}];"
        for place, kernel in shown.items()
    ]
    return framed(title, [*boxes, *_arrows(reading.kernels, shown)])


def _arrows(kernels: Sequence[Kernel], shown: Mapping[int, Kernel]) -> Iterator[str]:
    """What is between the kernels, and what leads in and out."""
    if not any(kernel.inputs or kernel.outputs for kernel in shown.values()):
        yield from (f"  k{one} -> k{next} [style=dotted];" for one, next in itertools.pairwise(shown))
        return
    writers: dict[str, int] = {}
    sources: dict[str, str] = {}
    inside: set[tuple[int, str]] = set()
    beyond: set[tuple[int, str]] = set()
    for place, kernel in enumerate(kernels):
        for tensor in {one.name: one for one in kernel.inputs}.values():
            writer = writers.get(tensor.name, -1)
            (inside if place in shown else beyond).add((writer, tensor.name))
            if place not in shown:
                continue
            source = f"k{writer}" if writer in shown else sources.get(tensor.name, f"i{len(sources)}")
            if writer not in shown and tensor.name not in sources:
                sources[tensor.name] = source
                yield outside(source, tensor.name, ends=writer < 0)
            cut = writer >= 0 and writer not in shown
            yield arrow(source, f"k{place}", _type(tensor), codes=tensor.dtype in CODES, dashed=cut)
        writers |= {tensor.name: place for tensor in kernel.outputs}
    count = 0
    for place, kernel in shown.items():
        for tensor in kernel.outputs:
            cut = (place, tensor.name) in beyond
            if (place, tensor.name) in inside and not cut:
                continue
            yield outside(f"o{count}", tensor.name, ends=not cut)
            yield arrow(f"k{place}", f"o{count}", _type(tensor), codes=tensor.dtype in CODES, dashed=cut)
            count += 1


def _label(kernel: Kernel, operators: Mapping[str, str]) -> list[str]:
    took = "" if kernel.seconds is None else f", {1e6 * kernel.seconds:.4g} us"
    lines = [f"{kernel.kind} {kernel.precision or ''}".strip() + took, kernel.name]
    lines += [f"{operators[node]}  {node}" if node in operators else node for node in kernel.nodes[:_NODES]]
    if len(kernel.nodes) > _NODES:
        lines.append(f"+{len(kernel.nodes) - _NODES} more nodes")
    return lines


def _type(tensor: EngineTensor) -> str:
    sizes = ", ".join("?" if dim < 0 else str(dim) for dim in tensor.shape)
    held = "" if any(dim < 0 for dim in tensor.shape) else f", {size(tensor_bytes(tensor))}"
    return f"{tensor.dtype} [{sizes}]{held}"


def _color(kernel: Kernel) -> str:
    precision = kernel.precision
    if kernel.kind in CONVERSIONS:
        color = "pair"
    elif precision in CODES:
        color = "narrow"
    else:
        color = "float" if precision == "fp32" else "half" if precision in FLOATS else "other"
    return f'"{COLORS[color]}"'
