"""JSON of a file of the user's: what can be wrong with it before anybody looks at its values."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from onnxq.base import door
from onnxq.base.errors import UserError, in_short


def read_json(path: Path, what: str, hint: str) -> Any:
    """What a file holds.

    Args:
        path: the file.
        what: what it should be, "report of onnxq" say.
        hint: what to give in its place.

    Raises:
        UserError: it cannot be read, or is no JSON.
    """
    try:
        return json.loads(door.content(path))
    except OSError as error:
        raise UserError(f"cannot read {str(path)!r}: {error.strerror or error}", hint=hint) from error
    except (
        ValueError,
        RecursionError,
    ) as error:  # as `tables.load`
        raise UserError(f"{str(path)!r} is no {what}: it is no JSON", hint=hint) from error


def read_plain_document(path: Path, numbers: Mapping[str, int], what: str, hint: str) -> dict[str, Any]:
    """A document, by this version of onnxq or an earlier one.

    Args:
        path: the file.
        numbers: the kinds that it may be of, and the newest schema of each that is read.
        what: what it should be.
        hint: what to give in its place.

    Returns:
        What it holds, with its kind: those of schema 1 that have a later one do not say theirs, the first.

    Raises:
        UserError: it cannot be read, is no JSON, of another kind, or of a newer schema.
    """
    document = read_json(path, what, hint)
    if not isinstance(document, dict):
        raise UserError(f"{str(path)!r} is no {what}: it is {in_short(document)}", hint=hint)
    first, newest = next(iter(numbers.items()))
    kind = document.get("kind", first if newest > 1 else None)
    if not isinstance(kind, str) or kind not in numbers:
        raise UserError(f"{str(path)!r} is no {what}: it is of kind {in_short(kind)}", hint=hint)
    schema = document.get("schema")
    if type(schema) is not int or not 0 < schema <= numbers[kind]:
        by = document.get("onnxq")
        raise UserError(
            f"{str(path)!r} is a {kind} of schema {in_short(schema)}"
            + f", by onnxq {by}" * isinstance(by, str)
            + f"; this version reads schema {numbers[kind]}",
            hint="read it with the version that wrote it, or a newer one",
        )
    return {**document, "kind": kind}
