import pytest

from onnxq.base.errors import UserError
from onnxq.run.profiles import resolve_profiles

INPUTS = {"x": (-1, 3, -1, -1), "mask": (1, 8)}


def test_a_dynamic_input_gets_what_is_wanted_or_ones():
    wanted = ([1, 3, 32, 32], [4, 3, 64, 64], [8, 3, 128, 128])
    assert resolve_profiles(INPUTS, {"x": wanted}) == {
        "x": ((1, 3, 32, 32), (4, 3, 64, 64), (8, 3, 128, 128))
    }
    assert resolve_profiles(INPUTS, {}) == {"x": ((1, 3, 1, 1),) * 3}


def test_a_static_input_may_be_named_with_its_own_shape():
    assert resolve_profiles({"mask": (1, 8)}, {"mask": ((1, 8),) * 3}) == {}


@pytest.mark.parametrize(
    ("name", "profile", "says"),
    [
        ("X", ((1, 3, 4, 4),) * 3, "no input 'X'"),
        ("x", ((1, 3, 4),) * 3, "rank 3, the input has rank 4"),
        ("x", ((1, 3, 4, 4), (1, 3, 4), (1, 3, 4, 4)), "opt 1x3x4 has rank 3"),
        ("x", ((2, 3, 4, 4), (1, 3, 4, 4), (2, 3, 4, 4)), r"dimension 0 .*\(2, 1, 2\)"),
        ("x", ((1, 3, 4, 4), (1, 3, 9, 4), (1, 3, 8, 4)), r"dimension 2 .*\(4, 9, 8\)"),
        ("x", ((1, 4, 4, 4),) * 3, "size 4 at dimension 1, which the model fixes to 3"),
        ("x", ((-1, 3, 4, 4),) * 3, "size -1 at dimension 0"),
        ("mask", ((1, 8), (1, 8), (2, 8)), "max has size 2 at dimension 0"),
    ],
)
def test_a_profile_that_does_not_fit_is_the_users_error(name, profile, says):
    with pytest.raises(UserError, match=says) as caught:
        resolve_profiles(INPUTS, {name: profile})
    assert caught.value.hint
