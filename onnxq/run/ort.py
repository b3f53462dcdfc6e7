"""onnxruntime sessions: the only place that imports onnxruntime."""

from __future__ import annotations

import functools
import os
import re
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnxruntime.capi.onnxruntime_pybind11_state import OrtDevice, OrtValueVector
from threadpoolctl import threadpool_limits

from onnxq.base import interrupts
from onnxq.base.errors import OnnxqError, UserError
from onnxq.base.memory_bound import memory_bound
from onnxq.base.process import cores
from onnxq.graph.constants import tensor_bytes
from onnxq.graph.external import externalize
from onnxq.graph.half import rounded, speaks_half
from onnxq.graph.load import graphs, read, tensors
from onnxq.graph.loops import stoppable
from onnxq.graph.order import insert_early, put_in_order
from onnxq.graph.rooted import ROOT, read_beside
from onnxq.graph.spool import LARGE, weight_bytes
from onnxq.graph.types import dtype_of, elem_type_of
from onnxq.options.settings import Runtime
from onnxq.run import budget, own_ops
from onnxq.run.budget import Bounded as Bounded
from onnxq.run.budget import Budget, OverBudget
from onnxq.run.budget import Endless as Endless
from onnxq.run.budget import RunError as RunError
from onnxq.run.budget import made_up as made_up
from onnxq.run.opening import SessionSettings
from onnxq.run.own_ops import CutSession
from onnxq.run.trial import is_risky, open_session, try_in_child

_DATA_DIR = "session.model_external_initializers_file_folder_path"

Feeds = Mapping[str, np.ndarray]

# A model that holds more is given to onnxruntime as files, which it maps: as bytes it would be in
# memory four times (and protobuf does not write more than 2 GiB).
_INLINE = 1 << 23

# When it pays to optimize a model without its probes: from so many on, and where what that saves, for each
# two of them, is more than it takes to write the weights once more.
_MANY = 100
_PAIR_SECONDS, _BYTE_SECONDS = 1e-5, 3e-9

_PART_THREADS = 4  # a session each

# What Python sees of these is their bytes.
_FLOAT8_TYPES = (onnx.TensorProto.FLOAT8E4M3FN, onnx.TensorProto.FLOAT8E5M2)
_FLOAT8 = {f"tensor({onnx.TensorProto.DataType.Name(one).lower()})": dtype_of(one) for one in _FLOAT8_TYPES}


