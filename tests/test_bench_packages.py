"""What judges the nets of packages: boxes, texts, and how samples are divided."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.packages import boxes, net, nets
from benchmarks.packages.embedding import neighbours
from benchmarks.packages.net import Pool, Sample
from benchmarks.packages.photographs import part
from benchmarks.packages.reading import _edits
from benchmarks.packages.running import Noise


def _found(*rows: tuple[float, ...]) -> np.ndarray:
    return np.array(rows, float).reshape(-1, 6)


def test_a_box_is_kept_where_one_of_its_class_lies_on_it() -> None:
    exact = _found((0, 0, 10, 10, 0.9, 0), (20, 0, 30, 10, 0.8, 1), (40, 0, 50, 10, 0.2, 0))
    given = _found((1, 0, 11, 10, 0.6, 0), (20, 0, 30, 10, 0.8, 0))
    assert boxes.kept([exact], [given], 0.25) == {"kept %": 50.0, "of": 2, "new": 1}


def test_what_overlaps_a_better_box_of_its_class_goes() -> None:
    corners = np.array([(0, 0, 10, 10), (1, 0, 11, 10), (1, 0, 11, 10), (0, 0, 10, 10)], float)
    left = boxes.suppressed(corners, np.array([0.9, 0.8, 0.7, 0.1]), np.array([0, 0, 1, 2]), 0.25, 0.5)
    assert left[:, 4].tolist() == [0.9, 0.7]


def test_precision_counts_what_is_found_twice_or_nowhere() -> None:
    truth = np.array([(0, 0, 10, 10, 0), (20, 0, 30, 10, 0)], float)
    given = _found((0, 0, 10, 10, 0.9, 0), (0, 0, 10, 10, 0.8, 0), (20, 0, 30, 10, 0.7, 0))
    assert boxes.average_precision([truth], [given]) == pytest.approx(100 * (1 + 2 / 3) / 2)


@pytest.mark.parametrize(
    ("one", "other", "count"), [("", "", 0), ("abc", "abd", 1), ("abc", "", 3), ("ab", "xaby", 2)]
)
def test_edits(one: str, other: str, count: int) -> None:
    assert _edits(one, other) == count


def test_samples_of_a_group_never_both_fit_and_judge() -> None:
    pool = Pool.of(range(100), lambda number: Sample({"x": np.array(number)}), lambda number: number // 5)
    few, many = pool.divided(3, 20), pool.divided(4, 64)
    assert not {one // 5 for one in few[0]} & {one // 5 for one in few[1]}
    assert len(few[0]) == 20
    assert len(many[0]) == 50
    assert sorted(many[0] + many[1]) == list(range(100))


def test_a_part_of_an_image_is_turned_about_its_middle() -> None:
    from PIL import Image

    pixels = np.zeros((40, 40, 3), np.uint8)
    pixels[10:20, 10:20] = 255  # the upper left of the middle square
    image = Image.fromarray(pixels)
    straight = part(image, 20, 20, 20, 0, 20)
    turned = part(image, 20, 20, 20, np.pi / 2, 20)
    assert straight[2:8, 2:8].min() == 255
    assert straight.mean() == pytest.approx(turned.mean(), rel=0.1)
    assert turned[12:18, 2:8].min() == 255


def test_noise_is_of_the_worst_output_about_its_mean() -> None:
    noise = Noise()
    for value in (1.0, 3.0):
        exact = {"a": np.array([value]), "b": np.array([value])}
        noise.add(exact, {"a": np.array([value + 0.1]), "b": np.array([value])})
    assert noise.worst() == pytest.approx(20.0)


def test_neighbours_of_the_same_vectors_are_the_same() -> None:
    vectors = [*np.random.default_rng(0).standard_normal((8, 4))]
    found = neighbours(vectors, [2 * one for one in vectors], [None] * 8)
    assert found["nearest the same %"] == 100
    assert found["rank correlation"] == pytest.approx(1)


def test_nets_have_names_of_their_own() -> None:
    names = [one.name for one in nets()]
    assert len(set(names)) == len(names) >= 12
    with pytest.raises(LookupError, match="no net nothing"):
        net("nothing")
