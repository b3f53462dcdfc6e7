"""Warnings about data: each for data that are wrong, and not for such that only look a little like it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

import numpy as np
import pytest
from said import is_said

from onnxq.data.image_options import image_options
from onnxq.data.images import prepare
from onnxq.data.model_scaling import ModelScaling
from onnxq.data.samples import InputSpec, Sample
from onnxq.data.survey import Survey
from onnxq.data.warnings import DataWarning, PreparationLook, data_warnings

F4, I8 = np.dtype(np.float32), np.dtype(np.int64)
MEAN, STD = (np.array(v).reshape(3, 1, 1) for v in ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)))
SPEC = InputSpec("x", F4, ("N", 3, 24, 24))


def photographs(count: int = 40, tint: Sequence[float] = (0.485, 0.456, 0.406)) -> np.ndarray:
    """uint8 `[count, 3, 24, 24]`, RGB: channels go together, brightness and tint differ as in photographs."""
    random = np.random.default_rng(0)
    light = random.normal(0, 0.1, (count, 1, 1, 1)) + random.normal(0, 0.25, (count, 1, 24, 24))
    own = random.normal(0, 0.03, (count, 3, 1, 1)) + random.normal(0, 0.05, (count, 3, 24, 24))
    values = light + own + np.reshape(tint, (3, 1, 1))
    return np.clip(np.rint(values * 255), 0, 255).astype(np.uint8)


PHOTOS = photographs()


def found(
    data: dict[str, Sequence[np.ndarray]] | np.ndarray,
    *specs: InputSpec,
    own: dict[str, ModelScaling] | None = None,
    count: int | None = 64,
    batch: int = 1,
    bad: int = 0,
    states: Collection[str] = (),
) -> list[DataWarning]:
    """The doubts about arrays, for each input the samples'."""
    arrays = data if isinstance(data, dict) else {"x": data}
    specs = specs or (SPEC,)
    survey = Survey(specs)
    for index in range(len(next(iter(arrays.values())))):
        feeds = {s.name: np.asarray(arrays[s.name][index][None], s.dtype) for s in specs}
        survey.add(Sample(index, f"{index}.npy", feeds))
    return data_warnings(survey, own or {}, count=count, batch=batch, bad=bad, states=states)


def kinds(*arguments, **named) -> list[str]:
    """The kinds of doubts; each says what to do."""
    all_of_them = found(*arguments, **named)
    assert all(doubt.hint for doubt in all_of_them)
    return [doubt.kind for doubt in all_of_them]


class TestImages:
    """Arrays of photographs, prepared rightly and wrongly."""

    @pytest.mark.parametrize(
        ("prepared", "expected"),
        [
            (lambda x: x / 255, []),
            (lambda x: x / 127.5 - 1, []),
            (lambda x: (x - 127) / 128, []),
            (lambda x: (x / 255 - MEAN) / STD, []),
            (lambda x: ((x / 255 - MEAN) / STD)[:, ::-1], []),  # BGR less the mean in BGR: as Caffe does
            (lambda x: x - 255 * MEAN, []),
            (lambda x: x, ["unnormalized"]),
            (lambda x: x / 255 / 255, ["normalized-twice"]),
            (lambda x: ((x / 255 - MEAN) / STD - MEAN) / STD, ["normalized-twice"]),
            (lambda x: x[:, ::-1] / 255, ["channel-order"]),
            (lambda x: x[:, ::-1] / 127.5 - 1, ["channel-order"]),
            (lambda x: x[:, ::-1], ["unnormalized", "channel-order"]),
            (lambda x: (x[:, ::-1] / 255 - MEAN) / STD, ["channel-order"]),
            (lambda x: (x / 255 - MEAN[::-1]) / STD[::-1], ["channel-order"]),
        ],
    )
    def test_preparation(self, prepared: Callable, expected: list[str]) -> None:
        assert kinds(prepared(PHOTOS)) == expected

    @pytest.mark.parametrize(
        "tint",
        [(0.4, 0.45, 0.6), (0.5, 0.5, 0.5), (0.45, 0.46, 0.455)],
        ids=["the sea", "gray", "hardly any"],
    )
    def test_photographs_of_another_color(self, tint) -> None:
        assert kinds(photographs(tint=tint) / 255) == []

    def test_a_color_between_both_orders(self) -> None:
        assert kinds(photographs(200, (0.445, 0.455, 0.47)) / 255) == []

    def test_photographs_that_do_not_agree(self) -> None:
        data = PHOTOS[:, ::-1] / 255
        change = 0.2 * (-1.0) ** np.arange(40)[:, None, None]
        data[:, 0], data[:, 2] = data[:, 0] + change, data[:, 2] - change
        assert kinds(np.clip(data, 0, 1)) == []

    def test_few_photographs_tell_nothing_of_the_order(self) -> None:
        assert kinds(PHOTOS[:7, ::-1] / 255) == []

    def test_order_in_nhwc(self) -> None:
        spec = InputSpec("x", F4, ("N", 24, 24, 3))
        assert kinds(PHOTOS.transpose(0, 2, 3, 1) / 255, spec) == []
        assert kinds(PHOTOS.transpose(0, 2, 3, 1)[..., ::-1] / 255, spec) == ["channel-order"]

    def test_an_integer_input_takes_pixels(self) -> None:
        assert kinds(PHOTOS, InputSpec("x", np.dtype(np.uint8), SPEC.shape)) == []

    def test_counts_are_not_pixels(self) -> None:
        """Whole numbers in a float input of a few features; or more than a byte."""
        table = np.random.default_rng(0).integers(0, 200, (40, 8))
        assert kinds(table, InputSpec("x", F4, ("N", 8))) == []
        flat = PHOTOS.reshape(40, -1)
        assert kinds(flat, InputSpec("x", F4, ("N", 1728))) == ["unnormalized"]
        assert kinds(flat * 5.0, InputSpec("x", F4, ("N", 1728))) == []


