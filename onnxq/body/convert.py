"""A model whose float32 nodes compute in half precision, as far as they can.

Each operator's schema says which of its inputs and outputs are of one type; where that type may be half
precision, they become so together. A tensor is in the type of the node that makes it; whoever wants the other
type reads the one Cast of it, or a constant that is stored so. What is between a body of control flow and the
graph around it stays float32, and so do Q/DQ pairs: the scales of all layers are of one type.
"""

from __future__ import annotations

import functools
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx

from onnxq.base.errors import UserError
from onnxq.base.reason import Reason, reason
from onnxq.body.bounds import is_float32
from onnxq.body.formats import DTYPES, KINDS, MASKED, Kind, highest, loss, stored
from onnxq.graph.duplicate import duplicate
from onnxq.graph.layers import RECURRENT
from onnxq.graph.model import Model
from onnxq.graph.moves import MOVES
from onnxq.graph.pairs import QDQ
from onnxq.graph.types import elem_type_of
from onnxq.graph.upgrade import upgrade
from onnxq.graph.wiring import (
    bodies,
    constant_of,
    is_constant,
    new_tensor,
    replace_input,
    replace_output,
    replace_uses,
)

_FLOAT = np.dtype(np.float32)

_TYPED = {"Cast": "to", "ConstantOfShape": "value", "EyeLike": "dtype"}
"""The attribute that says the type of an output which no input has."""

_ANY = {"Cast": (0,), "CastLike": (0,), "Shape": (0,), "Size": (0,)}
"""Inputs that may be of either type, whatever the node gives."""

_APART = (("Resize", 1),)
"""Inputs, by operator and place, that stay float32 though their type is their own: regions."""

_BOUNDS: dict[str, tuple[int, ...] | None] = {"Clip": (1, 2), "Max": None, "Min": None}
"""Inputs that only bound others, None for all of them: beyond the type any bound is as good as its end."""

_DIVISORS = {"Div": 1, "Mod": 1}

_PAIRS = (*QDQ, "DynamicQuantizeLinear")
_RANDOM = ("Random", "Bernoulli", "Multinomial")

_REFUSED: dict[Kind, tuple[str, ...]] = {"fp16": (), "bf16": ("ConvTranspose", *RECURRENT)}
"""What NVIDIA's compiler does not build in a type (measured with TensorRT-RTX 1.7.1)."""

BETWEEN = reason("between")


@dataclass(frozen=True, slots=True)
class AddedCast:
    """A Cast that stands between a tensor in the one type and who wants it in the other.

    Attributes:
        tensor: the tensor.
        to: the type that it is cast to.
        graph: the name of the graph that it is in.
    """

    tensor: str
    to: str
    graph: str


@dataclass(frozen=True, slots=True)
class HalfBody:
    """A model in half precision.

    Attributes:
        model: the model; it shares what it can with the one that it was made of.
        kind: its type.
        halved: the names of the nodes that compute in it.
        stays: the nodes with float tensors that stay float32, and why.
        casts: the casts that it took.
        constants: the names of the constants that are stored in it.
        masks: what holds values of a mask beyond it, which are less now.
        interface: the names of the inputs and outputs that are of this type now.
    """

    model: Model
    kind: Kind
    halved: frozenset[str]
    stays: Mapping[str, Reason]
    casts: tuple[AddedCast, ...]
    constants: tuple[str, ...]
    masks: tuple[str, ...]
    interface: tuple[str, ...]


def to_half(
    model: Model,
    kind: Kind,
    stays: Mapping[str, Reason],
    *,
    io: bool = False,
    float32_io: Collection[str] = (),
    masks: Collection[str] = (),
    constants: ConstantLosses | None = None,
) -> HalfBody:
    """The model in half precision, but for what stays.

    Args:
        model: a model, with Q/DQ pairs or without; it is not modified.
        kind: the type.
        stays: names of nodes that stay float32, and why.
        io: whether float32 inputs and outputs of the model are of this type too.
        float32_io: names of those that stay float32 all the same.
        masks: names of constants, of inputs and of what a ConstantOfShape gives, whose values beyond the type
            are to be `MASKED`.
        constants: what is known of what constants lose in the type; what is found out is added.

    Raises:
        UserError: it has tensors of the other type of half precision, or for bfloat16 its opset cannot be
            raised to 13.
    """
    for other in KINDS:
        if other != kind and (name := _speaks(model, DTYPES[other])):
            raise UserError(
                f"tensor {name!r} is {DTYPES[other]}, and a model has one type of half precision",
                hint=f"give --body {other}, or --body fp32",
            )
    result = duplicate(model)
    if kind == "bf16":  # of which older opsets have no Cast
        upgrade(result)
    return _Conversion(
        result, kind, stays, io, float32_io, frozenset(masks), constants or ConstantLosses(kind)
    ).body()