class Session:
    """A model loaded into onnxruntime.

    Attributes:
        inputs: names of the inputs that must be fed.
        outputs: names of the outputs.
        input_shapes: the shape of each input, with names or None where dynamic.
    """

    def __init__(self, session: onnxruntime.InferenceSession | CutSession, own: Budget) -> None:
        self._session = session
        self._budget = own
        self.inputs = tuple(value.name for value in session.get_inputs())
        self.input_shapes = {value.name: tuple(value.shape or ()) for value in session.get_inputs()}
        self.outputs = tuple(value.name for value in session.get_outputs())
        self._float8 = {v.name: _FLOAT8[v.type] for v in session.get_outputs() if v.type in _FLOAT8}
        tensors = () if isinstance(session, CutSession) else session.get_outputs()  # a chain runs on arrays
        self._tensors = {value.name for value in tensors if value.type.startswith("tensor")}

    def run(
        self,
        feeds: Mapping[str, np.ndarray],
        outputs: Sequence[str] | None = None,
        *,
        seconds: float | None = None,
    ) -> list[Any]:
        """Runs the model once.

        Args:
            feeds: an array for each input.
            outputs: the outputs wanted, all by default.
            seconds: after how long to give up, for a model that may never end; else see `Limits.seconds`.

        Returns:
            The outputs, in order: arrays (or lists of arrays where the type is a sequence).

        Raises:
            Endless: it did not end in time.
            OverBudget: on the user's data it takes more memory, or longer, than it may.
            RunError: onnxruntime refuses the feeds or fails in a node.
        """
        options = onnxruntime.RunOptions()
        options.log_severity_level = 4
        limits = self._budget.limits(feeds)
        if limits.is_large:  # else each session that is open keeps what its largest run took
            options.add_run_config_entry("memory.enable_memory_arena_shrinkage", "cpu:0")
        own = seconds is None
        seconds = limits.seconds if own else seconds

        def stop() -> None:
            options.terminate = True

        with interrupts.stopping(stop), _limit(seconds, stop), memory_bound(limits.bytes):
            try:
                given = {name: as_value(x) if _is_float8(x) else x for name, x in feeds.items()}
                found = self._session.run(outputs, given, options)
                kinds = [self._float8.get(name) for name in outputs or self.outputs]
                return [x if kind is None else x.view(kind) for x, kind in zip(found, kinds, strict=True)]
            except OnnxqError:  # of a function of the user's
                raise
            except Exception as error:  # onnxruntime raises a dozen classes without a common base
                if seconds is not None and options.terminate:
                    raise (self._budget.late(seconds) if own else _endless(seconds)) from error
                raise self._failed(error, feeds) from error

    def check(self, feeds: Mapping[str, np.ndarray]) -> None:
        """Refuses inputs for which a tensor is too large, see `Budget.check`; made-up ones, too."""
        self._budget.check(feeds)

    def run_each(
        self,
        feeds: Mapping[str, np.ndarray],
        settings: Sequence[Mapping[str, np.ndarray]],
        outputs: Sequence[str] | None = None,
    ) -> list[list[Any]]:
        """Runs the model once with each setting of further inputs; else as `run`."""
        return [self.run({**feeds, **setting}, outputs) for setting in settings]

    def run_values(self, given: Mapping[str, Any], outputs: Sequence[str]) -> list[Any]:
        """Runs the model once, on values of `as_value`, or what this gave; for tensors nothing is copied.

        Raises:
            RunError: as in `run`.
        """
        others = not self._tensors.issuperset(outputs) or not all(
            isinstance(v, _Value) for v in given.values()
        )
        # of what runs on values nothing is stopped: it holds Python's lock
        if others or self._budget.has_loop:
            feeds = {name: as_array(value) for name, value in given.items()}
            return [as_value(value) for value in self.run(feeds, outputs)]
        options = onnxruntime.RunOptions()
        options.log_severity_level = 4

        def stop() -> None:
            options.terminate = True

        with interrupts.stopping(stop):
            try:
                return _run_vector(self._session, given, outputs, options)
            except Exception as error:  # as in `run`
                raise self._failed(error, {}) from error

    def _failed(self, error: Exception, feeds: Mapping[str, Any]) -> OnnxqError:
        """The error of a run that failed."""
        text = _first_line(error)
        return self._budget.short(feeds, text) if _is_short(text) else RunError(text)


def _is_short(text: str) -> bool:
    """Whether a message of onnxruntime's is of memory that it did not get."""
    return "memory" in text or "bad_alloc" in text


def _endless(seconds: float) -> Endless:
    return Endless(f"it did not end in {seconds:.3g} s")


_Value = onnxruntime.OrtValue
_MEMORY = OrtDevice(OrtDevice.cpu(), OrtDevice.default_memory(), 0)


def _run_vector(
    session: onnxruntime.InferenceSession, given: Mapping[str, Any], outputs: Sequence[str], options: Any
) -> list[Any]:
    """A run of tensors as onnxruntime holds them.

    `run_with_ort_values` ends its walk over the outputs by an exception of C++, which takes longer than a
    small run: here they are asked for by number.
    """
    feeds, fetched = OrtValueVector(), OrtValueVector()
    for value in given.values():
        feeds.push_back(value._get_c_value())
    session.run_with_ortvaluevector(
        options, list(given), feeds, list(outputs), fetched, [_MEMORY] * len(outputs)
    )
    return [_Value(fetched[place]) for place in range(len(outputs))]


def as_value(value: Any) -> Any:
    """An array as onnxruntime holds it, which must not change any more; what is no tensor as it is."""
    if _is_float8(value):
        return _Value.ortvalue_from_numpy_with_onnx_type(value.view(np.uint8), elem_type_of(value.dtype))
    if not isinstance(value, np.ndarray) or value.dtype.kind not in "biuf":
        return value
    return _Value.ortvalue_from_numpy(np.ascontiguousarray(value).reshape(value.shape))


def as_array(value: Any) -> Any:
    """A copy of what a value of `as_value`, or of onnxruntime, holds; what is no tensor as it is."""
    if not isinstance(value, _Value):
        return value
    found = np.array(value.numpy())  # it may be an array's that goes
    return found.view(_FLOAT8.get(value.data_type(), found.dtype))


