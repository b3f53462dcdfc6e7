"""Engines as TensorRT itself describes them: the files of `trtexec --exportLayerInfo --exportProfile`.

Beside them `--exportTimes`, a list of runs with the times of each: `read_runs`. The first is what its engine
inspector says: a layer is an object where the engine was built with
`--profilingVerbosity=detailed`, else only a name. Types are in words ("Row major linear FP16 format") up to
TensorRT 10, in `Datatype` since 11. The second is a list: how often it ran, then a name and times for each
layer.
"""

from __future__ import annotations

import json
import math
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeGuard

from onnxq.base import door
from onnxq.base.errors import UserError
from onnxq.base.grouped import grouped
from onnxq.base.plain import DocumentPart
from onnxq.compiled.kernels import Kernel, kernels_of, kind_of_type
from onnxq.run.engine_log import EngineLayer, EngineTensor, dtype_of, is_unknown, precision_of

_WANTED = "give the file that trtexec --exportLayerInfo=FILE wrote, of an engine built with \
--profilingVerbosity=detailed"
_RUNS_WANTED = "give the file that trtexec --exportTimes=FILE wrote"
_TIMES_WANTED = "give the file that trtexec --exportProfile=FILE wrote"

_NODE = re.compile(r"\[ONNX Layer: ([^\[\]]*)\]")
# Types in the words of formats; the longer first, as one is a part of another.
_WORDS = (
    ("uint8", "uint8"), ("int8", "int8"), ("int4", "int4"), ("int32", "int32"), ("int64", "int64"),
    ("bfloat16", "bf16"), ("bf16", "bf16"), ("fp16", "fp16"), ("half", "fp16"), ("fp32", "fp32"),
    ("float8", "fp8"), ("float", "fp32"), ("e8m0", "e8m0"), ("fp8", "fp8"), ("fp4", "fp4"), ("bool", "bool"),
)  # fmt: skip


# The name that a build log has for kernels of the library that multiply, by what they are for.
_MATRIX = {"convolution": "correlation", "deconvolution": "deconv", "matmul": "gemm"}


def read_exported(
    layer_info: Path | None, times: Path | None = None, operators: Mapping[str, str] | None = None
) -> tuple[Kernel, ...]:
    """The kernels of an engine of TensorRT, and what they take on the GPU that ran it.

    Args:
        layer_info: the file of `--exportLayerInfo`; None: kernels are those that have a time.
        times: the file of `--exportProfile`, of the same engine; None: nobody measured.
        operators: the operator of each ONNX node, by the name that an engine may have for it.

    Returns:
        The kernels in the order in which they run.

    Raises:
        UserError: a file cannot be read or is another one, or the times are of another engine.
    """
    ops = operators or {}
    measured = _times(times) if times is not None else []
    if layer_info is not None:
        layers = [_layer(entry, ops, layer_info) for entry in _entries(layer_info)]
    else:
        layers = [_named(name, ops) for name, _ in measured]
    kernels = kernels_of(layers, ops)
    if times is None:
        return kernels
    waiting = grouped(measured)
    timed = [
        replace(kernel, seconds=waiting[kernel.name].pop(0)) if waiting.get(kernel.name) else kernel
        for kernel in kernels
    ]
    rest = [name for name, left in waiting.items() for _ in left]
    if measured and len(rest) == len(measured):
        raise UserError(
            f"{times}: none of its {len(measured)} layers is in {layer_info}, as {rest[0]!r}",
            hint="give both files of one run of trtexec",
        )
    others = kernels_of([_named(name, ops) for name in rest], ops)
    return (*timed, *(replace(kernel, seconds=waiting[kernel.name].pop(0)) for kernel in others))


@dataclass(frozen=True, slots=True)
class RunTimes(DocumentPart):
    """What a run takes on a GPU, over the runs of `trtexec --exportTimes`.

    Attributes:
        file: the file.
        runs: how many runs there are in it.
        compute_s: the median of what the GPU computes, seconds.
        compute_low_s: a quarter of the runs takes less.
        compute_high_s: a quarter of the runs takes more.
        latency_s: the median with copies to the GPU and back, seconds; None where the file does not say it.
    """

    file: str
    runs: int
    compute_s: float
    compute_low_s: float
    compute_high_s: float
    latency_s: float | None


