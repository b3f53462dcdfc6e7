"""What a model is for, found in its graph where that is sure: a text of `--task`, or why it is not known."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence

from onnxq.base.reason import reason
from onnxq.graph.model import Model
from onnxq.graph.moves import REARRANGES
from onnxq.graph.recurrence import ends
from onnxq.graph.statements import inputs_behind
from onnxq.graph.types import Dim, Shape
from onnxq.graph.view import Node, Tensor
from onnxq.task.find_heads import are_raw, heads_found
from onnxq.task.find_vectors import likely_row, vectors_found
from onnxq.task.fits import cells_of, grids_of, image_of, images_of, may_be_tokens, size_of
from onnxq.task.found import TaskFound, joined, said, shown
from onnxq.task.layout import Classes
from onnxq.task.likely_boxes import asked, likely_boxes
from onnxq.task.makers import (
    FAR,
    is_probability,
    is_product,
    is_whole,
    maker_of,
    normalised,
    softmax_word,
)

_IMAGENET = (1000, 1001)
_SEMANTIC = (19, 21, 150)  # classes of Cityscapes, PASCAL VOC, ADE20K
_TREES = ("TreeEnsembleClassifier", "LinearClassifier", "SVMClassifier")
_CHARACTERS = 11  # digits and none: of fewer classes positions are no text
_LANDMARKS = 10  # columns of five points of a face
_CHOOSES = ("NonZero", "Compress", "Unique")
_SIZES = ("Shape", "Size")


def found_task(model: Model, outputs: Sequence[str]) -> TaskFound:
    """What a model is for, where its graph says so.

    Args:
        model: the float model.
        outputs: the names of those that run; of others nothing is asked.
    """
    tensors = [one for one in model.outputs if one.name in outputs]
    floats = [
        one
        for one in tensors
        if one.dtype is not None and (one.dtype.kind == "f" or "float" in one.dtype.name) and not ends(one)
    ]
    looks: tuple[Callable[[], TaskFound | None], ...] = (
        lambda: _of_cells(model, floats),
        lambda: heads_found(model, tensors, floats),
        lambda: _boxes_and_scores(tensors, floats),
        lambda: _columns(model, floats),
        lambda: _words(model, floats),
        lambda: _positions(model, floats),
        lambda: _labels(tensors),
        lambda: _multi_label(floats),
        lambda: vectors_found(model, floats),
        lambda: _classes(model, floats),
        lambda: _pixels(model, floats),
    )
    found = next(filter(None, (look() for look in looks)), None)
    if found is None or not (found.text or found.ask):
        found = likely_boxes(model, floats) or found
    if found is not None:
        return found
    shapes = ", ".join(f"{one.name} {shown(one.shape)}" for one in tensors[:4])
    more = f" and {len(tensors) - 4} more" if len(tensors) > 4 else ""
    why = reason("unread-outputs", shapes=shapes, more=more)
    ask = likely_row(model, floats) or _likely_of_maps(model, floats) or _likely_labels(floats)
    return TaskFound("", why, ask)


def likely_scores(model: Model) -> Classes | None:
    """Scores of classes, as the only output of a product with constants may be; None: it is none.

    Landmarks and features come of such a product, too: it is good for what no answer hangs on.
    """
    tensors = model.outputs
    if len(tensors) != 1 or tensors[0].shape is None or len(tensors[0].shape) != 2:
        return None
    classes = tensors[0].shape[1]
    maker = maker_of(tensors[0])
    return (
        Classes(tensors[0].name) if is_product(maker) and isinstance(classes, int) and classes > 2 else None
    )


# -- classes, words, pixels ---------------------------------------------------------------------


def _classes(model: Model, floats: Sequence[Tensor]) -> TaskFound | None:
    if len(floats) != 1:
        return None
    (scores,) = floats
    sizes = [size for size in (scores.shape or ())[1:] if size != 1]
    if len(sizes) != 1 or sizes[0] is None:
        return None
    if (chooser := _rows_chosen(model, scores)) is not None:
        return TaskFound(
            "", reason("chosen-rows", output=scores.name, op=chooser.op, node=chooser.name),
        )  # fmt: skip
    node = maker_of(scores)
    if node is not None and (node.op in ("Softmax", "LogSoftmax", *_TREES) or normalised(node)):
        return TaskFound(f"classify:scores={said(scores)}", reason("classes.made", word=softmax_word(node)))
    if "logits" in scores.name.lower():
        return TaskFound(f"classify:scores={said(scores)}", reason("classes.called"))
    if sizes[0] in _IMAGENET:
        return TaskFound(f"classify:scores={said(scores)}", reason("classes.imagenet", count=sizes[0]))
    return TaskFound(
        "", reason("classes.perhaps", output=scores.name),
        likely_row(model, floats) or _likely_labels(floats),
    )  # fmt: skip


def _multi_label(floats: Sequence[Tensor]) -> TaskFound | None:
    """Probabilities that a Sigmoid each gives, by their name."""
    text = _likely_labels(floats)
    return TaskFound(text, reason("multi-label")) if text and "prob" in floats[0].name.lower() else None


def _likely_labels(floats: Sequence[Tensor]) -> str:
    """The same of any name: marks of quality come of a Sigmoid, too."""
    node = maker_of(floats[0]) if len(floats) == 1 else None
    is_row = node is not None and node.op == "Sigmoid" and (floats[0].rank or 4) <= 3
    return f"classify:scores={said(floats[0])},sigmoid" if is_row else ""


def _rows_chosen(model: Model, output: Tensor) -> Node | None:
    """The node that chooses by values how many rows an output has; None where their number is known."""
    first = (output.shape or (0,))[0]
    if isinstance(first, int) or (first and first in {one.shape[0] for one in model.inputs if one.shape}):
        return None
    waiting, seen = [output], {output.name}
    while waiting:
        node = waiting.pop(0).producer
        if node is None or node.op in _SIZES:
            continue
        behind = [one for one in node.inputs if one is not None and one.constant is None]
        if node.op in _CHOOSES and any(inputs_behind(one) for one in behind):
            return node
        if node.op.startswith("Scatter"):
            behind = behind[:1]  # which has the size
        new = [one for one in behind if one.name not in seen]
        seen |= {one.name for one in new}
        waiting += new
    return None


def _words(model: Model, floats: Sequence[Tensor]) -> TaskFound | None:
    """Scores of words: the last layer's, of as many positions as there are tokens."""
    ids = [one.shape for one in model.inputs if one.shape is not None and may_be_tokens(one)]
    if not ids:
        return None
    ends = [one for one in floats if one.shape is not None and one.shape == ids[0]]
    if len(ends) == 2 and len(floats) == 2:
        start, end = ends
        if "start" in start.name.lower() and "end" in end.name.lower():
            return TaskFound(f"spans:start={said(start)},end={said(end)}", reason("answer-spans"))
    rows = [
        one for one in floats if one.shape is not None and len(one.shape) == 3 and one.shape[1] == ids[0][1]
    ]
    scores = [
        one
        for one in rows
        if is_product(maker_of(one)) and one.shape is not None and one.shape[2] not in (1, 2)
    ]
    if len(scores) == 1:
        return TaskFound(f"tokens:scores={said(scores[0])}", reason("row-a-token"))
    return None


