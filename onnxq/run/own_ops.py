"""Functions of the user's on arrays that stand for operators that onnxruntime lacks.

A model is cut at their nodes, and runs in pieces: onnxruntime the pieces, Python what stands between
them. What such a node gives is as the file states it, else as its function does for zeros.
"""

from __future__ import annotations

import inspect
import os
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper

from onnxq.base.errors import UserError
from onnxq.base.user_code import CodeForm, UserFunction, run_file
from onnxq.graph.order import reads
from onnxq.graph.types import dtype_of, elem_type_of
from onnxq.run.budget import RunError, is_made_up, made_up

_FORM = CodeForm("file of operators", "def MyOp(x): ...", "OPS.py")

_TABLE = "OPS"
"""What a file may name its functions in: `OPS = {("my.domain", "MyOp"): function}`."""

_ONNX = ("", "ai.onnx")


@dataclass(frozen=True, slots=True)
class _Standing:
    """The functions that stand for operators now.

    Attributes:
        paths: their files.
        functions: by domain and operator; "*" is any domain that is not ONNX's own.
        kinds: what nodes give, by what they are and read, as it is learnt.
    """

    paths: tuple[str, ...] = ()
    functions: Mapping[tuple[str, str], UserFunction] = field(default_factory=dict)
    kinds: dict[Any, list[TensorKind]] = field(default_factory=dict)


_NOTHING = _Standing()
_standing: ContextVar[_Standing] = ContextVar("own operators", default=_NOTHING)


@contextmanager
def standing(paths: Sequence[str | os.PathLike[str]]) -> Iterator[None]:
    """Has the functions of files stand for operators of all models that are loaded meanwhile.

    Raises:
        UserError: a file cannot be read, its code fails, or it has no function.
    """
    if not paths:
        yield
        return
    functions: dict[tuple[str, str], UserFunction] = {}
    for path in map(Path, paths):
        functions |= _of_file(path)
    token = _standing.set(_Standing(tuple(map(os.path.abspath, paths)), functions))
    try:
        yield
    finally:
        _standing.reset(token)


def paths() -> tuple[str, ...]:
    """The files whose functions stand for operators now."""
    return _standing.get().paths


def _of_file(path: Path) -> dict[tuple[str, str], UserFunction]:
    """The functions of a file: those of its table, else all that it defines, by their names."""
    if not path.is_file():
        raise UserError(f"there is no file of operators {str(path)!r}", hint="check the path of --ops")
    members = run_file(path, _FORM)
    table = members.get(_TABLE)
    if table is None:
        own = {name: one for name, one in members.items() if inspect.isfunction(one) and name[0] != "_"}
        table = {name: one for name, one in own.items() if one.__globals__ is members}
    if not isinstance(table, Mapping) or not table:
        raise UserError(f"{str(path)!r} has no function for an operator", hint=f"the form is {_FORM.form}")
    found = {}
    for key, function in table.items():
        domain, _, op = key.rpartition(".") if isinstance(key, str) else (*key[:1], "", *key[1:])
        if not callable(function):
            raise UserError(f"{key!r} of {str(path)!r} is no function", hint=f"the form is {_FORM.form}")
        name = getattr(function, "__name__", str(op))
        found[str(domain) or "*", str(op)] = UserFunction(path, name, function, _FORM)
    return found


def _function(node: onnx.NodeProto) -> UserFunction | None:
    """What stands for a node; by its name alone not for an operator that ONNX defines."""
    functions = _standing.get().functions
    if not functions:
        return None
    of_onnx = node.domain in _ONNX and onnx.defs.has(node.op_type)
    anyone = None if of_onnx else functions.get(("*", node.op_type))
    return functions.get((node.domain, node.op_type), anyone)


def stands_for(node: onnx.NodeProto) -> bool:
    """Whether a function stands for a node."""
    return _function(node) is not None


def own_nodes(model: onnx.ModelProto) -> list[onnx.NodeProto]:
    """The nodes of a model's main graph for which functions stand, in order."""
    return [node for node in model.graph.node if stands_for(node)]


@dataclass(frozen=True, slots=True)
class TensorKind:
    """What is known of a tensor, as onnxruntime says it.

    Attributes:
        name: its name.
        type: `tensor(float)`.
        shape: numbers, names, and None for what is not known; None: the rank is not known.
    """

    name: str
    type: str
    shape: list[Any] | None

    @property
    def elem_type(self) -> int:
        """ONNX's number of the type of its elements."""
        found: int = onnx.TensorProto.DataType.Value(self.type[len("tensor(") : -1].upper())
        return found

    @property
    def as_onnxruntime(self) -> TensorKind:
        """It, as onnxruntime says it: a scalar, and what has no known rank, have no sizes."""
        return replace(self, shape=self.shape or [])

    @property
    def info(self) -> onnx.ValueInfoProto:
        """It, in ONNX's form."""
        return onnx.helper.make_tensor_value_info(self.name, self.elem_type, self.shape)


