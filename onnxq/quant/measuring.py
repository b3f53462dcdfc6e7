"""A measuring copy: one model in which any pair's scale and any layer's quantization is set by a run."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx.numpy_helper import to_array

from onnxq.base.errors import UserError, unknown_name
from onnxq.graph.model import Model
from onnxq.graph.spool import LARGE, weight_bytes
from onnxq.graph.types import is_float, value_info
from onnxq.quant.fits import Fit, fits_of
from onnxq.quant.insert import Inserted, float_reads, insert
from onnxq.quant.patches import NONE, Patches
from onnxq.quant.plan import QuantPlan
from onnxq.quant.wants import Wants
from onnxq.run.in_parts import Found, InParts
from onnxq.run.piecewise import Edge, Recipe, Setting, Tie

_WIDE, _HALF = np.dtype(np.float32), np.dtype(np.float16)


@dataclass(frozen=True, slots=True)
class Candidate:
    """What differs from the plan.

    Attributes:
        float_layers: names of nodes that read float; so do those that cannot stay quantized without them.
        float_sites: names of tensors whose pairs nobody reads.
        scales: the scale of groups of activations; those of the plan's other groups stay.
        float_edges: inputs of nodes, by name, that read float; the others of their nodes do not change.
    """

    float_layers: Collection[str] = ()
    float_sites: Collection[str] = ()
    scales: Mapping[int, np.float32] = field(default_factory=dict)
    float_edges: Collection[Edge] = ()


class MeasuringCopy:
    """Runs candidates of one plan.

    A candidate computes what the file computes that has its layers in float and its scales: bit for bit
    where onnxruntime does not optimize, else but for float rounding. In memory are one sample's activations,
    and of each layer the weights that candidates asked for: those in float, and those of int8, which are
    dequantized once where onnxruntime optimizes.

    Attributes:
        inputs: names of the inputs.
        outputs: names of the outputs.
        recipe: what makes it in another process.
        piecewise: the copy itself, by edges.
    """

    def __init__(
        self,
        inserted: Inserted,
        plan: QuantPlan,
        quantized: onnx.ModelProto,
        floats: onnx.ModelProto,
        *,
        data_dir: Path | None = None,
        in_float32: bool = False,
        optimize: bool = True,
        pieces: int | None = None,
        fits: Sequence[Fit] = (),
    ) -> None:
        """Prepares the copy; sessions are made when candidates ask for them.

        Args:
            inserted: the model with the pairs of the plan.
            plan: the plan.
            quantized: the same model, as onnxruntime runs it: a part of it, perhaps, or in float32.
            floats: likewise the model without pairs.
            data_dir: the folder of external data.
            in_float32: whether double and bfloat16 are run as float32.
            optimize: whether onnxruntime may rewrite the graph.
            pieces: as in `onnxq.run.piecewise.PiecewiseModel`: for candidates that differ in scales alone.
            fits: the fitted biases of the model with pairs, which a layer has while its weights are int8.
        """
        self._plan = plan
        held = {tensor.name for tensor in quantized.graph.initializer}
        self._names = {group: name for group, name in inserted.scales.items() if name in held}
        self._edges: dict[Edge, str] = {
            (edge.node, edge.input): pair.tensor for pair in plan.pairs for edge in pair.readers
        }
        nodes = {node.name for node in quantized.graph.node}
        edges = {edge: read for edge, read in float_reads(plan, floats).items() if edge[0] in nodes}
        ties, constants = _ties(fits, plan, quantized, floats)
        self.recipe = Recipe(
            quantized,
            floats,
            edges,
            tuple(self._names.values()),
            _types(inserted.model, widened=in_float32),
            data_dir=data_dir,
            optimize=optimize,
            pieces=pieces,
            ties=ties,
            constants=constants,
        )
        self.piecewise = self.recipe.made()
        self.inputs, self.outputs = self.piecewise.inputs, self.piecewise.outputs

    @cached_property
    def _wants(self) -> Wants:
        return Wants(self._plan)

    @classmethod
    def of(
        cls,
        model: Model,
        plan: QuantPlan,
        scales: Mapping[int, np.float32],
        patches: Patches = NONE,
        *,
        optimize: bool = True,
    ) -> MeasuringCopy:
        """The copy of a float model that onnxruntime runs as it is."""
        inserted = insert(model, plan, scales, patches)
        quantized, floats = inserted.model.to_proto(handover=True), model.to_proto()
        return cls(
            inserted, plan, quantized, floats, data_dir=model.data_dir, optimize=optimize,
            fits=fits_of(patches, model),
        )  # fmt: skip

    def run_each(
        self,
        feeds: Mapping[str, np.ndarray],
        settings: Sequence[Candidate],
        outputs: Sequence[str] | None = None,
    ) -> list[list[Any]]:
        """Runs all candidates on a sample.

        Args:
            feeds: an array for each input.
            settings: the candidates.
            outputs: the outputs wanted, all by default.

        Returns:
            The outputs, in order, for each candidate.

        Raises:
            UserError: the plan has no such layer, site or group.
            RunError: the model does not run.
        """
        return self.piecewise.run_each(feeds, [self._setting(one) for one in settings], outputs)

    @property
    def is_large(self) -> bool:
        """Whether its weights in float are so many that they are not in memory together."""
        return weight_bytes(self.recipe.floats) >= LARGE

    def run_all(
        self,
        samples: Iterable[Mapping[str, np.ndarray]],
        settings: Sequence[Candidate],
        outputs: Sequence[str] | None = None,
    ) -> Iterator[Found]:
        """Runs candidates that differ in scales alone on samples, part by part, see `onnxq.run.in_parts`.

        Yields:
            What each candidate gives, or why not: all of the first sample, then all of the next one.
        """
        scales = [self._setting(one).scales for one in settings]
        own = {
            t.name: to_array(t) for t in self.recipe.model.graph.initializer if t.name in self.recipe.scales
        }
        fed = ({**own, **one, **feeds} for feeds in samples for one in scales)
        return self._in_parts.run_all(fed, outputs)

    @cached_property
    def _in_parts(self) -> InParts:
        made = self.recipe
        return InParts(made.model, made.data_dir, onnx.GraphProto(), fed=made.scales, dequantizes=True)

    def _setting(self, candidate: Candidate) -> Setting:
        nodes = {edge[0] for edge in self._edges}
        for name in candidate.float_layers:
            if name not in nodes and name not in {layer.node for layer in self._plan.layers}:
                raise unknown_name("layer", name, sorted(nodes))
        tensors = set(self._edges.values())
        for name in candidate.float_sites:
            if name not in tensors:
                raise unknown_name("quantized tensor", name, sorted(tensors))
        groups = {site.group for site in self._plan.sites if site.kind == "activation"}
        for group in candidate.scales:
            if group not in groups:
                raise UserError(
                    f"the plan has no group {group} of activations", hint=f"it has {sorted(groups)}"
                )
        sites = set(candidate.float_sites)
        for edge in candidate.float_edges:
            if edge not in self._edges:
                raise UserError(f"input {edge[1]} of {edge[0]!r} is not quantized")
        edges = set(candidate.float_edges)
        kept = {(edge.node, edge.input) for edge in self._wants.kept(candidate.float_layers)}
        off = frozenset(
            e for e, tensor in self._edges.items() if e not in kept or tensor in sites or e in edges
        )
        scales = {
            self._names[group]: np.asarray(scale, np.float32)
            for group, scale in candidate.scales.items()
            if group in self._names
        }
        return Setting(off, scales)


def _ties(
    fits: Sequence[Fit], plan: QuantPlan, quantized: onnx.ModelProto, floats: onnx.ModelProto
) -> tuple[dict[Edge, Tie], list[onnx.TensorProto]]:
    """What goes off with the weights of layers, and the constants that are read instead of fitted ones.

    The fit of a layer whose weights no pair is of goes off where everything does.
    """
    weights: dict[str, set[Edge]] = {}
    for site in plan.sites:
        for edge in site.readers if site.kind == "weight" else ():
            weights.setdefault(edge.node, set()).add((edge.node, edge.input))
    every = frozenset((edge.node, edge.input) for pair in plan.pairs for edge in pair.readers)
    held = {tensor.name: tensor for tensor in floats.graph.initializer}
    taken = {tensor.name for tensor in quantized.graph.initializer} | held.keys()
    nodes = {node.name for node in quantized.graph.node}
    ties: dict[Edge, Tie] = {}
    constants = []
    for fit in fits:
        if fit.node not in nodes:
            continue
        reads = fit.before
        if reads and fit.node != fit.layer:  # the fitted values have the name of the others
            own = onnx.TensorProto()
            own.CopyFrom(held[reads])
            own.name = next(name for i in range(len(taken) + 1) if (name := f"{reads}_float{i}") not in taken)
            taken.add(own.name)
            constants.append(own)
            reads = own.name
        ties[fit.node, fit.input] = Tie(reads, frozenset(weights.get(fit.layer, ())) or every)
    return ties, constants


def _types(model: Model, *, widened: bool) -> dict[str, onnx.TypeProto]:
    """The types of tensors, with as many dimensions as inference finds; of what may be a shape, how long.

    Args:
        model: the model.
        widened: whether double and bfloat16 are run as float32.
    """
    types = {}
    for name, tensor in model.tensors().items():
        if tensor.dtype is not None:
            shape = tensor.shape
            dtype = _WIDE if widened and is_float(tensor.dtype) and tensor.dtype != _HALF else tensor.dtype
            vector = shape is not None and len(shape) == 1 and np.issubdtype(dtype, np.integer)
            said = shape if vector or shape is None else (None,) * len(shape)
            types[name] = value_info(name, dtype, said).type
    return types
