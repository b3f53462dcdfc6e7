"""What the compiler makes of sums whose quantized inputs a plan file chooses."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from onnxq.base.reason import noted
from onnxq.base.shown import size
from onnxq.compiled.kernels import CODES, Kernel, kernels_of
from onnxq.compiled.reading import operators_of
from onnxq.documents.engine import EnginePart
from onnxq.graph.pairs import pair_of
from onnxq.graph.view import Node
from onnxq.pipeline.building import Built


def told_of_sums(built: Built, engine: EnginePart) -> list[str]:
    """What is to be said of each input that a plan has a sum read quantized, where the engine gains nothing.

    Args:
        built: the result.
        engine: what the compiler made of it.
    """
    asked = built.draft.plan.asked
    if not asked or engine.status != "compiled" or engine.unread:
        return []
    model = built.written.model
    kernels = kernels_of(engine.layers, operators_of(model))
    nodes = {node.name: node for node in model.nodes}
    pairs = built.draft.plan.pairs
    alone = {(e.node, e.input) for pair in pairs if len(pair.readers) == 1 for e in pair.readers}
    return [
        noted("sum-in-plan", node=name, input=index, how=said)
        for name, inputs in asked.items()
        if name in nodes
        for index in inputs
        for said in _said(nodes[name], index, kernels, alone=(name, index) in alone)
    ]


def _said(node: Node, index: int, kernels: Sequence[Kernel], *, alone: bool) -> Iterator[str]:
    """What is to be said of an input of a sum; nothing where a kernel of the sum reads its codes.

    Args:
        node: the sum.
        index: the input.
        kernels: the engine's.
        alone: whether nothing else reads the pair.
    """
    tensor = node.inputs[index]
    pair = None if tensor is None else pair_of(tensor)
    quantizer = None if pair is None else pair.quantizer
    own = [kernel for kernel in kernels if node.name in kernel.nodes]
    if quantizer is None or not own:
        return
    if any(quantizer.name in kernel.nodes for kernel in own):
        read = ", ".join(sorted({tensor.dtype for kernel in own for tensor in kernel.inputs}))
        yield noted("sum-in-engine.rounds", types=read)
    elif not any(tensor.dtype in CODES for kernel in own for tensor in kernel.inputs):
        yield noted("sum-in-engine.float")
    elif alone:
        for kernel in kernels:
            if quantizer.name in kernel.nodes and kernel.is_conversion and kernel.inputs:
                yield noted("sum-in-engine.quantizes", size=size(kernel.moved))