def _positions(model: Model, floats: Sequence[Tensor]) -> TaskFound | None:
    """Classes of each position, as where text is read off a line or off speech: a Softmax is over a layer."""
    if len(floats) != 1 or floats[0].shape is None or len(floats[0].shape) != 3:
        return None
    (scores,), node = floats, maker_of(floats[0])
    if _is_in_front_of_batch(model, scores) and is_product(node):
        return TaskFound(f"lines:scores={said(scores)},TBC", reason("text-line"))
    if node is None or node.op not in ("Softmax", "LogSoftmax") or node.outputs[0].rank != 3:
        return None
    *others, classes = scores.shape or (None,)
    given = node.outputs[0].shape or (None,)
    if not isinstance(classes, int) or classes < 3 or classes in others or given[-1] != classes:
        return None  # two may be a face or none, in each of many boxes
    layer = None if node.inputs[0] is None else maker_of(node.inputs[0])
    if node.attr("axis", -1 if node.opset >= 13 else 1) not in (-1, 2) or not _runs_along(layer):
        return None
    if image_of(model.inputs) is not None and classes >= _CHARACTERS:  # text that is read off a picture
        order = ",TBC" if others[1] == 1 != others[0] else ""
        return TaskFound(
            f"lines:scores={said(scores)}{order}", reason("class-a-position.picture", op=node.op)
        )
    return TaskFound(f"tokens:scores={said(scores)}", reason("class-a-position", op=node.op))


