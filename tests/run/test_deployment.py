"""The sizes that a file is deployed for: as they are stated, else those of the samples."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace

import pytest

from onnxq.base.errors import UserError
from onnxq.options.settings import Inputs
from onnxq.run.deployment import Dims, Span, deployed
from onnxq.run.deployments import StatedDeployment, all_deployed, by_deployment, main_of, stated_deployments

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


# -- several ---------------------------------------------------------------------------------------

DECODE = StatedDeployment("decode", profiles={"ids": ((1, 1),) * 3})
PREFILL = StatedDeployment("prefill", profiles={"ids": ((1, 8), (1, 16), (1, 32))})


def both(*stated: StatedDeployment, lengths: Sequence[int] = (1, 1, 9, 20, 22), **more):
    return all_deployed(TEXTS, stated, texts(*lengths), batched=["ids", "mask"], **more)


def test_a_sample_belongs_to_the_deployments_whose_sizes_it_has() -> None:
    decode, prefill = both(DECODE, PREFILL)
    assert (decode.name, decode.fitting, prefill.fitting) == ("decode", (0, 1), (2, 3, 4))
    assert prefill.profiles["mask"] == ((1, 8), (1, 16), (1, 32))
    assert prefill.nearest in prefill.fitting
    whole = StatedDeployment("any", profiles={"ids": ((1, 1), (1, 8), (1, 32))})
    assert [one.fitting for one in both(whole, PREFILL)] == [(0, 1, 2, 3, 4), (2, 3, 4)]


def test_a_size_that_nobody_states_is_that_of_the_samples_that_fit() -> None:
    inputs: list[tuple[str, Dims | None]] = [("ids", (1, "new")), ("past", (1, "past", 8))]
    seen = [{"ids": (1, n), "past": (1, p, 8)} for n, p in [(1, 40), (1, 20), (1, 30), (12, 0), (5, 0)]]
    stated = [
        StatedDeployment("decode", profiles={"ids": ((1, 1),) * 3}),
        StatedDeployment("prefill", profiles={"ids": ((1, 2), (1, 8), (1, 16))}),
    ]
    decode, prefill = all_deployed(inputs, stated, seen)
    assert decode.spans["past"] == Span(20, 30, 40, "data")
    assert prefill.spans["past"] == Span(0, 0, 0, "data")


@pytest.mark.parametrize(
    ("weights", "shares"),
    [
        ((None, None), (0.5, 0.5)),
        ((0.9, None), (0.9, 0.1)),
        ((3, 1), (0.75, 0.25)),
        ((3, None), (0.75, 0.25)),
    ],
)
def test_weights_are_shares_of_all_work(weights, shares) -> None:
    found = both(*(replace(one, weight=w) for one, w in zip((DECODE, PREFILL), weights, strict=True)))
    assert [one.weight for one in found] == pytest.approx(shares)
    assert [one.is_weight_assumed for one in found] == [weight is None for weight in weights]
    assert main_of(found).name == ("decode" if shares[0] >= 0.5 else "prefill")


def test_what_deployments_state_has_to_go_together() -> None:
    batch = StatedDeployment("large", batch=(8, 8, 8))
    with pytest.raises(UserError, match=r"'large' leaves seq open, and .* 'prefill' states it") as caught:
        both(batch, PREFILL)
    assert "--profile large/ids=1x8:1x16:1x32" in (caught.value.hint or "")
    with pytest.raises(UserError, match="no sample fits deployment 'decode': ids 1x1 is stated") as caught:
        both(DECODE, PREFILL, lengths=(9, 20, 22))
    assert "--profile decode/ids=1x9:1x20:1x22" in (caught.value.hint or "")
    assert len(both(DECODE, PREFILL, lengths=(9,), every=False)) == 2  # an iterator may have others
    with pytest.raises(UserError, match=r"deployment 'prefill': .*dimension 1 is not min <= opt <= max"):
        both(DECODE, replace(PREFILL, profiles={"ids": ((1, 8), (1, 4), (1, 32))}))


def test_the_name_of_an_input_may_hold_slashes() -> None:
    one, other = ((1,),) * 3, ((2,),) * 3
    found = by_deployment(["a/b", "b", "c/d"], {"a/b": one, "x/b": other, "x/c/d": one})
    assert found == ({"a/b": one}, {"x": {"b": other, "c/d": one}})
    with pytest.raises(UserError, match="no input 'q'"):
        by_deployment(["a/b", "b"], {"x/q": one})


def test_what_is_stated_without_a_name_holds_for_each() -> None:
    profile = ((1, 8), (1, 8), (1, 8))
    inputs = Inputs(
        profiles={"mask": profile, "one/ids": profile}, batch={"": (1, 1, 4), "two": (2, 2, 2)},
        profile_weights={"two": 3},
    )  # fmt: skip
    assert stated_deployments(["ids", "mask"], inputs) == (
        StatedDeployment("one", None, (1, 1, 4), {"mask": profile, "ids": profile}),
        StatedDeployment("two", 3, (2, 2, 2), {"mask": profile}),
    )


@pytest.mark.parametrize(
    ("inputs", "says", "hint"),
    [
        (Inputs(profile_weights={"a": 1}), "no deployment has a name", "--profile a/INPUT=MIN:OPT:MAX"),
        (Inputs(batch={"a": (1, 1, 1)}, profile_weights={"b": 1}), "no deployment 'b'", "a"),
        (Inputs(batch={"a": (1, 1, 1)}, profile_weights={"a": 0}), "is above 0", "profile_weight a=1"),
        (Inputs(batch={"a": (1, 1, 1)}, profile_weights={"a": -1}), "is above 0", "profile_weight a=1"),
    ],
)
def test_weights_that_make_no_sense(inputs: Inputs, says: str, hint: str) -> None:
    with pytest.raises(UserError, match=says) as caught:
        stated_deployments(["ids"], inputs)
    assert hint in (caught.value.hint or "")


def test_bad_samples_do_not_widen_the_range() -> None:
    found = deployed(TEXTS, {}, texts(9, 20, 600), batched=["ids", "mask"])
    assert found.spans["seq"] == Span(9, 20, 600, "data")
    again = found.without_bad(texts(9, 20))
    assert again.spans["seq"] == Span(9, 20, 20, "data")
    assert again.profiles["mask"] == ((1, 9), (1, 20), (1, 20))