def _is_float8(value: Any) -> bool:
    return isinstance(value, np.ndarray) and value.dtype in _FLOAT8.values()


class Clock:
    """What is left of the time that several runs have together; without a limit, None."""

    def __init__(self, seconds: float | None) -> None:
        self._end = None if seconds is None else time.monotonic() + seconds

    def left(self) -> float | None:
        """Seconds."""
        return None if self._end is None else max(0.0, self._end - time.monotonic())


@contextmanager
def _limit(seconds: float | None, stop: Callable[[], None]) -> Iterator[None]:
    """Stops a run after so many seconds."""
    if seconds is None:
        yield
        return
    timer = threading.Timer(seconds, stop)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def load(
    model: onnx.ModelProto | Path,
    *,
    optimize: bool = True,
    threads: int = 0,
    data_dir: Path | None = None,
    probes: onnx.GraphProto | None = None,
    part: bool = False,
    large: bool = False,
) -> Session:
    """Loads a model into onnxruntime's CPU provider.

    Args:
        model: the model, or its file.
        optimize: whether onnxruntime may rewrite the graph; False computes node by node, and rounds what
            is of half precision after every node (see `onnxq.graph.half`).
        threads: threads inside an operator, 0 for all cores.
        data_dir: the folder of external data, for a model that is not a file.
        probes: nodes and outputs to add to the graph of a model that is not a file.
        part: whether the model is one of many that run in turns. Then they share the memory that they
            compute in. A quantized model is computed in float, its weights dequantized once.
        large: whether it is of a large model: it is rewritten as that is.

    Raises:
        RunError: onnxruntime does not take the model.
    """
    if isinstance(model, onnx.ModelProto):
        model = stoppable(model)
    settings = _settings(model, optimize, threads, large)
    if part:
        settings.config["session.disable_quant_qdq"] = "1"
        settings.threads = threads or min(cores(), _PART_THREADS)
        if _shared_arena():
            settings.config["session.use_env_allocators"] = "1"
    if not optimize:
        model, data_dir = _as_defined(model, data_dir)
    return _load(model, settings, data_dir, onnx.ModelProto(graph=probes))


@functools.cache
def _shared_arena() -> bool:
    """Makes the memory that parts share; False where this onnxruntime cannot."""
    kind = onnxruntime.OrtAllocatorType.ORT_ARENA_ALLOCATOR
    try:
        memory = onnxruntime.OrtMemoryInfo("Cpu", kind, 0, onnxruntime.OrtMemType.DEFAULT)
        # grown by what is asked for, not to the next power of two
        settings = onnxruntime.OrtArenaCfg({"arena_extend_strategy": 1})
        onnxruntime.create_and_register_allocator(memory, settings)
    except Exception:  # as in `Session.run`
        return False
    return True


def give_back() -> None:
    """Gives the memory that parts share back to the system, where no part is needed any more."""
    if not _shared_arena.cache_info().currsize or not _shared_arena():
        return
    session = _smallest()
    options = onnxruntime.RunOptions()
    options.add_run_config_entry("memory.enable_memory_arena_shrinkage", "cpu:0")
    session.run(None, {"x": np.zeros(1, np.float32)}, options)


@functools.cache
def _smallest() -> onnxruntime.InferenceSession:
    """A model that computes in the shared memory."""
    return SessionSettings("off", 1, config={"session.use_env_allocators": "1"}).open(_smallest_model())


def _smallest_model() -> bytes:
    info = onnx.helper.make_tensor_value_info
    graph = onnx.helper.make_graph(
        [onnx.helper.make_node("Neg", ["x"], ["y"])],
        "smallest",
        [info("x", onnx.TensorProto.FLOAT, [1])],
        [info("y", onnx.TensorProto.FLOAT, [1])],
    )
    opsets = [onnx.helper.make_opsetid("", 17)]
    made: bytes = onnx.helper.make_model(graph, opset_imports=opsets, ir_version=8).SerializeToString()
    return made


