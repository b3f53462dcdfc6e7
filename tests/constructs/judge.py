"""What the compiler says of a construct, before and after `sanitize`, and whether both compute the same."""

from __future__ import annotations

import re
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import onnxruntime

from onnxq import sanitize
from onnxq.base.errors import OnnxqError
from onnxq.run import trt

from . import constructs
from .build import BFLOAT16, Construct, Feeds, content, helper

ABSOLUTE, RELATIVE = 2e-5, 1e-5
TIMEOUT = 120.0  # s, of one compilation

Row = dict[str, Any]


def judge(key: str, known: tuple[str, str] | None) -> dict[str, Any]:
    """The row of one construct; the compiler is asked about the model as it is where that is not known."""
    construct = constructs()[key]
    row: dict[str, Any] = {"model": construct.digest}
    try:
        expected(construct)
    except Exception as error:
        why = str(error).splitlines()[0]
        return row | {"verdict": "", "message": "", "outcome": "not run", "why": why, "seconds": 0.0}
    if known is None:
        why = refusal(construct.model, construct.feeds())
        known = ("accepted", "") if why is None else ("rejected", why)
    row |= {"verdict": known[0], "message": known[1]}
    return row | outcome(construct, known[0] == "rejected")


def expected(construct: Construct) -> list[list[np.ndarray]]:
    """The outputs of onnxruntime, without its optimizations, on each run's feeds."""
    return run(construct.model, construct.feeds())


def run(model: onnx.ModelProto, feeds: Sequence[Feeds]) -> list[list[np.ndarray]]:
    """The outputs of a model in onnxruntime, without optimizations, on each feeds."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    return [session.run(None, one) for one in feeds]


def refusal(model: onnx.ModelProto, feeds: Sequence[Feeds]) -> str | None:
    """Why the compiler does not take a model, the first line; None where it takes it."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "model.onnx")
        onnx.save(model, path)
        try:
            engine = trt.compile_engine(path, profiles=profiles(model, feeds), timeout=TIMEOUT)
        except OnnxqError as error:
            return str(error).splitlines()[0]
    if engine.status == "compiled":
        return None
    lines = [line for line in trt.plain(engine.reason).splitlines() if line.strip()]
    return (lines or ["no reason"])[0][:300]


def profiles(model: onnx.ModelProto, feeds: Sequence[Feeds]) -> dict[str, Any]:
    """The smallest, the first and the largest shape that is fed to each dynamic input."""
    constant = {tensor.name for tensor in model.graph.initializer}
    found = {}
    for entry in model.graph.input:
        sizes = entry.type.tensor_type.shape.dim
        if entry.name in constant or all(d.HasField("dim_value") for d in sizes):
            continue
        shapes = np.array([one[entry.name].shape for one in feeds])
        found[entry.name] = tuple(tuple(map(int, s)) for s in (shapes.min(0), shapes[0], shapes.max(0)))
    return found


def repaired(construct: Construct) -> Iterator[tuple[onnx.ModelProto, dict[str, Any]]]:
    """The model after `sanitize`: without flags; then with the flags that the report of that run names.

    Only a flag that the report names for an input or a dimension is followed; its value is that of the first
    feeds, as a user would state it.

    Yields:
        The model and the flags that were followed.
    """
    result = sanitize(construct.model, target=TARGET)
    yield result.model, {}
    flags = flags_of(result.report.to_dict(), construct)
    if flags:
        yield sanitize(construct.model, target=TARGET, **flags).model, flags


TARGET = "tensorrt-rtx"
"""The target whose compiler judges."""

_FLAG = re.compile(r"--(freeze|assume|shape) ['\"]?([^\s='\"]+)['\"]?=")


def flags_of(report: Mapping[str, Any], construct: Construct) -> dict[str, Any]:
    """The keywords of `sanitize` for the flags that a report names."""
    text = "\n".join(_strings({key: part for key, part in report.items() if key != "commands"}))
    first, sizes = construct.feeds()[0], construct.sizes[0]
    flags: dict[str, Any] = {}
    if "--allow-interface-changes" in text:
        flags["allow_interface_changes"] = True
    for flag, subject in _FLAG.findall(text):
        if flag == "freeze" and subject in first:
            flags.setdefault("freeze", {})[subject] = first[subject]
        elif flag == "assume" and subject in sizes:
            flags.setdefault("assume", {})[subject] = sizes[subject]
        elif flag == "shape" and subject in first:
            flags.setdefault("shapes", {})[subject] = first[subject].shape
    return flags


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for entry in value.values():
            yield from _strings(entry)
    elif isinstance(value, list | tuple):
        for entry in value:
            yield from _strings(entry)


def agreeing(construct: Construct, flags: Mapping[str, Any]) -> list[int]:
    """The runs whose feeds have the values and sizes that are stated: the first, and others like it."""
    first = construct.feeds()[0]
    frozen, shapes = flags.get("freeze", {}), flags.get("shapes", {})
    return [
        number
        for number, (one, sizes) in enumerate(zip(construct.feeds(), construct.sizes, strict=True))
        if all(np.array_equal(one[name], first[name]) for name in frozen)
        and all(one[name].shape == first[name].shape for name in shapes)
        and all(sizes[name] == construct.sizes[0][name] for name in flags.get("assume", {}))
    ]


