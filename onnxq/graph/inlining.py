"""The model's own functions, put where they are called, by ONNX's rules (`onnx.inliner`).

onnxruntime differs from these in two places. An operator that it knows goes before a function of that name:
so it does here, where it is ONNX's own operator (ONNX leaves that to the runtime). And it reads a function as
one of the model's opset, whatever the function imports: here that is what it means.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import onnx
from onnx import helper, inliner, version_converter

from onnxq.base.errors import UserError
from onnxq.base.reason import noted
from onnxq.graph.load import graphs
from onnxq.graph.names import free_name
from onnxq.graph.source import copy_model

Part = onnx.GraphProto | onnx.FunctionProto
Key = tuple[str, str, str]
"""Domain, name and overload."""


@dataclass(frozen=True, slots=True)
class Inlining:
    """A model without calls of its own functions, as far as that goes.

    Attributes:
        model: the model; the one that was given where it has no functions.
        hidden: functions that ONNX has an operator in the place of, which is what the model calls.
        converted: those whose operators mean something else in the opset that they import than in the
            model's, or than in that of the result.
        left: those that stay functions: no conversion of what they call is known.
    """

    model: onnx.ModelProto
    hidden: tuple[str, ...] = ()
    converted: tuple[str, ...] = ()
    left: tuple[str, ...] = ()

    def notes(self) -> Iterator[str]:
        """What the user should know of it."""
        yield from (noted("own-function.hidden", function=name) for name in self.hidden)
        yield from (noted("own-function.converted", function=name) for name in self.converted)
        yield from (noted("own-function.left", function=name) for name in self.left)


def inlined(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model of `inlining`.

    Raises:
        UserError: a function cannot be put where it is called.
    """
    return inlining(model).model


def own_calls(model: onnx.ModelProto, result: onnx.ModelProto) -> list[tuple[str, str]]:
    """The names and operators of a model's nodes that call functions which `inlined` put in their place."""
    gone = {*map(_key, model.functions)} - {*map(_key, result.functions)}
    called = [node for node in model.graph.node if _called(node) in gone]
    return [(node.name, f"{node.domain}.{node.op_type}") for node in called]


def inlining(model: onnx.ModelProto) -> Inlining:
    """A model whose nodes are no calls of its own functions.

    Args:
        model: the model; it is not modified. Its functions do not call themselves (`graph/validity.py`).

    Raises:
        UserError: a function cannot be put where it is called.
    """
    if not model.functions:
        return Inlining(model)
    model = copy_model(model)
    hidden = [one for one in model.functions if _meaning(one.domain, one.name, _imports(model)) is not None]
    for function in hidden:
        model.functions.remove(function)
    names = tuple(function.name for function in hidden)
    _give_defaults(model)
    _make_outputs(model)
    apart, others = copy_model(model), list[str]()
    try:
        opset = _tell_apart(apart, others)
        result = inliner.inline_local_functions(apart)
        _import_all(apart, result)
        convert(result, opset, _APART)
    except NoConversion:
        return Inlining(model, names, left=tuple(others))
    except Exception as error:  # classes of onnx's C++ part without a common base
        raise UserError(
            f"the model's own functions cannot be put where they are called: {error}",
            hint="export the model again without functions of its own",
        ) from error
    return Inlining(result, names, tuple(others))


_ONNX = ""
"""The domain of ONNX's own operators."""

_APART = "onnxq.opset"
"""The domain of nodes that are still of another opset than the model, with its version behind it."""


