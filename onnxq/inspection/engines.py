"""What NVIDIA's compiler makes of a model as it is, and of what its repair makes of it."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from onnxq.base import interrupts
from onnxq.emit import files
from onnxq.graph.model import Model
from onnxq.graph.types import Shape, is_static
from onnxq.graph.view import Tensor
from onnxq.pipeline.result import Result
from onnxq.run import ort, own_ops, trt
from onnxq.run.budget import OverBudget
from onnxq.run.deployments import by_deployment, profiles_of
from onnxq.run.profiles import Profile, as_profile

# Sizes for dynamic dimensions that nobody gives one, the first dimension (always 1) apart: the compiler's
# default, then some at which windows are not larger than what they look at.
_SIZES = (1, 64, 224)
_LONG = (512, 4096, 32768)
"""Further ones for models each of whose inputs has one such dimension at most: samples of sound, say."""
_SECONDS = 10.0  # after which a run at one of them is given up


@dataclass(frozen=True, slots=True)
class Statements:
    """What the user states of a model's inputs.

    Attributes:
        shapes: their shapes, as far as given.
        assume: sizes of dimension symbols.
        profiles: smallest, usual and largest shapes.
    """

    shapes: Mapping[str, Sequence[int | str]] = field(default_factory=dict)
    assume: Mapping[str, int] = field(default_factory=dict)
    profiles: Mapping[str, Profile] = field(default_factory=dict)


def compile_both(
    model: Path, original: Model, result: Result, sm: int, stated: Statements, observe: Callable[[str], None]
) -> tuple[trt.Engine, trt.Engine]:
    """Compiles a model as it is and as it was repaired; the same engine twice where no rule changed it.

    Of a model with functions for operators that is the engine of the pieces around them.

    Args:
        model: the model's file.
        original: the same, open.
        result: of its repair.
        sm: the compute capability, 89 for 8.9.
        stated: what the user states of its inputs.
        observe: is told what is compiled.

    Raises:
        UserError: a profile does not fit, or the compiler does not know `sm`.
    """
    observe("compile")
    made = own_ops.cut_out(ort.with_types(result.model, result.data_dir))
    before = _compiled(model, original.inputs, sm, stated) if made is result.model else None
    stays = not (result.report.changes or stated.shapes or result.report.assumptions)
    # else types and shapes that the original leaves out may do
    if before is not None and stays and before.status == "compiled":
        return before, before
    observe("compile: sanitized")
    with interrupts.Folder() as folder:
        path = Path(folder) / "model.onnx"
        files.save_model(made, path, result.data_dir)
        inputs = Model.open(path).inputs
        dynamic = {one.name for one in inputs if not is_static(one.shape)}
        common, named = by_deployment([one.name for one in original.inputs], stated.profiles)
        profiles = {name: profile for name, profile in common.items() if name in dynamic}
        profiles |= {
            f"{name}/{key}": own for name, one in named.items() for key, own in one.items() if key in dynamic
        }
        after = _compiled(path, inputs, sm, Statements(profiles=profiles))
        return before or after, after


def _compiled(model: Path, inputs: Sequence[Tensor], sm: int, stated: Statements) -> trt.Engine:
    """The engine; where sizes that nobody gave may be why there is none, with others."""
    several = list(profiles_of([one.name for one in inputs], stated.profiles).values())
    free = any(
        not is_static(one.shape) and one.name not in profiles for one in inputs for profiles in several
    )
    assume = {**_batches(inputs), **stated.assume}
    open_sizes = [[dim for dim in one.shape[1:] if _is_open(dim, assume)] for one in inputs if one.shape]
    sizes = (*_SIZES, *(_LONG if max(map(len, open_sizes), default=0) == 1 else ()))
    tried = []
    shapes = [
        {one.name: _sizes(one.shape, stated.shapes.get(one.name), assume, size)
         for one in inputs if one.shape is not None}
        for size in (sizes if free else sizes[:1])
    ]  # fmt: skip
    for at in _that_run(model, inputs, shapes) if free else shapes:
        made_up = {one.name: as_profile((at[one.name],) * 3)
                   for one in inputs if one.shape is not None and not is_static(one.shape)}  # fmt: skip
        first, *more = ({**made_up, **profiles} for profiles in several)
        tried.append(trt.compile_engine(model, sm=sm, profiles=first, more=more))
        if tried[-1].status == "compiled":
            return tried[-1]
        if tried[-1].errors:
            break  # of the parser, which knows no sizes
    return tried[0]


def _that_run(
    model: Path, inputs: Sequence[Tensor], shapes: Sequence[Mapping[str, tuple[int, ...]]]
) -> Sequence[Mapping[str, tuple[int, ...]]]:
    """The shapes from the first on at which onnxruntime runs a model and gives values; else all of them."""
    types = {one.name: one.dtype for one in inputs if one.dtype is not None}
    try:
        session = ort.load(model, optimize=False)
        for place, at in enumerate(shapes):
            feeds = {name: np.zeros(shape, types[name]) for name, shape in at.items() if name in types}
            with ort.made_up(), contextlib.suppress(ort.RunError):
                if all(np.size(one) for one in session.run(feeds, seconds=_SECONDS)):
                    return shapes[place:]
    except (ort.RunError, OverBudget):
        return shapes
    return shapes


def _batches(inputs: Sequence[Tensor]) -> dict[str, int]:
    """The symbols of first dimensions, which are 1 elsewhere, too."""
    return {one.shape[0]: 1 for one in inputs if one.shape and isinstance(one.shape[0], str)}


def _is_open(dim: int | str | None, assumed: Mapping[str, int]) -> bool:
    return not isinstance(dim, int) and dim not in assumed


def _sizes(
    shape: Shape, typical: Sequence[int | str] | None, assumed: Mapping[str, int], size: int
) -> tuple[int, ...]:
    sizes = []
    for axis, (dim, other) in enumerate(zip(shape, typical or shape, strict=True)):
        number = next((d for d in (dim, other) if isinstance(d, int)), None)
        if number is None:
            number = assumed.get(str(dim), 1 if axis == 0 else size)
        sizes.append(number)
    return tuple(sizes)