def load_probed(
    model: onnx.ModelProto,
    tensors: Sequence[str],
    probes: Callable[[Collection[str]], onnx.GraphProto],
    *,
    threads: int = 0,
    data_dir: Path | None = None,
) -> Session:
    """Loads a model with probes of many of its tensors, in a time that is linear in their number.

    Some of onnxruntime's optimizers take a time that is quadratic in the number of probes. Here they see
    none: the model is optimized with the tensors as outputs, which keeps them, and saved; then it is loaded
    as it is, with the probes in place of these outputs.

    Args:
        model: the model; it is not modified.
        tensors: what is probed.
        probes: makes the nodes and outputs to add, given which of the tensors are known to be float32.
        threads: as in `load`.
        data_dir: as in `load`.

    Raises:
        RunError: onnxruntime does not take the model.
    """
    saved = len(tensors) ** 2 * _PAIR_SECONDS
    if len(tensors) >= _MANY and saved > weight_bytes(model) * _BYTE_SECONDS:
        try:
            with interrupts.Folder() as folder:
                ready, kinds = optimized(model, tensors, threads, data_dir, Path(folder))
                floats = [name for name, kind in kinds.items() if kind == onnx.TensorProto.FLOAT]
                insert_early(ready.graph, probes(floats))
                settings = SessionSettings("off", threads, in_order=True, libraries=_libraries.get())
                return _load(ready, settings, Path(folder), onnx.ModelProto())
        except (RunError, OSError):  # such a model is loaded in one go, or is refused there
            pass
    return load(model, threads=threads, data_dir=data_dir, probes=probes(()))


def optimized(
    model: onnx.ModelProto, tensors: Sequence[str], threads: int, data_dir: Path | None, folder: Path
) -> tuple[onnx.ModelProto, dict[str, int]]:
    """A model as the optimizers leave it, its weights in a folder, and the element types of tensors.

    Args:
        model: the model; it is not modified.
        tensors: what is kept, and given out.
        threads: threads inside an operator, 0 for all cores.
        data_dir: the folder of its external data.
        folder: where the result's are.

    Raises:
        RunError: onnxruntime does not take the model.
    """
    outputs = [value.name for value in model.graph.output]
    more = onnx.ModelProto()
    for name in sorted({*tensors}.difference(outputs)):
        more.graph.output.add(name=name)
    settings = _settings(model, True, threads)
    settings.save = str(folder / "optimized.onnx")
    settings.config |= {
        "session.optimized_model_external_initializers_file_name": "optimized.data",
        "session.optimized_model_external_initializers_min_size_in_bytes": "1024",
        "session.disable_prepacking": "1",  # this session does not run
    }
    session = _load(model, settings, data_dir, more)
    result = onnx.load(settings.save, load_external_data=False)
    kinds = {value.name: value.type.tensor_type.elem_type for value in result.graph.output}
    kept = [value for value in result.graph.output if value.name in outputs]
    del result.graph.output[:]
    result.graph.output.extend(kept)
    # each constant of an old model is an input too, which stays where the constant is folded away
    known = {*session.inputs, *(tensor.name for tensor in result.graph.initializer)}
    inputs = [value for value in result.graph.input if value.name in known]
    del result.graph.input[:]
    result.graph.input.extend(inputs)
    return result, kinds


def _as_defined(
    model: onnx.ModelProto | Path, data_dir: Path | None
) -> tuple[onnx.ModelProto | Path, Path | None]:
    """The model, or a copy that rounds half precision after every node; and the folder of its data."""
    proto = onnx.load(model, load_external_data=False) if isinstance(model, Path) else model
    if not speaks_half(proto):
        return model, data_dir
    if isinstance(model, Path):
        proto, data_dir = read_beside(model)

    def inferred(part: onnx.ModelProto, names: list[str]) -> dict[str, int]:
        try:
            session = opened(part, names, data_dir)
        except RunError:
            return {}
        kinds = {name: kind.elem_type for name, kind in _types(session).items()}
        return {name: kinds[name] for name in names if name in kinds}

    return rounded(proto, inferred), data_dir


def try_as_written(model: onnx.ModelProto, data_dir: Path | None = None) -> None:
    """Loads a model as it is, half precision not rounded; on nothing of the user's.

    Raises:
        RunError: onnxruntime does not take it.
    """
    with made_up():
        _load(model, _settings(model, False, 1), data_dir, onnx.ModelProto())


