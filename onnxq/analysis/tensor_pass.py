"""One streaming pass over samples: the statistics of all tensors, and who makes NaN and infinities.

Calibration reduces inside the graph, where NaN is an error and channels have no histogram; here values leave
the graph, as many tensors at a time as memory should hold, and one sample at a time.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

import numpy as np
import onnx

from onnxq.analysis.kinds import open_kinds
from onnxq.analysis.tensors import CodeGrid, NotFinite, TensorTally, Written
from onnxq.base.errors import UserError
from onnxq.base.grouped import fitting
from onnxq.body.emulate import Emulated
from onnxq.data.samples import Sample
from onnxq.graph.deciders import or_freeze
from onnxq.graph.half import speaks_half
from onnxq.graph.model import Model
from onnxq.graph.pairs import DEQUANTIZE, QDQ
from onnxq.graph.source import copy_model
from onnxq.graph.types import Shape, is_float, is_static
from onnxq.graph.view import Tensor
from onnxq.run import ort
from onnxq.run.blame import at_fault

_LEAVING = 1 << 28  # bytes of values that leave the graph in one run
_UNKNOWN = 1 << 20  # elements that a tensor of unknown size is taken to have

_LAST = ("MatMul", "Gemm", "LayerNormalization", "Softmax", "Gelu")
_SECOND = (
    "Conv", "ConvTranspose", "BatchNormalization", "InstanceNormalization", "GroupNormalization", "PRelu",
    "MaxPool", "AveragePool", "GlobalAveragePool", "GlobalMaxPool", "Resize", "DepthToSpace", "SpaceToDepth",
)  # fmt: skip
_MOVES = (
    *QDQ,
    "Cast",
    "Identity",
    "Relu",
    "Clip",
    "Sigmoid",
    "Tanh",
    "Add",
    "Mul",
)


def written_tensors(model: Model) -> list[Written]:
    """The float tensors of the main graph that depend on inputs, in order; not those of DequantizeLinear."""
    written = []
    for tensor in model.inputs:
        if is_float(tensor.dtype):
            axis = channel_axis(tensor, tensor.shape)
            written.append(Written(tensor.name, str(tensor.dtype), "", "input", axis))
    more = open_kinds(model)
    fixed: set[str] = set()
    for node in model.nodes:
        read = [tensor for tensor in node.inputs if tensor is not None]
        if read and not node.has_body and all(t.is_constant or t.name in fixed for t in read):
            fixed.update(tensor.name for tensor in node.outputs)
            continue
        if node.op == DEQUANTIZE:
            continue
        for tensor in node.outputs:
            dtype, shape = more.get(tensor.name, (tensor.dtype, tensor.shape))
            if tensor.name and is_float(dtype):
                written.append(
                    Written(tensor.name, str(dtype), node.name, node.operator, channel_axis(tensor, shape))
                )
    return written


def channel_axis(tensor: Tensor, shape: Shape | None) -> int | None:
    """The axis of a tensor's channels, by who writes and reads it, else by its rank; None for fewer than two.

    The second axis next to convolutions and pooling, the last one next to matrix products; next to neither
    the last of two or three axes, and the second of more.
    """
    rank = None if shape is None else len(shape)
    if rank is None or rank < 2:
        return None
    for depth in (1, 3, 6):
        near = _near(tensor, depth)
        if near & set(_SECOND):
            return 1
        if near & set(_LAST):
            return rank - 1
    return rank - 1 if rank < 4 else 1


def _near(tensor: Tensor, depth: int) -> set[str]:
    """The operators around a tensor, looking through some that keep its layout."""
    operators: set[str] = set()
    front = [tensor]
    for _ in range(depth):
        following: list[Tensor] = []
        for one in front[:8]:
            maker = one.producer
            if maker is not None:
                operators.add(maker.op)
                if maker.op in _MOVES and maker.inputs and maker.inputs[0] is not None:
                    following.append(maker.inputs[0])
            for user in one.users:
                operators.add(user.op)
                if user.op in _MOVES:
                    following += user.outputs
        front = following
    return operators


class TensorPass:
    """The tallies of a model's tensors, while samples pass.

    Attributes:
        tallies: by tensor, those that are wanted.
        makers: who made NaN and infinities, by node and tensor.
        samples: how many samples were added.
    """

    def __init__(
        self,
        model: Model,
        written: Sequence[Written],
        wanted: Collection[str],
        grids: Mapping[str, CodeGrid],
        *,
        channels: bool = True,
        codes: bool = False,
        threads: int = 0,
    ) -> None:
        """Nothing is loaded yet.

        Args:
            model: the model.
            written: all its tensors that are floats.
            wanted: those of them that have tallies; the others are looked at for NaN and infinities.
            grids: how tensors are quantized.
            channels: whether channels are told apart.
            codes: whether codes are counted.
            threads: onnxruntime's threads inside an operator, 0 for all cores.
        """
        self._model, self._written, self._threads = model, list(written), threads
        self._proto = model.to_proto()
        self.tallies = {
            one.tensor: TensorTally(one.axis if channels else None, grids.get(one.tensor), codes=codes)
            for one in written
            if one.tensor in wanted
        }
        self.makers: dict[tuple[str, str], NotFinite] = {}
        self.samples = 0
        self._runs: list[tuple[ort.Session | Emulated, list[str]]] = []
        self._constants: dict[str, bool] = {}

    def take(
        self,
        samples: Iterable[Sample],
        *,
        progress: Callable[[int], None] = lambda done: None,
        skip: Callable[[Sample, UserError], None] | None = None,
    ) -> None:
        """Adds samples.

        Args:
            samples: what to run.
            progress: hears how many are done.
            skip: is given a sample that the model does not run on, and why; None: that is an error.

        Raises:
            UserError: the model does not run on a sample.
            ort.RunError: onnxruntime does not load the model.
        """
        for sample in samples:
            if not self._runs:
                self._load(sample)
            try:
                self._add(sample)
            except UserError as error:
                if skip is None:
                    raise
                skip(sample, error)
                continue
            self.samples += 1
            progress(self.samples)

    def _add(self, sample: Sample) -> None:
        """Runs all groups; the last sample's values are never there all at once."""
        odd: dict[str, tuple[int, int]] = {}
        for number, (session, names) in enumerate(self._runs):
            feeds = {name: sample.feeds[name] for name in session.inputs}
            try:
                values = session.run(feeds, names)
            except ort.RunError as error:
                if number:
                    raise
                raise UserError(
                    f"the model does not run on {sample.where}: {error}",
                    hint=_advice(session, feeds, self._proto),
                ) from error
            for name, value in zip(names, values, strict=True):
                self._look(name, value, odd)
        for name, value in sample.feeds.items():
            self._look(name, value, odd)
        if odd:
            self._blame(sample, odd)

    def _look(self, name: str, value: object, odd: dict[str, tuple[int, int]]) -> None:
        if not isinstance(value, np.ndarray) or not is_float(value.dtype):
            return
        if not np.isfinite(value).all():
            odd[name] = int(np.isnan(value).sum()), int(np.isinf(value).sum())
        if name in self.tallies:
            self.tallies[name].add(value)

    def _blame(self, sample: Sample, odd: Mapping[str, tuple[int, int]]) -> None:
        for tensor in self._model.inputs:
            if tensor.name in odd:
                self._note("", "input", tensor.name, odd[tensor.name], sample, "finite")
        for node in self._model.nodes:
            names = [tensor.name for tensor in node.reads]
            if any(name in odd for name in names):
                continue
            for name in (tensor.name for tensor in node.outputs):
                if name in odd:
                    kind = "finite"
                    if any(self._is_odd_constant(one) for one in names):
                        kind = "a constant that is not finite"
                    self._note(node.name, node.operator, name, odd[name], sample, kind)

    def _note(
        self, node: str, op: str, tensor: str, counts: tuple[int, int], sample: Sample, kind: str
    ) -> None:
        nan, inf = counts
        what = " and ".join(word for word, count in (("NaN", nan), ("infinite", inf)) if count)
        entry = NotFinite(node, op, tensor, what, nan + inf, sample.index, sample.where, kind)
        self.makers.setdefault((node, tensor), entry)

    def not_finite(self) -> tuple[NotFinite, ...]:
        """Who makes NaN and infinities, in the order of the model."""
        order = {one.tensor: place for place, one in enumerate(self._written)}
        return tuple(sorted(self.makers.values(), key=lambda one: order.get(one.tensor, -1)))

    def _is_odd_constant(self, name: str) -> bool:
        if name not in self._constants:
            tensor = self._model.tensors().get(name)
            values = None if tensor is None else tensor.constant
            odd = values is not None and is_float(values.dtype) and not np.isfinite(values).all()
            self._constants[name] = bool(odd)
        return self._constants[name]

    def _load(self, sample: Sample) -> None:
        """Sessions that give all tensors, in groups whose values fit into memory together."""
        self._model.set_typical_input({name: array.shape for name, array in sample.feeds.items()})
        tensors = self._model.tensors()

        def size(written: Written) -> int:
            shape = tensors[written.tensor].typical_shape
            return 4 * (math.prod(shape) if is_static(shape) else _UNKNOWN)

        sized = ((one, size(one)) for one in self._written if one.tensor not in sample.feeds)
        groups = fitting(sized, _LEAVING)
        self._runs = [(self._session(group), [written.tensor for written in group]) for group in groups]

    def _session(self, group: Sequence[Written]) -> ort.Session | Emulated:
        """A session that gives the tensors of a group as well, node by node."""
        outputs = {info.name for info in self._proto.graph.output}
        more = [written for written in group if written.tensor not in outputs]
        if speaks_half(
            self._proto, (onnx.TensorProto.BFLOAT16,)
        ):  # which onnxruntime neither takes nor gives
            model = copy_model(self._proto)
            for written in more:
                kind = onnx.helper.np_dtype_to_tensor_dtype(np.dtype(written.dtype))
                model.graph.output.append(onnx.helper.make_tensor_value_info(written.tensor, kind, None))
            return Emulated(model, threads=self._threads, data_dir=self._model.data_dir)
        probes = onnx.GraphProto(output=[onnx.ValueInfoProto(name=written.tensor) for written in more])
        return ort.load(
            self._proto, optimize=False, threads=self._threads, data_dir=self._model.data_dir, probes=probes
        )


def _advice(session: ort.Session | Emulated, feeds: Mapping[str, np.ndarray], model: onnx.ModelProto) -> str:
    return or_freeze(at_fault(session, feeds), model) if isinstance(session, ort.Session) else ""