def _is_in_front_of_batch(model: Model, scores: Tensor) -> bool:
    """Whether the batch of a picture is the second axis, behind that of several positions."""
    image, shape = image_of(model.inputs), scores.shape or ()
    batches = [
        one.shape[0] for one in model.inputs if image is not None and one.name == image.input and one.shape
    ]
    return (
        len(shape) == 3
        and shape[1] in batches
        and isinstance(shape[0], int)
        and shape[0] > 1
        and shape[0] != shape[1]
        and isinstance(shape[2], int)
        and shape[2] >= _CHARACTERS
    )


def _runs_along(layer: Node | None) -> bool:
    """Whether a layer goes along a line of positions, not over pixels or over parts of one row."""
    if layer is None or not (is_product(layer) or layer.op == "Conv"):
        return False
    out = layer.outputs[0].shape
    if out is None or len(out) not in (3, 4):
        return False
    return len(out) == 3 or (layer.op == "Conv" and 1 in out[2:])


def _labels(tensors: Sequence[Tensor]) -> TaskFound | None:
    """A class a pixel."""
    if len(tensors) != 1 or tensors[0].shape is None or len(tensors[0].shape) not in (3, 4):
        return None
    node = maker_of(tensors[0])
    if (
        node is not None
        and node.op == "ArgMax"
        and tensors[0].dtype is not None
        and tensors[0].dtype.kind in "iu"
    ):
        return TaskFound(f"segment:scores={said(tensors[0])}", reason("class-a-pixel"))
    return None


def _pixels(model: Model, floats: Sequence[Tensor]) -> TaskFound | None:
    if len(floats) != 1 or floats[0].shape is None or len(floats[0].shape) != 4:
        return None
    (scores,), node = floats, maker_of(floats[0], ("Transpose",))
    shape = scores.shape or ()
    for axis in (1, 3):
        size = shape[axis]
        others = [shape[other] for other in ((2, 3) if axis == 1 else (1, 2))]
        if any(isinstance(one, int) and one < 8 for one in others):
            continue
        if node is not None and node.op == "Softmax" and node.outputs[0].name == scores.name:
            given = node.attr("axis", -1 if node.opset >= 13 else 1)
            if given % 4 == axis and size not in (1, None):
                return TaskFound(
                    f"segment:scores={said(scores)},axis={axis}", reason("class-a-pixel.softmax")
                )
        elif size in _SEMANTIC:
            return TaskFound(
                f"segment:scores={said(scores)},axis={axis}", reason("class-a-pixel.known", size=size)
            )
    name, ask = said(scores), ""
    for image in images_of(model.inputs):
        fed = next(one.shape for one in model.inputs if one.name == image.input)
        axis = 1 if image.height == 2 else 3
        times = _times(fed, shape, axis)
        if times > 1 and fed is not None and fed[axis] == shape[axis]:
            return TaskFound(f"image:map={name}", reason("picture-out", input=image.input, times=times))
        ask = ask or _likely_map(model, scores, name, shape[axis], times)
    return TaskFound("", reason("picture-out.perhaps", output=scores.name, shape=shown(shape)), ask)