def _kind(name: str, dtype: np.dtype, shape: list[Any] | None) -> TensorKind:
    word = onnx.TensorProto.DataType.Name(elem_type_of(dtype)).lower()
    return TensorKind(name, f"tensor({word})", shape)


class CutSession:
    """A model in pieces, with what a session of onnxruntime's has: `get_inputs`, `get_outputs`, `run`."""

    def __init__(
        self, model: onnx.ModelProto, opened: Callable[[onnx.ModelProto], Any], folder: str = ""
    ) -> None:
        """Cuts a model.

        Args:
            model: the model, its nodes in order.
            opened: makes a session of a piece, whose weights are as the model's.
            folder: where its external data are.

        Raises:
            RunError: a piece does not load.
        """
        graph = model.graph
        held = {tensor.name: tensor for tensor in graph.initializer}
        infos = {info.name: info for info in graph.input if info.name not in held}
        stated = {info.name: info for info in (*graph.value_info, *graph.output) if _is_typed(info)}
        read = {name for node in own_nodes(model) for name in node.input} | {one.name for one in graph.output}
        self._constants = {name: numpy_helper.to_array(held[name], folder) for name in read if name in held}
        self._inputs = [_of_info(info) for info in infos.values()]
        self._outputs = [info.name for info in graph.output]
        self._kinds = {one.name: one for one in self._inputs}
        self._kinds |= {name: _kind(name, x.dtype, [*x.shape]) for name, x in self._constants.items()}
        self._steps: list[tuple[Any, onnx.NodeProto | None, list[str]]] = []
        for nodes, own in _pieces(graph.node):
            inside = {id(node) for node in nodes}
            others = (name for node in graph.node if id(node) not in inside for name in reads(node))
            wanted = {*others, *self._outputs}
            gives = [name for node in nodes for name in node.output if name in wanted]
            if gives:
                session = opened(_piece(model, nodes, gives, infos, self._kinds))
                found = (TensorKind(one.name, one.type, one.shape or None) for one in session.get_outputs())
                self._kinds |= {one.name: one for one in found}
                self._steps.append((session, None, gives))
            for node in own:
                self._kinds |= {one.name: one for one in self._given(node, stated)}
                self._steps.append((None, node, [*node.output]))

    def get_inputs(self) -> list[TensorKind]:
        """What is fed."""
        return [one.as_onnxruntime for one in self._inputs]

    def get_outputs(self) -> list[TensorKind]:
        """What is given."""
        return [self._kinds[name].as_onnxruntime for name in self._outputs]

    def run(self, outputs: Sequence[str] | None, feeds: Mapping[str, Any], options: Any = None) -> list[Any]:
        """The outputs of one run.

        Raises:
            UserError: a function fails on the user's data, or gives something else than is known of a tensor.
            RunError: it does so on made-up data.
        """
        values = {**self._constants, **feeds}
        for session, node, gives in self._steps:
            if node is None:
                fed = {one.name: values[one.name] for one in session.get_inputs()}
                given = session.run(gives, fed, options)
            else:
                given = _called(node, [values[name] if name else None for name in node.input])
                for name, array in zip(gives, given, strict=True):
                    _fit(node, self._kinds.get(name), array)
            values.update(zip(gives, given, strict=True))
        return [values[name] for name in (outputs or self._outputs)]

    def _given(self, node: onnx.NodeProto, stated: Mapping[str, onnx.ValueInfoProto]) -> list[TensorKind]:
        """What a node gives: as the file says, else as its function does for zeros."""
        names = [name for name in node.output if name]
        if all(name in stated for name in names):
            return [_of_info(stated[name]) for name in names]
        read = [replace(self._kinds[name], name="") if name else None for name in node.input]
        made_of = [self._constants.get(name) for name in node.input]
        values = tuple(b"" if x is None else x.tobytes() for x in made_of)
        key = (node.domain, node.op_type, repr(_attributes(node)), len(names), repr(read), values)
        learnt = _standing.get().kinds
        if key not in learnt:
            learnt[key] = _learnt(node, read, made_of)
        return [replace(one, name=name) for name, one in zip(node.output, learnt[key], strict=True) if name]


