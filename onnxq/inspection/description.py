"""What a model holds, and all about one tensor, its scale and why."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from onnxq.analysis.reports import part_of
from onnxq.base.errors import UserError
from onnxq.base.plain import DocumentPart
from onnxq.base.reason import say
from onnxq.base.shown import Shown, Words, count, model_name, tally
from onnxq.data.layout import deployed_batch
from onnxq.data.samples import specs_of
from onnxq.documents.calibration import CalibrationPart
from onnxq.documents.plan import PlanPart
from onnxq.emit.recorded import report_beside
from onnxq.formats import INT8
from onnxq.graph.layers import WEIGHTED, balance, layer_of
from onnxq.graph.load import ModelSource
from onnxq.graph.model import Model
from onnxq.graph.pairs import QDQ, is_dequantized
from onnxq.graph.past import KeyValueCache, Lengths, caches, lengths
from onnxq.graph.shared import SharedWeight, shared_weights
from onnxq.graph.view import Node, Tensor, every_node
from onnxq.options.flag_words import tells_keywords
from onnxq.options.profile import Profile
from onnxq.options.settings import Batch, Inputs
from onnxq.quant.plan import Edge, ScaleGroup
from onnxq.run.deployments import all_deployed, main_of, stated_deployments

_ROWS = 10
Shapes = Mapping[str, Sequence[int | str]]


@dataclass(frozen=True, slots=True)
class TensorType(DocumentPart):
    """The type of a tensor.

    Attributes:
        name: its name.
        dtype: its type; None where it is not known.
        shape: sizes and symbols; None where they are not known.
    """

    name: str
    dtype: str | None
    shape: tuple[int | str | None, ...] | None


@dataclass(frozen=True, slots=True)
class WeightsSummary(DocumentPart):
    """The weights of a model.

    Attributes:
        count: how many constants.
        bytes: their size.
        dtypes: how many there are of each type.
        external: whether they are in another file.
    """

    count: int
    bytes: int
    dtypes: Mapping[str, int]
    external: bool


@dataclass(frozen=True, slots=True)
class WeightedLayer(DocumentPart):
    """A layer in float with constant weights.

    Attributes:
        node: its name.
        op: its operator.
        macs: multiply-accumulates a sample; None where sizes are not known.
        eligible: whether int8 may gain there.
        because: why it may not; None where it may.
    """

    node: str
    op: str
    macs: int | None
    eligible: bool
    because: str | None


@dataclass(frozen=True, slots=True, repr=False)
class ModelSummary(Shown, DocumentPart):
    """What a model holds.

    Attributes:
        kind: "model".
        schema: 2.
        model: its path, None for one in memory.
        bytes: the size of its file, without external data; of one in memory None.
        opset: the version of ONNX's operators.
        ir_version: of its form.
        producer: what wrote it, "" where it does not say.
        inputs: its inputs.
        outputs: its outputs.
        dynamic: the places of each dynamic dimension, by symbol.
        ops: how many nodes there are of each operator, the most frequent first.
        weights: its weights.
        qdq: how many `QuantizeLinear` and `DequantizeLinear` there are, and `layers` with quantized operands.
        layers: the layers in float with constant weights.
        caches: the inputs that keep keys and values of the tokens seen before, and come back longer.
        lengths: what the dynamic dimensions count, where there are such; else None.
        usual: the shapes of the inputs for which multiply-accumulates are counted, by deployment ("" if
            there is one) and input. Empty if no sizes are stated: then a dynamic batch counts as 1.
        shared: the weights that several layers read.
    """

    kind: str
    schema: int
    model: str | None
    bytes: int | None
    opset: int
    ir_version: int
    producer: str
    inputs: tuple[TensorType, ...]
    outputs: tuple[TensorType, ...]
    dynamic: Mapping[str, Sequence[str]]
    ops: Mapping[str, int]
    weights: WeightsSummary
    qdq: Mapping[str, int]
    layers: tuple[WeightedLayer, ...]
    caches: tuple[KeyValueCache, ...] = ()
    lengths: Lengths | None = None
    usual: Mapping[str, Mapping[str, tuple[int | str | None, ...]]] = field(default_factory=dict)
    shared: tuple[SharedWeight, ...] = ()

    def words(self) -> Words:
        """How large it is, and its largest layers."""
        eligible = [one for one in self.layers if one.eligible]
        facts = [
            f"opset {self.opset}, {count(sum(self.ops.values()), 'node')}",
            f"{count(self.weights.count, 'weight')}, {self.weights.bytes:,} B",
            say("shared-weights", weights=count(len(self.shared), "weight")) if self.shared else "",
            say("model.floats", layers=count(len(self.layers), "float layer"), eligible=len(eligible)),
            f"{count(self.qdq['layers'], 'layer')} quantized" if self.qdq["layers"] else "",
            f"{count(len(self.caches), 'cache')} of keys and values" if self.caches else "",
        ]
        largest = sorted(self.layers, key=lambda one: -(one.macs or 0))[:_ROWS]
        rows = [
            (one.node, one.op, "" if one.macs is None else f"{one.macs:,}", one.because or "eligible")
            for one in largest
        ]
        return Words(model_name(self.model), facts, ("layer", "operator", "MACs", "int8"), rows)


@dataclass(frozen=True, slots=True)
class NodeNamed(DocumentPart):
    """A node.

    Attributes:
        node: its name.
        op: its operator.
    """

    node: str
    op: str


@dataclass(frozen=True, slots=True)
class ConstantFigures(DocumentPart):
    """What a constant holds.

    Attributes:
        min: the least value.
        max: the greatest value.
        mean: the mean.
        zeros: how many are 0.
    """

    min: float
    max: float
    mean: float
    zeros: int


@dataclass(frozen=True, slots=True)
class ScaleOfTensor(DocumentPart):
    """The scale of a tensor, by the report beside the model.

    Attributes:
        scale: the step of its codes; None of weights.
        axis: the channel axis of a scale a channel; None for one scale, or where it has no pair of its own.
        group: the tensors that share it, and why.
        because: why it is quantized; None where it has no pair of its own.
        readers: the edges that read it quantized.
        format: the number format of its codes: "int8", "fp8".
    """

    scale: float | None
    axis: int | None
    group: ScaleGroup
    because: str | None
    readers: tuple[Edge, ...]
    format: str = INT8.name


@dataclass(frozen=True, slots=True)
class TensorSeen(TensorType):
    """A tensor of a model.

    Attributes:
        kind: `constant`, `input`, `output` or `activation`.
        producer: what gives it, or None.
        consumers: what reads it.
        statistics: figures of a constant; None of others.
    """

    kind: str
    producer: NodeNamed | None
    consumers: tuple[NodeNamed, ...]
    statistics: ConstantFigures | None


@dataclass(frozen=True, slots=True, repr=False)
class TensorSummary(Shown, DocumentPart):
    """All about one tensor.

    Attributes:
        kind: "tensor".
        schema: 2.
        model: the path of the model, None for one in memory.
        tensor: the tensor.
        quantization: what the report beside the model says of its scale; None where it says nothing.
    """

    kind: str
    schema: int
    model: str | None
    tensor: TensorSeen
    quantization: ScaleOfTensor | None

    def words(self) -> Words:
        """Its type, who gives and reads it, and its scale."""
        tensor, scale = self.tensor, self.quantization
        shape = "of unknown shape" if tensor.shape is None else list(tensor.shape)
        facts = [
            f"{tensor.kind}, {tensor.dtype} {shape}",
            f"of {tensor.producer.node}" if tensor.producer is not None else "",
            f"read by {count(len(tensor.consumers), 'node')}",
            f"scale {scale.scale}: {scale.because}" if scale is not None else "",
        ]
        return Words(tensor.name, facts)


@tells_keywords
def describe(
    model: ModelSource,
    *,
    shapes: Shapes | None = None,
    profiles: Mapping[str, Profile] | None = None,
    batch: Batch | Mapping[str, Batch] | None = None,
    profile_weights: Mapping[str, float] | None = None,
) -> ModelSummary:
    """What a model holds: inputs, operators, weights, layers; the nodes are what `onnxq.inspect` gives.

    Args:
        model: a path or a ModelProto, which is not modified; its weights may be missing.
        shapes: shapes of inputs, for the sizes that follow.
        profiles: as in `quantize`: layers and their eligibility are those of the usual sizes.
        batch: likewise the batch.
        profile_weights: likewise the shares of several deployments.

    Raises:
        UserError: the model cannot be read; there is no such input, or the sizes do not fit it.
    """
    opened = _opened(model, shapes, stripped=True)
    nodes = [*every_node(opened)]
    usual = _usual(opened, Inputs(profiles=profiles, batch=batch, profile_weights=profile_weights))
    layers = [layer for layer in map(layer_of, nodes) if layer is not None]
    weights = {t.name: t for node in nodes for t in node.inputs if t is not None and t.is_constant}
    source, kept = opened.source, caches(opened)
    return ModelSummary(
        kind="model",
        schema=2,
        model=_path(opened),
        bytes=None if opened.path is None else opened.path.stat().st_size,
        opset=opened.opset,
        ir_version=source.ir_version,
        producer=f"{source.producer_name} {source.producer_version}".strip(),
        inputs=tuple(map(_type, opened.inputs)),
        outputs=tuple(map(_type, opened.outputs)),
        dynamic={
            dim: [
                f"{one.name} axis {axis}"
                for one in opened.inputs
                for axis, other in enumerate(one.shape or ())
                if other == dim
            ]
            for tensor in opened.inputs
            for dim in tensor.shape or ()
            if isinstance(dim, str)
        },
        ops=tally(f"{n.domain}.{n.op}" if n.domain else n.op for n in nodes),
        weights=WeightsSummary(
            count=len(weights),
            bytes=sum(t.nbytes for t in weights.values()),
            dtypes=tally(str(t.dtype) for t in weights.values()),
            external=opened.data_dir is not None,
        ),
        qdq={
            **{op: sum(node.op == op for node in nodes) for op in QDQ},
            "layers": sum(node.op in WEIGHTED and _is_quantized(node) for node in nodes),
        },
        layers=tuple(
            WeightedLayer(
                node=layer.node.name,
                op=layer.node.op,
                macs=layer.macs,
                eligible=layer.ineligible is None,
                because=layer.ineligible,
            )
            for layer in layers
        ),
        caches=kept,
        lengths=lengths(opened, kept),
        usual=usual,
        shared=shared_weights(opened),
    )


def _usual(model: Model, stated: Inputs) -> dict[str, dict[str, tuple[int | str | None, ...]]]:
    """Has the layers be those of the usual sizes; these, by deployment, where any are stated.

    Raises:
        UserError: what is stated does not fit the model.
    """
    if stated == Inputs():
        model.set_typical_input({one.name: _one_sample(one.shape) for one in model.inputs if one.shape})
        return {}
    specs = specs_of(model)
    deployments = all_deployed(
        [(spec.name, spec.shape) for spec in specs],
        stated_deployments([spec.name for spec in specs], stated),
        [],
        batched=deployed_batch(specs, stated=bool(stated.batch)),
    )
    usual: dict[str, dict[str, tuple[int | str | None, ...]]] = {}
    for deployment in deployments:
        named = {*deployment.stated, *deployment.batch}
        usual[deployment.name] = {
            name: tuple(
                size if isinstance(dim, int) or dim in named else dim
                for dim, size in zip(dims, deployment.usual[name], strict=True)
            )
            for name, dims in deployment.names.items()
        }
    main = main_of(deployments)
    model.set_typical_input(
        usual[main.name],
        [(one.name, one.weight, usual[one.name]) for one in deployments if len(deployments) > 1],
    )
    balance(model)
    return usual


@tells_keywords
def describe_tensor(model: ModelSource, name: str, *, shapes: Shapes | None = None) -> TensorSummary:
    """All about one tensor: its type, who gives and reads it, its values, its scale and why.

    Args:
        model: a path or a ModelProto, which is not modified.
        name: the tensor.
        shapes: shapes of inputs, for the sizes that follow.

    Raises:
        UserError: the model cannot be read; there is no such tensor or input.
    """
    opened = _opened(model, shapes, stripped=False)
    tensor = opened.tensor(name, bodies=True)
    maker = tensor.producer
    kind = "constant" if tensor.is_constant else "input" if tensor.is_input else "activation"
    seen = TensorSeen(
        name=name,
        dtype=None if tensor.dtype is None else str(tensor.dtype),
        shape=None if tensor.shape is None else tuple(tensor.shape),
        kind="output" if kind == "activation" and tensor.is_output else kind,
        producer=NodeNamed(maker.name, maker.op) if maker is not None else None,
        consumers=tuple(NodeNamed(user.name, user.op) for user in tensor.users),
        statistics=_statistics(tensor),
    )
    beside = None if opened.path is None else _quantization(name, opened.path)
    return TensorSummary("tensor", 2, _path(opened), seen, beside)


def _opened(source: ModelSource, shapes: Shapes | None, *, stripped: bool) -> Model:
    model = Model.open(source, stripped=stripped)
    for name, dims in (shapes or {}).items():
        model.set_input_shape(name, tuple(dims))
    model.infer_shapes()
    return model


def _path(model: Model) -> str | None:
    return None if model.path is None else os.fspath(model.path)


def _type(tensor: Tensor) -> TensorType:
    return TensorType(tensor.name, None if tensor.dtype is None else str(tensor.dtype), tensor.shape)


def _one_sample(dims: tuple[int | str | None, ...]) -> tuple[int | str | None, ...]:
    """A shape with a dynamic first dimension, the batch, of 1."""
    return (dims[0] if isinstance(dims[0], int) else 1, *dims[1:])


def _is_quantized(node: Node) -> bool:
    """Whether data and weights are what DequantizeLinear gives, moved or cast at most."""
    return all(tensor is not None and is_dequantized(tensor) for tensor in node.operands(2))


def _quantization(name: str, model: Path) -> ScaleOfTensor | None:
    """What the report beside a model says of a tensor's scale; None where it says nothing."""
    try:
        report = report_beside(model)
    except UserError:  # what is asked for is of the model
        return None
    if report is None:
        return None
    plan, scales = part_of(PlanPart, report.plan), part_of(CalibrationPart, report.calibration).scales
    group = next((group for group in plan.groups if name in group.tensors), None)
    if group is None:
        return None
    sites = [site for site in plan.sites if site.tensor == name]
    return ScaleOfTensor(
        scale=scales.get(name),
        axis=sites[0].axis if sites else None,
        group=group,
        because=sites[0].because if sites else None,
        readers=tuple(reader for site in sites for reader in site.readers),
        format=sites[0].format if sites else plan.format.split()[0],
    )


def _statistics(tensor: Tensor) -> ConstantFigures | None:
    values = tensor.constant
    if values is None or values.size == 0 or values.dtype.kind not in "biufV":
        return None
    wide = values.astype(np.float64)
    return ConstantFigures(float(wide.min()), float(wide.max()), float(wide.mean()), int((wide == 0).sum()))