def _times(fed: Shape | None, shape: Shape, axis: int) -> int:
    """How many times the sides of a picture that is fed those of an output are; 0: that is not known."""
    ratios = set()
    for place in {1, 2, 3} - {axis}:
        own, given = shape[place], None if fed is None else fed[place]
        if not (isinstance(own, int) and isinstance(given, int)) or not given or own % given:
            return 0
        ratios.add(own // given)
    return ratios.pop() if len(ratios) == 1 else 0


def _likely_of_maps(model: Model, floats: Sequence[Tensor]) -> str:
    """What the first of several outputs that has the sides of a picture is likely to be."""
    for image in images_of(model.inputs)[:1]:
        fed = next(one.shape for one in model.inputs if one.name == image.input)
        sides = None if fed is None else fed[image.height : image.height + 2]
        for one in floats:
            shape = one.shape or ()
            if len(shape) == 3 and shape[1:] == sides:
                return f"depth:map={said(one)}"
            axis = 1 if image.height == 2 else 3
            if len(shape) == 4 and _times(fed, shape, axis) == 1:
                return _likely_map(model, one, said(one), shape[axis], 1)
    return ""


def _likely_map(model: Model, scores: Tensor, name: str, channels: Dim, times: int) -> str:
    """What a map of as many sides as a picture is likely to be; "": of more channels nothing is."""
    if channels == 1 and is_probability(scores):
        return f"segment:scores={name},sigmoid"
    if channels not in (1, 2, 3) or times != 1 or (channels == 2 and len(images_of(model.inputs)) != 2):
        return ""
    return f"{('depth', 'flow', 'image')[int(channels) - 1]}:map={name}"


# -- boxes --------------------------------------------------------------------------------------


def _of_cells(model: Model, floats: Sequence[Tensor]) -> TaskFound | None:
    """A candidate a cell, an output each stride: `[1, height * width, columns]`."""
    size = size_of(image_of(model.inputs), model.inputs)
    if size is None:
        return None
    cells = {cells_of(size, (stride,)): stride for stride in (8, 16, 32, 64)}
    groups: dict[tuple[object, bool], list[tuple[int, str]]] = {}
    for one in floats:
        sizes = one.shape
        if sizes is None or len(sizes) != 3 or sizes[1] not in cells:
            return None
        key = (sizes[2], is_probability(one))
        groups.setdefault(key, []).append((cells[int(sizes[1] or 0)], said(one)))
    strides = sorted({stride for some in groups.values() for stride, _ in some})
    if len(strides) < 2:
        return None
    single = [one for one in floats if one.shape is not None and one.shape[2] == 1 and is_probability(one)]
    boxes = [some for (size, is_share), some in groups.items() if not is_share and isinstance(size, int)
             and size % 4 == 0 and size != _LANDMARKS]  # fmt: skip
    scores = [some for (_, is_share), some in groups.items() if is_share]
    if len(boxes) != 1 or len(scores) != 1 or sorted(stride for stride, _ in boxes[0]) != strides:
        return None
    text = f"strides={'+'.join(map(str, strides))}"
    width = next(size for (size, _), some in groups.items() if some is boxes[0])
    if isinstance(width, int) and width > 4:
        if sorted(stride for stride, _ in scores[0]) != strides:
            return None
        return TaskFound(
            f"detect:boxes={joined(boxes[0])},scores={joined(scores[0])},ltrb,{text}",
            reason("box-cells.bins", grids=len(strides), bins=width // 4),
        )
    points = [some for (size, _), some in groups.items() if size == _LANDMARKS]
    if len(single) == 2 * len(strides) and points:
        first, second = (scores[0][half * len(strides) : (half + 1) * len(strides)] for half in (0, 1))
        if [stride for stride, _ in first] == [stride for stride, _ in second]:
            return TaskFound(
                f"detect:boxes={joined(boxes[0])},scores={joined(first)},objectness={joined(second)},"
                f"offsets,power=0.5,{text}",
                reason("box-cells.yunet"),
            )
    return None


def _boxes_and_scores(tensors: Sequence[Tensor], floats: Sequence[Tensor]) -> TaskFound | None:
    """Boxes in one output, of which the graph says that they are corners, and their scores in another."""
    boxes = [
        one for one in floats if one.shape is not None and len(one.shape) in (2, 3) and one.shape[-1] == 4
    ]
    if len(boxes) != 1:
        return None
    (box,) = boxes
    rest, rank = [one for one in tensors if one.name != box.name], len(box.shape or ())
    numbers = [one for one in rest if one in floats and len(one.shape or ()) == rank - 1]
    labels = [
        one
        for one in rest
        if one.dtype is not None and one.dtype.kind in "iu" and len(one.shape or ()) == rank - 1
    ]
    if len(numbers) == len(labels) == 1 and _suppresses(labels[0]):
        return TaskFound(
            f"detect:boxes={said(box)},scores={said(numbers[0])},label={said(labels[0])},xyxy,nms=off",
            reason("box-columns.chosen"),
        )
    scores = [one for one in rest if one in floats and len(one.shape or ()) == rank == 3]
    if len(scores) != 1 or len(rest) != 1:
        return None
    form = _form(box)
    if form is None:
        shares = "sigmoid" if (scores[0].shape or ())[-1] == 1 else "softmax,background=0"
        return TaskFound(
            "",
            reason("box-columns.form", boxes=box.name),
            f"detect:boxes={said(box)},scores={said(scores[0])},priors,{shares}" if are_raw(box) else "",
        )
    if not is_probability(scores[0]):
        return TaskFound("", reason("box-columns.shares", scores=scores[0].name))
    node = maker_of(scores[0])
    background = ",background=0" if node is not None and node.op == "Softmax" else ""
    return TaskFound(
        f"detect:boxes={said(box)},scores={said(scores[0])},{form}{background}",
        reason("box-columns.corners") if form == "xyxy" else reason("box-columns.centres"),
    )


def _columns(model: Model, floats: Sequence[Tensor]) -> TaskFound | None:
    """Boxes and scores in one output, joined by a Concat along its columns."""
    large = [one for one in floats if one.shape is not None and len(one.shape) == 3]
    if len(large) != 1 or any(len(one.shape or ()) < 3 for one in floats):
        return None
    name = said(large[0]) if len(floats) > 1 else ""
    rows = [size for size in (large[0].shape or ())[1:] if isinstance(size, int)]
    likely: list[str] = []
    for operands, by_column in _joins(large[0]):
        widths = [_width(one, by_column) for one in operands]
        probable = [is_probability(one) for one in operands]
        turned = by_column and _turned(large[0], operands, widths)
        order = ",BCN" if by_column != turned else ""
        end = _end(large[0], widths, by_column != turned)
        match widths:
            case [4, 1, 1] if is_whole(operands[2]):
                text = f"detect:boxes={_at(name, '0:4')},scores={_at(name, '4')},label={_at(name, '5')}"
                return TaskFound(f"{text},xyxy,nms=off{order}", reason("box-columns.label"))
            case [4, 1, int()] if are_raw(operands[0]) and (all(probable[1:]) or all(map(are_raw, operands))):
                shares = order if probable[1] else f",sigmoid{order}"
                size = size_of(image_of(model.inputs), model.inputs)
                grids = next(filter(None, (grids_of(size, one) for one in rows)), ()) if size else ()
                if len(grids) > 1:
                    text = _one(name, f"5:{end}", f"offsets,strides={'+'.join(map(str, grids))}", shares)
                    return TaskFound(text, reason("box-cells.yolox-row"))
            case [4, 1, int()] if probable[1] and probable[2]:
                return TaskFound(_one(name, f"5:{end}", "cxcywh", order), reason("box-columns.objectness"))
            case [2, 2, int() as rest] if probable[2] and rest > 1:
                return TaskFound(_one(name, f"5:{end}", "cxcywh", order), reason("box-columns.sizes"))
            case [4, _] if probable[1]:
                form = _form(operands[0])
                if form is not None:
                    return TaskFound(_one(name, f"4:{end}", form, order), reason("box-columns"))
        likely += _likely_columns(operands, widths, probable, name, order)
    return asked(model, floats, likely)


def _likely_columns(
    operands: Sequence[Tensor], widths: Sequence[int | None], probable: Sequence[bool], name: str, order: str
) -> Iterator[str]:
    """Layouts of boxes and scores that are joined, the likeliest first, where the graph does not say it."""
    shares = ("" if all(probable[1:]) else ",sigmoid") + order
    raw = are_raw(operands[0])
    match widths:
        case [4, 1, int()]:
            yield f"detect:yolox{shares}" if raw and not name else _one(name, "5:", "cxcywh", shares)
        case [4, int()]:
            yield _one(name, "4:", "priors" if raw else "xyxy", shares)
        case [2, 2, int()]:
            yield _one(name, "4:", "cxcywh", shares)
        case [int(), int() as bins] if bins % 4 == 0 and are_raw(operands[1]):  # scores before distances
            columns = f"boxes={_at(name, f'-{bins}:')},scores={_at(name, f':-{bins}')}"
            yield f"detect:{columns},ltrb{order}" + ",sigmoid" * (not probable[0])


def _one(name: str, scores: str, form: str, order: str) -> str:
    objectness = f",objectness={_at(name, '4')}" if scores.startswith("5") else ""
    return f"detect:boxes={_at(name, '0:4')}{objectness},scores={_at(name, scores)},{form}{order}"


def _end(tensor: Tensor, widths: Sequence[int | None], by_column: bool) -> str:
    """The column behind the last of those that are joined; "" where no others follow, of masks say."""
    known, size = [width for width in widths if width is not None], _width(tensor, by_column)
    return "" if len(known) < len(widths) or size == sum(known) else str(sum(known))


def _at(name: str, columns: str) -> str:
    return f"{name}[{columns}]" if name else columns


def _joins(tensor: Tensor) -> Iterator[tuple[tuple[Tensor, ...], bool]]:
    """The operands of Concats on the way back from an output, and whether columns come before candidates."""
    todo = [tensor]
    for _ in range(FAR):
        if not todo:
            return
        node = todo.pop().producer
        if node is None or node.domain:
            continue
        if node.op == "Concat":
            operands = tuple(one for one in node.inputs if one is not None and 0 not in (one.shape or ()))
            axis, rank = node.attr("axis", 0), node.outputs[0].rank or 0
            axis %= rank or 1
            if rank >= 3 and axis in (1, rank - 1):
                yield operands, axis == 1 and rank < 5
            elif rank == 2 and axis == 1:  # those of one image, in front of what makes a batch of them
                yield operands, False
            todo += operands[:1]
        elif node.op == "ScatterND" and node.inputs[0] is not None and node.inputs[0].is_constant:
            todo += [one for one in node.inputs[2:] if one is not None]  # put into a table of as many rows
        elif node.op in ("Pad", "Expand", *REARRANGES) and node.inputs[0] is not None:
            todo.append(node.inputs[0])


def _turned(tensor: Tensor, operands: Sequence[Tensor], widths: Sequence[int | None]) -> bool:
    """Whether an output has its columns last where what it is made of has them in front of the candidates."""
    shape, sizes = tensor.shape, (operands[0].shape or ())[2:]
    if shape is not None and None not in widths:
        places = [place for place in (1, 2) if shape[place] == sum(width or 0 for width in widths)]
        if len(places) == 1:  # of several grids below each other, too
            return places == [2]
    if shape is None or not sizes or not all(isinstance(size, int) for size in sizes):
        return False
    count = math.prod(size for size in sizes if isinstance(size, int))
    return shape[1] == count and shape[2] != count


def _width(tensor: Tensor, by_column: bool) -> int | None:
    shape = tensor.shape
    size = None if shape is None or len(shape) < 2 else shape[1] if by_column else shape[-1]
    return size if isinstance(size, int) else None


def _form(tensor: Tensor) -> str | None:
    """What boxes are by what makes them: a Sub and an Add of the same, joined; None: that is not known."""
    node = maker_of(tensor, ("Mul", "Div", *REARRANGES))
    if node is None or node.op != "Concat":
        return None
    made = [None if one is None else maker_of(one, ("Mul", "Div")) for one in node.inputs]
    if len(made) != 2 or None in made:
        return None
    ops = [one.op for one in made if one is not None]
    if ops == ["Sub", "Add"] and made[0] is not None and made[1] is not None and _meet(made[0], made[1]):
        return "xyxy"
    if ops == ["Add", "Sub"] and made[0] is not None and made[1] is not None and _same(made[0], made[1]):
        return "cxcywh"  # the mean of two corners, and their difference
    return None


def _meet(one: Node, other: Node) -> bool:
    """Whether two nodes begin with the same values, a centre."""
    first, second = (node.inputs[0] for node in (one, other))
    if first is None or second is None:
        return False
    if first.name == second.name:
        return True
    makers = [first.producer, second.producer]  # two slices of the same columns
    return all(node is not None and node.op in ("Slice", "Split", "Gather") for node in makers) and (
        _key(makers[0]) == _key(makers[1])
    )


def _key(node: Node | None) -> tuple[object, ...]:
    if node is None:
        return ()
    values = []
    for one in node.inputs:
        value = None if one is None else one.constant
        values.append(value.tolist() if value is not None else None if one is None else one.name)
    return (node.op, str(values), str(node.attrs))


def _same(one: Node, other: Node) -> bool:
    """Whether two nodes read the same two tensors."""
    first, second = ({one.name for one in node.inputs if one is not None} for node in (one, other))
    return first == second


def _suppresses(tensor: Tensor) -> bool:
    """Whether a TopK, a NonMaxSuppression or a plugin for it is on the way back from a tensor."""
    todo, seen = [tensor], set[str]()
    for _ in range(FAR):
        if not todo:
            return False
        node = todo.pop(0).producer
        if node is None or node.name in seen:
            continue
        seen.add(node.name)
        if any(one.op in ("TopK", "NonMaxSuppression") or "NMS" in one.op for one in node.with_bodies):
            return True
        todo += [one for one in node.inputs if one is not None and not one.is_constant]
    return False
