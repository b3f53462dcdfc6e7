"""Scores a quantized file, whoever wrote it, on samples that no tool saw: noise and signal of each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from benchmarks.corpus_score import compile_for, int8_share, name_nodes
from benchmarks.repair.nets import Feeds, Net, Split
from onnxq.run import ort

Values = list[np.ndarray]

_SAME_VALUES = (
    "Cast", "DequantizeLinear", "Flatten", "Identity", "QuantizeLinear", "Reshape", "Squeeze", "Transpose",
    "Unsqueeze",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Judge:
    """What the float model says of the samples that judge.

    Attributes:
        net: the net.
        split: its samples.
        values: the outputs, or the logits, float64, of each sample, then the logits where there are any.
        kept: the places of those that are judged: outputs that do not vary are not.
        logits: whether there are any.
    """

    net: Net
    split: Split
    values: Sequence[Values]
    kept: Sequence[int]
    logits: bool

    @staticmethod
    def of(net: Net, split: Split, model: Path) -> Judge:
        """The judge by a float model."""
        values = _values(net, model, split.judging)
        proto = onnx.load(model)
        judged = 1 if net.logits else len(proto.graph.output)
        kept = [place for place in range(judged) if _varies([one[place] for one in values])]
        return Judge(net, split, values, kept, in_front_of_softmax(proto) is not None)

    def scored(self, model: Path) -> dict[str, Any]:
        """What it says of a file.

        Returns:
            noise, signal: the power of the error, and of what varies about the mean over samples, of each
            sample and output; logits: their power, and the error's; agree, right, float_right: of each
            sample. What there is no such thing of is not there.
        """
        values = _values(self.net, model, self.split.judging)
        if [one.shape for one in values[0]] != [one.shape for one in self.values[0]]:
            raise ValueError("its outputs have other shapes")
        noise, signal = [], []
        for place in self.kept:
            exact = [one[place] for one in self.values]
            mean = np.mean(exact, axis=0)
            signal.append([_power(one - mean) for one in exact])
            pairs = zip(values, exact, strict=True)
            noise.append([_power(given[place] - one) for given, one in pairs])
        found: dict[str, Any] = {
            "noise": np.transpose(noise).tolist(),
            "signal": np.transpose(signal).tolist(),
        }
        if self.logits:
            pairs = zip(values, self.values, strict=True)
            found["logits"] = [[_power(one[-1] - exact[-1]), _power(exact[-1])] for one, exact in pairs]
        if self.net.classes:
            says, said = (np.array([one[0].argmax() for one in each]) for each in (values, self.values))
            found["agree"] = (says == said).astype(int).tolist()
            if self.split.labels is not None:
                found["right"] = (says == self.split.labels).astype(int).tolist()
                found["float_right"] = (said == self.split.labels).astype(int).tolist()
        return found


def engine_of(original: Path, quantized: Path, feeds: Feeds) -> dict[str, Any]:
    """What NVIDIA's compiler makes of a file: the int8 share of the eligible multiply-accumulates, layers."""
    model = onnx.load(quantized)
    name_nodes(model.graph)
    engine = compile_for(model, feeds)
    if not engine.layers:
        return {"engine": engine.status, "why": (engine.reason or "").splitlines()[:1]}
    return {
        "engine": engine.status,
        "int8": int8_share(original, model, engine, feeds),
        "layers": len(engine.layers),
        "int8_layers": sum(layer.multiplies("int8") for layer in engine.layers),
    }


def _varies(values: Values) -> bool:
    stacked = np.stack(values) if len({one.shape for one in values}) == 1 else None
    return stacked is not None and bool(np.ptp(stacked, axis=0).max(initial=0) > 1e-6 * np.abs(stacked).max())


def _power(values: np.ndarray) -> float:
    return float(np.square(values).sum())


def _values(net: Net, path: Path, samples: Sequence[Feeds]) -> list[Values]:
    model = onnx.load(path)
    outputs, logits = [info.name for info in model.graph.output], in_front_of_softmax(model)
    wanted = [*(() if net.logits else outputs), *(() if logits is None else (logits,))]
    model.graph.output.extend(onnx.ValueInfoProto(name=name) for name in wanted if name not in outputs)
    session = ort.load(model)
    found = []
    for feeds in samples:
        given = {name: feeds[name] for name in session.inputs}
        values = [np.asarray(value, np.float64) for value in session.run(given, wanted)]
        if logits is not None:  # a tool may flatten what its Softmax reads
            values[-1] = values[-1].ravel()
        found.append(values)
    return found


def in_front_of_softmax(model: onnx.ModelProto) -> str | None:
    """What the Softmax reads whose values are those of the first output; None where there is no such."""
    made_by = {name: node for node in model.graph.node for name in node.output}
    name = model.graph.output[0].name
    while name in made_by and made_by[name].op_type in _SAME_VALUES:
        name = made_by[name].input[0]
    found = made_by.get(name)
    return str(found.input[0]) if found is not None and found.op_type == "Softmax" else None
