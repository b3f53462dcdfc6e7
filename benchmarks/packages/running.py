"""Runs a model, float or with Q/DQ pairs, as it is written: pairs are not fused, and one thread computes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
import onnxruntime

Feeds = dict[str, np.ndarray]
Outputs = dict[str, np.ndarray]


class Runner:
    """A model that is loaded once."""

    def __init__(self, model: Path | onnx.ModelProto) -> None:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.log_severity_level = 3
        options.add_session_config_entry("session.disable_quant_qdq", "1")
        source = str(model) if isinstance(model, Path) else model.SerializeToString()
        self._session = onnxruntime.InferenceSession(source, options, providers=["CPUExecutionProvider"])
        self._inputs = {one.name for one in self._session.get_inputs()}
        self._names = [one.name for one in self._session.get_outputs()]

    def __call__(self, feeds: Feeds) -> Outputs:
        """Its outputs, by name."""
        given = {name: value for name, value in feeds.items() if name in self._inputs}
        return dict(zip(self._names, self._session.run(self._names, given), strict=True))


class Noise:
    """The signal-to-noise ratio about the mean over samples, of the worst output."""

    def __init__(self) -> None:
        self._noise: dict[str, float] = {}
        self._powers: dict[str, float] = {}
        self._sums: dict[str, np.ndarray] = {}
        self._count = 0

    def add(self, exact: Outputs, given: Outputs) -> None:
        """Counts a sample's outputs, the float model's and a candidate's."""
        self._count += 1
        for (name, one), other in zip(exact.items(), given.values(), strict=True):
            if one.dtype.kind != "f":
                continue
            wanted = one.astype(np.float64)
            self._noise[name] = self._noise.get(name, 0.0) + float(np.square(other - wanted).sum())
            self._powers[name] = self._powers.get(name, 0.0) + float(np.square(wanted).sum())
            if name not in self._sums:
                self._sums[name] = wanted
            elif self._sums[name].shape == wanted.shape:
                self._sums[name] = self._sums[name] + wanted

    def worst(self) -> float:
        """The ratio, dB; infinite where no output changes."""
        return min(self._ratios(), default=np.inf)

    def _ratios(self) -> Iterator[float]:
        for name, noise in self._noise.items():
            signal = self._powers[name] - float(np.square(self._sums[name]).sum()) / self._count
            if signal > 1e-9 * self._powers[name] > 0:
                yield 10 * float(np.log10(signal / noise)) if noise else np.inf
