"""Running an example of a rule that changes the graph."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import onnx

from onnxq.base.errors import unknown_name
from onnxq.base.reason import code_of
from onnxq.graph.model import Model
from onnxq.graph.order import reads
from onnxq.graph.types import dtype_of, is_float
from onnxq.graph.value import operator_names
from onnxq.graph.view import every_node
from onnxq.rewrite.claim import claim_of
from onnxq.rewrite.engine import AT_FAULT, rewrite
from onnxq.rewrite.proof import Proof
from onnxq.rewrite.whole import WholeModel
from onnxq.rule.api import ANY, Assuming, Example, Fires, Interface, Rule, Skip, Skips
from onnxq.rule.examples import ExampleError, check_reasons, opened


def check_rewrite(rule: Rule, example: Example, rules: Sequence[Rule]) -> None:
    """Runs one example of a rule that is no placement rule.

    Raises:
        ExampleError: the rule fires where it should not or the other way round, its proof fails,
            another reason is given, the graph is another one afterwards, or a second run changes
            something again.
    """
    model = opened(example)
    before = model.to_proto()
    _check_stated(example, model)
    chosen = [rule, *(other for other in rules if other.id in example.after)]
    if isinstance(example, Fires):
        model.assumed.update(example.assume)
    report = rewrite(model, chosen, lambda feature: True, whole=WholeModel(model), interface=True)
    fired = [change for change in report.changes if change.rule == rule.id]
    if report.rejected:
        proof = report.rejected[0].proof
        example_text = (
            f"\n{proof.example.text}" if isinstance(proof, Proof) and proof.example is not None else ""
        )
        what = "" if code_of(proof.why) == AT_FAULT else "its proof fails: "
        raise ExampleError(f"{what}{proof.why}{example_text}")
    if isinstance(example, Skips):
        if fired:
            raise ExampleError(f"it fires on {fired[0].node!r}")
        check_reasons(example, [(miss.node, miss.reason) for miss in report.near_misses])
        return
    if not fired:
        reasons = [miss.reason for miss in report.near_misses]
        raise ExampleError(f"it does not fire{f': {reasons[0]}' if reasons else ''}")
    unproved = [change for change in fired if not change.proof.holds]
    if unproved:
        raise ExampleError(f"its change is not proved: {unproved[0].proof.why}")
    left = {node.op for node in every_node(model)}
    if example.gone in left:
        raise ExampleError(f"{example.gone} is still there")
    if example.becomes:
        lines = text_of(model.to_proto(), before)
        if not same_text("\n".join(lines), example.becomes):
            stated = "; ".join(line.strip() for line in example.becomes.splitlines())
            raise ExampleError(f"it becomes\n{'; '.join(lines)}\nand the example says\n{stated}")
    if rule.stage == "compat":
        _check_done(rule, model)
    again = rewrite(_as_if_new(model), chosen, lambda feature: True, prove="never")
    if again.changes:
        raise ExampleError(f"a second run fires again, on {again.changes[0].node!r}")


def _check_stated(example: Example, model: Model) -> None:
    """Refuses an example that speaks of what is not there.

    Raises:
        OnnxqError: no operator has the name of the one that is to go, or no dimension that of an assumed one.
    """
    if isinstance(example, Skips):
        return
    operators = {node.op for node in every_node(model)}
    if example.gone is not None and example.gone not in operators | operator_names():
        raise unknown_name("operator", example.gone, operators | operator_names())
    dims = {dim for one in model.inputs for dim in one.shape or () if isinstance(dim, str)}
    for name in example.assume:
        if name not in dims:
            raise unknown_name("dimension of an input", name, dims)


def _check_done(rule: Rule, model: Model) -> None:
    """Looks for a node that a rule was to repair and that is still there: it answers, and an output is read.

    A node that a `clean` rule takes one output of may stay for another; what a target lacks may not.

    Raises:
        ExampleError: there is one.
    """
    for node in every_node(model):
        if ANY not in rule.roots and node.operator not in rule.roots:
            continue
        try:
            answer = rule(node)
        except Skip:
            continue
        if isinstance(answer, Assuming):
            answer = answer.results
        answer = claim_of(answer)[1]
        if answer is None or isinstance(answer, Interface):
            continue
        answered = set(answer) if isinstance(answer, Mapping) else {0}
        read = {i for i, tensor in enumerate(node.outputs) if tensor.users or tensor.is_output}
        rest = f"output {', '.join(map(str, sorted(read - answered)))}"
        raise ExampleError(
            f"it fires again on {node.name!r}, which stays: it gives no value for {rest}, which is read"
        )


def _as_if_new(model: Model) -> Model:
    """A model as it is after it was saved and opened, for the same target."""
    new = Model.open(model.to_proto())
    new.runtime, new.limits, new.formats = model.runtime, model.limits, model.formats
    new.assumed.update(model.assumed)
    return new


_FEW = 16  # elements of a constant that is written out


def same_text(one: str, other: str) -> bool:
    """Whether two texts say the same: white space, and `;` or a new line, make no difference."""
    return _pieces(one) == _pieces(other)


def _pieces(text: str) -> list[str]:
    pieces = ("".join(piece.split()) for piece in re.split("[;\n]", text))
    return [piece for piece in pieces if piece]


def text_of(model: onnx.ModelProto, before: onnx.ModelProto) -> list[str]:
    """What became of a model, a line each: inputs and outputs of another type or shape, then nodes.

    `a = Sub (x, {1.0, 2.0})` and `y = Mul (a, 3)` are nodes, each after those that it reads and as its first
    reader needs it; the file's order does not count. Names that the model did not have before are _1, _2, ...
    A constant stands where it is read: a number with a point is float32, one without int64, others have
    their type before them; that of a larger one is all that is written.

    Args:
        model: the model.
        before: what it was.
    """
    stated = {info.name: info.type for info in (*before.graph.input, *before.graph.output)}
    lines = [
        f"{info.name}: {_type(info.type)}"
        for info in (*model.graph.input, *model.graph.output)
        if _is_other(stated.get(info.name), info.type)
    ]
    return lines + list(_lines(model.graph, _Names(before.graph), {}))


class _Names:
    """The names of tensors: those of the graph before stay, others are numbered as they are met."""

    def __init__(self, before: onnx.GraphProto) -> None:
        self._known = {name: name for name in _names(before)}
        self._count = 0

    def __getitem__(self, name: str) -> str:
        if name and name not in self._known:
            self._count += 1
            self._known[name] = f"_{self._count}"
        return self._known.get(name, "")


def _names(graph: onnx.GraphProto) -> Iterator[str]:
    yield from (info.name for info in graph.input)
    for node in graph.node:
        yield from node.output
        for attribute in node.attribute:
            yield from _names(attribute.g) if attribute.HasField("g") else ()


def _lines(graph: onnx.GraphProto, names: _Names, constants: Mapping[str, str]) -> Iterator[str]:
    """The nodes of a graph; `constants` are the texts of those of the graphs around it."""
    constants = {**constants, **{tensor.name: _constant(tensor) for tensor in graph.initializer}}
    for node in _in_order(graph):
        read = ", ".join(constants.get(name) or names[name] for name in node.input)
        stated = [f"{a.name} = {_attribute(a, names, constants)}" for a in sorted(node.attribute, key=_name)]
        domain = f"{node.domain}." if node.domain not in ("", "ai.onnx") else ""
        attributes = f" <{', '.join(stated)}>" if stated else ""
        outputs = ", ".join(names[name] for name in node.output)
        yield f"{outputs} = {domain}{node.op_type}{attributes} ({read})"


def _in_order(graph: onnx.GraphProto) -> list[onnx.NodeProto]:
    """The nodes, each after those that it reads: as the outputs need them, then those that none needs."""
    writer = {name: index for index, node in enumerate(graph.node) for name in node.output if name}
    ends = [writer[info.name] for info in graph.output if info.name in writer]
    order: dict[int, None] = {}
    stack = [*range(len(graph.node) - 1, -1, -1), *reversed(ends)]
    while stack:
        needed = [writer[name] for name in reads(graph.node[stack[-1]]) if name in writer]
        missing = [index for index in needed if index not in order]
        stack.extend(reversed(missing))
        if not missing:
            order.setdefault(stack.pop())
    return [graph.node[index] for index in order]


def _name(attribute: onnx.AttributeProto) -> str:
    return attribute.name


def _attribute(attribute: onnx.AttributeProto, names: _Names, constants: Mapping[str, str]) -> str:
    kind = onnx.AttributeProto
    if attribute.type == kind.GRAPH:
        graph = attribute.g
        lines = list(_lines(graph, names, constants))
        inputs = ", ".join(names[info.name] for info in graph.input)
        gives = ", ".join(names[info.name] for info in graph.output)
        return f"({inputs}) => ({gives}) {{ {'; '.join(lines)} }}"
    if attribute.type == kind.TENSOR:
        return _constant(attribute.t)
    value = onnx.helper.get_attribute_value(attribute)
    if attribute.type in (kind.INTS, kind.FLOATS, kind.STRINGS):
        return f"[{', '.join(_item(item) for item in value)}]"
    return _item(value)


def _item(value: object) -> str:
    if isinstance(value, bytes):
        return f'"{value.decode("utf-8", "replace")}"'
    return _number(np.float32(value)) if isinstance(value, float) else str(value)


def _number(value: Any) -> str:
    """A number of an array. Where an exponent begins is Python's: numpy's versions do not agree on it."""
    return repr(float(str(value))) if is_float(getattr(value, "dtype", None)) else str(value)


def _constant(tensor: onnx.TensorProto) -> str:
    """`3.0`, `{1, 2}`, `[2, 1] {1.0, 2.0}`, `int8 {3, 4}`, `int8 [64, 3, 3, 3]`."""
    dtype = dtype_of(tensor.data_type)
    name = "" if dtype in (np.float32, np.int64) else f"{dtype} "
    shape = f"[{', '.join(str(size) for size in tensor.dims)}]"
    if np.prod(tensor.dims, dtype=np.int64) > _FEW:
        return f"{dtype} {shape}"
    values = onnx.numpy_helper.to_array(tensor)
    texts = [_number(value) for value in values.reshape(-1)]
    if values.ndim == 0:
        return f"{name}{texts[0]}"
    return f"{name}{shape + ' ' if values.ndim > 1 else ''}{{{', '.join(texts)}}}"


def _is_other(stated: onnx.TypeProto | None, now: onnx.TypeProto) -> bool:
    """Whether a type is another than the one that was stated, where one was."""
    return stated is None or (bool(stated.tensor_type.elem_type) and _type(stated) != _type(now))


def _type(proto: onnx.TypeProto) -> str:
    sizes: Sequence[object] = [
        dim.dim_param or (dim.dim_value if dim.HasField("dim_value") else "?")
        for dim in proto.tensor_type.shape.dim
    ]
    return f"{dtype_of(proto.tensor_type.elem_type)}[{', '.join(str(size) for size in sizes)}]"
