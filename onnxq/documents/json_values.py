"""Values as plain JSON."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Mapping
from typing import Any

import numpy as np


def to_json(value: Any) -> Any:
    """A value as plain JSON: dataclasses as objects, NaN and infinities as null or text."""
    kind: Any = type(value)
    if kind in _AS_IT_IS:
        return value
    if kind is dict:
        return {str(key): to_json(entry) for key, entry in value.items()}
    if kind is list or kind is tuple:
        return [to_json(entry) for entry in value]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {key: to_json(getattr(value, name)) for name, key in _keys(kind)}
    if isinstance(value, Mapping):
        return {str(key): to_json(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [to_json(entry) for entry in value]
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, str):
        return str.__str__(value)  # a reason is a text that knows more
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else ("inf" if value > 0 else "-inf")
    return value


_AS_IT_IS = (str, int, bool, type(None))


@functools.cache
def _keys(kind: Any) -> tuple[tuple[str, str], ...]:
    """Each field of a dataclass, with its name in JSON."""
    return tuple((field.name, field.metadata.get("key", field.name)) for field in dataclasses.fields(kind))
