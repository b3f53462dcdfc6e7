"""`onnxq inspect`: what is in a model."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from onnxq.base.errors import UserError
from onnxq.cli import options as flags
from onnxq.cli.chosen import Chosen
from onnxq.cli.screen import Screen
from onnxq.options import settings


@dataclass(frozen=True)
class _Choice(flags.ChoiceFlags):
    """Which nodes are shown."""

    around: Annotated[
        str | None, typer.Option(metavar="NAME", help="Only nodes near this node or tensor.")
    ] = None
    depth: Annotated[
        int | None, typer.Option(metavar="N", help="Largest distance in tensors; 2 by default.")
    ] = None


@dataclass(frozen=True)
class _Drawn:
    dot: Annotated[
        Path | None, typer.Option(metavar="X.dot", help="Draw these nodes, for Graphviz: dot -Tsvg X.dot.")
    ] = None
    csv: flags.Csv = None
    all_rows: Annotated[bool, typer.Option("--all", help="Show all nodes, not the first ten.")] = False


@dataclass(frozen=True)
class _Written(flags.TableFlags, _Drawn):
    """What is written and shown of them."""


def inspect(
    screen: Screen,
    chosen: Chosen,
    model: flags.ModelPath,
    tensor: Annotated[
        str | None, typer.Option(metavar="NAME", help="Show this tensor, its scale and the reason for it.")
    ] = None,
    ops: Annotated[bool, typer.Option("--ops", help="List all operators and all layers.")] = False,
    nodes: Annotated[bool, typer.Option("--nodes", help="Show the graph node by node.")] = False,
    *,
    choice: _Choice,
    written: _Written,
) -> None:
    """Show what a model holds, all about one tensor, or the graph node by node.

    The flags that choose, draw or write nodes (--match, --op, --around, --dot, --csv) imply --nodes.
    """
    drawn = written.dot is not None or written.csv is not None
    if nodes or choice.match or choice.op or choice.around is not None or drawn:
        if tensor is not None or ops:
            other = "--tensor" if tensor is not None else "--ops"
            raise UserError(f"{other} and the nodes exclude each other", hint="leave one of them out")
        return _show_nodes(screen, chosen, model, choice, written)
    if choice.depth is not None or written.all_rows:
        flag = "--depth" if choice.depth is not None else "--all"
        raise UserError(
            f"{flag} is about nodes, and none are asked for", hint="give --nodes, or leave it out"
        )
    import onnxq
    from onnxq.cli.pages.model import model_page, tensor_page

    inputs = chosen.group(settings.Inputs)
    if tensor is None:
        held = onnxq.describe(
            model, shapes=inputs.shapes, profiles=inputs.profiles, batch=inputs.batch,
            profile_weights=inputs.profile_weights,
        )  # fmt: skip
        screen.show(model_page(held, full=ops))
        screen.document(held)
    else:
        seen = onnxq.describe_tensor(model, tensor, shapes=inputs.shapes)
        screen.show(tensor_page(seen))
        screen.document(seen)
    return None


def _show_nodes(screen: Screen, chosen: Chosen, model: Path, choice: _Choice, written: _Written) -> None:
    """Shows the nodes, and writes them."""
    import onnxq
    from onnxq.analysis.nodes import NodeRow
    from onnxq.cli.pages.model import nodes_page
    from onnxq.emit.files import save_file

    if choice.depth is not None and choice.around is None:
        raise UserError("--depth says how near, and nothing says to what", hint="give --around NAME")
    if written.dot is not None:
        flags.check_dot_output(written.dot, model, force=written.force)
    written.check(NodeRow, model)
    found = onnxq.inspect(
        model, match=choice.globs, ops=choice.ops, around=choice.around,
        depth=2 if choice.depth is None else choice.depth, shapes=chosen.group(settings.Inputs).shapes,
    )  # fmt: skip
    if written.dot is not None:
        save_file(written.dot, onnxq.draw(found).encode("utf-8"))
    written.save(NodeRow, found.nodes)
    screen.result(found, lambda: nodes_page(found, drawn=written.dot, full=written.all_rows))
