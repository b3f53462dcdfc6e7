"""`onnxq inspect`: what is in a model."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from onnxq import settings
from onnxq.cli import options as flags
from onnxq.cli.chosen import Chosen, takes
from onnxq.cli.screen import Screen
from onnxq.errors import UserError, unknown_name

if TYPE_CHECKING:
    from onnxq.graph.model import Model
    from onnxq.graph.view import Node, Tensor


@takes(settings.Inputs, without=("assume", "freeze"))
def inspect(
    screen: Screen,
    chosen: Chosen,
    model: flags.ModelPath,
    tensor: Annotated[
        str | None, typer.Option(metavar="NAME", help="Show this tensor, with its scale and why.")
    ] = None,
    ops: Annotated[bool, typer.Option("--ops", help="List all operators and all layers.")] = False,
    nodes: Annotated[bool, typer.Option("--nodes", help="Show the graph node by node.")] = False,
    match: flags.Match = None,
    op: flags.Operator = None,
    around: Annotated[
        str | None, typer.Option(metavar="NAME", help="Only nodes near this node or tensor.")
    ] = None,
    depth: Annotated[
        int | None, typer.Option(metavar="N", help="How near: tensors away at most; 2 by default.")
    ] = None,
    dot: Annotated[
        Path | None, typer.Option(metavar="X.dot", help="Draw these nodes, for Graphviz: dot -Tsvg X.dot.")
    ] = None,
    csv: flags.Csv = None,
    all_rows: Annotated[bool, typer.Option("--all", help="Show all nodes, not the first ten.")] = False,
    force: flags.Force = False,
) -> None:
    """Show what a model holds, all about one tensor, or the graph node by node.

    The flags that choose, draw or write nodes (--match, --op, --around, --dot, --csv) are --nodes as well.
    """
    if nodes or match or op or around is not None or dot is not None or csv is not None:
        if tensor is not None or ops:
            other = "--tensor" if tensor is not None else "--ops"
            raise UserError(f"{other} and the nodes exclude each other", hint="leave one of them out")
        choice = _Choice(tuple(match or ()), tuple(op or ()), around, depth)
        return _show_nodes(screen, chosen, model, choice, _Written(dot, csv, force), full=all_rows)
    if depth is not None or all_rows:
        flag = "--depth" if depth is not None else "--all"
        raise UserError(
            f"{flag} is about nodes, and none are asked for", hint="give --nodes, or leave it out"
        )
    from onnxq.cli.pages.model import model_page, tensor_page
    from onnxq.emit.files import report_path
    from onnxq.graph.model import Model

    opened = Model.open(model, stripped=tensor is None)
    for name, dims in (chosen.group(settings.Inputs).shapes or {}).items():
        opened.set_input_shape(name, dims)
    opened.infer_shapes()
    if tensor is None:
        document = describe(opened, model)
        screen.show(model_page(document, full=ops))
    else:
        document = {"schema": 1, "model": str(model), "tensor": describe_tensor(opened, tensor)}
        document["quantization"] = quantization_of(tensor, report_path(model))
        screen.show(tensor_page(document))
    screen.document(document)
    return None


@dataclass(frozen=True, slots=True)
class _Choice:
    """Which nodes are shown; see `onnxq.inspect`."""

    match: tuple[str, ...]
    ops: tuple[str, ...]
    around: str | None
    depth: int | None


@dataclass(frozen=True, slots=True)
class _Written:
    """What is written of them, and whether a file of the user's may be replaced."""

    dot: Path | None
    csv: Path | None
    force: bool


def _show_nodes(
    screen: Screen, chosen: Chosen, model: Path, choice: _Choice, written: _Written, *, full: bool
) -> None:
    """Shows the nodes, and writes them."""
    import onnxq
    from onnxq.analysis.nodes import NodeRow
    from onnxq.cli.pages.nodes import nodes_page
    from onnxq.emit.files import save_file
    from onnxq.emit.table_csv import check_csv_output, save_csv
    from onnxq.reporting import to_json

    if choice.depth is not None and choice.around is None:
        raise UserError("--depth says how near, and nothing says to what", hint="give --around NAME")
    if written.dot is not None:
        _check_dot_output(written.dot, model, force=written.force)
    if written.csv is not None:
        check_csv_output(written.csv, NodeRow, model, force=written.force)
    found = onnxq.inspect(
        model, match=choice.match, ops=choice.ops, around=choice.around,
        depth=2 if choice.depth is None else choice.depth, shapes=chosen.group(settings.Inputs).shapes,
    )  # fmt: skip
    if written.dot is not None:
        save_file(written.dot, onnxq.draw(found).encode("utf-8"))
    if written.csv is not None:
        save_csv(written.csv, NodeRow, found.nodes)
    if not screen.quiet:
        screen.show(nodes_page(found, drawn=written.dot, full=full))
    screen.document(to_json(found))


def _check_dot_output(path: Path, model: Path, *, force: bool) -> None:
    """Refuses a path for a drawing; an earlier one is replaced.

    Raises:
        UserError: see `onnxq.emit.files.check_output`.
    """
    from onnxq.analysis.drawing import FIRST_LINE
    from onnxq.emit.files import check_output

    try:
        with path.open("rb") as file:
            ours = file.read(len(FIRST_LINE)) == FIRST_LINE.encode()
    except OSError:
        ours = False
    check_output(path, model, force=force or ours, record=path)


