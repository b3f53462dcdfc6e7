"""Which wishes of placement rules hold, once all vetoes are known."""

from __future__ import annotations

from collections.abc import Sequence

from onnxq.base.grouped import grouped
from onnxq.base.reason import reason
from onnxq.graph.layers import multiplies
from onnxq.graph.pairs import is_dequantized
from onnxq.graph.types import is_float
from onnxq.graph.view import Node, Tensor
from onnxq.quant.plan import joint_reason
from onnxq.quant.resolve import is_whole, of_other_codes
from onnxq.rule.api import Quantize, Together


def settle(
    wishes: Sequence[Quantize], together: Sequence[Together], refused: dict[Node, str], fixed: set[Tensor]
) -> tuple[list[Quantize], list[Together]]:
    """The wishes and the joint decisions that hold, once all vetoes are known.

    What depends on a node in float is float too. A layer of which one wish does not hold has none: half
    quantized it is slower than in float.

    Args:
        wishes: what rules ask for.
        together: what they ask for jointly.
        refused: the nodes that stay in float, and why; the others that have to are added.
        fixed: tensors that depend on no input of the model.
    """
    held = list(wishes)
    asked = grouped((wish.node, wish) for wish in wishes)
    for node in filter(multiplies, asked):
        if why := of_other_codes(node):
            refused.setdefault(node, why)
    members = {node for joint in together for node in joint.nodes}
    finished = {node for node in {*asked, *members} if multiplies(node) and is_whole(node)}
    while True:
        standing = {wish.node for wish in held if wish.node not in refused} | finished
        before = len(held), len(refused)
        held = [w for w in held if w.node in standing and (w.beside is None or w.beside in standing)]
        kept = set(map(id, held))
        for node in dict.fromkeys(wish.node for wish in held if multiplies(wish.node)):
            for wish in asked[node]:
                why = _impossible(wish, fixed)
                if id(wish) not in kept and wish.beside is not None:
                    why = reason("beside", node=wish.beside.name)
                if why:
                    refused.setdefault(node, why)
        standing = {wish.node for wish in held if wish.node not in refused} | finished
        for joint in together:
            out = next((node for node in joint.nodes if node not in standing), None)
            for node in joint.nodes if out is not None else ():
                if node in standing and node not in finished:
                    assert out is not None
                    why = refused.get(out, reason("no-rule.joint"))
                    refused.setdefault(node, joint_reason(why, out.name, joint.because))
        if before == (len(held), len(refused)):
            return held, [joint for joint in together if standing.issuperset(joint.nodes)]


def _impossible(wish: Quantize, fixed: set[Tensor]) -> str:
    """Why an operand cannot have a pair; "" where it can, or the model itself quantizes it."""
    tensor = wish.node.inputs[wish.input]
    if tensor is None:
        return reason("no-input", input=wish.input)
    if is_dequantized(tensor):
        return ""
    if not is_float(tensor.dtype):
        return reason("type", tensor=tensor.name, dtype=tensor.dtype)
    if tensor in fixed and not tensor.is_constant:
        return reason("computed", tensor=tensor.name)
    return ""
