"""A model's graph node by node, for a person; a drawing of it, or of an engine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from onnxq.analysis.drawing import drawing
from onnxq.analysis.kernel_drawing import kernel_drawing
from onnxq.analysis.nodes import ModelNodes, nodes_of
from onnxq.base.errors import UserError
from onnxq.graph.load import ModelSource
from onnxq.graph.model import Model
from onnxq.inspection.engine_reading import EngineDocument
from onnxq.options.flag_words import tells_keywords

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
