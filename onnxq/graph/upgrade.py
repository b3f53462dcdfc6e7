"""Raising a model's opset: to where Q/DQ pairs have a channel axis and a format, or blocks.

ONNX's own converter is not used: it renames tensors and nodes, leaves subgraph bodies behind, and
turns Upsample into a Resize of another coordinate convention. Only what changed since opset 7 in a way
that an old node feels is rewritten (ONNX, Changelog.md); the whole model is compared before and after.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
import onnx

from onnxq.base.errors import UserError
from onnxq.graph.model import Model
from onnxq.graph.view import Node
from onnxq.graph.wiring import constant_of, new_tensor, replace_output

OPSET = 13
BLOCKS = 21
"""Where a DequantizeLinear reads blocks, and codes of 4 bits."""
_OLDEST = 7


def upgrade(model: Model, opset: int = OPSET) -> None:
    """Raises the opset of a model, in place; tensors and nodes keep their names.

    Args:
        model: a model of an older opset; a newer one is left as it is.
        opset: `OPSET`, or a newer one up to `BLOCKS`.

    Raises:
        UserError: the opset is older than 7, or a node has no equal in the newer one; the model may be
            changed in part then.
    """
    for step, changes in ((OPSET, _CHANGES), (opset, _LATER)):
        if model.opset < step <= opset:
            _raise(model, step, changes)


def _raise(model: Model, opset: int, changes: Mapping[str, _Change]) -> None:
    if not any(node.domain in (None, "", "ai.onnx") for graph in model.graphs() for node in graph.nodes):
        _import(model, opset)  # it has no operators of ONNX's own
        return
    if model.opset < _OLDEST:
        raise UserError(
            f"the model's opset is {model.opset}; opsets older than {_OLDEST} cannot be quantized",
            hint=f"export the model again with opset {OPSET} or newer",
        )
    for graph in list(model.graphs()):
        upgraded: list[Any] = []
        for raw in graph.nodes:
            node = Node(model, raw)
            change = changes.get(node.op) if not node.domain else None
            if change is not None and model.opset < change[0] <= opset:
                raw.proto = _copied(raw.proto)
                upgraded += change[1](_Old(node, model))
            else:
                upgraded.append(raw)
        graph.nodes = upgraded
    _import(model, opset)
    model.infer_shapes()


def withdrawn(model: Model) -> list[str]:
    """The operators of a model that opset 13 does not have, such as those that ONNX has withdrawn."""
    return sorted(
        {
            node.op
            for graph in model.graphs()
            for node in graph.nodes
            if node.domain in (None, "", "ai.onnx")
            and node.op not in _CHANGES
            and not onnx.defs.has(node.op, OPSET, "")
        }
    )


def _import(model: Model, opset: int) -> None:
    model.opset = opset
    entries = [entry for entry in model.envelope.opset_import if entry.domain in ("", "ai.onnx")]
    for entry in entries or [model.envelope.opset_import.add()]:
        entry.version = opset
    came_with = onnx.helper.OP_SET_ID_VERSION_MAP["ai.onnx", opset]
    model.envelope.ir_version = max(model.envelope.ir_version, came_with)


class _Old:
    """A node on its way to the new opset."""

    def __init__(self, node: Node, model: Model) -> None:
        self.view = node
        self.raw = node.node
        self.model = model

    @property
    def dtype(self) -> np.dtype:
        """The type of the first input, float32 where it is not known."""
        source = self.view.inputs[0]
        return source.dtype if source is not None and source.dtype is not None else np.dtype(np.float32)

    def take(self, name: str, default: Any = None) -> Any:
        """An attribute's value; the node does not have it any more."""
        value = self.view.attr(name, default)
        kept = [a for a in self.raw.proto.attribute if a.name != name]
        del self.raw.proto.attribute[:]
        self.raw.proto.attribute.extend(kept)
        return value

    def give(self, **attributes: Any) -> None:
        """Sets attributes."""
        for name, value in attributes.items():
            self.take(name)
            self.raw.proto.attribute.append(onnx.helper.make_attribute(name, value))

    def feed(self, position: int, values: Any, dtype: Any = np.int64) -> None:
        """Makes an input a constant; inputs left out before it stay left out."""
        while len(self.raw.inputs) < position:
            self.raw.inputs.append(new_tensor("", None, None))
        name = f"{self.raw.outputs[0].name}_{self.raw.op}_{position}"
        self.raw.inputs.append(self.model.new_constant(name, np.asarray(values, dtype)))

    def fault(self, why: str) -> UserError:
        return UserError(
            f"node {self.view.name!r} ({self.view.op}, opset {self.model.opset}): {why}",
            hint=f"export the model again with opset {OPSET} or newer",
        )


