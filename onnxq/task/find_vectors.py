"""Outputs that are numbers of a whole sample: vectors that stand for it, and points of what it shows."""

from __future__ import annotations

from collections.abc import Sequence

from onnxq.base.reason import reason
from onnxq.graph.model import Model
from onnxq.graph.statements import inputs_behind
from onnxq.graph.view import Node, Tensor
from onnxq.task.fits import image_of, may_be_tokens
from onnxq.task.found import TaskFound, said
from onnxq.task.makers import is_probability, is_product, maker_of

_LEAST = 16  # numbers of a vector: fewer may be a direction
_MESH = {1404: 3, 1434: 3}
"""Numbers of a row that are nothing but points, by how many a point has: meshes of faces."""
_HANDS = {63: 3, 42: 2}
"""Those of a hand's 21 points, beside the probability that it is there."""
_OUTLINES = (136, 196, 212, 213, 1404, 1434, 63, 117, 42, 34, 51)
"""Numbers of rows that often are points: of faces, hands and bodies."""
_SHARES = ("Softmax", "LogSoftmax", "Sigmoid")
_USUAL = 32  # what vectors' sizes are multiples of, and numbers of classes seldom
_NORMS = ("LayerNormalization", "SkipLayerNormalization", "LpNormalization")
_EACH = ("Clip", "Max", "Add", "Expand", "Sqrt", "Pow", "Cast", "Abs")  # between a norm and its quotient


def vectors_found(model: Model, floats: Sequence[Tensor]) -> TaskFound | None:
    """What the outputs stand for, where the graph says so; None: it is neither.

    Args:
        model: the float model.
        floats: its outputs of floats that run.
    """
    return _embedding(model, floats) or _points(model, floats)


def likely_row(model: Model, floats: Sequence[Tensor]) -> str:
    """What `--task` would say of rows or positions that nothing tells; "": nothing is likely."""
    is_picture = image_of(model.inputs) is not None
    if len(tokens := _of_tokens(model, floats)) == 1:
        return f"embed:vectors={said(tokens[0])}"
    for one in floats:
        sizes = [size for size in (one.shape or ())[1:] if size != 1]
        if is_picture and one.rank == 3 and len(sizes) == 2 and sizes[1] in (2, 3):
            return f"points:points={said(one)}"
        if is_picture and one.rank == 3 and is_product(maker_of(one)) and len(sizes) >= 1:
            first = one.shape is not None and isinstance(one.shape[0], int) and one.shape[0] > 1
            return f"lines:scores={said(one)}" + ",TBC" * first
        if len(sizes) == 1 and is_picture and sizes[0] in _OUTLINES:
            dims = 3 if sizes[0] in (*_MESH, 213, 63, 117, 51) else 2
            return f"points:points={said(one)},dims={dims}"
    rows = [one for one in floats if one.rank in (2, 4) and _size(one) > 1]
    node = maker_of(rows[0]) if len(rows) == 1 else None
    if node is None or node.op in _SHARES or any(one.rank not in (1, 2) for one in floats if one not in rows):
        return ""
    is_vector = _size(rows[0]) % _USUAL == 0 or not is_product(node)
    return f"{'embed:vectors' if is_vector else 'classify:scores'}={said(rows[0])}"


def _size(tensor: Tensor) -> int:
    """How many numbers a row has; 0: that is not known, or there are several rows."""
    sizes = [size for size in (tensor.shape or ())[1:] if size != 1]
    return sizes[0] if len(sizes) == 1 and isinstance(sizes[0], int) else 0


# -- vectors -----------------------------------------------------------------------------------


def _embedding(model: Model, floats: Sequence[Tensor]) -> TaskFound | None:
    """A row that is divided by its length, or is a mean of tokens; or what tokens become, for want of one."""
    rows = [one for one in floats if _size(one) >= _LEAST]
    for told, code in (
        (_is_unit, "vector-rows.unit"),
        (_is_mean_of_tokens, "vector-rows.mean"),
    ):
        found = [one for one in rows if told(one)]
        if len(found) == 1:
            return TaskFound(f"embed:vectors={said(found[0])}", reason(code))
    tokens = _of_tokens(model, floats)
    if len(tokens) == 1 == len(floats):
        return TaskFound(f"embed:vectors={said(tokens[0])},mean", reason("vector-rows.tokens"))
    return None


def _of_tokens(model: Model, floats: Sequence[Tensor]) -> list[Tensor]:
    """What tokens become, normalized, of a model that is fed tokens."""
    fed = any(map(may_be_tokens, model.inputs))
    return [one for one in floats if fed and one.rank == 3 and _is_normalized(maker_of(one))]


