"""What releases of TensorRT compute wrongly: an entry of `onnxq/targets/miscomputes.toml` a check."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import numpy as np

from onnxq.base.grouped import reached
from onnxq.checks import Check, Fact, Subject, check
from onnxq.checks.each.attention import attentions
from onnxq.graph.moves import REARRANGES
from onnxq.graph.pairs import NOTHING, QDQ, pair_of
from onnxq.graph.view import Node, Tensor
from onnxq.targets import load_target, miscompute_table

MISCOMPILE = "miscompile"
"""The group of the findings."""

Found = Iterator[tuple[Node, str, dict[str, str]]]
"""Nodes that a target computes wrongly, a tensor or "", and what else their text names."""

_ARRANGES = (*REARRANGES, *QDQ, "Split", "Slice", "Gather", "Concat", "Cast", "Expand")


def _miscomputed(name: str) -> Callable[[Callable[[Subject], Found]], Check]:
    """Makes a check of what finds the construct: it looks where the target's releases are in the range."""

    def made(find: Callable[[Subject], Found]) -> Check:
        def found(subject: Subject) -> Iterator[Fact]:
            if name not in load_target(subject.target).miscomputes:
                return
            row = miscompute_table()[name]
            for node, tensor, values in find(subject):
                more = {"tensor": tensor, "seen": row.seen, "thread": row.thread}
                yield Fact(name, (node.name, node.op, tensor), {**values, **more})

        return check(name, needs="file", kind=MISCOMPILE, lacks=name)(found)

    return made


@_miscomputed("cumsum-settings")
def cumsum_settings(subject: Subject) -> Found:
    """CumSums of other axes, or in another direction, than the first one of the model."""
    sums = [node for node in subject.nodes if node.op == "CumSum" and not node.domain]
    known = [(node, setting) for node in sums if (setting := _setting(node)) is not None]
    for node, setting in known[1:]:
        if setting != known[0][1]:
            yield node, "", {"other": known[0][0].name}


def _setting(node: Node) -> tuple[int, bool] | None:
    """The axis of a CumSum and whether it runs backwards; None where its axis, or the rank, is not known."""
    data, axis = node.operands(2)
    if data is None or axis is None or axis.scalar is None or data.shape is None:
        return None
    return int(axis.scalar) % max(len(data.shape), 1), bool(node.attr("reverse"))


@_miscomputed("if-transposed")
def if_transposed(subject: Subject) -> Found:
    """A Resize of dynamic size of what an If gave and a Transpose turned."""
    for node in subject.nodes:
        data = node.inputs[0] if node.op == "Resize" and not node.domain else None
        turned = data.producer if data is not None else None
        if data is None or turned is None or turned.op != "Transpose" or node.attr("mode") == "nearest":
            continue
        source = turned.inputs[0]
        chosen = source.producer if source is not None else None
        if chosen is not None and chosen.op == "If" and _is_dynamic(data):
            yield node, "", {"transpose": turned.name, "branches": chosen.name}


def _is_dynamic(tensor: Tensor) -> bool:
    return tensor.shape is None or not all(isinstance(dim, int) for dim in tensor.shape)


@_miscomputed("deformable-samples")
def deformable_samples(subject: Subject) -> Found:
    """A GridSample of tokens that moves arranged as an image, at places that the model computes."""
    for node in subject.nodes:
        if node.op != "GridSample" or node.attr("mode") == "nearest":
            continue
        image, places = node.operands(2)
        if image is None or places is None or places.is_constant or places.is_input:
            continue
        if "MatMul" in _made_by(image) and any(user.op in _ARRANGES for user in node.outputs[0].users):
            yield node, "", {}


def _made_by(tensor: Tensor) -> set[str]:
    """The operators behind moves, a bias and pairs that make a tensor."""
    return {
        maker.op
        for one in reached([tensor], _moved_from)
        if (maker := one.producer) is not None and maker.op not in _THROUGH
    }


_THROUGH = (*_ARRANGES, "Add")


def _moved_from(tensor: Tensor) -> Iterable[Tensor]:
    maker = tensor.producer
    if maker is None or maker.op not in _THROUGH:
        return ()
    return [one for one in maker.inputs if one is not None and not one.is_constant]


@_miscomputed("reduced-attention")
def reduced_attention(subject: Subject) -> Found:
    """Attention, of a batch that may be over 1, whose keys a convolution makes fewer."""
    for node, query, key in _attention(subject):
        behind = set(reached([query], _tokens_from))
        for one in reached([key], _tokens_from):
            if one not in behind and one.producer is not None and _reduces(one.producer):
                yield node, "", {"conv": one.producer.name}
                break