class TestOptions:
    """Image files: what the flags say is wrong whatever the images are."""

    @pytest.mark.parametrize(
        ("options", "expected"),
        [
            ({}, []), ({"preset": "imagenet"}, []), ({"preset": "raw"}, []), ({"preset": "tensorflow"}, []),
            ({"scale": 1, "mean": 127, "std": 128}, []),
            ({"preset": "imagenet", "color": "bgr"}, []),
            ({"scale": 1, "mean": (103.939, 116.779, 123.68), "color": "bgr"}, []),
            ({"scale": 1, "mean": (123.675, 116.28, 103.53), "std": (58.4, 57.1, 57.4)}, []),
            ({"mean": (123.675, 116.28, 103.53), "std": (58.4, 57.1, 57.4)}, ["units"]),
            ({"scale": 1, "mean": (0.485, 0.456, 0.406), "std": (0.229, 0.224, 0.225)}, ["units"]),
            ({"mean": (123.675, 116.28, 103.53), "std": (0.229, 0.224, 0.225)}, ["units"]),
            ({"mean": (-0.485, -0.456, -0.406), "std": (0.229, 0.224, 0.225)}, ["units"]),
            ({"mean": (0.485, 0.456, 0.406), "std": 0.225, "color": "bgr"}, ["channel-order"]),
            ({"mean": (0.406, 0.456, 0.485), "std": (0.225, 0.224, 0.229)}, ["channel-order"]),
            ({"scale": 1, "mean": (103.939, 116.779, 123.68)}, ["channel-order"]),
        ],
    )  # fmt: skip
    def test_flags(self, options, expected: list[str]) -> None:
        made = prepare(SPEC, image_options(options))  # type: ignore[arg-type]
        order = slice(None, None, -1 if made.color == "bgr" else 1)
        mean, std = (np.reshape(v, (-1, 1, 1)) for v in (made.mean, made.std))
        survey = Survey([SPEC], [made])
        for index, image in enumerate(PHOTOS):
            values = (image[order] * made.scale - mean) / std
            survey.add(Sample(index, f"{index}.png", {"x": values[None].astype(np.float32)}))
        assert [doubt.kind for doubt in data_warnings(survey, {}, count=40, batch=1, bad=0)] == expected