def _is_unit(tensor: Tensor) -> bool:
    """Whether a row is divided by the root of the sum of its squares."""
    node = maker_of(tensor)
    if node is None or node.op == "LpNormalization":
        return node is not None and node.attr("p", 2) == 2
    if node.op not in ("Div", "Mul") or None in node.inputs:
        return False
    return any(_is_length(norm, value, node.op == "Mul") for value, norm in
               (node.inputs[:2], node.inputs[1::-1]))  # fmt: skip


def _is_length(norm: Tensor | None, value: Tensor | None, inverse: bool) -> bool:
    """Whether a tensor is the length of a row, kept from 0, or one over it."""
    inverted = False
    for _ in range(8):
        node = None if norm is None else maker_of(norm)
        if node is None or value is None:
            return False
        if node.op == "ReduceL2":
            return inverted == inverse and _reads(node, value)
        if node.op in ("ReduceSumSquare", "ReduceSum"):
            squared = None if node.inputs[0] is None else maker_of(node.inputs[0])
            square = node.op == "ReduceSumSquare" or (squared is not None and squared.op in ("Mul", "Pow"))
            source = node if node.op == "ReduceSumSquare" else squared
            return inverted == inverse and square and source is not None and _reads(source, value)
        inverted ^= node.op in ("Reciprocal", "Div")
        if node.op not in (*_EACH, "Reciprocal", "Div"):
            return False
        norm = next((one for one in node.inputs if one is not None and inputs_behind(one)), None)
    return False


def _reads(node: Node, value: Tensor) -> bool:
    source = node.inputs[0]
    return source is not None and _name(source) == _name(value)


def _name(tensor: Tensor) -> str:
    """A tensor's name behind what keeps its values."""
    node = tensor.producer
    while node is not None and node.op in ("Identity", "Cast", "Abs") and node.inputs[0] is not None:
        tensor = node.inputs[0]
        node = tensor.producer
    return tensor.name


def _is_mean_of_tokens(tensor: Tensor) -> bool:
    """Whether a sum over positions, of products with a mask, is divided by the sum of that."""
    node = maker_of(tensor)
    if node is None or node.op != "Div" or None in node.inputs:
        return False
    total, count = (
        None if one is None else maker_of(one, ("Clip", "Expand", "Max", "Add")) for one in node.inputs
    )
    if total is None or count is None or total.op != "ReduceSum" or count.op != "ReduceSum":
        return False
    source = total.inputs[0]
    product = None if source is None else maker_of(source)
    mask = count.inputs[0]
    return (
        product is not None
        and product.op == "Mul"
        and source is not None
        and source.rank == 3
        and mask is not None
        and _origin(mask) in {_origin(one) for one in product.inputs if one is not None}
    )


def _origin(tensor: Tensor) -> str:
    """The tensor that another one is a form of: cast, expanded, of other axes."""
    node = maker_of(tensor, ("Expand",))
    return tensor.name if node is None else node.outputs[0].name


def _is_normalized(node: Node | None) -> bool:
    """Whether a row is normalized over its numbers, by a node or by what it is made of."""
    if node is not None and node.op == "Add":  # the last of a LayerNormalization in parts: a bias
        made = [one.producer for one in node.inputs if one is not None and not one.is_constant]
        node = made[0] if len(made) == 1 else None
        if node is not None and node.op == "Mul":
            made = [one.producer for one in node.inputs if one is not None and not one.is_constant]
            node = made[0] if len(made) == 1 else None
        root = (
            None if node is None or node.op != "Div" or node.inputs[1] is None else maker_of(node.inputs[1])
        )
        return root is not None and root.op == "Sqrt"
    return node is not None and node.op in _NORMS


# -- points ------------------------------------------------------------------------------------


def _points(model: Model, floats: Sequence[Tensor]) -> TaskFound | None:
    """Rows of as many numbers as nothing but points of a face has; of a hand beside whether it is there."""
    if image_of(model.inputs) is None:
        return None
    meshes = [one for one in floats if _size(one) in _MESH]
    hands = [one for one in floats if _size(one) in _HANDS]
    is_there = [one for one in floats if one.shape is not None and all(size == 1 for size in one.shape[1:])
                and is_probability(one)]  # fmt: skip
    if len(meshes) == 1:
        return TaskFound(
            f"points:points={said(meshes[0])},dims={_MESH[_size(meshes[0])]}",
            reason("point-rows", count=_size(meshes[0])),
        )
    if hands and is_there and len(hands) + len(is_there) == len(floats):
        return TaskFound(
            f"points:points={said(hands[0])},there={said(is_there[0])},dims={_HANDS[_size(hands[0])]}",
            reason("point-rows.hand", count=_size(hands[0])),
        )
    return None