def _tell_apart(model: onnx.ModelProto, others: list[str]) -> int:
    """Gives nodes that mean something else in the opset that all are to be of a domain of their own.

    Args:
        model: the model; then all of it imports that opset.
        others: gets the names of the functions that hold such nodes.

    Returns:
        That opset: the model's, or that of a function which is newer.

    Raises:
        NoConversion: they are of another domain than ONNX's first one.
    """
    own, keys = _imports(model), set(map(_key, model.functions))

    def differing(part: Part, theirs: dict[str, int], opset: int) -> list[onnx.NodeProto]:
        wanted = {**theirs, **own, _ONNX: opset}

        def differs(domain: str, name: str) -> bool:
            meaning = _meaning(domain, name, theirs)
            known = meaning is not None and meaning == _meaning(domain, name, wanted)
            return theirs.get(domain) != wanted.get(domain) and not known

        nodes = [node for node in _nodes(part) if _called(node) not in keys]
        return [node for node in nodes if differs(_plain(node.domain), node.op_type)]

    opset = first = own.get(_ONNX, 0)
    for function in model.functions:
        theirs = _imports(function)
        if differing(function, theirs, first):
            others.append(function.name)
            opset = max(opset, theirs.get(_ONNX, 0))
    for part, theirs in [(model.graph, own), *((one, _imports(one)) for one in model.functions)]:
        found = differing(part, theirs, opset)
        if found and isinstance(part, onnx.FunctionProto):
            others += [part.name] if part.name not in others else []
            part.opset_import.add(domain=f"{_APART}{theirs[_ONNX]}", version=1)
        for node in found:
            if _plain(node.domain):
                raise NoConversion(node.domain)
            node.domain = f"{_APART}{theirs[_ONNX]}"
    for holder in (model, *model.functions):
        for entry in holder.opset_import:
            domain = _plain(entry.domain)
            entry.version = own.get(domain, entry.version) if domain else opset
    return opset


def _import_all(model: onnx.ModelProto, result: onnx.ModelProto) -> None:
    """Has the result import what the functions did and the model need not."""
    known = _imports(result)
    for function in model.functions:
        for domain, version in _imports(function).items():
            if domain not in known:
                known[domain] = version
                result.opset_import.add(domain=domain, version=version)


def _give_defaults(model: onnx.ModelProto) -> None:
    """Gives calls the attributes that functions have by default: the inliner forgets them."""
    defaults = {_key(one): one.attribute_proto for one in model.functions if one.attribute_proto}
    for part in (model.graph, *model.functions) if defaults else ():
        for node in _nodes(part):
            given = {attribute.name for attribute in node.attribute}
            node.attribute.extend(one for one in defaults.get(_called(node), ()) if one.name not in given)


def _make_outputs(model: onnx.ModelProto) -> None:
    """Has nodes make outputs that are inputs of a function, or named twice: the inliner forgets them."""
    for function in model.functions:
        seen = set(function.input)
        taken = {name for node in _nodes(function) for name in (*node.input, *node.output)} | seen
        for place, name in enumerate(function.output):
            if name in seen:
                function.output[place] = free_name(name, taken)
                function.node.add(op_type="Identity", input=[name], output=[function.output[place]])
            seen.add(name)


def _nodes(part: Part) -> Iterator[onnx.NodeProto]:
    for graph in graphs(part):
        yield from graph.node


def _plain(domain: str) -> str:
    return "" if domain == "ai.onnx" else domain


def _key(function: onnx.FunctionProto) -> Key:
    return _plain(function.domain), function.name, getattr(function, "overload", "")


def _called(node: onnx.NodeProto) -> Key:
    return _plain(node.domain), node.op_type, getattr(node, "overload", "")


def _imports(holder: onnx.ModelProto | onnx.FunctionProto) -> dict[str, int]:
    return {_plain(entry.domain): entry.version for entry in holder.opset_import}


def _meaning(domain: str, name: str, imports: dict[str, int]) -> object:
    """What an operator of ONNX's own is with some imports: its schema but for types; None where it is none.

    Where attributes, defaults, inputs and outputs are those of another version, one of the two only takes
    more types, or its text was made clearer.
    """
    domain = _plain(domain)
    version = imports.get(domain, 0)
    if not version or not onnx.defs.has(name, version, domain):
        return None
    schema = onnx.defs.get_schema(name, version, domain)
    attributes = {
        (key, one.type, one.required, one.default_value.SerializeToString())
        for key, one in schema.attributes.items()
    }
    formal = [(one.option, one.is_homogeneous) for one in (*schema.inputs, *schema.outputs)]
    return frozenset(attributes), tuple(formal), len(schema.inputs), schema.min_input, schema.deprecated


_NOT_CONVERTED = {"Hardmax"}
"""What the converter takes for the same although it is not: up to opset 12 over all axes from `axis` on."""

