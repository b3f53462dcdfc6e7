"""What a target does not take of a model, by its table and by the compiler that is here, and what to do."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import onnx

from onnxq.checks.lint import lint_pairs
from onnxq.documents.changes import NotTaken
from onnxq.documents.engine import EnginePart
from onnxq.graph.features import needs, remedy
from onnxq.graph.model import Model
from onnxq.graph.named import named
from onnxq.graph.statements import deciding_numbers, shape_of
from onnxq.graph.view import Node, every_node
from onnxq.options.command_line import without_refused
from onnxq.run import trt
from onnxq.targets import COMPILER, NAMES, Target, load_target, with_plugin

_ADVICE = (
    "{title} has no importer for it: replace it before the export, cut the model in front of it, or "
    "write a plugin"
)
_CHANGE = "change it before the export, or cut the model in front of it"
_FOLD = "give sizes with --shape or values with --freeze, so that it becomes a constant; else "


def unsupported(model: Model, target: Target) -> list[NotTaken]:
    """The nodes that the target does not take, and what the user can do."""
    lacks = []
    if model.opset > target.max_opset:
        newer = (
            f"opset {model.opset} is newer than {target.max_opset}, the last that {target.title} documents"
        )
        export = f"export with opset {target.max_opset}, if the importer stumbles over a newer operator"
        lacks.append(NotTaken("", "", newer, export))
    for kind, entries, what in (
        ("input", model.inputs, "names into numbers"),
        ("output", model.outputs, "numbers into names"),
    ):
        for entry in entries:
            if entry.dtype is not None and entry.dtype.kind in "OUS":
                reason = f"{kind} {entry.name!r} holds strings, which TensorRT does not have"
                advice = f"leave it out with onnxq extract, and turn {what} on the host"
                lacks.append(NotTaken("", "", reason, advice))
    for entry in model.inputs:
        flag = shape_of(entry) if entry.shape is None else ""
        if flag:
            reason = f"how many dimensions input {entry.name!r} has is not known"
            lacks.append(NotTaken("", "", reason, f"state it: onnxq sanitize {flag}"))
    takes = named(model)
    for node in every_node(model):
        for reason, advice in _refusals(node, target):
            lacks.append(NotTaken(node.name, node.op, reason, without_refused(advice, takes)))
    return lacks


def deciding_inputs(model: Model) -> list[str]:
    """Of each integer input that decides sizes or places: what an engine wants for it, and what to state."""
    return [
        f"the numbers in input {name!r} decide sizes or places ({node}): an engine of TensorRT is built for "
        "a range of them (their values, in the optimization profile); where they are always the same: "
        f"onnxq sanitize {flag}"
        for name, (node, flag) in deciding_numbers(every_node(model), model.inputs).items()
    ]


def plugin_nodes(model: Model, target: Target) -> list[NotTaken]:
    """The nodes that plugins of the target's own library compute, and what that means for the user."""
    told = f"it is a plugin of {target.title}'s own library; onnxruntime and TensorRT-RTX do not have it"
    advice = (
        "load the library for the build, as trtexec does; here the node is left as it is, nothing behind it "
        "is measured, and no engine is compiled with it"
    )
    return [
        NotTaken(node.name, node.op, told, advice)
        for node in every_node(model)
        if node.op in target.plugins and _is_plugin(node) and not _refusals(node, target)
    ]


def misread_pairs(model: Model) -> list[NotTaken]:
    """The Q/DQ nodes of a model that TensorRT refuses or reads otherwise, and what the user can do."""
    return [NotTaken(one.node, one.op, one.reason, one.advice) for one in lint_pairs(model)]


def _refusals(node: Node, target: Target) -> list[tuple[str, str]]:
    """Why the target does not take a node, and what to do: its operator, else what the node asks of it."""
    advice = target.advice.get(node.op) or _ADVICE.format(title=target.title)
    name = f"{node.domain}.{node.op}"
    if name in target.custom:
        return []
    if _is_plugin(node):
        return [] if node.op in target.plugins else [_without_plugin(node.op, target)]
    if node.domain.startswith("ai.onnx."):  # ONNX's own, and not of the domain that TensorRT reads
        return [(f"{target.title} has no operators of {node.domain}, as {node.op}", advice)]
    if node.domain:
        return [(f"{name} is no operator of ONNX or {target.title}", advice)]
    if not node.is_defined:
        return [(f"{node.op} is no operator of ONNX opset {node.opset}{_first_opset(node)}", advice)]
    if node.op in target.unsupported:
        return [(f"{target.title} does not take {node.op}", advice)]
    return [
        (f"{target.title} does not take {has}", _later(name) + _advice(node, name))
        for name, has in needs(node).items()
        if name in target.lacks
    ]


def _first_opset(node: Node) -> str:
    """From which later opset on ONNX has an operator, where it has."""
    known = [
        schema.since_version
        for schema in onnx.defs.get_all_schemas_with_history()
        if schema.name == node.op and schema.domain == ""
    ]
    return f": ONNX has it from opset {min(known)} on" if known and min(known) > node.opset else ""


def _later(feature: str) -> str:
    """The release from which on TensorRT has a feature, where a table says one."""
    releases = (load_target(name).since.get(feature) for name in NAMES)
    return next((f"build with TensorRT {release} or a newer one, or " for release in releases if release), "")


def _is_plugin(node: Node) -> bool:
    """Whether a plugin of TensorRT's own is looked for: by the operator's name, whatever its domain."""
    of_others = node.is_defined if not node.domain else node.domain.startswith(("com.microsoft", "ai.onnx"))
    return not of_others and bool(with_plugin(node.op))


def _without_plugin(op: str, target: Target) -> tuple[str, str]:
    """That a target's library lacks a plugin, and what to do."""
    first, last = with_plugin(op)[0], with_plugin(op)[-1]
    have = f"{first.title} to {last.title} have it" if first != last else f"{first.title} has it"
    none = "" if target.plugins else ": it has none of TensorRT's"
    there = f"build the engine there (--target {last.name})"
    return f"{target.title} has no plugin {op}{none}; {have}", f"{there}, {_CHANGE}"


def _advice(node: Node, feature: str) -> str:
    """What to do about a feature that the target lacks."""
    flags = remedy(node, feature)
    if flags:
        return f"state it: onnxq sanitize {flags}; else {_CHANGE}"
    return (_FOLD if feature.startswith("runtime-") else "") + _CHANGE


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
            f"NVIDIA's compiler: {error.message}",
            _REFUSED if error.node else _REFUSED_WHOLE,
        )
        for error in errors
    ]


_REFUSED = "replace it before the export, or cut the model there: onnxq split MODEL --at TENSOR"
_REFUSED_WHOLE = (
    "the message names no node of the model: cut it in two (onnxq split MODEL --at TENSOR), see which part "
    "does not compile (onnxq engine PIECE), and go on with that one; inputs of type string or uint64, and "
    "branches of different rank, are the usual reasons"
)