def adapted(feeds: Feeds, model: onnx.ModelProto) -> Feeds:
    """Feeds for a model that may lack some inputs, or have them in another type or shape."""
    constant = {tensor.name for tensor in model.graph.initializer}
    found = {}
    for entry in model.graph.input:
        if entry.name in constant:
            continue
        value = feeds[entry.name]
        dims = entry.type.tensor_type.shape.dim
        if len(dims) != value.ndim:
            open_ones = [not d.HasField("dim_value") for d in dims]
            value = value.reshape(
                [-1 if free else d.dim_value for free, d in zip(open_ones, dims, strict=True)]
            )
        found[entry.name] = value.astype(helper.tensor_dtype_to_np_dtype(entry.type.tensor_type.elem_type))
    return found


def difference(
    construct: Construct, was: Sequence[np.ndarray], now: Sequence[np.ndarray], *, interface: bool = False
) -> str:
    """How outputs differ by more than is allowed; empty where they do not.

    Allowed are 2e-5 + 1e-5·|y|; a unit in the last place of a half-precision output, whose roundings another
    order of the same sums may turn; one step of what is quantized. `interface` allows another type or shape.
    """
    if len(was) != len(now):
        return f"{len(now)} outputs instead of {len(was)}"
    for number, (a, b) in enumerate(zip(map(np.asarray, was), map(np.asarray, now), strict=True)):
        if interface and a.size == b.size:
            b = b.reshape(a.shape)
        if a.shape != b.shape or (a.dtype != b.dtype and not interface):
            return f"output {number} is {b.dtype}{list(b.shape)} instead of {a.dtype}{list(a.shape)}"
        if construct.random:
            continue
        if a.dtype.kind in "OUS":
            if not np.array_equal(a, b):
                return f"output {number} has other texts"
            continue
        x, y = a.astype(np.float64), b.astype(np.float64)
        allowed = ABSOLUTE + RELATIVE * np.abs(x) + construct.step * 1.0001
        if a.dtype in (np.float16, BFLOAT16):
            allowed = allowed + np.abs(x) * float(ml_dtypes.finfo(a.dtype).eps)
        with np.errstate(invalid="ignore"):
            same = (x == y) | (np.isnan(x) & np.isnan(y)) | (np.abs(x - y) <= allowed)
        if not same.all():
            worst = int(np.argmax(~same))
            return (
                f"output {number}: {y.flat[worst]:.9g} instead of {x.flat[worst]:.9g}, {(~same).sum()} such"
            )
    return ""


def outcome(construct: Construct, rejected: bool) -> Row:
    """What `sanitize` makes of a construct, and the compiler of that.

    Returns:
        `outcome`: fixed, wrong, rejected or raised where the compiler does not take it as it is; kept, wrong,
        rejected or raised where it does. `flags`: those that were followed. `why`: of what is not well.
        `seconds`: of `sanitize`.
    """
    row: Row = {"seconds": 0.0}
    start = time.perf_counter()
    try:
        for model, flags in repaired(construct):
            row["seconds"] += time.perf_counter() - start
            what, why = _judged(construct, model, flags)
            row |= {"outcome": what or ("fixed" if rejected else "kept"), "why": why, "flags": _plain(flags)}
            if rejected and why == UNCHANGED:
                row["outcome"] = "rejected"
            if row["outcome"] != "rejected":
                break
            start = time.perf_counter()
    except Exception as error:  # of onnxq, or of onnxruntime with what onnxq made: that is a result
        first = (str(error).splitlines() or [""])[0]
        row |= {"outcome": "raised", "why": f"{type(error).__name__}: {first[:300]}"}
    row["seconds"] = round(row["seconds"], 3)
    return row


UNCHANGED = "sanitize changes nothing"


def _judged(construct: Construct, model: onnx.ModelProto, flags: Mapping[str, Any]) -> tuple[str, str]:
    """Whether a repaired model is wrong or rejected, empty where it is neither; and why."""
    if not flags and content(model) == content(construct.model):
        return "", UNCHANGED
    interface = bool(flags.get("allow_interface_changes"))
    runs, was = agreeing(construct, flags), expected(construct)
    feeds = [adapted(construct.feeds()[number], model) for number in runs]
    for number, now in zip(runs, run(model, feeds), strict=True):
        found = difference(construct, was[number], now, interface=interface)
        if found:
            return "wrong", found
    why = refusal(model, feeds)
    return ("rejected", why) if why else ("", "")


def _plain(flags: Mapping[str, Any]) -> dict[str, Any]:
    texts = {}
    for flag, value in flags.items():
        texts[flag] = (
            {k: np.asarray(v).tolist() for k, v in value.items()} if isinstance(value, dict) else value
        )
    return texts
