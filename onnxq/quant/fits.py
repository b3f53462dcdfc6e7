"""Biases that were fitted for a layer in int8: what reads them, and what it reads with the layer in float."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from onnxq.graph.model import Model
from onnxq.quant.patches import BIASED, Patches
from onnxq.quant.plan import QuantPlan


@dataclass(frozen=True, slots=True)
class Fit:
    """A fitted bias.

    Attributes:
        layer: the node that it was fitted for.
        node: the node that reads it: the layer, or an Add behind it.
        input: which of its inputs.
        before: the tensor that is read without it; "" for none.
    """

    layer: str
    node: str
    input: int
    before: str


def fits_of(patches: Patches, model: Model) -> tuple[Fit, ...]:
    """The fitted biases among the patches of a model, which is the one without them."""
    nodes = {node.name: node for node in model.nodes}
    makers = {tensor.name: node.name for node in nodes.values() for tensor in node.outputs}
    fits = []
    for name in patches.biases:
        index = BIASED[nodes[name].op]
        old = nodes[name].operands(index + 1)[index]
        fits.append(Fit(name, name, index, "" if old is None else old.name))
    for node in nodes.values():
        for index, tensor in enumerate(node.inputs):
            if tensor is not None and tensor.is_constant and tensor.name in patches.constants:
                others = [t.name for t in node.inputs if t is not None and not t.is_constant]
                layer = next((makers[name] for name in others if name in makers), "")
                fits.append(Fit(layer, node.name, index, tensor.name))
    return tuple(fits)


def within(patches: Patches, model: Model, plan: QuantPlan) -> Patches:
    """What is left of the patches of a model where a plan has fewer layers in int8.

    A layer in float has its own bias and weights again.
    """
    readers = plan.readers
    left = without(patches, [fit for fit in fits_of(patches, model) if fit.layer not in readers])
    weights = {site.tensor for site in plan.sites if site.kind == "weight"}
    return replace(left, codes={name: values for name, values in left.codes.items() if name in weights})


def without(patches: Patches, fits: Iterable[Fit]) -> Patches:
    """Patches but for some fitted biases."""
    biases = {fit.layer for fit in fits if fit.node == fit.layer}
    constants = {fit.before for fit in fits if fit.node != fit.layer}
    return replace(
        patches,
        biases={name: values for name, values in patches.biases.items() if name not in biases},
        constants={name: values for name, values in patches.constants.items() if name not in constants},
    )