_OLD_RESIZE = {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
"""What Upsample, and Resize of opset 10, did, and the converter does not say."""

_SCALE_A_CHANNEL = 21
"""From here on GroupNormalization has a scale for each channel, which the converter does not say either."""


class NoConversion(Exception):
    """Nothing says what a node is in another opset."""


def convert(model: onnx.ModelProto, opset: int, mark: str) -> None:
    """Converts nodes whose domain says of which opset they are, in place; then all are of one.

    Args:
        model: the model.
        opset: the version that all nodes are to be of.
        mark: how these domains begin; the version follows.

    Raises:
        NoConversion: there is none of one of them.
    """
    held = list(graphs(model.graph))[::-1]  # inner before outer: of what is changed in a body a copy is made
    taken = {name for graph in held for node in graph.node for name in (*node.input, *node.output)}
    taken.update(info.name for graph in held for info in (*graph.input, *graph.initializer))
    for graph in held:
        nodes: list[onnx.NodeProto] = []
        for node in graph.node:
            if node.domain.startswith(mark):
                nodes += _converted(node, int(node.domain.removeprefix(mark)), opset, taken)
            else:
                nodes.append(node)
        kept = [_copy(node) for node in nodes]
        del graph.node[:]
        graph.node.extend(kept)
    imports = [entry for entry in model.opset_import if not entry.domain.startswith(mark)]
    kept_imports = [(entry.domain, entry.version) for entry in imports]
    del model.opset_import[:]
    for domain, version in kept_imports:
        model.opset_import.add(domain=domain, version=version)


def _converted(node: onnx.NodeProto, version: int, opset: int, taken: set[str]) -> list[onnx.NodeProto]:
    """What a node is in another opset: nodes that give the same outputs."""
    if any(attribute.HasField("g") for attribute in node.attribute) or node.op_type in _NOT_CONVERTED:
        raise NoConversion(node.op_type)
    single = _copy(node)
    single.domain = ""
    own = [name for name in dict.fromkeys((*node.input, *node.output)) if name]
    graph = onnx.GraphProto(name="single", node=[single])
    graph.input.extend(onnx.ValueInfoProto(name=name) for name in own if name in node.input)
    graph.output.extend(onnx.ValueInfoProto(name=name) for name in own if name in node.output)
    for info in (*graph.input, *graph.output):  # the converter asks for a type, and looks at none
        info.type.tensor_type.elem_type = onnx.TensorProto.FLOAT
    model = onnx.ModelProto(ir_version=8, graph=graph)
    model.opset_import.add(domain="", version=version)
    if node.op_type == "GroupNormalization" and version < _SCALE_A_CHANNEL <= opset:
        found = _groups_as_channels(single)
    else:
        try:
            result = version_converter.convert_version(model, opset).graph
        except Exception as error:  # classes of onnx's C++ part without a common base
            raise NoConversion(f"{node.op_type}: {error}") from error
        found = [helper.make_node("Constant", [], [one.name], value=one) for one in result.initializer]
        found += result.node
    renamed = {name: name for name in ("", *own)}
    for one in found:
        if one.op_type == "Resize" and version < 11 <= opset:
            one.attribute.extend(helper.make_attribute(*entry) for entry in _OLD_RESIZE.items())
    for one in found:
        for name in one.output:
            if name not in renamed:
                renamed[name] = free_name(f"{node.output[0]}_{name}", taken)
    for place, one in enumerate(found):
        one.input[:] = [renamed[name] for name in one.input]
        one.output[:] = [renamed[name] for name in one.output]
        one.name = node.name if len(found) == 1 else f"{node.name or node.output[0]}_{place}"
    return found


def _groups_as_channels(node: onnx.NodeProto) -> list[onnx.NodeProto]:
    """A GroupNormalization with a scale for each group: its groups become the channels of another one."""
    x, y = node.input[0], node.output[0]
    (groups,) = (one.i for one in node.attribute if one.name == "num_groups")
    node.input[0], node.output[0] = "groups", "normal"
    return [
        helper.make_node("Constant", [], ["form"], value_ints=[0, groups, -1]),
        helper.make_node("Reshape", [x, "form"], ["groups"]),
        node,
        helper.make_node("Shape", [x], ["sizes"]),
        helper.make_node("Reshape", ["normal", "sizes"], [y]),
    ]


def _copy(node: onnx.NodeProto) -> onnx.NodeProto:
    copy = onnx.NodeProto()
    copy.CopyFrom(node)
    return copy
