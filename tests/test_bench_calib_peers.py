"""The cost of another tool's calibrator is measured, and what cannot be measured is said."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

from benchmarks import calib_peers, nets
from benchmarks.nets.feeds import feeds


@pytest.fixture(scope="module")
def net() -> onnx.ModelProto:
    return nets.resnet18(small=True, size=32)


@pytest.fixture
def samples() -> list[dict[str, np.ndarray]]:
    random = np.random.default_rng(0)
    return [{"x": random.standard_normal((1, 3, 32, 32)).astype(np.float32)} for _ in range(3)]


def test_what_a_calibrator_does_after_the_last_sample_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Percentile's histograms are made then, min-max has little left to do."""
    monkeypatch.setattr(calib_peers, "IN_MEMORY", (8,))
    model, samples = nets.mobilenet_v2(small=True), list(feeds("mobilenet_v2", 0, 2, small=True))
    names = ["onnxruntime MinMax", "onnxruntime Percentile"]
    minmax, percentile = calib_peers.peer_rows(model, samples, names)
    for row in (minmax, percentile):
        assert row.reason is None
        assert row.ratio is not None
        assert row.plain_ms is not None
        assert 0 < row.plain_ms < 1000
        assert 30 < row.peak_mib[8] < 1000
    assert 1 < minmax.ratio < percentile.ratio / 3


def test_one_that_wants_too_much_memory_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calib_peers, "LIMIT", 200)
    monkeypatch.setattr(calib_peers, "IN_MEMORY", ())
    samples = list(feeds("mobilenet_v2", 0, 2, small=True))
    (row,) = calib_peers.peer_rows(nets.mobilenet_v2(small=True), samples, ["onnxruntime Percentile"])
    assert row.ratio is None
    assert row.reason == "stopped, it wants more than 200 MiB (with 16 samples)"


def test_what_fails_says_why(net: onnx.ModelProto, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calib_peers, "IN_MEMORY", ())
    wrong = [{"x": np.zeros((1, 3, 8, 9), np.float32)}]
    (row,) = calib_peers.peer_rows(net, wrong, ["onnxruntime MinMax"])
    assert row.ratio is None
    assert row.reason is not None
    assert "Got invalid dimensions" in row.reason


def test_a_tool_that_is_not_installed(
    net: onnx.ModelProto,
    samples: list[dict[str, np.ndarray]],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.setenv("ONNXQ_PEERS", str(tmp_path / "python"))
    (row,) = calib_peers.peer_rows(net, samples, ["modelopt max"])
    assert row.peak_mib == {}
    assert row.reason == "not installed (make bench-peers)"