def _second_input(old: _Old, attribute: str) -> list[Any]:
    """Of operators whose attribute is an input now."""
    values = old.take(attribute)
    if values is not None:
        old.feed(1, values)
    return [old.raw]


_axes = functools.partial(_second_input, attribute="axes")
_split = functools.partial(_second_input, attribute="split")


def _clip(old: _Old) -> list[Any]:
    stated = {a.name for a in old.raw.proto.attribute}
    low, high = old.take("min"), old.take("max")
    if "min" in stated:
        old.feed(1, low, old.dtype)
    if "max" in stated:
        old.feed(2, high, old.dtype)
    return [old.raw]


def _pad(old: _Old) -> list[Any]:
    pads, value = old.take("pads"), old.take("value", 0.0)
    old.feed(1, pads)
    if value != 0.0:
        old.feed(2, value, old.dtype)
    return [old.raw]


def _slice(old: _Old) -> list[Any]:
    starts, ends, axes = old.take("starts"), old.take("ends"), old.take("axes")
    old.feed(1, starts)
    old.feed(2, ends)
    old.feed(3, range(len(starts)) if axes is None else axes)
    return [old.raw]


def _top_k(old: _Old) -> list[Any]:
    old.feed(1, [old.take("k")])
    return [old.raw]


def _dropout(old: _Old) -> list[Any]:
    if len(old.raw.outputs) > 1 and old.view.outputs[1].users and old.model.opset < 10:
        raise old.fault("its mask is read, and is of another type since opset 10")
    old.take("ratio")
    return [old.raw]


def _batch_normalization(old: _Old) -> list[Any]:
    if not old.take("spatial", 1):
        raise old.fault("spatial=0 is gone since opset 9")
    return [old.raw]


def _resize(old: _Old) -> list[Any]:
    """Upsample, and the Resize of opset 10, of the same coordinates."""
    mode = old.view.attr("mode", "nearest")
    source, *operands = old.raw.inputs
    sizes = constant_of(operands[0]) if operands else np.array(old.take("scales"), np.float32)
    old.raw.op = old.raw.proto.op_type = "Resize"
    old.raw.inputs = [source, new_tensor("", None, None)]
    if operands:
        old.raw.inputs.append(operands[0])
    else:
        old.feed(2, sizes, np.float32)
    # mode comes from the node; a Resize of opset 11 with no more said would use half pixels
    old.give(
        mode=mode,
        coordinate_transformation_mode="asymmetric",
        nearest_mode=_nearest_mode(old, sizes) if mode == "nearest" else "floor",
    )
    return [old.raw]


def _nearest_mode(old: _Old, scales: np.ndarray | None) -> str:
    """How it rounds: down along what grows, up along what shrinks (onnxruntime, upsamplebase.h)."""
    factors = np.ones(0) if scales is None else scales
    shrinks, grows = np.any(factors < 1), np.any(factors > 1)
    if shrinks and grows:
        raise old.fault("it shrinks one dimension and enlarges another, which round differently")
    return "ceil" if shrinks else "floor"


def _scatter(old: _Old) -> list[Any]:
    old.raw.op = old.raw.proto.op_type = "ScatterElements"
    return [old.raw]


def _softmax(old: _Old) -> list[Any]:
    """Before opset 13 all dimensions from `axis` on are one: flatten, Softmax of the last, reshape."""
    source = old.view.inputs[0]
    axis = int(old.take("axis", 1))
    shape = source.shape if source is not None else None
    if shape is not None:
        axis %= max(len(shape), 1)
        if all(dim == 1 for dim in shape[axis + 1 :]):
            old.give(axis=axis)
            return [old.raw]
    return list(_flattened(old, axis))


