"""Models that are too large to be in memory twice."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import numpy_helper, parser

import onnxq
from onnxq.pipeline import verifying
from onnxq.run import ort
from onnxq.run.compare import Recording, compare_models


def model(count: int = 2, size: int = 64) -> onnx.ModelProto:
    body = "".join(f"a{i + 1} = MatMul (a{i}, w{i})" for i in range(count))
    proto = parser.parse_model(
        f"""<ir_version: 8, opset_import: ["" : 17]>
        g (float[N, 16, {size}] a0) => (float[N, 16, {size}] a{count}) {{ {body} }}"""
    )
    rng = np.random.default_rng(0)
    for i in range(count):
        weights = rng.standard_normal((size, size), np.float32) / 8
        proto.graph.initializer.append(numpy_helper.from_array(weights, f"w{i}"))
    return proto


def samples(count: int) -> list[dict[str, np.ndarray]]:
    rng = np.random.default_rng(1)
    return [{"a0": rng.standard_normal((1, 16, 64), np.float32)} for _ in range(count)]


def test_a_model_given_as_files_computes_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    (feeds,) = samples(1)
    wanted = ort.load(model()).run(feeds)
    monkeypatch.setattr(ort, "_INLINE", 0)
    probes = onnx.GraphProto(node=[onnx.helper.make_node("Neg", ["a1"], ["neg"])])
    probes.output.append(onnx.ValueInfoProto(name="neg"))
    session = ort.load(model(), probes=probes)
    assert session.outputs == ("a2", "neg")
    got = session.run(feeds)
    assert np.array_equal(got[0], wanted[0])


def test_a_recording_repeats_what_the_session_gave() -> None:
    session, feeds = ort.load(model()), samples(3)
    recording = Recording.of(session, feeds)
    (accuracy,) = compare_models(recording, session, feeds)
    assert (accuracy.samples, accuracy.equal) == (3, 1.0)
    (other,) = compare_models(Recording.of(session, feeds), session, feeds[::-1])
    assert (other.equal or 0) < 1


@pytest.mark.parametrize("most", [0, 1, 1 << 20])
def test_a_recording_runs_a_sample_once_and_closes_its_session(most: int) -> None:
    session, feeds = ort.load(model()), samples(4)
    opened, ran = [], []

    class Counted:
        def run(self, feeds: Mapping[str, np.ndarray], outputs: Sequence[str]) -> list[Any]:
            ran.append(id(feeds))
            return session.run(feeds, outputs)

    def load() -> Any:
        opened.append(Counted())
        return opened[-1]

    recording = Recording(load, session.outputs, most_bytes=most)
    for count in (2, 4, 4):
        recording.rewind()
        for one in feeds[:count]:
            assert np.array_equal(recording.run(one)[0], session.run(one)[0])
    kept = {0: 0, 1: 1, 1 << 20: 4}[most]  # what does not fit runs each time
    assert len(ran) == (4 if kept == 4 else 2 + 4 + 4 - kept - kept)
    assert len(opened) == (2 if kept == 4 else 3)  # the last time there is nothing to run
    recording.record(feeds)
    before = len(ran)
    assert [np.array_equal(recording.run(one)[0], session.run(one)[0]) for one in feeds] == [True] * 4
    assert len(ran) == before


def test_a_large_model_is_quantized_to_the_same_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    small = onnxq.quantize(model(), samples(9), compile=False)
    monkeypatch.setattr(verifying, "LARGE", 0)
    monkeypatch.setattr(ort, "_INLINE", 0)
    large = onnxq.quantize(model(), samples(9), compile=False)
    assert large.model == small.model
    assert large.report["accuracy"] == small.report["accuracy"]