class TestOwnScaling:
    """What the model does itself decides what it is to be fed."""

    @pytest.mark.parametrize(
        ("factor", "shift", "data", "expected"),
        [
            (1 / 255, 0, PHOTOS, []),
            (1 / 255, 0, PHOTOS / 255, ["normalized-twice"]),
            (1 / 57, -2, (PHOTOS / 255 - MEAN) / STD, ["normalized-twice"]),
            (1, -117, PHOTOS, []),
            (1, -117, PHOTOS / 255, ["normalized-twice"]),
            (1 / 0.225, -2, PHOTOS / 255, []),
            (1 / 0.225, -2, (PHOTOS / 255 - MEAN) / STD, ["normalized-twice"]),
            (2, -1, PHOTOS, ["unnormalized"]),
            (1, 0.5, PHOTOS / 255, []),  # a bias tells nothing
        ],
    )
    def test_of_the_model(self, factor: float, shift: float, data: np.ndarray, expected: list[str]) -> None:
        own = ModelScaling("/Sub", np.array([factor]), np.array([shift]))
        assert kinds(data, own={"x": own}) == expected


class TestConstants:
    def test_an_input_that_never_varies(self) -> None:
        assert kinds(np.zeros((40, 3, 24, 24))) == ["alike", "constant-input"]

    def test_a_blank_sample(self) -> None:
        data = PHOTOS / 255
        data[5] = 0.5
        (doubt,) = found(data)
        assert doubt.kind == "constant-sample"
        assert doubt.text.startswith("in 1 of 40 samples")
        assert "5.npy" in doubt.text

    def test_samples_of_one_color(self) -> None:
        data = np.broadcast_to(PHOTOS[:, :, :1, :1], PHOTOS.shape) / 255
        (doubt,) = [one for one in found(data) if one.kind == "constant-sample"]
        assert is_said(doubt.text, "constant-sample.color", constant=40, samples=40, input="x")

    def test_a_state_that_begins_with_zeros(self) -> None:
        """And integers of which all are the same: masks, types of tokens, a sampling rate."""
        random = np.random.default_rng(0)
        state = random.standard_normal((40, 2, 64))
        state[0] = 0
        data = {
            "audio": random.standard_normal((40, 512)), "state": state, "sr": np.full((40, 1), 16000),
            "mask": np.ones((40, 16)), "gain": np.ones((40, 1)),
        }  # fmt: skip
        specs = [
            InputSpec("audio", F4, ("N", 512)), InputSpec("state", F4, ("N", 2, 64)),
            InputSpec("sr", I8, ("N", 1)), InputSpec("mask", I8, ("N", 16)), InputSpec("gain", F4, ("N", 1)),
        ]  # fmt: skip
        assert kinds(data, *specs) == []
        state[:] = 0
        (doubt,) = found(data, *specs)
        assert (doubt.kind, doubt.input) == ("constant-input", "state")

    def test_a_feature_is_no_blank_sample(self) -> None:
        data = np.random.default_rng(0).integers(0, 2, (40, 3))
        data[0] = 0
        assert kinds(data, InputSpec("x", F4, ("N", 3))) == []


LARGE = InputSpec("x", F4, ("N", 3, 40, 40))
COARSE = np.kron(PHOTOS[:, :, :10, :10], np.ones((4, 4))) / 255


@pytest.mark.parametrize(
    ("data", "spec", "expected"),
    [
        (COARSE, LARGE, []),
        (np.random.default_rng(0).random((40, 3, 40, 40)), LARGE, ["noise"]),
        (np.random.default_rng(0).standard_normal((40, 3, 40, 40)), LARGE, ["noise"]),
        (np.random.default_rng(0).random((40, 3, 24, 24)), SPEC, []),  # so small, and it may be anything
        (np.random.default_rng(0).standard_normal((40, 1, 40, 40)), InputSpec("x", F4, ("N", 1, 40, 40)), []),
    ],
)
def test_noise_for_pictures(data: np.ndarray, spec: InputSpec, expected: list[str]) -> None:
    assert kinds(data, spec) == expected


LIGHT, OWN = (np.random.default_rng(5 + n).normal(0, 1, (40, n, 40, 40)).cumsum(2).cumsum(3) for n in (1, 3))
SHADES = (LIGHT + 0.3 * OWN) / 200
"""Pictures of all colors, whose neighbours are alike in both directions, as those of photographs are."""


