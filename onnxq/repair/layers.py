"""The layers that fits look at: what is multiplied there, and what of it can be changed."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from onnxq.base.reason import reason
from onnxq.graph.layers import WEIGHTED, Layer, layer_of
from onnxq.graph.model import Model
from onnxq.graph.view import Node, Tensor
from onnxq.quant.plan import QuantPlan, Site
from onnxq.repair.windows import Windows


@dataclass(frozen=True, slots=True)
class FitLayer:
    """A Conv, Gemm or MatMul with constant weights.

    Attributes:
        node: its name.
        op: its operator.
        weight: the name of its weights.
        shape: of the weights.
        output: the tensor that its sums are, with the constant of an Add behind a MatMul.
        groups: of a convolution, else 1.
        outputs: output channels.
        terms: products that are summed for one output.
        site: where its weights are quantized.
        windows: of a convolution.
        turned: whether weights are [terms, outputs].
        data_turned: whether the input is [terms, rows].
        alpha: what products are scaled with.
        beta: what the bias is scaled with.
        bias: the name of the constant that is its bias; "" where it has none.
        addend: whether that one is of an Add behind it.
        no_bias: why its bias cannot be another one; "": it can.
        no_codes: why its codes cannot be others, where it has some; "": they can.
    """

    node: str
    op: str
    weight: str
    shape: tuple[int, ...]
    output: str
    groups: int
    outputs: int
    terms: int
    site: Site
    windows: Windows | None = None
    turned: bool = False
    data_turned: bool = False
    alpha: float = 1.0
    beta: float = 1.0
    bias: str = ""
    addend: bool = False
    no_bias: str = ""
    no_codes: str = ""

    @property
    def axis(self) -> int:
        """The channel axis of its output."""
        return 1 if self.op == "Conv" else -1

    def by_group(self, weights: np.ndarray) -> np.ndarray:
        """Weights, or their codes, as [groups, outputs of one, terms]."""
        flat = weights.T if self.turned else weights
        return flat.reshape(self.groups, self.outputs // self.groups, self.terms)

    def from_groups(self, weights: np.ndarray) -> np.ndarray:
        """The other way."""
        flat = weights.reshape(self.outputs, self.terms)
        return np.ascontiguousarray(flat.T if self.turned else flat.reshape(self.shape))

    def places(self, shape: tuple[int, ...]) -> int:
        """How many positions the output has for an input of this shape; each is of all images of a batch."""
        if self.windows is not None:
            return math.prod(self.windows.positions(shape[2:]))
        return int(shape[-1] if self.data_turned else math.prod(shape[:-1]))

    def rows(self, values: np.ndarray, at: np.ndarray) -> np.ndarray:
        """What is multiplied at some positions.

        Args:
            values: its input, or the codes of it.
            at: flat indices of positions, int64.

        Returns:
            [rows, groups, terms], the rows of one image together.
        """
        if self.windows is not None:
            taken = self.windows.taken(values, at)
        elif self.data_turned:
            taken = np.ascontiguousarray(values[:, at].T)
        else:
            taken = values.reshape(-1, values.shape[-1])[at]
        return taken.reshape(-1, self.groups, self.terms)


def fit_layers(model: Model, plan: QuantPlan) -> tuple[dict[str, FitLayer], dict[str, str]]:
    """The layers whose constant weights are quantized, and why others that are cannot be looked at.

    Args:
        model: a float model.
        plan: its plan, or that of the model of which it is an edit.

    Returns:
        By the name of the node, in order, each.
    """
    sites: dict[tuple[str, int], Site] = {}
    for site in plan.sites:
        if site.kind == "weight":
            sites.update(((edge.node, edge.input), site) for edge in site.readers)
    count = {site.tensor: 0 for site in sites.values()}
    for site in {id(site): site for site in sites.values()}.values():
        count[site.tensor] += len(site.readers)
    fits: dict[str, FitLayer] = {}
    skipped: dict[str, str] = {}
    for node in model.nodes:
        if node.op not in WEIGHTED or node.domain:
            continue
        layer = layer_of(node)
        why = _unknown(layer, node)
        if layer is not None and not why:
            quantized = sites.get((node.name, layer.index))
            if quantized is None:
                continue
            fit = _fit_layer(layer, quantized, count)
            if fit is not None:
                fits[node.name] = fit
                continue
            why = reason("other-axis.weights")
        if node.name in plan.readers:
            skipped[node.name] = why
    main = {node.name for node in model.nodes}
    for name in plan.planned:
        if name not in main:
            skipped[name] = reason("inner")
    return fits, skipped


def _unknown(layer: Layer | None, node: Node) -> str:
    """Why nothing is fitted to a layer."""
    if layer is None:
        own = layer_of(node, quantized=True) is not None
        return reason("own-pair.weights") if own else reason("two-activations")
    if node.op == "ConvTranspose":
        return reason("conv-transpose")
    if node.op == "MatMul" and layer.index == 0:
        return reason("left-weights")
    if node.op == "MatMul" and len(layer.weight.shape or ()) != 2:
        return reason("several-matrices.batch")
    if not layer.terms or not layer.outputs:
        return reason("no-weights")
    return ""


def _fit_layer(layer: Layer, site: Site, count: Mapping[str, int]) -> FitLayer | None:
    node = layer.node
    if site.axis not in (None, layer.axis):
        return None
    shape = tuple(int(dim or 0) for dim in layer.weight.shape or ())
    bias, addend, output, no_bias = _bias(layer)
    no_codes = reason("weights-of-several") if count[site.tensor] > 1 else ""
    return FitLayer(
        node=node.name,
        op=node.op,
        weight=layer.weight.name,
        shape=shape,
        output=output,
        groups=layer.groups,
        outputs=layer.outputs,
        terms=layer.terms,
        site=site,
        windows=Windows.of(node, shape[2:]) if node.op == "Conv" else None,
        turned=layer.axis == 1,
        data_turned=node.op == "Gemm" and bool(node.attr("transA", 0)),
        alpha=float(node.attr("alpha", 1.0)) if node.op == "Gemm" else 1.0,
        beta=float(node.attr("beta", 1.0)) if node.op == "Gemm" else 1.0,
        bias=bias,
        addend=addend,
        no_bias=no_bias,
        no_codes=no_codes,
    )


def _bias(layer: Layer) -> tuple[str, bool, str, str]:
    """The constant that is a layer's bias, whether of an Add, what its sums are, why it has to stay."""
    node = layer.node
    output = node.outputs[0].name
    if node.op == "MatMul":
        add = _addition(node)
        if add is None:
            return "", False, output, reason("no-bias")
        constant = next(t for t in add.inputs if t is not None and t.is_constant)
        why = ""
        if len(constant.users) > 1 or constant.is_output:
            why = reason("bias-of-several")
        elif not _by_channel(constant, layer.outputs):
            why = reason("bias-shape.own")
        return constant.name, True, add.outputs[0].name, why
    bias = node.operands(3)[2]
    if node.op == "Gemm" and bias is not None and node.attr("beta", 1.0) == 0:
        return bias.name, False, output, reason("no-beta")
    if bias is None:
        return "", False, output, ""
    if not bias.is_constant:
        return bias.name, False, output, reason("bias-is-computed")
    why = "" if _by_channel(bias, layer.outputs) else reason("bias-shape.own")
    return bias.name, False, output, why


def _by_channel(constant: Tensor, channels: int) -> bool:
    shape = constant.shape or ()
    return bool(shape) and shape[-1] == channels and math.prod(int(d or 0) for d in shape) == channels


def _addition(node: Node) -> Node | None:
    """The Add of a constant behind a MatMul, where nobody else reads the product."""
    product = node.outputs[0]
    if product.is_output or len(product.users) != 1:
        return None
    user = product.users[0]
    if user.op != "Add" or user.domain or user.is_inner:
        return None
    others = [t for t in user.inputs if t is not None and t != product]
    return user if len(others) == 1 and others[0].is_constant else None
