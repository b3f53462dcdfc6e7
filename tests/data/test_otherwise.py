"""Other usual preparations of what is fed: they make what the flags that are hinted at make."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from said import is_said

from onnxq.data.image_options import image_options
from onnxq.data.images import Preparation, prepare
from onnxq.data.otherwise import USUAL, otherwise
from onnxq.data.samples import InputSpec, Sample
from onnxq.data.survey import InputSurvey, Survey

F4 = np.dtype(np.float32)
SPEC = InputSpec("x", F4, (1, 3, 16, 24))
SQUARE = InputSpec("x", F4, (1, 16, 16, 3))


@pytest.fixture
def photo(tmp_path: Path) -> Path:
    """A picture of all values, 24x16."""
    pixels = np.random.default_rng(0).integers(0, 256, (16, 24, 3), np.uint8)
    pixels[0, 0], pixels[0, 1] = 0, 255
    Image.fromarray(pixels).save(tmp_path / "a.png")
    return tmp_path / "a.png"


def decoded(photo: Path, **options: Any) -> tuple[Preparation, np.ndarray]:
    """How a picture is prepared with options, and what comes of it."""
    made = prepare(SPEC, image_options(options))
    return made, made.decode(photo, print)[None]


def surveyed(spec: InputSpec, *fed: np.ndarray, made: Preparation | None = None) -> InputSurvey:
    """What an input that is fed these arrays looks like."""
    survey = Survey([spec], [] if made is None else [made])
    for place, one in enumerate(fed):
        survey.add(Sample(place, str(place), {"x": one.astype(spec.dtype)}))
    return survey.inputs[0]


def flags(hint: str) -> dict[str, Any]:
    """The options of the flags in a hint."""
    found: dict[str, Any] = dict(re.findall(r"--(\w+) (\S+)", hint))
    numbers = {key: [float(one) for one in found[key].split(",")] for key in ("mean", "std") if key in found}
    top, _, bottom = found.pop("scale", "").partition("/")
    return {**found, **numbers, **({"scale": float(top) / float(bottom or 1)} if top else {})}


@pytest.mark.parametrize(
    "fed",
    [
        {},
        {"preset": "tensorflow", "color": "bgr"},
        {"preset": "raw"},
        {"mean": [0.4, 0.5, 0.6], "std": [0.2, 0.3, 0.4]},
        {"scale": 1, "mean": [104, 117, 124], "color": "bgr"},
    ],
)
def test_what_is_tried_is_what_the_flags_make(photo: Path, fed: dict[str, Any]) -> None:
    made, values = decoded(photo, **fed)
    candidates = otherwise(surveyed(SPEC, values, made=made))
    assert len(candidates) >= 7
    for one in candidates:
        _, wanted = decoded(photo, **{**fed, **flags(one.hint)})
        np.testing.assert_allclose(one.of(values, made.layout), wanted, rtol=1e-4, atol=2e-4 * np.ptp(wanted))


def test_nothing_is_tried_twice(photo: Path) -> None:
    made, values = decoded(photo, scale=1 / 128, mean=[127 / 128])  # nearly that of TensorFlow
    words = [one.what for one in otherwise(surveyed(SPEC, values, made=made))]
    assert len(words) == len(set(words)) == 2 * (len(USUAL) - 1) + 1
    assert not any("127.5" in one for one in words)


PIXELS = np.random.default_rng(1).integers(0, 256, (4, 1, 16, 16, 3)).astype(np.float64)
PIXELS[0, 0, 0, 0], PIXELS[0, 0, 0, 1] = 0, 255


@pytest.mark.parametrize("now", USUAL.values())
@pytest.mark.parametrize("what", USUAL)
def test_arrays_are_known_by_their_range(now: Any, what: str) -> None:
    fed = (PIXELS * now.scale - np.array(now.mean)) / np.array(now.std)
    preset = USUAL[what]
    wanted = ((PIXELS[0] * preset.scale - np.array(preset.mean)) / np.array(preset.std)).astype(np.float32)
    made = {one.what: one for one in otherwise(surveyed(SQUARE, *fed))}
    assert (what in made) == (preset is not now)
    if what in made:
        np.testing.assert_allclose(
            made[what].of(fed[0].astype(np.float32), "NHWC"), wanted, atol=1e-3 * np.ptp(wanted)
        )


def test_arrays_that_were_divided_twice() -> None:
    made = {one.what: one for one in otherwise(surveyed(SQUARE, *(PIXELS / 255**2)))}
    np.testing.assert_allclose(
        made["pixel, from 0 to 255"].of((PIXELS[0] / 255**2).astype(np.float32), "NHWC"), PIXELS[0], atol=1e-2
    )


def test_square_arrays_may_be_turned() -> None:
    (turned,) = [one for one in otherwise(surveyed(SQUARE, *PIXELS)) if one.swaps]
    assert np.array_equal(turned.of(PIXELS[0], "NHWC"), PIXELS[0].swapaxes(1, 2))


def test_what_is_no_pixels_is_only_turned_around() -> None:
    words = [
        one.what for one in otherwise(surveyed(SPEC, np.random.default_rng(0).normal(0, 300, (1, 3, 16, 24))))
    ]
    assert is_said(words, "pictures-as.turned")
    assert len(words) == 1


def test_whole_numbers_stay() -> None:
    spec = InputSpec("x", np.dtype(np.uint8), (1, 3, 16, 24))
    words = [
        one.what for one in otherwise(surveyed(spec, np.arange(3 * 16 * 24).reshape(1, 3, 16, 24) % 256))
    ]
    assert is_said(words, "pictures-as.turned")
    assert len(words) == 1


def test_what_is_no_picture_has_no_other_preparation() -> None:
    spec = InputSpec("x", F4, (1, 8))
    assert otherwise(surveyed(spec, np.zeros((1, 8)))) == []
