"""Optimization profiles: the smallest, the usual and the largest shape of each dynamic input."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from onnxq.base.errors import UserError, unknown_name
from onnxq.options.profile import Profile

if TYPE_CHECKING:
    import onnx

__all__ = ["Profile", "as_profile", "check_profile", "resolve_profiles", "shared_profiles", "text_of"]


_GREATEST = 2**63 - 1
"""The greatest size that ONNX can write."""


def resolve_profiles(
    inputs: Mapping[str, Sequence[int]], wanted: Mapping[str, Profile]
) -> dict[str, Profile]:
    """The profile of each dynamic input: what is wanted, else 1 for each dynamic size.

    Args:
        inputs: the shape of each input of the model, negative sizes where dynamic.
        wanted: (min, opt, max) shapes by input name.

    Raises:
        UserError: see `check_profile`.
    """
    for name, profile in wanted.items():
        check_profile(name, profile, inputs)
    return {
        name: as_profile(wanted.get(name, (_smallest(shape),) * 3))
        for name, shape in inputs.items()
        if any(size < 0 for size in shape)
    }


def shared_profiles(
    infos: Sequence[onnx.ValueInfoProto], stated: Mapping[str, Profile]
) -> dict[str, Profile]:
    """Profiles, and those of further inputs whose dynamic dimensions are, by their names, the same.

    Args:
        infos: the inputs of a model.
        stated: the profiles that there are.
    """
    shapes = {info.name: info.type.tensor_type.shape.dim for info in infos}
    sizes = {
        dim.dim_param: ends
        for name, profile in stated.items()
        for dim, ends in zip(shapes.get(name, ()), zip(*profile, strict=True), strict=False)
        if dim.dim_param
    }
    found = dict(stated)
    for name, dims in shapes.items():
        ends = [sizes.get(dim.dim_param) if dim.dim_param else (dim.dim_value,) * 3 for dim in dims]
        if name not in found and any(dim.dim_param for dim in dims) and all(ends):
            found[name] = as_profile([*zip(*filter(None, ends), strict=True)])
    return found


def as_profile(shapes: Sequence[Sequence[int]]) -> Profile:
    """The three shapes of a profile, from whatever sequences, as tuples."""
    smallest, usual, largest = shapes
    return tuple(smallest), tuple(usual), tuple(largest)


def text_of(profile: Profile) -> str:
    """A profile as it is written: 1x3x8x8:4x3x8x8:8x3x8x8, and once where all three are the same."""
    texts = ["x".join(map(str, shape)) for shape in profile]
    return texts[0] if len(set(texts)) == 1 else ":".join(texts)


def _smallest(shape: Sequence[int]) -> tuple[int, ...]:
    return tuple(1 if size < 0 else size for size in shape)


def check_profile(name: str, profile: Profile, inputs: Mapping[str, Sequence[int]]) -> None:
    """Refuses a profile that does not fit the model.

    Args:
        name: the input.
        profile: its smallest, usual and largest shape.
        inputs: the shape of each input of the model, negative sizes where dynamic.

    Raises:
        UserError: an input that does not exist, a wrong rank, a size that is none, min > opt or opt > max, or
            one other than the model's where that is fixed.
    """
    if name not in inputs:
        raise unknown_name("input", name, inputs)
    shape = tuple(inputs[name])
    hint = f"the model's input {name!r} is {_show(shape)}; write MIN:OPT:MAX, each of that rank"
    for word, sizes in zip(("min", "opt", "max"), profile, strict=True):
        if len(sizes) != len(shape):
            raise UserError(
                f"profile of {name!r}: {word} {_show(sizes)} has rank {len(sizes)}, the input "
                f"has rank {len(shape)}",
                hint=hint,
            )
        for axis, (size, fixed) in enumerate(zip(sizes, shape, strict=True)):
            if not 0 <= size <= _GREATEST:
                raise UserError(f"profile of {name!r}: {word} has size {size} at dimension {axis}", hint=hint)
            if fixed >= 0 and size != fixed:
                raise UserError(
                    f"profile of {name!r}: {word} has size {size} at dimension {axis}, which the "
                    f"model fixes to {fixed}",
                    hint=hint,
                )
    for axis, (low, usual, high) in enumerate(zip(*profile, strict=True)):
        if not low <= usual <= high:
            raise UserError(
                f"profile of {name!r}: dimension {axis} is not min <= opt <= max ({low}, {usual}, {high})",
                hint=hint,
            )


def _show(shape: Sequence[int]) -> str:
    return "x".join("?" if size < 0 else str(size) for size in shape) or "a scalar"
