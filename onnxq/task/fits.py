"""Whether a layout fits a model's outputs: names exist, columns are there, rows are as many as cells."""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase

import numpy as np

from onnxq.base.errors import UserError, unknown_name
from onnxq.graph.types import Dim, Shape
from onnxq.task.layout import (
    NMS_IOU,
    Boxes,
    CandidateColumns,
    Classes,
    Image,
    Layout,
    PixelClasses,
    Spans,
    Tokens,
)
from onnxq.task.stated import StatedSource, StatedTask

Described = tuple[str, np.dtype | None, Shape | None]
"""Name, type and shape of an input or output."""

_PICTURE = (1, 3)  # channels of a picture


def fitted(stated: StatedTask, outputs: Sequence[Described], inputs: Sequence[Described]) -> Layout:
    """The layout that was stated, for these outputs.

    Args:
        stated: what was said.
        outputs: those of the model that run.
        inputs: the model's.

    Raises:
        UserError: it does not fit them.
    """
    return _Fitting(stated, outputs, inputs).layout()


class _Fitting:
    """One layout on its way into the outputs of one model."""

    def __init__(self, stated: StatedTask, outputs: Sequence[Described], inputs: Sequence[Described]) -> None:
        self._stated, self._inputs = stated, inputs
        self._shapes = {name: shape for name, _, shape in outputs}
        self._types = {name: dtype for name, dtype, _ in outputs}

    def layout(self) -> Layout:
        stated = self._stated
        if stated.task == "detect":
            return self._boxes()
        if stated.task == "spans":
            start, end = self._whole("start"), self._whole("end")
            for name in (start, end):
                self._floats(name)
                self._ranks(name, 2, 2, "[batch, positions]")
            return Spans(start, end, self._mask())
        name = self._whole("scores")
        if stated.task == "segment":
            return self._masks(name)
        self._floats(name)
        if stated.task == "tokens":
            self._ranks(name, 3, 3, "[batch, positions, words]")
            return Tokens(name, self._mask())
        shape = self._shapes[name]
        if shape is not None and not any(size != 1 for size in shape[1:] or shape):
            raise self._refused(f"output {name!r} has no classes to compare: its shape is {list(shape)}")
        return Classes(name)

    def _masks(self, name: str) -> PixelClasses:
        stated, dtype, shape = self._stated, self._types[name], self._shapes[name]
        if dtype is not None and dtype.kind in "iub":
            return PixelClasses(name, None)
        rank = 4 if shape is None else len(shape)
        self._ranks(name, 3, 4, "[batch, classes, height, width]")
        if "channel" in stated.words:
            return PixelClasses(name, None, over=0.5 if stated.words["channel"] == "sigmoid" else 0.0)
        axes = stated.whole("axis") or (1,)
        if len(axes) > 1 or not 0 < axes[0] < rank:
            raise self._refused(f"axis={stated.settings['axis']} is none of {rank} axes behind the batch")
        size = None if shape is None else shape[axes[0]]
        if size == 1:
            raise self._refused(
                f"output {name!r} has one channel along axis {axes[0]}: there are no classes to tell apart",
                "give segment:sigmoid or segment:logits, by what its values are, or another axis=",
            )
        return PixelClasses(name, axes[0])

    def _boxes(self) -> Boxes:
        stated = self._stated
        if "boxes" not in stated.sources or "scores" not in stated.sources:
            raise self._refused(
                "boxes and scores are not both said",
                "say which columns they are, boxes=0:4,scores=4:, or which outputs, boxes=NAME,scores=NAME",
            )
        by_column = stated.words.get("order") == "BCN"
        form = stated.words.get("form")
        if form is None:
            raise self._refused(
                "it is not said what four columns of a box are",
                "add xyxy (corners) or cxcywh (centre and size); ltrb or offsets where cells are decoded",
            )
        strides = stated.whole("strides")
        if (form in ("ltrb", "offsets")) != bool(strides):
            raise self._refused(
                f"boxes that are {form} "
                + ("have no strides" if strides else "need the strides of their cells"),
                "leave strides= out" if strides else "give them as in strides=8+16+32",
            )
        off = stated.settings.get("nms") == "off"
        nms = None if off else stated.number("nms", 0, 1)
        back = {"last": -1}.get(stated.settings.get("background", ""))
        if back is None and "background" in stated.settings:
            back = int(stated.number("background", 0, 1e6) or 0)
        centre = stated.number("centre", 0, 1)
        found = Boxes(
            boxes=self._columns("boxes"),
            scores=self._columns("scores"),
            objectness=self._columns("objectness") if "objectness" in stated.sources else None,
            label=self._columns("label") if "label" in stated.sources else None,
            form=form,  # type: ignore[arg-type]
            by_column=by_column,
            activation=stated.words.get("activation", ""),  # type: ignore[arg-type]
            background=back,
            power=stated.number("power", 0, 1),
            strides=strides,
            centre=0.5 if centre is None else centre,
            image=self._image() if strides else None,
            nms=nms if off or nms is not None else NMS_IOU,
        )
        if found.power is not None and found.objectness is None:
            raise self._refused("power= is that of the objectness, and there is none")
        self._check(found)
        return found

    def _check(self, found: Boxes) -> None:
        """CandidateColumns and rows, as far as shapes are known."""
        width = self._width(found.boxes, found.by_column)
        if width is not None and (width < 4 or width % 4 or (width > 4 and found.form != "ltrb")):
            raise self._refused(f"boxes have {width} columns, and 4 are needed for {found.form}")
        for what, one in (("objectness", found.objectness), ("label", found.label)):
            width = None if one is None else self._width(one, found.by_column)
            if width not in (None, 1):
                raise self._refused(f"{what} has {width} columns, and 1 is needed")
        width = self._width(found.scores, found.by_column)
        if width == 0 or (
            width is not None and found.background is not None and width <= found.background + 1
        ):
            raise self._refused(f"scores have {width} columns, and no class is left")
        if found.label is not None and width not in (None, 1):
            raise self._refused(f"scores have {width} columns beside a label, and 1 is needed")
        some = {
            "boxes": found.boxes,
            "scores": found.scores,
            "objectness": found.objectness,
            "label": found.label,
        }
        rows = {what: self._rows(one, found.by_column) for what, one in some.items() if one is not None}
        known = {what: count for what, count in rows.items() if count is not None}
        if len(set(known.values())) > 1:
            said = ", ".join(f"{count} of {what}" for what, count in known.items())
            raise self._refused(f"there are not as many rows of each: {said}")
        cells, count = self._cells(found), known.get("boxes")
        if cells is not None and count is not None and (count < cells or count % cells):
            raise self._refused(
                f"there are {count} candidates, and {cells} cells at strides "
                f"{', '.join(map(str, found.strides))}",
                "give the strides of the grids, in the order of the candidates",
            )

    def _cells(self, found: Boxes) -> int | None:
        shape = next(
            (shape for name, _, shape in self._inputs if found.image and name == found.image.input), None
        )
        if shape is None or found.image is None:
            return None
        size = shape[found.image.height : found.image.height + 2]
        if not all(isinstance(one, int) for one in size):
            return None
        return sum(
            int(np.prod([-(-int(one) // stride) for one in size if isinstance(one, int)]))
            for stride in found.strides
        )

    def _width(self, columns: CandidateColumns, by_column: bool) -> int | None:
        """How many columns there are; None: that is not known."""
        widths = set()
        for name in columns.outputs:
            _, size = self._sizes(name, by_column)
            if isinstance(size, int):
                found = columns.of(size)
                if not found:
                    raise self._refused(
                        f"output {name!r} has {size} columns, none of {columns.start}:{columns.stop or ''}"
                    )
                widths.add(found)
        if len(widths) > 1:
            raise self._refused(f"outputs {', '.join(columns.outputs)} have not as many columns each")
        return next(iter(widths), None)

    def _rows(self, columns: CandidateColumns, by_column: bool) -> int | None:
        total = 0
        for name in columns.outputs:
            size, _ = self._sizes(name, by_column)
            if not isinstance(size, int):
                return None
            total += size
        return total

    def _sizes(self, name: str, by_column: bool) -> tuple[Dim, Dim]:
        """How many candidates and columns an output has, as `detections.candidates` reads it."""
        shape, boxes = self._shapes[name], self._shapes[self._names(self._stated.sources["boxes"])[0]]
        if shape is None or boxes is None:
            return None, None
        own = shape if len(boxes) == 3 else (1, *shape)
        if len(own) == 2:
            return own[1], 1
        return (own[2], own[1]) if by_column else (own[1], own[2])

    def _columns(self, what: str) -> CandidateColumns:
        source = self._stated.sources[what]
        names = self._names(source)
        boxes = self._shapes[self._names(self._stated.sources["boxes"])[0]]
        batched = boxes is None or len(boxes) == 3
        by_column = self._stated.words.get("order") == "BCN"
        for name in names:
            if what != "label":
                self._floats(name)
            if what == "boxes":
                self._ranks(
                    name,
                    2,
                    3,
                    "[batch, columns, candidates]" if by_column else "[batch, candidates, columns]",
                )
            else:
                self._ranks(name, *((2, 3) if batched else (1, 2)), "numbers of candidates, as boxes are")
        return CandidateColumns(names, source.start, source.stop)

    def _whole(self, what: str) -> str:
        """The output of a source that has no columns."""
        source = self._stated.sources.get(what)
        if source is None and what != "scores":
            raise self._refused(f"the output of {what} is not said", f"add {what}=OUTPUT")
        names = self._names(source or StatedSource())
        if len(names) > 1:
            raise self._refused(f"{what} is of several outputs: {', '.join(names)}", "name one of them")
        return names[0]

    def _names(self, source: StatedSource) -> tuple[str, ...]:
        known = list(self._shapes)
        if not source.pattern:
            if len(known) != 1:
                raise self._refused(
                    f"it is not said which of {len(known)} outputs is meant: {', '.join(known[:5])}",
                    f"name it, as in {known[0]}" if known else "",
                )
            return (known[0],)
        if source.pattern in known:
            return (source.pattern,)
        found = tuple(name for one in source.pattern.split("+") for name in known if fnmatchcase(name, one))
        if not found:
            raise unknown_name("output", source.pattern, known)
        return found

    def _floats(self, name: str) -> None:
        dtype = self._types[name]
        if dtype is not None and dtype.kind != "f" and "float" not in dtype.name:
            raise self._refused(f"output {name!r} holds no scores: its type is {dtype}")

    def _ranks(self, name: str, least: int, most: int, wanted: str) -> None:
        shape = self._shapes[name]
        if shape is not None and not least <= len(shape) <= most:
            raise self._refused(f"output {name!r} has the shape {list(shape)}, and is to be {wanted}")

    def _mask(self) -> str | None:
        known = [name for name, _, _ in self._inputs]
        source = self._stated.sources.get("mask")
        if source is not None:
            if source.pattern not in known:
                raise unknown_name("input", source.pattern, known)
            return source.pattern
        return mask_of(self._inputs)

    def _image(self) -> Image:
        found = image_of(self._inputs)
        if found is None:
            raise self._refused(
                "cells are those of a picture, and no input is one", "give a layout of decoded boxes"
            )
        return found

    def _refused(self, why: str, hint: str = "") -> UserError:
        shapes = ", ".join(
            f"{name} {'of unknown shape' if shape is None else list(shape)}"
            for name, shape in [*self._shapes.items()][:6]
        )
        return UserError(
            f"--task {self._stated.text!r} does not fit the model: {why}",
            hint=hint or f"its outputs are {shapes}; docs/tasks.md has the layouts",
        )


def mask_of(inputs: Sequence[Described]) -> str | None:
    """The input that says where padding is: of whole numbers or truths, of rank 2, named a mask."""
    found = [
        name
        for name, dtype, shape in inputs
        if "mask" in name.lower()
        and (dtype is None or dtype.kind in "iub")
        and (shape is None or len(shape) == 2)
    ]
    return found[0] if len(found) == 1 else None


def image_of(inputs: Sequence[Described]) -> Image | None:
    """The only input that is a picture, `[batch, channels, height, width]` or with the channels last."""
    found = images_of(inputs)
    return found[0] if len(found) == 1 else None


def images_of(inputs: Sequence[Described], channels: Sequence[int] = _PICTURE) -> list[Image]:
    """All inputs that are such pictures; `channels`: how many they may have."""
    found = []
    for name, _, shape in inputs:
        if shape is not None and len(shape) == 4:
            if shape[1] in channels:
                found.append(Image(name, 2))
            elif shape[3] in channels:
                found.append(Image(name, 1))
    return found