def read_runs(path: Path) -> RunTimes:
    """The times of runs.

    Args:
        path: the file of `trtexec --exportTimes`: a list of objects with `computeMs` and `latencyMs` each.

    Raises:
        UserError: the file cannot be read or is another one.
    """
    document = _document(path, _RUNS_WANTED)
    if not isinstance(document, list) or not document or not all(isinstance(one, dict) for one in document):
        raise UserError(f"{path} is no list of runs and their times", hint=_RUNS_WANTED)
    compute, latency = ([one.get(key) for one in document] for key in ("computeMs", "latencyMs"))
    if not all(map(_is_time, compute)):
        raise UserError(f"{path}: a run has no computeMs", hint=_RUNS_WANTED)
    low, middle, high = (_quantile(compute, share) / 1e3 for share in (0.25, 0.5, 0.75))
    whole = _quantile(latency, 0.5) / 1e3 if all(map(_is_time, latency)) else None
    return RunTimes(str(path), len(document), middle, low, high, whole)


def _quantile(values: Sequence[Any], share: float) -> float:
    """By linear interpolation between the nearest two values."""
    ordered = sorted(map(float, values))
    place = share * (len(ordered) - 1)
    before = math.floor(place)
    after = min(before + 1, len(ordered) - 1)
    return ordered[before] + (place - before) * (ordered[after] - ordered[before])


# --- files ----------------------------------------------------------------------------------------


def _document(path: Path, hint: str) -> Any:
    try:
        return json.loads(door.text(path, errors="replace"), strict=False)
    except OSError as error:
        raise UserError(f"{path}: {error.strerror or error}", hint=hint) from error
    except (ValueError, RecursionError) as error:
        raise UserError(f"{path} is no JSON: {error}", hint=hint) from error


def _entries(path: Path) -> list[Any]:
    document = _document(path, _WANTED)
    entries = document.get("Layers") if isinstance(document, dict) else document
    if not isinstance(entries, list) or not all(isinstance(entry, str | dict) for entry in entries):
        raise UserError(f"{path} has no list of layers", hint=_WANTED)
    if not entries:
        raise UserError(f"{path}: its list of layers is empty", hint=_WANTED)
    return entries


def _times(path: Path) -> list[tuple[str, float]]:
    """Each layer's name and what it takes in one run, in seconds."""
    document = _document(path, _TIMES_WANTED)
    if not isinstance(document, list) or not all(isinstance(entry, dict) for entry in document):
        raise UserError(f"{path} is no list of layers and their times", hint=_TIMES_WANTED)
    count = next((entry["count"] for entry in document if "count" in entry), 1)
    times = []
    for entry in document:
        if "name" not in entry:
            continue
        mean, total = entry.get("averageMs"), entry.get("timeMs")
        if mean is None and _is_time(total) and _is_time(count) and count > 0:
            mean = total / count
        if not _is_time(mean):
            raise UserError(f"{path}: layer {str(entry['name'])!r} has no time", hint=_TIMES_WANTED)
        times.append((str(entry["name"]), mean / 1e3))
    if not times:
        raise UserError(f"{path} has no layer with a time", hint=_TIMES_WANTED)
    return times


def _is_time(value: Any) -> bool:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return number and 0 <= value <= sys.float_info.max


# --- layers ---------------------------------------------------------------------------------------


def _layer(entry: str | Mapping[str, Any], operators: Mapping[str, str], path: Path) -> EngineLayer:
    if isinstance(entry, str):
        return _named(entry, operators)
    name = entry.get("Name")
    if not isinstance(name, str):
        raise UserError(f"{path}: a layer has no name", hint=_WANTED)
    kind = str(entry.get("LayerType", ""))
    inputs, constants, outputs = (
        _tensors(entry.get(key), name, path) for key in ("Inputs", "Constants", "Outputs")
    )
    constants = (*constants, *_weights(entry))
    nodes = _NODE.findall(str(entry.get("Metadata", ""))) or _nodes_in(name, operators)
    return EngineLayer(
        name=name,
        kind=kind,
        precision=precision_of(name, _MATRIX.get(kind_of_type(kind), kind), inputs, constants, outputs),
        inputs=inputs,
        constants=constants,
        outputs=outputs,
        nodes=tuple(dict.fromkeys(nodes)),
        tactic=str(entry.get("TacticName", "")),
    )


