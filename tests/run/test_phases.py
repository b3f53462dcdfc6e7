"""Prefill and decode, told apart by the sizes of samples."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from onnxq.base.errors import UserError
from onnxq.graph.past import Lengths
from onnxq.run.deployment import Deployment, Shape, Span
from onnxq.run.deployments import StatedDeployment
from onnxq.run.phases import phases

INPUTS = [("ids", ("N", "S")), ("mask", ("N", "T")), ("k", ("N", 2, "P", 4))]
LENGTHS = Lengths(("P",), ("S",), ("T",), ("N",))


def text(past: int, new: int) -> Mapping[str, Shape]:
    return {"ids": (1, new), "mask": (1, past + new), "k": (1, 2, past, 4)}


def told(
    seen: Sequence[Mapping[str, Shape]],
    lengths: Lengths = LENGTHS,
    stated: StatedDeployment | None = None,
    **weights: float,
) -> dict[str, Deployment]:
    found = phases(
        INPUTS, stated or StatedDeployment(), seen, lengths, weights=weights, batched=["ids", "mask", "k"]
    )
    return {one.name: one for one in found}


def test_of_decode_steps_alone_a_prompt_is_assumed_that_is_as_long_as_what_they_know() -> None:
    found = told([text(7, 1), text(15, 1), text(31, 1)])
    assert list(found) == ["decode", "prefill"]
    decode, prefill = found.values()
    assert (decode.is_assumed, decode.fitting, decode.nearest) == (False, (0, 1, 2), 1)
    assert (prefill.is_assumed, prefill.fitting, prefill.nearest) == (True, (), None)
    assert (decode.spans["P"], decode.spans["S"]) == (Span(7, 15, 31, "data"), Span(1, 1, 1, "data"))
    assert prefill.spans["S"] == prefill.spans["T"] == Span(8, 16, 32, "assumed")
    assert prefill.spans["P"] == Span(0, 0, 0, "assumed")
    assert (
        (decode.weight, decode.is_weight_assumed)
        == (prefill.weight, prefill.is_weight_assumed)
        == (0.5, True)
    )


def test_of_prompts_alone_a_decode_step_is_assumed_that_adds_the_last_token() -> None:
    found = told([text(0, 8), text(0, 16), text(0, 32)])
    assert list(found) == ["prefill", "decode"]
    assert found["decode"].spans["P"] == Span(7, 15, 31, "assumed")
    assert found["decode"].spans["S"] == Span(1, 1, 1, "assumed")
    assert found["decode"].profiles["k"] == ((1, 2, 7, 4), (1, 2, 15, 4), (1, 2, 31, 4))
    assert not found["prefill"].is_assumed


def test_where_there_are_samples_of_both_each_has_its_own() -> None:
    """Whichever is first."""
    found = told([text(15, 1), text(0, 8), text(7, 1), text(0, 32)])
    assert list(found) == ["prefill", "decode"]
    assert (found["prefill"].fitting, found["decode"].fitting) == ((1, 3), (0, 2))
    assert found["decode"].profiles["mask"] == ((1, 8), (1, 16), (1, 16))
    assert found["prefill"].nearest in (1, 3)
    assert not any(one.is_assumed for one in found.values())


@pytest.mark.parametrize(
    "seen",
    [[text(8, 4), text(0, 8)], [text(0, 1)], []],
    ids=["a part of a prompt", "one token that knows none", "none"],
)
def test_other_samples_tell_nothing(seen: Sequence[Mapping[str, Shape]]) -> None:
    assert told(seen) == {}


def test_nothing_is_told_where_a_length_is_not_known() -> None:
    assert told([text(7, 1)], Lengths(("P",), ("S",), (), ("N",), ("T",))) == {}
    assert told([text(7, 1)], Lengths(("P",), (), ("T",), ("N",), ("S",))) == {}


def test_stated_sizes_tell_too() -> None:
    profiles = {
        "ids": ((1, 1), (1, 1), (4, 1)), "k": ((1, 2, 0, 4), (1, 2, 63, 4), (4, 2, 127, 4))
    }  # fmt: skip
    found = told([], stated=StatedDeployment(profiles=profiles))
    assert list(found) == ["decode", "prefill"]
    assert found["decode"].profiles["mask"] == ((1, 1), (1, 64), (4, 128))  # both together
    assert found["decode"].spans["S"].origin == "stated"
    assert found["prefill"].spans["S"] == Span(64, 64, 128, "assumed")
    assert found["prefill"].spans["N"] == Span(1, 1, 4, "stated")  # as it is stated of the other
    both = {"ids": ((1, 1), (1, 16), (1, 32)), "k": ((1, 2, 0, 4), (1, 2, 63, 4), (1, 2, 127, 4))}
    assert told([], stated=StatedDeployment(profiles=both)) == {}


def test_shares_that_are_stated_are_of_phases_that_something_tells_apart() -> None:
    found = told([text(7, 1)], decode=0.8)
    assert (found["decode"].weight, found["prefill"].weight) == pytest.approx((0.8, 0.2))
    assert (found["decode"].is_weight_assumed, found["prefill"].is_weight_assumed) == (False, True)
    with pytest.raises(
        UserError, match="profile_weight decode=3: neither samples nor stated sizes"
    ) as caught:
        told([text(8, 4)], decode=3)
    assert "--profile decode/INPUT=MIN:OPT:MAX" in (caught.value.hint or "")