def _attention(subject: Subject) -> Iterator[tuple[Node, Tensor, Tensor]]:
    """The nodes that multiply queries and keys, with both."""
    products = [one.scores for one in attentions(subject.model)]
    for node in (*products, *(one for one in subject.nodes if one.op == "Attention" and not one.domain)):
        query, key = node.operands(2)
        if query is not None and key is not None:
            yield node, query, key


def _tokens_from(tensor: Tensor) -> Iterable[Tensor]:
    """What tokens are made of, back to a convolution: by moves, products with weights and normalizations."""
    maker = tensor.producer
    if maker is None or maker.op not in _OF_TOKENS:
        return ()
    return [one for one in maker.inputs if one is not None and not one.is_constant]


_OF_TOKENS = (
    *_THROUGH, "MatMul", "Gemm", "Mul", "Div", "Sub", "Sqrt", "Pow", "ReduceMean", "LayerNormalization",
)  # fmt: skip


def _reduces(node: Node) -> bool:
    """Whether a node is a convolution with strides of an image of moves, of a batch that may be over 1."""
    data = node.inputs[0] if node.op == "Conv" and not node.domain else None
    if data is None or data.producer is None or data.producer.op not in _ARRANGES:
        return False
    return max(node.attr("strides") or [1]) > 1 and (not data.shape or data.shape[0] != 1)


# What can stand between a convolution and the Add in one kernel. x * Sigmoid(x) is not among them: it is
# fused otherwise, and networks of it were measured to be right.
_ACTIVATIONS = ("Relu", "LeakyRelu", "Clip", "Tanh", "Elu", "HardSwish", "HardSigmoid", "Gelu", "Sigmoid")
_TANH_PARTS = ("Mul", "Add", "Div", "Tanh")
_MOST_PARTS = 6


@_miscomputed("residual-view")
def residual_views(subject: Subject) -> Found:
    """A float16 convolution, activation and residual Add whose other operand is a part of a later Concat."""
    for node in subject.nodes:
        if node.op != "Add" or node.domain or node.outputs[0].dtype != np.float16:
            continue
        one, other = node.operands(2)
        for view, branch in ((one, other), (other, one)):
            joined = _joined_later(view, node) if view is not None else None
            if joined is not None and branch is not None and _activated_conv(branch, view):
                assert view is not None
                yield node, view.name, {"concat": joined.name}


def _joined_later(tensor: Tensor, add: Node) -> Node | None:
    """The Concat, not along the outermost axis, that reads a tensor beside an Add."""
    if tensor.is_constant or tensor.producer is None:
        return None
    for user in tensor.users:
        if user.op == "Concat" and not user.domain and user != add:
            shape = user.outputs[0].shape
            axis = int(user.attr("axis", 0))
            if shape is None or axis % len(shape) != 0:
                return user
    return None


def _activated_conv(tensor: Tensor, view: Tensor | None) -> bool:
    """Whether a tensor is the activation of a convolution in float16, read by the Add alone."""
    maker = tensor.producer
    if maker is None or maker.domain or len(tensor.users) != 1:
        return False
    if maker.op in _ACTIVATIONS:
        source = maker.inputs[0]
        return source is not None and _float_conv(source.producer)
    return _tanh_silu(tensor)


def _tanh_silu(tensor: Tensor) -> bool:
    """Whether a tensor is made of a convolution by Tanh, Mul and Add, as in x * (tanh(x / 2) + 1) / 2."""
    todo, seen, tanh = [tensor], set[Tensor](), False
    conv = False
    while todo and len(seen) < 2 * _MOST_PARTS:
        operand = todo.pop()
        maker = operand.producer
        if operand in seen or operand.is_constant or maker is None:
            continue
        seen.add(operand)
        if maker.op in _TANH_PARTS and not maker.domain:
            tanh = tanh or maker.op == "Tanh"
            todo += [read for read in maker.inputs if read is not None]
        elif _float_conv(maker):
            conv = True
        else:
            return False
    return tanh and conv


def _float_conv(node: Node | None) -> bool:
    if node is None or node.op != "Conv" or node.domain or node.outputs[0].dtype != np.float16:
        return False
    data = node.inputs[0]
    return data is not None and pair_of(data, NOTHING) is None
