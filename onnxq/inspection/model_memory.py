"""What a model holds in memory, before and after."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from onnxq.analysis.asked_rows import wanted_rows
from onnxq.analysis.memory import MemoryOf, ModelMemory, memory_of
from onnxq.base.errors import UserError, unknown_name
from onnxq.base.progress import Observer, told
from onnxq.graph.load import ModelSource
from onnxq.graph.model import Model
from onnxq.options.flag_words import tells_keywords

__all__ = ["memory"]


@tells_keywords
def memory(
    model: ModelSource,
    against: ModelSource | None = None,
    *,
    shapes: Mapping[str, Sequence[int | str]] | None = None,
    assume: Mapping[str, int] | None = None,
    match: Sequence[str] = (),
    ops: Sequence[str] = (),
    observe: Observer | None = None,
) -> ModelMemory:
    """Activations along the order of a model's nodes, and weights by type.

    Args:
        model: a path or a ModelProto, which is not modified; its weights may be missing.
        against: another form of the model, the quantized one say.
        shapes: shapes of inputs.
        assume: sizes of dynamic dimensions by name; what nothing is said of is 1, which the result lists.
        match: patterns: only steps of which a node's or tensor's name fits one. Peaks are of all.
        ops: only steps of these operators.
        observe: is told the steps.

    Raises:
        UserError: a model cannot be read; there is no such input, dimension, name or operator.
    """
    stated = (shapes or {}, assume or {})
    tell = told(observe)
    tell("memory", None, None)
    first = _of(model, *stated)
    if against is not None:
        tell("memory of the other", None, None)
    other = None if against is None else _of(against, *stated)
    return ModelMemory("memory", 1, _kept(first, match, ops), other and _kept(other, match, ops))


def _of(
    source: ModelSource, shapes: Mapping[str, Sequence[int | str]], assume: Mapping[str, int]
) -> MemoryOf:
    model = Model.open(source, stripped=True)
    for name, dims in shapes.items():
        model.set_input_shape(name, tuple(dims))
    if shapes:
        model.infer_shapes()
    names = {dim for one in model.inputs for dim in one.shape or () if isinstance(dim, str)}
    for name, size in assume.items():
        if name not in names:
            raise unknown_name("dynamic dimension", name, sorted(names))
        if size < 1:
            raise UserError(f"--assume {name}={size}: a size is at least 1")
    return memory_of(model, shapes=shapes, assume=assume)


def _kept(whole: MemoryOf, match: Sequence[str], ops: Sequence[str]) -> MemoryOf:
    rows = wanted_rows(whole.steps, lambda s: (s.node, *s.tensors), lambda s: s.op, match, ops)
    return dataclasses.replace(whole, steps=tuple(rows))