def loads(model: onnx.ModelProto, data_dir: Path | None = None) -> bool:
    """Whether onnxruntime takes a model."""
    try:
        load(model, data_dir=data_dir)
    except RunError:
        return False
    except OverBudget:  # it would, with more
        return True
    return True


def _nameless(model: onnx.ModelProto) -> onnx.ModelProto:
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    for holder in (*graphs(copy.graph), *copy.functions):
        for node in holder.node:
            node.ClearField("name")
    return copy


_WARNING, _FATAL = 2, 4  # onnxruntime's levels; the first is its own default
_quiet = 0


@contextmanager
def quiet() -> Iterator[None]:
    """Keeps onnxruntime's own log from the terminal meanwhile; then it has its default level again.

    What proofs try makes kernels complain there; that they fail is an error that is caught anyway.
    """
    global _quiet
    _quiet += 1
    onnxruntime.set_default_logger_severity(_FATAL)
    try:
        yield
    finally:
        _quiet -= 1
        if not _quiet:
            onnxruntime.set_default_logger_severity(_WARNING)


_libraries: ContextVar[tuple[str, ...]] = ContextVar("libraries of custom operators", default=())


@contextmanager
def one_thread() -> Iterator[None]:
    """Gives numpy's products one thread each: several wait for each other longer than short sums take."""
    with threadpool_limits(1, "blas"):
        yield


@contextmanager
def custom_ops(libraries: Sequence[str | os.PathLike[str]]) -> Iterator[None]:
    """Registers libraries of custom operators for all models that are loaded meanwhile.

    It is `quiet`, and numpy's products have `one_thread`.

    Raises:
        UserError: there is no such file, or onnxruntime does not take it.
    """
    # of a name without a folder the system looks for a library of its own
    paths = tuple(os.path.abspath(path) for path in libraries)
    for given, library in zip(map(str, libraries), paths, strict=True):
        if not os.path.isfile(library):
            raise UserError(f"there is no operator library {given!r}", hint="check the path of --ort-ops")
        try:
            _try_library(library)
            onnxruntime.SessionOptions().register_custom_ops_library(library)
        except Exception as error:  # as in `Session.run`
            raise UserError(
                f"onnxruntime does not load the operator library {given!r}: {_first_line(error)}",
                hint="it must be built for this platform, with a function RegisterCustomOps",
            ) from error
    token = _libraries.set((*_libraries.get(), *paths))
    try:
        with quiet(), one_thread():
            yield
    finally:
        _libraries.reset(token)


@contextmanager
def running(said: Runtime) -> Iterator[None]:
    """What the user says of all runs meanwhile: operators, and what the largest tensor may take.

    Raises:
        UserError: see `custom_ops` and `own_ops.standing`.
    """
    with budget.largest(said.largest_bytes), custom_ops(said.ort_ops), own_ops.standing(said.ops):
        yield


def runs_as() -> Runtime:
    """What is said of all runs now, for `running` in another process."""
    return Runtime(ort_ops=_libraries.get(), ops=own_ops.paths(), largest=budget.stated_largest())


@functools.cache
def _try_library(library: str) -> None:
    """Has a process of its own load a library, once.

    Raises:
        Crashed: that process crashed.
    """
    try_in_child(_smallest_model(), SessionSettings(libraries=(library,)))


def has_more_operators() -> bool:
    """Whether there are operators beside onnxruntime's own now, of libraries or functions."""
    return bool(_libraries.get() or own_ops.paths())


def _settings(
    model: onnx.ModelProto | Path, optimize: bool, threads: int, large: bool = False
) -> SessionSettings:
    """How a model is loaded."""
    settings = SessionSettings("all" if optimize else "off", threads, libraries=_libraries.get())
    # else sums of products of 8 bits saturate in fused operators, on x86 processors without VNNI
    settings.config["session.x64quantprecision"] = "1"
    if optimize and (large or (isinstance(model, onnx.ModelProto) and weight_bytes(model) >= LARGE)):
        # not those that give convolutions another layout: while it loads, weights are there twice
        settings.level = "extended"
    if optimize and speaks_half(_proto(model), _FLOAT8_TYPES):
        # onnxruntime 1.32 takes a Relu in front of such a QuantizeLinear for one that does nothing, and fails
        # at a Clip there
        settings.config["optimization.disable_specified_optimizers"] = "ReluQuantRewrite;ClipQuantRewrite"
    if not optimize:
        settings.memory_pattern = False  # it costs more to plan than it saves in one run
        # packed constant weights are multiplied in another order than computed ones
        settings.config["session.disable_prepacking"] = "1"
    return settings


