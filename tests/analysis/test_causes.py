"""Faults that are planted into a small quantized net: the first row is theirs, and says which."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx
import pytest

import onnxq
from benchmarks import planted
from onnxq.options.settings import Format

SAMPLES = 6


@pytest.fixture(scope="module")
def clean() -> tuple[onnx.ModelProto, onnx.ModelProto, list[np.ndarray]]:
    random = np.random.default_rng(5)
    model = planted.net(random, layers=8)
    samples = [random.standard_normal((1, planted.CHANNELS, 12, 12)).astype(np.float32) for _ in range(12)]
    result = onnxq.quantize(
        model, [{"x": one} for one in samples], method="minmax", repair="none",
        format=Format(body="fp32"), compile=False, prove="never",
    )  # fmt: skip
    return model, result.model, samples[:SAMPLES]


def test_a_clean_model_has_no_suspicious_layer(
    clean: tuple[onnx.ModelProto, onnx.ModelProto, list[np.ndarray]],
) -> None:
    model, quantized, samples = clean
    found = onnxq.analyze(model, quantized, [{"x": one} for one in samples])
    assert found.suspicious == 0
    assert found.nonfinite == ()


@pytest.mark.parametrize("kind", planted.FAULTS)
@pytest.mark.parametrize("seed", [0, 1])
def test_a_planted_fault_is_the_first_row_with_its_cause(
    clean: tuple[onnx.ModelProto, onnx.ModelProto, list[np.ndarray]], kind: str, seed: int
) -> None:
    model, quantized, samples = clean
    broken = onnx.ModelProto()
    broken.CopyFrom(quantized)
    plant: Callable[..., str] = planted.FAULTS[kind]
    where = plant(broken, np.random.default_rng(seed), samples)
    found = onnxq.analyze(model, broken, [{"x": one} for one in samples])
    assert found.rows[0].layer == where
    assert found.rows[0].causes[0].code == planted.KINDS[kind]
    if kind == "nan":
        assert [(one.model, one.op, one.layer) for one in found.nonfinite] == [("B", "Sqrt", "planted_sqrt")]
