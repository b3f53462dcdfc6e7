"""A stand-in for TensorRT's Python module, and the driver's library behind it; of the world of `trtexec.py`.

What an engine answers and takes is as there. Addresses are of this process, so that a wrong one ends it.
"""

import contextlib
import ctypes
import json
import os
import sys
import tempfile
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))
import trtexec

WORLD = Path(os.environ["ONNXQ_STANDIN"])
world = json.loads(WORLD.read_text())
number = world.get("version", 100300)
major = number // (10000 if number >= 100000 else 1000)
__version__ = f"{major}.{number % (10000 if number >= 100000 else 1000) // 100}.0.1"


class _Names:
    def __init__(self, *names):
        for place, name in enumerate(names):
            setattr(self, name, place)


NetworkDefinitionCreationFlag = _Names(*["EXPLICIT_BATCH"] * (major < 10))
BuilderFlag = _Names("FP16", "INT8", "FP8") if major < 11 else _Names()
TensorIOMode = _Names("NONE", "INPUT", "OUTPUT")
TensorLocation = _Names("DEVICE", "HOST")
ProfilingVerbosity = _Names("LAYER_NAMES_ONLY", "NONE", "DETAILED")
LayerInformationFormat = _Names("ONELINE", "JSON")
TYPES = {
    "tensor(float)": np.float32,
    "tensor(float16)": np.float16,
    "tensor(int64)": np.int64,
    "tensor(int32)": np.int32,
}
driver = None


def nptype(dtype):
    return dtype


class Logger:
    WARNING = 2

    def __init__(self, level):
        pass


class IProfiler:
    pass


class Network:
    onnx = ""


class OnnxParser:
    def __init__(self, network, log):
        self.network, self.num_errors = network, 1

    def parse_from_file(self, path):
        self.network.onnx = path
        return "refuse" not in world["candidates"][Path(path).stem.partition(".")[0]]

    def get_error(self, place):
        return type("Error", (), {"desc": lambda self: "could not find any implementation for node x"})()


class Profile(dict):
    def set_shape(self, name, least, usual, most):
        self[name] = least, usual, most


class Config:
    profiling_verbosity, flags, profile = 0, 0, None

    def set_flag(self, flag):
        self.flags |= 1 << flag

    def add_optimization_profile(self, profile):
        self.profile = profile


class Builder:
    def __init__(self, log):
        if not world.get("gpu", True):
            print("[TRT] [E] CUDA initialization failure with error: 35", flush=True)
            raise TypeError("pybind11::init(): factory function returned nullptr")

    def create_network(self, flags):
        assert flags == (1 if major < 10 else 0)
        return Network()

    def create_builder_config(self):
        return Config()

    def create_optimization_profile(self):
        return Profile()

    def build_serialized_network(self, network, config):
        assert config.profiling_verbosity == ProfilingVerbosity.DETAILED
        words = {"saveEngine": "e", "exportLayerInfo": "l", "exportProfile": "p"}
        with tempfile.TemporaryDirectory() as folder:
            words = {"onnx": network.onnx, **{key: f"{folder}/{name}" for key, name in words.items()}}
            with contextlib.redirect_stdout(sys.stderr):
                if trtexec.build(words, world):
                    return None
            return json.dumps([Path(folder, name).read_text() for name in "elp"]).encode()


class Runtime:
    def __init__(self, log):
        pass

    def deserialize_cuda_engine(self, content):
        return Engine(*json.loads(content))


class Engine:
    def __init__(self, engine, layers, times):
        import onnxruntime

        self.about, self.layers = json.loads(engine), layers
        self.times = {one["name"]: one["averageMs"] for one in json.loads(times)[1:]}
        self.told = world["candidates"][self.about["name"]]
        session = onnxruntime.InferenceSession(self.about["onnx"], providers=["CPUExecutionProvider"])
        self.ins = {one.name: one for one in session.get_inputs()}
        self.all = {**self.ins, **{one.name: one for one in session.get_outputs()}}
        self.num_io_tensors = len(self.all)

    def get_tensor_name(self, place):
        return [*self.all][::-1][place]

    def get_tensor_mode(self, name):
        return TensorIOMode.INPUT if name in self.ins else TensorIOMode.OUTPUT

    def get_tensor_location(self, name):
        return TensorLocation.DEVICE

    def get_tensor_dtype(self, name):
        return np.dtype(TYPES[self.all[name].type])

    def get_tensor_shape(self, name):
        return [size if isinstance(size, int) else -1 for size in self.all[name].shape]

    def create_execution_context(self):
        return Context(self)

    def create_engine_inspector(self):
        return type("Inspector", (), {"get_engine_information": lambda _, kind: self.layers})()