def _load(
    model: onnx.ModelProto | Path, settings: SessionSettings, data_dir: Path | None, more: onnx.ModelProto
) -> Session:
    """Loads a model, what there is more of it merged into it."""
    try:
        return _open(model, settings, data_dir, more)
    except RunError as error:
        if "two nodes with same node name" not in str(error):
            raise
    # ONNX allows it, and it changes nothing: such a model is run without names
    if isinstance(model, Path):
        model, data_dir = read_beside(model)
    return _open(_nameless(model), settings, data_dir, more)


def _open(
    model: onnx.ModelProto | Path, settings: SessionSettings, data_dir: Path | None, more: onnx.ModelProto
) -> Session:
    if own_ops.paths() and own_ops.own_nodes(_proto(model)):
        return _chained(model, settings, data_dir, more)
    if isinstance(model, Path):
        return _session(os.fspath(model), settings, _proto(model))
    added = more.SerializeToString()
    # serialized protobufs that are put together are merged (the protocol buffers specification)
    if _inline_bytes(model) <= _INLINE:
        if data_dir is not None:
            settings.config[_DATA_DIR] = os.fspath(data_dir)
        return _session(model.SerializeToString() + added, settings, model)
    with interrupts.Folder() as folder:
        path = Path(folder) / "model.onnx"
        path.write_bytes(externalize(model, path.with_suffix(".data"), data_dir).SerializeToString() + added)
        return _session(os.fspath(path), settings, model)


def _chained(
    model: onnx.ModelProto | Path, settings: SessionSettings, data_dir: Path | None, more: onnx.ModelProto
) -> Session:
    """A model in pieces, as functions of the user's stand for some of its nodes."""
    if settings.save:
        raise RunError("a model with functions for operators is not saved as onnxruntime rewrites it")
    if isinstance(model, Path):
        model, data_dir = read_beside(model)
    whole = onnx.ModelProto()
    whole.CopyFrom(model)
    whole.MergeFrom(more)
    put_in_order(whole.graph)

    def opened(piece: onnx.ModelProto) -> Any:
        return _open(piece, replace(settings), data_dir, onnx.ModelProto())._session

    return Session(CutSession(whole, opened, os.fspath(data_dir or "")), Budget(whole))


def _proto(model: onnx.ModelProto | Path) -> onnx.ModelProto:
    """The model of a file; an empty one where it cannot be read."""
    try:
        return read(model) if isinstance(model, Path) else model
    except UserError:  # onnxruntime says what is wrong with the file
        return onnx.ModelProto()


def _inline_bytes(model: onnx.ModelProto) -> int:
    """The size of the weights that a model holds itself (protobuf measures none over 2 GiB)."""
    held = (t for t in tensors(model.graph) if t.data_location != onnx.TensorProto.EXTERNAL)
    return sum(map(tensor_bytes, held))


def _session(source: bytes | str, settings: SessionSettings, proto: onnx.ModelProto) -> Session:
    folds = settings.level != "off"  # it computes constants while it loads
    risky = folds and is_risky(proto)
    own = Budget(proto)
    if folds and not budget.is_made_up():
        own.check({})
    most = own.loading_bytes()
    # memory that onnxruntime's own threads do not get ends the process
    if budget.is_made_up() or own.has_loop:
        settings.threads = 1
    try:
        with memory_bound(most):
            session = open_session(source, settings, risky)
        return Session(session, own)
    except Exception as error:  # as above
        text = _first_line(error)
        if most is not None and _is_short(text):
            raise own.short({}, text) from error
        unknown = "is not a registered function/op" in text
        hint = _GIVE if unknown else ""
        raise RunError(text, hint=hint) from error


_GIVE = "give a library of custom operators with --ort-ops LIB, or functions for them with --ops X.py"

