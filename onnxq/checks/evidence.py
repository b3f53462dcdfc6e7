"""What checks of data look at: a model, its plan or its pairs, and what was measured of its tensors."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from onnxq.base.errors import UserError
from onnxq.calib.stats import TensorStats
from onnxq.checks.limits import GAIN_DB, POOR_DB
from onnxq.compiled.reading import EngineReading
from onnxq.data.warnings import DataWarning
from onnxq.formats import INT8, NumberFormat
from onnxq.graph.model import Model
from onnxq.graph.moves import MOVES
from onnxq.graph.pairs import QDQ, PairIndex, is_qdq
from onnxq.graph.view import Node, Tensor
from onnxq.quant.mse import mse_threshold, sqnr_at
from onnxq.quant.plan import QuantPlan


@dataclass(frozen=True, slots=True)
class Scaled:
    """Tensors under one scale.

    Attributes:
        tensors: their names.
        threshold: the magnitude of the largest code.
        scale: the name of the scale in the file, "" where it is planned.
    """

    tensors: tuple[str, ...]
    threshold: float
    scale: str = ""


@dataclass(frozen=True, slots=True)
class FloatLayer:
    """A layer that is not quantized.

    Attributes:
        node: its name.
        op: its operator.
        macs: its multiply-accumulates.
        share: of those of all layers.
        eligible: whether int8 would make it faster, as far as is known.
        code: a word for why, see `onnxq.base.reason`.
        because: why.
    """

    node: str
    op: str
    macs: int
    share: float
    eligible: bool
    code: str
    because: str


@dataclass(frozen=True, slots=True)
class Evidence:
    """What is known of a model when it is checked.

    Attributes:
        model: the model as `quantize` has it before it places pairs: sanitized, with pairs of its own.
        original: the model as the user gave it, which `reading` is of.
        command: the command line to quantize it with these data, to be added to.
        tensors: what was measured, by tensor.
        samples: on how many samples; 0: nothing was measured.
        count: how many samples the data have; None: not known.
        plan: what `quantize` would do.
        own_pairs: whether the model has Q/DQ pairs: then they are looked at, and not the plan.
        scaled: the quantized tensors, by scale.
        floats: the layers in float, the heaviest first.
        doubts: what is doubtful about the data.
        reading: what became of the original in an engine; None: there is none.
        problem: why the data could not be run through the model; None: they could.
    """

    model: Model
    original: Model
    command: str
    tensors: Mapping[str, TensorStats]
    samples: int
    count: int | None
    plan: QuantPlan
    own_pairs: bool
    scaled: tuple[Scaled, ...]
    floats: tuple[FloatLayer, ...]
    doubts: tuple[DataWarning, ...] = ()
    reading: EngineReading | None = None
    problem: UserError | None = None
    _thresholds: dict[str, float] = field(default_factory=dict)
    _best: dict[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._thresholds.update({name: one.threshold for one in self.scaled for name in one.tensors})

    @property
    def nodes(self) -> tuple[Node, ...]:
        """The nodes of the main graph."""
        return self.model.nodes

    def threshold(self, tensor: str) -> float | None:
        """The magnitude of a tensor's largest code; None where it is not quantized."""
        return self._thresholds.get(tensor)

    def measured(self, tensor: Tensor | None) -> str | None:
        """The measured tensor that a tensor is, moved or rounded at most; None: there is none."""
        while tensor is not None and not tensor.is_constant:
            if self.histogram(tensor.name) is not None:
                return tensor.name
            maker = tensor.producer
            if maker is None or not (is_qdq(maker) or (not maker.domain and maker.op in (*MOVES, "Cast"))):
                return None
            tensor = maker.inputs[0]
        return None

    def histogram(self, tensor: str) -> TensorStats | None:
        """The statistics of a tensor that has values other than zero, and a histogram."""
        stats = self.tensors.get(tensor)
        usable = stats is not None and stats.histogram is not None and len(stats.histogram.counts)
        return stats if usable and np.isfinite(stats.amax) else None  # type: ignore[union-attr]

    def greatest(self, tensor: str) -> int:
        """The greatest number of the format that a tensor is quantized to, or would be."""
        return self.numbers(tensor).greatest

    def numbers(self, tensor: str) -> NumberFormat:
        """The format that a tensor is quantized to, or would be."""
        return self.plan.numbers_of_tensors.get(tensor, self.plan.usual)

    def db(self, tensor: str, threshold: float) -> float:
        """Signal to rounding noise of a measured tensor, dB, under a threshold."""
        histogram = self.tensors[tensor].histogram
        assert histogram is not None
        return sqnr_at(histogram, threshold, self.numbers(tensor))

    def best(self, tensor: str) -> float:
        """The threshold with which a measured tensor has the least noise."""
        if tensor not in self._best:
            stats = self.tensors[tensor]
            assert stats.histogram is not None
            self._best[tensor] = mse_threshold(stats.histogram, stats.amax, self.numbers(tensor))
        return self._best[tensor]

    def loss(self, tensor: str, threshold: float) -> tuple[float, float] | None:
        """What a tensor has under a threshold and under its best, dB; None where it loses little."""
        now = self.db(tensor, threshold)
        if now >= POOR_DB:
            return None
        own = self.db(tensor, self.best(tensor))
        return (now, own) if own - now >= GAIN_DB else None

    @property
    def quantized(self) -> Iterator[tuple[str, float, TensorStats]]:
        """The quantized tensors that were measured: name, threshold, statistics."""
        for scaled in self.scaled:
            for name in scaled.tensors:
                stats = self.histogram(name)
                if stats is not None:
                    yield name, scaled.threshold, stats

    def reader(self, tensor: str) -> tuple[str, str]:
        """The node that makes a tensor, else the first that reads it, and its operator."""
        node = next((n for n in self.nodes for out in n.outputs if out.name == tensor), None)
        if node is None:
            readers = (
                n for n in self.nodes if n.op not in QDQ and any(i and i.name == tensor for i in n.inputs)
            )
            node = next(readers, None)
        return ("", "") if node is None else (node.name, node.op)

    def layers_behind(self, tensor: str) -> list[str]:
        """The products that read a quantized tensor, by name: what `--keep-float` takes."""
        layers = [edge.node for site in self.plan.sites if site.tensor == tensor for edge in site.readers]
        return list(dict.fromkeys(layers))