@pytest.mark.parametrize("spec", [LARGE, InputSpec("x", F4, ("N", 40, 40, 3))], ids=["NCHW", "NHWC"])
def test_arrays_that_were_reshaped_instead_of_transposed(spec: InputSpec) -> None:
    channels_first = spec is LARGE
    right = SHADES if channels_first else np.ascontiguousarray(SHADES.transpose(0, 2, 3, 1))
    torn = SHADES.transpose(0, 2, 3, 1) if channels_first else SHADES
    assert "reshaped" not in kinds(right, spec)
    (doubt,) = [one for one in found(torn.reshape(right.shape), spec) if one.kind == "reshaped"]
    assert f"x.transpose{(0, 3, 1, 2) if channels_first else (0, 2, 3, 1)}" in doubt.hint


@pytest.mark.parametrize(
    ("count", "said"),
    [(40, ""), (500, " (40 of 500 samples were looked at)"), (None, " (40 samples were looked at)")],
)
def test_of_how_many_samples_is_said(count: int | None, said: str) -> None:
    (doubt,) = found(np.repeat(PHOTOS[:1], 40, 0) / 255, count=count)
    head, _, rest = doubt.text.partition("they calibrate as one does")
    assert head.startswith("all 40")
    assert rest.startswith(said) if said else not rest


class TestRepeats:
    def test_copies(self) -> None:
        data = PHOTOS / 255
        data[7] = data[3]
        (doubt,) = found(data)
        assert doubt.kind == "duplicates"
        assert "1 of 40 samples" in doubt.text
        assert "7.npy = 3.npy" in doubt.text

    def test_rows_of_a_table_may_repeat(self) -> None:
        assert kinds(np.random.default_rng(0).integers(0, 3, (40, 4)), InputSpec("x", F4, ("N", 4))) == []

    def test_all_are_one(self) -> None:
        data = np.repeat(PHOTOS[:1], 40, 0) / 255
        (doubt,) = found(data)
        assert doubt.kind == "alike"
        assert is_said(doubt.text, "alike", samples=40)

    @pytest.mark.parametrize(("noise", "expected"), [(0.001, ["alike"]), (0.02, [])])
    def test_all_are_nearly_one(self, noise: float, expected: list[str]) -> None:
        data = PHOTOS[:1] / 255 + noise * np.random.default_rng(1).standard_normal((40, 3, 24, 24))
        assert kinds(data) == expected

    @pytest.mark.parametrize(
        ("different", "expected"), [(1, ["few-different"]), (16, ["few-different"]), (24, [])]
    )
    def test_nearly_copies_of_a_few(self, different: int, expected: list[str]) -> None:
        photos = np.random.default_rng(3).uniform(0, 1, (40, 3, 24, 24))[np.arange(40) % different]
        noise = 0.01 * np.random.default_rng(1).standard_normal((40, 3, 24, 24))
        seen = [one for one in found(photos + noise) if one.kind not in ("noise", "alike")]
        assert [one.kind for one in seen] == expected
        if expected:
            assert is_said(seen[0].text, "few-different", samples=40, different=different)
            assert f"({different}.npy to 0.npy, ...)" in seen[0].text

    def test_copies_of_a_few(self) -> None:
        (doubt,) = found(np.repeat(PHOTOS[:4], 10, 0) / 255)
        assert doubt.kind == "few-different"

    def test_pictures_that_are_alike_beside_another_input(self) -> None:
        own = np.random.default_rng(0).random((40, 64))
        specs = [SPEC, InputSpec("shift", F4, ("N", 64))]
        assert kinds({"x": np.repeat(PHOTOS[:4], 10, 0) / 255, "shift": own}, *specs) == []

    def test_one_input_that_all_share(self) -> None:
        shared = np.repeat(np.random.default_rng(0).random((1, 64)), 40, 0)
        specs = [SPEC, InputSpec("shift", F4, ("N", 64))]
        assert kinds({"x": PHOTOS / 255, "shift": shared}, *specs) == []


@pytest.mark.parametrize(
    ("divided", "expected"),
    [(0, []), (1, []), (3, []), (4, ["mixed-scales"]), (20, ["mixed-scales"]), (37, []), (40, [])],
)
def test_samples_of_two_scales(divided: int, expected: list[str]) -> None:
    """Some were divided by 255 once more; a tenth of all, at least, on either side."""
    values = np.random.default_rng(4).standard_normal((40, 96)).astype(np.float32)
    values[:divided] /= 255
    assert kinds(values, InputSpec("x", F4, ("N", 96))) == expected
    loud = values * np.geomspace(1, 1e4, 40, dtype=np.float32)[:, None]  # of all sizes
    assert divided or kinds(loud, InputSpec("x", F4, ("N", 96))) == expected


