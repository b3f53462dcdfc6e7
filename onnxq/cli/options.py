"""The arguments and flags that verbs have beside the groups of options: which files they read and write."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

ModelPath = Annotated[Path, typer.Argument(metavar="MODEL", help="The ONNX model.", show_default=False)]
Output = Annotated[Path | None, typer.Option("-o", "--output", metavar="X.onnx", help="The model to write.")]
Csv = Annotated[Path | None, typer.Option("--csv", metavar="X.csv", help="Write all rows as CSV.")]
Match = Annotated[
    list[str] | None,
    typer.Option("--match", metavar="GLOB", help="Only what a name that fits is of: '/head/*'; repeatable."),
]
Operator = Annotated[
    list[str] | None, typer.Option("--op", metavar="TYPE", help="Only what this operator is of; repeatable.")
]
Channels = Annotated[bool, typer.Option("--channels/--no-channels", help="Rows for channels, too.")]
AllRows = Annotated[bool, typer.Option("--all", help="Show all rows, not the worst ten.")]
Force = Annotated[bool, typer.Option("--force", help="Replace a file that onnxq did not write.")]


def names(*entries: str) -> list[str]:
    """The tensors of `A,B` entries."""
    return [name for entry in entries for name in entry.split(",") if name]
