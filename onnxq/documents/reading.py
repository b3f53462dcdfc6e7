"""Documents that are read again: as their types, by whatever version they are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

from onnxq.base.errors import UserError
from onnxq.base.json_file import read_plain_document
from onnxq.base.typed import Unlike, typed
from onnxq.documents.migrate import brought_up

D = TypeVar("D")

REPORT_HINT = "give the report as onnxq wrote it, or the model without it"
"""What to do about a report beside a model that somebody edited."""


@dataclass(frozen=True, slots=True)
class Readable(Generic[D]):
    """A kind of document that is read.

    Attributes:
        made: its dataclass.
        newest: the newest schema that is read.
    """

    made: type[D]
    newest: int


@dataclass(frozen=True, slots=True)
class ReadDocument(Generic[D]):
    """A document that was read.

    Attributes:
        document: what it says, in today's form; what it lacks is as `onnxq.base.typed.nothing` says.
        plain: the same as it stands in the file, with its kind.
    """

    document: D
    plain: Mapping[str, Any]


def read_document(path: Path, kinds: Mapping[str, Readable[D]], what: str, hint: str) -> ReadDocument[D]:
    """A document, by this version of onnxq or an earlier one.

    Args:
        path: the file.
        kinds: the kinds that it may be of; of the first is what does not say its kind.
        what: what it should be, "report of onnxq" say.
        hint: what to give in its place.

    Raises:
        UserError: it cannot be read, is no JSON, of another kind, of a newer schema, or holds a value of
            another type than its schema says.
    """
    numbers = {kind: one.newest for kind, one in kinds.items()}
    plain = read_plain_document(path, numbers, what, hint)
    try:
        return ReadDocument(read_plain(kinds[plain["kind"]].made, plain), plain)
    except Unlike as error:
        raise UserError(f"{str(path)!r} is no {what}: {error}", hint=hint) from error


def read_plain(made: type[D], plain: Mapping[str, Any]) -> D:
    """What a document of any version says, in today's form.

    Args:
        made: its dataclass.
        plain: plain JSON.

    Raises:
        Unlike: a value is of another type.
    """
    return typed(made, brought_up(dict(plain)), lenient=True)
