"""Which of a model's outputs are pictures: by its task, and by shapes beside the picture that it is fed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from onnxq.base.reason import reason
from onnxq.graph.model import Model
from onnxq.graph.past import caches
from onnxq.graph.types import Shape, is_float
from onnxq.graph.view import Tensor
from onnxq.task.fits import images_of, may_be_tokens
from onnxq.task.layout import Image, Layout, PixelClasses
from onnxq.task.makers import is_probability

PictureKind = Literal["image", "map", "heat", "classes", "mask"]
"""Three or four channels; one number a pixel; one number a pixel and kind of thing; a class a pixel; whether
a pixel is one."""

LEAST = 16
"""Pixels of the shorter side of what is drawn, at least."""

_FED = (1, 3, 4)  # channels of a picture that is fed
_COLOURS = (3, 4)
_ENLARGED = 8  # times the sides of the picture that is fed, at most
_COARSE = 4  # of them one pixel of a map stands for at most, along a side
_COARSER = 8  # of one that is known to be of heat
_HEAT = "heat"


@dataclass(frozen=True, slots=True)
class PicturedOutput:
    """An output that is a picture wherever its sizes are as `fits` asks.

    Attributes:
        output: its name.
        kind: what stands in a pixel.
        why: by what that is known.
        axis: that of the channels, 0: the batch; None: there are none.
        beside: the picture that the model is fed; None where the task says what the output is.
        layout: how classes are read; None of what has none.
    """

    output: str
    kind: PictureKind
    why: str
    axis: int | None = None
    beside: Image | None = None
    layout: PixelClasses | None = None

    def fits(self, shape: tuple[int, ...], fed: tuple[int, ...] | None) -> bool:
        """Whether an output of that shape is drawn.

        An image has the size of the picture that is fed, or a multiple of it; a map may also be a whole part
        of it.

        Args:
            shape: the output's.
            fed: that of the picture that was fed; None where `beside` is None.
        """
        if self.beside is None or fed is None:
            return self.beside is None
        sides = [size for axis, size in enumerate(shape) if axis not in (0, self.axis)]
        own = fed[self.beside.height : self.beside.height + 2]
        if len(sides) != 2 or len(own) != 2 or min(*sides, *own) < LEAST:
            return False
        coarse = {"image": 1, "map": _COARSE, "heat": _COARSER}.get(self.kind, 1)
        finer = {(side // of, side % of) for side, of in zip(sides, own, strict=True)}
        coarser = {(of // side, of % side) for side, of in zip(sides, own, strict=True)}
        return any(
            len(ratios) == 1 and all(1 <= times <= most and not rest for times, rest in ratios)
            for ratios, most in ((finer, _ENLARGED), (coarser, coarse))
        )


def pictured_outputs(
    model: Model, outputs: Sequence[str], layout: Layout | None
) -> tuple[PicturedOutput, ...]:
    """The outputs that may be drawn; none of a model that is fed no picture.

    Of a task that is known, masks are drawn, and what it reads otherwise is not. Else the shapes say it:
    one channel, three or four, beside the sides of a picture that is fed. More channels than these are drawn
    where the graph says that they are maps of heat: probabilities, or called so.

    Args:
        model: the float model.
        outputs: the names of those that run.
        layout: how the outputs are read; None where that is not known.
    """
    masks = (_mask(layout),) if isinstance(layout, PixelClasses) and layout.output in outputs else ()
    read = () if layout is None else layout.outputs
    words = any(map(may_be_tokens, model.inputs))
    images = images_of(model.inputs, _FED)
    if not images or words or caches(model):  # keys and values of few heads have such shapes, too
        return masks
    found = (
        _beside(one, images[0])
        for one in model.outputs
        if one.name in outputs and one.name not in read and is_float(one.dtype)
    )
    return (*masks, *(one for one in found if one is not None))


def _mask(layout: PixelClasses) -> PicturedOutput:
    kind: PictureKind = "classes" if layout.over is None else "mask"
    return PicturedOutput(layout.output, kind, reason("pictured.masks"), layout=layout)


def _beside(tensor: Tensor, image: Image) -> PicturedOutput | None:
    shape = tensor.shape
    if shape is None or len(shape) not in (3, 4):
        return None
    if len(shape) == 3:
        return PicturedOutput(tensor.name, "map", reason("pictured", input=image.input), None, image)
    for axis in (1, 3) if image.height == 2 else (3, 1):
        kind = _kind(tensor, shape, axis)
        if kind is not None:
            channels = f"{shape[axis]} channel{'s' * (shape[axis] != 1)}"
            why = reason("pictured.sides", channels=channels, input=image.input)
            return PicturedOutput(tensor.name, kind, why, axis, image)
    return None


def _kind(tensor: Tensor, shape: Shape, axis: int) -> PictureKind | None:
    channels = shape[axis]
    if channels == 1:
        return "map"
    if channels in _COLOURS:
        return "image"
    is_heat = _HEAT in tensor.name.lower() or is_probability(tensor)
    return "heat" if isinstance(channels, int) and is_heat else None
