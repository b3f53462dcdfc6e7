"""The report: everything that was done and found, as one JSON document (`onnxq.documents.report`)."""

from __future__ import annotations

import dataclasses
import math
import os
import sys
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from onnxq.base.reason import code_of
from onnxq.base.version import VERSION
from onnxq.calib.stats import Stats, TensorStats
from onnxq.checks.lint import lint_pairs
from onnxq.documents.calibration import CalibrationPart, DrawnHistogram, ScaleProfile
from onnxq.documents.changes import ChangeOfInterface, ChangesCounted, FileSizes, NotTaken
from onnxq.documents.engine import EnginePart, Regressed
from onnxq.documents.report import REPORT_SCHEMA
from onnxq.documents.typed import fitted
from onnxq.formats import INT8
from onnxq.graph.features import needs, remedy
from onnxq.graph.model import Model
from onnxq.graph.sizes import file_bytes, growth
from onnxq.graph.statements import deciding_numbers, shape_of
from onnxq.graph.twins import twins
from onnxq.graph.types import Shape, shape_text
from onnxq.graph.view import Node, Tensor
from onnxq.quant.plan import QuantPlan
from onnxq.quant.ranges import Range
from onnxq.rewrite.changes import Change
from onnxq.run import trt
from onnxq.targets import COMPILER, Target, load_target, with_plugin

_ADVICE = (
    "{title} has no importer for it: replace it before the export, cut the model in front of it, or "
    "write a plugin"
)
_CHANGE = "change it before the export, or cut the model in front of it"
_FOLD = "give sizes with --shape or values with --freeze, so that it becomes a constant; else "


def node_names(model: Model) -> frozenset[str]:
    """The names of all nodes, subgraphs included."""
    return frozenset(str(node.name) for graph in model.graphs() for node in graph.nodes)


def counted_proofs(changes: Iterable[Change]) -> ChangesCounted:
    """How many changes are proved how."""
    verdicts = Counter(change.proof.verdict for change in changes)
    return ChangesCounted(verdicts["exact"], verdicts["close"], verdicts["unproven"])


def interface(model: Model) -> dict[str, tuple[str, str]]:
    """Each input and output of a model as (kind, type and shape), for a reader."""
    found = {}
    for kind, entries in (("input", model.inputs), ("output", model.outputs)):
        for name, dtype, shape in entries:
            found[name] = (kind, _type_text(dtype, shape, model.symbols))
    return found


def interface_changes(
    before: Mapping[str, tuple[str, str]],
    after: Mapping[str, tuple[str, str]],
    because: Mapping[str, str] | None = None,
) -> tuple[ChangeOfInterface, ...]:
    """What of a model's interface is another now, and why where a rule changed it."""
    changes = []
    for name, (kind, text) in before.items():
        now = after.get(name)
        if now is None:
            changes.append(ChangeOfInterface(name, f"{kind} {text}", "constant"))
        elif now[1] != text:
            why = (because or {}).get(name)
            changes.append(ChangeOfInterface(name, f"{kind} {text}", f"{now[0]} {now[1]}", why))
    return tuple(changes)


def unsupported(model: Model, target: Target) -> list[NotTaken]:
    """The nodes that the target does not take, and what the user can do."""
    found = []
    if model.opset > target.max_opset:
        newer = (
            f"opset {model.opset} is newer than {target.max_opset}, the last that {target.title} documents"
        )
        export = f"export with opset {target.max_opset}, if the importer stumbles over a newer operator"
        found.append(NotTaken("", "", newer, export))
    for kind, entries in (("input", model.graph.inputs), ("output", model.graph.outputs)):
        for entry in entries:
            if entry.dtype is not None and np.dtype(entry.dtype).kind in "OUS":
                reason = f"{kind} {entry.name!r} holds strings, which TensorRT does not have"
                advice = "leave it out with onnxq extract, and turn numbers into names on the host"
                found.append(NotTaken("", "", reason, advice))
    for entry in model.graph.inputs:
        flag = shape_of(Tensor(model, entry)) if entry.shape is None else ""
        if flag:
            reason = f"how many dimensions input {entry.name!r} has is not known"
            found.append(NotTaken("", "", reason, f"state it: onnxq sanitize {flag}"))
    for graph in model.graphs():
        for raw in graph.nodes:
            node = Node(model, raw)
            for reason, advice in _refusals(node, target):
                found.append(NotTaken(node.name, node.op, reason, advice))
    return found


def deciding_inputs(model: Model) -> list[str]:
    """Of each integer input that decides sizes or places: what an engine wants for it, and what to state."""
    nodes = (Node(model, raw) for graph in model.graphs() for raw in graph.nodes)
    inputs = [Tensor(model, entry) for entry in model.graph.inputs]
    return [
        f"the numbers in input {name!r} decide sizes or places ({node}): an engine of TensorRT is built for "
        "a range of them (their values, in the optimization profile); where they are always the same: "
        f"onnxq sanitize {flag}"
        for name, (node, flag) in deciding_numbers(nodes, inputs).items()
    ]


