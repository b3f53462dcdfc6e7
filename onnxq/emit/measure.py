#!/usr/bin/env python3
"""Measures the models of a bundle on the machine that runs them, and says which one to use.

    python3 measure.py [--tool trtexec] [--time-limit SECONDS]

It needs Python 3.8, numpy, and the TensorRT that is going to run the model: its trtexec (or tensorrt_rtx), or its
Python module. Each model is built once, in a process of its own. What its engine answers is compared with what
the float model answered where the bundle was made. Then the engines are timed in turns, and it stops as soon as
they are told apart. Of an engine that answers wrongly the first layer that differs is looked for. It sends nothing
and changes no setting of the machine. What was measured is in results.json: a run that was interrupted goes on
there.

`onnxq bundle` wrote it; it uses nothing else of onnxq.
"""

from __future__ import annotations

import argparse
import ctypes
import datetime
import functools
import hashlib
import importlib
import importlib.util
import json
import math
import os
import platform
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Callable, Dict, Iterator, List, Optional, Sequence, Set, Tuple

import numpy as np

FORMAT = 1
MANIFEST, RESULTS, SCRIPT = "manifest.json", "results.json", "measure.py"
LEAST_GAIN = 0.02
"""What a model has to gain beside float16 to be worth its accuracy: less is within what a rebuild changes."""
ROUNDS = (5, 40)
"""The fewest and the most rounds of timing."""
TIMED = ("--warmUp=200", "--duration=1", "--iterations=20", "--noDataTransfers")
SAMPLED = 100
"""So many values of a tensor say whether it is right."""
MARKED = 32
"""So many tensors are made outputs at most, at once."""
AS_TRTEXEC = "--as-trtexec"
"""The word behind which this file is a small trtexec, of the Python module that the next word names."""
PLACES = ("/usr/src/tensorrt/bin/trtexec", "/opt/tensorrt/bin/trtexec", "/usr/local/tensorrt/bin/trtexec")
_NO_GPU = re.compile(
    r"no CUDA-capable device|CUDA driver version is insufficient|Cuda failure: 35|CUDA_ERROR_NO|CUDA initialization fail"
)
_VERSION = re.compile(r"\[TensorRT(?:-RTX)? v(\d+)\]")

