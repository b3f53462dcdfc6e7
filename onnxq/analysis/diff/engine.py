"""The engine: whether it compiles, what runs in int8, what its kernels move."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from onnxq.analysis.diff.planned import format_of
from onnxq.analysis.diff.rows import BETTER, OTHER, WORSE, Judge
from onnxq.analysis.reports import OpenedReport, names, number, text
from onnxq.compiled.traffic import traffic
from onnxq.run.engine_log import EngineLayer, EngineTensor

_COMPILED = "compiled"


def engine(a: OpenedReport, b: OpenedReport, judge: Judge) -> None:
    """What NVIDIA's compiler made of both."""
    status = [text(r.at("engine", "status")) for r in (a, b)]
    verdict = (
        WORSE if status == [_COMPILED, "failed"] else BETTER if status == ["failed", _COMPILED] else OTHER
    )
    judge.state(verdict, "status", *status, why=text(b.at("engine", "reason")))
    for what, key in (("compiler", "compiler"), ("compute capability", "sm")):
        judge.other(what, *(_cell(r.at("engine", key)) for r in (a, b)))
    if status != [_COMPILED, _COMPILED]:
        return
    judge.count("int8 layers", *(number(r.at("engine", "int8")) for r in (a, b)))
    judge.count("planned layers that are not int8", *map(_not_int8, (a, b)), better=-1)
    planned = [
        {n for n, e in r.by("node", "plan", "layers").items() if format_of(e) != "float"} for r in (a, b)
    ]
    missed = [set(names(r.at("engine", "not_int8"))) for r in (a, b)]
    for node in sorted(missed[0] ^ missed[1]):
        if node in planned[0] and node in planned[1]:
            runs = ("float" if node in found else "int8" for found in missed)
            judge.state(WORSE if node in missed[1] else BETTER, "runs in", *runs, name=node, node=node)
    layers = [_layers(r) for r in (a, b)]
    if not all(layers):
        return
    moved = [traffic(found) for found in layers]
    judge.figure("moved by kernels, MB", *(m.moved_mb for m in moved), unit="%", better=-1)
    judge.figure("kernels", *(float(m.kernels) for m in moved), unit="%", better=-1)
    types = [_types(found) for found in layers]
    for node in [node for node in types[0] if node in types[1] and node not in missed[0] ^ missed[1]]:
        judge.other("kernels of", types[0][node], types[1][node], name=node, node=node)


def _not_int8(report: OpenedReport) -> float | None:
    planned, runs = (number(report.at("engine", key)) for key in ("planned", "int8"))
    return None if planned is None or runs is None else planned - runs


def _layers(report: OpenedReport) -> list[EngineLayer]:
    """The engine's layers; those that are not understood are left out."""
    found = []
    for layer in report.entries("engine", "layers"):
        kind, precision = text(layer.get("kind")), layer.get("precision")
        tensors = [
            tuple(map(_tensor, _objects(layer.get(key)))) for key in ("inputs", "constants", "outputs")
        ]
        found.append(
            EngineLayer(
                text(layer.get("name")), kind, precision if isinstance(precision, str) else None,
                tensors[0], tensors[1], tensors[2], names(layer.get("nodes")), text(layer.get("tactic")),
            )
        )  # fmt: skip
    return found


def _objects(value: Any) -> list[Mapping[str, Any]]:
    return [entry for entry in value if isinstance(entry, Mapping)] if isinstance(value, list) else []


def _tensor(entry: Mapping[str, Any]) -> EngineTensor:
    shape = entry.get("shape")
    sizes = tuple(int(number(dim) or 0) for dim in shape) if isinstance(shape, list) else ()
    return EngineTensor(text(entry.get("name")), text(entry.get("dtype")), sizes)


def _types(layers: list[EngineLayer]) -> dict[str, str]:
    """The types in which each node is multiplied."""
    found: dict[str, set[str]] = {}
    for layer in layers:
        if layer.is_matrix and layer.precision:
            for node in layer.nodes:
                found.setdefault(node, set()).add(layer.precision)
    return {node: ", ".join(sorted(types)) for node, types in found.items()}


def _cell(value: Any) -> str | None:
    return None if value is None else text(value)
