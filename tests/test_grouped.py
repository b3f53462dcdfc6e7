"""Values by what they have in common, and in groups that fit."""

from __future__ import annotations

import pytest

from onnxq.base.grouped import fitting, grouped


def test_values_stand_under_their_keys_in_order() -> None:
    groups = grouped([("b", 1), ("a", 2), ("b", 0), ("b", 1)])
    assert groups == {"b": [1, 0, 1], "a": [2]}
    assert list(groups) == ["b", "a"]
    assert grouped([]) == {}


@pytest.mark.parametrize(
    ("sizes", "groups"),
    [
        ([], [[]]),
        ([3, 3, 4], [[0, 1, 2]]),
        ([3, 3, 5], [[0, 1], [2]]),
        ([11, 1, 12], [[0], [1], [2]]),
        ([0, 10, 0, 1], [[0, 1, 2], [3]]),
    ],
)
def test_groups_fit(sizes: list[int], groups: list[list[int]]) -> None:
    assert fitting(enumerate(sizes), 10) == groups
