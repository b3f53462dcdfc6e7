"""The benchmarks' nets are what they are said to be, and so is what they are fed."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import onnx
import pytest

from benchmarks import nets
from benchmarks.nets import feeds, sizes
from onnxq.graph.model import Model
from onnxq.quant.placement import make_plan
from onnxq.rule.load import load_rules, select
from onnxq.run import ort

SAMPLES = 8
MULTIPLIED = ("Conv", "Gemm", "MatMul")


@pytest.fixture(scope="module")
def small() -> dict[str, onnx.ModelProto]:
    return {name: make(small=True) for name, make in nets.NETS.items()}


@pytest.mark.parametrize("name", nets.NETS)
def test_every_eligible_layer_becomes_int8(small: dict[str, onnx.ModelProto], name: str) -> None:
    onnx.checker.check_model(small[name], full_check=True)
    (sample,) = feeds.feeds(name, 0, 1, small=True)
    model = Model.open(small[name])
    model.set_typical_input({key: array.shape for key, array in sample.items()})
    plan = make_plan(model, select(load_rules()), ())
    assert plan.planned
    assert plan.int8_share == 1.0


@pytest.mark.parametrize("name", nets.NETS)
def test_activations_neither_die_nor_explode(small: dict[str, onnx.ModelProto], name: str) -> None:
    """Behind every product whose factor is constant, on samples that the weights were not made with."""
    model = small[name]
    constants = {tensor.name for tensor in model.graph.initializer}
    watched = [n.output[0] for n in model.graph.node if n.op_type in MULTIPLIED and n.input[1] in constants]
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    copy.graph.output.extend(onnx.ValueInfoProto(name=tensor) for tensor in watched)
    square = np.zeros(len(watched))
    session = ort.load(copy)
    for sample in feeds.feeds(name, 3, SAMPLES, small=True):
        square += [np.mean(np.square(array, dtype=np.float64)) for array in session.run(sample, watched)]
    root = np.sqrt(square / SAMPLES)
    bins = 15 if name == "yolov8n" else 1  # its last convolution is a mean over bins 0 to 15
    assert root.min() > 0.1
    assert root.max() < 4 * bins


@pytest.mark.parametrize("name", nets.NETS)
def test_samples_are_independent_in_a_batch(small: dict[str, onnx.ModelProto], name: str) -> None:
    session = ort.load(small[name], optimize=False)
    one, two = feeds.feeds(name, 0, 2, small=True)
    (both,) = session.run({key: np.concatenate([one[key], two[key]]) for key in one})
    for row, sample in zip(both, (one, two), strict=True):
        (alone,) = session.run(sample)
        np.testing.assert_allclose(row, alone[0], rtol=0, atol=1e-5 * np.abs(alone).max())


@pytest.mark.parametrize("name", ["resnet18", "mobilenet_v2"])
def test_folding_does_not_change_the_function(small: dict[str, onnx.ModelProto], name: str) -> None:
    apart = nets.NETS[name](small=True, folded=False)
    assert any(node.op_type == "BatchNormalization" for node in apart.graph.node)
    (sample,) = feeds.feeds(name, 0, 1, small=True)
    folded, unfolded = (ort.load(model).run(sample)[0] for model in (small[name], apart))
    np.testing.assert_allclose(folded, unfolded, rtol=0, atol=1e-4 * np.abs(folded).max())


def weights(model: onnx.ModelProto) -> int:
    return sum(int(np.prod(tensor.dims)) for tensor in model.graph.initializer)


def test_the_full_detector_has_the_layers_of_its_original() -> None:
    model = nets.yolov8n(size=64)
    convs = [node for node in model.graph.node if node.op_type == "Conv"]
    assert len(convs) == 64
    assert weights(model) == pytest.approx(3.157e6, rel=0.01)  # BatchNormalization folded


def test_trained_transformers_have_outlier_channels(small: dict[str, onnx.ModelProto]) -> None:
    for name in ("vit_s16", "bert"):
        model = small[name]
        normalized = next(n.output[0] for n in model.graph.node if n.op_type == "LayerNormalization")
        model.graph.output.append(onnx.ValueInfoProto(name=normalized))
        try:
            session = ort.load(model)
        finally:
            del model.graph.output[-1]
        (sample,) = feeds.feeds(name, 0, 1, small=True)
        (values,) = session.run(sample, [normalized])
        channels = np.sqrt(np.mean(np.square(values), axis=(0, 1)))
        assert np.sum(channels > 4 * np.median(channels)) == 6


def equal(one: Mapping[str, np.ndarray], other: Mapping[str, np.ndarray]) -> bool:
    return one.keys() == other.keys() and all(np.array_equal(one[key], other[key]) for key in one)


@pytest.mark.parametrize("name", ["resnet18", "bert"])
def test_a_seed_gives_the_same_samples_and_another_one_others(name: str) -> None:
    first, second = feeds.feeds(name, 1, 2, small=True)
    assert equal(first, next(feeds.feeds(name, 1, 1, small=True)))
    assert not equal(first, second)
    assert not equal(first, next(feeds.feeds(name, 2, 1, small=True)))


def test_amplitudes_of_images_fall_with_the_frequency() -> None:
    random, size = np.random.default_rng(0), 128
    power = np.mean(
        [np.abs(np.fft.fft2(feeds.image(random, size).mean(0))) ** 2 for _ in range(SAMPLES)], axis=0
    )
    frequency = size * np.hypot(np.fft.fftfreq(size)[:, None], np.fft.fftfreq(size))
    rings = np.array([power[(frequency >= f) & (frequency < 1.3 * f)].mean() for f in (2, 4, 8, 16)])
    slopes = np.diff(np.log2(rings))
    assert np.all(slopes < -1.4), slopes  # noise has 0
    assert np.all(slopes > -3.2), slopes  # a single gradient has -4


def test_pixels_have_edges_and_colors_of_a_camera() -> None:
    pixels = feeds.image(np.random.default_rng(0), 128)
    assert pixels.shape == (3, 128, 128)
    assert pixels.min() >= 0
    assert pixels.max() <= 1
    np.testing.assert_allclose(255 * pixels, np.round(255 * pixels), rtol=0, atol=1e-9)
    steps = np.diff(pixels.mean(0)).reshape(-1)
    kurtosis = np.mean(steps**4) / np.mean(steps**2) ** 2
    assert kurtosis > 8  # normal deviates have 3
    assert np.corrcoef(pixels.reshape(3, -1))[0, 1] > 0.6


def test_the_frequency_of_words_is_that_of_zipf() -> None:
    random, words = np.random.default_rng(0), sizes.words(small=False)
    texts = [feeds.text(random, 128, words) for _ in range(200)]
    ids = np.concatenate([text["input_ids"][text["attention_mask"] == 1] for text in texts])
    assert ids.max() < words
    assert all((text["input_ids"][text["attention_mask"] == 0] == 0).all() for text in texts)
    count = np.bincount(ids, minlength=words)[3:]  # the first three mark beginning, end and padding
    tenth, hundredth = count[8:12].sum(), count[80:120].sum()
    assert hundredth / tenth == pytest.approx(1.18, abs=0.2)  # 40 / 102.2 against 4 / 12.2