def _piece(
    model: onnx.ModelProto,
    nodes: Sequence[onnx.NodeProto],
    gives: Sequence[str],
    infos: Mapping[str, onnx.ValueInfoProto],
    kinds: Mapping[str, TensorKind],
) -> onnx.ModelProto:
    """The model of some nodes.

    Args:
        model: the whole.
        nodes: these.
        gives: what it gives.
        infos: the whole's inputs.
        kinds: what is known of what comes from other pieces.
    """
    piece = onnx.ModelProto(ir_version=max(model.ir_version, 4), opset_import=model.opset_import)
    piece.functions.extend(model.functions)
    piece.graph.name = "piece"
    piece.graph.node.extend(nodes)
    made = {name for node in nodes for name in node.output}
    read = dict.fromkeys(name for node in nodes for name in reads(node) if name and name not in made)
    piece.graph.initializer.extend(one for one in model.graph.initializer if one.name in {*read, *gives})
    sparse = [one for one in model.graph.sparse_initializer if one.values.name in read]
    piece.graph.sparse_initializer.extend(sparse)
    held = {one.name for one in piece.graph.initializer} | {one.values.name for one in sparse}
    piece.graph.input.extend(infos.get(name) or kinds[name].info for name in read if name not in held)
    piece.graph.output.extend(onnx.ValueInfoProto(name=name) for name in gives)
    return piece


def _pieces(
    nodes: Sequence[onnx.NodeProto],
) -> list[tuple[list[onnx.NodeProto], list[onnx.NodeProto]]]:
    """The nodes that run together, and those with functions that run behind them; again and again."""
    level: dict[str, int] = {}
    pieces: list[tuple[list[onnx.NodeProto], list[onnx.NodeProto]]] = []
    for node in nodes:
        at = max((level.get(name, 0) for name in reads(node)), default=0)
        own = stands_for(node)
        pieces += [([], []) for _ in range(at + 1 - len(pieces))]
        pieces[at][own].append(node)
        level.update((name, at + own) for name in node.output if name)
    return pieces


def _is_typed(info: onnx.ValueInfoProto) -> bool:
    return info.type.tensor_type.elem_type != 0


def _of_info(info: onnx.ValueInfoProto) -> TensorKind:
    tensor = info.type.tensor_type
    if not _is_typed(info):
        raise RunError(f"the type of {info.name!r} is not known")
    sizes = [
        one.dim_value if one.HasField("dim_value") else one.dim_param or None for one in tensor.shape.dim
    ]
    word = onnx.TensorProto.DataType.Name(tensor.elem_type).lower()
    return TensorKind(info.name, f"tensor({word})", sizes if tensor.HasField("shape") else None)


def _attributes(node: onnx.NodeProto) -> dict[str, Any]:
    """The attributes of a node as its function takes them: texts, numbers, lists and arrays."""
    found = {}
    for one in node.attribute:
        value = onnx.helper.get_attribute_value(one)
        if isinstance(value, onnx.TensorProto):
            value = numpy_helper.to_array(value)
        elif isinstance(value, bytes):
            value = value.decode()
        elif isinstance(value, list):
            value = [each.decode() if isinstance(each, bytes) else each for each in value]
        found[one.name] = value
    return found


def _called(node: onnx.NodeProto, given: Sequence[np.ndarray | None]) -> list[np.ndarray]:
    """What the function of a node gives; float64 is what its float inputs are, where none of them is that.

    Raises:
        UserError: it fails on the user's data, or gives fewer arrays than the node has outputs.
        RunError: it does so on made-up data.
    """
    function = _function(node)
    assert function is not None
    try:
        with function.running(), np.errstate(all="ignore"):
            found = function.call(*given, **_attributes(node))
    except UserError as error:
        if is_made_up():
            raise RunError(str(error)) from error
        raise
    arrays = [np.asarray(one) for one in (found if isinstance(found, tuple | list) else (found,))]
    if len(arrays) < len(node.output):
        raise _failed(node, f"it gives {len(arrays)} of {len(node.output)} outputs")
    if odd := [one.dtype.name for one in arrays if one.dtype.kind in "OU"]:
        raise _failed(node, f"it gives an array of {odd[0]}, which is no tensor of numbers")
    floats = [one.dtype for one in given if one is not None and one.dtype.kind == "f"]
    if floats and np.float64 not in floats:
        arrays = [one.astype(floats[0]) if one.dtype == np.float64 else one for one in arrays]
    return arrays[: len(node.output)]


def _failed(node: onnx.NodeProto, why: str) -> RunError | UserError:
    """The error of a function that gives what cannot be; on made-up data it is none of the user's."""
    text = f"the file of operators {str(_function(node))!r}, for node {node.name!r} ({node.op_type}): {why}"
    return (
        RunError(text)
        if is_made_up()
        else UserError(text, hint="give what the model says, or correct its types")
    )


