"""An Add whose small addend the scale of the sum rounds away."""

from __future__ import annotations

from collections.abc import Iterator

from onnxq.checks import Evidence, Said, check, keep_float
from onnxq.checks.limits import FAINT_DB
from onnxq.graph.view import Node, Tensor

_BEHIND = ("Relu", "Clip")


@check("add-ranges", needs="data")
def add_ranges(evidence: Evidence) -> Iterator[Said]:
    """Sums of two activations under a scale of whose steps the smaller one has few."""
    for node in evidence.nodes:
        if node.op != "Add" or node.domain:
            continue
        one, other = (evidence.measured(source) for source in node.operands(2))
        threshold = _of_sum(evidence, node)
        if one is None or other is None or one == other or threshold is None:
            continue
        small, large = sorted((one, other), key=lambda name: evidence.tensors[name].amax)
        left = evidence.db(small, threshold)
        if left >= FAINT_DB:
            continue
        reaches = {name: evidence.tensors[name].amax for name in (small, large)}
        readers = evidence.layers_behind(node.outputs[0].name)
        yield Said(
            node.name, node.op,
            f"it adds {small!r}, up to {reaches[small]:.4g}, to {large!r}, up to {reaches[large]:.4g}",
            "leave what reads the sum in float, or find out why the branches are so unlike: "
            + (keep_float(evidence, readers) or evidence.command),
            tensor=small,
            consequence=f"one step of the sum is {threshold / evidence.greatest(node.outputs[0].name):.3g}: "
            f"the smaller has {left:.1f} dB",
            db=left,
        )  # fmt: skip


def _of_sum(evidence: Evidence, node: Node) -> float | None:
    """The magnitude of the largest code of a sum, or of what an activation makes of it."""
    tensor: Tensor = node.outputs[0]
    threshold = evidence.threshold(tensor.name)
    if threshold is None and len(tensor.users) == 1 and tensor.users[0].op in _BEHIND:
        threshold = evidence.threshold(tensor.users[0].outputs[0].name)
    return threshold