class Context:
    profiler = None

    def __init__(self, engine):
        self.engine, self.shapes, self.at = engine, {}, {}

    def set_input_shape(self, name, shape):
        self.shapes[name] = tuple(shape)

    def get_tensor_shape(self, name):
        return self.shapes[name] if name in self.shapes else self.run()[name].shape

    def set_tensor_address(self, name, address):
        self.at[name] = address

    def array(self, name):
        shape, dtype = self.shapes[name], self.engine.get_tensor_dtype(name)
        size = int(np.prod(shape)) * dtype.itemsize
        return np.frombuffer(ctypes.string_at(self.at[name], size), dtype).reshape(shape)

    def run(self):
        with tempfile.TemporaryDirectory() as folder:
            return self.answers(Path(folder))

    def answers(self, folder):
        given = []
        for name in self.engine.ins:
            self.array(name).tofile(str(folder / str(len(given)))) if name in self.at else None
            given.append(f"{name}:{folder / str(len(given))}")
        shapes = ",".join(f"{name}:{'x'.join(map(str, self.shapes[name]))}" for name in self.engine.ins)
        words = {"loadInputs": ",".join(given), "exportOutput": str(folder / "out"), "shapes": shapes}
        trtexec.answers(words, self.engine.about, self.engine.told)
        return {
            one["name"]: np.array(one["values"]).reshape([int(n) for n in one["dimensions"].split("x") if n])
            for one in json.loads((folder / "out").read_text())
        }

    def execute_async_v3(self, stream):
        assert stream == 7
        driver.launched = self.engine.told["ms"]
        if driver.capturing:
            if self.engine.told.get("no_graph"):
                return False
            driver.graph = self.engine.told["ms"]
            return True
        if self.profiler is not None:
            for name, ms in self.engine.times.items():
                self.profiler.report_layer_time(name, ms)
        for name, values in self.run().items():
            values = np.ascontiguousarray(values, self.engine.get_tensor_dtype(name))
            ctypes.memmove(self.at[name], values.ctypes.data, values.nbytes)
        return True


class Driver:
    """libcuda.so.1."""

    capturing, launched, graph = False, 0.0, 0.0

    def __init__(self):
        self.held = []

    def __getattr__(self, name):
        return getattr(type(self), "_" + name).__get__(self)

    def _cuInit(self, flags):
        return 0 if world.get("gpu", True) else 100

    def _cuDeviceGet(self, device, place):
        return 0

    def _cuDevicePrimaryCtxRetain(self, out, device):
        return self._hand(out, 5)

    def _cuCtxSetCurrent(self, context):
        assert context.value == 5
        return 0

    def _cuStreamCreate(self, out, flags):
        return self._hand(out, 7)

    def _cuEventCreate(self, out, flags):
        return self._hand(out, 9)

    def _hand(self, out, value):
        out._obj.value = value
        return 0

    def _cuMemAlloc_v2(self, out, size):
        self.held.append(ctypes.create_string_buffer(size.value))
        return self._hand(out, ctypes.addressof(self.held[-1]))

    def _cuMemcpyHtoD_v2(self, to, source, size):
        ctypes.memmove(to.value, source.value, size.value)
        return 0

    def _cuMemcpyDtoH_v2(self, to, source, size):
        ctypes.memmove(to.value, source.value, size.value)
        return 0

    def _cuStreamBeginCapture_v2(self, stream, mode):
        self.capturing = True
        return 0

    def _cuStreamEndCapture(self, stream, out):
        self.capturing = False
        return self._hand(out, 11)

    def _cuGraphInstantiateWithFlags(self, out, graph, flags):
        assert graph.value == 11
        return self._hand(out, 13)

    def _cuGraphLaunch(self, graph, stream):
        self.launched = self.graph
        return 0

    def _cuEventRecord(self, event, stream):
        return 0

    def _cuStreamSynchronize(self, stream):
        assert stream.value == 7
        return 0

    def _cuEventElapsedTime(self, out, start, end):
        out._obj.value = self.launched
        return 0


driver = Driver()
_library = ctypes.CDLL
ctypes.CDLL = lambda name, *words, **more: (
    driver if name == "libcuda.so.1" else _library(name, *words, **more)
)
