"""What a target does not take of a model, by its table and by the compiler that is here, and what to do."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import onnx

from onnxq.base.catalogue import Fact
from onnxq.base.reason import noted
from onnxq.checks.each.miscomputed import MISCOMPILE
from onnxq.checks.lint import lint_pairs
from onnxq.checks.load import checks_that_need, found_by
from onnxq.checks.subject import subject_of
from onnxq.documents.changes import NotTaken
from onnxq.documents.engine import EnginePart
from onnxq.graph.features import needs, remedy
from onnxq.graph.inlining import own_calls
from onnxq.graph.model import Model
from onnxq.graph.named import named
from onnxq.graph.statements import deciding_numbers, shape_of
from onnxq.graph.view import Node, every_node
from onnxq.options.command_line import without_refused
from onnxq.run import trt
from onnxq.targets import COMPILER, Target, load_target, taken_from, with_plugin


def _refusal(code: str, /, **values: object) -> tuple[str, str]:
    """Why something is not taken, and what to do, by a row of `base/catalogue/refusals.toml`."""
    fact = Fact(code, values=values)
    return fact.text("refusals"), fact.text("refusals", "do")


def unsupported(model: Model, target: Target) -> list[NotTaken]:
    """The nodes that the target does not take, and what the user can do."""
    lacks = []
    if model.opset > target.max_opset:
        newer = _refusal("newer-opset", opset=model.opset, most=target.max_opset, target=target.title)
        lacks.append(NotTaken("", "", *newer))
    for kind, entries, what in (
        ("input", model.inputs, "names into numbers"),
        ("output", model.outputs, "numbers into names"),
    ):
        for entry in entries:
            if entry.dtype is not None and entry.dtype.kind in "OUS":
                lacks.append(NotTaken("", "", *_refusal("strings", kind=kind, name=entry.name, what=what)))
    for entry in model.inputs:
        flag = shape_of(entry) if entry.shape is None else ""
        if flag:
            lacks.append(NotTaken("", "", *_refusal("unknown-rank", name=entry.name, flag=flag)))
    takes = named(model)
    for node in every_node(model):
        for reason, advice in _refusals(node, target):
            lacks.append(NotTaken(node.name, node.op, reason, without_refused(advice, takes)))
    return lacks


def own_functions(model: Model, target: Target) -> list[NotTaken]:
    """The calls of a model's own functions, where the target knows none; `Model.open` put them in place."""
    if not target.lacks_feature("local-functions"):
        return []
    later = _later("local-functions", target)
    words = _refusal("feature", target=target.title, has=noted("own-function.called"), later=later)
    return [NotTaken(name, op, *words) for name, op in own_calls(model.source, model.envelope)]


def deciding_inputs(model: Model) -> list[str]:
    """Of each integer input that decides sizes or places: what an engine wants for it, and what to state."""
    return [
        noted("deciding-input", name=name, node=node, flag=flag)
        for name, (node, flag) in deciding_numbers(every_node(model), model.inputs).items()
    ]


def plugin_nodes(model: Model, target: Target) -> list[NotTaken]:
    """The nodes that plugins compute, the target's or the user's, and what that means for the user."""
    words, own = _refusal("plugin", target=target.title), _refusal("plugin.own")
    return [
        NotTaken(node.name, node.op, *(own if _is_own(node, target) else words))
        for node in every_node(model)
        if _is_own(node, target)
        or (node.op in target.plugins and _is_plugin(node) and not _refusals(node, target))
    ]


def misread_pairs(model: Model) -> list[NotTaken]:
    """The Q/DQ nodes of a model that TensorRT refuses or reads otherwise, and what the user can do."""
    return [NotTaken(one.node, one.op, one.reason, one.advice) for one in lint_pairs(model)]


def miscomputed(model: Model, target: Target) -> list[NotTaken]:
    """The nodes that releases of the target are known to compute wrongly, and what the user can do."""
    subject = subject_of(model, target.name)
    found = found_by([one for one in checks_that_need("file") if one.kind == MISCOMPILE], subject)
    return [NotTaken(one.node, one.op, f"{one.reason}: {one.consequence}", one.advice) for one in found]


