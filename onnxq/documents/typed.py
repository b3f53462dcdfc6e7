"""Documents by way of their types."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from onnxq.base import remarks
from onnxq.base.plain import to_json
from onnxq.base.typed import Unlike as Unlike
from onnxq.base.typed import nothing
from onnxq.base.typed import typed as typed

D = TypeVar("D")


def fitted(kind: type[D], plain: Mapping[str, Any]) -> D:
    """A document by its type; what does not fit is left out, which is remarked.

    That would be a fault of onnxq, and costs nobody a run, nor what else the document says.
    """
    document = to_json(plain)
    try:
        return typed(kind, document)
    except Unlike as error:
        remarks.remark(f"the document is not as its schema says, a fault of onnxq: {error}")
    while True:
        try:
            return typed(kind, document, lenient=True)
        except Unlike as error:
            if not error.way:
                return nothing(kind)
            _leave_out(document, error.way)


def _leave_out(document: Any, way: tuple[str | int, ...]) -> None:
    """Takes the value out that keys and indices lead to; with it a list of which each entry has its place."""
    *outer, last = way
    for step in outer:
        document = document[step]
    del document[last]
