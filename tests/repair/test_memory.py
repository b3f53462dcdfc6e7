"""Memory of a fit: what a budget says, and however many samples there are."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from test_fit import Case, Net

from onnxq.data import kept_feeds
from onnxq.data.samples import Sample
from onnxq.pipeline import repair_bench
from onnxq.repair.stream import Stream
from onnxq.run.spill import Spill


def test_memory_is_what_the_budget_says(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many samples there are: what is beyond it is in files, and what nobody reads is gone."""
    net = Net(1, 16, 24, 24)
    x = "x"
    for _ in range(4):
        x = net.add("Relu", net.conv(x, 16, 16, 3, 3, pads=[1] * 4))
    case = Case(net, x, samples=16)
    most = {"memory": 0, "kept": 0}
    put = Spill.put

    def watched(self: Spill, key: object, value: Any) -> None:
        put(self, key, value)
        held = [v for v in self._held.values() if isinstance(v, np.ndarray)]
        most["memory"] = max(most["memory"], sum(v.nbytes for v in held))
        most["kept"] = max(most["kept"], sum(1 for key in self._held if key[0] is Stream))  # type: ignore[index]

    monkeypatch.setattr(Spill, "put", watched)
    for budget in (1 << 17, 1 << 30):
        most.update(memory=0, kept=0)
        case.fit(budget_bytes=budget, rows=256)
        assert most["kept"] == 16  # of each sample, what the next layer reads
        assert (1 << 16) < most["memory"] <= min(budget, 1 << 20)


def test_what_does_not_fit_is_in_files() -> None:
    rng = np.random.default_rng(0)
    values = {key: rng.standard_normal((10, 10)).astype(np.float32) for key in range(6)}
    spill = Spill(1000)
    for key, value in values.items():
        spill.put(key, value)
    spill.put("words", ["a", "b"])
    assert spill.filed == 4
    for key, value in values.items():
        np.testing.assert_array_equal(spill.get(key), value)
        assert spill.shape(key) == (10, 10)
    spill.drop(0)
    spill.put("new", values[5])
    assert spill.filed == 4
    assert spill.get("words") == ["a", "b"]
    file = spill._file
    assert file is not None
    size = file.path.stat().st_size
    for key in (*range(1, 6), "new"):
        spill.drop(key)
    assert not spill.has(3)
    for key in range(6):  # two in memory; the others in the places of those that went
        spill.put(key, 2 * values[key])
    assert file.path.stat().st_size == size == 4 * 400
    spill.put("row", values[1][:, 3])  # a part of an array, and one of nothing
    spill.put("none", np.empty((0, 4), np.float32))
    np.testing.assert_array_equal(spill.get("row"), values[1][:, 3])
    assert spill.get("none").shape == (0, 4)
    for key in range(6):
        np.testing.assert_array_equal(spill.get(key), 2 * values[key])
    spill.close()
    assert not file.path.parent.exists()


@pytest.mark.parametrize("most", [0, 1 << 30])
def test_samples_are_read_once_and_kept_in_files(monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    monkeypatch.setattr(kept_feeds, "_IN_MEMORY", 1000)
    monkeypatch.setattr(kept_feeds, "_MOST", most)
    arrays = [np.full((10, 10), place, np.float32) for place in range(4)]
    passes = []

    def read() -> Iterator[Sample]:
        passes.append(1)
        return (Sample(place, "here", {"x": array}) for place, array in enumerate(arrays))

    class Feeding:
        def feeds(self, samples: Any) -> Iterator[Any]:
            return (sample.feeds for sample in samples)

    with repair_bench.Kept(Feeding(), read) as kept:  # type: ignore[arg-type]
        assert kept.count == 4
        for places in ((0, 1, 2, 3), (1, 3), (2,), ()):
            found = [feeds["x"] for feeds in kept.feeds(places)]
            assert len(found) == len(places)
            assert all(np.array_equal(one, arrays[place]) for one, place in zip(found, places, strict=True))
        assert len(passes) == (1 if most else 5)  # what is too large for files is read again
        assert kept._kept._spill.filed == (2 if most else 0)