@functools.cache
def _schema(op: str, opset: int) -> onnx.defs.OpSchema | None:
    return onnx.defs.get_schema(op, opset, "") if onnx.defs.has(op, opset, "") else None


@functools.cache
def _allowing(op: str, opset: int, kind: Kind) -> frozenset[str]:
    """The type variables of an operator that may be float32 or of a kind.

    bfloat16 came to most operators in opset 22; NVIDIA's parser takes it in all of them.
    """
    versions = {opset, onnx.defs.onnx_opset_version()} if kind == "bf16" else {opset}
    variables: set[str] = set()
    for schema in filter(None, (_schema(op, version) for version in versions)):
        for constraint in schema.type_constraints:
            held = {"tensor(float)", "tensor(float16)" if kind == "fp16" else "tensor(bfloat16)"}
            if held <= set(constraint.allowed_type_strs):
                variables.add(constraint.type_param_str)
    return frozenset(variables)


@functools.cache
def _formal(op: str, opset: int, index: int, *, output: bool) -> str:
    """The type of an operator's input or output: a variable, or a type itself."""
    schema = _schema(op, opset)
    assert schema is not None
    formals = schema.outputs if output else schema.inputs
    return str(formals[min(index, len(formals) - 1)].type_str) if formals else ""


class _Conversion:
    """One conversion.

    A tensor's `home` is whether the node that makes it makes it in half precision.
    """

    def __init__(
        self,
        model: Model,
        kind: Kind,
        stays: Mapping[str, Reason],
        io: bool,
        float32_io: Collection[str],
        masks: frozenset[str],
        losses: ConstantLosses,
    ) -> None:
        self.model, self.kind, self.dtype, self.io, self.masks = model, kind, DTYPES[kind], io, masks
        self.float32_io, self.losses = float32_io, losses
        self.asked = stays
        self.stays: dict[str, Reason] = {}
        self.follows: dict[int, frozenset[str]] = {}
        self.graphs = list(model.graphs())
        self.where: dict[int, Any] = {}
        for graph in self.graphs:
            self.where.update((id(tensor), graph) for tensor in graph.inputs)
            self.where.update((id(tensor), graph) for node in graph.nodes for tensor in node.outputs)
        self.home: set[int] = set()
        self.other: dict[int, Any] = {}
        self.inner: dict[int, Any] = {}
        self.narrow: dict[tuple[int, float | None], Any] = {}
        self.casts: list[AddedCast] = []
        self.constants: dict[str, None] = {}
        self.interface: list[str] = []

    def body(self) -> HalfBody:
        for graph in self.graphs:
            for node in graph.nodes:
                self._decide(node)
        self._leave_between()
        self._settle_homes()
        taken = self._float_constants()
        for graph in self.graphs:
            self._free_outputs(graph)
        for graph in self.graphs:
            for node in list(graph.nodes):
                self._rewire(node, taken)
        for graph in self.graphs:
            self._finish(graph)
        self.model.sort()
        nodes = [node for graph in self.graphs for node in graph.nodes]
        return HalfBody(
            self.model,
            self.kind,
            frozenset(node.name for node in nodes if self.follows.get(id(node))),
            self.stays,
            tuple(self.casts),
            tuple(self.constants),
            tuple(sorted(self.masks)),
            tuple(self.interface),
        )

    # -- what each node computes in -----------------------------------------------------------------

    def _decide(self, node: Any) -> None:
        read = [t for t in node.inputs if t.name]
        if not any(is_float32(t) for t in (*read, *node.outputs)):
            return
        why = self.asked.get(node.name) or self._own_reason(node)
        if why is None:
            follows, why = self._following(node)
            if why is None:
                self.follows[id(node)] = follows
                return
        self.stays[node.name] = why

    def _own_reason(self, node: Any) -> Reason | None:
        """Why a node stays float32 by what it is."""
        if node.domain not in (None, "", "ai.onnx"):
            return reason("domain", domain=node.domain, op=node.op)
        if _schema(node.op, self.model.opset) is None:
            return reason("operator.unknown", op=node.op, opset=self.model.opset)
        if bodies(node):
            return reason("boundary")
        if node.op in _REFUSED[self.kind]:
            return reason("compiler", op=node.op, dtype=self.dtype)
        if node.op in RECURRENT and len(node.inputs) > 4 and node.inputs[4].name:
            return reason("compiler.lengths", op=node.op, dtype=self.dtype)
        if node.op == "TensorScatter" and self._is_wide_input(node.inputs[0]):
            return reason("compiler.cache", tensor=node.inputs[0].name)
        if node.op in _PAIRS:
            return reason("pairs")
        if node.op.startswith(_RANDOM):
            return reason("random")
        tensors = [t for t in (*node.inputs, *node.outputs) if t.name]
        for tensor in tensors:
            if tensor.dtype is None:
                return reason("type.unknown", tensor=tensor.name)
            if getattr(tensor, "float32_only", False):
                return reason("float32-only", tensor=tensor.name)
        return None

    def _following(self, node: Any) -> tuple[frozenset[str], Reason | None]:
        """The type variables of a node that become half precision, or why none does."""
        allowing = _allowing(node.op, self.model.opset, self.kind)
        variables: set[str] = set()
        for index, tensor in enumerate(node.inputs):
            if is_float32(tensor) and index not in _ANY.get(node.op, ()) and (node.op, index) not in _APART:
                variables.add(self._variable(node, index))
        outputs = {
            self._variable(node, index, output=True)
            for index, tensor in enumerate(node.outputs)
            if is_float32(tensor)
        }
        typed = node.op in _TYPED and (node.op != "EyeLike" or any(is_float32(t) for t in node.outputs))
        variables = (variables | (outputs if typed else outputs & variables)) & allowing
        reads_any = any(is_float32(node.inputs[i]) for i in _ANY.get(node.op, ()) if i < len(node.inputs))
        if not variables and not (reads_any and not outputs):
            return frozenset(), reason("operator", op=node.op, dtype=self.dtype)
        for index, tensor in enumerate(node.inputs):
            if is_constant(tensor) and self._variable(node, index) in variables:
                why = self._loss(node, index, tensor)
                if why is not None:
                    return frozenset(), why
        if node.op == "ConstantOfShape":
            value = _fill_value(node.proto)
            why = loss(value, self.kind) if node.outputs[0].name not in self.masks else None
            return frozenset(variables), why
        return frozenset(variables), None

    def _variable(self, node: Any, index: int, *, output: bool = False) -> str:
        return _formal(node.op, self.model.opset, index, output=output)

    def _limit(self, node: Any, index: int, constant: Any) -> float | None:
        """What stands for the values of a constant that are beyond the type; None where nothing does."""
        if node.op in _BOUNDS and index in (_BOUNDS[node.op] or (index,)):
            return highest(self.kind)
        return MASKED if constant.name in self.masks else None

    def _loss(self, node: Any, index: int, constant: Any) -> Reason | None:
        if not is_float32(constant):
            return None
        limited = self._limit(node, index, constant) is not None
        return self.losses.of(constant, divides=_DIVISORS.get(node.op) == index, bounds=limited)

    def _leave_between(self) -> None:
        """Leaves what only moves values between float32 nodes float32, and what reads nothing else."""
        self._settle_homes()
        changed = True
        while changed:
            changed = False
            for graph in self.graphs:
                for node in graph.nodes:
                    if self.follows.get(id(node)) and self._is_between(node):
                        self.follows[id(node)] = frozenset()
                        self.home.difference_update(id(tensor) for tensor in node.outputs)
                        self.stays[node.name] = BETWEEN
                        changed = True

    def _is_between(self, node: Any) -> bool:
        computed = [t for t in node.inputs if is_float32(t) and not is_constant(t)]
        if not computed or any(id(tensor) in self.home for tensor in computed):
            return False
        outputs = [tensor for tensor in node.outputs if is_float32(tensor)]
        if not outputs:
            return True
        if node.op not in (*MOVES, "Concat", "Pad"):
            return False
        return not any(
            self._wants_half(user, index)
            for tensor in outputs
            for user in tensor.outputs
            for index, read in enumerate(user.inputs)
            if read is tensor
        )

    def _wants_half(self, node: Any, index: int) -> bool:
        follows = self.follows.get(id(node))
        if not follows or index in _ANY.get(node.op, ()) or (node.op, index) in _APART:
            return False
        return self._variable(node, index) in follows

    def _settle_homes(self) -> None:
        self.home = {
            id(tensor)
            for graph in self.graphs
            for node in graph.nodes
            if (follows := self.follows.get(id(node)))
            for index, tensor in enumerate(node.outputs)
            if is_float32(tensor) and self._variable(node, index, output=True) in follows
        }
        if self.io:
            inputs = self.model.graph.inputs
            self.home.update(id(t) for t in inputs if is_float32(t) and not self._is_wide(t))

    # -- the edges ----------------------------------------------------------------------------------

    def _float_constants(self) -> set[int]:
        """The constants that somebody reads in float32."""
        read = {id(t) for g in self.graphs for t in g.outputs if is_constant(t)}
        for graph in self.graphs:
            for node in graph.nodes:
                for index, tensor in enumerate(node.inputs):
                    if is_constant(tensor) and not self._wants_half(node, index):
                        read.add(id(tensor))
        return read

    def _rewire(self, node: Any, taken: set[int]) -> None:
        """Gives a node what it reads in the type that it wants, and the types that it says itself."""
        for index, tensor in enumerate(list(node.inputs)):
            if not is_float32(tensor):
                continue
            half = self._wants_half(node, index)
            if is_constant(tensor):
                if half:
                    limit = self._limit(node, index, tensor)
                    replace_input(node, index, self._constant(tensor, limit, id(tensor) in taken))
            elif index not in _ANY.get(node.op, ()) and half != (id(tensor) in self.home):
                replace_input(node, index, self._cast(tensor))
        if node.op in _TYPED and self.follows.get(id(node)):
            masked = node.outputs[0].name in self.masks
            node.proto = _with_type(node.proto, _TYPED[node.op], self.kind, MASKED if masked else None)

    def _constant(self, tensor: Any, limit: float | None, taken: bool) -> Any:
        """A constant in half precision; under its own name, unless that is taken by the float32 one."""
        key = (id(tensor), limit)
        if key not in self.narrow:
            values = constant_of(tensor)
            assert values is not None
            narrow = stored(values, self.kind, limit)
            if taken or tensor.name in self.constants:
                self.narrow[key] = self.model.new_constant(f"{tensor.name}_{self.kind}", narrow)
            else:
                self.narrow[key] = self.model.constant(tensor.name, narrow)
            self.constants[tensor.name] = None
        return self.narrow[key]

    def _cast(self, tensor: Any) -> Any:
        """A tensor in the other type than it is made in."""
        if id(tensor) not in self.other:
            dtype = _FLOAT if id(tensor) in self.home else self.dtype
            name = self.model.unique(f"{tensor.name}_{self._short(dtype)}")
            out = new_tensor(name, dtype, tensor.shape)
            if tensor.name in self.masks and dtype != _FLOAT:
                self._add_cast(self._limited(tensor), out)
                self.other[id(tensor)] = out
            else:
                self._add_cast(tensor, out)
        return self.other[id(tensor)]

    def _limited(self, tensor: Any) -> Any:
        """A mask that is an input, whose values go no further than they need to."""
        graph = self.where.get(id(tensor), self.model.graph)
        for op, bound in (("Max", -MASKED), ("Min", MASKED)):
            end = self.model.new_constant(f"{tensor.name}_{op}_bound", np.array(bound, np.float32))
            out = new_tensor(self.model.unique(f"{tensor.name}_{op}"), _FLOAT, tensor.shape)
            graph.nodes.append(self.model.new_node(op, [tensor, end], [out], name=out.name))
            self.where[id(out)] = graph
            tensor = out
        return tensor

    def _add_cast(self, source: Any, out: Any) -> None:
        graph = self.where.get(id(source), self.model.graph)
        to = {"to": elem_type_of(out.dtype)}
        graph.nodes.append(self.model.new_node("Cast", [source], [out], to, name=f"{out.name}_Cast"))
        self.casts.append(AddedCast(source.name, str(out.dtype), graph.name))
        self.other[id(source)] = out

    def _short(self, dtype: np.dtype) -> str:
        return "fp32" if dtype == _FLOAT else self.kind

    # -- the ends -----------------------------------------------------------------------------------

    def _free_outputs(self, graph: Any) -> None:
        """Puts another tensor in the place of an output that its node makes in another type than it has.

        The output keeps its name: it is what a Cast of the other one gives.
        """
        io = self.io and graph is self.model.graph
        for tensor in graph.outputs:
            made = id(tensor) in self.home
            if not is_float32(tensor) or self.where.get(id(tensor)) is not graph or not tensor.inputs:
                continue
            if made == (io and not self._is_wide(tensor)):
                continue
            (producer,) = tensor.inputs
            index = next(index for index, out in enumerate(producer.outputs) if out is tensor)
            name = self.model.unique(f"{tensor.name}_{self.kind if made else 'fp32'}")
            inner = new_tensor(name, _FLOAT, tensor.shape)
            replace_uses(tensor, inner)
            replace_output(producer, index, inner)
            if made:
                self.home.discard(id(tensor))
                self.home.add(id(inner))
            else:
                tensor.dtype = self.dtype
            self.where[id(inner)], self.inner[id(tensor)] = graph, inner
            self._add_cast(inner, tensor)

    def _is_wide_input(self, tensor: Any) -> bool:
        """Whether a tensor is an input of the model, and stays float32."""
        inputs = self.model.graph.inputs
        return any(tensor is one for one in inputs) and not (self.io and not self._is_wide(tensor))

    def _is_wide(self, tensor: Any) -> bool:
        """Whether an input or output stays float32 whatever the others are."""
        return tensor.name in self.float32_io or bool(getattr(tensor, "float32_only", False))

    def _finish(self, graph: Any) -> None:
        """Gives tensors the type of what makes them; a body that hands on what is around it, float32."""
        for place, tensor in enumerate(graph.outputs):
            inner = self.inner.get(id(tensor), tensor)
            if self.where.get(id(inner), graph) is not graph and id(inner) in self.home:
                graph.outputs[place] = self._cast(inner)
            elif self.where.get(id(inner), graph) is not graph:
                graph.outputs[place] = inner
        for tensor in (*graph.inputs, *(tensor for node in graph.nodes for tensor in node.outputs)):
            if id(tensor) in self.home:
                tensor.dtype = self.dtype
        if graph is self.model.graph and self.io:
            ends = (*graph.inputs, *graph.outputs)
            self.interface += [tensor.name for tensor in ends if tensor.dtype == self.dtype]


