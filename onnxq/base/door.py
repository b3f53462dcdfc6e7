"""The door by which documents of the user's come in: regular files, of a size that is bounded, read once.

Models, samples and images are opened where they are looked for, which is where files are.

A pipe would have a run wait for ever, and a device has no end. Who reads a file says what it should be; here
is what may be wrong with any. All is told as an `OSError`, whose `strerror` is for people.
"""

from __future__ import annotations

import errno
import io
import os
import stat
import zipfile

from onnxq.base.errors import UserError

VARIABLE = "ONNXQ_LARGEST_FILE"
"""The environment variable that raises what a file may hold, bytes."""

LARGEST = 1 << 30
"""Bytes of a document, of what a document's archive unpacks to, of a script."""

_KINDS = (
    (stat.S_ISDIR, "it is a folder"),
    (stat.S_ISFIFO, "it is a pipe, and no file"),
    (stat.S_ISCHR, "it is a device, and no file"),
    (stat.S_ISBLK, "it is a device, and no file"),
    (stat.S_ISSOCK, "it is a socket, and no file"),
)


def content(path: str | os.PathLike[str]) -> bytes:
    """All that a regular file holds.

    Raises:
        OSError: it cannot be opened, is no regular file, or holds more than `largest`.
    """
    most = largest()
    held = begins(path, most + 1)
    if len(held) > most:
        raise OSError(errno.EFBIG, f"it holds more than {most:,} bytes ({VARIABLE} raises that)", str(path))
    return held


def begins(path: str | os.PathLike[str], count: int) -> bytes:
    """The first bytes of a regular file.

    Raises:
        OSError: it cannot be opened, or is no regular file.
    """
    place = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    with open(place, "rb") as file:
        mode = os.fstat(place).st_mode
        if not stat.S_ISREG(mode):
            said = next((words for is_kind, words in _KINDS if is_kind(mode)), "it is no regular file")
            raise OSError(errno.EINVAL, said, str(path))
        return file.read(count)


def text(path: str | os.PathLike[str], encoding: str = "utf-8", errors: str = "strict") -> str:
    """The same as text.

    Raises:
        OSError: see `content`.
        UnicodeDecodeError: it is not of that encoding.
    """
    return content(path).decode(encoding, errors)


def largest() -> int:
    """How many bytes a file may hold: `LARGEST`, or what the environment says."""
    return stated(VARIABLE) or LARGEST


def stated(variable: str) -> int:
    """A whole number above 0 that the environment states; 0 where it states nothing.

    Raises:
        UserError: it states something else.
    """
    given = os.environ.get(variable, "")
    if not given:
        return 0
    if not (given.isascii() and given.isdigit() and len(given) < 19 and int(given)):
        raise UserError(f"{variable} is {given[:40]!r}", hint="it is a whole number above 0, as in 600")
    return int(given)


def check_archive(held: bytes) -> None:
    """Refuses an archive that is far larger than it seems, before it is unpacked.

    Args:
        held: a ZIP file.

    Raises:
        ValueError: its members say that together they hold more than `largest`.
        BadZipFile: it is none.
    """
    with zipfile.ZipFile(io.BytesIO(held)) as archive:
        whole = sum(member.file_size for member in archive.infolist())
    if whole > largest():
        raise ValueError(f"unpacked it holds {whole:,} bytes ({VARIABLE} raises what it may)")
