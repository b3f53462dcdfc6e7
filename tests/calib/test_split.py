"""Calibration and held-out samples never meet."""

from __future__ import annotations

import numpy as np
import pytest

from onnxq.calib.samples import InputSpec
from onnxq.calib.sources import open_source
from onnxq.calib.split import split
from onnxq.errors import UserError

X = InputSpec("x", np.dtype(np.float32), ("N", 1))


def divided(count: int, samples: int, seed: int = 0, *, stream: bool = False, held_out: int = 64):
    items = [{"x": np.full((1, 1), i, np.float32)} for i in range(count)]
    parts = split(open_source(iter(items) if stream else items, [X]), samples, seed, held_out)
    used = [sample.index for sample in parts.calibration()]
    held = [sample.index for sample in parts.held_out()]
    return used, held, parts.shared


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("count", [2, 3, 8, 9, 63, 64, 700])
def test_disjoint(count: int, stream: bool) -> None:
    used, held, shared = divided(count, 512, stream=stream)
    assert not shared
    assert used
    assert not set(used) & set(held)
    assert len(used) == len(set(used)) == min(512, count - len(held))
    eighth = -(-count // 8) if stream else max(1, count // 8)
    assert len(held) == len(set(held)) == min(64, eighth)


@pytest.mark.parametrize("stream", [False, True])
def test_one_sample_does_both(stream: bool) -> None:
    assert divided(1, 512, stream=stream) == ([0], [0], True)


def test_seed() -> None:
    assert divided(100, 50, 1) == divided(100, 50, 1)
    assert divided(100, 50, 1)[0] != divided(100, 50, 2)[0]


def test_limits() -> None:
    used, held, _ = divided(100, 10, held_out=3)
    assert (len(used), len(held)) == (10, 3)
    used, held, _ = divided(100, 10, held_out=3, stream=True)
    assert used == [1, 2, 3, 4, 5, 6, 7, 9, 10, 11]
    assert held == [0, 8]


@pytest.mark.parametrize(("samples", "held_out"), [(0, 64), (-1, 64), (8, 0)])
def test_nothing_asked_for(samples: int, held_out: int) -> None:
    with pytest.raises(UserError, match="were asked for"):
        divided(4, samples, held_out=held_out)