def _speaks(model: Model, dtype: np.dtype) -> str:
    """The name of a tensor of a type, "" where there is none."""
    for graph in model.graphs():
        for tensor in (*graph.inputs, *(t for node in graph.nodes for t in (*node.inputs, *node.outputs))):
            if tensor.name and tensor.dtype is not None and tensor.dtype == dtype:
                return str(tensor.name)
    return ""


def _with_type(proto: onnx.NodeProto, name: str, kind: Kind, limit: float | None) -> onnx.NodeProto:
    """A node, which may be another model's too, that says another type of what it gives."""
    result = onnx.NodeProto()
    result.CopyFrom(proto)
    others = [attribute for attribute in result.attribute if attribute.name != name]
    del result.attribute[:]
    result.attribute.extend(others)
    if name == "value":
        value = onnx.numpy_helper.from_array(stored(_fill_value(proto), kind, limit))
        result.attribute.append(onnx.helper.make_attribute(name, value))
    else:
        result.attribute.append(onnx.helper.make_attribute(name, elem_type_of(DTYPES[kind])))
    return result


def _fill_value(proto: onnx.NodeProto) -> np.ndarray:
    """What a ConstantOfShape fills with, [1]."""
    for attribute in proto.attribute:
        if attribute.name == "value":
            return onnx.numpy_helper.to_array(attribute.t)
    return np.zeros(1, np.float32)


class ConstantLosses:
    """Why a type cannot hold constants, as far as somebody has asked."""

    def __init__(self, kind: Kind) -> None:
        """Nothing is known yet; `kind`: the type."""
        self._kind = kind
        self._known: dict[tuple[int, bool, bool], tuple[Any, Reason | None]] = {}

    def of(self, constant: Any, *, divides: bool, bounds: bool) -> Reason | None:
        """Why the type cannot hold a constant, None where it can; the rest as for `loss`."""
        held = constant._values  # duplicates of a model have it in common; kept, as ids are used again
        key = (id(held), divides, bounds)
        if key not in self._known:
            values = constant_of(constant)
            assert values is not None
            self._known[key] = (held, loss(values, self._kind, divides=divides, bounds=bounds))
        return self._known[key][1]
