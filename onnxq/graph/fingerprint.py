"""The hash of a model: what statistics and other files say they are of."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Any

import onnx

from onnxq.base.errors import UserError
from onnxq.graph.constants import external_range
from onnxq.graph.load import tensors
from onnxq.graph.rooted import is_external, read_beside

_CHUNK = 1 << 20


def fingerprint(model: str | os.PathLike[str] | onnx.ModelProto, *statements: Any) -> str:
    """The SHA-256 of a model: its file and the ranges of external data that it refers to.

    Args:
        model: the model's path, or the model.
        statements: what else makes it another model, of values whose `repr` is their content.

    Raises:
        UserError: a file cannot be read.
    """
    digest = hashlib.sha256(repr(statements).encode())
    if isinstance(model, onnx.ModelProto):
        digest.update(model.SerializeToString(deterministic=True))
        return digest.hexdigest()
    path = Path(model)
    try:
        _update(digest, path, 0, path.stat().st_size)
        proto, folder = read_beside(path)
        for tensor in filter(is_external, tensors(proto.graph)):
            _update(digest, *external_range(tensor, folder))
    except OSError as error:
        raise UserError(f"cannot read {error.filename!r}: {error.strerror}") from error
    return digest.hexdigest()


def _update(found: Any, path: Path, offset: int, length: int) -> None:
    """Adds a range of a file."""
    with path.open("rb") as file:
        file.seek(offset)
        while length > 0 and (chunk := file.read(min(length, _CHUNK))):
            found.update(chunk)
            length -= len(chunk)
