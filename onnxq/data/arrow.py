"""Rows of tables in parquet and Arrow files, as Hugging Face's datasets are saved."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from onnxq.base import interrupts
from onnxq.base.errors import UserError

_ROWS = 256
"""Rows that are written at a time: of images these are some 100 MB at most."""


class ArrowRows:
    """The rows of files with the same columns, one after another, each a dictionary.

    Arrow files are mapped. Parquet files are unpacked into such files, as their rows can be read only in
    large groups; these go with this object.
    """

    def __init__(self, files: Sequence[Path]) -> None:
        """Opens files.

        Raises:
            UserError: one cannot be read, or pyarrow is not there.
        """
        try:
            import pyarrow
        except ImportError as error:
            raise UserError(
                f"{str(files[0])!r} is read by the package pyarrow, which is not installed",
                hint="pip install pyarrow",
            ) from error
        self._folder = interrupts.Folder() if any(map(_is_parquet, files)) else None
        tables = []
        for number, file in enumerate(files):
            try:
                path = file
                if _is_parquet(file) and self._folder is not None:
                    path = Path(self._folder.name) / f"{number}.arrow"
                    _unpack(file, path)
                tables.append(_mapped(path))
            except (pyarrow.ArrowException, OSError) as error:
                raise UserError(
                    f"cannot read {str(file)!r} as a table: {str(error).partition(chr(10))[0]}",
                    hint="it may be truncated; write it again",
                ) from error
        try:
            self._table = pyarrow.concat_tables(tables)
        except pyarrow.ArrowException as error:
            raise UserError(
                f"the tables of {str(files[0])!r} and of the files beside it have other columns",
                hint="keep one kind of table in a folder",
            ) from error

    def __len__(self) -> int:
        """How many there are."""
        return int(self._table.num_rows)

    def __getitem__(self, index: int) -> dict[str, Any]:
        """One of them: numbers, lists, bytes and dictionaries by the names of columns."""
        (row,) = self._table.slice(index, 1).to_pylist()
        return dict(row)


def _is_parquet(path: Path) -> bool:
    return path.suffix.lower() == ".parquet"


def _unpack(parquet: Path, arrow: Path) -> None:
    import pyarrow.parquet

    with (
        pyarrow.parquet.ParquetFile(parquet) as file,
        pyarrow.OSFile(str(arrow), "wb") as sink,
        pyarrow.ipc.new_stream(sink, file.schema_arrow) as out,
    ):
        for batch in file.iter_batches(_ROWS):
            out.write_batch(batch)


def _mapped(path: Path) -> Any:
    """The table of an Arrow file of either form: a stream, as `save_to_disk` writes it, or a file."""
    import pyarrow

    source = pyarrow.memory_map(str(path))
    try:
        return pyarrow.ipc.open_stream(source).read_all()
    except pyarrow.ArrowInvalid:
        source.seek(0)
        return pyarrow.ipc.open_file(source).read_all()
