"""Documents that are read again: as their types, by whatever version they are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

from onnxq.base.errors import UserError
from onnxq.base.json_file import read_plain_document
from onnxq.base.typed import Unlike, typed

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


_FIRST = "int8"
"""The number format of what does not say it."""


def brought_up(document: dict[str, Any]) -> dict[str, Any]:
    """A document of a run, or an analysis, in today's words. What is not as it should be stays as it is.

    Args:
        document: plain JSON, with its kind; it is not modified.
    """
    migrated = dict(document)
    for part, change in (("plan", _plan), ("body", _body), ("worst", _worst), ("layer_errors", brought_up)):
        if isinstance(migrated.get(part), dict):
            migrated[part] = change(migrated[part])
    calibration, repair = migrated.get("calibration"), migrated.get("repair")
    if isinstance(calibration, dict) and isinstance(repair, dict) and "before" not in calibration:
        migrated["calibration"] = {**calibration, "before": _before(repair.get("edits"))}
    return migrated


def _plan(plan: dict[str, Any]) -> dict[str, Any]:
    """A layer said whether it is int8, and now says its format; so does a pair, which had that of all."""
    layers, sites, format = plan.get("layers"), plan.get("sites"), plan.get("format", _FIRST)
    if isinstance(sites, list):
        held = [{"format": format, **one} if isinstance(one, dict) else one for one in sites]
        plan = {**plan, "sites": held}
    if not isinstance(layers, list):
        return plan
    return {**plan, "layers": [_layer(one) if isinstance(one, dict) else one for one in layers]}


def _layer(layer: dict[str, Any]) -> dict[str, Any]:
    if layer.get("format"):
        return layer
    return {**layer, "format": _FIRST if layer.get(_FIRST) else "float"}


def _body(body: dict[str, Any]) -> dict[str, Any]:
    """A layer whose scales stand behind the product was an object, and is its name."""
    layers = body.get("post_scaled")
    if not isinstance(layers, list):
        return body
    return {**body, "post_scaled": [one.get("tensor") if isinstance(one, dict) else one for one in layers]}


def _worst(worst: dict[str, Any]) -> dict[str, Any]:
    """An output did not say its shape: whether its greatest value is one answer is not known."""
    outputs = worst.get("outputs")
    if not isinstance(outputs, list):
        return worst
    return {**worst, "outputs": [_told(one) if isinstance(one, dict) else one for one in outputs]}


def _told(output: dict[str, Any]) -> dict[str, Any]:
    return output if output.get("shape") is not None else {**output, "argmax": None}


def _before(edits: Any) -> dict[str, Any]:
    """What was measured was of each tensor before its edit, which was not said."""
    listed = [one for one in edits if isinstance(one, dict)] if isinstance(edits, list) else []
    return {one["tensor"]: one.get("kind") for one in listed if isinstance(one.get("tensor"), str)}
