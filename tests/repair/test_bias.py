"""Bias correction through the activation: the formula, and what it gains over the one without."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

from onnxq.graph.model import Model
from onnxq.repair import bias
from onnxq.repair.activation import Activation, activation_of


def shifts(*given: Any) -> np.ndarray:
    return bias.shifts(*given)[0]


def activation(op: str, channels: int, **attributes: float) -> Activation:
    inputs = [helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, ["N", channels])]
    weights, more = [], []
    if op == "Clip":
        for name, value in attributes.items():
            weights.append(onnx.numpy_helper.from_array(np.float32(value), name))
            more.append(name)
        attributes = {}
    node = helper.make_node(op, ["y", *more], ["z"], **attributes)
    graph = helper.make_graph([node], "g", inputs, [onnx.ValueInfoProto(name="z")], weights)
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    return activation_of(Model.open(proto), "y", -1, channels, None)


def by_formula(y: np.ndarray, z: np.ndarray, low: float, high: float) -> np.ndarray:
    """As it was measured: the share of values between the bounds is the slope."""
    y, z = y.astype(np.float64), z.astype(np.float64)
    d, std = np.zeros(y.shape[1]), y.std(0)
    for _ in range(3):
        v = z + d
        inside = ((v > low) & (v < high)).mean(0)
        step = (np.clip(y, low, high).mean(0) - np.clip(v, low, high).mean(0)) / np.maximum(inside, 0.02)
        d = np.clip(d + np.where(inside > 0.002, step, 0), -0.5 * std, 0.5 * std)
    return d


def both(rows: int = 6000, channels: int = 24) -> tuple[np.ndarray, np.ndarray]:
    """What a float layer gives, and a quantized one: scaled, shifted, with noise."""
    rng = np.random.default_rng(0)
    y = rng.standard_normal((rows, channels)) * rng.uniform(0.5, 3, channels) + rng.uniform(-2, 3, channels)
    z = y * rng.uniform(0.9, 1.1, channels) + rng.uniform(-0.3, 0.3, channels)
    return y.astype(np.float32), (z + 0.1 * rng.standard_normal(y.shape)).astype(np.float32)


@pytest.mark.parametrize(
    ("op", "bounds"), [("Relu", (0, np.inf)), ("Clip", (0, 6)), ("Clip", (-1.5, 0.5))], ids=str
)
def test_it_is_the_formula(op: str, bounds: tuple[float, float]) -> None:
    y, z = both()
    f = activation(op, 24, **({} if op == "Relu" else {"low": bounds[0], "high": bounds[1]}))
    found = shifts([y[:1000], y[1000:]], [z[:1000], z[1000:]], f)
    np.testing.assert_allclose(found, by_formula(y, z, *bounds), rtol=2e-3, atol=2e-4)
    left = np.clip(z + found, *bounds).mean(0) - np.clip(y, *bounds).mean(0)
    assert np.abs(left).max() < 1e-3
    assert np.abs(found).max() > 0.1


@pytest.mark.parametrize("op", ["Sigmoid", "Tanh", "LeakyRelu", "HardSwish", "Softplus", "Neg"])
def test_means_behind_any_activation_become_equal(op: str) -> None:
    y, z = both()
    f = activation(op, 24)
    found = shifts([y], [z], f)
    before, after = (np.abs(f(one).mean(0) - f(y).mean(0)) for one in (z, z + found.astype(np.float32)))
    slope = np.abs(f(z + 0.01) - f(z - 0.01)).mean(0) / 0.02
    assert after[slope > 0.2].max() < 2e-3
    assert (after <= before).all()
    assert before.max() > 0.03


def test_what_is_not_finite_changes_nothing() -> None:
    y, z = both()
    exact = y.copy()
    exact[7, 3] = np.inf
    for f in (Activation(None), activation("Relu", 24), activation("Softplus", 24)):
        plain, found = shifts([y], [z], f), shifts([exact], [z], f)
        assert found[3] == 0
        np.testing.assert_array_equal(np.delete(found, 3), np.delete(plain, 3))


def test_without_an_activation_it_is_the_mean() -> None:
    y, z = both()
    found = shifts([y], [z], Activation(None))
    np.testing.assert_allclose(found, (y - z).mean(0, dtype=np.float64), atol=1e-6)
    far = shifts([y], [z + 100], Activation(None))
    np.testing.assert_allclose(far, -0.5 * y.std(0, dtype=np.float64), rtol=1e-5)


def test_channels_that_never_pass_keep_their_bias() -> None:
    y, z = both()
    found = shifts([y - 100], [z - 100], activation("Relu", 24))
    np.testing.assert_array_equal(found, 0)
    same = np.ones((50, 3), np.float32)
    np.testing.assert_array_equal(shifts([same], [2 * same], Activation(None)), 0)


def of_samples(mean: float, chance: float) -> tuple[np.ndarray, np.ndarray]:
    """20 samples of 30 rows, whose mean errors differ by chance in each of 400 channels."""
    rng = np.random.default_rng(0)
    y = rng.standard_normal((600, 400)).astype(np.float32)
    off = np.repeat(mean + chance * rng.standard_normal((20, 400)), 30, axis=0)
    return y, (y - off).astype(np.float32)


@pytest.mark.parametrize("op", ["", "Relu"])
def test_what_may_be_chance_is_shrunk(op: str) -> None:
    f, samples = activation(op, 400) if op else Activation(None), [[30] * 10] * 2

    def error(mean: float, counts: list[list[int]] | None) -> float:
        """The square of what shifts miss, of the one that all samples want."""
        y, z = of_samples(mean, 0.2)
        found = shifts([y[:300], y[300:]], [z[:300], z[300:]], f, counts)
        return float(np.square(found - mean).mean())

    assert error(0.0, samples) < 0.55 * error(0.0, None)
    assert error(0.4, samples) < 1.2 * error(0.4, None)  # nine standard errors


def test_how_much_is_shrunk_is_the_formula() -> None:
    """The shift of an identity is the mean error; samples may have other numbers of rows."""
    y, z = of_samples(0.05, 0.2)
    rows = [10, 50, 30, 30, 60, 20, *[30] * 13, 10]
    parts = [sum(rows[:6]), 600]
    both = [[one[: parts[0]], one[parts[0] :]] for one in (y, z)]
    found = shifts(*both, Activation(None), [rows[:6], rows[6:]])
    off = (y.astype(np.float64) - z).mean(axis=0)
    ends = np.cumsum([0, *rows])
    each = [(y[a:b].astype(np.float64) - z[a:b] - off).sum(axis=0) for a, b in itertools.pairwise(ends)]
    chance = 20 / 19 * np.square(each).sum(axis=0) / 600**2
    part = np.clip(1 - chance / off**2, 0, 1)
    np.testing.assert_allclose(found, off * part, rtol=1e-3, atol=1e-5)
    missed = bias.shifts(*both, Activation(None), [rows[:6], rows[6:]])[1]
    np.testing.assert_allclose(missed, 20 * chance, rtol=1e-3)
    assert 20 < (part == 0).sum() < 380


def test_of_one_sample_nothing_is_shrunk() -> None:
    y, z = both()
    f = activation("Relu", 24)
    found, missed = bias.shifts([y], [z], f, [[len(y)]])
    np.testing.assert_array_equal(found, shifts([y], [z], f))
    assert not missed.any()  # nobody knows it


def test_a_part_without_rows_says_nothing() -> None:
    y, z = of_samples(0.1, 0.2)
    f = activation("Relu", 400)
    found = shifts([y, y[:0]], [z, z[:0]], f, [[30] * 20, []])
    np.testing.assert_array_equal(found, shifts([y], [z], f, [[30] * 20]))


def test_what_is_shrunk_is_the_difference_behind_the_activation() -> None:
    """Where a Relu gives 0 the sums may differ as they like."""
    y, z = of_samples(0.0, 3.0)
    f = activation("Relu", 400)
    rng = np.random.default_rng(1)
    y, z = y - 100.0, z - 100.0
    some = rng.random(y.shape) < 0.5
    y[some], z[some] = 5.0, 4.0  # all samples show this
    found = shifts([y], [z], f, [[30] * 20])
    np.testing.assert_allclose(found, shifts([y], [z], f), rtol=0.02)
    assert found.min() > 0.5