_NO_NUMBER = re.compile(r"(?<=[\s,\[])-?(?:nan|inf)(?=[\s,\]])", re.IGNORECASE)
_JSON = {"nan": "NaN", "-nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}
"""What trtexec writes of what is no number, and JSON."""

Results = Dict[str, Any]
Arrays = Dict[str, np.ndarray]


class NotMeasured(Exception):
    """What cannot be measured, why, and what to do."""


# -- the bundle ---------------------------------------------------------------------------------------


class BundleFolder:
    """A folder that `onnxq bundle` wrote."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        path = folder / MANIFEST
        try:
            self.manifest = json.loads(path.read_text("utf-8"))
            self.candidates = {one["name"]: one for one in self.manifest["candidates"]}
            self.files = dict(self.manifest["files"])
            said = [str(self.manifest.get(key)) for key in ("model_sha256", "target", "device")]
            said += [str(self.files.get(name)) for name in self.manifest["samples"]]
        except FileNotFoundError:
            raise NotMeasured(f"{folder} has no manifest.json: give the folder that onnxq bundle wrote")
        except (ValueError, KeyError, TypeError) as error:
            raise NotMeasured(f"{path} cannot be read ({error}): copy the folder again")
        self.hash = hashlib.sha256("|".join(said).encode("utf-8")).hexdigest()

    def check(self) -> None:
        """Refuses a folder with a file that is missing or another one, or a disk without room for engines."""
        for name, wanted in self.files.items():
            path = self.folder / name
            if not path.is_file():
                raise NotMeasured(f"{name} is missing: copy the folder again")
            if sha256(path) != wanted:
                raise NotMeasured(f"{name} is not the file that was bundled: copy the folder again")
        need = 2 * sum((self.folder / one["file"]).stat().st_size for one in self.candidates.values())
        free = shutil.disk_usage(self.folder).free
        if free < need:
            raise NotMeasured(f"engines may take {need / 1e6:.0f} MB, and {free / 1e6:.0f} MB are free here")

    def samples(self) -> Iterator[Tuple[Arrays, Arrays]]:
        """The inputs and the float model's outputs of each sample."""
        for name in self.manifest["samples"]:
            with np.load(self.folder / name, allow_pickle=False) as held:
                inputs, outputs = (enumerate(self.manifest[key]) for key in ("inputs", "outputs"))
                given = {one["name"]: held[f"in{place}"] for place, one in inputs}
                yield given, {one["name"]: held[f"out{place}"] for place, one in outputs}


class Tensors:
    """What a candidate computes inside for the first sample, as onnxruntime does: `NAME.tensors.npz`.

    `about` has of each tensor its name, type (as ONNX numbers it), node, operator, size, whether it is an output,
    from which of those before it is computed, and how near two runs of onnxruntime are; `values` are `SAMPLED` of it.
    """

    def __init__(self, path: Path) -> None:
        with np.load(path, allow_pickle=False) as held:
            self.about: List[Dict[str, Any]] = json.loads(str(held["about"]))
            ends = np.cumsum([min(one["size"], SAMPLED) for one in self.about])
            self.values = np.split(held["values"], ends[:-1])

    def above(self, some: Set[int]) -> Set[int]:
        """Some of them, and all that these are computed from."""
        found, left = set(some), list(some)
        while left:
            more = set(self.about[left.pop()]["parents"]) - found
            found |= more
            left += more
        return found

    def lost(self, place: int, found: np.ndarray) -> float:
        """By how many dB an engine's values are farther than two runs of onnxruntime are; none beyond 40 dB."""
        whole = found.size == self.about[place]["size"]
        level = nearness(self.values[place], sampled(found)) if whole else -99.9
        return min(40.0, float(self.about[place]["level"])) - min(40.0, level)


def nearness(wanted: np.ndarray, found: np.ndarray) -> float:
    """How near values are, dB; of such as hardly differ no digit counts."""
    power, noise = powers(wanted, found)
    finite = wanted[np.isfinite(wanted)].astype(np.float64)
    return decibels(max(power, 1e-3 * float((finite**2).mean())) if finite.size else 1.0, noise)


def sampled(values: np.ndarray) -> np.ndarray:
    """`SAMPLED` of the values of a tensor, always the same ones, from all over it."""
    flat = values.ravel()
    if flat.size <= SAMPLED:
        return flat
    return flat[np.arange(1, SAMPLED + 1, dtype=np.uint64) * 2654435761 % flat.size]


def with_outputs(model: bytes, tensors: Sequence[Dict[str, Any]]) -> bytes:
    """An ONNX file with more outputs of its graph: a second graph is appended, field 7, which has only outputs, 12.

    Parts of a message that come twice are merged, and their lists joined (Protocol Buffers, Encoding).
    """

    def varint(number: int) -> bytes:
        more, low = divmod(number, 1 << 7)
        return bytes([low | 1 << 7]) + varint(more) if more else bytes([low])

    def field(number: int, content: bytes) -> bytes:
        return bytes([number << 3 | 2]) + varint(len(content)) + content

    outputs = [
        field(12, field(1, one["name"].encode()) + field(2, field(1, b"\x08" + varint(one["type"]))))
        for one in tensors
    ]
    return model + field(7, b"".join(outputs))


def sha256(path: Path) -> str:
    """The hash of a file, in hexadecimal."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        for part in iter(lambda: file.read(1 << 20), b""):
            digest.update(part)
    return digest.hexdigest()


# -- trtexec ------------------------------------------------------------------------------------------


class Tool:
    """trtexec, or what takes its flags: tensorrt_rtx, and this file itself on the Python module of either.

    `version` is TensorRT's, as (10, 3); `graph` whether engines run in a CUDA graph.
    """

    def __init__(self, *command: str) -> None:
        self.command, self.name, self.graph = command, command[-1], True
        code, text = self.run(["--help"], 60)
        found = _VERSION.search(text)
        if found is None:
            raise NotMeasured(f"{self.name} says no version, and ends with {code}: give trtexec with --tool")
        number = int(found[1])
        major, rest = divmod(number, 10000) if number >= 100000 else divmod(number, 1000)
        self.version = (major, rest // 100)

    @staticmethod
    def find(given: Optional[str], wanted: str, fits: Callable[["Tool"], bool]) -> "Tool":
        """The one that is given; else the first that is there and fits, a command before a Python module."""
        names = [given] if given else [wanted, *(PLACES if wanted == "trtexec" else ())]
        module = given or ("tensorrt" if wanted == "trtexec" else wanted)
        found = [Tool(path) for path in map(shutil.which, names) if path]
        if module.isidentifier() and importlib.util.find_spec(module):
            found.append(Tool(sys.executable, os.path.abspath(__file__), AS_TRTEXEC, module))
        if not found:
            raise NotMeasured(f"there is no {names[0]} here, and no Python module {module}: see --tool")
        return next(filter(fits, found), found[0])

    def run(self, words: Sequence[str], seconds: float) -> Tuple[int, str]:
        """Runs it in a process of its own; the exit code (negative: the signal that ended it) and what it said."""
        process = subprocess.Popen(
            [*self.command, *words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
            start_new_session=True,
        )  # fmt: skip
        late = False
        try:
            said = process.communicate(timeout=seconds)[0]
        except BaseException as error:
            late = isinstance(error, subprocess.TimeoutExpired)
            try:
                os.killpg(process.pid, signal.SIGKILL)
            except OSError:
                process.kill()
            said = process.communicate()[0]
            if not late:
                raise
        return 124 if late else process.returncode, said.decode("utf-8", "replace")


class Driver:
    """The library of NVIDIA's driver: memory, a stream, a graph and events (CUDA Driver API)."""

    def __init__(self) -> None:
        try:
            self.calls = ctypes.CDLL("nvcuda.dll" if os.name == "nt" else "libcuda.so.1")
        except OSError:
            raise NotMeasured("no CUDA-capable device is detected: there is no driver")
        device = ctypes.c_int()
        self.call("cuInit", 0)
        self.call("cuDeviceGet", ctypes.byref(device), 0)
        self.call("cuCtxSetCurrent", self.made("cuDevicePrimaryCtxRetain", device))
        self.stream = self.made("cuStreamCreate", 1)
        self.start, self.end = self.made("cuEventCreate", 0), self.made("cuEventCreate", 0)

    def call(self, name: str, *words: Any) -> None:
        """Calls a function."""
        code = getattr(self.calls, name)(*words)
        if code:
            raise NotMeasured(f"{name} failed: {'CUDA_ERROR_NO_DEVICE' if code == 100 else code}")

    def made(self, name: str, *words: Any) -> ctypes.c_void_p:
        """A handle or an address, which a function writes where its first argument points to."""
        handle = ctypes.c_void_p()
        self.call(name, ctypes.byref(handle), *words)
        return handle

    def put(self, array: np.ndarray) -> ctypes.c_void_p:
        """The address of a copy on the GPU."""
        at, size = (
            self.made("cuMemAlloc_v2", ctypes.c_size_t(max(array.nbytes, 1))),
            ctypes.c_size_t(array.nbytes),
        )
        self.call("cuMemcpyHtoD_v2", at, ctypes.c_void_p(array.ctypes.data), size)
        return at

    def get(self, array: np.ndarray, at: ctypes.c_void_p) -> np.ndarray:
        """The array, with what is there on the GPU."""
        self.call("cuMemcpyDtoH_v2", ctypes.c_void_p(array.ctypes.data), at, ctypes.c_size_t(array.nbytes))
        return array

    def captured(self, launch: Callable[[], None]) -> Callable[[], None]:
        """The same as one graph."""
        graph = ctypes.c_void_p()
        self.call("cuStreamBeginCapture_v2", self.stream, 1)
        launch()
        self.call("cuStreamEndCapture", self.stream, ctypes.byref(graph))
        whole = self.made("cuGraphInstantiateWithFlags", graph, ctypes.c_ulonglong(0))
        return lambda: self.call("cuGraphLaunch", whole, self.stream)

    def ms(self, launch: Callable[[], None]) -> float:
        """Runs it; what that takes on the GPU, ms."""
        took = ctypes.c_float()
        self.call("cuEventRecord", self.start, self.stream)
        launch()
        self.call("cuEventRecord", self.end, self.stream)
        self.call("cuStreamSynchronize", self.stream)
        self.call("cuEventElapsedTime", ctypes.byref(took), self.start, self.end)
        return took.value


class PythonTool:
    """A small trtexec of TensorRT's Python module (8.5 and later): the flags that are used here, the same files."""

    def __init__(self, module: str, words: Sequence[str]) -> None:
        self.trt = importlib.import_module(module)
        self.given = dict(word[2:].partition("=")[::2] for word in words)
        self.log = self.trt.Logger(self.trt.Logger.WARNING)

    def run(self) -> None:
        """Builds an engine, or runs one."""
        major, minor, patch = [int(part) for part in re.findall(r"\d+", self.trt.__version__)][:3]
        number = 10000 * major + 100 * minor + patch if major >= 10 else 1000 * major + 100 * minor + patch
        print(f"[TensorRT v{number}]", flush=True)
        if "onnx" in self.given:
            Path(self.given["saveEngine"]).write_bytes(self.built())
        if "loadEngine" in self.given or "exportProfile" in self.given:
            self.ran()

    def network(self) -> Tuple[Any, Any, Any]:
        """The builder, the network of the model, and its parser, which holds the weights."""
        builder = self.trt.Builder(self.log)
        explicit = getattr(self.trt.NetworkDefinitionCreationFlag, "EXPLICIT_BATCH", None)
        network = builder.create_network(0 if explicit is None else 1 << int(explicit))
        parser = self.trt.OnnxParser(network, self.log)
        if not parser.parse_from_file(self.given["onnx"]):
            raise NotMeasured("; ".join(parser.get_error(n).desc() for n in range(parser.num_errors)))
        return builder, network, parser

    def built(self) -> bytes:
        """An engine."""
        builder, network, parser = self.network()
        config = builder.create_builder_config()
        for flag in {name.upper() for name in self.given} & set(dir(self.trt.BuilderFlag)):
            config.set_flag(getattr(self.trt.BuilderFlag, flag))
        config.profiling_verbosity = self.trt.ProfilingVerbosity.DETAILED
        shapes = [read_shapes(self.given.get(key, "")) for key in ("minShapes", "optShapes", "maxShapes")]
        profile = builder.create_optimization_profile()
        for name in shapes[0]:
            profile.set_shape(name, *(one[name] for one in shapes))
        if shapes[0]:
            config.add_optimization_profile(profile)
        engine = builder.build_serialized_network(network, config)
        del parser
        if engine is None:
            raise NotMeasured("no engine was built")
        return bytes(engine)

    def ran(self) -> None:
        """Runs an engine, and writes what is asked for."""
        given, driver = self.given, Driver()
        file = Path(given.get("loadEngine", given.get("saveEngine", "")))
        engine = self.trt.Runtime(self.log).deserialize_cuda_engine(file.read_bytes())
        context = None if engine is None else engine.create_execution_context()
        if context is None:
            raise NotMeasured("the engine cannot be read")
        arrays = self.bound(engine, context, driver)

        def launch() -> None:
            if not context.execute_async_v3(driver.stream.value):
                raise NotMeasured("the engine does not run")

        driver.ms(launch)
        run = driver.captured(launch) if "useCudaGraph" in given else launch
        driver.ms(run)
        if "exportLayerInfo" in given:
            told = engine.create_engine_inspector().get_engine_information(
                self.trt.LayerInformationFormat.JSON
            )
            Path(given["exportLayerInfo"]).write_text(told, "utf-8")
        if "exportProfile" in given:
            Path(given["exportProfile"]).write_text(
                json.dumps(self.profiled(context, launch, driver)), "utf-8"
            )
        if "exportOutput" in given:
            out = []
            for name, (array, at) in arrays.items():
                if engine.get_tensor_mode(name) == self.trt.TensorIOMode.OUTPUT:
                    values = (array if at is None else driver.get(array, at)).astype(np.float64)
                    out.append({"name": name, "values": values.ravel().tolist()})
            Path(given["exportOutput"]).write_text(json.dumps(out), "utf-8")
        if "exportTimes" in given:
            warm = time.monotonic() + float(given["warmUp"]) / 1000
            until = warm + float(given["duration"])
            runs: List[Dict[str, float]] = []
            while time.monotonic() < until or len(runs) < int(given["iterations"]):
                took = driver.ms(run)
                runs += [{"computeMs": took}] * (time.monotonic() >= warm)
            Path(given["exportTimes"]).write_text(json.dumps(runs), "utf-8")

    def bound(self, engine: Any, context: Any, driver: Driver) -> Dict[str, Tuple[np.ndarray, Any]]:
        """Inputs and outputs by name: the array here, and its address on the GPU, or None."""
        trt, found = self.trt, {}  # type: Any, Dict[str, Tuple[np.ndarray, Any]]
        shapes = read_shapes(self.given.get("shapes", self.given.get("optShapes", "")))
        files = dict(re.findall(r"'?([^',]+?)'?:([^:,']+)(?:,|$)", self.given.get("loadInputs", "")))
        names = [engine.get_tensor_name(number) for number in range(engine.num_io_tensors)]
        names.sort(key=lambda name: engine.get_tensor_mode(name) != trt.TensorIOMode.INPUT)
        for name in names:
            if engine.get_tensor_mode(name) == trt.TensorIOMode.INPUT:
                context.set_input_shape(name, shapes.get(name, tuple(engine.get_tensor_shape(name))))
            shape = tuple(context.get_tensor_shape(name))
            if min(shape, default=0) < 0:
                raise NotMeasured(f"the size of {name} is known only when it runs: give trtexec with --tool")
            array = np.zeros(shape, trt.nptype(engine.get_tensor_dtype(name)))
            if name in files:
                array = np.fromfile(files[name], array.dtype).reshape(shape)
            at = None if engine.get_tensor_location(name) == trt.TensorLocation.HOST else driver.put(array)
            context.set_tensor_address(name, array.ctypes.data if at is None else at.value)
            found[name] = array, at
        return found

    def profiled(self, context: Any, launch: Callable[[], None], driver: Driver) -> List[Dict[str, Any]]:
        """What each layer takes, as trtexec writes it."""
        found: Dict[str, List[float]] = {}

        class Times(self.trt.IProfiler):  # type: ignore[name-defined, misc]
            def report_layer_time(self, name: str, ms: float) -> None:
                found.setdefault(name, []).append(ms)

        context.profiler = Times()
        for _ in range(10):
            driver.ms(launch)
        told = [{"name": k, "timeMs": sum(v), "averageMs": sum(v) / len(v)} for k, v in found.items()]
        return [{"count": 10}, *told]


def read_shapes(text: str) -> Dict[str, Tuple[int, ...]]:
    """Shapes as trtexec takes them: `x:1x3x8x8,'y:0':1x4`."""
    found = re.findall(r"'?([^',]+?)'?:(\d+(?:x\d+)*)(?:,|$)", text)
    return {name: tuple(map(int, sizes.split("x"))) for name, sizes in found}


# -- measuring ----------------------------------------------------------------------------------------


class Measuring:
    """One run of it: `results` is what is known so far, `until` when it ends, on the clock of `time.monotonic`."""

    def __init__(self, bundle: BundleFolder, tool: Tool, seconds: float, say: Callable[[str], None]) -> None:
        self.bundle, self.tool, self.say = bundle, tool, say
        self.until = time.monotonic() + seconds
        self.path = bundle.folder / RESULTS
        self.results = self._begun()

    def _begun(self) -> Results:
        own = {
            "kind": "measurements", "schema": FORMAT, "bundle": self.bundle.hash, "model": self.bundle.manifest["model_sha256"],
            "tensorrt": "{}.{}".format(*self.tool.version), "device": device_name(), "machine": platform.machine(),
        }  # fmt: skip
        if not self.path.is_file():
            now = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d %H:%M")
            return {**own, "date": now, "candidates": {}, "answer": []}
        try:
            held = json.loads(self.path.read_text("utf-8"))
            held["candidates"].keys()
        except (ValueError, KeyError, TypeError, AttributeError):
            raise NotMeasured(f"{self.path} cannot be read: move it away to measure anew")
        for key, what in ("bundle", "bundle"), ("tensorrt", "TensorRT"), ("device", "device"):
            if held.get(key) != own[key]:
                raise NotMeasured(f"results.json is of another {what} ({held.get(key)}): move it away")
        return dict(held)

    @property
    def left(self) -> float:
        """Seconds that are left."""
        return self.until - time.monotonic()

    def save(self) -> None:
        """Writes what is known."""
        beside = self.path.with_suffix(".json.part")
        try:
            beside.write_text(json.dumps(self.results, indent=1), "utf-8")
            os.replace(beside, self.path)
        except OSError as error:
            raise NotMeasured(f"results.json cannot be written: {error}")

    def entry(self, name: str) -> Dict[str, Any]:
        """What is known of a candidate."""
        fresh: Dict[str, Any] = {"status": "new", "why": "", "ms": {}}
        return dict.setdefault(self.results["candidates"], name, fresh)

    # A candidate that is refused, crashes or answers wrongly is a result, not the end.

    def build(self, name: str) -> None:
        """Builds an engine once."""
        entry, one = self.entry(name), self.bundle.candidates[name]
        engine = self.path_of(name, "engine")
        if entry["status"] != "new" and (engine.is_file() or entry["status"] not in ("built", "right")):
            return
        words = [f"--onnx={self.bundle.folder / one['file']}", f"--saveEngine={engine}", *one["build"]]
        if self.bundle.manifest["explains"]:
            words += ["--profilingVerbosity=detailed", "--dumpProfile", "--separateProfileRun"]
            words += ["--iterations=10", f"--exportLayerInfo={self.path_of(name, 'layers.json')}"]
            words += [f"--exportProfile={self.path_of(name, 'times.json')}"]
        self.say(f"building {name}")
        since = time.monotonic()
        code, text = self.built(words)
        self.path_of(name, "build.log").write_text(text, "utf-8")
        entry["build_seconds"] = round(time.monotonic() - since, 1)
        done = code == 0 and engine.is_file()
        entry["status"], entry["why"] = ("built", "") if done else failed(code, text)
        self.save()

    def path_of(self, name: str, ending: str) -> Path:
        """A file beside a candidate."""
        return self.bundle.folder / f"{name}.{ending}"

    def built(self, words: List[str]) -> Tuple[int, str]:
        """What comes of building an engine."""
        if not any(word.startswith("--exportProfile") for word in words):
            words = [*words, "--skipInference" if self.tool.version >= (8, 5) else "--buildOnly"]
        code, text = self.tool.run(words, max(self.left, 1))
        if code and _NO_GPU.search(text):
            raise NotMeasured("there is no GPU here that TensorRT can use: run measure.py on the device")
        if code == 124 and self.left <= 1:
            raise TimeoutError
        return code, text

    def verify(self, name: str) -> None:
        """Compares what an engine answers with what the float model answered."""
        entry, one = self.entry(name), self.bundle.candidates[name]
        if entry["status"] != "built":
            return
        entry["outputs_db"] = {}
        power: Dict[str, List[float]] = {}
        for place, (inputs, wanted) in enumerate(self.bundle.samples()):
            code, text, found = self.answers(name, inputs, place)
            if code:
                entry["status"], entry["why"] = failed(code, text)
                break
            for output, values in wanted.items():
                if output not in found or found[output].size != values.size:
                    entry.update(status="wrong", why=f"it does not give output {output} as the model does")
                    break
                signal_power, noise = powers(values.ravel(), found[output])
                told = power.setdefault(output, [0.0, 0.0])
                told[0] += signal_power
                told[1] += noise
        if entry["status"] == "built":
            entry["outputs_db"] = {output: decibels(*both) for output, both in power.items()}
            entry["status"] = "right"
            for output, level in entry["outputs_db"].items():
                known = min(one["outputs_db"].get(output, 40.0), 40.0)  # so near it is in onnxruntime
                if not level >= (known - 6 if known > 12 else known / 2):
                    said = f"output {output} is {level:.1f} dB from the float model's, not {known:.1f} dB"
                    entry.update(status="wrong", why=said)
        self.save()

    def locate(self, name: str) -> None:
        """Names the first layer of a wrong engine that differs, and saves what it reads and gives.

        Ever fewer tensors are made outputs. As that changes what TensorRT fuses, the fault may hide: then fewer are.
        """
        entry = self.entry(name)
        if entry["status"] != "wrong" or "where" in entry:
            return
        held, limit = Tensors(self.path_of(name, "tensors.npz")), 0.0
        known, now = self.bundle.candidates[name]["outputs_db"], entry["outputs_db"]
        most_lost = max((min(40.0, known[key]) - now[key] for key in now), default=40.0)
        left, most = set(range(len(held.about))), MARKED
        while len(left) > 1 and most > 1:
            order = sorted(left)
            marks = {order[place] for place in np.linspace(0, len(order) - 1, most).astype(int).tolist()}
            marks |= {place for place in left if held.about[place]["output"]}
            self.say(f"looking for what is wrong in {name}: {len(left)} layers are left")
            found = self.marked(name, held, sorted(marks))
            if not found:
                break
            lost = {place: held.lost(place, values) for place, values in found.items()}
            if not limit:  # amid the widest gap between what lost nothing and what the outputs lost
                steps = np.unique(np.clip([0.0, most_lost, *lost.values()], 0.0, most_lost))
                limit = float((steps[:-1] + np.diff(steps) / 2)[np.argmax(np.diff(steps))])
            bad = min((place for place in lost if lost[place] > limit), default=None)
            before = held.above({place for place in lost if bad is not None and place < bad})
            fewer = left if bad is None else left & held.above({bad}) - before
            most //= 2 if fewer == left else 1
            left = fewer
        entry["where"] = self._where(name, held, sorted(left)) if left and len(left) < len(held.about) else ""
        self.save()

    def _where(self, name: str, held: Tensors, left: Sequence[int]) -> str:
        last = left[-1]
        node = "{node} ({op})".format(**held.about[last])
        if len(left) > 1:
            return f"one of {len(left)} layers that run together up to {node} differs"
        found = self.marked(name, held, [*held.about[last]["parents"], last])
        lost = held.lost(last, found[last]) if last in found else 0.0
        arrays: Dict[str, Any] = {held.about[place]["name"]: values for place, values in found.items()}
        arrays.update(("input " + key, values) for key, values in next(self.bundle.samples())[0].items())
        np.savez_compressed(self.path_of(name, "wrong.npz"), **arrays)
        return f"{node} is the first layer that differs, by {lost:.1f} dB: {name}.wrong.npz has what it reads"

    def marked(self, name: str, held: Tensors, places: Sequence[int]) -> Dict[int, np.ndarray]:
        """What the engine of a candidate gives for some tensors, for the first sample; {} where none is built."""
        one, own = self.bundle.candidates[name], f"{name}.marked"
        model, engine = self.path_of(own, "onnx"), self.path_of(own, "engine")
        more = [held.about[place] for place in places if not held.about[place]["output"]]
        try:
            model.write_bytes(with_outputs((self.bundle.folder / one["file"]).read_bytes(), more))
            code, _ = self.built([f"--onnx={model}", f"--saveEngine={engine}", *one["build"]])
            inputs, _ = next(self.bundle.samples())
            code, _, found = (code, "", {}) if code else self.answers(own, inputs, 0)
        finally:
            for path in (model, engine):
                if path.is_file():
                    path.unlink()
        named = {place: found.get(held.about[place]["name"]) for place in places}
        return {place: values for place, values in named.items() if values is not None and not code}

    def _fed(self, name: str, inputs: Arrays, place: int) -> List[str]:
        folder, given = self.bundle.folder / "fed", []
        folder.mkdir(exist_ok=True)
        if self._out.is_file():
            self._out.unlink()
        for number, (key, values) in enumerate(inputs.items()):
            narrow = values.dtype == np.int64 and self.tool.version < (9, 0)  # older ones bind them as int32
            path = folder / f"{place}.{number}.bin"
            (values.astype(np.int32) if narrow else values).tofile(str(path))
            given.append(f"{quoted(key)}:{path}")
        shapes = ",".join(f"{quoted(key)}:{'x'.join(map(str, one.shape))}" for key, one in inputs.items())
        return [
            *self._loaded(name, shapes), f"--loadInputs={','.join(given)}", f"--exportOutput={self._out}",
            "--warmUp=0", "--duration=0", "--iterations=1",
        ]  # fmt: skip

    def answers(self, name: str, inputs: Arrays, place: int) -> Tuple[int, str, Arrays]:
        """The exit code of a run of an engine, what it said, and its outputs."""
        code, text = self.tool.run(self._fed(name, inputs, place), min(300.0, max(self.left, 1)))
        if code and self.tool.graph:  # of one engine that cannot be captured none is
            self.tool.graph = False
            code, text = self.tool.run(self._fed(name, inputs, place), min(300.0, max(self.left, 1)))
        if code == 124 and self.left <= 1:
            raise TimeoutError
        try:
            held = json.loads(_NO_NUMBER.sub(lambda one: _JSON[one[0].lower()], self._out.read_text("utf-8")))
            return code, text, {one["name"]: np.array(one["values"], np.float64) for one in held}
        except (OSError, ValueError, KeyError, TypeError):
            return code, text, {}

    @property
    def _out(self) -> Path:
        return self.bundle.folder / "fed" / "out.json"

    def _loaded(self, name: str, shapes: str) -> List[str]:
        words = [f"--loadEngine={self.path_of(name, 'engine')}", *["--useCudaGraph"] * self.tool.graph]
        return [*words, f"--shapes={shapes}"] if self.bundle.manifest["dynamic"] else words

    def time(self, names: Sequence[str]) -> None:
        """Times engines in turns, in another order each round, until they are told apart or the time is over."""
        done = min((len(self.entry(name)["ms"]) for name in names), default=0)
        for number in range(done, ROUNDS[1]):
            if number >= ROUNDS[0] and apart(self.times(names)):
                break
            turn = number % len(names)
            for name in (*names[turn:], *names[:turn]):
                if self.left < 2:
                    raise TimeoutError
                ms = self._timed(name)
                if ms is None:
                    self.entry(name).update(status="failed", why="its engine does not run any more")
                    self.save()
                    self.time([one for one in names if one != name])
                    return
                self.entry(name)["ms"][str(number)] = ms
            self.results.setdefault("clocks", {})[str(number)] = clocks()
            self.save()
            took = ", ".join(f"{name} {self.entry(name)['ms'][str(number)]:.3f} ms" for name in names)
            self.say(f"round {number + 1}: {took}")

    def _timed(self, name: str) -> Optional[float]:
        """The median of an engine's runs on the GPU, ms; None: it does not run."""
        file = self.bundle.folder / "fed" / "times.json"
        words = [*self._loaded(name, self.bundle.manifest["dynamic"]), f"--exportTimes={file}", *TIMED]
        file.parent.mkdir(exist_ok=True)
        if file.is_file():
            file.unlink()
        code, _ = self.tool.run(words, min(120.0, max(self.left, 1)))
        if code == 124 and self.left <= 1:
            raise TimeoutError
        try:
            runs = [float(one["computeMs"]) for one in json.loads(file.read_text("utf-8"))]
        except (OSError, ValueError, KeyError, TypeError):
            return None
        return float(np.median(runs)) if code == 0 and runs else None

    def times(self, names: Sequence[str]) -> Dict[str, List[float]]:
        """The times of the rounds that all of them ran in, ms."""
        return common({name: self.entry(name)["ms"] for name in names})

    def run(self) -> List[str]:
        """Builds, compares and times; the answer, in lines."""
        late, names = False, list(self.bundle.candidates)
        try:
            for name in names:
                self.build(name)
            for name in names:
                self.verify(name)
            right = [name for name in names if self.entry(name)["status"] == "right"]
            if len(right) > 1:
                self.time(right)
            for name in names:
                self.locate(name)
        except TimeoutError:
            late = True
        right = [name for name in names if self.entry(name)["status"] == "right"]
        self.results["answer"], self.results["chosen"] = answer(self, right, late=late)
        self.save()
        return list(self.results["answer"])


def common(ran: Dict[str, Dict[str, float]]) -> Dict[str, List[float]]:
    """The times of the rounds that all ran in, in order."""
    took = [{number for number, ms in one.items() if 0 < ms < math.inf} for one in ran.values()]
    rounds = sorted(set.intersection(*took), key=int) if ran else []
    return {name: [one[number] for number in rounds] for name, one in ran.items()}


def failed(code: int, text: str) -> Tuple[str, str]:
    """What came of a process: how it ended, and the last error that it told."""
    errors = [line for line in text.splitlines() if "[E]" in line or "rror" in line]
    said = re.sub(r"^(?:\[[^\]]*\] )+", "", errors[-1].strip())[:300] if errors else f"it ended with {code}"
    if code == 124:
        return "late", "it took longer than the time that is left"
    died = code < 0 or code > 128
    return ("crashed", f"it was ended by signal {-code}: {said}") if died else ("refused", said)


def quoted(name: str) -> str:
    """A name as trtexec takes it in its lists."""
    return f"'{name}'" if ":" in name or "," in name else name


def powers(wanted: np.ndarray, found: np.ndarray) -> Tuple[float, float]:
    """The power of what is wanted about its mean, and that of the difference; where the float model is finite."""
    finite = np.isfinite(wanted)
    wanted, found = wanted[finite].astype(np.float64), found[finite]
    if not wanted.size:
        return 0.0, 0.0
    noise = float(((wanted - found) ** 2).mean()) if np.isfinite(found).all() else math.inf
    return float(((wanted - wanted.mean()) ** 2).mean()), noise


def decibels(power: float, noise: float) -> float:
    """Their ratio, dB, at most 99.9."""
    if noise == 0:
        return 99.9
    return min(99.9, 10 * math.log10(max(power, 1e-30) / noise)) if math.isfinite(noise) else -99.9


# -- telling apart ------------------------------------------------------------------------------------


def ratio(one: Sequence[float], other: Sequence[float]) -> Tuple[float, float, float]:
    """How long one takes beside the other, and the ends of its 95 % interval; of the same rounds.

    Clocks that drift move both times of a round: logarithms of their ratios are averaged.
    """
    logs = [math.log(a / b) for a, b in zip(one, other)]
    mean = sum(logs) / len(logs)
    free = len(logs) - 1
    if free < 1:
        return math.exp(mean), 0.0, math.inf
    spread = math.sqrt(sum((value - mean) ** 2 for value in logs) / free / len(logs))
    # Student's t: Abramowitz & Stegun, 26.7.5
    wide = spread * (1.96 + 2.37 / free + 2.82 / free**2 + 5.6 / free**3)
    return math.exp(mean), math.exp(mean - wide), math.exp(mean + wide)


def fastest(times: Dict[str, List[float]]) -> str:
    """The one with the least time."""
    return min(times, key=lambda name: sum(map(math.log, times[name])))


def apart(times: Dict[str, List[float]]) -> bool:
    """Whether the fastest is known: each other one is slower, or within half of `LEAST_GAIN` of it."""
    best = fastest(times)
    for name in times:
        _, low, high = ratio(times[name], times[best])
        if name != best and not (low > 1 or high < 1 + LEAST_GAIN / 2):
            return False
    return True


def answer(measuring: Measuring, right: Sequence[str], *, late: bool) -> Tuple[List[str], Optional[str]]:
    """Which file to use, how much faster it is, how near; and its name."""
    known, times = measuring.bundle.candidates, measuring.times(right)
    base, more = measuring.bundle.manifest["baseline"], []
    for name, entry in measuring.results["candidates"].items():
        if entry["status"] not in ("right", "new", "built"):
            said = "; ".join(filter(None, (entry["why"], entry.get("where"))))
            more.append(f"{name}: {entry['status']}: {said}")
    again = "The time was over before all was measured: run measure.py again, it goes on"
    if len(right) < 2 and not late:
        use = f"{known[right[0]]['file']}: no other" if right else "none of them: no"
        return [f"Use {use} engine is right", *more], right[0] if right else None
    if base not in right or not times[base]:
        why = again if late else f"{base} is not right, so nothing is known to be faster than it"
        return ["Not known: " + why, *more], None
    chosen, best = choose(times, base, {name: known[name]["near_db"] for name in right}), fastest(times)
    took, low, high = ratio(times[best if chosen == base else chosen], times[base])
    sure = f"({1 / high:.2f} to {1 / low:.2f}, {len(times[base])} rounds)"
    said = f"{1 / took:.2f} times as fast as {base} {sure}"
    if chosen == base:
        other = "" if best == base else f"; {best} is {said}"
        said = f"int8 gains less than {LEAST_GAIN:.0%} here, or it is not shown{other}"
    at = "on {device}, TensorRT {tensorrt}".format(**measuring.results)
    lines = [f"Use {known[chosen]['file']}: {said}", f"It takes {np.median(times[chosen]):.3f} ms {at}"]
    return [*lines, f"Measured where it was made: {known[chosen]['near']}", *[again] * late, *more], chosen


def choose(times: Dict[str, List[float]], base: str, near_db: Dict[str, float]) -> str:
    """The one to use: of those that are about as fast as the fastest the nearest to the float model.

    It is the baseline where that one gains less than `LEAST_GAIN`, or its gain is not shown.
    """
    best = fastest(times)
    near = [name for name in times if ratio(times[name], times[best])[0] < 1 + LEAST_GAIN / 2]
    chosen = max(near, key=lambda name: (name == base, near_db[name]))
    took, _, high = ratio(times[chosen], times[base])
    return chosen if took < 1 - LEAST_GAIN and high < 1 else base


# -- the machine --------------------------------------------------------------------------------------


def asked_of_gpu(fields: str) -> str:
    """What nvidia-smi says of the first GPU; "" where it is not there, as on Jetson."""
    try:
        done = subprocess.run(
            ["nvidia-smi", f"--query-gpu={fields}", "--format=csv,noheader"], stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL, timeout=20,
        )  # fmt: skip
    except (OSError, subprocess.SubprocessError):
        return ""
    lines = done.stdout.decode("utf-8", "replace").splitlines()
    return lines[0].strip() if done.returncode == 0 and lines else ""


def device_name() -> str:
    """The name of the GPU, or of the board."""
    board = Path("/proc/device-tree/model")
    if board.is_file():
        return board.read_text("utf-8", "replace").strip("\0 \n")
    return asked_of_gpu("name") or platform.node()


def clocks() -> str:
    """Clocks and temperature now; "" where nothing says them."""
    said = asked_of_gpu("clocks.sm,clocks.mem,temperature.gpu")
    zones = sorted(Path("/sys/class/thermal").glob("thermal_zone*/temp"))
    if said or not zones:
        return said
    try:
        return f"{max(int(zone.read_text()) for zone in zones) / 1000:.0f} C"
    except (OSError, ValueError):
        return ""


def main(words: Optional[Sequence[str]] = None) -> int:
    """Measures a bundle; the exit code: 0 answered, 1 not known, 2 it cannot be measured here."""
    parser = argparse.ArgumentParser(description="Measure the models of a bundle, and say which one to use.")
    add, own = parser.add_argument, Path(__file__).resolve().parent
    add("folder", nargs="?", type=Path, default=own, help="the bundle")
    add("--tool", metavar="PATH", help="trtexec, tensorrt_rtx, or a Python module; else what is found")
    add("--time-limit", type=float, default=1800, metavar="SECONDS", help="how long it may take; 1800")
    add("--any-version", action="store_true", help="measure with another TensorRT than the bundle's")
    words = sys.argv[1:] if words is None else words
    if words[:1] == [AS_TRTEXEC]:
        try:
            PythonTool(words[1], words[2:]).run()
        except Exception as error:  # as trtexec: one line, and what the module itself printed
            print(f"[E] {error}")
            return 1
        return 0
    asked = parser.parse_args(words)
    try:
        bundle = BundleFolder(asked.folder)
        bundle.check()
        wanted = str(bundle.manifest["tensorrt"])

        def fits(tool: Tool) -> bool:
            return not wanted or wanted.split(".") == [str(n) for n in tool.version[: wanted.count(".") + 1]]

        tool = Tool.find(asked.tool, bundle.manifest["tool"], fits)
        if not asked.any_version and not fits(tool):
            here = "{}.{}".format(*tool.version)
            other = f"make it with --target {here}, or give --any-version"
            raise NotMeasured(f"this is TensorRT {here}, and the bundle is for {wanted}: {other}")
        say = functools.partial(print, file=sys.stderr, flush=True)
        measuring = Measuring(bundle, tool, asked.time_limit, say)
        print("\n".join(measuring.run()))
    except NotMeasured as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("interrupted: run it again, it goes on", file=sys.stderr)
        return 130
    return 0 if measuring.results["chosen"] and measuring.results["answer"][0].startswith("Use") else 1


if __name__ == "__main__":
    sys.exit(main())
