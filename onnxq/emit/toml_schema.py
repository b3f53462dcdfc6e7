"""JSON Schemas of the files that users edit, `onnxq.toml` and plans, for editors.

They are made of what reads the files: which types a reader takes, and which words, is asked of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from onnxq.base.errors import UserError
from onnxq.base.tables import Reader, table, tables
from onnxq.formats import FORMATS
from onnxq.options.config import LAYER_READERS, deployment_readers
from onnxq.options.option import Option, read_options
from onnxq.options.settings import (
    BODIES,
    CHANNELS,
    GROUPS,
    LAYER_METHODS,
    LEVELS,
    LOUD,
    PAIRS,
    PRESETS,
    SCALE_FORMS,
    SERVERS,
)
from onnxq.quant.plan_file import FORMAT
from onnxq.quant.plan_reading import TABLES

DRAFT = "http://json-schema.org/draft-07/schema#"
"""Which editors of TOML read."""

_WORDS = (
    *FORMATS, *BODIES, *LAYER_METHODS, *SCALE_FORMS, *LOUD, *LEVELS, *PAIRS, *PRESETS, *CHANNELS, *SERVERS,
    "own", "inputs", "weights", "none", "file",
)  # fmt: skip
TITLE = "onnxq.toml"

_ODD = "no such word"
_TEXTS = (
    _ODD, "x", "1", "1/2", "1:8:32", "1x3x8x8", "8x8", "5%", "logits=99", "a.json", "X.toml", "X.py:f",
    "bias", *_WORDS,
)  # fmt: skip
_PROBES: Mapping[str, tuple[Any, ...]] = {
    "boolean": (True, False),
    "integer": (1, 0, 89, FORMAT),
    "number": (0.5, 99.5),
    "string": _TEXTS,
    "array": (*([one] for one in (*_TEXTS, 1, 0.5)), ["a", "b"], [8, 8]),
    "object": tuple({"x": one} for one in (*_TEXTS, 1, 0.5, True, "1x3:1x3:1x3", "1:2:3")),
}
"""Values of each type of JSON; a reader takes the type where it takes one of them."""


def settings_schema() -> dict[str, Any]:
    """That of `onnxq.toml`: every option in its table, `[[layer]]` and `[[deployment]]`."""
    places: dict[str, dict[str, Any]] = {"": {}}
    for group in GROUPS:
        for option in read_options(group).values():
            for place in option.tables:
                places.setdefault(place, {})[option.key] = _of_option(option)
    top = places.pop("")
    rules = {"layer": LAYER_READERS, "deployment": deployment_readers()}
    return {
        "$schema": DRAFT,
        "title": TITLE,
        **_object(
            {
                **top,
                **{name: _object(keys) for name, keys in places.items()},
                **{name: _list(_of_readers(readers)) for name, readers in rules.items()},
            }
        ),
    }


def plan_schema() -> dict[str, Any]:
    """That of a plan: its tables, and their keys."""
    top = {}
    for key, reader in TABLES[""].items():
        keys = _of_readers(TABLES.get(key, {}))
        if reader is tables:
            top[key] = _list(keys)
        else:
            top[key] = _object(keys) if reader is table else _of_reader(key, reader)
    return {
        "$schema": DRAFT,
        "title": "plan.toml",
        **_object(top),
        "required": ["version", "target", "model"],
    }


TOML_SCHEMAS: Mapping[str, Callable[[], dict[str, Any]]] = {
    "onnxq.toml": settings_schema,
    "plan.toml": plan_schema,
}
"""By what `onnxq help schema` calls them."""


def _of_option(option: Option) -> dict[str, Any]:
    found = _of_reader(option.key, option.kind.of_file, option.kind.names if not option.kind.is_path else ())
    return {**found, "description": option.help}


def _of_readers(readers: Mapping[str, Reader]) -> dict[str, Any]:
    return {key: _of_reader(key, reader) for key, reader in readers.items()}


def _of_reader(key: str, reader: Reader, names: Iterable[str] = ()) -> dict[str, Any]:
    """What a reader takes: its types, and the words where it does not take others."""
    kinds = [kind for kind, probes in _PROBES.items() if any(_takes(key, reader, one) for one in probes)]
    if "number" in kinds and "integer" in kinds:
        kinds.remove("integer")
    words = list(dict.fromkeys(one for one in (*names, *_WORDS) if _takes(key, reader, one)))
    if kinds == ["string"] and words and not _takes(key, reader, _ODD):
        return {"enum": words}
    return {"type": kinds[0] if len(kinds) == 1 else kinds}


def _takes(key: str, reader: Reader, value: Any) -> bool:
    try:
        reader(key, value)
    except UserError:
        return False
    return True


def _object(keys: Mapping[str, Any]) -> dict[str, Any]:
    """A table of these keys; where none is known, of any."""
    return {"type": "object", "properties": dict(keys), "additionalProperties": not keys}


def _list(keys: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": _object(keys)}
