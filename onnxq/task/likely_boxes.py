"""Boxes and scores that nothing says how to read: the layout that is asked for, as it is likely."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import permutations

from onnxq.base.errors import UserError
from onnxq.base.grouped import grouped
from onnxq.base.reason import reason
from onnxq.graph.model import Model
from onnxq.graph.view import Tensor
from onnxq.task.find_heads import are_raw
from onnxq.task.fits import cells_of, fitted, grids_of, image_of, size_of
from onnxq.task.found import TaskFound, said
from onnxq.task.makers import is_probability
from onnxq.task.stated import StatedTask

_LEAST = 16  # candidates: fewer are points, or parts of one thing
_MOST_ANCHORS = 9
_OF_BINS = (8, 15, 16, 17)  # of each of four distances (arXiv 2006.04388); anchors are fewer, or nine
_LANDMARKS = 10  # columns of five points of a face
_STRIDES = (4, 8, 16, 32, 64, 128)

Kind = tuple[Tensor, ...]
"""Outputs that say the same of the candidates of several grids, or one of all."""


def likely_boxes(model: Model, floats: Sequence[Tensor]) -> TaskFound | None:
    """Asks for the layout of boxes that outputs are likely to have; None: they look like none.

    Args:
        model: the float model.
        floats: its outputs of floats that run.
    """
    image = image_of(model.inputs)
    if image is None:
        return None
    size = size_of(image, model.inputs)
    texts = _of_rows(floats[0], size) if len(floats) == 1 else _of_kinds(floats, size)
    return asked(model, floats, [f"detect:{text}" for text in texts])


def asked(model: Model, floats: Sequence[Tensor], texts: Sequence[str]) -> TaskFound | None:
    """What asks for the first of some layouts that fits the outputs; None: none does."""
    for text in texts:
        try:
            fitted(StatedTask.of(text), floats, model.inputs)
        except UserError:
            continue
        return TaskFound("", reason("box-columns.perhaps"), text)
    return None


def _of_rows(tensor: Tensor, size: tuple[int, int] | None) -> Iterator[str]:
    """Rows of one output, as many as the cells of several grids have anchors."""
    shape = tensor.shape or ()
    if len(shape) != 3 or size is None:
        return
    for rows, width, order in ((shape[1], shape[2], ""), (shape[2], shape[1], ",BCN")):
        grids = grids_of(size, rows, _MOST_ANCHORS) if isinstance(rows, int) and rows >= _LEAST else ()
        if len(grids) < 2 or not isinstance(rows, int) or not isinstance(width, int) or width < 5:
            continue
        several, raw, shares = rows > cells_of(size, grids), are_raw(tensor), is_probability(tensor)
        objects = "boxes=0:4,objectness=4,scores=5:"
        if several and (raw or shares):
            yield f"yolov5-raw{order}" if raw else f"{objects},anchored{order}"
        if raw:
            yield f"{objects},offsets,sigmoid{order}"
        yield f"{objects},cxcywh{order}" if several else f"boxes=0:4,scores=4:,cxcywh{order}"


def _of_kinds(floats: Sequence[Tensor], size: tuple[int, int] | None) -> Iterator[str]:
    """Boxes, scores and perhaps that there is anything, an output each, or one for each grid."""
    ranks = {one.rank for one in floats}
    if len(ranks) != 1 or not ranks <= {2, 3, 4}:
        return
    (rank,) = ranks
    for order, axis in (("", -1), (",BCN", 1)):
        if (rank == 4) != bool(order) and rank != 3:
            continue
        grids = [*grouped((_places(one, axis), one) for one in floats).values()]
        if len({len(grid) for grid in grids}) > 1:
            continue
        kinds = [*zip(*grids, strict=True)]
        names = {kind: "+".join(map(said, kind)) for kind in kinds}
        if len(kinds) == 1:  # each output has all of it
            names = _joined(kinds[0], axis)
            kinds = [*names]
        pairs = sorted(permutations(kinds, 2), key=lambda pair: (not _is_share(pair[1]), _is_share(pair[0])))
        for boxes, scores in pairs:
            rest = [kind for kind in kinds if kind not in (boxes, scores)]
            yield from _text(boxes, scores, rest, axis, size, order, names)


def _text(
    boxes: Kind,
    scores: Kind,
    rest: Sequence[Kind],
    axis: int,
    size: tuple[int, int] | None,
    order: str,
    names: Mapping[Kind, str],
) -> Iterator[str]:
    """The layout of boxes in some outputs and scores in others, where sizes agree."""
    widths = _widths(boxes, axis)
    if not widths or any(one % 4 for one in widths):
        return
    binned = {one // 4 for one in widths} <= {*_OF_BINS}
    maps = boxes[0].rank == 4
    if not maps and not binned and {*widths} != {4}:
        return
    anchors = [1 if binned or not maps else one // 4 for one in widths]
    if {*anchors} != {1} and "[" in names[boxes]:
        return
    classes = {wide / each for wide, each in zip(_widths(scores, axis), anchors, strict=False)}
    if len(classes) != 1 or not (of := classes.pop()).is_integer():
        return
    there = [kind for kind in rest if _widths(kind, axis) == anchors]
    marks = [kind for kind in rest if _widths(kind, axis) == [_LANDMARKS * one for one in anchors]]
    if len(there) > 1 or len(there) + len(marks) < len(rest):
        return
    rows = [_rows(one, axis) for one in boxes]
    if None not in rows and sum(row or 0 for row in rows) < _LEAST:
        return
    strides, raw = _strides(rows, size), all(are_raw(one) for one in boxes)
    if binned:
        form = "ltrb"
    elif {*anchors} == {1} and strides:
        form = "offsets" if there and raw else "ltrb"
    elif maps or raw:
        form = "priors"
    else:
        form = "cxcywh" if _is_share(boxes) else "xyxy"
    grids = f",strides={'+'.join(map(str, strides))}" if strides and form in ("ltrb", "offsets") else ""
    several = form == "priors" and of > 1 and not there and {*anchors} != {_MOST_ANCHORS}  # RetinaNet's
    shares = "" if _is_share(scores) else ",softmax,background=0" if several else ",sigmoid"
    sources = [f"boxes={names[boxes]}", f"scores={names[scores]}"]
    sources += [f"objectness={names[kind]}" for kind in there]
    yield f"{','.join(sources)},{form}{order}{shares}{grids}"


def _strides(rows: Sequence[int | None], size: tuple[int, int] | None) -> tuple[int, ...]:
    """Those of the grids of which each output has all cells, as often each; of one output all together."""
    if size is None or None in rows:
        return ()
    if len(rows) == 1:
        found = grids_of(size, rows[0] or 0)
        return found if len(found) > 1 else ()
    for each in range(1, _MOST_ANCHORS + 1):
        cells = {each * cells_of(size, (stride,)): stride for stride in _STRIDES}
        if all(row in cells for row in rows):
            return tuple(cells[row or 0] for row in rows)
    return ()


def _joined(outputs: Kind, axis: int) -> dict[Kind, str]:
    """What a Concat joins in each output, with its columns; of several anchors these are not known."""
    nodes = [one.producer for one in outputs]
    parts = [
        [one for one in node.inputs if one is not None]
        for node in nodes
        if node is not None and node.op == "Concat" and node.attr("axis", 0) == axis
    ]
    found: dict[Kind, str] = {}
    start, whole = 0, "+".join(map(said, outputs))
    for kind in zip(*parts, strict=False) if len(parts) == len(outputs) else ():
        widths = {*_widths(kind, axis)}
        if len(widths) != 1:
            return {}
        stop = start + widths.pop()
        found[kind] = f"{whole}[{start}:{stop}]"
        start = stop
    return found


def _places(tensor: Tensor, axis: int) -> tuple[object, ...]:
    """The sizes of all axes but that of the columns."""
    shape = list(tensor.shape or ())
    if shape:
        del shape[axis]
    return tuple(shape)


def _rows(tensor: Tensor, axis: int) -> int | None:
    total = 1
    for one in _places(tensor, axis)[1 if (tensor.rank or 0) > 2 else 0 :]:
        if not isinstance(one, int):
            return None
        total *= one
    return total


def _widths(kind: Kind, axis: int) -> list[int]:
    """How many columns each output has; none where that is not known."""
    sizes = [(one.shape or (None,))[axis] for one in kind]
    return (
        [one for one in sizes if isinstance(one, int)] if all(isinstance(one, int) for one in sizes) else []
    )


def _is_share(kind: Kind) -> bool:
    return all(is_probability(one) for one in kind)
