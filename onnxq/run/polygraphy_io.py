"""Polygraphy's files: the only place that imports polygraphy."""

from __future__ import annotations

import contextlib
import io
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from onnxq.base.errors import UserError


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


@dataclass(frozen=True, slots=True)
class Saved:
    """What `polygraphy run --save-outputs` saved: the outputs of a runner, a set for each sample.

    Attributes:
        name: the path.
        runner: which runner gave them.
        outputs: `{tensor: array}` for each sample.
    """

    name: str
    runner: str
    outputs: tuple[Mapping[str, np.ndarray], ...]

    def __iter__(self) -> Iterator[Mapping[str, np.ndarray]]:
        return iter(self.outputs)


def load_outputs(path: Path) -> Saved:
    """What `polygraphy run --save-outputs` wrote, of its last runner: with `--onnxrt --trt`, the GPU's.

    The file is one JSON document, so that all of it is read into memory.

    Raises:
        UserError: the file cannot be read, or holds something else.
    """
    with contextlib.redirect_stdout(io.StringIO()):  # it warns of what it could be prettier with
        from polygraphy.comparator import RunResults
        from polygraphy.logger import G_LOGGER

    hint = "write it with `polygraphy run MODEL --trt --trt-outputs mark all --save-outputs FILE.json`"
    if not os.path.isfile(path):
        raise UserError(f"there is no file {str(path)!r}", hint=hint)
    try:
        with contextlib.redirect_stdout(io.StringIO()), G_LOGGER.verbosity(G_LOGGER.CRITICAL):
            results: Any = list(RunResults.load(str(path)).items())
    except Exception as error:  # as above
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise UserError(
            f"cannot read {str(path)!r} as Polygraphy's JSON outputs: {reason}", hint=hint
        ) from error
    if not results or not results[-1][1]:
        raise UserError(f"{str(path)!r} holds no outputs", hint=hint)
    runner, iterations = results[-1]
    saved = tuple(
        {str(name): _array(path, index, name, value, "output") for name, value in one.items()}
        for index, one in enumerate(iterations)
    )
    return Saved(str(path), str(runner), saved)


def _array(path: Path, index: int, name: Any, value: Any, kind: str = "input") -> np.ndarray:
    array = np.asarray(value)
    if array.dtype.hasobject:
        raise UserError(
            f"{str(path)!r}[{index}]: {kind} {name!r} is no array of numbers",
            hint="save numpy arrays with polygraphy.json.save_json",
        )
    return array
