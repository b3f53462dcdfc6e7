"""New nodes as expressions: `op.Clip(x, low, high)` is a value whose node does not exist yet."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, overload

import numpy as np
import onnx

from onnxq.base.errors import nearest
from onnxq.graph import wiring
from onnxq.graph.infer import Type, node_types
from onnxq.graph.types import Shape, dtype_of, is_static
from onnxq.graph.view import Body, Node, Tensor, Value

RANDOM = {"RandomNormal", "RandomUniform", "RandomNormalLike", "RandomUniformLike", "Multinomial"}
RANDOM |= {"Bernoulli", "Dropout"}
"""Operators that compute something else each time."""

_NUMBERS = (np.ndarray, np.generic, int, float, bool)
Operand = Value | np.ndarray | np.generic | int | float | bool | None


@dataclass(frozen=True, slots=True, eq=False)
class NewBody:
    """A copy of a subgraph body, for a node that does not exist yet.

    Attributes:
        graph: the body that it is a copy of.
        stands: what it reads instead of tensors of the graphs around it, by the tensor's id: the tensor
            and the value.
    """

    graph: Any
    stands: Mapping[int, tuple[Any, Value]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, eq=False)
class NewNode:
    """A node that does not exist yet.

    Attributes:
        op: the operator.
        inputs: values, constants (arrays), Python numbers (which take the dtype of the operands that
            share their type variable in the operator's schema), or None for one that is left out.
        attrs: the attributes.
        outputs: the number of outputs.
        like: the node that it stands in for, whose name and constants' names it keeps, or None.
        domain: the operator's domain, "" for ONNX's own.
        bodies: its subgraph bodies, by the attribute's name.
        name: how it is to be called, "" for what its place suggests.
    """

    op: str
    inputs: tuple[Operand, ...]
    attrs: Mapping[str, Any]
    outputs: int = 1
    like: Node | None = None
    domain: str = ""
    bodies: Mapping[str, NewBody] = field(default_factory=dict)
    name: str = ""
    _types: list[Type] = field(default_factory=list)

    @property
    def operands(self) -> Iterator[Operand]:
        """What it and its bodies read."""
        yield from self.inputs
        for body in self.bodies.values():
            yield from (value for _, value in body.stands.values())

    @property
    def has_own_bodies(self) -> bool:
        """Whether its bodies are those of the node that it stands in for: it gives what that one gave."""
        own = self.like.node.attrs or {} if self.like is not None else {}
        return bool(self.bodies) and all(own.get(name) is body.graph for name, body in self.bodies.items())

    @property
    def types(self) -> list[Type]:
        """Dtype and shape of each output, as far as ONNX's inference knows them from its inputs."""
        if not self._types:
            nodes = new_nodes([NewOutput(self)])
            model = next((t.model for n in nodes for t in n.operands if isinstance(t, Tensor)), None)
            for node in nodes:  # in order, so that no chain is too long
                if not node._types:
                    node._types.extend(_infer(node, model))
        return self._types


class NewOutput(Value):
    """An output of a node that does not exist yet."""

    __slots__ = ("exact_product", "float32_only", "index", "node")

    def __init__(
        self, node: NewNode, index: int = 0, float32_only: bool = False, exact_product: str = ""
    ) -> None:
        self.node = node
        self.index = index
        self.float32_only = float32_only
        self.exact_product = exact_product

    @property
    def dtype(self) -> np.dtype | None:  # type: ignore[override]
        return self.node.types[self.index][0]

    @property
    def shape(self) -> Shape | None:  # type: ignore[override]
        return self.node.types[self.index][1]


class NewConstant(Value):
    """A constant that does not exist yet."""

    __slots__ = ("array", "float32_only")

    def __init__(self, array: np.ndarray, float32_only: bool = False) -> None:
        self.array = array
        self.float32_only = float32_only

    @property
    def dtype(self) -> np.dtype:  # type: ignore[override]
        return self.array.dtype

    @property
    def shape(self) -> Shape:  # type: ignore[override]
        return self.array.shape

    @property
    def constant(self) -> np.ndarray:
        return self.array


class _Operator(Protocol):
    """Makes a node that does not exist yet."""

    @overload
    def __call__(self, *inputs: Operand, outputs: int, **attrs: Any) -> Any: ...
    @overload
    def __call__(self, *inputs: Operand, **attrs: Any) -> Value: ...


class _Builder:
    """`op.NAME(inputs..., attribute=value...)` for each of ONNX's own operators.

    `op["com.microsoft"].NAME(...)` is an operator of another domain. Nothing is known of its schema:
    a Python number becomes float32, int64 or bool there.
    """

    def __init__(self, domain: str = "") -> None:
        self._domain = domain

    def __getitem__(self, domain: str) -> _Builder:
        if not isinstance(domain, str):
            raise TypeError(f'op["com.microsoft"].Gelu(x): a domain is a name, not {type(domain).__name__}')
        return _Builder("" if domain == "ai.onnx" else domain)

    def __getattr__(self, name: str) -> _Operator:
        if name.startswith("_"):
            raise AttributeError(name)
        if not self._domain and not onnx.defs.has(name):
            near = nearest(name, operator_names())
            other = f'one of another domain is op["domain"].{name}'
            raise AttributeError(f"ONNX has no operator {name!r}; {f'{near} ' if near else ''}{other}")
        return functools.partial(self._build, name)

    def _build(self, op: str, *inputs: Operand, outputs: int = 1, **attrs: Any) -> Any:
        unknown = set(attrs) - _attribute_names(op) if not self._domain else ()
        if unknown:
            raise AttributeError(f"{op} has no attribute {sorted(unknown)[0]!r}")
        stated = {k: v for k, v in attrs.items() if v is not None}
        return _results(NewNode(op, inputs, stated, outputs, domain=self._domain))


op = _Builder()
"""Builds values: `op.Relu(x)` is the result of a Relu node that does not exist yet."""


@overload
def remake(node: Node, *inputs: Operand, outputs: int, **attrs: Any) -> Any: ...
@overload
def remake(node: Node, *inputs: Operand, **attrs: Any) -> Value: ...
def remake(node: Node, *inputs: Operand, outputs: int = 1, **attrs: Any) -> Any:
    """The same operator, with its attributes, its bodies and its name, on other inputs.

    Args:
        node: the node that it stands in for.
        inputs: what it reads.
        outputs: how many outputs it has.
        attrs: attributes that are other ones; None for one that goes; a body (`Body.reduced`) for a body.

    Returns:
        A value, or a tuple of them where it has several outputs.
    """
    given = {name: value for name, value in attrs.items() if isinstance(value, Body)}
    kept = {name: value for name, value in {**node.attrs, **attrs}.items() if value is not None}
    kept = {name: value for name, value in kept.items() if name not in given}
    graphs = {**node.node.attrs, **{name: body.graph for name, body in given.items()}}
    bodies = {name: NewBody(graph) for name, graph in graphs.items()}
    return _results(NewNode(node.op, inputs, kept, outputs, node, node.domain, bodies))


def inline(body: Body, *values: Operand) -> tuple[Value, ...]:
    """What a subgraph body computes of these inputs, outside of its node.

    As often as it is called, so that a Loop can be unrolled. What a body only hands on is not computed:
    a Loop's condition that stays true is a constant here. What no input changes is computed once for all
    calls with the same `body`.

    Args:
        body: as `node.body(...)` gives it.
        values: one for each of its inputs; Python numbers take the input's dtype.

    Returns:
        One value for each of its outputs.

    Raises:
        ValueError: there are more or fewer values than inputs, or one is left out.
    """
    if len(values) != len(body.inputs):
        raise ValueError(f"the body has {len(body.inputs)} inputs, {len(values)} values are given")
    computed: dict[int, tuple[Any, Value]] = {**body.fixed}
    changing = {id(tensor.tensor) for tensor in body.inputs}
    for tensor, value in zip(body.inputs, values, strict=True):
        computed[id(tensor.tensor)] = tensor.tensor, _as_value(value, tensor.dtype)

    def read(tensor: Any) -> Value | None:
        if id(tensor) in computed:
            return computed[id(tensor)][1]
        return Tensor(body.model, tensor) if tensor.name else None

    for node in wiring.sorted_nodes(body.graph.nodes):
        if any(id(tensor) in body.fixed for tensor in node.outputs):
            continue
        view = Node(body.model, node)
        inputs = tuple(read(tensor) for tensor in node.inputs)
        same = None if view.domain else _handed_on(view, inputs)
        made: dict[int, tuple[Any, Value]]
        if same is None:
            bodies = {}
            for name, graph in (node.attrs or {}).items():
                around = [id(tensor) for tensor in wiring.captures(graph)]
                bodies[name] = NewBody(graph, {key: computed[key] for key in around if key in computed})
            count = max((i + 1 for i, tensor in enumerate(node.outputs) if tensor.name), default=0)
            new = NewNode(view.op, inputs, view.attrs, count, view, view.domain, bodies, view.name)
            made = {id(t): (t, NewOutput(new, i)) for i, t in enumerate(node.outputs) if t.name}
        else:
            made = {id(node.outputs[0]): (node.outputs[0], same)}
        computed.update(made)
        is_random = any(one.op in RANDOM for one in view.with_bodies)
        is_fixed = not is_random and changing.isdisjoint(map(id, wiring.reads(node)))
        (body.fixed if is_fixed else changing).update(made)
    results = [read(tensor) for tensor in body.graph.outputs]
    return tuple(value for value in results if value is not None)


def _handed_on(node: Node, inputs: Sequence[Value | None]) -> Value | None:
    """The value that a node gives without computing anything: a copy's, a constant; None for another's."""
    if node.op == "Constant":
        array = node.outputs[0].constant
        return None if array is None else NewConstant(array)
    if node.op not in ("Identity", "Cast") or inputs[0] is None:
        return None
    dtype = dtype_of(node.attr("to")) if node.op == "Cast" else None
    if dtype is None or dtype == inputs[0].dtype:
        return inputs[0]
    array = inputs[0].constant
    if array is None or array.dtype.kind not in "iub" or dtype.kind not in "iub":
        return None
    return NewConstant(array.astype(dtype))


def float32_only(value: Operand) -> Value:
    """Marks a value that half precision would spoil: a count, an index, a threshold.

    Where the model's body runs in half precision, the value and what computes it stay float32.

    Args:
        value: a value that is new, a tensor of the graph, or a constant.
    """
    if isinstance(value, NewOutput):
        return NewOutput(value.node, value.index, True, value.exact_product)
    value = _as_value(value, None)
    if isinstance(value, NewConstant):
        return NewConstant(value.array, float32_only=True)
    return NewOutput(NewNode("Identity", (value,), {}), float32_only=True)


def exact_product(value: Value, because: str) -> Value:
    """Marks a product of float32 whose factors must not be rounded to TF32, which TensorRT does by itself.

    The command that builds the engine then turns TF32 off (`--noTF32`), for all of the model: better is a
    replacement that needs no such product. The value also stays float32, as of `float32_only`.

    Args:
        value: what a new MatMul, Gemm, Conv, ... gives.
        because: what its factors may be; the user reads it.

    Raises:
        TypeError: the value is not new.
    """
    if not isinstance(value, NewOutput):
        raise TypeError("exact_product marks what a new node gives")
    return NewOutput(value.node, value.index, True, because)


def _results(node: NewNode) -> Any:
    if node.outputs == 1:
        return NewOutput(node)
    return tuple(NewOutput(node, index) for index in range(node.outputs))


def _as_value(value: Operand, dtype: np.dtype | None) -> Value:
    """A value for an operand; a Python number becomes a constant of this dtype, or of its usual one."""
    if isinstance(value, Value):
        return value
    if isinstance(value, np.ndarray | np.generic):
        return NewConstant(np.asarray(value))
    if not isinstance(value, _NUMBERS):
        raise TypeError(f"{type(value).__name__} is no operand")
    return NewConstant(np.array(value, dtype or _usual(value)))


def _usual(number: float) -> np.dtype:
    """The dtype of a Python number that no other operand gives one."""
    if isinstance(number, bool):
        return np.dtype(bool)
    return np.dtype(np.float32 if isinstance(number, float) else np.int64)


@functools.cache
def operator_names() -> frozenset[str]:
    """The operators that ONNX has or had."""
    return frozenset(s.name for s in onnx.defs.get_all_schemas_with_history() if not s.domain)


@functools.cache
def _attribute_names(op: str) -> frozenset[str]:
    return frozenset(
        name
        for schema in onnx.defs.get_all_schemas_with_history()
        if schema.name == op and schema.domain == ""
        for name in schema.attributes
    )


def new_nodes(values: Iterable[Operand]) -> list[NewNode]:
    """The new nodes of values, all the way to what is there already; each behind what it reads."""
    done: dict[int, NewNode] = {}
    stack = [(value.node, False) for value in values if isinstance(value, NewOutput)]
    while stack:
        node, ready = stack.pop()
        if id(node) in done:
            continue
        if ready:
            done[id(node)] = node
            continue
        stack.append((node, True))
        stack += [(one.node, False) for one in node.operands if isinstance(one, NewOutput)]
    return list(done.values())


def leaves(values: Sequence[Operand]) -> Iterator[Any]:
    """The graph's own tensors that values are made of."""
    read = [*values]
    for node in new_nodes(values):
        read += node.operands
        for body in node.bodies.values():
            yield from (t for t in wiring.captures(body.graph) if id(t) not in body.stands)
    yield from (value.tensor for value in read if isinstance(value, Tensor))


def constant_operands(
    node: NewNode, opset: int, dtypes: Sequence[np.dtype | None] | None = None
) -> list[np.ndarray | None]:
    """The arrays of a new node's numeric inputs, None for the other inputs.

    A Python number takes the dtype of an operand that shares its type variable in the schema of
    this opset, else bool, int64 or float32.

    Args:
        node: the node.
        opset: the model's opset.
        dtypes: the dtype of each input that is a value, where that is known better than by the value.

    Raises:
        ValueError: the operator does not exist in this opset, or takes fewer inputs, or an array has elements
            that ONNX has no type for, as None.
    """
    letters = list(range(len(node.inputs)))
    if not node.domain:
        letters = _checked(node, opset)
    known: dict[Any, np.dtype] = {}
    if any(isinstance(operand, bool | int | float) for operand in node.inputs):
        if dtypes is None:
            dtypes = [one.dtype if isinstance(one, Value) else None for one in node.inputs]
        known = {letter: dtype for letter, dtype in zip(letters, dtypes, strict=True) if dtype is not None}
    arrays: list[np.ndarray | None] = []
    for letter, operand in zip(letters, node.inputs, strict=True):
        if isinstance(operand, np.ndarray | np.generic):
            array = np.asarray(operand)
            if array.dtype == object and not all(isinstance(one, str | bytes) for one in array.flat):
                raise ValueError(f"{array.tolist()} is no constant")
            arrays.append(array)
        elif isinstance(operand, bool | int | float):
            arrays.append(np.array(operand, known.get(letter, _usual(operand))))
        else:
            arrays.append(None)
    return arrays


def _checked(node: NewNode, opset: int) -> list[Any]:
    """The type variable of each input of a new node, by ONNX's schema.

    Raises:
        ValueError: the schema has no such operator, number of inputs or attribute.
    """
    if not onnx.defs.has(node.op, opset, ""):
        raise ValueError(f"opset {opset} has no operator {node.op}")
    schema = onnx.defs.get_schema(node.op, opset, "")
    if not schema.min_input <= len(node.inputs) <= schema.max_input:
        raise ValueError(f"{node.op} takes {schema.min_input} to {schema.max_input} inputs")
    unknown = set(node.attrs) - set(schema.attributes)
    if unknown:
        raise ValueError(f"{node.op} of opset {opset} has no attribute {sorted(unknown)[0]!r}")
    formal = list(schema.inputs)
    return [formal[min(i, len(formal) - 1)].type_str for i in range(len(node.inputs))]


def validate(values: Sequence[Operand], opset: int) -> None:
    """Checks the new nodes of values, all the way to what is there already.

    Raises:
        ValueError: an operator, an attribute or a number of inputs that this opset does not have.
        TypeError: an operand or an attribute of a type that ONNX does not have.
    """
    nodes = new_nodes(values)
    for operand in (*values, *(operand for node in nodes for operand in node.operands)):
        if not (operand is None or isinstance(operand, (Value, *_NUMBERS))):
            raise TypeError(f"{type(operand).__name__} is no operand")
    for node in nodes:
        constant_operands(node, opset)
        onnx.helper.make_node(node.op, [], [], **dict(node.attrs))


def _infer(node: NewNode, model: Any) -> list[Type]:
    """The types of a new node's outputs; those of its inputs are known."""
    unknown: list[Type] = [(None, None)] * node.outputs
    if node.bodies and not node.has_own_bodies:
        return unknown
    if node.bodies and node.like is not None:  # their inference needs the bodies: they compute the same
        own = [(tensor.dtype, tensor.shape) for tensor in node.like.outputs]
        return [*own, *unknown][: node.outputs]
    opset = model.opset if model is not None else onnx.defs.onnx_opset_version()
    versions = model.versions if model is not None else {"": opset}
    try:
        arrays = constant_operands(node, opset)
    except ValueError:
        return unknown
    inputs: list[tuple[np.dtype | None, Shape | None, np.ndarray | None] | None] = []
    for operand, array in zip(node.inputs, arrays, strict=True):
        value = operand if isinstance(operand, Value) else None if array is None else NewConstant(array)
        if value is None:
            inputs.append(None)
        else:
            shape = value.shape
            few = is_static(shape) and math.prod(shape) <= 64
            inputs.append((value.dtype, value.shape, value.constant if few else None))
    try:
        proto = onnx.helper.make_node(node.op, [], [], domain=node.domain, **dict(node.attrs))
    except (TypeError, ValueError):
        return unknown
    return node_types(proto, inputs, node.outputs, versions) or unknown