def own_scales(model: Model) -> tuple[Scaled, ...]:
    """The tensors that a model's own pairs quantize to int8 with one scale each, by scale.

    Scales are the same where they are one constant of the file, or the same number.
    """
    groups: dict[float, list[tuple[str, str]]] = {}
    for pair in PairIndex.of(model).quantizing:
        source, scale, values = pair.source, pair.scale, pair.scales
        if source is None or source.is_constant or scale is None or values is None or values.size != 1:
            continue
        value = values.item()
        if value > 0 and pair.format == INT8:
            groups.setdefault(value, []).append((source.name, scale.name))
    return tuple(
        Scaled(tuple(dict.fromkeys(name for name, _ in members)), value * INT8.greatest, members[0][1])
        for value, members in groups.items()
    )


def planned_scales(plan: QuantPlan, ranges: Mapping[str, float]) -> tuple[Scaled, ...]:
    """The tensors that a plan quantizes, by scale; `ranges`: of the tensors that it measures."""
    scaled = []
    for group in plan.groups:
        thresholds = [ranges[name] for name in group.sources if name in ranges]
        if thresholds and max(thresholds) > 0:
            scaled.append(Scaled(group.tensors, max(thresholds)))
    return tuple(scaled)


def keep_float(evidence: Evidence, nodes: Sequence[str]) -> str:
    """The command that leaves nodes in float; "" where there are none."""
    if not nodes:
        return ""
    return " ".join([evidence.command, *(f"--keep-float {shlex.quote(node)}" for node in nodes[:3])])
