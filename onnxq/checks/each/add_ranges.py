"""An Add whose small addend the scale of the sum rounds away."""

from __future__ import annotations

from collections.abc import Iterator

from onnxq.checks import Evidence, Fact, check, keep_float
from onnxq.checks.limits import FAINT_DB
from onnxq.graph.view import Node, Tensor

_BEHIND = ("Relu", "Clip")


@check("add-ranges", needs="data")
def add_ranges(evidence: Evidence) -> Iterator[Fact]:
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
        readers = evidence.layers_behind(node.outputs[0].name)
        yield Fact(
            "add-ranges", (node.name, node.op, small),
            {
                "small": small, "large": large,
                "small_reach": evidence.tensors[small].amax, "large_reach": evidence.tensors[large].amax,
                "command": keep_float(evidence, readers) or evidence.command,
                "step": threshold / evidence.greatest(node.outputs[0].name), "db": left,
            },
        )  # fmt: skip


def _of_sum(evidence: Evidence, node: Node) -> float | None:
    """The magnitude of the largest code of a sum, or of what an activation makes of it."""
    tensor: Tensor = node.outputs[0]
    threshold = evidence.threshold(tensor.name)
    if threshold is None and len(tensor.users) == 1 and tensor.users[0].op in _BEHIND:
        threshold = evidence.threshold(tensor.users[0].outputs[0].name)
    return threshold
