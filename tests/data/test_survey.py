"""What data look like: moments, shapes and repetitions equal those of numpy over all samples at once."""

from __future__ import annotations

import json
import tracemalloc

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onnxq.data.samples import InputSpec, Sample
from onnxq.data.survey import Moments, Survey
from onnxq.inspection.data_seen import InputSeen

F4 = np.dtype(np.float32)


def surveyed(spec: InputSpec, arrays) -> Survey:
    survey = Survey([spec])
    for index, array in enumerate(arrays):
        survey.add(Sample(index, f"{index}.npy", {spec.name: np.asarray(array, spec.dtype)}))
    return survey


@given(
    sizes=st.lists(st.integers(1, 9), min_size=1, max_size=6),
    rows=st.integers(1, 3),
    shift=st.sampled_from([0.0, -3.5, 1e6]),
    seed=st.integers(0, 99),
)
@settings(max_examples=50, deadline=None)
def test_moments_merge_to_those_of_all_values(sizes: list[int], rows: int, shift: float, seed: int) -> None:
    random = np.random.default_rng(seed)
    parts = [random.standard_normal((rows, size)) + shift for size in sizes]
    merged = Moments.of(parts[0])
    for part in parts[1:]:
        merged = merged.merged(Moments.of(part))
    everything = np.concatenate(parts, 1)
    np.testing.assert_allclose(merged.mean, everything.mean(1), rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(merged.std, everything.std(1), rtol=1e-9, atol=1e-9)
    assert merged.whole() == pytest.approx((everything.mean(), everything.std()), rel=1e-9, abs=1e-9)


@pytest.mark.parametrize(
    ("shape", "axis"), [((2, 3, 5, 7), 1), ((2, 5, 7, 3), 3), ((2, 1, 5, 7), 1)], ids=["NCHW", "NHWC", "gray"]
)
def test_an_input_of_images(shape: tuple[int, ...], axis: int) -> None:
    data = np.random.default_rng(0).standard_normal((6, *shape)).astype(np.float32)
    data[data < -1] = 0
    (entry,) = surveyed(InputSpec("x", F4, ("N", *shape[1:])), data).inputs
    told = InputSeen.of(entry).to_dict()
    values = data.astype(np.float64)
    assert (told["min"], told["max"]) == (values.min(), values.max())
    assert (told["mean"], told["std"]) == pytest.approx((values.mean(), values.std()), rel=1e-12)
    assert told["zeros"] == (values == 0).mean()
    assert told["shapes"] == [{"shape": list(shape), "samples": 6}]
    others = tuple(a for a in range(5) if a != axis + 1)
    assert [c["mean"] for c in told["channels"]] == pytest.approx(values.mean(others), rel=1e-12)
    assert [c["std"] for c in told["channels"]] == pytest.approx(values.std(others), rel=1e-12)


def test_shapes_that_vary() -> None:
    arrays = [np.ones((1, n), np.int64) * n for n in (3, 5, 3)]
    (entry,) = surveyed(InputSpec("ids", np.dtype(np.int64), ("N", "T")), arrays).inputs
    told = InputSeen.of(entry).to_dict()
    assert told["shapes"] == [{"shape": [1, 3], "samples": 2}, {"shape": [1, 5], "samples": 1}]
    assert told["channels"] is None
    assert told["mean"] == pytest.approx((9 + 25 + 9) / 11)


@pytest.mark.parametrize("dtype", [np.bool_, np.float16, ml_dtypes.bfloat16, np.uint8])
def test_other_types(dtype) -> None:
    (entry,) = surveyed(InputSpec("x", np.dtype(dtype), (1, 4)), [[[0, 1, 1, 1]]]).inputs
    told = InputSeen.of(entry).to_dict()
    assert (told["min"], told["max"], told["mean"], told["zeros"]) == (0, 1, 0.75, 0.25)


def test_what_has_no_numbers() -> None:
    text = surveyed(InputSpec("x", np.dtype(object), (2,)), [np.array(["a", "b"], object)] * 2)
    empty = surveyed(InputSpec("x", F4, ("N", 4)), [np.zeros((0, 4))])
    for survey in (text, empty):
        told = json.loads(json.dumps(InputSeen.of(survey.inputs[0]).to_dict(), allow_nan=False))
        assert told["min"] is told["mean"] is told["zeros"] is None
    assert text.repeated == 1


def test_samples_that_repeat() -> None:
    arrays = [np.full((1, 2), value) for value in (0, 1, 0, 2, 1, 0, 0)]
    survey = surveyed(InputSpec("x", F4, ("N", 2)), arrays)
    assert survey.repeated == 4
    assert survey.repeats == [("2.npy", "0.npy"), ("4.npy", "1.npy"), ("5.npy", "0.npy")]
    assert survey.inputs[0].constant == 7
    assert survey.inputs[0].constant_in == ["0.npy", "1.npy", "2.npy"]


def test_the_same_bytes_in_another_shape_are_another_sample() -> None:
    survey = surveyed(InputSpec("x", F4, ("N", "M")), [np.zeros((1, 4)), np.zeros((2, 2))])
    assert survey.repeated == 0
    assert survey.inputs[0].spread == np.inf


def test_spread_is_relative_to_the_first_sample() -> None:
    first = np.random.default_rng(0).standard_normal((1, 1000))
    survey = surveyed(InputSpec("x", np.dtype(np.float64), (1, 1000)), [first, first - 0.2, first + 0.1])
    assert survey.inputs[0].spread == pytest.approx(0.04 / first.var(), rel=1e-9)


def test_memory_does_not_grow_with_the_number_of_samples() -> None:
    random = np.random.default_rng(0)
    survey = Survey([InputSpec("x", F4, (1, 3, 64, 64))])
    tracemalloc.start()
    try:
        peaks = []
        for index in range(60):
            survey.add(Sample(index, "x", {"x": random.random((1, 3, 64, 64), np.float32)}))
            if index in (19, 59):
                peaks.append(tracemalloc.get_traced_memory()[1])
    finally:
        tracemalloc.stop()
    assert peaks[1] - peaks[0] < 49_152  # what one sample has
