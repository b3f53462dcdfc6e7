"""Heads of detectors that something else decodes: grids with anchors, priors, peaks of maps, selections."""

from __future__ import annotations

from collections.abc import Sequence

from onnxq.base.reason import reason
from onnxq.graph.model import Model
from onnxq.graph.view import Tensor
from onnxq.task.fits import image_of, size_of
from onnxq.task.found import TaskFound, joined, said
from onnxq.task.makers import is_probability, maker_of
from onnxq.task.stated import ANCHORS

_WITH_POINTS = (12, 16, 18)  # columns of a box and points: of a body, a face, a hand
_LANDMARKS = 10  # columns or channels of five points of a face
_STRIDES = (8, 16, 32)  # of the three grids whose anchors are known
_FINEST, _COARSEST = 2, 8  # strides of maps of peaks
_DIRECT = ("Relu", "Exp", "Softplus", "Clip", "Sigmoid")  # what makes sizes that are no logarithms
_BINS = 64  # four distances, of 16 bins each
_LEAST_OF_OBJECTS = 6  # columns: a box, a score, a class


def heads_found(model: Model, tensors: Sequence[Tensor], floats: Sequence[Tensor]) -> TaskFound | None:
    """What the outputs detect, where the graph says so; None: it is none of these.

    Args:
        model: the float model.
        tensors: its outputs that run.
        floats: those of floats.
    """
    return (
        _selected(tensors)
        or _peaks(model, floats)
        or _grids(model, floats)
        or (_priors(floats) if len(floats) == len(tensors) else None)
    )


def _selected(tensors: Sequence[Tensor]) -> TaskFound | None:
    """What a NonMaxSuppression gives, and perhaps the boxes that it reads."""
    for one in tensors:
        node = maker_of(one)
        if node is None or node.op != "NonMaxSuppression" or one.rank != 2:
            continue
        source = node.inputs[0]
        read = [other for other in tensors if source is not None and other.name == source.name]
        form = "cxcywh" if node.attr("center_point_box", 0) else "xyxy"
        boxes = f",boxes={said(read[0])},{form}" if read else ""
        return TaskFound(f"selected:indices={said(one)}{boxes}", "a NonMaxSuppression selects them")
    return None


def _peaks(model: Model, floats: Sequence[Tensor]) -> TaskFound | None:
    """Probabilities of each cell of a map, and beside them its offsets and sizes (CenterNet, CenterFace)."""
    size = size_of(image_of(model.inputs), model.inputs)
    shapes = [one.shape for one in floats]
    maps = {shape[2:] for shape in shapes if shape is not None and len(shape) == 4}
    if size is None or len(maps) != 1 or len(floats) < 3 or any(len(shape or ()) != 4 for shape in shapes):
        return None
    high, wide = next(iter(maps))
    strides = {side // own if isinstance(own, int) and own and side % own == 0 else 0
               for side, own in zip(size, (high, wide), strict=True)}  # fmt: skip
    if len(strides) != 1 or not _FINEST <= strides.pop() <= _COARSEST:
        return None
    scores = [one for one in floats if is_probability(one)]
    rest = [one for one in floats if one not in scores]
    pairs = [one for one in rest if (one.shape or ())[1] == 2]
    if len(scores) != 1 or len(pairs) != 2 or {(one.shape or ())[1] for one in rest} - {2, _LANDMARKS}:
        return None
    sizes, offsets = sorted(pairs, key=lambda one: not _grows(one))
    direct = ",direct" if _grows(sizes) else ""
    return TaskFound(
        f"peaks:scores={said(scores[0])},sizes={said(sizes)},offsets={said(offsets)}{direct}",
        reason("box-cells.peaks"),
    )


def _grows(tensor: Tensor) -> bool:
    """Whether values are sizes by what makes them."""
    node = maker_of(tensor)
    return node is not None and node.op in _DIRECT


