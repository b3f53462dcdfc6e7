"""Runs another tool's calibrator; run by the Python of an environment that has it.

    python peer_calibrators.py TOOL METHOD MODEL SAMPLES COUNT {time|memory} LIMIT

SAMPLES is a folder of .npz files, one for each sample, taken again from the first where COUNT is
larger. Prints a JSON document, with `time` the CPU time of the calibrator over that of the plain forward
passes (`ratio`) and of one of those (`plain_ms`), with `memory` the peak of the process (`peak_mib`). It
has the error instead, as `stopped` where more than LIMIT MiB of private memory are wanted, else as `failed`.

With `time` the samples take turns: a plain forward pass, as onnxruntime does it by default, then the
calibrator with its own choices, on one thread each, so that whatever else the machine does meets both.
What a calibrator does with the samples after the last of them counts, its start-up and its search for
thresholds do not.
"""

from __future__ import annotations

import contextlib
import importlib
import itertools
import json
import logging
import resource
import statistics
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
from onnxruntime.quantization import CalibrationDataReader, calibrate

WARM_UP = 4


class _OneThread(onnxruntime.SessionOptions):
    def __init__(self) -> None:
        super().__init__()
        self.intra_op_num_threads = 1
        self.log_severity_level = 4


class _AllSeen(Exception):
    """The calibrator has taken in every sample; what its tool does next is another matter."""


class _Reader(CalibrationDataReader):
    """Gives the samples out.

    Attributes:
        plain: CPU seconds of the plain forward pass of each sample, none without a plain model.
        taken: CPU seconds from giving out each sample until the next one was asked for.
    """

    def __init__(self, paths: list[Path], plain: Path | None, *, leave: bool) -> None:
        """A reader.

        Args:
            paths: the samples, read one by one.
            plain: the model to run first, if any.
            leave: whether to raise `_AllSeen` when there is none left.
        """
        self._paths = paths
        self._session = None if plain is None else onnxruntime.InferenceSession(plain, _OneThread())
        self._leave = leave
        self._given = 0.0
        self.plain: list[float] = []
        self.taken: list[float] = []
        self._next = 0

    def get_next(self) -> dict[str, np.ndarray] | None:
        if self._next:
            self.taken.append(time.process_time() - self._given)
        if self._next == len(self._paths):
            if self._leave:
                raise _AllSeen
            self._given = time.process_time()
            return None
        feeds = dict(np.load(self._paths[self._next]))
        self._next += 1
        if self._session is not None:
            start = time.process_time()
            self._session.run(None, feeds)
            self.plain.append(time.process_time() - start)
        self._given = time.process_time()
        return feeds

    def get_first(self) -> dict[str, np.ndarray]:  # asked for by Model-Optimizer
        return dict(np.load(self._paths[0]))

    def rewind(self) -> None:  # likewise, before it calibrates
        pass

    @property
    def since(self) -> float:
        """CPU seconds since the last sample was done."""
        return time.process_time() - self._given


def onnxruntime_(method: str, model: Path, reader: _Reader) -> None:
    """What `onnxruntime.quantization.quantize_static` calibrates with."""
    calibrator = calibrate.create_calibrator(
        model,
        augmented_model_path=str(model.with_name("augmented.onnx")),
        calibrate_method=calibrate.CalibrationMethod[method],
    )
    calibrator.collect_data(reader)


def modelopt(method: str, model: Path, reader: _Reader) -> None:
    """What Model-Optimizer's `quantize` calibrates with."""
    importlib.import_module("modelopt.onnx.quantization").quantize(
        str(model),
        calibration_method=method,
        calibration_data_reader=reader,
        calibration_eps=["cpu"],
        high_precision_dtype="fp32",
        log_level="ERROR",
    )


def _measure(tool: str, method: str, model: Path, paths: list[Path], what: str) -> dict[str, Any]:
    reader = _Reader(paths, model if what == "time" else None, leave=tool == "modelopt")
    after = 0.0
    with contextlib.suppress(_AllSeen):
        {"onnxruntime": onnxruntime_, "modelopt": modelopt}[tool](method, model, reader)
        after = reader.since
    if what == "memory":
        peak = Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0]
        return {"peak_mib": int(peak) / 1024}
    plain, taken = reader.plain[WARM_UP:], reader.taken[WARM_UP:]
    usual = statistics.median(plain)
    ratio = statistics.median(b / a for a, b in zip(plain, taken, strict=True))
    return {"ratio": ratio + after / len(paths) / usual, "plain_ms": 1e3 * usual}


def _lacks_memory(error: Exception) -> bool:
    """Whether there was not memory enough: onnxruntime has no exception of its own for it."""
    return isinstance(error, MemoryError) or "alloc" in str(error)


def main() -> None:
    tool, method, model, samples, count, what, limit = sys.argv[1:]
    onnxruntime.SessionOptions = _OneThread  # the calibrators make their own
    logging.getLogger().setLevel(logging.ERROR)  # onnxruntime's advises to preprocess the model
    if tool == "modelopt":
        importlib.import_module("modelopt.onnx.quantization")  # it may map much, which is not limited
    resource.setrlimit(resource.RLIMIT_DATA, (int(limit) << 20,) * 2)
    paths = list(itertools.islice(itertools.cycle(sorted(Path(samples).glob("*.npz"))), int(count)))
    try:
        found = _measure(tool, method, Path(model), paths, what)
    except Exception as error:
        message = str(error).strip().split("\n")[0]
        found = {"stopped" if _lacks_memory(error) else "failed": f"{type(error).__name__}: {message}"}
    print(json.dumps(found))


if __name__ == "__main__":
    main()
