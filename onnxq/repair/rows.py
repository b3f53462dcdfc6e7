"""Rows of the float model: samples of what its layers give, and the ends of channels, in one pass."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto

from onnxq.calib.probes import AddedNodes, makers, run_order, unused_prefix
from onnxq.graph.load import opset_of
from onnxq.repair.threads import Threads
from onnxq.run import ort
from onnxq.run.ort import Feeds
from onnxq.run.spill import Spill

_GOLDEN = 0x9E3779B97F4A7C15  # 2^64 / golden ratio: the fractions of its multiples are spread evenly
_SILVER = 0x6A09E667F3BCC909  # 2^64 (sqrt 2 - 1): where a sample begins
_BITS = 31  # a position is a fraction of so many bits


@dataclass(frozen=True, slots=True)
class ChannelEnds:
    """The least and the greatest value of each channel of a tensor, over samples.

    Attributes:
        low: float32 [channels].
        high: likewise.
    """

    low: np.ndarray
    high: np.ndarray

    @property
    def amax(self) -> np.ndarray:
        """The greatest magnitude of each channel, float32 [channels]."""
        return np.asarray(np.maximum(np.abs(self.low), np.abs(self.high)))

    def joined(self, other: ChannelEnds) -> ChannelEnds:
        """Those of the samples of both."""
        return ChannelEnds(np.minimum(self.low, other.low), np.maximum(self.high, other.high))


@dataclass(frozen=True, slots=True)
class Spot:
    """What a sample has of a layer.

    Attributes:
        rows: values, float32 [rows, channels], those of one image together.
        at: the positions that they are from, int64; each is of every image of the batch.
        places: how many positions there were.
    """

    rows: np.ndarray
    at: np.ndarray
    places: int


class FloatRows:
    """What one pass of the float model finds.

    Attributes:
        ends: of the channels of tensors.
        samples: how many samples there were.
    """

    def __init__(self, spill: Spill, ends: Mapping[str, ChannelEnds], samples: int) -> None:
        self._spill = spill
        self.ends, self.samples = ends, samples

    def places(self, tensor: str, sample: int) -> int | None:
        """How many positions a tensor had in a sample; None where it has no rows."""
        key = (FloatRows, tensor, sample, 2)
        return int(self._spill.get(key)) if self._spill.has(key) else None

    def count(self, tensor: str, sample: int) -> int:
        """How many rows there are of a tensor in a sample."""
        return self._spill.shape((FloatRows, tensor, sample, 0))[0]

    def of(self, tensor: str, sample: int) -> Spot:
        """The rows of a tensor in a sample."""
        return Spot(*(self._spill.get((FloatRows, tensor, sample, part)) for part in range(3)))


def float_rows(
    model: onnx.ModelProto,
    tensors: Mapping[str, int],
    ends: Mapping[str, tuple[int, int]],
    samples: Iterable[Feeds],
    each: int,
    spill: Spill,
    threads: Threads,
    *,
    data_dir: Any = None,
    progress: Callable[[int], None] = lambda done: None,
) -> FloatRows:
    """Runs the samples through a float model.

    Args:
        model: the model; what it has not of the tensors is left out.
        tensors: of which rows are taken: their channel axis, 1 or -1.
        ends: of which the ends of channels are taken: their channel axis, and their rank.
        samples: what is run.
        each: how many rows of a tensor are taken of a sample, about.
        spill: keeps them.
        threads: run the samples.
        data_dir: the folder of the model's external data.
        progress: hears how many samples are done.

    Raises:
        RunError: the model does not run on a sample.
    """
    made_by, order = makers(model.graph), run_order(model.graph)
    tensors = {name: axis for name, axis in tensors.items() if name in made_by}
    ends = {name: place for name, place in ends.items() if name in made_by}
    opset = opset_of(model)
    names = list(dict.fromkeys((*tensors, *ends)))

    prefix = unused_prefix(model.graph, "onnxq_fit_")

    def probes(floats: Collection[str]) -> onnx.GraphProto:
        return _Probes(prefix, order, tensors, ends, each, opset, floats).graph

    wanted = [value.name for value in probes(()).output]
    session = ort.load_probed(model, names, probes, threads=1, data_dir=data_dir) if names else None

    def one(numbered: tuple[int, Feeds]) -> dict[str, np.ndarray]:
        index, feeds = numbered
        assert session is not None
        fractions = {f"{prefix}fractions": _fractions(index, each)} if tensors else {}
        taken = {name: feeds[name] for name in session.inputs if name in feeds}
        return dict(zip(wanted, session.run({**taken, **fractions}, wanted), strict=True))

    channels: dict[str, ChannelEnds] = {}
    count = 0
    if session is None:
        return FloatRows(spill, channels, sum(1 for _ in samples))
    for sample, values in enumerate(threads.map(one, enumerate(samples))):
        for place, name in enumerate(tensors):
            parts = (values[f"{prefix}{what}{place}"] for what in ("rows", "at", "places"))
            rows, at, places = parts
            if tensors[name] == 1:  # [batch x channels, positions]
                rows = rows.reshape(-1, _channels_of(values, prefix, place), len(at)).transpose(0, 2, 1)
                rows = np.ascontiguousarray(rows.reshape(-1, rows.shape[2]))
            for part, value in enumerate((rows, at, int(places.reshape(-1)[0]))):
                spill.put((FloatRows, name, sample, part), value)
        for place, name in enumerate(ends):
            new = ChannelEnds(*(np.ravel(values[f"{prefix}{what}{place}"]) for what in ("low", "high")))
            if new.low.size:
                channels[name] = channels[name].joined(new) if name in channels else new
        count += 1
        progress(count)
    return FloatRows(spill, channels, count)


def _channels_of(values: Mapping[str, np.ndarray], prefix: str, place: int) -> int:
    return max(1, int(values[f"{prefix}channels{place}"].reshape(-1)[0]))


def _fractions(sample: int, count: int) -> np.ndarray:
    """Fractions of 2^31, evenly spread, which begin elsewhere in each sample: int64 [count]."""
    begin = sample * _SILVER
    fractions = [((place * _GOLDEN + begin) % (1 << 64)) >> (64 - _BITS) for place in range(count)]
    return np.array(fractions, np.int64)


class _Probes(AddedNodes):
    """Nodes that gather rows, and reduce channels, behind the tensors of a model."""

    def __init__(
        self,
        prefix: str,
        order: Mapping[str, int],
        tensors: Mapping[str, int],
        ends: Mapping[str, tuple[int, int]],
        each: int,
        opset: int,
        floats: Collection[str],
    ) -> None:
        super().__init__(prefix, opset)
        self._floats = frozenset(floats)
        if tensors:
            self._input(f"{self._prefix}fractions", each)
            for name, values in (
                ("zero", [0]), ("one", [1]), ("two", [2]), ("scale", [1 << _BITS]), ("most", [each]),
                ("count", range(each)),
            ):  # fmt: skip
                self._constant(name, values)
        jobs = [(name, place, True) for place, name in enumerate(tensors)]
        jobs += [(name, place, False) for place, name in enumerate(ends)]
        # the last first, as in calibration: onnxruntime then reduces a tensor as soon as it is there
        for name, place, rows in sorted(jobs, key=lambda job: order.get(job[0], -1), reverse=True):
            if rows:
                self._rows(name, place, tensors[name])
            else:
                self._ends(name, place, *ends[name])
        for place, name in enumerate(tensors):
            self._output(f"rows{place}", TensorProto.FLOAT)
            self._output(f"at{place}", TensorProto.INT64)
            self._output(f"places{place}", TensorProto.INT64)
            if tensors[name] == 1:
                self._output(f"channels{place}", TensorProto.INT64)
        for place in range(len(ends)):
            self._output(f"low{place}", TensorProto.FLOAT)
            self._output(f"high{place}", TensorProto.FLOAT)

    def _rows(self, tensor: str, i: int, axis: int) -> None:
        prefix = self._prefix
        zero, one, two, each = (f"{prefix}{name}" for name in ("zero", "one", "two", "most"))
        flat = self._node("Flatten", [tensor], f"flat{i}", axis=2 if axis == 1 else -1)
        shape = self._node("Shape", [flat], f"shape{i}")
        first = self._node("Slice", [shape, zero, one], f"first{i}")
        if axis == 1:  # [batch x channels, positions]
            places = self._node("Slice", [shape, one, two], f"places{i}")
            own = self._node("Shape", [tensor], f"own{i}")
            channels = self._node("Slice", [own, one, two], f"channels{i}")
            batch = self._node("Div", [first, self._node("Max", [channels, one], f"some{i}")], f"batch{i}")
            few = self._node("Div", [each, self._node("Max", [batch, one], f"images{i}")], f"few{i}")
            each = self._node("Max", [few, one], f"each{i}")
        else:
            places = self._node("Identity", [first], f"places{i}")
        count = self._node("Min", [each, places], f"number{i}")
        every = self._node("Slice", [f"{prefix}count", zero, count], f"every{i}")
        picked = self._node("Slice", [f"{prefix}fractions", zero, count], f"part{i}")
        wide = self._node("Mul", [picked, places], f"wide{i}")
        spread = self._node("Div", [wide, f"{prefix}scale"], f"spread{i}")
        fits = self._node("LessOrEqual", [places, each], f"fits{i}")
        at = self._node("Where", [fits, every, spread], f"at{i}")
        taken = self._node("Gather", [flat, at], f"taken{i}", axis=1 if axis == 1 else 0)
        as_float = "Identity" if tensor in self._floats else "Cast"
        attrs = {} if tensor in self._floats else {"to": TensorProto.FLOAT}
        self._node(as_float, [taken], f"rows{i}", **attrs)

    def _ends(self, tensor: str, i: int, axis: int, rank: int) -> None:
        if tensor not in self._floats:
            tensor = self._node("Cast", [tensor], f"end{i}", to=TensorProto.FLOAT)
        axes = [other for other in range(rank) if other != axis % rank]
        for op, what in (("ReduceMin", "low"), ("ReduceMax", "high")):
            self._reduce_to_channels(op, tensor, f"{what}{i}", axes)
