"""How constructs are written: operands, one node or a small net of them, the model and its feeds."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

Sizes = Mapping[str, int]
Feeds = dict[str, np.ndarray]

IR_VERSION = 10
BFLOAT16 = np.dtype(ml_dtypes.bfloat16)


@dataclass(frozen=True)
class Input:
    """An input of the model: its type, its dimensions (a name where dynamic) and the values that feed it.

    Attributes:
        dtype: of its elements.
        dims: None where not even the rank is stated.
        values: from a random generator and the sizes of a run.
    """

    dtype: np.dtype
    dims: tuple[int | str, ...] | None
    values: Callable[[np.random.Generator, tuple[int, ...]], np.ndarray]


def f(*dims: int | str, low: float = -2, high: float = 2, dtype: Any = np.float32) -> Input:
    """Evenly distributed numbers of a floating-point type."""
    kind = np.dtype(dtype)
    return Input(kind, dims, lambda random, shape: random.uniform(low, high, shape).astype(kind))


def i(*dims: int | str, low: int = 0, high: int = 10, dtype: Any = np.int64) -> Input:
    """Whole numbers from low to below high."""
    kind = np.dtype(dtype)
    return Input(kind, dims, lambda random, shape: random.integers(low, high, shape).astype(kind))


def b(*dims: int | str) -> Input:
    """True and false."""
    return Input(np.dtype(bool), dims, lambda random, shape: random.integers(0, 2, shape).astype(bool))


def given(value: Any, *dims: int | str) -> Input:
    """These values; dims where some of its dimensions are dynamic."""
    array = np.asarray(value)
    return Input(array.dtype, dims or array.shape, lambda random, shape: array)


Operand = Input | np.ndarray | np.generic | str | None
"""An input of the model, a constant, the name of a value, or nothing."""


@dataclass(frozen=True)
class Construct:
    """A tiny model and what feeds it.

    Attributes:
        name: of the construct, without its subject.
        make: gives the model.
        inputs: by name.
        sizes: of the dynamic dimensions, for each run.
        random: whether only types and shapes of the outputs are determined.
        step: what one code of a quantized output is worth (or a unit of half precision inside), 0 where nothing
            is quantized.
        subject: the file that it is of.
    """

    name: str
    make: Callable[[], onnx.ModelProto]
    inputs: Mapping[str, Input]
    sizes: Sequence[Sizes] = ({},)
    random: bool = False
    step: float = 0.0
    subject: str = ""

    @property
    def key(self) -> str:
        return f"{self.subject}/{self.name}"

    @functools.cached_property
    def model(self) -> onnx.ModelProto:
        """The model; the type of an output is as inferred, or as onnxruntime has it on the first feeds."""
        model = self.make()
        with contextlib.suppress(Exception):  # where onnxruntime does not run it, who runs it next says so
            _complete(model, self.feeds()[0])
        return model

    @functools.cached_property
    def digest(self) -> str:
        """Of the model: a stored verdict holds for it alone."""
        return hashlib.sha256(content(self.model, outputs=False)).hexdigest()[:16]

    def feeds(self) -> list[Feeds]:
        """The inputs of each run; the same ones whenever they are asked for."""
        runs = []
        for number, sizes in enumerate(self.sizes):
            random = np.random.default_rng([zlib.crc32(self.name.encode()), number])
            runs.append(
                {
                    name: np.asarray(one.values(random, tuple(sizes.get(d, d) for d in one.dims or ())))
                    for name, one in self.inputs.items()
                }
            )
        return runs


def _complete(model: onnx.ModelProto, feeds: Feeds) -> None:
    """States the type of outputs for which inference finds none, or a wrong one (STFT, SplitToSequence)."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, ["CPUExecutionProvider"])
    for output, value in zip(model.graph.output, session.run(None, feeds), strict=True):
        found = output.type.tensor_type
        sizes = [dim.dim_value if dim.HasField("dim_value") else None for dim in found.shape.dim]
        fits = len(sizes) == value.ndim and all(
            n in (None, m) for n, m in zip(sizes, value.shape, strict=True)
        )
        if not found.HasField("shape") or not fits:
            output.CopyFrom(info(output.name, value.dtype, [None] * value.ndim))


