"""Scores a quantized file, whoever wrote it, on samples that no tool saw: noise and signal of each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from benchmarks.corpus_score import compile_for, int8_share, name_nodes
from benchmarks.repair import answers
from benchmarks.repair.nets import Feeds, Net, Split
from onnxq.graph.model import Model
from onnxq.judge.output_parts import OutputParts
from onnxq.run import ort
from onnxq.run.finding_parts import find_parts

_SAME_VALUES = (
    "Cast", "DequantizeLinear", "Flatten", "Identity", "QuantizeLinear", "Reshape", "Squeeze", "Transpose",
    "Unsqueeze",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Values:
    """What a model gives for a sample.

    Attributes:
        outputs: its outputs, float64, by name.
        logits: what its Softmax reads, flat, as a tool may flatten it; None where there is none.
    """

    outputs: dict[str, np.ndarray]
    logits: np.ndarray | None


@dataclass(frozen=True, slots=True)
class Judge:
    """What the float model says of the samples that judge.

    Attributes:
        net: the net.
        split: its samples.
        values: what it gives for each of them.
        parts: the parts of the outputs by which they are judged, as onnxq finds them.
        kept: the places of those that are judged: what does not vary is not.
    """

    net: Net
    split: Split
    values: Sequence[Values]
    parts: OutputParts
    kept: Sequence[int]

    @staticmethod
    def of(net: Net, split: Split, model: Path) -> Judge:
        """The judge by a float model."""
        values = _values(model, split.judging)
        parts = find_parts(Model.open(model), ort.load(model), split.fitting)
        each = [parts.split([*one.outputs.values()]) for one in values]
        kept = [place for place in range(len(parts.parts)) if _varies([one[place] for one in each])]
        return Judge(net, split, values, parts, kept)

    def scored(self, model: Path) -> dict[str, Any]:
        """What it says of a file.

        Returns:
            parts: their names; noise, signal: the power of the error, and of what varies about the mean over
            samples, of each sample and part; logits: the error's power, their own, and what varies of it;
            agree, right, float_right: of each sample; anchors: how many the float model has over the
            threshold, how many of these the file has, and in all, of each sample. What there is no such
            thing of is not there.
        """
        values = _values(model, self.split.judging)
        if _shapes(values[0]) != _shapes(self.values[0]):
            raise ValueError("its outputs have other shapes")
        exact, given = ([self.parts.split([*one.outputs.values()]) for one in each]
                        for each in (self.values, values))  # fmt: skip
        powers = [
            _powers([one[place] for one in exact], [one[place] for one in given]) for place in self.kept
        ]
        row: dict[str, Any] = {"parts": [self.parts.names[place] for place in self.kept]}
        row |= {key: np.transpose([each[key] for each in powers]).tolist() for key in ("noise", "signal")}
        if self.values[0].logits is not None:
            whole = [np.asarray(one.logits) for one in self.values]
            found = _powers(whole, [np.asarray(one.logits) for one in values])
            row["logits"] = np.transpose(
                [found["noise"], [_power(one) for one in whole], found["signal"]]
            ).tolist()
        return row | self._answers(values)

    def _answers(self, values: Sequence[Values]) -> dict[str, Any]:
        row: dict[str, Any] = {}
        scores = answers.scores_of(self.net.name)
        if scores is not None:
            pairs = zip(self.values, values, strict=True)
            row["anchors"] = [answers.kept(scores(a.outputs), scores(b.outputs)) for a, b in pairs]
        if self.net.classes:
            says, said = (
                np.array([next(iter(one.outputs.values())).argmax() for one in each])
                for each in (values, self.values)
            )
            row["agree"] = (says == said).astype(int).tolist()
            if self.split.labels is not None:
                row["right"] = (says == self.split.labels).astype(int).tolist()
                row["float_right"] = (said == self.split.labels).astype(int).tolist()
        return row


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


def _varies(values: Sequence[np.ndarray]) -> bool:
    stacked = np.stack(values) if len({one.shape for one in values}) == 1 else None
    return stacked is not None and bool(np.ptp(stacked, axis=0).max(initial=0) > 1e-6 * np.abs(stacked).max())


def _powers(exact: Sequence[np.ndarray], given: Sequence[np.ndarray]) -> dict[str, list[float]]:
    """The power of the error, and of what varies about the mean over samples, of each sample."""
    mean = np.mean(exact, axis=0)
    noise = [_power(one - other) for one, other in zip(given, exact, strict=True)]
    return {"noise": noise, "signal": [_power(one - mean) for one in exact]}


def _power(values: np.ndarray) -> float:
    return float(np.square(values).sum())


def _shapes(values: Values) -> list[tuple[int, ...]]:
    return [one.shape for one in values.outputs.values()]


def _values(path: Path, samples: Sequence[Feeds]) -> list[Values]:
    model = onnx.load(path)
    outputs, logits = [info.name for info in model.graph.output], in_front_of_softmax(model)
    if logits is not None and logits not in outputs:
        model.graph.output.append(onnx.ValueInfoProto(name=logits))
    session = ort.load(model)
    wanted = [*outputs, *(() if logits is None else (logits,))]
    results = []
    for feeds in samples:
        given = {name: feeds[name] for name in session.inputs}
        values = [np.asarray(value, np.float64) for value in session.run(given, wanted)]
        named = dict(zip(outputs, values, strict=False))
        results.append(Values(named, None if logits is None else values[-1].ravel()))
    return results


def in_front_of_softmax(model: onnx.ModelProto) -> str | None:
    """What the Softmax reads whose values are those of the first output; None where there is no such."""
    made_by = {name: node for node in model.graph.node for name in node.output}
    name = model.graph.output[0].name
    while name in made_by and made_by[name].op_type in _SAME_VALUES:
        name = made_by[name].input[0]
    found = made_by.get(name)
    return str(found.input[0]) if found is not None and found.op_type == "Softmax" else None