def _grids(model: Model, floats: Sequence[Tensor]) -> TaskFound | None:
    """An output a stride, `[1, anchors, height, width, columns]` (YOLOv5), or with all columns in front."""
    size = size_of(image_of(model.inputs), model.inputs)
    shapes = [one.shape for one in floats]
    ranks = {len(shape or ()) for shape in shapes}
    if size is None or len(floats) < 2 or ranks not in ({5}, {4}):
        return None
    rank = ranks.pop()
    place, columns = (2, -1) if rank == 5 else (2, 1)
    strides, kinds = [], set()
    for shape in shapes:
        sides = (shape or ())[place : place + 2]
        known = [(one, side) for one, side in zip(sides, size, strict=True) if isinstance(one, int) and one]
        ratios = {side // one for one, side in known if side % one == 0}
        if len(known) < 2 or len(ratios) != 1 or shape is None:
            return None
        strides.append(ratios.pop())
        kinds.add((shape[1] if rank == 5 else 1, shape[columns]))
    if len(kinds) != 1 or len({*strides}) != len(floats):
        return None
    anchors, width = kinds.pop()
    names = joined([(stride, said(one)) for stride, one in zip(strides, floats, strict=True)])
    text = f"detect:boxes={names}[0:4],objectness={names}[4],scores={names}[5:]"
    grids = f"strides={'+'.join(map(str, sorted(strides)))}"
    if not isinstance(width, int) or width < _LEAST_OF_OBJECTS:
        return None
    if rank == 5 and isinstance(anchors, int):
        sizes = f",anchors={ANCHORS}" if anchors == 3 and tuple(sorted(strides)) == _STRIDES else ""
        form = "anchored" if all(map(is_probability, floats)) else "anchored,sigmoid"
        return TaskFound(f"{text},{form},{grids}{sizes}", reason("box-cells.yolov5"))
    joined_of = {_joined_widths(one) for one in floats}
    if joined_of == {(4, 1, width - 5)}:
        return TaskFound(f"{text},offsets,BCN,{grids}", reason("box-cells.yolox"))
    if joined_of == {(_BINS, width - _BINS)}:
        text = f"detect:boxes={names}[0:{_BINS}],scores={names}[{_BINS}:]"
        return TaskFound(f"{text},ltrb,BCN,sigmoid,{grids}", reason("box-cells.yolov8"))
    if tuple(sorted(strides)) == _STRIDES and width % 3 == 0 and width > 3 * 5 and joined_of == {()}:
        why = reason("box-cells.perhaps-yolov5", grids=len(floats), channels=width)
        return TaskFound("", why, "detect:yolov5-raw,BCN")
    return None


def _joined_widths(tensor: Tensor) -> tuple[int, ...]:
    """Of how many channels each is that a Concat joins: boxes raw, scores probabilities or raw."""
    node = tensor.producer
    if node is None or node.op != "Concat" or node.attr("axis", 0) != 1 or len(node.inputs) < 2:
        return ()
    box, *scores = (one for one in node.inputs if one is not None)
    told = are_raw(box) and all(is_probability(one) or (len(scores) == 1 and are_raw(one)) for one in scores)
    sizes = [(one.shape or (0, 0))[1] for one in (box, *scores)]
    return tuple(size for size in sizes if isinstance(size, int)) if told else (0,)


def _priors(floats: Sequence[Tensor]) -> TaskFound | None:
    """What convolutions give of a box for each prior, and probabilities: of rows, as nothing decodes them."""
    if any(one.rank != 3 for one in floats) or len({(one.shape or ())[1] for one in floats}) != 1:
        return None
    widths = {one.name: (one.shape or ())[2] for one in floats}
    boxes = [one for one in floats if widths[one.name] == 4 and are_raw(one)]
    scores = [one for one in floats if is_probability(one)]
    rest = {widths[one.name] for one in floats if one not in boxes and one not in scores}
    if len(boxes) == len(scores) == 1 and not rest - {_LANDMARKS}:
        node = maker_of(scores[0])
        background = ",background=0" if node is not None and node.op == "Softmax" else ""
        return TaskFound(
            f"detect:boxes={said(boxes[0])},scores={said(scores[0])},priors{background}",
            reason("box-rows"),
        )
    both = sorted(floats, key=lambda one: widths[one.name] == 1)
    if len(both) == 2 and widths[both[1].name] == 1 and widths[both[0].name] in _WITH_POINTS:
        names = f"detect:boxes={said(both[0])}[0:4],scores={said(both[1])},cxcywh,apart"
        why = reason("box-rows.perhaps")
        return TaskFound("", why, names if is_probability(both[1]) else f"{names},sigmoid")
    return None


def are_raw(tensor: Tensor) -> bool:
    """Whether convolutions give all values, of several maps below each other."""
    node = maker_of(tensor)
    if node is not None and node.op == "Concat":
        made = [None if one is None else maker_of(one) for one in node.inputs]
        return all(one is not None and one.op == "Conv" for one in made)
    return node is not None and node.op == "Conv"