def plugin_nodes(model: Model, target: Target) -> list[NotTaken]:
    """The nodes that plugins of the target's own library compute, and what that means for the user."""
    told = f"it is a plugin of {target.title}'s own library; onnxruntime and TensorRT-RTX do not have it"
    advice = (
        "load the library for the build, as trtexec does; here the node is left as it is, nothing behind it "
        "is measured, and no engine is compiled with it"
    )
    nodes = (Node(model, raw) for graph in model.graphs() for raw in graph.nodes)
    return [
        NotTaken(node.name, node.op, told, advice)
        for node in nodes
        if node.op in target.plugins and _is_plugin(node) and not _refusals(node, target)
    ]


def file_sizes(before: onnx.ModelProto, after: onnx.ModelProto) -> FileSizes:
    """The sizes of the original's and the new model's file, in bytes, and what the new one is larger by."""
    was, now = file_bytes(before), file_bytes(after)
    return FileSizes(was, now, tuple(growth(before, after)) if now > was else ())


def misread_pairs(model: Model) -> list[NotTaken]:
    """The Q/DQ nodes of a model that TensorRT refuses or reads otherwise, and what the user can do."""
    return [NotTaken(one.node, one.op, one.reason, one.advice) for one in lint_pairs(model)]


def _refusals(node: Node, target: Target) -> list[tuple[str, str]]:
    """Why the target does not take a node, and what to do: its operator, else what the node asks of it."""
    advice = target.advice.get(node.op) or _ADVICE.format(title=target.title)
    name = f"{node.domain}.{node.op}"
    if name in target.custom:
        return []
    if _is_plugin(node):
        return [] if node.op in target.plugins else [_without_plugin(node.op, target)]
    if node.domain:
        return [(f"{name} is no operator of ONNX or {target.title}", advice)]
    if not node.is_defined:
        return [(f"{node.op} is no operator of ONNX opset {node.opset}", advice)]
    if node.op in target.unsupported:
        return [(f"{target.title} does not take {node.op}", advice)]
    return [
        (f"{target.title} does not take {has}", _advice(node, name))
        for name, has in needs(node).items()
        if name in target.lacks
    ]


def _is_plugin(node: Node) -> bool:
    """Whether a plugin of TensorRT's own is looked for: by the operator's name, whatever its domain."""
    of_others = node.is_defined if not node.domain else node.domain.startswith(("com.microsoft", "ai.onnx"))
    return not of_others and bool(with_plugin(node.op))


def _without_plugin(op: str, target: Target) -> tuple[str, str]:
    """That a target's library lacks a plugin, and what to do."""
    first, last = with_plugin(op)[0], with_plugin(op)[-1]
    have = f"{first.title} to {last.title} have it" if first != last else f"{first.title} has it"
    none = "" if target.plugins else ": it has none of TensorRT's"
    there = f"build the engine there (--target {last.name})"
    return f"{target.title} has no plugin {op}{none}; {have}", f"{there}, {_CHANGE}"


def _advice(node: Node, feature: str) -> str:
    """What to do about a feature that the target lacks."""
    flags = remedy(node, feature)
    if flags:
        return f"state it: onnxq sanitize {flags}; else {_CHANGE}"
    return (_FOLD if feature.startswith("runtime-") else "") + _CHANGE


def header(model: Model, target: Target, kind: str = "report") -> dict[str, Any]:
    """The head of the report of a model that is not saved yet; `kind`: what document it is of."""
    nodes = sum(len(graph.nodes) for graph in model.graphs())
    return {
        "kind": kind,
        "schema": REPORT_SCHEMA,
        "onnxq": VERSION,
        "model": str(model.path) if model.path is not None else None,
        "output": None,
        "target": target.name,
        "opset": model.opset,
        "ir_version": model.envelope.ir_version,
        "nodes": nodes,
    }


def peak_memory_mb() -> float:
    """The largest resident size of this process so far, MiB; 0 where the system does not tell."""
    try:  # unlike getrusage's, not inherited from the process that started this one
        status = Path("/proc/self/status").read_text("utf-8")
        return round(int(status.split("VmHWM:")[1].split()[0]) / 1024, 1)
    except (OSError, IndexError, ValueError):
        pass
    try:
        import resource
    except ImportError:  # Windows
        return 0.0
    size = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return round(size / (1024.0 if sys.platform != "darwin" else 1024.0 * 1024.0), 1)


def cpu_seconds() -> float:
    """What this process has taken of the processors so far, with its children that have ended."""
    return sum(os.times()[:4])


