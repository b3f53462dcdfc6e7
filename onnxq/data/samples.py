"""What calibration runs on: the model's inputs, and one feed of them."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from onnxq.base.errors import UserError, unknown_name
from onnxq.graph.model import Model
from onnxq.graph.types import is_float
from onnxq.graph.view import Node, Tensor

DIGEST = 16
"""Bytes of the hash of a sample."""


@dataclass(frozen=True, slots=True)
class InputSpec:
    """An input of the model, as the data must fit it.

    Attributes:
        name: its name.
        dtype: its numpy (or ml_dtypes) dtype.
        shape: its dimensions, a symbol or None where dynamic; None where the rank is unknown.
        data_name: what the data call it, where the user says so; None: as the model does.
        alone: the model takes one sample at a time, without a batch axis: its graph puts one in front.
    """

    name: str
    dtype: np.dtype
    shape: tuple[int | str | None, ...] | None
    data_name: str | None = None
    alone: bool = False

    @property
    def key(self) -> str:
        """Its name in the data."""
        return self.name if self.data_name is None else self.data_name


def specs_of(model: Model) -> list[InputSpec]:
    """The inputs of a model that data can be fed to."""
    return [
        InputSpec(one.name, one.dtype, one.shape, alone=_is_alone(one))
        for one in model.inputs
        if one.dtype is not None
    ]


def _is_alone(tensor: Tensor) -> bool:
    """Whether all that reads the values of an input puts a batch axis of one in front of its axes."""
    todo, seen, found = [tensor], {tensor}, False
    while todo:
        one = todo.pop()
        if one.is_output or one.shape is None:
            return False
        for node in one.users:
            if node.op == "Unsqueeze" and 0 in _axes(node):
                found = True
            elif node.op not in ("Shape", "Size"):
                if len(node.outputs) != 1 or node.outputs[0].shape != one.shape:
                    return False
                todo += {node.outputs[0]} - seen
                seen.add(node.outputs[0])
    return found


def _axes(node: Node) -> Sequence[int]:
    """The axes of an Unsqueeze, before opset 13 an attribute; none where they are computed."""
    given = node.operands(2)[1]
    values = node.attr("axes", ()) if given is None else given.constant
    return [] if values is None else [int(axis) for axis in values]


def named(inputs: Sequence[InputSpec], names: Mapping[str, str] | None) -> list[InputSpec]:
    """The inputs of a model with the names that the data have for them.

    Args:
        inputs: those of the model.
        names: the data's name by that of the model, of inputs whose names differ.

    Raises:
        UserError: the model has no such input, or two inputs would be fed from one array.
    """
    names = names or {}
    own = [spec.name for spec in inputs]
    for name, key in names.items():
        if name not in own:
            error = unknown_name("input", name, own)
            turned = f"the model's input stands first: --input-name {key}={name}"
            raise UserError(f"--input-name {name}={key}: {error}", hint=turned if key in own else error.hint)
    renamed = [replace(spec, data_name=names.get(spec.name)) for spec in inputs]
    by_key: dict[str, str] = {}
    for spec in renamed:
        if names and by_key.setdefault(spec.key, spec.name) != spec.name:
            raise UserError(
                f"inputs {by_key[spec.key]!r} and {spec.name!r} would both be fed from {spec.key!r}",
                hint="give each another name of the data with --input-name",
            )
    return renamed


@dataclass(frozen=True, slots=True)
class Sample:
    """One run of the model.

    Attributes:
        index: its place in the source.
        where: where it came from, e.g. `calib/003.png` or `data.npz[17]`.
        feeds: an array for each input, of the input's dtype and rank, every value finite.
    """

    index: int
    where: str
    feeds: dict[str, np.ndarray]


def digest(sample: Sample) -> bytes:
    """The hash of a sample's values, types and shapes, 16 bytes."""
    hashing = hashlib.sha256()
    for name, array in sorted(sample.feeds.items()):
        hashing.update(f"{name} {array.dtype.str} {array.shape} ".encode())
        if array.dtype.hasobject:
            hashing.update(repr(array.tolist()).encode("utf-8", "surrogatepass"))
        else:
            hashing.update(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
    return hashing.digest()[:DIGEST]


def as_float32(samples: Iterable[Sample], *, float16: bool = False) -> Iterator[Sample]:
    """The samples for a model that is run as float32: double and bfloat16 are, float16 where it is said."""
    for sample in samples:
        cast = {
            name: array.astype(np.float32)
            if is_float(array.dtype) and (float16 or array.dtype != np.float16)
            else array
            for name, array in sample.feeds.items()
        }
        yield replace(sample, feeds=cast)


def watched(samples: Iterable[Sample], tell: Callable[[int], None]) -> Iterator[Sample]:
    """The samples; `tell` hears how many are done: those after which the next was asked for."""
    for done, sample in enumerate(samples, 1):
        yield sample
        tell(done)