@dataclass
class Net:
    """A net in the making; its nodes compute one after another.

    `net("Add", f(2, 3), np.float32(1))` adds a node and gives the name of its output.
    """

    opset: int = 18
    domains: Mapping[str, int] = field(default_factory=dict)
    ir_version: int = IR_VERSION
    nodes: list[onnx.NodeProto] = field(default_factory=list)
    constants: list[onnx.TensorProto] = field(default_factory=list)
    inputs: dict[str, Input] = field(default_factory=dict)
    functions: list[onnx.FunctionProto] = field(default_factory=list)
    prefix: str = ""

    def value(self, operand: Operand) -> str:
        """The name of an operand."""
        if operand is None:
            return ""
        if isinstance(operand, str):
            return operand
        if isinstance(operand, Input):
            name = f"x{len(self.inputs)}"
            self.inputs[name] = operand
            return name
        self.constants.append(tensor(operand, f"{self.prefix}c{len(self.constants)}"))
        return self.constants[-1].name

    def __call__(self, op: str, *operands: Operand, domain: str = "", **attributes: Any) -> str:
        return self.several(1, op, *operands, domain=domain, **attributes)[0]

    def several(
        self, count: int, op: str, *operands: Operand, domain: str = "", **attributes: Any
    ) -> tuple[str, ...]:
        """Adds a node with several outputs."""
        names = [self.value(operand) for operand in operands]
        first = len(self.nodes)
        outputs = [f"{self.prefix}{op.lower()}{first}" + (f"_{n}" if n else "") for n in range(count)]
        name = f"{self.prefix}n{first}"
        self.nodes.append(helper.make_node(op, names, outputs, name=name, domain=domain, **attributes))
        return tuple(outputs)

    def model(self, outputs: Sequence[str]) -> onnx.ModelProto:
        """The model; the types of its outputs are inferred, or left open."""
        stated = [info(name, one.dtype, one.dims) for name, one in self.inputs.items()]
        graph = helper.make_graph(
            self.nodes,
            "net",
            stated,
            [helper.make_empty_tensor_value_info(n) for n in outputs],
            self.constants,
        )
        opsets = [helper.make_opsetid("", self.opset)]
        opsets += [helper.make_opsetid(domain, version) for domain, version in self.domains.items()]
        model = helper.make_model(
            graph, opset_imports=opsets, ir_version=self.ir_version, functions=self.functions
        )
        typed = onnx.shape_inference.infer_shapes(model).graph.output
        for output, found in zip(graph.output, typed, strict=True):
            output.CopyFrom(found)
        model.graph.CopyFrom(graph)
        return model


Build = Callable[[Net], str | Sequence[str]]


def net(
    name: str,
    build: Build,
    *,
    opset: int = 18,
    domains: Mapping[str, int] | None = None,
    ir_version: int = IR_VERSION,
    sizes: Sequence[Sizes] = ({},),
    random: bool = False,
    step: float = 0.0,
) -> Construct:
    """A construct of several nodes: what `build` makes of an empty net; it gives the outputs."""
    empty = functools.partial(Net, opset, domains or {}, ir_version)
    trial = empty()
    build(trial)

    def make() -> onnx.ModelProto:
        made = empty()
        outputs = build(made)
        return made.model([outputs] if isinstance(outputs, str) else outputs)

    return Construct(name, make, dict(trial.inputs), sizes, random, step)


_OF_THE_CONSTRUCT = ("opset", "domains", "ir_version", "sizes", "random", "step")


def one(
    name: str, op: str, *operands: Operand, outputs: int = 1, domain: str = "", **options: Any
) -> Construct:
    """A construct of one node; what is no option of `net` is an attribute."""
    options = dict(options)
    of_net = {key: options.pop(key) for key in _OF_THE_CONSTRUCT if key in options}
    if domain:
        of_net.setdefault("domains", {domain: 1})

    def build(empty: Net) -> Sequence[str]:
        return empty.several(outputs, op, *operands, domain=domain, **options)

    return net(name, build, **of_net)