def counted(names: Iterable[str]) -> dict[str, int]:
    """How often each name occurs, most often first."""
    count: dict[str, int] = {}
    for name in names:
        count[name] = count.get(name, 0) + 1
    return dict(sorted(count.items(), key=lambda item: (-item[1], item[0])))


def _type_text(dtype: np.dtype | None, shape: Shape | None, symbols: set[str]) -> str:
    if shape is not None:
        shape = tuple(None if dim in symbols else dim for dim in shape)
    return f"{dtype if dtype is not None else 'unknown'} {shape_text(shape)}"


def engine_part(
    engine: trt.Engine,
    model: onnx.ModelProto,
    planned: Sequence[str],
    regression: Regressed | None = None,
    format: str = INT8.name,
) -> EnginePart:
    """What the compiler made of a model, for the report.

    A layer of which no kernel is, and that computes what another does, is what the other is: the compiler
    merges them.

    Args:
        engine: the outcome of compiling.
        model: what was compiled.
        planned: names of the nodes that are meant to run in the format.
        regression: why the model did not compile, and the original does. With its node in float it may
            compile after all.
        format: the name of what is multiplied there.
    """
    runs = trt.int8_of(engine, planned, format)
    alike = twins(model) if engine.layers and None in runs.values() else {}
    for name in [name for name, layer in runs.items() if layer is None]:
        found = trt.int8_of(engine, alike.get(name, ()), format)
        runs[name] = next(filter(None, found.values()), None)
    int8 = [name for name, layer in runs.items() if layer is not None and layer.multiplies(format)]
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


def beyond_compiler(model: Model, target: Target) -> dict[str, str]:
    """The operator of each node that the target takes and TensorRT-RTX, which is here, does not."""
    own = {entry.node for entry in unsupported(model, target)}
    here = unsupported(model, load_target(COMPILER))
    return {entry.node: entry.op for entry in here if entry.node and entry.node not in own}


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
    told = f"{target.title} takes {ops}; TensorRT-RTX, which compiles here, does not: {engine.reason}"
    return dataclasses.replace(engine, reason=told)


def refused(
    engine: EnginePart,
    known: Sequence[NotTaken],
    ops: Mapping[str, str],
    beyond: Collection[str] = (),
) -> list[NotTaken]:
    """What the compiler says against a model that the target's table does not say already.

    Args:
        engine: the report's part on it.
        known: what the table says.
        ops: the operators of the model's nodes, by name.
        beyond: nodes that the target takes, and the compiler that is here does not.
    """
    if engine.status != "failed":
        return []
    named = {entry.node for entry in known} | set(beyond)
    errors = [error for error in engine.errors if error.node not in named]
    if not engine.errors:
        node = trt.node_of(engine.reason)  # the builder names layers, not nodes
        if node and node in named:
            return []
        op = ops.get(node, "")
        errors = [trt.ParserError(node if op else "", op, engine.reason)]
    return [
        NotTaken(
            error.node,
            error.op,
            f"NVIDIA's compiler: {error.message}",
            _REFUSED if error.node else _REFUSED_WHOLE,
        )
        for error in errors
    ]


