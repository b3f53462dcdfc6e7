"""What is reached step by step."""

from __future__ import annotations

from onnxq.base.grouped import reached

BEHIND = {"d": "bc", "b": "a", "c": "ab", "a": ""}


def test_each_place_once_the_last_step_first() -> None:
    assert list(reached("d", BEHIND.__getitem__)) == ["d", "c", "b", "a"]
    assert list(reached("ab", BEHIND.__getitem__)) == ["b", "a"]
    assert list(reached("", BEHIND.__getitem__)) == []


def test_circles_end() -> None:
    assert list(reached([0], lambda place: [(place + 1) % 3])) == [0, 1, 2]