_SOURCE = re.compile(
    r"\S+\.(?:h|hpp|cc|cpp|cu):\d+ (?:[^()]*::[^()]*\([^()]*\)(?: const)?(?: \[with [^\]]*\])? |\w+ )?"
)
"""Where in onnxruntime's own source an error is raised: of no use to who has a model."""


def _first_line(error: Exception) -> str:
    text = _SOURCE.sub("", str(error).strip())
    return text.splitlines()[0] if text else type(error).__name__


def output_types(model: onnx.ModelProto) -> dict[str, onnx.TypeProto]:
    """The types that onnxruntime infers for a model's outputs; of tensors only.

    Its own operators are known to it, not to ONNX. A model that it does not load has none.
    """
    try:
        session = load(model, optimize=False, threads=1)
    except RunError:
        return {}
    return types_of(session)


def opened(model: onnx.ModelProto, tensors: Iterable[str], data_dir: Path | None) -> Session:
    """A model as it is, that gives tensors beside its outputs; its weights stay in their file.

    Raises:
        RunError: onnxruntime does not take the model.
    """
    known = {value.name for value in model.graph.output}
    wanted = [onnx.ValueInfoProto(name=name) for name in tensors if name not in known]
    settings = _settings(model, False, 1)
    return _load(model, settings, data_dir, onnx.ModelProto(graph=onnx.GraphProto(output=wanted)))


def with_types(model: onnx.ModelProto, data_dir: Path | None) -> onnx.ModelProto:
    """A model that says what the functions of the user's give; itself where none stands for a node of it."""
    try:
        return own_ops.typed(model, lambda whole, names: types_of(opened(whole, names, data_dir)))
    except RunError:  # it does not run, which others say
        return model


def types_of(session: Session) -> dict[str, onnx.TypeProto]:
    """The types of a session's outputs; of tensors only."""
    return {name: onnx.TypeProto(tensor_type=kind) for name, kind in _types(session).items()}


def _types(session: Session) -> dict[str, onnx.TypeProto.Tensor]:
    """The types of a session's outputs; of tensors only."""
    found = {}
    for value in session._session.get_outputs():
        kind = re.fullmatch(r"tensor\((\w+)\)", value.type)  # as in tensor(float)
        if kind is not None:
            elem_type = onnx.TensorProto.DataType.Value(kind[1].upper())
            # no dimensions: a scalar, or onnxruntime does not know the rank
            made = onnx.helper.make_tensor_type_proto(elem_type, value.shape or None)
            found[value.name] = made.tensor_type
    return found


def evaluate(model: onnx.ModelProto) -> list[Any] | None:
    """The outputs of a model without inputs, None where onnxruntime does not run it.

    External data that it refers to is relative to the root folder.
    """
    if _inline_bytes(model) <= _MEMO_BYTES:
        return _evaluate(_unnamed(model).SerializeToString(), runs_as())
    return _run_once(model)


_MEMO_BYTES = 1 << 16
_MEMO = 8  # what is folded is proved next, and what stands beside it is often the same, by other names


@functools.lru_cache(maxsize=_MEMO)
def _evaluate(model: bytes, _: Runtime) -> list[Any] | None:
    found = _run_once(onnx.ModelProto.FromString(model))
    for array in found or ():
        if isinstance(array, np.ndarray):
            array.setflags(write=False)  # others get it, too
    return found


def _unnamed(model: onnx.ModelProto) -> onnx.ModelProto:
    """A copy in which names are numbers; one with bodies, which read by names, as it is."""
    bodies = any(one.HasField("g") or one.graphs for node in model.graph.node for one in node.attribute)
    if bodies or model.functions or model.graph.sparse_initializer:
        return model
    copy, names = onnx.ModelProto(), dict[str, str]()
    copy.CopyFrom(model)
    graph = copy.graph

    def numbered(name: str) -> str:
        return names.setdefault(name, str(len(names))) if name else ""

    graph.name = "graph"
    for node in graph.node:
        node.name = ""
        node.input[:], node.output[:] = map(numbered, node.input), map(numbered, node.output)
    for one in (*graph.initializer, *graph.input, *graph.output, *graph.value_info):
        one.name = numbered(one.name)
    return copy


def _run_once(model: onnx.ModelProto) -> list[Any] | None:
    try:
        with made_up():
            return load(model, optimize=False, threads=1, data_dir=ROOT).run({})
    except RunError:
        return None
