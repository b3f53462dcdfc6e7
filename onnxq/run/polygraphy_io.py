"""Polygraphy's files: the only place that imports polygraphy."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from onnxq.errors import UserError


def load_inputs(path: Path) -> list[dict[str, np.ndarray]]:
    """The inputs that `polygraphy run --save-inputs` wrote: a feed for each iteration.

    The file is one JSON document, so that all of it is read into memory.

    Raises:
        UserError: the file cannot be read, or holds something else.
    """
    from polygraphy.json import load_json

    hint = "write it with `polygraphy run --save-inputs`, or polygraphy.json.save_json"
    try:
        loaded: Any = load_json(str(path))
    except Exception as error:  # its own exception, json's, numpy's
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise UserError(
            f"cannot read {str(path)!r} as Polygraphy's JSON inputs: {reason}", hint=hint
        ) from error
    if not isinstance(loaded, list) or not all(isinstance(feed, Mapping) for feed in loaded):
        raise UserError(
            f"{str(path)!r} holds {type(loaded).__name__}, not a list of {{input: array}}",
            hint=hint,
        )
    return [
        {str(name): _array(path, index, name, value) for name, value in feed.items()}
        for index, feed in enumerate(loaded)
    ]


def _array(path: Path, index: int, name: Any, value: Any) -> np.ndarray:
    array = np.asarray(value)
    if array.dtype.hasobject:
        raise UserError(
            f"{str(path)!r}[{index}]: input {name!r} is no array of numbers",
            hint="save numpy arrays with polygraphy.json.save_json",
        )
    return array
