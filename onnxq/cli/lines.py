"""Command lines of `onnxq quantize`, read again as they were typed."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import typer

from onnxq.cli import options as flags
from onnxq.cli.chosen import Chosen, takes
from onnxq.cli.screen import Screen


@dataclass(frozen=True, slots=True)
class QuantizeLine:
    """A command line of `onnxq quantize`.

    Attributes:
        chosen: its flags.
        model: the model.
        output: the file to be written; None for the usual one.
        force: whether a file that onnxq did not write is replaced.
    """

    chosen: Chosen
    model: Path
    output: Path | None
    force: bool


def read_line(words: Sequence[str]) -> QuantizeLine:
    """Reads the words behind `onnxq quantize`.

    Raises:
        UserError: a flag has a value that it does not take.
    """
    read = takes("quantize", _line)

    def command(**arguments: Any) -> QuantizeLine:
        return read(Screen(quiet=True, verbose=False, json=False), **arguments)

    _, *own = inspect.signature(read, eval_str=True).parameters.values()
    command.__signature__ = inspect.Signature(own)  # type: ignore[attr-defined]
    command.__annotations__ = {one.name: one.annotation for one in own}
    line = typer.Typer(add_completion=False)
    line.command()(command)
    found: QuantizeLine = line(list(words), standalone_mode=False)
    return found


def _line(
    screen: Screen, chosen: Chosen, model: flags.ModelPath, output: flags.Output = None,
    force: flags.Force = False,
) -> QuantizeLine:  # fmt: skip
    return QuantizeLine(chosen, model, output, force)
