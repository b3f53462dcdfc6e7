"""Images are decoded once, as far as there is room; what is given of them belongs to who asked."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from onnxq.data import kept_feeds
from onnxq.data.image_options import ImageOptions
from onnxq.data.images import Preparation
from onnxq.data.kept_feeds import KeptFeeds
from onnxq.data.samples import InputSpec
from onnxq.data.sources import open_source

SPEC = InputSpec("x", np.dtype(np.float32), ("N", 3, 8, 8))


@pytest.fixture
def decoded(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The files of which an image was decoded, in order."""
    files: list[str] = []
    decode = Preparation.decode

    def noted(self: Preparation, image: Any, *others: Any) -> np.ndarray:
        files.append(Path(image).name)
        return decode(self, image, *others)

    monkeypatch.setattr(Preparation, "decode", noted)
    return files


def images(folder: Path, count: int = 5) -> Path:
    rng = np.random.default_rng(0)
    for number in range(count):
        pixels = rng.integers(0, 256, (8, 8, 3), np.uint8)
        Image.fromarray(pixels).save(folder / f"{number}.png")
    return folder


def test_an_image_is_decoded_once(tmp_path: Path, decoded: list[str]) -> None:
    source = open_source(images(tmp_path), [SPEC], options=ImageOptions())
    first = [sample.feeds["x"] for sample in source.read(range(5))]
    once = sorted(decoded)
    assert once == [f"{number}.png" for number in range(5)]
    again = [sample.feeds["x"] for sample in source.read([4, 0, 3, 1, 2])]
    assert sorted(decoded) == once
    for place, values in zip([4, 0, 3, 1, 2], again, strict=True):
        np.testing.assert_array_equal(values, first[place])


@pytest.mark.parametrize("in_memory", [0, 1 << 20])
def test_who_writes_into_what_is_given_changes_it_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, in_memory: int
) -> None:
    monkeypatch.setattr(kept_feeds, "_IN_MEMORY", in_memory)
    source = open_source(images(tmp_path, 1), [SPEC], options=ImageOptions())
    next(iter(source.read([0])))
    (given,) = source.read([0])
    before = given.feeds["x"].copy()
    given.feeds["x"][:] = 7
    (again,) = source.read([0])
    np.testing.assert_array_equal(again.feeds["x"], before)


def test_what_has_no_room_is_decoded_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, decoded: list[str]
) -> None:
    monkeypatch.setattr(kept_feeds, "_MOST", 2 * 3 * 8 * 8 * 4)
    source = open_source(images(tmp_path), [SPEC], options=ImageOptions())
    for _ in range(2):
        assert len([*source.read(range(5))]) == 5
    assert len(decoded) == 5 + 3


def test_what_is_closed_gives_nothing() -> None:
    kept = KeptFeeds()
    kept.put("a", {"x": np.zeros(3)})
    assert kept.get("a") is not None
    assert kept.get("b") is None
    kept.close()
    assert kept.get("a") is None
