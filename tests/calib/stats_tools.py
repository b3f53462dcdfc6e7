"""Statistics held against brute force, and against each other bit for bit."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx

from onnxq.calib.histogram import Histogram
from onnxq.calib.stats import Stats
from onnxq.calib.stats_file import Origin, StatsFile, to_bytes
from onnxq.data.samples import Sample
from onnxq.run import ort

ORIGIN = Origin("ab" * 32, "exact", 9, 12, 0, {"x": (1, 3)}, ())


def file_of(stats: Stats, origin: Origin = ORIGIN, **others) -> StatsFile:
    """A file of statistics; the hash of a sample is its index."""
    digests = np.zeros((stats.samples, 16), np.uint8)
    digests[:, 0] = stats.indices
    return StatsFile(stats, origin, digests, **others)


def content(stats: Stats) -> bytes:
    """Every bit of statistics but how long they took."""
    return to_bytes(file_of(stats))


def codes(values: np.ndarray) -> np.ndarray:
    """The bins of float32 magnitudes by the definition: their octave, and their place in it."""
    magnitudes = np.abs(values.astype(np.float64)).ravel()
    mantissa, exponent = np.frexp(magnitudes)
    normal = (exponent + 126) * 1024 + np.floor((2 * mantissa - 1) * 1024)
    return np.where(magnitudes < 2.0**-126, np.floor(magnitudes * 2.0**136), normal).astype(np.int64)


def counted(histogram: Histogram) -> dict[int, int]:
    """How many values each bin has that has any."""
    found = {histogram.first + i: int(n) for i, n in enumerate(histogram.counts) if n}
    return {0: histogram.zeros, **found} if histogram.zeros else found


def brute_counts(values: np.ndarray) -> dict[int, int]:
    """The same, of all values."""
    bins, counts = np.unique(codes(values), return_counts=True)
    return dict(zip(bins.tolist(), counts.tolist(), strict=True))


def activations(
    model: onnx.ModelProto, names: Sequence[str], samples: Sequence[Sample]
) -> dict[str, list[np.ndarray]]:
    """Every value of tensors in each sample, as float32."""
    taps = onnx.GraphProto()
    for i, name in enumerate(names):
        taps.node.append(onnx.helper.make_node("Cast", [name], [f"tap{i}"], to=onnx.TensorProto.FLOAT))
        taps.output.append(onnx.helper.make_tensor_value_info(f"tap{i}", onnx.TensorProto.FLOAT, None))
    session = ort.load(model, probes=taps)
    runs = [session.run(sample.feeds, [f"tap{i}" for i in range(len(names))]) for sample in samples]
    return {name: [run[i] for run in runs] for i, name in enumerate(names)}
