"""A mask of one channel is told by the values that the float model gives; depths and peaks are not."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
import pytest
from test_find import model_of

import onnxq
from onnxq.graph.model import Model
from onnxq.task.known import KnownTask
from onnxq.task.numbers import is_mask

NET = ("float[1, 3, 32, 32] x", "float[1, 1, 32, 32] y", "c = Conv (x, w)  s = Mul (c, k)  y = Sigmoid (s)")
LAYOUT = "segment:scores=y,sigmoid"


def net(gain: float) -> Model:
    """The mean of three channels about a half; the greater the gain, the surer."""
    weights = ", ".join(["1.0"] * 3)
    return model_of(*NET, f"float[1, 3, 1, 1] w = {{{weights}}}, float k = {{{gain}}}")


def samples(count: int = 8) -> Iterator[dict[str, np.ndarray]]:
    rng = np.random.default_rng(3)
    for _ in range(count):
        yield {"x": rng.standard_normal((1, 3, 32, 32)).astype(np.float32)}


def ramp(low: float, high: float) -> np.ndarray:
    return np.linspace(low, high, 1000, dtype=np.float32)


@pytest.mark.parametrize(
    ("values", "mask"),
    [
        ([np.zeros(90), np.ones(10)], True),  # of all samples together
        ([np.zeros(97), np.ones(3)], True),
        ([ramp(0, 1)], False),  # a depth
        ([ramp(0, 0.3)], False),
        ([np.zeros(1000), np.ones(9)], False),  # peaks
        ([np.ones(1000)], False),
        ([ramp(0, 0.1), ramp(0.2, 0.8), ramp(0.9, 1)], False),  # two thirds are sure
        ([ramp(0, 0.09)] * 2 + [ramp(0.2, 0.8)] + [ramp(0.91, 1)] * 2, True),
        ([np.full(100, np.nan)], False),
        ([], False),
    ],
)
def test_values_tell_a_mask(values: list[np.ndarray], mask: bool) -> None:
    assert is_mask(values) is mask


def test_nobody_runs_the_model_where_the_graph_tells_or_nothing_is_likely() -> None:
    def never(name: str) -> Iterator[np.ndarray]:
        raise AssertionError(name)

    row = model_of("float[1, 8] x", "float[1, 8] y", "y = Softmax (x)")
    assert KnownTask.of(None, row, ["y"], never).found.text == "classify:scores=y"
    features = model_of("float[1, 3, 32, 32] x", "float[1, 3, 32, 32] y", "y = Relu (x)")
    assert KnownTask.of(None, features, ["y"], never).found.ask == "image:map=y"


@pytest.mark.parametrize(("gain", "layout", "ask"), [(9.0, LAYOUT, ""), (0.3, "", LAYOUT)])
def test_a_comparison_reads_a_mask(tmp_path: Path, gain: float, layout: str, ask: str) -> None:
    onnx.save(net(gain).to_proto(), tmp_path / "net.onnx")
    task = onnxq.compare(tmp_path / "net.onnx", tmp_path / "net.onnx", samples()).task
    assert (task.layout, task.ask, task.stated) == (layout, ask, False)
    assert [figure.kind for figure in task.figures] == (["masks"] if layout else [])


def test_a_run_reads_a_mask(tmp_path: Path) -> None:
    onnx.save(net(9.0).to_proto(), tmp_path / "net.onnx")
    result = onnxq.quantize(tmp_path / "net.onnx", list(samples(4)), compile=False, repair="none")
    assert result.report.task.layout == LAYOUT
    assert result.report.task.figures[0].percent > 90