def _fit(node: onnx.NodeProto, kind: TensorKind | None, array: np.ndarray) -> None:
    """Refuses what a function gives if it is not as the tensor is known to be."""
    if kind is None:
        return
    sizes = kind.shape
    fits = sizes is None or (
        len(sizes) == array.ndim
        and all(
            known == size for known, size in zip(sizes, array.shape, strict=True) if isinstance(known, int)
        )
    )
    if not fits or array.dtype != dtype_of(kind.elem_type):
        said = "tensor of unknown rank" if sizes is None else f"{[one or '?' for one in sizes]}"
        raise _failed(node, f"it gives {array.dtype} {[*array.shape]} for {kind.name!r}, {kind.type} {said}")


def _learnt(
    node: onnx.NodeProto, read: Sequence[TensorKind | None], constants: Sequence[np.ndarray | None]
) -> list[TensorKind]:
    """What a node gives, by what its function does for zeros; where it fails, of the type of its first input.

    It is asked for two sizes of each dynamic dimension: a size that is the same is fixed, and one that is a
    dimension's in both is that dimension.
    """
    dims = {dim for one in read if one is not None for dim in one.shape or () if not isinstance(dim, int)}
    names = sorted(dim for dim in dims if dim)
    asked = [
        {None: 2 + turn} | {name: 2 + at + turn * (at + 1) for at, name in enumerate(names)}
        for turn in (0, 1)
    ]
    given = []
    try:
        for sizes in asked[: 1 + bool(dims)]:
            fed = [
                constant if kind is None or constant is not None else _zeros(kind, sizes)
                for kind, constant in zip(read, constants, strict=True)
            ]
            with made_up(), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                given.append(_called(node, fed))
    except RunError:
        first = next((one for one in read if one is not None), TensorKind("", "tensor(float)", None))
        return [replace(first, shape=None) for _ in node.output]
    if any(one is not None and one.shape is None for one in read):
        return [_kind("", one.dtype, None) for one in given[0]]
    named = {(asked[0][name], asked[1][name]): name for name in names}

    def shape(one: np.ndarray, other: np.ndarray) -> list[Any] | None:
        ends = zip(one.shape, other.shape, strict=True) if one.ndim == other.ndim else None
        return None if ends is None else [a if a == b else named.get((a, b)) for a, b in ends]

    return [_kind("", one.dtype, shape(one, other)) for one, other in zip(given[0], given[-1], strict=True)]


def _zeros(kind: TensorKind, sizes: Mapping[Any, int]) -> np.ndarray:
    shape = [size if isinstance(size, int) else sizes[size] for size in kind.shape or ()]
    return np.zeros(shape, dtype_of(kind.elem_type))


def typed(model: onnx.ModelProto, opened: Callable[[onnx.ModelProto, Sequence[str]], Any]) -> onnx.ModelProto:
    """A model that says the types of what functions take and give; itself where it does, or has none.

    Args:
        model: the model, in order.
        opened: runs it as it is, with more outputs.
    """
    graph = model.graph
    known = {info.name for info in (*graph.value_info, *graph.output, *graph.input) if _is_typed(info)}
    made = {name for node in graph.node for name in node.output if name}
    ends = {name for node in own_nodes(model) for name in (*node.input, *node.output)}
    names = sorted(ends & made - known)
    if not names:
        return model
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    copy.graph.value_info.extend(
        onnx.ValueInfoProto(name=name, type=kind)
        for name, kind in opened(model, names).items()
        if name in names
    )
    return copy


def cut_out(model: onnx.ModelProto) -> onnx.ModelProto:
    """A model without the nodes for which functions stand, for a compiler; itself where there are none.

    What they give is an input then, and what they read an output.

    Args:
        model: the model, with the types of what they give.
    """
    own = own_nodes(model)
    if not own:
        return model
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    graph, known = copy.graph, {info.name: info for info in (*model.graph.value_info, *model.graph.output)}
    kept = [node for node in model.graph.node if not stands_for(node)]
    given = [name for node in own for name in node.output if name]
    made = {name for node in kept for name in node.output}
    outputs = dict.fromkeys(
        [*(one.name for one in graph.output), *(name for node in own for name in node.input)]
    )
    del graph.node[:], graph.output[:]
    graph.node.extend(kept)
    read = {name for node in kept for name in reads(node)}
    graph.input.extend(known[name] for name in given if name in read)
    bare = (known.get(name, onnx.ValueInfoProto(name=name)) for name in outputs if name in made)
    graph.output.extend(bare)
    return copy
