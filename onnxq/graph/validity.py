"""What makes a model invalid whatever its operators are: checked in linear time, when it is read."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import onnx
from google.protobuf.descriptor import FieldDescriptor

from onnxq.base.errors import UserError
from onnxq.graph.order import cycle
from onnxq.graph.stored import KINDS, MOST_DIMS, MOST_VALUES, invalid
from onnxq.graph.types import Shape, shape_text

_UNIQUE = "give each tensor a name of its own; onnx.checker.check_model checks that"
_INLINE = "export the model again without functions of its own"

_SHOWN = 6  # nodes of a cycle
_SHOWN_TEXT = 60  # characters of a name

_DEEPEST = 32
"""Bodies in bodies: protobuf reads messages in messages up to 100, and a body is three of them."""

_MOST_NODES = 1_000_000
"""Of a model whose functions are put where they are called."""

_MOST_CALLS = 100
"""Functions that call one another in a row."""


def check_text(model: onnx.ModelProto, where: str) -> None:
    """Refuses names that are no text: a protobuf message may hold any bytes, and ONNX says UTF-8.

    Args:
        model: the model, subgraph bodies and functions included.
        where: what it is called, for the message.

    Raises:
        UserError: there is one, or bodies stand in bodies too deep.
    """
    todo: list[tuple[Any, int]] = [(model, -1)]
    while todo:
        message, depth = todo.pop()
        if message.DESCRIPTOR.name == "GraphProto":
            depth += 1
            if depth > _DEEPEST:
                raise invalid(where, f"it has bodies in bodies, more than {_DEEPEST} deep")
        for field, value in _parts(message):
            if field.type == FieldDescriptor.TYPE_MESSAGE:
                todo += ((part, depth) for part in (value if field.is_repeated else (value,)))
            elif field.type == FieldDescriptor.TYPE_STRING:
                for text in value if field.is_repeated else (value,):
                    if not isinstance(
                        text, str
                    ):  # what protobuf gives in place of text that it cannot decode
                        raise invalid(where, f"a name is no UTF-8 text: {text[:_SHOWN_TEXT]!r}")


def _parts(message: Any) -> Iterable[tuple[Any, Any]]:
    """The fields of a message that it has; of a tensor not its values, which would be copied."""
    if message.DESCRIPTOR.name != "TensorProto":
        return message.ListFields()  # type: ignore[no-any-return]
    fields = message.DESCRIPTOR.fields_by_name
    texts = ("name", "doc_string", "external_data", "metadata_props")
    return [(fields[name], getattr(message, name)) for name in texts if name in fields]


def check_types(infos: Iterable[onnx.ValueInfoProto], where: str) -> None:
    """Refuses what a model says of its tensors where there is no such tensor.

    Raises:
        UserError: one has an element type that ONNX does not have, or more than `MOST_DIMS` dimensions.
    """
    for info in infos:
        kind = info.type.tensor_type
        if kind.elem_type not in KINDS:
            raise invalid(where, f"{info.name!r} is of type {kind.elem_type}, which ONNX does not have")
        if len(kind.shape.dim) > MOST_DIMS:
            raise invalid(
                where, f"{info.name!r} has {len(kind.shape.dim):,} dimensions, more than {MOST_DIMS}"
            )


def check_names(graph: onnx.GraphProto, where: str, outer: Sequence[set[str]] = ()) -> None:
    """Refuses two definitions of a tensor, outputs that nothing makes, attributes that a function alone has.

    Bodies of the graph are looked at likewise.

    Args:
        graph: the graph.
        where: the model, for the message.
        outer: the tensors of the graphs around it, which its outputs may be.

    Raises:
        UserError: there is one.
    """
    inputs: set[str] = set()
    for info in graph.input:
        if not info.name:
            raise invalid(where, "a graph input has no name")
        if info.name in inputs:
            raise invalid(where, f"there are two inputs {info.name!r}", _UNIQUE)
        inputs.add(info.name)
    made = {*inputs, *(t.name for t in graph.initializer), *(s.values.name for s in graph.sparse_initializer)}
    _refuse_again(graph.node, made, where)
    for info in graph.output:
        if info.name not in made and not any(info.name in names for names in outer):
            what = f"nothing makes its output {info.name!r}" if info.name else "an output has no name"
            raise invalid(where, what)
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.ref_attr_name:
                what = f"attribute {attribute.name!r} of node {node.name!r} takes its value from a function's"
                raise invalid(where, f"{what} {attribute.ref_attr_name!r}, and is in no function")
            if attribute.HasField("g"):
                check_names(attribute.g, where, (*outer, made))


def _refuse_again(nodes: Iterable[onnx.NodeProto], made: set[str], where: str) -> None:
    """Refuses nodes that make what is made already; what they make is added."""
    for node in nodes:
        if not node.op_type:
            raise invalid(where, f"node {node.name or next(iter(node.output), '')!r} has no operator")
        for name in node.output:
            if name and name in made:
                raise invalid(where, f"tensor {name!r} is defined more than once", _UNIQUE)
            made.add(name)


def check_opsets(model: onnx.ModelProto, where: str) -> None:
    """Refuses two versions of a domain's operators, one that is none, and ONNX's own without any.

    Raises:
        UserError: there are.
    """
    versions: dict[str, int] = {}
    for entry in model.opset_import:
        domain = "" if entry.domain == "ai.onnx" else entry.domain
        of = f" of {domain!r}" if domain else ""
        if not (0 if domain else 1) <= entry.version < 1 << 31:
            raise invalid(
                where, f"opset {entry.version}{of}: versions of operators are small numbers from 1 on"
            )
        if versions.setdefault(domain, entry.version) != entry.version:
            raise invalid(where, f"it imports opset {versions[domain]} and {entry.version}{of}")
    if "" not in versions and any(node.domain in ("", "ai.onnx") for node in all_nodes(model.graph.node)):
        raise invalid(where, "it has operators of ONNX's own, and imports no opset of them")


def check_functions(model: onnx.ModelProto, where: str) -> None:
    """Refuses functions that call themselves, or that make too many nodes where they are called.

    Raises:
        UserError: some do, two have one name, or one does not make what it gives.
    """
    functions: dict[tuple[str, str, str], onnx.FunctionProto] = {}
    for function in model.functions:
        key = (function.domain, function.name, function.overload)
        if not function.name:
            raise invalid(where, "a function has no name", _INLINE)
        if key in functions:
            raise invalid(where, f"there are two functions {function.name!r}", _INLINE)
        functions[key] = function
        made = set(function.input)
        _refuse_again(function.node, made, where)
        refuse_cycle(function, where)
        missing = [name for name in function.output if name not in made]
        if missing:
            raise invalid(
                where, f"function {function.name!r} does not make its output {missing[0]!r}", _INLINE
            )
    if functions:
        _refuse_explosion(model.graph, functions, where)


def _refuse_explosion(
    graph: onnx.GraphProto, functions: dict[tuple[str, str, str], onnx.FunctionProto], where: str
) -> None:
    """Counts what functions become where they are called, each once: from those that call none upwards."""
    calls = {
        key: [
            call
            for node in all_nodes(one.node)
            if (call := (node.domain, node.op_type, node.overload)) in functions
        ]
        for key, one in functions.items()
    }
    sizes: dict[tuple[str, str, str], tuple[int, int]] = {}  # nodes, calls in a row
    for start in functions:
        stack, open_ones = [(start, iter(calls[start]))], {start}
        while stack:
            key, rest = stack[-1]
            waits = next((call for call in rest if call not in sizes), None)
            if waits is None:
                called = [sizes[call] for call in calls[key]]
                own = sum(1 for _ in all_nodes(functions[key].node))
                sizes[key] = (
                    own + sum(nodes for nodes, _ in called), 1 + max((row for _, row in called), default=0),
                )  # fmt: skip
                open_ones.discard(stack.pop()[0])
            elif waits in open_ones:
                raise invalid(
                    where, f"its function {waits[1]!r} calls itself, or others that call it", _INLINE
                )
            else:
                stack.append((waits, iter(calls[waits])))
                open_ones.add(waits)
    name, row = max(((key[1], row) for key, (_, row) in sizes.items()), key=lambda one: one[1])
    if row > _MOST_CALLS:
        raise invalid(
            where, f"its function {name!r} calls others, {row:,} in a row, more than {_MOST_CALLS}", _INLINE
        )
    whole = sum(
        sizes.get((node.domain, node.op_type, node.overload), (1, 0))[0] for node in all_nodes(graph.node)
    )  # fmt: skip
    if whole > _MOST_NODES:
        raise invalid(
            where,
            f"with its functions where they are called it has {whole:,} nodes, more than {_MOST_NODES:,}",
            _INLINE,
        )


def all_nodes(nodes: Iterable[onnx.NodeProto]) -> Iterator[onnx.NodeProto]:
    """Nodes, and those of their bodies."""
    for node in nodes:
        yield node
        for attribute in node.attribute:
            if attribute.HasField("g"):
                yield from all_nodes(attribute.g.node)


def refuse_cycle(graph: onnx.GraphProto | onnx.FunctionProto, where: str) -> None:
    """Refuses a graph in which nodes read each other in a circle.

    Raises:
        UserError: some do.
    """
    nodes = cycle(graph)
    if not nodes:
        return
    names = [repr(node.name or next(filter(None, node.output), "")) for node in nodes]
    if len(nodes) == 1:
        what = f"node {names[0]} ({nodes[0].op_type}) reads its own output"
    else:
        shown = names if len(names) <= _SHOWN else [*names[: _SHOWN - 1], "...", names[-1]]
        what = f"{len(nodes)} nodes read each other in a cycle: {' -> '.join([*shown, names[0]])}"
    raise invalid(where, what)


def check_sizes(inputs: Iterable[tuple[str, Shape | None]]) -> None:
    """Refuses inputs that no sample fits, before memory is asked for.

    Args:
        inputs: their names and shapes.

    Raises:
        UserError: the sizes of one make more than 2^31 values, or one of them is negative.
    """
    for name, shape in inputs:
        sizes = [dim for dim in shape or () if isinstance(dim, int)]
        said = f"input {name!r} takes {shape_text(shape)}"
        if any(size < 0 for size in sizes):
            raise UserError(f"{said}: a size is at least 0", hint="give the file as onnxq wrote it")
        if math.prod(sizes) > MOST_VALUES:
            raise UserError(
                f"{said}, more than {MOST_VALUES:,} values, which no memory holds",
                hint="export the model with a smaller one, or with a dynamic dimension",
            )
