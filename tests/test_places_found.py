"""Detectors of which nothing says how outputs are read: the places that they find tell the preparation."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from said import is_said

import onnxq
from onnxq.data.warnings import DataWarning
from onnxq.pipeline.preparation import PlacesMeter, _contradicts, _Look, scrambled
from onnxq.task.layout import Boxes, CandidateColumns
from onnxq.task.sureness import Move, SurenessMeter

SIDE, OBJECT = 64, 8
PATTERN = np.random.default_rng(0).permutation([-1, 1] * (OBJECT**2 // 2)).reshape(OBJECT, OBJECT)
MATCHED = np.repeat(PATTERN[None, None], 3, 1) / (3 * OBJECT**2)


def pictures(count: int = 24) -> np.ndarray:
    """Dull pictures with two to five objects each, uint8 `[count, 3, side, side]`."""
    random = np.random.default_rng(1)
    made = random.normal(120, 6, (count, 3, SIDE, SIDE)) + random.normal(0, 8, (count, 1, 1, 1))
    for one in made:
        for place in random.permutation(9)[: random.integers(2, 6)]:
            top, left = 4 + 18 * (place // 3), 4 + 18 * (place % 3)
            one[:, top : top + OBJECT, left : left + OBJECT] += 100 * PATTERN
    made[:, :, 0, 0], made[:, :, 0, 1] = 0, 255
    return made.clip(0, 255).round().astype(np.uint8)


PIXELS = pictures()


def model(nodes: list[onnx.NodeProto], shape: list[int], **weights: np.ndarray) -> onnx.ModelProto:
    """A model from `x`, a picture, to `y`."""
    graph = helper.make_graph(
        nodes, "net",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, SIDE, SIDE])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, shape)],
        [numpy_helper.from_array(value, name) for name, value in weights.items()],
    )  # fmt: skip
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def heat(scale: float) -> onnx.ModelProto:
    """A map of heat: 1 where an object of the contrast `pixel * scale` begins, about 100 of 255."""
    nodes = [
        helper.make_node("Conv", ["x", "w", "b"], ["c"], name="conv"),
        helper.make_node("Abs", ["c"], ["off"], name="abs"),
        helper.make_node("Sub", ["near", "off"], ["n"], name="sub"),
        helper.make_node("Sigmoid", ["n"], ["y"], name="sigmoid"),
    ]
    return model(
        nodes, [1, 1, SIDE - OBJECT + 1, SIDE - OBJECT + 1], w=(MATCHED / scale).astype(np.float32),
        b=np.array([-100], np.float32), near=np.array([30], np.float32),
    )  # fmt: skip


def yolox() -> onnx.ModelProto:
    """Cells of three strides as of YOLOX, nothing decoded: the finest finds objects, of pixels to 255."""
    nodes, joined = [], []
    weights = {
        "w": MATCHED.astype(np.float32), "b": np.array([-60], np.float32), "no": np.array([-60], np.float32),
        "yes": np.array([5, -5], np.float32), "box": np.array([0, 0, 2, 2], np.float32),
        "all": np.array([1, 7, -1], np.int64),
    }  # fmt: skip
    for stride in (8, 16, 32):
        weights[f"zero{stride}"] = np.zeros((4, 3, 1, 1), np.float32)
        weights[f"none{stride}"] = np.zeros((1, 3, 1, 1), np.float32)
        weights[f"two{stride}"] = np.zeros((2, 3, 1, 1), np.float32)
        found = ["w", "b"] if stride == 8 else [f"none{stride}", "no"]
        pads = {"pads": [0, 0, 7, 7]} if stride == 8 else {}
        pool = {"kernel_shape": [stride] * 2, "strides": [stride] * 2}
        small = f"small{stride}"
        nodes += [
            helper.make_node("MaxPool", ["x"], [small], **pool),
            helper.make_node("Conv", [small, f"zero{stride}", "box"], [f"box{stride}"]),
            helper.make_node("Conv", ["x", *found], [f"fine{stride}"], **pads),
            helper.make_node("MaxPool", [f"fine{stride}"], [f"most{stride}"], **pool),
            helper.make_node("Sigmoid", [f"most{stride}"], [f"there{stride}"]),
            helper.make_node("Conv", [small, f"two{stride}", "yes"], [f"kind{stride}"]),
            helper.make_node("Sigmoid", [f"kind{stride}"], [f"class{stride}"]),
            helper.make_node(
                "Concat", [f"box{stride}", f"there{stride}", f"class{stride}"], [f"all{stride}"], axis=1
            ),
            helper.make_node("Reshape", [f"all{stride}", "all"], [f"rows{stride}"]),
        ]
        joined.append(f"rows{stride}")
    nodes += [
        helper.make_node("Concat", joined, ["rows"], axis=2),
        helper.make_node("Transpose", ["rows"], ["y"], perm=[0, 2, 1]),
    ]
    return model(nodes, [1, 84, 7], **weights)


def told(proto: onnx.ModelProto, fed: np.ndarray) -> list[DataWarning]:
    """What `onnxq data` tells, but that samples are few."""
    seen = onnxq.look(proto, {"x": np.ascontiguousarray(fed, np.float32)})
    return [one for one in seen.warnings if one.kind not in ("few-samples", "noise", "yuv")]


def test_pixels_to_255_are_no_doubt_where_the_model_finds_more_with_them() -> None:
    """Whatever the values alone look like: they are whole numbers, and no task is known."""
    assert told(heat(1.0), PIXELS * 1.0) == told(yolox(), PIXELS * 1.0) == []


def test_where_nothing_is_found_with_either_it_stays_a_guess() -> None:
    nothing = 120 + PIXELS % 8 + 0.0
    assert [one.kind for one in told(heat(1.0), nothing)] == ["unnormalized"]


@pytest.mark.parametrize(
    ("taken", "fed", "named"),
    [
        (1.0, PIXELS / 255, "pixel, from 0 to 255"),
        (1 / 127.5, PIXELS / 255, "pixel / 127.5 - 1"),
        (1 / 255, PIXELS / 127.5 - 1, "pixel / 255"),
    ],
    ids=["0..1 of 0..255", "0..1 of -1..1", "-1..1 of 0..1"],
)
def test_other_values_are_named_by_the_places_of_a_map(taken: float, fed: np.ndarray, named: str) -> None:
    first = told(heat(taken), fed)[0]
    assert first.kind == "preparation"
    assert f"its answers with {named}: " in first.text
    assert is_said(first.text, "preparation.places", score="0.5", low="0.0", images="24 images")


def test_yolox_is_asked_by_its_boxes() -> None:
    (found,) = told(yolox(), PIXELS / 255)
    assert found.kind == "preparation"
    assert "with pixel, from 0 to 255: " in found.text
    assert "against 0.0 as fed" in found.text


def test_what_is_found_in_pieces_of_pictures_is_no_object() -> None:
    """A net that finds whatever is bright names no values that make all bright."""
    bright = model(
        [
            helper.make_node("Conv", ["x", "w", "b"], ["c"], name="conv"),
            helper.make_node("Sigmoid", ["c"], ["y"], name="sigmoid"),
        ],
        [1, 1, SIDE, SIDE], w=np.full((1, 3, 1, 1), 1 / 3, np.float32), b=np.array([-200], np.float32),
    )  # fmt: skip
    assert [one.kind for one in told(bright, PIXELS / 255)] == []


def test_a_run_says_the_preparation_before_other_doubts() -> None:
    """Before few samples, say: other data have other figures."""
    made = onnxq.quantize(heat(1.0), {"x": np.float32(PIXELS / 255)}, repair="none", compile=False).report
    first = made.calibration.data.doubts[0]
    assert (first.kind, "pixel, from 0 to 255" in first.text) == ("preparation", True)
    assert is_said(first.hint, "pictures-as.arrays/do", how="give the arrays as pixels from 0 to 255")


def test_of_classes_that_sum_to_one_the_first_does_not_count() -> None:
    rows = np.tile([[0.9, 0.1]], (200, 1)).astype(np.float32)
    some = rows.copy()
    some[:3] = 0.2, 0.8
    meter = PlacesMeter(("y",), ("y",))
    for seen, again in ((rows, rows), (some, some), (some, rows)):
        meter.add([seen], [again], {}, Move(0.0, 0.0, (1, 1)))
    assert meter.detected == 6
    assert np.allclose(meter.each, [0, np.log(4), -np.log(2.5)])


@pytest.mark.parametrize("axes", [(2, 3), (1, 2)])
def test_pieces_have_the_same_values_elsewhere(axes: tuple[int, int]) -> None:
    shape = [1, 3, 3, 3]
    shape[axes[0]], shape[axes[1]] = 32, 48
    fed = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    made = scrambled(fed, *axes)
    assert made.shape == fed.shape
    assert np.array_equal(np.sort(made, None), np.sort(fed, None))
    assert np.mean(made == fed) < 0.02


def peaks() -> onnx.ModelProto:
    """A heat map of every fourth pixel beside sizes and offsets, as CenterNet's, of pixels to 255."""
    made = helper.make_graph(
        [
            helper.make_node("Conv", ["x", "w", "b"], ["c"], pads=[0, 0, 7, 7]),
            helper.make_node("MaxPool", ["c"], ["most"], kernel_shape=[4, 4], strides=[4, 4]),
            helper.make_node("Sigmoid", ["most"], ["heat"]),
            helper.make_node("MaxPool", ["x"], ["small"], kernel_shape=[4, 4], strides=[4, 4]),
            helper.make_node("Conv", ["small", "two"], ["raw"]),
            helper.make_node("Exp", ["raw"], ["sizes"]),
            helper.make_node("Conv", ["small", "two"], ["offsets"]),
        ],
        "net",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, SIDE, SIDE])],
        [
            helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, channels, SIDE // 4, SIDE // 4])
            for name, channels in (("heat", 1), ("sizes", 2), ("offsets", 2))
        ],
        [
            numpy_helper.from_array(MATCHED.astype(np.float32), "w"),
            numpy_helper.from_array(np.array([-60], np.float32), "b"),
            numpy_helper.from_array(np.zeros((2, 3, 1, 1), np.float32), "two"),
        ],
    )
    return helper.make_model(made, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.mark.parametrize("empty", [0, 3])
def test_peaks_of_which_none_is_found_tell_the_preparation(empty: int) -> None:
    """Also where most pictures have nothing in them: as fed nothing is found in any."""
    dull = np.random.default_rng(2).normal(120, 6, (16 * empty, 3, SIDE, SIDE)).round()
    images = np.concatenate([pictures(16), dull])
    images[:, :, 0, 0], images[:, :, 0, 1] = 0, 255
    assert told(peaks(), images * 1.0) == []
    (doubt,) = told(peaks(), images / 255)
    assert doubt.kind == "preparation"
    assert "with pixel, from 0 to 255" in doubt.text


@pytest.mark.parametrize("again", [True, False])
def test_what_is_not_found_again_contradicts_itself(again: bool) -> None:
    """Things at other places each time: a net that is fed rightly finds them again, or finds nothing."""
    random, layout = np.random.default_rng(0), Boxes(
        boxes=CandidateColumns(("y",), 0, 4), scores=CandidateColumns(("y",), 4, None), form="cxcywh"
    )  # fmt: skip
    meter = SurenessMeter(layout, ("y",))
    for _ in range(16):
        rows = np.hstack([random.uniform(0, 600, (1, 6, 2))[0], np.full((6, 2), 20.0), np.full((6, 1), 0.9)])
        there = rows if again else np.hstack([random.uniform(0, 600, (6, 2)), rows[:, 2:]])
        meter.add([rows[None]], [there[None]], {}, Move(0, 0, (640, 640)))
    assert (_contradicts(meter), _Look._tell_nothing(meter, {})) == (not again, False)
