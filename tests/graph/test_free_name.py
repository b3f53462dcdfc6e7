"""Names that nothing has yet."""

from __future__ import annotations

from onnxq.graph.names import free_name


def test_a_name_is_taken_from_then_on() -> None:
    taken = {"x", "x_1"}
    assert [free_name(base, taken) for base in ("y", "y", "x")] == ["y", "y_1", "x_2"]
    assert taken == {"x", "x_1", "y", "y_1", "x_2"}


def test_others_bar_numbers_only() -> None:
    assert free_name("x", set(), {"x"}) == "x"
    assert free_name("x", {"x"}, {"x_1"}) == "x_2"
