"""What a rule answers to a node, as text that can be compared."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Mapping
from typing import Any

import numpy as np

from onnxq.rule.api import (
    Node,
    Rule,
    Skip,
    Tensor,
    Value,
)


def answer_of(rule: Rule, node: Node) -> str:
    """What a rule says of a node, as text that is equal for equal answers."""
    try:
        answer = rule(node)
    except Skip as reason:
        return f"skip {reason}"
    except Exception as error:
        return f"raised {type(error).__name__}"
    return told(answer, {})


def told(value: Any, known: dict[int, str]) -> str:
    if isinstance(value, Tensor):
        return f"tensor {value.name}"
    if isinstance(value, Node):
        return f"node {value.name}"
    if isinstance(value, np.ndarray | np.generic):
        return f"{value.dtype}{value.shape}{hashlib.sha256(value.tobytes()).hexdigest()}"
    if isinstance(value, Mapping):
        return str({key: told(item, known) for key, item in value.items()})
    if isinstance(value, list | tuple):
        return str([told(item, known) for item in value])
    if dataclasses.is_dataclass(value) or isinstance(value, Value):
        if id(value) not in known:
            known[id(value)] = f"#{len(known)}"
            names = (
                [f.name for f in dataclasses.fields(value)]
                if dataclasses.is_dataclass(value)
                else sorted(
                    {name for kind in type(value).__mro__ for name in getattr(kind, "__slots__", ())}
                    or vars(value)
                )
            )
            fields = [told(getattr(value, name), known) for name in names if name != "_types"]
            known[id(value)] = hashlib.sha256(f"{type(value).__name__}{fields}".encode()).hexdigest()[:20]
        return known[id(value)]
    return f"{type(value).__name__} {value!r}"
