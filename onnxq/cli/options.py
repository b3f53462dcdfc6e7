"""The arguments and flags that verbs have beside the groups of options: which files they read and write.

A parameter of a verb may be one of the dataclasses: its fields are flags, those of the last base first.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from onnxq.base.patterns import fits

if TYPE_CHECKING:
    from onnxq.analysis.octaves import WhichChannels


def file_or_folder(text: str) -> Path:
    """What is written, as it is typed: with a slash at its end it is a folder, never a file of that name.

    Raises:
        BadParameter: there is no such folder, or nothing is typed.
    """
    if not text:  # of a variable of the shell that is not set
        raise typer.BadParameter("no name is given")
    if text.endswith(tuple(filter(None, (os.sep, os.altsep)))) and not Path(text).is_dir():
        raise typer.BadParameter(f"there is no folder {text!r} to write to: create it first")
    return Path(text)


def written(output: Path | None, default: Path | str) -> Path:
    """What a verb writes: as -o names it; of a folder that is there, the file of the default name in it."""
    if output is None:
        return Path(default)
    return output / Path(default).name if os.path.isdir(output) else output


ModelPath = Annotated[Path, typer.Argument(metavar="MODEL", help="The ONNX model.", show_default=False)]
Output = Annotated[
    Path | None,
    typer.Option("-o", "--output", metavar="X.onnx", help="The model to write.", parser=file_or_folder),
]
Csv = Annotated[Path | None, typer.Option("--csv", metavar="X.csv", help="Write all rows as CSV.")]
Match = Annotated[
    list[str] | None,
    typer.Option("--match", metavar="GLOB", help="Only rows whose name fits: '/head/*'; repeatable."),
]
Operator = Annotated[
    list[str] | None, typer.Option("--op", metavar="TYPE", help="Only rows of this operator; repeatable.")
]
Channels = Annotated[bool, typer.Option("--channels/--no-channels", help="Rows for channels, too.")]
AllRows = Annotated[bool, typer.Option("--all", help="Show all rows, not the worst ten.")]
Metric = Annotated[
    str | None,
    typer.Option(metavar="X.py:FUNC", help="Your own figure of two arrays, a and b; it is run."),
]
Force = Annotated[bool, typer.Option("--force", help="Replace a file that onnxq did not write.")]


@dataclass(frozen=True)
class ChoiceFlags:
    """Which rows are asked for."""

    match: Match = None
    op: Operator = None

    @property
    def globs(self) -> tuple[str, ...]:
        """What names have to fit."""
        return tuple(self.match or ())

    @property
    def ops(self) -> tuple[str, ...]:
        """Of which operators."""
        return tuple(self.op or ())

    @property
    def said(self) -> str:
        """What is asked for, in words."""
        return " and ".join(filter(None, (", ".join(self.globs), ", ".join(self.ops))))

    @property
    def is_any(self) -> bool:
        """Whether rows are asked for, and not all."""
        return bool(self.globs or self.ops)

    def wants(self, names: Iterable[str], op: str) -> bool:
        """Whether a row is asked for.

        Args:
            names: what it goes by.
            op: the operator that it is of, "" of none.
        """
        return fits(names, self.globs) and (not self.ops or op in self.ops)


ALL_ROWS = ChoiceFlags()
"""Nothing is asked for: all rows are shown."""


@dataclass(frozen=True)
class TableFlags:
    """The file that rows are written to."""

    csv: Csv = None
    force: Force = False

    def check(self, kind: type, model: Path | None = None) -> None:
        """Refuses a path that it must not be; see `onnxq.emit.table_csv.check_csv_output`."""
        if self.csv is not None:
            from onnxq.emit.table_csv import check_csv_output

            check_csv_output(self.csv, kind, model, force=self.force)

    def save(self, kind: type, rows: Iterable[Any]) -> None:
        """Writes the rows, where they are asked for."""
        if self.csv is not None:
            from onnxq.emit.table_csv import save_csv

            save_csv(self.csv, kind, rows)


def check_dot_output(path: Path, model: Path, *, force: bool) -> None:
    """Refuses a path for a drawing; an earlier one is replaced.

    Raises:
        UserError: see `onnxq.emit.files.check_output`.
    """
    from onnxq.base.dot import FIRST_LINE
    from onnxq.emit.files import check_output

    try:
        with path.open("rb") as file:
            ours = file.read(len(FIRST_LINE)) == FIRST_LINE.encode()
    except OSError:
        ours = False
    check_output(path, model, force=force or ours, record=path)


@dataclass(frozen=True)
class _Shown:
    all_rows: AllRows = False


@dataclass(frozen=True)
class _OfChannels:
    channels: Channels = True


@dataclass(frozen=True)
class RowFlags(TableFlags, _Shown, ChoiceFlags):
    """Rows that are shown, the worst ten or all, and written."""


@dataclass(frozen=True)
class ChannelRowFlags(RowFlags, _OfChannels):
    """Rows of tensors, and of their channels."""

    @property
    def histograms(self) -> WhichChannels:
        """Of which channels there are histograms."""
        return "all" if self.all_rows else "worst"


def names(*entries: str) -> list[str]:
    """The tensors of `A,B` entries."""
    return [name for entry in entries for name in entry.split(",") if name]
