"""Parts of what is joined."""

from __future__ import annotations

from onnxq.base.grouped import Joined


def test_a_part_is_what_joins_connect_and_says_why() -> None:
    parts = Joined[str]()
    parts.add("z")
    for one, other, why in (("a", "b", "1"), ("c", "d", "2"), ("b", "c", "3"), ("d", "a", "4")):
        parts.join(one, other, why)
    assert list(parts.members().values()) == [["z"], ["a", "b", "c", "d"]]
    assert parts.find("d") == parts.find("a") != parts.find("z")
    assert parts.reasons()["a"] == ["1", "2", "3", "4"]
    assert list(parts.reasons()) == ["a"]