def graph(
    name: str,
    inputs: Sequence[tuple[str, Any, Sequence[int | str] | None]],
    outputs: Sequence[tuple[Any, Sequence[int | str] | None]],
    build: Build,
) -> onnx.GraphProto:
    """The body of a node.

    Args:
        name: of the body; those of its values begin with it.
        inputs: name, type and dimensions of each.
        outputs: type and dimensions of each.
        build: adds the nodes to an empty net, and gives the outputs.
    """
    inside = Net(prefix=f"{name}_")
    given_names = build(inside)
    names = [given_names] if isinstance(given_names, str) else given_names
    results = [info(given, *what) for given, what in zip(names, outputs, strict=True)]
    return helper.make_graph(
        inside.nodes, name, [info(*entry) for entry in inputs], results, inside.constants
    )


def info(name: str, dtype: Any, dims: Sequence[int | str | None] | None) -> onnx.ValueInfoProto:
    """What a value is."""
    return helper.make_tensor_value_info(name, kind(dtype), dims if dims is None else list(dims))


def kind(dtype: Any) -> int:
    """The number of an element type."""
    return int(helper.np_dtype_to_tensor_dtype(np.dtype(dtype)))


def tensor(value: Any, name: str) -> onnx.TensorProto:
    """A constant."""
    array = np.asarray(value)
    return numpy_helper.from_array(array, name)


def weights(*shape: int, dtype: Any = np.float32, seed: int = 0) -> np.ndarray:
    """Random weights, of a magnitude that keeps sums near 1."""
    random = np.random.default_rng([seed, *shape])
    return (random.standard_normal(shape) / np.sqrt(max(1, np.prod(shape[1:])))).astype(dtype)


def codes(*shape: int, dtype: Any = np.int8, seed: int = 0) -> np.ndarray:
    """Random codes of an integer type."""
    random = np.random.default_rng([seed, *shape])
    limits = np.iinfo(dtype)
    return random.integers(limits.min, limits.max + 1, shape).astype(dtype)


def f32(*values: Any) -> np.ndarray:
    """A constant of float32: one number is a scalar."""
    return np.array(values[0] if len(values) == 1 else values, np.float32)


def i64(*values: Any) -> np.ndarray:
    """A constant of int64: one number is a scalar, [n] a vector of one."""
    return np.array(values[0] if len(values) == 1 else values, np.int64)


def half(operand: Input) -> Input:
    """The same input in float16."""
    return Input(
        np.dtype(np.float16),
        operand.dims,
        lambda random, shape: operand.values(random, shape).astype(np.float16),
    )


def content(model: onnx.ModelProto, *, outputs: bool = True) -> bytes:
    """A model without what does not say what it computes; or also without its outputs, which are inferred."""
    bare = onnx.ModelProto()
    bare.opset_import.extend(sorted(model.opset_import, key=lambda entry: entry.domain))
    bare.functions.extend(model.functions)
    for part in ("node", "input", "output") if outputs else ("node", "input"):
        getattr(bare.graph, part).extend(getattr(model.graph, part))
    bare.graph.initializer.extend(sorted(model.graph.initializer, key=lambda tensor: tensor.name))
    for node in bare.graph.node:
        node.ClearField("name")
        attributes = sorted(node.attribute, key=lambda attribute: attribute.name)
        del node.attribute[:]
        node.attribute.extend(attributes)
    return bare.SerializeToString(deterministic=True)


Constructs = Iterator[Construct]
"""What the function `constructs` of a subject's file gives."""

__all__ = [
    "BFLOAT16", "Build", "Construct", "Constructs", "Feeds", "Input", "Net", "Operand", "TensorProto", "b", "codes", "content",
    "f", "f32", "given", "graph", "half", "helper", "i", "i64", "info", "kind", "net", "one",
    "tensor", "weights",
]  # fmt: skip