def _flattened(old: _Old, axis: int) -> Iterable[Any]:
    model, raw = old.model, old.raw
    source, out = raw.inputs[0], raw.outputs[0]
    dtype = source.dtype
    flat = new_tensor(model.unique(f"{out.name}_flat"), dtype, None)
    soft = new_tensor(model.unique(f"{out.name}_soft"), dtype, None)
    sizes = new_tensor(model.unique(f"{out.name}_shape"), np.dtype(np.int64), None)
    name = raw.name
    yield model.new_node("Shape", [source], [sizes], name=f"{name}_Shape")
    yield model.new_node("Flatten", [source], [flat], {"axis": axis}, name=f"{name}_Flatten")
    raw.inputs = [flat]
    replace_output(raw, 0, soft)
    old.give(axis=-1)
    yield raw
    yield model.new_node("Reshape", [soft, sizes], [out], name=f"{name}_Reshape")


def _scan(old: _Old) -> list[Any]:
    raise old.fault("Scan of opset 8 has another form since opset 9")


def _split_evenly(old: _Old) -> list[Any]:
    if len(old.view.inputs) < 2 or old.view.inputs[1] is None:
        old.give(num_outputs=len(old.raw.outputs))
    return [old.raw]


def _roi_align(old: _Old) -> list[Any]:
    old.give(coordinate_transformation_mode="output_half_pixel")
    return [old.raw]


def _grid_sample(old: _Old) -> list[Any]:
    mode = old.view.attr("mode", "bilinear")
    old.give(mode={"bilinear": "linear", "bicubic": "cubic"}.get(mode, mode))
    return [old.raw]


def _average_pool(old: _Old) -> list[Any]:
    if old.view.attr("ceil_mode", 0):
        raise old.fault("with ceil_mode it divides by another number since opset 19")
    return [old.raw]


def _training(old: _Old) -> list[Any]:
    if len(old.raw.outputs) > 1:
        raise old.fault("it has outputs of training, which are others since opset 14")
    return [old.raw]


def _dft(old: _Old) -> list[Any]:
    raise old.fault("its axis is an input since opset 20")


def _group_normalization(old: _Old) -> list[Any]:
    raise old.fault("its scale is one of each channel since opset 21")


_Change = tuple[int, Callable[[_Old], list[Any]]]

# Operator: the opset that changed it, and how.
_CHANGES: dict[str, _Change] = {
    "Squeeze": (13, _axes),
    "Unsqueeze": (13, _axes),
    "ReduceSum": (13, _axes),
    "Split": (13, _split),
    "Softmax": (13, _softmax),
    "LogSoftmax": (13, _softmax),
    "Hardmax": (13, _softmax),
    "Dropout": (12, _dropout),
    "Clip": (11, _clip),
    "Pad": (11, _pad),
    "Resize": (11, _resize),
    "Scatter": (11, _scatter),
    "Upsample": (10, _resize),
    "Slice": (10, _slice),
    "TopK": (10, _top_k),
    "BatchNormalization": (9, _batch_normalization),
    "Scan": (9, _scan),
}

# The same from opset 13 on.
_LATER: dict[str, _Change] = {
    "BatchNormalization": (14, _training),
    "RoiAlign": (16, _roi_align),
    "Split": (18, _split_evenly),
    **{f"Reduce{kind}": (18, _axes)
       for kind in ("L1", "L2", "LogSum", "LogSumExp", "Max", "Mean", "Min", "Prod", "SumSquare")},
    "AveragePool": (19, _average_pool),
    "DFT": (20, _dft),
    "GridSample": (20, _grid_sample),
    "GroupNormalization": (21, _group_normalization),
}  # fmt: skip


def _copied(proto: onnx.NodeProto) -> onnx.NodeProto:
    copy = onnx.NodeProto()
    copy.CopyFrom(proto)
    return copy
