"""Lists of data files: one path a line."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from onnxq.base import door
from onnxq.base.errors import UserError


@dataclass(frozen=True, slots=True)
class Entry:
    """A line of a list.

    Attributes:
        where: the list's path and the line's number, for messages: `train.txt:12`.
        text: the path as it is written.
        path: the file.
    """

    where: str
    text: str
    path: Path

    def check(self) -> None:
        """Refuses a missing file.

        Raises:
            UserError: there is no such file.
        """
        if not os.path.isfile(self.path):
            raise UserError(
                f"{self.where}: there is no file {self.text!r}",
                hint="paths are relative to the folder of their list, or to the working directory",
            )


def read_list(path: Path) -> list[Entry]:
    """The lines of a list; blank ones and those that begin with `#` are left out.

    Raises:
        UserError: the file cannot be read as text.
    """
    lines = (line.strip() for line in read_text(path).split("\n"))
    return [
        Entry(f"{path}:{number}", line, resolve(path, line))
        for number, line in enumerate(lines, 1)
        if line and not line.startswith("#")
    ]


def resolve(listed_in: Path, text: str) -> Path:
    """The file of a path in a list: relative to the list's folder, else to the working directory."""
    beside = listed_in.parent / text
    return Path(text) if os.path.isfile(text) and not os.path.isfile(beside) else beside


def read_text(path: Path) -> str:
    """The text of a file in UTF-8.

    Raises:
        UserError: it cannot be read, or is no text.
    """
    try:
        return door.text(path, "utf-8-sig")
    except OSError as error:
        raise UserError(
            f"cannot read {str(path)!r}: {error.strerror}", hint="check the file's permissions"
        ) from error
    except UnicodeDecodeError as error:
        raise UserError(f"{str(path)!r} is no text in UTF-8: {error}", hint="save it as UTF-8") from error
