"""Documents by way of their types."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from onnxq import remarks
from onnxq.documents.json_values import to_json
from onnxq.typed import Unlike as Unlike
from onnxq.typed import typed as typed


def published(kind: type[Any], plain: Mapping[str, Any]) -> dict[str, Any]:
    """The JSON of a document, by way of its type; as it is where it does not fit, which is remarked.

    A document that is not as its schema says is a fault of onnxq, and costs nobody a run.
    """
    try:
        found: dict[str, Any] = to_json(typed(kind, to_json(plain)))
    except Unlike as error:
        remarks.remark(f"the document is not as its schema says, a fault of onnxq: {error}")
        found = to_json(plain)
    return found
