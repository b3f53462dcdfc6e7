"""The engine: whether it compiles, what runs as planned, what its kernels move."""

from __future__ import annotations

from collections.abc import Sequence

from onnxq.analysis.diff.planned import format_of_both
from onnxq.analysis.diff.rows import BETTER, OTHER, WORSE, Judge
from onnxq.analysis.reports import number, part_of
from onnxq.compiled.traffic import traffic
from onnxq.documents.engine import EnginePart
from onnxq.documents.plan import PlanPart
from onnxq.documents.report import Report
from onnxq.run.engine_log import EngineLayer

_COMPILED = "compiled"


def engine(a: Report, b: Report, judge: Judge) -> None:
    """What NVIDIA's compiler made of both."""
    engines = [report.engine for report in (a, b)]
    status = [part.status for part in engines]
    verdict = (
        WORSE if status == [_COMPILED, "failed"] else BETTER if status == ["failed", _COMPILED] else OTHER
    )
    judge.state(verdict, "status", *status, why=b.engine.reason)
    judge.other("compiler", *(part.compiler or None for part in engines))
    judge.other("compute capability", *(None if part.sm is None else str(part.sm) for part in engines))
    if status != [_COMPILED, _COMPILED]:
        return
    name = format_of_both(a, b)
    judge.count(f"{name} layers", *(number(part.int8) for part in engines))
    judge.count(f"planned layers that are not {name}", *map(_not_int8, engines), better=-1)
    planned = [
        {layer.node for layer in part_of(PlanPart, report.plan).layers if layer.format != "float"}
        for report in (a, b)
    ]
    missed = [set(part.not_int8) for part in engines]
    formats = [
        {layer.node: layer.format for layer in part_of(PlanPart, report.plan).layers} for report in (a, b)
    ]
    for node in sorted(missed[0] ^ missed[1]):
        if node in planned[0] and node in planned[1]:
            runs = (
                "float" if node in not_run else one[node]
                for not_run, one in zip(missed, formats, strict=True)
            )
            judge.state(WORSE if node in missed[1] else BETTER, "runs in", *runs, name=node, node=node)
    layers = [part.layers for part in engines]
    if not all(layers):
        return
    moved = [traffic(kernels) for kernels in layers]
    judge.figure("moved by kernels, MB", *(m.moved_mb for m in moved), unit="%", better=-1)
    judge.figure("kernels", *(float(m.kernels) for m in moved), unit="%", better=-1)
    types = [_types(kernels) for kernels in layers]
    for node in [node for node in types[0] if node in types[1] and node not in missed[0] ^ missed[1]]:
        judge.other("kernels of", types[0][node], types[1][node], name=node, node=node)


def _not_int8(engine: EnginePart) -> float | None:
    planned, runs = number(engine.planned), number(engine.int8)
    return None if planned is None or runs is None else planned - runs


def _types(layers: Sequence[EngineLayer]) -> dict[str, str]:
    """The types in which each node is multiplied."""
    types_of: dict[str, set[str]] = {}
    for layer in layers:
        if layer.is_matrix and layer.precision:
            for node in layer.nodes:
                types_of.setdefault(node, set()).add(layer.precision)
    return {node: ", ".join(sorted(types)) for node, types in types_of.items()}