@pytest.mark.parametrize(("value", "expected"), [(0.0, []), (1.0, ["constant-input"])])
def test_a_recurrent_layer_begins_with_zeros(value: float, expected: list[str]) -> None:
    spec = InputSpec("h", np.dtype(np.float32), (1, 1, 8))
    fed = {"x": PHOTOS / 255, "h": np.full((len(PHOTOS), 1, 8), value)}
    assert kinds(fed, SPEC, spec, states=("h",)) == expected
    assert kinds(fed, SPEC, spec) == ["constant-input"]


@pytest.mark.parametrize(
    ("count", "batch", "bad", "expected"),
    [
        (31, 1, 0, ["few-samples"]), (32, 1, 0, []), (None, 1, 0, []), (4, 8, 0, []),
        (3, 8, 0, ["few-samples"]), (64, 1, 2, ["bad-samples"]),
    ],
)  # fmt: skip
def test_number_of_samples(count: int | None, batch: int, bad: int, expected: list[str]) -> None:
    assert kinds(PHOTOS / 255, count=count, batch=batch, bad=bad) == expected


@pytest.mark.parametrize(
    "given",
    [
        {"mean": (123.675, 116.28, 103.53), "std": (0.229, 0.224, 0.225)},
        {"scale": 1, "mean": (123.675, 116.28, 103.53), "std": (0.229, 0.224, 0.225)},
        {"mean": (-0.485, -0.456, -0.406), "std": (0.229, 0.224, 0.225)},
    ],
)
def test_flags_that_are_printed_for_others_leave_nothing_to_doubt(given) -> None:
    """No circle: a second run with them prints no others."""

    def doubts(options) -> list[DataWarning]:
        made = prepare(SPEC, image_options(options))
        mean, std = (np.reshape(v, (-1, 1, 1)) for v in (made.mean, made.std))
        survey = Survey([SPEC], [made])
        for index, image in enumerate(PHOTOS):
            values = (image * made.scale - mean) / std
            survey.add(Sample(index, f"{index}.png", {"x": values[None].astype(np.float32)}))
        return data_warnings(survey, {}, count=40, batch=1, bad=0)

    (doubt,) = doubts(given)
    names = [name.removeprefix("--") for name in doubt.more[::2]]
    texts = dict(zip(names, doubt.more[1::2], strict=True))
    changed = {
        name: [float(one) for one in text.split(",")] for name, text in texts.items() if name != "scale"
    }
    kept = {name: value for name, value in given.items() if f"--{name}" not in doubt.without}
    assert set(doubt.more[::2]) <= set(doubt.without)
    assert texts.get("scale", "1/255") == "1/255"
    assert changed["mean"] == pytest.approx([0.485, 0.456, 0.406])
    assert doubts({**kept, **changed}) == []


def test_what_answers_tell_comes_first_and_instead_of_guesses() -> None:
    units, other = (DataWarning(kind, "x", "", "") for kind in ("units", "noise"))
    told = DataWarning("preparation", "x", "", "")
    assert PreparationLook((told,)).beside([units, other]) == [told, other]
    turned = DataWarning("channel-order", "x", "", "")
    assert PreparationLook((turned,)).beside([units]) == [turned, units]
    odd = DataWarning("unnormalized", "x", "", "")
    assert PreparationLook((told,)).beside([odd]) == [told]  # one doubt of one thing
    assert PreparationLook((), sure_of="x").beside([odd]) == []
    assert PreparationLook((), sure_of="z").beside([odd]) == [odd]
    again = DataWarning("channel-order", "x", "by the means", "")
    assert PreparationLook((turned,)).beside([again]) == [turned]
    assert PreparationLook((told,)).beside([again]) == [told, again]  # statistics tell no order
    assert PreparationLook((told,), in_order="x").beside([again]) == [told]
    assert PreparationLook((), in_order="x").beside([again]) == []
    unlike = DataWarning("unlike", "x", "", "")
    assert PreparationLook((unlike,)).beside([units, odd]) == [units, odd, unlike]