def describe(model: Model, path: Path) -> dict[str, Any]:
    """What a model holds, as JSON."""
    from onnxq.graph.layers import WEIGHTED, layer_of
    from onnxq.graph.view import Node
    from onnxq.reporting import counted

    nodes = [Node(model, node) for graph in model.graphs() for node in graph.nodes]
    model.set_typical_input({name: _one_sample(dims) for name, _, dims in model.inputs if dims})
    layers = [layer for layer in map(layer_of, nodes) if layer is not None]
    weights = {t.name: t for node in nodes for t in node.inputs if t is not None and t.is_constant}
    return {
        "schema": 1,
        "model": str(path),
        "bytes": path.stat().st_size,
        "opset": model.opset,
        "ir_version": model.source.ir_version,
        "producer": f"{model.source.producer_name} {model.source.producer_version}".strip(),
        "inputs": [_tensor_json(*entry) for entry in model.inputs],
        "outputs": [_tensor_json(*entry) for entry in model.outputs],
        "dynamic": {
            dim: [
                f"{n} axis {axis}" for n, _, s in model.inputs for axis, d in enumerate(s or ()) if d == dim
            ]
            for _, _, dims in model.inputs
            for dim in dims or ()
            if isinstance(dim, str)
        },
        "ops": counted(f"{n.domain}.{n.op}" if n.domain else n.op for n in nodes),
        "weights": {
            "count": len(weights),
            "bytes": sum(t.nbytes for t in weights.values()),
            "dtypes": counted(str(t.dtype) for t in weights.values()),
            "external": model.data_dir is not None,
        },
        "qdq": {
            **{op: sum(node.op == op for node in nodes) for op in ("QuantizeLinear", "DequantizeLinear")},
            "layers": sum(node.op in WEIGHTED and _is_quantized(node) for node in nodes),
        },
        "layers": [
            {
                "node": layer.node.name,
                "op": layer.node.op,
                "macs": layer.macs,
                "eligible": layer.ineligible is None,
                "because": layer.ineligible,
            }
            for layer in layers
        ],
    }


def describe_tensor(model: Model, name: str) -> dict[str, Any]:
    """All about one tensor, as JSON.

    Raises:
        UserError: there is no such tensor.
    """
    from onnxq.graph.view import Tensor

    known = {t.name: t for graph in model.graphs() for t in graph.tensors().values() if t.name}
    if name not in known:
        raise unknown_name("tensor", name, known)
    tensor = Tensor(model, known[name])
    maker = tensor.producer
    kind = "constant" if tensor.is_constant else "input" if tensor.is_input else "activation"
    return {
        **_tensor_json(name, tensor.dtype, tensor.shape),
        "kind": "output" if kind == "activation" and tensor.is_output else kind,
        "producer": {"node": maker.name, "op": maker.op} if maker is not None else None,
        "consumers": [{"node": user.name, "op": user.op} for user in tensor.users],
        "statistics": _statistics(tensor),
    }


def quantization_of(name: str, report: Path) -> dict[str, Any] | None:
    """What the report beside a model says of a tensor's scale; None where it says nothing."""
    try:
        document = json.loads(report.read_text("utf-8"))
        plan, scales = document["plan"], document["calibration"]["scales"]
        groups = [group for group in plan["groups"] if name in group["tensors"]]
    except (OSError, ValueError, KeyError, TypeError):  # no report, or not one of onnxq's
        return None
    if not groups:
        return None
    sites = [site for site in plan["sites"] if site["tensor"] == name]
    return {
        "scale": scales.get(name),
        "axis": sites[0]["axis"] if sites else None,
        "group": groups[0],
        "because": sites[0]["because"] if sites else None,
        "readers": [reader for site in sites for reader in site["readers"]],
    }


def _is_quantized(node: Node) -> bool:
    """Whether data and weights are what DequantizeLinear gives, moved or cast at most."""
    from onnxq.graph.pairs import is_dequantized

    return all(tensor is not None and is_dequantized(tensor) for tensor in node.operands(2))


def _one_sample(dims: tuple[int | str | None, ...]) -> tuple[int | str | None, ...]:
    """A shape with a dynamic first dimension, the batch, of 1."""
    return (dims[0] if isinstance(dims[0], int) else 1, *dims[1:])


def _tensor_json(name: str, dtype: Any, dims: tuple[int | str | None, ...] | None) -> dict[str, Any]:
    return {
        "name": name,
        "dtype": None if dtype is None else str(dtype),
        "shape": None if dims is None else list(dims),
    }


def _statistics(tensor: Tensor) -> dict[str, Any] | None:
    import numpy as np

    from onnxq.reporting import to_json

    values = tensor.constant
    if values is None or values.size == 0 or values.dtype.kind not in "biufV":
        return None
    wide = values.astype(np.float64)
    found: dict[str, Any] = to_json(
        {"min": wide.min(), "max": wide.max(), "mean": wide.mean(), "zeros": int((wide == 0).sum())}
    )
    return found