def _refusals(node: Node, target: Target) -> list[tuple[str, str]]:
    """Why the target does not take a node, and what to do: its operator, else what the node asks of it."""
    name = f"{node.domain}.{node.op}"
    if name in target.custom or _is_own(node, target):
        return []
    if _is_plugin(node):
        return [] if node.op in target.plugins else [_without_plugin(node.op, target)]
    first = 0
    if node.domain.startswith("ai.onnx."):  # ONNX's own, and not of the domain that TensorRT reads
        code = "operator.domain"
    elif node.domain:
        code = "operator.other"
    elif not node.is_defined:
        first = _first_opset(node)
        code = "operator.later" if first > node.opset else "operator.undefined"
    elif node.op in target.unsupported:
        code = "operator"
    else:
        return [
            _feature(node, name, has, target) for name, has in needs(node).items() if name in target.lacks
        ]
    later, own = _later(node.op, target) if code == "operator" else "", target.advice.get(node.op)
    why, advice = _refusal(
        code, target=target.title, op=node.op, name=name, domain=node.domain, opset=node.opset, first=first,
        later=later,
    )  # fmt: skip
    return [(why, later + own if own else advice)]


def _first_opset(node: Node) -> int:
    """From which opset on ONNX has an operator, 0 where it has not."""
    known = [
        schema.since_version
        for schema in onnx.defs.get_all_schemas_with_history()
        if schema.name == node.op and schema.domain == ""
    ]
    return min(known, default=0)


def _is_plugin(node: Node) -> bool:
    """Whether a plugin of TensorRT's own is looked for: by the operator's name, whatever its domain."""
    of_others = node.is_defined if not node.domain else node.domain.startswith(("com.microsoft", "ai.onnx"))
    return not of_others and bool(with_plugin(node.op))


def _is_own(node: Node, target: Target) -> bool:
    """Whether a plugin of the user's computes a node."""
    return not target.own_plugins.isdisjoint((node.op, f"{node.domain}.{node.op}"))


def _without_plugin(op: str, target: Target) -> tuple[str, str]:
    """That a target's library lacks a plugin, and what to do."""
    first, last = with_plugin(op)[0], with_plugin(op)[-1]
    have = f"{first.title} to {last.title} have it" if first != last else f"{first.title} has it"
    code = "no-plugin" if target.plugins else "no-plugin.none"
    return _refusal(code, target=target.title, op=op, have=have, last=last.name)


def _feature(node: Node, feature: str, has: str, target: Target) -> tuple[str, str]:
    """That the target lacks a feature of a node, and what to do about it."""
    flags, later = remedy(node, feature), _later(feature, target)
    code = "feature.stated" if flags else "feature.folded" if feature.startswith("runtime-") else "feature"
    return _refusal(code, target=target.title, has=has, later=later, flags=flags)


def _later(what: str, target: Target) -> str:
    """That a later release takes it, in front of what else can be done."""
    release = taken_from(what, target)
    return _refusal("later-release", release=release)[1] if release else ""


def beyond_compiler(model: Model, target: Target) -> dict[str, str]:
    """The operator of each node that the target takes and TensorRT-RTX, which is here, does not."""
    own = {entry.node for entry in unsupported(model, target)}
    here = unsupported(model, load_target(COMPILER))
    return {entry.node: entry.op for entry in here if entry.node and entry.node not in own}


def refused(
    engine: EnginePart,
    told: Sequence[NotTaken],
    ops: Mapping[str, str],
    beyond: Collection[str] = (),
) -> list[NotTaken]:
    """What the compiler says against a model that the target's table does not say already.

    Args:
        engine: the report's part on it.
        told: what the table says.
        ops: the operators of the model's nodes, by name.
        beyond: nodes that the target takes, and the compiler that is here does not.
    """
    if engine.status != "failed":
        return []
    named = {entry.node for entry in told} | set(beyond)
    errors = [error for error in engine.errors if error.node not in named]
    if not engine.errors:
        node = trt.node_of(engine.reason)  # the builder names layers, not nodes
        if node and node in named:
            return []
        op = ops.get(node, "")
        errors = [trt.ParserError(node if op else "", op, engine.reason)]
    return [
        NotTaken(
            error.node,
            error.op,
            *_refusal("compiler.node" if error.node else "compiler", message=error.message),
        )
        for error in errors
    ]
