"""A batch that the user states, of a model that has another one written in: it is made dynamic."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from onnxq.base.errors import UserError
from onnxq.base.grouped import reached
from onnxq.base.reason import noted
from onnxq.data.layout import deployed_batch
from onnxq.data.samples import InputSpec
from onnxq.graph.baked import baked_sizes
from onnxq.graph.batching import RECURRENT, STATES, Batching, BatchPlace, NotBatched
from onnxq.graph.model import Model
from onnxq.graph.names import free_name
from onnxq.graph.types import Shape
from onnxq.graph.view import Tensor
from onnxq.options.settings import Batch
from onnxq.rewrite.changes import DYNAMIC_BATCH, Change
from onnxq.rewrite.proof import Proof
from onnxq.rewrite.whole import Differs, WholeModel

_SIZES = (1, 2, 5)
_MOST = 8
"""Batches at which a model is compared with one run for each sample; and up to which the largest one is."""


@dataclass(frozen=True, slots=True)
class StatedBatch:
    """How a batch is made dynamic.

    Attributes:
        axes: of the inputs that have a batch the axis that it is.
        shapes: of all inputs, at the batch that is written in.
        symbol: what it is called.
    """

    axes: Mapping[str, int]
    shapes: Mapping[str, Shape]
    symbol: str

    def write(self, model: Model) -> tuple[list[str], dict[str, BatchPlace]]:
        """Makes it dynamic in the model; returns the nodes that had it, and where tensors have it.

        Raises:
            NotBatched: a node keeps it.
        """
        batching = Batching(model, self.axes, self.shapes)
        rows = batching.run(self.symbol)
        return batching.changed, rows


def stated_batch(
    opened: Callable[[], Model],
    whole: WholeModel,
    specs: Sequence[InputSpec],
    batch: Batch | Mapping[str, Batch] | None,
) -> tuple[StatedBatch, Model, Change] | None:
    """Makes the batch of a model dynamic, where one is stated and the model has another.

    Args:
        opened: opens the model, anew each time.
        whole: runs it.
        specs: its inputs.
        batch: what is stated.

    Returns:
        How, the model, and what is said of it; None where nothing is stated or nothing is to be done.

    Raises:
        UserError: a node keeps the model at its batch, or it does not run.
    """
    names = deployed_batch(specs, stated=True) if batch else []
    firsts = {spec.name: spec.shape[0] for spec in specs if spec.name in names and spec.shape}
    if not batch or not firsts:
        return None
    model = opened()
    is_named = not all(isinstance(dim, int) for dim in firsts.values())
    baked = {one.symbol: one.size for one in baked_sizes(model)} if is_named else {}
    (feeds, *_) = whole.made_up(1, baked) or [{}]
    size = feeds[next(iter(firsts))].shape[0] if feeds else 0
    if is_named and (not size or (size > 1 and not baked)):
        return None  # it runs in batches, or nobody knows
    if not feeds:
        raise UserError(
            f"--batch: whether the model's batch can be another one is not known: {whole.why}",
            hint=_HINT,
        )
    taken = model.dim_symbols()
    symbol = next((dim for dim in firsts.values() if isinstance(dim, str)), None) or free_name("batch", taken)
    axes = dict.fromkeys(firsts, 0) | {one.name: 1 for one in model.inputs if _is_state(one)}
    axes = {name: axis for name, axis in axes.items() if feeds[name].shape[axis] == size}
    shapes = {name: array.shape for name, array in feeds.items()}
    largest = max(high for _, _, high in (batch.values() if isinstance(batch, Mapping) else [batch]))
    sizes = sorted({size, *_SIZES, *([largest] if largest <= _MOST else [])})
    found = StatedBatch(axes, shapes, symbol)
    try:
        nodes, places = found.write(model)
        if not nodes and is_named:
            return None
        said = whole.compare_stacked(model, places, size, sizes, baked)
    except (NotBatched, Differs) as error:
        raise UserError(noted("dynamic-batch.not", size=size, why=error), hint=_HINT) from error
    proof = Proof(said.verdict, len(sizes), len(sizes), said.max_abs)
    told = noted("dynamic-batch", size=size, sizes=", ".join(map(str, sizes)))
    return found, model, Change(DYNAMIC_BATCH, "upgrade", told, (), tuple(nodes), proof)


_CUTS = ("Gather", "Slice", "Split", "Squeeze", "Unsqueeze")
_HINT = "export the model with a dynamic batch, or leave --batch out"


def _is_state(tensor: Tensor) -> bool:
    """Whether an input has the first states of recurrent layers, whose second axis is the batch."""
    parts = reached(
        [tensor], lambda one: (out for node in one.users if node.op in _CUTS for out in node.outputs)
    )
    readers = ((one, node) for one in parts for node in one.users if node.op in RECURRENT)
    return any(one in node.operands(7)[STATES] for one, node in readers)
