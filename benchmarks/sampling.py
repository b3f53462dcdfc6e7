"""What is lost by counting rotating rows instead of all values: thresholds of heavy-tailed tensors.

A tensor of 64 x 112 x 112 in 84 samples has 67 million values, of which every 16th row is counted, 4.2
million values. The error of a percentile is in proportion to that of all values; that of `mse` is the
squared error of quantization with its threshold over that with the threshold of all values.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from onnxq.calib.histogram import Histogram, HistogramCounter
from onnxq.calib.probes import Rows
from onnxq.calib.stats import TensorStats
from onnxq.quant.mse import noise
from onnxq.quant.thresholds import Method, threshold

SHAPE, SAMPLES, STEP, SEEDS = (64, 112, 112), 84, 16, 3
PERCENTILES = (99.9, 99.99, 99.999)
KINDS: dict[str, Callable[[np.random.Generator], np.ndarray]] = {
    "normal": lambda random: random.standard_normal(SHAPE, np.float32),
    "Laplace": lambda random: random.laplace(size=SHAPE).astype(np.float32),
    "Student's t, 5": lambda random: random.standard_t(5, SHAPE).astype(np.float32),
    "Student's t, 3": lambda random: random.standard_t(3, SHAPE).astype(np.float32),
}


def main() -> None:
    print(f"sampling: every {STEP}th row of {SAMPLES} samples against all values, worst of {SEEDS} seeds, %")
    print(f"{'':32}" + "".join(f"{f'percentile {p}':>20}" for p in PERCENTILES) + f"{'mse':>12}")
    for name, draw in KINDS.items():
        errors = np.array([_errors(draw, seed) for seed in range(SEEDS)])
        print(f"  {name:30}" + "".join(f"{100 * worst:>20.2f}" for worst in errors.max(0)[:-1]), end="")
        print(f"{100 * errors.max(0)[-1]:>12.2f}", flush=True)


def _errors(draw: Callable[[np.random.Generator], np.ndarray], seed: int) -> list[float]:
    """The error of each percentile and of `mse`."""
    random = np.random.default_rng(seed)
    every, counted = HistogramCounter(), HistogramCounter()
    amax = 0.0
    for index in range(SAMPLES):
        values = draw(random)
        every.add(values)
        counted.add(values[:, Rows.start(STEP, index) :: STEP])
        amax = max(amax, float(np.abs(values).max()))
    true, sampled = every.histogram(), counted.histogram()
    found = []
    for percentile in PERCENTILES:
        method = Method("percentile", percentile)
        a, b = (threshold(_stats(histogram, amax), method) for histogram in (true, sampled))
        found.append(abs(b / a - 1))
    a, b = (threshold(_stats(histogram, amax), Method("mse")) for histogram in (true, sampled))
    return [*found, noise(true, b) / noise(true, a) - 1]


def _stats(histogram: Histogram, amax: float) -> TensorStats:
    ends = np.array([amax], np.float32)
    return TensorStats(-ends, ends, histogram.total, None, None, histogram=histogram)


if __name__ == "__main__":
    main()
