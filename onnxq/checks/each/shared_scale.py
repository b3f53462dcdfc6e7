"""One scale for several tensors that nothing joins: a module that is called more than once, most often."""

from __future__ import annotations

from collections.abc import Iterator

from onnxq.checks import Evidence, Fact, check
from onnxq.checks.evidence import Scaled
from onnxq.graph.moves import MOVES
from onnxq.graph.pairs import is_qdq
from onnxq.graph.view import Node

_JOINS = (*MOVES, "Concat", "Cast")


@check(
    "shared-scale", needs="data", is_cause=True,
)  # fmt: skip
def shared_scales(evidence: Evidence) -> Iterator[Fact]:
    """Tensors that the range of another one leaves few codes, although nothing joins them."""
    for group in evidence.scaled:
        names = [name for name in group.tensors if evidence.histogram(name) is not None]
        if len(names) < 2:
            continue
        widest = max(names, key=lambda name: evidence.tensors[name].amax)
        joined = _joined(evidence, group)
        for name in names:
            lost = evidence.loss(name, group.threshold) if name != widest and name not in joined else None
            if lost is None:
                continue
            weight = min(_weights(evidence, name) & _weights(evidence, widest), default=None)
            node, op = evidence.reader(name)
            yield Fact(
                "shared-scale.called" if weight else "shared-scale", (node, op, name),
                {
                    "name": name, "reach": evidence.tensors[name].amax,
                    "widest": widest, "widest_reach": evidence.tensors[widest].amax,
                    "scale": f" ({group.scale!r})" if group.scale else "", "weight": weight,
                    "command": evidence.command, "db": lost[0], "alone": lost[1],
                },
            )  # fmt: skip


def _joined(evidence: Evidence, group: Scaled) -> set[str]:
    """The tensors of a group that a Concat, or what only moves values, has beside another one of them."""
    members, joined = set(group.tensors), set[str]()
    for node in evidence.nodes:
        if node.domain or node.op not in _JOINS:
            continue
        around = {evidence.measured(source) for source in node.inputs}
        around |= {out.name for out in node.outputs}
        if len(around & members) > 1:
            joined |= {name for name in around & members if name is not None}
    return joined


def _weights(evidence: Evidence, tensor: str) -> set[str]:
    """The constants that the products which read a tensor multiply it by."""
    weights = set[str]()
    for node in evidence.nodes:
        if node.op in ("Conv", "ConvTranspose", "Gemm", "MatMul") and not node.domain:
            data, weight = node.operands(2)
            if data is not None and weight is not None and evidence.measured(data) == tensor:
                weights.add(_constant(weight.producer) or weight.name)
    return weights


def _constant(maker: Node | None) -> str | None:
    """The constant that a dequantized weight comes from."""
    while maker is not None and is_qdq(maker) and maker.inputs[0] is not None:
        if maker.inputs[0].is_constant:
            return maker.inputs[0].name
        maker = maker.inputs[0].producer
    return None
