"""How raw arrays hold samples of the inputs: the batch axis, the dtype, finite values."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from onnxq.base.errors import UserError
from onnxq.base.reason import noted
from onnxq.base.shown import assumed
from onnxq.data.samples import InputSpec
from onnxq.graph.types import Shape, shape_text
from onnxq.judge.comparable import is_real


@dataclass(frozen=True, slots=True)
class Layout:
    """How an array holds samples of an input.

    Attributes:
        kind: `rows`: its first axis is the batch axis; `samples`: it has an axis more, over whole
            feeds; `bare`: it is one sample without the batch axis; `whole`: it is one feed, or a
            value that every sample shares.
        count: how many samples it holds.
    """

    kind: Literal["rows", "samples", "bare", "whole"]
    count: int


def leading(spec: InputSpec) -> Literal["batch", "length", "unknown"]:
    """What the first axis of an input is, as far as its shape tells.

    That of a model of one sample is no batch. A size is the batch's. A symbol tells by its name: `N` or
    `batch_size`, `T` or `sequence_length`; so does a `batch` further on, as in `[steps, batch, 32]`. Of
    other symbols nothing is known.
    """
    if not spec.shape:
        return "unknown"
    if spec.alone:
        return "length"
    first, *rest = spec.shape
    if isinstance(first, int) or (first and _BATCH.fullmatch(first)):
        return "batch"
    if first and _LENGTH.fullmatch(first):
        return "length"
    return "length" if any(isinstance(dim, str) and "batch" in dim.lower() for dim in rest) else "unknown"


_BATCH = re.compile(r"n|b|bs|.*batch.*", re.IGNORECASE)
# What tf2onnx and PaddlePaddle call an axis without a name: in front it is the batch.
_NAMELESS = re.compile(r"unk__\d+|DynamicDimension\.\d+")
_LENGTH = re.compile(r"t|l|.*(seq|time|len|frame|step|token).*", re.IGNORECASE)


def deployed_batch(
    inputs: Sequence[InputSpec], *, stated: bool, seen: Sequence[Mapping[str, tuple[int, ...]]] = ()
) -> list[str]:
    """Names of the inputs whose first axis is the batch that the model is deployed for.

    Args:
        inputs: the inputs.
        stated: whether the user states a batch: then it is the axis that a batch of samples has, whatever its
            name, where no name says that it is the batch.
        seen: the shapes of each sample: where that axis is 1 in all of them, it is the batch, too.
    """
    firsts = [(spec, spec.shape[0]) for spec in inputs if spec.shape]
    named = [
        spec.name
        for spec, first in firsts
        if leading(spec) == "batch" or (isinstance(first, str) and _NAMELESS.fullmatch(first))
    ]
    if any(spec.name in named and not isinstance(first, int) for spec, first in firsts):
        return named
    leads = batched(inputs)
    alone = seen and all(shapes.get(name, ())[:1] == (1,) for shapes in seen for name in leads)
    return sorted(leads) if leads and (stated or alone) else named


def batched(inputs: Sequence[InputSpec]) -> frozenset[str]:
    """Names of the inputs whose first axis is the batch.

    The first input of rank 2 or more that does not begin with a length sets what a batch axis
    looks like: its first dimension, a size or dynamic. A vector (lengths, say) has one only where
    it shares the very dimension.
    """
    wide = [s for s in inputs if s.shape and len(s.shape) >= 2 and leading(s) != "length"]
    if not wide or not wide[0].shape:
        return frozenset()
    lead = wide[0].shape[0]
    alike = {s.name for s in wide if s.shape and _same_lead(s.shape[0], lead)}
    shared = {s.shape[0] for s in wide if s.shape and s.name in alike}
    vectors = {s.name for s in inputs if s.shape and len(s.shape) == 1 and s.shape[0] in shared}
    return frozenset(alike | vectors)


def batch_size(inputs: Sequence[InputSpec], has_batch: frozenset[str]) -> int:
    """The static batch size of the inputs that have one; 1 where it is dynamic, or there is none."""
    leads = [s.shape[0] for s in inputs if s.shape and s.name in has_batch]
    return leads[0] if leads and isinstance(leads[0], int) and leads[0] > 0 else 1


def layout(
    shape: tuple[int, ...], spec: InputSpec, has_batch: bool, where: str, *, several: bool = False
) -> Layout:
    """How an array of `shape` holds samples of the input `spec`.

    Args:
        shape: the array's shape.
        spec: the input.
        has_batch: whether the input's first axis is the batch.
        where: where the array comes from, for messages.
        several: there are several such arrays, so that one whose first axis may be anything is
            one sample: a batch is calibrated with correctly all the same, while pieces of a
            sequence would not be what the model is given.

    Raises:
        UserError: its rank or a size does not fit.
    """
    if spec.shape is None:
        return Layout("whole", 1)
    rank = len(spec.shape)
    kind: Layout | None = None
    if len(shape) == rank + 1:
        ours, theirs, kind = shape[1:], spec.shape, Layout("samples", shape[0])
    elif len(shape) == rank and has_batch and not (several and leading(spec) == "unknown"):
        ours, theirs, kind = shape[1:], spec.shape[1:], Layout("rows", shape[0])
    elif len(shape) == rank:
        ours, theirs, kind = shape, spec.shape, Layout("whole", 1)
    elif len(shape) == rank - 1 and has_batch:
        ours, theirs, kind = shape, spec.shape[1:], Layout("bare", 1)
    takes = f"input {spec.name!r} takes {shape_text(spec.shape)}"
    if kind is None:
        raise UserError(
            f"{where}: {takes}, the data has shape {shape_text(shape)}: wrong rank",
            hint="save one sample a file, or all samples along a first axis",
        )
    read = _Reading(ours, theirs, len(shape) - len(ours), rank - len(theirs))
    if read.wrong and kind.kind == "bare":  # it may lack another axis than the batch
        lacking = (
            _Reading(shape[1:], theirs[: at - 1] + theirs[at:], 1, 1, at) for at in _places_of_one(spec)
        )
        read = min((read, *lacking), key=lambda one: len(one.wrong))
    if read.wrong:
        raise UserError(
            f"{where}: {takes}, the data has shape {shape_text(shape)}: {read}",
            hint="prepare the data as the model was trained, or bind another size with --shape",
        )
    return kind


@dataclass(frozen=True, slots=True)
class _Reading:
    """A way to read an array: its axes beside those of the input, from where on, and which it lacks then."""

    ours: tuple[int, ...]
    theirs: Shape
    of_data: int
    of_input: int
    lacking: int | None = None

    @property
    def wrong(self) -> list[int]:
        """Where sizes differ."""
        return [at for at, dims in enumerate(zip(self.ours, self.theirs, strict=True)) if not _fits(*dims)]

    def __str__(self) -> str:
        """What is wrong with it."""
        inputs = [
            axis for axis in range(self.of_input, self.of_input + len(self.ours) + 1) if axis != self.lacking
        ]
        columns = zip(
            *((self.ours[at], self.theirs[at], at + self.of_data, inputs[at]) for at in self.wrong),
            strict=True,
        )
        have, want, data, of_input = (", ".join(map(str, column)) for column in columns)
        said = noted(
            "other-sizes.one" if len(self.wrong) == 1 else "other-sizes",
            have=have, want=want, data=data, input=of_input,
        )  # fmt: skip
        return said if self.lacking is None else noted("other-sizes.lacking", axis=self.lacking, sizes=said)


def _places_of_one(spec: InputSpec) -> list[int]:
    """The axes of size 1 behind the first."""
    return [axis for axis, size in enumerate(spec.shape or ()) if axis and size == 1]


def with_lacking_axis(shape: tuple[int, ...], spec: InputSpec, has_batch: bool) -> tuple[int, ...] | None:
    """The shape of samples that lack an axis of size 1, with that axis, as grey pictures lack their channel.

    Args:
        shape: the array's shape.
        spec: the input.
        has_batch: whether the input's first axis is the batch.

    Returns:
        The shape; None where the array can be read as it is, or in no such way alone.
    """
    if spec.shape is None or not has_batch or len(shape) != len(spec.shape) - 1 or len(shape) < 2:
        return None
    ours, theirs = shape[1:], spec.shape[1:]
    if all(map(_fits, shape, theirs)):  # one sample
        return None
    places = (place for place, size in enumerate(theirs) if size == 1)
    full = {
        (shape[0], *ours[:place], 1, *ours[place:])
        for place in places
        if all(map(_fits, ours, theirs[:place] + theirs[place + 1 :]))
    }
    return full.pop() if len(full) == 1 else None


def of_numbers(array: np.ndarray, spec: InputSpec) -> np.ndarray:
    """Numbers of text or of Python, which have no dtype of their own, in that of an input of floats."""
    if array.dtype != np.float64 or not is_real(spec.dtype):
        return array
    converted: np.ndarray = array.astype(spec.dtype)
    return converted if np.isfinite(converted).all() else array


def refuse_text(dtype: np.dtype, spec: InputSpec, where: str) -> None:
    """Refuses text for an input of numbers, whatever its shape.

    Raises:
        UserError: it is text.
    """
    if dtype.kind in "US" and spec.dtype.kind != "O":
        raise UserError(
            f"{where}: input {spec.name!r} is {spec.dtype}, the data is text ({dtype})",
            hint="give arrays of numbers; the paths of files are read from a .txt list",
        )


def fit(array: np.ndarray, spec: InputSpec, where: str, note: Callable[[str], None]) -> np.ndarray:
    """The array in the input's dtype, every value finite.

    Args:
        array: values in the input's shape.
        spec: the input.
        where: where the values come from, for messages.
        note: is told of a conversion that may not be what the user means.

    Raises:
        UserError: the dtype cannot be converted without loss, or a value is NaN or infinite.
    """
    converted = _cast(array, spec, where, note)
    if not is_real(spec.dtype):
        return converted
    finite = np.isfinite(converted)
    if not finite.all():
        index = tuple(int(i) for i in np.argwhere(~finite)[0])
        value = array[index]
        what = f"{where}: input {spec.name!r} has {value} at index {list(index)}"
        if np.isfinite(value):
            raise UserError(f"{what}, which does not fit {spec.dtype}", hint="scale the data")
        raise UserError(
            f"{what} ({int((~finite).sum())} such values in this sample)",
            hint="remove the sample, or repair what wrote it",
        )
    return converted


def _cast(array: np.ndarray, spec: InputSpec, where: str, note: Callable[[str], None]) -> np.ndarray:
    have, want = array.dtype, spec.dtype
    if have == want:
        return array
    if want.kind == "O" and have.kind in "US":
        return array.astype(object)
    if have.kind == want.kind == "V" and have.itemsize == want.itemsize and have.names is None:
        return array.view(want)  # as numpy's files hold bfloat16: without its name
    from_float, to_float = is_real(have), is_real(want)
    if to_float and (from_float or have.kind in "iub"):
        if not from_float:
            note(
                noted(
                    "read-as.unscaled", input=spec.name, want=want, have=have,
                    assumed=assumed(f"data of {want}"),
                )
            )  # fmt: skip
        elif have.itemsize > want.itemsize:
            note(noted("read-as.rounded", input=spec.name, want=want, have=have))
        with np.errstate(over="ignore"):  # what overflows is reported as such
            return array.astype(want)
    if have.kind in "iub" and want.kind in "iub":
        narrow = array.astype(want)
        if (narrow == array).all():
            return narrow
        raise UserError(
            f"{where}: input {spec.name!r} is {want}, the data is {have} with values from "
            f"{array.min()} to {array.max()}, which {want} does not hold",
            hint="check that this array is meant for this input",
        )
    raise UserError(
        f"{where}: input {spec.name!r} is {want}, the data is {have}",
        hint=f"convert it: array.astype({str(want)!r})",
    )


def _same_lead(a: int | str | None, b: int | str | None) -> bool:
    return a == b if isinstance(a, int) or isinstance(b, int) else True


def _fits(size: int, dim: int | str | None) -> bool:
    return not isinstance(dim, int) or size == dim
