"""The sizes that a file is deployed for: as they are stated, else those of the samples."""

from __future__ import annotations

import itertools

import pytest

from onnxq.errors import UserError
from onnxq.run.deployment import Dims, Span, deployed

TEXTS: list[tuple[str, Dims | None]] = [("ids", ("batch", "seq")), ("mask", ("batch", "seq"))]


def texts(*lengths: int, batch: int = 1) -> list[dict[str, tuple[int, ...]]]:
    return [{"ids": (batch, length), "mask": (batch, length)} for length in lengths]


def test_the_range_is_that_of_the_samples_and_the_usual_sizes_are_those_of_one() -> None:
    found = deployed(TEXTS, {}, texts(9, 47, 20, 22, 40), batched=["ids", "mask"])
    assert found.spans == {"batch": Span(1, 1, 1, "assumed"), "seq": Span(9, 22, 47, "data")}
    assert found.profiles == dict.fromkeys(("ids", "mask"), ((1, 9), (1, 22), (1, 47)))
    assert found.nearest == 3
    assert not found.is_known


def test_no_shape_that_never_occurred_is_usual() -> None:
    """Half of the images are wide, half are tall: the medians of both sides are no image."""
    inputs: list[tuple[str, Dims | None]] = [("x", ("N", 3, "H", "W"))]
    seen = [{"x": (1, 3, *size)} for size in [(240, 320), (320, 240), (240, 321), (321, 240)]]
    found = deployed(inputs, {}, seen, batched=["x"])
    assert {"x": found.usual["x"]} in seen
    assert found.profiles["x"] == ((1, 3, 240, 240), found.usual["x"], (1, 3, 321, 321))


def test_the_order_of_the_samples_changes_nothing_but_which_of_equals_is_nearest() -> None:
    for order in itertools.permutations((9, 47, 20, 22, 40)):
        found = deployed(TEXTS, {}, texts(*order), batched=["ids", "mask"])
        assert found.usual == {"ids": (1, 22), "mask": (1, 22)}


def test_a_batch_is_usually_one_and_in_its_range_are_one_and_what_was_seen() -> None:
    assert deployed(TEXTS, {}, texts(8, batch=4), batched=["ids"]).spans["batch"] == Span(1, 1, 4, "assumed")
    stated = deployed(TEXTS, {}, texts(8), batch=(1, 8, 32), batched=["ids"])
    assert stated.spans["batch"] == Span(1, 8, 32)
    assert stated.profiles["mask"] == ((1, 8), (8, 8), (32, 8))
    assert stated.is_known
    assert stated.batched(16) == {"ids": (16, 8), "mask": (16, 8)}


def test_a_first_axis_that_is_no_batch_is_as_the_samples_have_it() -> None:
    found = deployed([("x", ("steps", 1, 8))], {}, [{"x": (30, 1, 8)}, {"x": (50, 1, 8)}])
    assert found.spans == {"steps": Span(30, 50, 50, "data")}


def test_what_is_stated_of_a_symbol_holds_for_all_inputs() -> None:
    profile = ((1, 8), (2, 16), (4, 32))
    found = deployed(TEXTS, {"ids": profile}, texts(9, 47), batched=["ids", "mask"])
    assert found.profiles == {"ids": profile, "mask": profile}
    assert {span.origin for span in found.spans.values()} == {"stated"}


def test_a_size_without_a_symbol_is_the_inputs_own() -> None:
    found = deployed([("a", (None, 4)), ("b", (None, 4))], {}, [{"a": (3, 4), "b": (5, 4)}])
    assert found.spans == {"a[0]": Span(3, 3, 3, "data"), "b[0]": Span(5, 5, 5, "data")}


def test_a_size_that_is_the_sum_of_two_others_is_so_at_its_ends() -> None:
    """A decoder: one token, and what is past; no sample has both the most tokens and the longest past."""
    inputs: list[tuple[str, Dims | None]] = [
        ("ids", (1, "new")),
        ("past", (1, 4, "past", 8)),
        ("mask", (1, "all")),
    ]
    seen = [{"ids": (1, n), "past": (1, 4, p, 8), "mask": (1, n + p)} for n, p in [(1, 40), (12, 3), (5, 20)]]
    found = deployed(inputs, {}, seen)
    assert found.spans["all"] == Span(1 + 3, 5 + 20, 12 + 40, "data")
    with pytest.raises(UserError, match="all is 7, and in every sample it is new and past together: 4 to 52"):
        deployed(inputs, {"mask": ((1, 7),) * 3}, seen)


@pytest.mark.parametrize(
    ("profiles", "batch", "says"),
    [
        (
            {"ids": ((1, 8), (1, 8), (1, 9)), "mask": ((1, 8),) * 3},
            None,
            "'ids' and 'mask' give dimension seq",
        ),
        ({"x": ((1, 8),) * 3}, None, "no input 'x'"),
        ({"ids": ((1, 9), (1, 8), (1, 9))}, None, r"dimension 1 .*\(9, 8, 9\)"),
        ({}, (2, 1, 3), "--batch 2:1:3: it is not smallest <= usual <= largest"),
        ({}, (0, 1, 3), "from 1 on"),
        ({"ids": ((1, 8),) * 3}, (1, 2, 3), "--batch 1:2:3, and --profile says 1:1:1 of batch"),
    ],
)
def test_what_makes_no_sense_is_the_users_error(profiles, batch, says: str) -> None:
    with pytest.raises(UserError, match=says) as caught:
        deployed(TEXTS, profiles, texts(9), batch=batch, batched=["ids", "mask"])
    assert caught.value.hint


def test_a_batch_where_there_is_none() -> None:
    with pytest.raises(UserError, match="no input has a dynamic batch"):
        deployed([("x", (4, 8))], {}, [], batch=(1, 8, 8), batched=["x"])
