"""Min-max calibration against the plain forward passes, and onnxruntime's own calibrator beside it.

The samples take turns: the plain forward pass, then the calibrator, on one thread each, so that
whatever else the machine does meets both, and start-up is not in it. What a calibrator does after
the last sample is not in it either.
"""

from __future__ import annotations

import logging
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from onnxruntime.quantization import CalibrationDataReader, calibrate

from benchmarks import nets
from benchmarks.common import print_row, ratio_of
from onnxq.calib.collect import collect
from onnxq.calib.sources import InputSpec, open_source
from onnxq.graph.model import Model
from onnxq.quant.plan import make_plan
from onnxq.rule.load import load_rules, select
from onnxq.run import ort

SAMPLES, WARM_UP = 48, 4
SHAPE = (1, 3, 224, 224)


def main() -> None:
    print(f"calibration: CPU time of {SAMPLES} samples of 3 x 224 x 224, one thread, start-up taken out")
    for name, model, goal in (
        ("ResNet-18", nets.resnet18(), 1.25),
        ("MobileNetV2", nets.mobilenet_v2(), None),
    ):
        _compare(f"  {name}, onnxq min-max / forward passes", model, _onnxq, goal)
        _compare(f"  {name}, onnxruntime min-max / forward passes", model, _onnxruntime, None)


def _compare(
    what: str,
    model: onnx.ModelProto,
    calibrator: Callable[[onnx.ModelProto, Turns], None],
    goal: float | None,
) -> None:
    turns = Turns(model)
    calibrator(model, turns)
    plain, other = turns.plain[WARM_UP:], turns.other[WARM_UP:]
    ratio, _ = ratio_of(other, plain)
    print_row(what, ratio, goal, f"{1e3 * np.median(other):.1f} / {1e3 * np.median(plain):.1f} ms a sample")


class Turns:
    """Samples for a calibrator, each run through the plain model first.

    Attributes:
        plain: the CPU seconds of each plain forward pass.
        other: the CPU seconds from giving out a sample until the next one was asked for.
    """

    def __init__(self, model: onnx.ModelProto) -> None:
        self.plain: list[float] = []
        self.other: list[float] = []
        self._session = ort.load(model, threads=1)

    def __iter__(self) -> Iterator[dict[str, np.ndarray]]:
        random = np.random.default_rng(0)
        for _ in range(WARM_UP + SAMPLES):
            feeds = {"x": random.standard_normal(SHAPE, np.float32)}
            start = time.process_time()
            self._session.run(feeds)
            given = time.process_time()
            yield feeds
            self.plain.append(given - start)
            self.other.append(time.process_time() - given)


def _onnxq(model: onnx.ModelProto, turns: Turns) -> None:
    """Takes the ranges that `onnxq quantize` takes."""
    plan = make_plan(Model.open(model), select(load_rules()), ())
    inputs = [InputSpec("x", np.dtype(np.float32), SHAPE)]
    collect(model, plan.measured, open_source(iter(turns), inputs), threads=1)


class _Reader(CalibrationDataReader):
    def __init__(self, turns: Turns) -> None:
        self._rest = iter(turns)

    def get_next(self) -> dict[str, np.ndarray] | None:
        return next(self._rest, None)


def _onnxruntime(model: onnx.ModelProto, turns: Turns) -> None:
    """Takes the ranges that `onnxruntime.quantization.quantize_static` takes."""
    logging.getLogger().setLevel(logging.ERROR)  # it advises to preprocess the model
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL  # its own choice
    with tempfile.TemporaryDirectory() as folder:
        source, augmented = Path(folder, "model.onnx"), Path(folder, "augmented.onnx")
        onnx.save(model, source)
        calibrator = calibrate.create_calibrator(source, augmented_model_path=str(augmented))
        calibrator.infer_session = onnxruntime.InferenceSession(augmented, options)
        calibrator.collect_data(_Reader(turns))


if __name__ == "__main__":
    main()
