"""The program that runs NVIDIA's parser and compiler, so that a native crash ends only it.

    python -m onnxq.run.trt_child FOLDER

reads FOLDER/request.json ({"task": "parse" | "compile" | "sm", "models", "sm", "profiles", "numbers"}; of
profiles, one a deployment). Of each model,
in their order, it writes what the compiler says to FOLDER/<place>/log.jsonl line by line (so that it survives
a crash), and then the result to FOLDER/<place>/result.json. `onnxq.run.trt` is the other side.
"""

from __future__ import annotations

import json
import os
import re
import sys
import time
from pathlib import Path
from typing import Any

from onnxq.base.errors import UserError
from onnxq.base.memory_bound import memory_bound
from onnxq.run.engine_log import escape
from onnxq.run.profiles import Profile, resolve_profiles


def main(folder: Path) -> None:
    """Does what the request says."""
    request = json.loads((folder / "request.json").read_text(encoding="utf-8"))
    compiler: Any = None
    unloadable = ""
    try:
        import tensorrt_rtx as trt
    except (ImportError, OSError) as error:  # a library that it needs is missing
        unloadable = str(error)
    else:
        compiler = trt
    for place, model in enumerate(request["models"]):
        own = folder / str(place)
        own.mkdir()
        result: dict[str, Any] = {"unloadable": unloadable}
        if compiler is not None:
            with (own / "log.jsonl").open("w", encoding="utf-8", buffering=1) as log:
                try:
                    result = _run(compiler, request | {"model": model}, log)
                except UserError as error:
                    result = {"user_error": [str(error), error.hint]}
        whole = own / "result"
        whole.write_text(json.dumps(result), encoding="utf-8")
        whole.rename(own / "result.json")


def _run(trt: Any, request: dict[str, Any], log: Any) -> dict[str, Any]:
    class Logger(trt.ILogger):  # type: ignore[misc]
        def __init__(self) -> None:
            trt.ILogger.__init__(self)

        def log(self, severity: Any, message: str) -> None:
            log.write(json.dumps([severity.name, message]) + "\n")

    capabilities = _capabilities(trt)
    if "sm" in request and request["sm"] not in capabilities:
        raise UserError(
            f"the compiler does not know compute capability sm {request['sm']}",
            hint=f"it knows {', '.join(map(str, capabilities))}",
        )
    if request["task"] == "sm":
        return {}
    logger = Logger()
    builder = trt.Builder(logger)
    network = builder.create_network(0)  # held as long as the parser, which does not keep it alive
    parser = trt.OnnxParser(network, logger)
    # A file that is no model parses without an error, to a network without outputs.
    with memory_bound(_MOST + _TIMES * _folder_bytes(request["model"])):  # it computes constants, of any size
        parsed = parser.parse_from_file(request["model"]) and network.num_outputs > 0
    if not parsed:
        found = [parser.get_error(i) for i in range(parser.num_errors)]
        errors = [[error.node_name(), error.node_operator(), _message(error)] for error in found]
        return {"errors": errors or [["", "", "the file holds no graph with outputs"]]}
    if request["task"] == "parse":
        return {}
    inputs = [network.get_input(i) for i in range(network.num_inputs)]
    shapes = {t.name: tuple(t.shape) for t in inputs}
    several = [resolve_profiles(shapes, profiles) for profiles in request["profiles"]]

    config = builder.create_builder_config()
    config.num_compute_capabilities = 1
    config.set_compute_capability(capabilities[request["sm"]], 0)
    config.profiling_verbosity = trt.ProfilingVerbosity.DETAILED
    numbers = {
        t.name: request["numbers"][t.name]
        for t in inputs
        if t.is_shape_tensor and t.name in request["numbers"]
    }
    _escape_names(network)
    for profiles in several:
        if profiles or numbers:
            config.add_optimization_profile(_profile(builder, profiles, numbers))
    start = time.perf_counter()
    plan = builder.build_serialized_network(network, config)
    return {
        "plan_bytes": plan.nbytes if plan is not None else None,
        "seconds": time.perf_counter() - start,
        "profiles": several,
    }


_MOST, _TIMES = 1 << 31, 16
"""Bytes that parsing may take, and those for each that the model takes."""


def _folder_bytes(model: str) -> int:
    """The size of what is in the folder of a model: its weights may be any of these files."""
    with os.scandir(os.path.dirname(os.path.abspath(model))) as entries:
        return sum(map(_size, entries))


def _size(entry: os.DirEntry[str]) -> int:
    try:
        return entry.stat().st_size if entry.is_file() else 0
    except OSError:  # it has gone meanwhile
        return 0


def _capabilities(trt: Any) -> dict[int, Any]:
    """The compute capabilities that the package compiles for, such as 89: SM89."""
    members = trt.ComputeCapability.__members__.items()
    return {int(name[2:]): value for name, value in members if re.fullmatch(r"SM\d+", name)}


def _message(error: Any) -> str:
    return f"{error.func()}: {error.code().name}: {error.desc()}"


def _profile(builder: Any, profiles: dict[str, Profile], numbers: dict[str, Profile]) -> Any:
    profile = builder.create_optimization_profile()
    for name, shapes in profiles.items():
        profile.set_shape(escape(name), *shapes)
    for name, three in numbers.items():
        profile.set_shape_input(escape(name), *three)
    return profile


def _escape_names(network: Any) -> None:
    """Escapes the names of layers, tensors and nodes, which the log does not quote."""
    tensors = [network.get_input(i) for i in range(network.num_inputs)]
    for i in range(network.num_layers):
        layer = network.get_layer(i)
        _set(layer, "name", escape(layer.name))
        node = re.fullmatch(r"\[ONNX Layer: (.*)\]", layer.metadata, re.DOTALL)
        if node:
            _set(layer, "metadata", f"[ONNX Layer: {escape(node[1])}]")
        tensors += [layer.get_output(j) for j in range(layer.num_outputs)]
    for tensor in tensors:
        if tensor is not None:  # an output that the network leaves out
            _set(tensor, "name", escape(tensor.name))


def _set(owner: Any, field: str, value: str) -> None:
    if getattr(owner, field) != value:
        setattr(owner, field, value)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