_REFUSED = "replace it before the export, or cut the model there: onnxq split MODEL --at TENSOR"
_REFUSED_WHOLE = (
    "the message names no node of the model: cut it in two (onnxq split MODEL --at TENSOR), see which part "
    "does not compile (onnxq engine PIECE), and go on with that one; inputs of type string or uint64, and "
    "branches of different rank, are the usual reasons"
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


@dataclass(frozen=True, slots=True)
class CalibrationFacts:
    """What the report says of calibration.

    Attributes:
        plan: what is quantized.
        stats: the statistics of tensors.
        before: by which edit tensors are changed whose statistics are those before it.
        method: the method where the outputs did not choose one.
        choice: what the outputs chose, or None.
        ranges: the range of each measured tensor.
        scales: the scale of each group of activations.
        counting: what histograms are made of.
        seed: what chose the samples.
        data: how the data were understood.
        held_out: which samples verified.
        not_run: operators that onnxruntime does not know, by node that depends on one.
        notes: what the user may not expect.
        missing: the samples, by index, that the statistics of that file lack.
        stats_file: the file that statistics or scales were read from, or None.
        cached: how many tensors the calibration cache names; None: there is none.
        not_verified: what the accuracy does not tell of the files, or "".
        in_float32: whether the model was run as a float32 copy.
    """

    plan: QuantPlan
    stats: Stats
    before: Mapping[str, str]
    method: str
    choice: Mapping[str, Any] | None
    ranges: Mapping[str, Range]
    scales: Mapping[int, np.float32]
    counting: str
    seed: int
    data: Mapping[str, Any]
    held_out: str
    not_run: Mapping[str, str]
    notes: Sequence[str]
    missing: Sequence[int]
    stats_file: str | None
    cached: int | None
    not_verified: str
    in_float32: bool


def calibration_part(facts: CalibrationFacts) -> CalibrationPart:
    """What calibration found, for the report."""
    tensors = facts.stats.tensors
    return fitted(
        CalibrationPart,
        {
            "method": _method(facts),
            "choice": facts.choice,
            "samples": facts.stats.samples,
            "seed": facts.seed,
            "counting": facts.counting,
            "sampling": _sampling(facts.stats) if facts.counting == "sampled" else None,
            "data": facts.data,
            "notes": [*_doubts(facts), *facts.notes],
            "held_out": facts.held_out,
            "held_out_code": code_of(facts.held_out),
            "scales": {
                name: float(facts.scales[group.id])
                for group in facts.plan.groups
                if group.id in facts.scales
                for name in group.tensors
            },
            "ranges": {name: [entry.min, entry.max] for name, entry in tensors.items()},
            "thresholds": {
                name: {"amax": entry.amax, "because": entry.because, "code": code_of(entry.because)}
                for name, entry in facts.ranges.items()
            },
            "statistics": {
                name: {"values": entry.size, "mean": entry.mean, "variance": entry.variance}
                for name, entry in tensors.items()
            },
            "histograms": {
                name: drawn
                for name, entry in tensors.items()
                if name in facts.ranges and (drawn := _drawn(entry)) is not None
            },
            "before": {name: kind for name, kind in facts.before.items() if name in tensors},
            "not_run": dict(facts.not_run),
            "stats_file": facts.stats_file,
            "missing": facts.missing,
            "cached": facts.cached,
            "not_verified": facts.not_verified,
            "in_float32": facts.in_float32,
        },
    )


_BINS = 64


def _drawn(entry: TensorStats) -> DrawnHistogram | None:
    """The histogram of a tensor for a drawing; None where it was not counted, or all is zero."""
    top = entry.amax
    if entry.histogram is None or not 0 < top < math.inf:
        return None
    return DrawnHistogram(top, " ".join(map(str, entry.histogram.coarse(top, _BINS).tolist())))


_RANKS = 32


def weight_scales(proto: onnx.ModelProto, plan: QuantPlan) -> dict[str, ScaleProfile]:
    """The scales of the weights of a written model, by weight; of those that stand in the file itself."""
    wanted = {f"{site.tensor}_scale": site.tensor for site in plan.sites if site.kind == "weight"}
    found = {}
    for tensor in proto.graph.initializer:
        inside = tensor.data_location != onnx.TensorProto.EXTERNAL
        if tensor.name in wanted and inside and len(tensor.dims) and tensor.dims[0]:
            values = np.sort(onnx.numpy_helper.to_array(tensor).astype(np.float64), axis=None)
            ranks = np.unique(np.linspace(0, len(values) - 1, _RANKS).round().astype(int))
            text = " ".join(f"{value:.4g}" for value in values[ranks])
            found[wanted[tensor.name]] = ScaleProfile(len(values), text)
    return found


def _method(facts: CalibrationFacts) -> str:
    """What found the ranges: a method, or where no tensor uses it, what states or fixes them all."""
    chosen = facts.method if facts.choice is None else facts.choice["method"]
    reasons = {entry.because for entry in facts.ranges.values()}
    if reasons and not any(code_of(why) in ("method", "zeros", "chosen") for why in reasons):
        return reasons.pop() if len(reasons) == 1 else "stated or fixed"
    if facts.choice is None:
        return chosen
    return f"{'search' if facts.method.startswith('percentile') else 'auto'}: {chosen}"


def _doubts(facts: CalibrationFacts) -> list[str]:
    """What makes ranges doubtful: values that are all the same."""
    notes = []
    for name in facts.ranges:
        entry = facts.stats.tensors.get(name)
        if entry is not None and entry.amax == 0:
            notes.append(f"tensor {name!r} is zero in every sample: its scale is not measured")
        elif entry is not None and entry.min == entry.max:
            notes.append(f"tensor {name!r} is {entry.min:g} everywhere, in every sample")
    return notes


_TAIL = 1e-4  # the share above a percentile of 99.99


def _sampling(stats: Stats) -> dict[str, Any]:
    """How exact histograms of sampled rows are."""
    sampled = [entry for entry in stats.tensors.values() if entry.sampling_error > 0]
    worst = max((entry.sampling_error for entry in sampled), default=0.0)
    return {
        "sampled_tensors": len(sampled),
        "least_values": min((e.counted for e in sampled if e.histogram is not None), default=0),
        "tail_error": worst * math.sqrt(_TAIL) / _TAIL,
        "meaning": "tail_error is the standard error, in proportion, of the share of values above the 99.99 "
        "percentile, if values were independent; minima and maxima are of all values",
    }
