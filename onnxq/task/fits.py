"""Whether a layout fits a model's outputs: names exist, columns are there, rows are as many as cells."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fnmatch import fnmatchcase

import numpy as np

from onnxq.base.catalogue import Fact
from onnxq.base.errors import UserError, unknown_name
from onnxq.graph.types import Dim, Shape
from onnxq.graph.view import Tensor
from onnxq.task.layout import (
    NMS_IOU,
    OF_CELLS,
    POINTS_WITHIN,
    WITH_ANCHORS,
    Boxes,
    CandidateColumns,
    Classes,
    DenseMap,
    Image,
    Layout,
    Lines,
    MultiLabel,
    Peaks,
    PixelClasses,
    Points,
    Selections,
    Spans,
    Tokens,
    Vectors,
)
from onnxq.task.stated import SOURCES, StatedSource, StatedTask

_PICTURE = (1, 3)  # channels of a picture
_GRIDS = (
    (8, 16, 32),
    (8, 16, 32, 64),
    (4, 8, 16, 32),
    (16, 32),
    (8, 16),
    (4, 8, 16),
    (8,),
    (16,),
    (32,),
    (4,),
)
_MOST_A_CELL = 9


def fitted(stated: StatedTask, outputs: Sequence[Tensor], inputs: Sequence[Tensor]) -> Layout:
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

    def __init__(self, stated: StatedTask, outputs: Sequence[Tensor], inputs: Sequence[Tensor]) -> None:
        self._inputs = inputs
        self._shapes = {one.name: one.shape for one in outputs}
        several = self._shapes if len(outputs) > 1 else {}  # a name may be a number
        named = {what: StatedSource(one.text) for what, one in stated.sources.items() if one.text in several}
        self._stated = replace(stated, sources={**stated.sources, **named})
        self._types = {one.name: one.dtype for one in outputs}

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
        if stated.task == "peaks":
            return self._peaks()
        if stated.task == "selected":
            return self._selections()
        if stated.task == "embed":
            return self._vectors()
        if stated.task == "points":
            return self._points()
        if stated.task == "lines":
            return self._lines()
        if stated.task in ("depth", "flow", "image"):
            return self._map()
        name = self._whole("scores")
        if stated.task == "segment":
            return self._masks(name)
        self._floats(name)
        if stated.task == "tokens":
            self._ranks(name, 3, 3, "[batch, positions, words]")
            return Tokens(name, self._mask())
        if stated.words:
            return MultiLabel(name, self._over())
        shape = self._shapes[name]
        if shape is not None and not any(size != 1 for size in shape[1:] or shape):
            raise self._refused("one-class", output=name, shape=list(shape))
        return Classes(name)

    def _peaks(self) -> Peaks:
        stated, words = self._stated, self._stated.words
        scores = self._whole("scores")
        sizes, offsets = (self._whole(one) if one in stated.sources else None for one in ("sizes", "offsets"))
        own = self._shapes[scores]
        for name, channels in ((scores, ()), (sizes, (2, 4)), (offsets, (2,))):
            if name is None:
                continue
            shape = self._of_channels(name, channels)
            if shape is not None and own is not None and not _may_be(shape[2:], own[2:]):
                raise self._refused("map-sizes", scores=scores, output=name)
        size = words.get("size", "")
        return Peaks(scores, sizes, offsets, "activation" in words, size, "axes" in words)  # type: ignore[arg-type]

    def _of_channels(self, name: str, channels: tuple[int, ...], least: int = 4) -> Shape | None:
        """The shape of a map of numbers, which is to have as many channels as one of some; none: any."""
        shape = self._shapes[name]
        self._floats(name)
        self._ranks(name, least, 4, "[batch, channels, height, width]")
        if channels and shape is not None and isinstance(shape[1], int) and shape[1] not in channels:
            needed = " or ".join(map(str, channels))
            raise self._refused("channels", output=name, channels=shape[1], needed=needed)
        return shape

    def _selections(self) -> Selections:
        indices = self._whole("indices")
        boxes = self._whole("boxes") if "boxes" in self._stated.sources else None
        shape, dtype = self._shapes[indices], self._types[indices]
        whole = dtype is None or dtype.kind in "iu"
        if not whole or (shape is not None and shape[1:] not in ((3,), (None,))):
            raise self._refused("selections", output=indices)
        if boxes is not None:
            self._floats(boxes)
            self._ranks(boxes, 3, 3, "[batch, boxes, 4]")
        return Selections(indices, boxes, self._stated.words.get("form", "xyxy"))  # type: ignore[arg-type]

    def _vectors(self) -> Vectors:
        name = self._whole("vectors")
        self._floats(name)
        self._ranks(name, 2, 4, "[batch, size], or [batch, tokens, size]")
        of_tokens = len(self._shapes[name] or ()) == 3
        pool = self._stated.words.get("pool", "mean")
        return Vectors(name, pool, self._mask() if of_tokens else None)  # type: ignore[arg-type]

    def _points(self) -> Points:
        name = self._whole("points")
        self._floats(name)
        sizes = [size for size in (self._shapes[name] or ())[1:] if size != 1]
        dims = self._stated.number("dims", 2, 3)
        last = sizes[-1] if sizes else None
        if dims is None and len(sizes) == 2 and last in (2, 3):
            dims = float(last)
        elif dims is None and isinstance(last, int) and (last % 2 == 0) != (last % 3 == 0):
            dims = 2.0 if last % 2 == 0 else 3.0
        if dims is None or (isinstance(last, int) and last % int(dims)):
            raise self._refused("point-size", output=name)
        within = self._stated.number("within", 0, 100)
        there = self._whole("there") if "there" in self._stated.sources else None
        return Points(name, int(dims), POINTS_WITHIN if within is None else within, there)

    def _lines(self) -> Lines:
        name = self._whole("scores")
        self._floats(name)
        self._ranks(name, 3, 3, "[batch, positions, characters]")
        last = self._stated.settings.get("blank") == "last"
        blank = None if last else self._stated.number("blank", 0, 1e6)
        first = self._stated.words.get("order") == "TBC"
        return Lines(name, first, -1 if last else None if blank is None else int(blank))

    def _map(self) -> DenseMap:
        name, what = self._whole("map"), self._stated.task
        self._of_channels(name, (2,) if what == "flow" else (), 3 if what == "depth" else 4)
        return DenseMap(name, what)  # type: ignore[arg-type]

    def _over(self) -> float:
        """Over what a score decides by itself: a probability, or its logit."""
        return 0.5 if "sigmoid" in self._stated.words.values() else 0.0

    def _masks(self, name: str) -> PixelClasses:
        stated, dtype, shape = self._stated, self._types[name], self._shapes[name]
        if dtype is not None and dtype.kind in "iub":
            return PixelClasses(name, None)
        rank = 4 if shape is None else len(shape)
        self._ranks(name, 3, 4, "[batch, classes, height, width]")
        if stated.words:
            return PixelClasses(name, None, self._over())
        axes = stated.whole("axis") or (1,)
        if len(axes) > 1 or not 0 < axes[0] < rank:
            raise self._refused("axis", axis=stated.settings["axis"], rank=rank)
        size = None if shape is None else shape[axes[0]]
        if size == 1:
            raise self._refused("one-channel", output=name, axis=axes[0])
        return PixelClasses(name, axes[0])

    def _boxes(self) -> Boxes:
        stated = self._stated
        if "boxes" not in stated.sources or "scores" not in stated.sources:
            raise self._refused("boxes-and-scores")
        by_column = stated.words.get("order") == "BCN"
        form = stated.words.get("form")
        if form is None:
            raise self._refused("box-form")
        strides, anchors = stated.whole("strides"), stated.sizes("anchors")
        if form in OF_CELLS:
            strides, anchors = self._of_grids(strides, anchors)
        if anchors and (form not in WITH_ANCHORS or len(anchors) % max(1, len(strides))):
            raise self._refused("anchors", sizes=len(anchors), strides=len(strides), form=form)
        if (form in OF_CELLS) != bool(strides):
            raise self._refused("strides.out" if strides else "strides", form=form)
        apart = form == "priors" or "rows" in stated.words
        off = stated.settings.get("nms", "off" if apart else "") == "off"
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
            activation=stated.words.get("activation", "").removesuffix("probabilities"),  # type: ignore[arg-type]
            background=back,
            power=stated.number("power", 0, 1),
            strides=strides,
            centre=0.5 if centre is None else centre,
            anchors=anchors,
            apart=apart,
            image=self._image() if strides else None,
            nms=nms if off or nms is not None else NMS_IOU,
        )
        if found.power is not None and found.objectness is None:
            raise self._refused("objectness")
        self._check(found)
        return found

    def _check(self, found: Boxes) -> None:
        """CandidateColumns and rows, as far as shapes are known."""
        width = self._width(found.boxes, found.by_column)
        if width is not None and (width < 4 or width % 4 or (width > 4 and found.form != "ltrb")):
            raise self._refused("box-columns", columns=width, form=found.form)
        for what, one in (("objectness", found.objectness), ("label", found.label)):
            width = None if one is None else self._width(one, found.by_column)
            if width not in (None, 1):
                raise self._refused("one-column", what=what, columns=width)
        width = self._width(found.scores, found.by_column)
        if width == 0 or (
            width is not None and found.background is not None and width <= found.background + 1
        ):
            raise self._refused("score-columns", columns=width)
        if found.label is not None and width not in (None, 1):
            raise self._refused("score-columns.label", columns=width)
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
            raise self._refused("rows", rows=said)
        cells, count = self._cells(found), known.get("boxes")
        if cells is not None and count is not None and (count < cells or count % cells):
            strides = ", ".join(map(str, found.strides))
            raise self._refused("cells", candidates=count, cells=cells, strides=strides)

    def _cells(self, found: Boxes) -> int | None:
        size = size_of(found.image, self._inputs)
        return None if size is None or found.image is None else cells_of(size, found.strides)

    def _of_grids(
        self, strides: tuple[int, ...], anchors: tuple[tuple[float, float], ...]
    ) -> tuple[tuple[int, ...], tuple[tuple[float, float], ...]]:
        """Strides, and each one's anchors, in the order of the outputs; those not said by sizes."""
        size = size_of(image_of(self._inputs), self._inputs)
        names = self._names(self._stated.sources["boxes"])
        if size is None:
            return strides, anchors
        by_column = self._stated.words.get("order") == "BCN"
        found: list[int] = []
        for name in names:
            shape = self._shapes[name]
            high = shape[2 if by_column else -3] if shape is not None and len(shape) > 3 else None
            if isinstance(high, int) and high and size[0] % high == 0:
                found.append(size[0] // high)
        if len(found) == len(names) and (not strides or sorted(strides) == sorted(found)):
            each = len(anchors) // len(strides) if strides else 0
            places = [strides.index(stride) for stride in found] if each else []
            own = tuple(one for place in places for one in anchors[place * each : (place + 1) * each])
            return tuple(found), own or anchors
        if not strides:
            rows = self._rows(self._columns("boxes"), by_column) or 0
            most = _MOST_A_CELL if self._stated.words["form"] in WITH_ANCHORS else 1
            return grids_of(size, rows, most), anchors
        return strides, anchors

    def _width(self, columns: CandidateColumns, by_column: bool) -> int | None:
        """How many columns there are; None: that is not known."""
        widths = set()
        for name in columns.outputs:
            _, size = self._sizes(name, by_column)
            if isinstance(size, int):
                found = columns.of(size)
                if not found:
                    first, last = columns.start, columns.stop or ""
                    raise self._refused("no-columns", output=name, columns=size, first=first, last=last)
                widths.add(found)
        if len(widths) > 1:
            raise self._refused("uneven-columns", outputs=", ".join(columns.outputs))
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
        own = shape if len(boxes) > 2 else (1, *shape)
        if len(own) == 2:
            return own[1], 1
        columns, places = (own[1], own[2:]) if by_column else (own[-1], own[1:-1])
        anchors = self._anchors(name) if by_column and len(own) == 4 else 1
        if by_column and len(own) == 4 and anchors > 1 and isinstance(columns, int):
            columns, places = columns // anchors, (anchors, *places)
        known = [size for size in places if isinstance(size, int)]
        if len(places) == 1:
            return places[0], columns
        return (int(np.prod(known)) if len(known) == len(places) else None), columns

    def _anchors(self, name: str) -> int:
        """How many anchors the cells of a map have, by its boxes where they are what is left of priors."""
        if self._stated.words["form"] != "priors":
            return len(self._stated.sizes("anchors")) // max(1, len(self._stated.whole("strides")))
        boxes = self._names(self._stated.sources["boxes"])
        pairs = [zip(self._names(one), boxes, strict=False) for one in self._stated.sources.values()]
        box = next((box for pair in pairs for own, box in pair if own == name), name)
        columns = (self._shapes[box] or (None, None))[1]
        return columns // 4 if isinstance(columns, int) else 1

    def _columns(self, what: str) -> CandidateColumns:
        source = self._stated.sources[what]
        names = self._names(source)
        boxes = self._shapes[self._names(self._stated.sources["boxes"])[0]]
        batched = boxes is None or len(boxes) > 2
        by_column = self._stated.words.get("order") == "BCN"
        for name in names:
            if what != "label":
                self._floats(name)
            if what == "boxes":
                self._ranks(
                    name,
                    2,
                    5,
                    "[batch, columns, candidates]" if by_column else "[batch, candidates, columns]",
                )
            else:
                self._ranks(name, *((2, 5) if batched else (1, 2)), "numbers of candidates, as boxes are")
        return CandidateColumns(names, source.start, source.stop)

    def _whole(self, what: str) -> str:
        """The output of a source that has no columns."""
        source = self._stated.sources.get(what)
        if source is None and what != SOURCES[self._stated.task][0] and what != "scores":
            raise self._refused("no-output", what=what)
        names = self._names(source or StatedSource())
        if len(names) > 1:
            raise self._refused("several-outputs", what=what, outputs=", ".join(names))
        return names[0]

    def _names(self, source: StatedSource) -> tuple[str, ...]:
        known = list(self._shapes)
        if not source.pattern:
            if self._stated.task == "detect" and len(known) > 1 and self._alike():
                return tuple(known)
            if len(known) != 1:
                code = "which-output.named" if known else "which-output"
                example = "".join(known[:1])
                raise self._refused(code, count=len(known), outputs=", ".join(known[:5]), example=example)
            return (known[0],)
        if source.pattern in known:
            return (source.pattern,)
        found = tuple(name for one in source.pattern.split("+") for name in known if fnmatchcase(name, one))
        if not found:
            raise unknown_name("output", source.pattern, known)
        return found

    def _alike(self) -> bool:
        """Whether all outputs have as many columns: those of several grids."""
        axis = 1 if self._stated.words.get("order") == "BCN" else -1
        return len({None if not shape else (len(shape), shape[axis]) for shape in self._shapes.values()}) == 1

    def _floats(self, name: str) -> None:
        dtype = self._types[name]
        if dtype is not None and dtype.kind != "f" and "float" not in dtype.name:
            raise self._refused("no-scores", output=name, dtype=dtype)

    def _ranks(self, name: str, least: int, most: int, wanted: str) -> None:
        shape = self._shapes[name]
        if shape is not None and not least <= len(shape) <= most:
            raise self._refused("shape", output=name, shape=list(shape), wanted=wanted)

    def _mask(self) -> str | None:
        known = [one.name for one in self._inputs]
        source = self._stated.sources.get("mask")
        if source is not None:
            if source.pattern not in known:
                raise unknown_name("input", source.pattern, known)
            return source.pattern
        return mask_of(self._inputs)

    def _image(self) -> Image:
        found = image_of(self._inputs)
        if found is None:
            raise self._refused("no-picture")
        return found

    def _refused(self, code: str, /, **values: object) -> UserError:
        """By a row of `base/catalogue/layouts.toml`."""
        fact = Fact(code, values=values)
        shapes = ", ".join(
            f"{name} {'of unknown shape' if shape is None else list(shape)}"
            for name, shape in [*self._shapes.items()][:6]
        )
        return UserError(
            f"--task {self._stated.text!r} does not fit the model: {fact.text('layouts')}",
            hint=fact.text("layouts", "do")
            or f"its outputs are {shapes}; onnxq help layout says how they are stated",
        )


def mask_of(inputs: Sequence[Tensor]) -> str | None:
    """The input that says where padding is: of whole numbers or truths, of rank 2, named a mask."""
    found = [
        one.name
        for one in inputs
        if "mask" in one.name.lower()
        and (one.dtype is None or one.dtype.kind in "iub")
        and one.rank in (None, 2)
    ]
    return found[0] if len(found) == 1 else None


def size_of(image: Image | None, inputs: Sequence[Tensor]) -> tuple[int, int] | None:
    """The height and width of a picture that is fed; None where they are not known."""
    shape = next((one.shape for one in inputs if image is not None and one.name == image.input), None)
    if shape is None or image is None:
        return None
    high, wide = shape[image.height : image.height + 2]
    return (high, wide) if isinstance(high, int) and isinstance(wide, int) else None


def cells_of(size: tuple[int, int], strides: Sequence[int]) -> int:
    """How many cells the grids of a picture of a height and a width have together."""
    return sum(-(-size[0] // stride) * -(-size[1] // stride) for stride in strides)


def grids_of(size: tuple[int, int], rows: int, most: int = 1) -> tuple[int, ...]:
    """The strides of the usual grids that have as many cells as there are rows; () where none have.

    Args:
        size: the height and width of the picture.
        rows: how many candidates there are.
        most: how many each cell may have.
    """
    cells = {grids: cells_of(size, grids) for grids in _GRIDS}
    fit = [grids for grids, count in cells.items() if not rows % count and 0 < rows <= most * count]
    return max(fit, key=cells.__getitem__, default=())


def _may_be(one: Sequence[Dim], other: Sequence[Dim]) -> bool:
    return all(
        not isinstance(a, int) or not isinstance(b, int) or a == b for a, b in zip(one, other, strict=True)
    )


def image_of(inputs: Sequence[Tensor]) -> Image | None:
    """The only input that is a picture, `[batch, channels, height, width]` or with the channels last."""
    found = images_of(inputs)
    return found[0] if len(found) == 1 else None


def images_of(inputs: Sequence[Tensor], channels: Sequence[int] = _PICTURE) -> list[Image]:
    """All inputs that are such pictures; `channels`: how many they may have."""
    found = []
    for one in inputs:
        if one.shape is not None and len(one.shape) == 4:
            if one.shape[1] in channels:
                found.append(Image(one.name, 2))
            elif one.shape[3] in channels:
                found.append(Image(one.name, 1))
    return found


def may_be_tokens(tensor: Tensor) -> bool:
    """Whether an input may be the numbers of tokens: whole numbers, `[batch, positions]`."""
    return tensor.dtype is not None and tensor.dtype.kind in "iu" and tensor.rank == 2
