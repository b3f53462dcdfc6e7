"""A process that is bound to some cores has as many threads."""

from __future__ import annotations

import os

import numpy as np
import onnx
import onnx.parser
import pytest

from onnxq.base.process import bound_cores, cores
from onnxq.repair.threads import Threads
from onnxq.run import opening, ort


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="the system binds no process")
def test_a_bound_process_has_fewer_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    had = os.sched_getaffinity(0)
    asked: list[int] = []
    made = opening.onnxruntime.InferenceSession

    def session(source: bytes, options: object, **more: object) -> object:
        asked.append(options.intra_op_num_threads)  # type: ignore[attr-defined]
        return made(source, options, **more)

    monkeypatch.setattr(opening.onnxruntime, "InferenceSession", session)
    model = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 17]> g (float[2] x) => (float[2] y) { y = Neg(x) }'
    )
    monkeypatch.setattr(os, "cpu_count", lambda: len(had) + 1)
    os.sched_setaffinity(0, {min(had)})
    try:
        assert (cores(), bound_cores()) == (1, 1)
        threads = Threads()
        assert threads.count == 1
        assert list(threads.map(abs, [-1, 2])) == [1, 2]
        (y,) = ort.load(model).run({"x": np.ones(2, np.float32)})
        assert y.tolist() == [-1, -1]
        ort.load(model, threads=3)
    finally:
        os.sched_setaffinity(0, had)
    assert asked == [1, 3]
    monkeypatch.setattr(os, "cpu_count", lambda: len(had))
    assert (cores(), bound_cores()) == (len(had), 0)
