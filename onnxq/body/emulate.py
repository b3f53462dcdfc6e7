"""What a body in half precision computes at worst: every node rounded to its type, beyond it infinity.

Inside a node sums are float32. Kernels that are fused round less, so that a figure from here is a pessimistic
one. int8 nodes are computed as they are. (onnxruntime by itself does not round between two float16 nodes.)
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto

from onnxq.base.grouped import fitting
from onnxq.graph.half import HALF
from onnxq.graph.logits import Logits, logits_of
from onnxq.graph.source import copy_model
from onnxq.judge.sqnr import Energy
from onnxq.run import ort

BUDGET = 1 << 28
"""Bytes of tensors that are compared in one run."""


class LogitsName(str):
    """What the Softmax of an output reads, whatever that is called in a model; as it is said.

    Attributes:
        output: the output.
    """

    output: str

    def __new__(cls, output: str) -> LogitsName:
        """Of an output."""
        self = super().__new__(cls, f"the logits of {output!r}")
        self.output = output
        return self


def with_logits(model: onnx.ModelProto, outputs: Iterable[str]) -> list[str]:
    """Outputs of a float32 model by their names, and what the Softmax of some of them reads."""
    names, scores = list(outputs), logits_of(model, casts=True)
    return [*names, *(LogitsName(name) for name in names if name in scores)]


def output_of(name: str) -> str:
    """The output that a name of `with_logits` is of."""
    return name.output if isinstance(name, LogitsName) else name


class Emulated:
    """Runs a model of half precision so, bfloat16 as well: fed float32, it gives float32.

    Attributes:
        inputs: names of the inputs.
        outputs: names of the outputs.
    """

    def __init__(
        self, model: onnx.ModelProto, *, threads: int = 0, data_dir: Path | None = None, part: bool = False
    ) -> None:
        """Loads it; `part`: whether it is one of many that run in turns, see `onnxq.run.ort.load`.

        Raises:
            RunError: onnxruntime does not take the model.
        """
        model, self._fed = _fed(model)
        halves = [o.name for o in model.graph.output if o.type.tensor_type.elem_type in HALF]
        self._given = {name: f"{name}:compared" for name in halves}
        self._session = ort.load(
            model, optimize=False, threads=threads, data_dir=data_dir, probes=_probes(halves), part=part
        )
        names = {fed: name for name, fed in self._fed.items()}
        self.inputs = tuple(names.get(name, name) for name in self._session.inputs)
        self.outputs = tuple(info.name for info in model.graph.output)

    def run(self, feeds: Mapping[str, np.ndarray], outputs: Sequence[str] | None = None) -> list[Any]:
        """The outputs wanted, or all; see `onnxq.run.ort.Session.run`."""
        values = _as_fed(feeds, self._fed)
        return self._session.run(values, [self._given.get(name, name) for name in outputs or self.outputs])


def losses(
    reference: onnx.ModelProto,
    body: onnx.ModelProto,
    tensors: Mapping[str, int],
    samples: Sequence[Mapping[str, np.ndarray]],
    *,
    data_dir: Path | None = None,
) -> dict[str, Energy]:
    """How far each of some tensors is from float32.

    Args:
        reference: the float32 model.
        body: the model in half precision, of the same inputs but for their type.
        tensors: float tensors that both main graphs have, or logits, and about how many bytes each takes.
        samples: feeds of the float32 model.
        data_dir: the folder of external data.

    Raises:
        RunError: a model does not run.
    """
    energies = {name: Energy() for name in tensors}
    for group in fitting(tensors.items(), BUDGET):
        exact, rounded = (Tapped(model, group, data_dir) for model in (reference, body))
        for feeds in samples:
            for name, want, got in zip(group, exact.run(feeds), rounded.run(feeds), strict=True):
                energies[name].add(want, got)
    return energies


class Tapped:
    """A session that gives some float tensors of a model as float32, which is exact.

    Logits are about their mean: what the Softmax reads in this model, behind a Cast as well.
    """

    def __init__(
        self, model: onnx.ModelProto, names: Sequence[str], data_dir: Path | None = None, *,
        optimize: bool = False,
    ) -> None:  # fmt: skip
        asked = any(isinstance(name, LogitsName) for name in names)
        scores = logits_of(model, casts=True) if asked else {}
        self._logits: list[Logits | None] = [
            scores[name.output] if isinstance(name, LogitsName) else None for name in names
        ]
        taken = [name if one is None else one.tensor for name, one in zip(names, self._logits, strict=True)]
        probes = _probes(dict.fromkeys(taken))
        self._outputs = [f"{name}:compared" for name in taken]
        model, self._fed = _fed(model)
        self._session = ort.load(model, optimize=optimize, data_dir=data_dir, probes=probes)

    def run(self, feeds: Mapping[str, np.ndarray]) -> list[np.ndarray]:
        """The tensors, for feeds of the float32 model."""
        if not self._outputs:
            return []
        values = self._session.run(_as_fed(feeds, self._fed), self._outputs)
        return [
            given if one is None else one.about_mean(given)
            for given, one in zip(values, self._logits, strict=True)
        ]


def _as_fed(feeds: Mapping[str, np.ndarray], fed: Mapping[str, str]) -> dict[str, np.ndarray]:
    return {fed.get(name, name): v.astype(np.float32) if name in fed else v for name, v in feeds.items()}


def _fed(model: onnx.ModelProto) -> tuple[onnx.ModelProto, dict[str, str]]:
    """A copy that is fed float32 for its inputs of half precision, and what they are called then.

    onnxruntime takes no arrays of bfloat16.
    """
    if not any(info.type.tensor_type.elem_type in HALF for info in model.graph.input):
        return model, {}
    result = copy_model(model)
    names: dict[str, str] = {}
    nodes = []
    for info in result.graph.input:
        kind = info.type.tensor_type.elem_type
        if kind in HALF:
            names[info.name] = f"{info.name}:fed"
            nodes.append(onnx.helper.make_node("Cast", [names[info.name]], [info.name], to=kind))
            info.name = names[info.name]
            info.type.tensor_type.elem_type = TensorProto.FLOAT
    nodes.extend(result.graph.node)
    rest = onnx.GraphProto(node=nodes)
    del result.graph.node[:]
    result.graph.node.extend(rest.node)
    return result, names


def _probes(names: Iterable[str]) -> onnx.GraphProto:
    """Gives tensors out as float32, which is exact, and which onnxruntime hands out of bfloat16 too."""
    probes = onnx.GraphProto()
    for name in names:
        out = f"{name}:compared"
        probes.node.append(onnx.helper.make_node("Cast", [name], [out], to=TensorProto.FLOAT))
        probes.output.add(name=out)
    return probes
