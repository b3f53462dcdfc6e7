"""A graph node by node: what each reads, writes and computes in, as rows; the piece around one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx

from onnxq.base.errors import UserError, nearest, unknown_name
from onnxq.base.grouped import grouped
from onnxq.base.patterns import fits
from onnxq.base.plain import DocumentPart
from onnxq.base.shown import Shown, Words, count, model_name
from onnxq.graph.layers import multiplies
from onnxq.graph.model import Model
from onnxq.graph.pairs import QDQ, pair_of
from onnxq.graph.types import Dim, Shape, is_float
from onnxq.graph.view import Body, Node, Tensor

PAIR = "pair"
"""The precision of a QuantizeLinear or DequantizeLinear."""

_FEW = 8
_ROWS = 10
_LONG = 64


@dataclass(frozen=True, slots=True)
class NodeTensor(DocumentPart):
    """A tensor that a node reads or writes.

    Attributes:
        name: its name, "" for an optional one that is left out.
        kind: "input" or "output" of the model or body, "constant", "activation", "" for what is left out.
        dtype: its type as numpy calls it, None where it is not known.
        shape: its dimensions: a size, a symbol, or None where nothing is known; None: the rank is not known.
        values: the values of a constant of at most 8 elements, None for others.
    """

    name: str
    kind: str
    dtype: str | None
    shape: tuple[int | str | None, ...] | None
    values: tuple[int | float | bool, ...] | None


@dataclass(frozen=True, slots=True)
class NodeRow(DocumentPart):
    """A node.

    Attributes:
        index: its place, from 0: the main graph's nodes as they run, then those of bodies.
        name: its name; one that the file leaves out, or gives twice, is one that onnxq gave it.
        op: its operator, with the domain where it is not ONNX's own: `com.microsoft.Gelu`.
        graph: which graph it is in, by `GraphRow.path`.
        precision: the type of the codes (`int8`, `float8_e4m3fn`) where all floats that it computes from are
            dequantized, `pair` of a QuantizeLinear or DequantizeLinear, else the type of its first output; ""
            where that is not known.
        inputs: what it reads, in order.
        outputs: what it writes, in order.
        attributes: what the file gives it: numbers, texts, tuples of them; tensors and long lists in words.
        bodies: the paths of its subgraph bodies.
    """

    index: int
    name: str
    op: str
    graph: str
    precision: str
    inputs: tuple[NodeTensor, ...]
    outputs: tuple[NodeTensor, ...]
    attributes: Mapping[str, Any]
    bodies: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class GraphRow(DocumentPart):
    """A graph of a model.

    Attributes:
        path: what it is called here: "" for the main graph, `<node>.<attribute>` for a body.
        around: the path of the graph around it, None for the main graph.
    """

    path: str
    around: str | None


@dataclass(frozen=True, slots=True, repr=False)
class ModelNodes(Shown, DocumentPart):
    """Nodes of a model.

    Attributes:
        kind: "nodes".
        schema: 1.
        model: the model's file, "" for one that came from none.
        opset: the version of ONNX's operators.
        total: how many nodes the model has.
        match: the patterns that names have to fit, none for all.
        ops: the operators, none for all.
        around: the node or tensor that they are around, None for no such choice.
        depth: how many nodes away from it at most.
        graphs: the graphs of the model.
        nodes: the rows, in order.
    """

    kind: str
    schema: int
    model: str
    opset: int
    total: int
    match: tuple[str, ...]
    ops: tuple[str, ...]
    around: str | None
    depth: int
    graphs: tuple[GraphRow, ...]
    nodes: tuple[NodeRow, ...]

    def words(self) -> Words:
        """How many nodes there are, and the first."""
        rows = [(one.name, one.op, one.precision) for one in self.nodes[:_ROWS]]
        head = f"{len(self.nodes)} of {count(self.total, 'node')} of {model_name(self.model)}"
        return Words(head, [f"opset {self.opset}"], ("node", "operator", "precision"), rows)


@dataclass(frozen=True, slots=True)
class NodeLink:
    """A tensor from the node that writes it to one that reads it: their places; -1 where none writes it."""

    source: int
    reader: int
    tensor: NodeTensor


def nodes_of(
    model: Model,
    *,
    match: Sequence[str] = (),
    ops: Sequence[str] = (),
    around: str | None = None,
    depth: int = 2,
) -> ModelNodes:
    """The nodes of a model that a choice leaves, each with all that the graph says of it.

    Args:
        model: the model, whose shapes are inferred.
        match: patterns (`*`, `?`, `[...]`): only nodes of which one fits the name, or that of a tensor that
            they write, or of a constant or an input that they read.
        ops: only nodes of these operators.
        around: only nodes that are near a node, or near the nodes of a tensor, of this name.
        depth: how near: how many tensors away at most.

    Raises:
        UserError: there is no such node, tensor or operator, or the depth is negative.
    """
    if depth < 0:
        raise UserError(f"--depth {depth}: there must be at least 0", hint="0 is the node alone")
    graphs, rows = _listed(model)
    operators = {row.op for row in rows}
    for op in ops:
        if op not in operators:
            raise unknown_name("operator in the model named", op, sorted(operators))
    kept = [row for row in rows if (not ops or row.op in ops) and fits((row.name, *_own(row)), match)]
    if match and not kept:
        names = [row.name for row in rows if not ops or row.op in ops]
        raise UserError(f"no node fits {' or '.join(map(repr, match))}", hint=nearest(match[0], names))
    if around is not None:
        near = _near(graphs, rows, around, depth)
        kept = [row for row in kept if row.index in near]
    return ModelNodes(
        kind="nodes", schema=1, model="" if model.path is None else str(model.path), opset=model.opset,
        total=len(rows), match=tuple(match), ops=tuple(ops), around=around, depth=depth,
        graphs=tuple(graphs), nodes=tuple(kept),
    )  # fmt: skip


def links(graphs: Sequence[GraphRow], rows: Sequence[NodeRow]) -> list[NodeLink]:
    """The tensors between nodes: those that one of the nodes reads, constants left out."""
    around = {graph.path: graph.around for graph in graphs}
    writers = {(row.graph, t.name): row.index for row in rows for t in row.outputs if t.name}

    def writer(path: str | None, name: str) -> int:
        while path is not None:  # a body reads what the graphs around it write
            if (path, name) in writers:
                return writers[path, name]
            path = around.get(path)
        return -1

    return [
        NodeLink(writer(row.graph, tensor.name), row.index, tensor)
        for row in rows
        for tensor in {t.name: t for t in row.inputs if t.name and t.kind != "constant"}.values()
    ]


def _near(graphs: Sequence[GraphRow], rows: Sequence[NodeRow], name: str, depth: int) -> set[int]:
    """The places of the nodes that are near."""
    near = {row.index for row in rows if row.name == name}
    if not near:
        near = {row.index for row in rows if name in _tensors(row)}
    if not near:
        names = dict.fromkeys(n for row in rows for n in (row.name, *_tensors(row)))
        raise unknown_name("node or tensor", name, names)
    ends = [(link.source, link.reader) for link in links(graphs, rows) if link.source >= 0]
    beside = grouped([*ends, *((reader, source) for source, reader in ends)])
    last = near
    for _ in range(depth):
        last = {other for one in last for other in beside.get(one, ())} - near
        if not last:
            break
        near = near | last
    return near


def _tensors(row: NodeRow) -> Iterator[str]:
    return (tensor.name for tensor in (*row.inputs, *row.outputs) if tensor.name)


def _own(row: NodeRow) -> Iterator[str]:
    """The tensors that are looked for at a node: what it writes, and what it reads that no node writes."""
    read = (tensor for tensor in row.inputs if tensor.kind in ("constant", "input"))
    return (tensor.name for tensor in (*row.outputs, *read) if tensor.name)


def _listed(model: Model) -> tuple[list[GraphRow], list[NodeRow]]:
    """All graphs and all nodes."""
    graphs, rows = [GraphRow("", None)], list[NodeRow]()
    todo: list[tuple[str, Model | Body]] = [("", model)]
    fed: set[Tensor] = set()  # bodies read the inputs of the graphs around them
    while todo:
        path, part = todo.pop()
        fed.update(part.inputs)
        for node in part.nodes:
            bodies = {f"{node.name}.{name}": body for name, body in node.bodies.items()}
            graphs += [GraphRow(name, path) for name in bodies]
            todo += bodies.items()
            rows.append(_row(len(rows), node, path, fed, tuple(bodies)))
    return graphs, rows


def _row(index: int, node: Node, path: str, fed: set[Tensor], bodies: tuple[str, ...]) -> NodeRow:
    return NodeRow(
        index=index,
        name=node.name,
        op=node.operator,
        graph=path,
        precision=_precision(node),
        inputs=tuple(_tensor(tensor, fed) for tensor in node.inputs),
        outputs=tuple(_tensor(tensor, fed) for tensor in node.outputs),
        attributes={name: _plain(value) for name, value in node.attrs.items()},
        bodies=bodies,
    )


def _precision(node: Node) -> str:
    if node.op in QDQ:
        return PAIR
    floats = [t for t in node.inputs if t is not None and is_float(t.dtype)]
    if multiplies(node):  # a bias is float whatever the layer computes in
        floats = floats[:2]
    pairs = [pair_of(t) for t in floats if not t.is_constant or multiplies(node)]
    codes = [pair.codes for pair in pairs if pair is not None]
    types = {str(one.dtype) for one in codes if one is not None and one.dtype is not None}
    if node.op != "Cast" and pairs and None not in pairs and len(types) == 1:
        return types.pop()
    first = node.outputs[0].dtype if node.outputs else None
    return "" if first is None else str(first)


def _tensor(tensor: Tensor | None, fed: set[Tensor]) -> NodeTensor:
    if tensor is None or not tensor.name:
        return NodeTensor("", "", None, None, None)
    kind = "activation"
    if tensor.is_constant:
        kind = "constant"
    elif tensor in fed:
        kind = "input"
    elif tensor.is_output:
        kind = "output"
    shape, dtype = tensor.shape, tensor.dtype
    return NodeTensor(
        name=tensor.name,
        kind=kind,
        dtype=None if dtype is None else str(dtype),
        shape=None if shape is None else tuple(map(_dim, shape)),
        values=_values(tensor, shape) if kind == "constant" else None,
    )


def _dim(dim: Dim) -> Dim:
    return int(dim) if isinstance(dim, np.integer) else dim


def _values(tensor: Tensor, shape: Shape | None) -> tuple[Any, ...] | None:
    """The values of a small constant; None for a large one, and for one whose file left its data out."""
    size = 1
    for dim in shape or ():
        size *= dim if isinstance(dim, int) else _FEW + 1
    if shape is None or size > _FEW:
        return None
    try:
        values = tensor.constant
    except (OSError, UserError, ValueError):
        return None
    if values is None or values.dtype.kind not in "biufV":
        return None
    wide = values if values.dtype.kind in "biu" else values.astype(np.float64)
    return tuple(wide.reshape(-1).tolist())


def _plain(value: Any) -> Any:
    """An attribute's value as plain data; a tensor or a long list in words."""
    if isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, np.ndarray):
        if value.size <= _FEW and value.dtype.kind in "biuf":
            return tuple(value.reshape(-1).tolist())
        return f"{value.dtype} {list(value.shape)}"
    if isinstance(value, list) and all(isinstance(one, bool | int | float | str) for one in value):
        return tuple(value) if len(value) <= _LONG else f"{len(value)} values"
    if isinstance(value, onnx.SparseTensorProto):
        return f"sparse {list(value.dims)}"
    return type(value).__name__
