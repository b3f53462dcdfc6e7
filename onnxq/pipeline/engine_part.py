"""The report's part on the compiler."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import onnx

from onnxq.base.grouped import grouped
from onnxq.base.reason import reason
from onnxq.documents.engine import EnginePart, Regressed
from onnxq.graph.twins import twins
from onnxq.run import trt
from onnxq.run.engine_log import EngineLayer
from onnxq.targets import Target


def engine_part(
    engine: trt.Engine,
    model: onnx.ModelProto,
    planned: Mapping[str, str],
    regression: Regressed | None = None,
) -> EnginePart:
    """What the compiler made of a model, for the report.

    A layer of which no kernel is, and that computes what another does, is what the other is: the compiler
    merges them.

    Args:
        engine: the outcome of compiling.
        model: what was compiled.
        planned: names of the nodes that are meant to run in a number format, each with its name.
        regression: why the model did not compile, and the original does. With its node in float it may
            compile after all.
    """
    runs: dict[str, EngineLayer | None] = {}
    for format, names in grouped((format, name) for name, format in planned.items()).items():
        runs.update(trt.int8_of(engine, names, format))
    alike = twins(model) if engine.layers and None in runs.values() else {}
    for name in [name for name, layer in runs.items() if layer is None]:
        types = trt.int8_of(engine, alike.get(name, ()), planned[name])
        runs[name] = next(filter(None, types.values()), None)
    int8 = [name for name, layer in runs.items() if layer is not None and layer.multiplies(planned[name])]
    return EnginePart(
        status=engine.status,
        regressed=regression is not None and engine.status == "failed",
        regression=regression,
        reason=engine.reason,
        unread=engine.unread,
        compiler=engine.compiler,
        sm=engine.sm,
        planned=len(planned),
        int8=len(int8),
        not_int8=tuple(name for name in planned if name not in set(int8)),
        layers=tuple(engine.layers),
        profiles={name: tuple(map(tuple, sizes)) for name, sizes in engine.profiles.items()},
        errors=tuple(engine.errors),
        seconds=engine.seconds,
    )


def engine_not_run(reason: str, planned: int = 0) -> EnginePart:
    """The report's part on the compiler where it was not asked."""
    return EnginePart(
        status="not-run",
        regressed=False,
        regression=None,
        reason=reason,
        unread="",
        compiler=trt.installed() or "",
        sm=None,
        planned=planned,
        int8=0,
    )


def told_beyond(engine: EnginePart, beyond: Mapping[str, str], target: Target) -> EnginePart:
    """The report's part on the compiler; where it fails by what the target takes, that is said first.

    Args:
        engine: the part.
        beyond: of `beyond_compiler`.
        target: the target.
    """
    nodes = {error.node for error in engine.errors} or {trt.node_of(engine.reason)}
    if engine.status != "failed" or not nodes <= beyond.keys():
        return engine
    ops = ", ".join(dict.fromkeys(beyond[node] for node in sorted(nodes)))
    told = reason("beyond-this-compiler", target=target.title, ops=ops, why=engine.reason)
    return dataclasses.replace(engine, reason=told)