def _named(name: str, operators: Mapping[str, str]) -> EngineLayer:
    """A layer of which only the name is known: its type is that of the first product among its nodes."""
    nodes = _nodes_in(name, operators)
    kinds = {"Conv": "convolution", "ConvTranspose": "deconvolution", "MatMul": "gemm", "Gemm": "gemm"}
    kind = "Reformat" if name.startswith("Reformatting CopyNode") else ""
    if not kind:
        kind = next((kinds[operators[node]] for node in nodes if operators.get(node) in kinds), "")
    return EngineLayer(name, kind, None, (), (), (), tuple(nodes), "")


# TensorRT joins names of fused layers by " + ", pointwise ones in PWN(..), and says what it adds in brackets.
_JOINS = re.compile(r" \+ |\|\||, |[()]|PWN")


def _nodes_in(name: str, operators: Mapping[str, str]) -> list[str]:
    """The ONNX nodes that a layer's name is made of; none where it names the neighbour that it serves."""
    if name.startswith("Reformatting CopyNode"):
        return []
    if name in operators:
        return [name]
    return [part for part in map(str.strip, _JOINS.split(name)) if part in operators]


def _tensors(entries: Any, layer: str, path: Path) -> tuple[EngineTensor, ...]:
    if entries is None:
        return ()
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise UserError(f"{path}: the tensors of layer {layer!r} are no list of objects", hint=_WANTED)
    return tuple(_tensor(entry, layer, path) for entry in entries)


def _tensor(entry: Mapping[str, Any], layer: str, path: Path) -> EngineTensor:
    shape = entry.get("Dimensions", [])
    if not isinstance(shape, list) or not all(map(_is_size, shape)):
        raise UserError(f"{path}: the dimensions of a tensor of layer {layer!r} are no list", hint=_WANTED)
    words = entry.get("Datatype") or entry.get("Format/Datatype") or entry.get("Format") or ""
    return EngineTensor(str(entry.get("Name", "")), _dtype(str(words)), tuple(shape))


def _dtype(words: str) -> str:
    """The type that a datatype or the words of a format name."""
    exact = dtype_of(words)
    if not is_unknown(exact):
        return exact
    lower = words.lower()
    return next((dtype for word, dtype in _WORDS if word in lower), exact)


def _weights(entry: Mapping[str, Any]) -> Sequence[EngineTensor]:
    """The weights of a layer that tells their type and number only, as [out, in of a group, *window]."""
    weights = []
    for key in ("Weights", "Bias"):
        said = entry.get(key)
        if isinstance(said, dict) and _is_size(said.get("Count")) and said["Count"] > 0:
            window = _integers(entry.get("Kernel")) if key == "Weights" else ()
            out = entry.get("OutMaps")
            shape: tuple[int, ...] = (said["Count"],)
            if key == "Weights" and _is_size(out) and out > 0:
                inner = said["Count"] // (out * math.prod(window)) if math.prod(window) else 0
                fits = inner > 0 and out * inner * math.prod(window) == said["Count"]
                shape = (out, inner, *window) if fits else shape
                if fits and "deconv" in str(entry.get("LayerType", "")).lower():
                    groups = max(_integers([entry.get("Groups")]) or (1,))
                    groups = groups if groups > 0 else 1
                    shape = (inner * groups, out // groups, *window)
            weights.append(EngineTensor(key, _dtype(str(said.get("Type", ""))), shape))
    return weights


def _integers(value: Any) -> tuple[int, ...]:
    numbers: Iterable[Any] = value if isinstance(value, list) else ()
    return tuple(size for size in numbers if _is_size(size))


def _is_size(value: Any) -> TypeGuard[int]:
    return isinstance(value, int) and abs(value) < 1 << 63
