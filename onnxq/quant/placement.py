"""Asks the placement rules, and makes the plan of what they say."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from onnxq.base.errors import UserError, unknown_name
from onnxq.base.grouped import grouped
from onnxq.base.patterns import fits
from onnxq.base.reason import Reason, code_of, noted, reason
from onnxq.formats import FORMATS
from onnxq.graph.fold import fixed_tensors
from onnxq.graph.layers import has_inner_products, layer_of, multiplies
from onnxq.graph.model import Model
from onnxq.graph.pairs import is_dequantized, own_format
from onnxq.graph.types import is_float
from onnxq.graph.view import Node, Tensor
from onnxq.quant.plan import QuantPlan, joint_reason
from onnxq.quant.resolve import Resolver, is_whole, of_other_codes
from onnxq.rule.api import Fact, Float, Follow, Quantize, Read, Rule, Skip, Together
from onnxq.rule.told import told

_USERS_VETO = "--keep-float"

SUMS = ("Add", "Sum")
"""What may be told which inputs it reads quantized."""


def make_plan(
    model: Model,
    rules: Sequence[Rule],
    keep_float: Sequence[str] = (),
    vetoes: Mapping[str, str] | None = None,
    wanted: Mapping[str, Sequence[int]] | None = None,
    keep_float_op: Sequence[str] = (),
    formats: Mapping[str, str] | None = None,
) -> QuantPlan:
    """Asks the placement rules and resolves what they say.

    Args:
        model: a sanitized model; nodes in subgraph bodies stay in float.
        rules: the rules that are on; those of stage `place` are asked.
        keep_float: names of nodes to keep in float, as globs; what is no node's name is an operator.
        vetoes: names of nodes that have to stay in float, and why.
        wanted: names of nodes that are quantized although rules leave them in float, if they can be; with
            the inputs that a sum reads quantized, and no other ones, or none: those that the rules name.
        keep_float_op: operators to keep in float.
        formats: the number formats of nodes, by name, that are others than the target's first. A product of
            codes that the model itself has keeps theirs.

    Q/DQ pairs that the model has stay as they are; what they quantize gets no other pair.

    Raises:
        UserError: a glob of `keep_float`, or an operator, matches no node, or one that the model itself
            quantizes.
    """
    nodes = model.nodes
    own = {node.name: held for node in nodes if multiplies(node) and (held := own_format(node))}
    model.layer_formats = {**(formats or {}), **{n: held for n, held in own.items() if held in model.formats}}
    wishes: list[Quantize] = []
    follows: dict[Node, list[Follow]] = {}
    reads: list[Read] = []
    together: list[Together] = []
    skipped: dict[Node, Reason] = {}
    forced, wanted = vetoes or {}, wanted or {}
    refused = {node: forced[node.name] for node in nodes if node.name in forced}
    named = [(f"{_USERS_VETO} {glob}", of_name(nodes, glob)) for glob in keep_float]
    named += [(f"{_USERS_VETO}-op {op}", _of_operator(nodes, op)) for op in keep_float_op]
    refused.update(_user_vetoes(named))
    by_root = grouped((root, rule) for rule in rules if rule.stage == "place" for root in rule.roots)
    for node in nodes:
        inputs = wanted.get(node.name, ())
        wishes += [Quantize(node, index, because=noted("wanted.inputs")) for index in inputs]
        for rule in by_root.get(node.op, ()) if not node.domain else ():
            for fact in _facts(rule, node, skipped):
                if isinstance(fact, Quantize | Read) and wanted.get(fact.node.name):
                    continue
                if isinstance(fact, Quantize):
                    wishes.append(fact)
                elif isinstance(fact, Follow):
                    follows.setdefault(fact.node, []).append(fact)
                elif isinstance(fact, Read):
                    reads.append(fact)
                elif isinstance(fact, Together):
                    together.append(fact)
                elif isinstance(fact, Float) and fact.node.name not in wanted:
                    why = Reason(code_of(fact.because) or "rule", fact.because, rule.id)
                    refused.setdefault(fact.node, why)
    asked = {wish.node for wish in wishes}
    wishes += [w for n in nodes if n.name in wanted and n not in asked for w in _as_layer(n)]
    for wish in wishes:
        tensor = wish.node.inputs[wish.input]
        if tensor is not None and tensor.dtype is None:
            unknown = reason("unknown-type", tensor=tensor.name)
            refused.setdefault(wish.node, unknown)
    fixed = fixed_tensors(nodes)
    wishes, together = settle(wishes, together, refused, fixed)
    resolver = Resolver(set(nodes), follows, reads, refused, fixed, skipped)
    for wish in wishes:
        resolver.want(wish)
    resolver.follow()
    plan = resolver.plan(nodes, together, FORMATS[next(iter(model.formats))])
    return replace(plan, other_macs=None) if has_inner_products(model) else plan


def _as_layer(node: Node) -> list[Quantize]:
    """What a layer needs to run quantized."""
    if not multiplies(node):
        return []
    layer = layer_of(node, quantized=True)
    axes = {} if layer is None else {layer.index: layer.axis}
    why = noted("wanted", format=node.format.name)
    return [Quantize(node, i, axis=axes.get(i), because=why) for i in (0, 1)]


def of_name(nodes: Sequence[Node], glob: str) -> list[Node]:
    """The nodes whose names a glob matches; where none is, those of the operator that it names.

    Raises:
        UserError: there are none.
    """
    operators = [node for node in nodes if node.op == glob]
    if named := [node for node in nodes if fits([node.name], [glob])] or operators:
        return named
    raise unknown_name("node", glob, [*(node.name for node in nodes), *sorted({node.op for node in nodes})])


def _of_operator(nodes: Sequence[Node], op: str) -> list[Node]:
    if named := [node for node in nodes if node.op == op]:
        return named
    raise unknown_name("operator", op, sorted({node.op for node in nodes}))


def _user_vetoes(named: Iterable[tuple[str, Sequence[Node]]]) -> dict[Node, str]:
    vetoes: dict[Node, str] = {}
    for flag, nodes in named:
        for node in nodes:
            refuse_quantized(node, flag)
            vetoes[node] = Reason("keep-float", flag, "user")
    return vetoes


def is_quantized(node: Node) -> bool:
    """Whether the model itself quantizes what a node reads: then its pairs stay, whatever is asked for."""
    return any(is_dequantized(tensor) for tensor in node.inputs if tensor is not None)


def refuse_quantized(node: Node, flag: str) -> None:
    """Refuses a node that is to be in float by a flag, and reads what the model itself quantizes.

    Raises:
        UserError: it is one.
    """
    if is_quantized(node):
        raise UserError(
            f"{flag}: the model itself quantizes node {node.name!r}, its pairs stay",
            hint="start from the float model, or leave the flag out",
        )


def _facts(rule: Rule, node: Node, skipped: dict[Node, Reason]) -> list[Fact]:
    """What a placement rule says about a node.

    Args:
        rule: the rule.
        node: the node.
        skipped: the nodes that a rule knows and leaves alone, and why; what this one says is added.

    Raises:
        UserError: the rule fails.
    """
    try:
        return list(rule(node) or ())
    except Skip as skip:
        skipped.setdefault(node, Reason("rule", str(skip), rule.id))
        return []
    except Exception as error:
        raise UserError(
            f"placement rule {rule.id!r} fails at node {node.name!r}: {told(error, rule.path)}",
            hint=f"it is in {rule.path or 'no file'}; leave it out: "
            f'skip = ["{rule.id}"] under [repair] of onnxq.toml',
        ) from error


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
