"""What the float model says of how its pictures are prepared: nets that know it by construction."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from PIL import Image
from said import is_said

import onnxq
from onnxq.data.warnings import DataWarning
from onnxq.pipeline import preparation

SIDE, CLASSES, COUNT = 16, 24, 80


def templates() -> np.ndarray:
    """A smooth picture a class, RGB from 0 to 255, `[classes, 3, side, side]`."""
    random = np.random.default_rng(0)
    coarse = random.uniform(40, 215, (CLASSES, 3, 2, 2))
    coarse[:, 0] += 20  # as photographs, more red than blue
    places = np.linspace(0, 1, SIDE)
    along = np.stack([1 - places, places])
    return np.einsum("kcij,iy,jx->kcyx", coarse, along, along).clip(0, 255)


TEMPLATES = templates()


def pictures(count: int = COUNT, of: np.ndarray = TEMPLATES) -> np.ndarray:
    """Pictures of the classes with noise, uint8 `[count, 3, side, side]`."""
    random = np.random.default_rng(1)
    of_class = random.integers(0, CLASSES, count)
    noise = random.normal(0, 12, (count, of.shape[1], SIDE, SIDE)) + random.normal(0, 8, (count, 1, 1, 1))
    found = (of[of_class] + noise).clip(0, 255).round().astype(np.uint8)
    found[:, :, 0, 0], found[:, :, 0, 1] = 0, 255
    return found


PICTURES = pictures()


def nearest(
    scale: float, mean: Sequence[float], bgr: bool = False, of: np.ndarray = TEMPLATES, sure: float = 0.5
) -> onnx.ModelProto:
    """Classes by the nearest template, which is prepared by (pixel * scale - mean)."""
    made = of * scale - np.reshape(mean, (1, -1, 1, 1))
    made = (made[:, ::-1] if bgr else made).reshape(CLASSES, -1)
    sharp = sure / (12 * scale) ** 2 / 24
    weights = (2 * sharp * made).T.astype(np.float32)
    bias = (-sharp * (made**2).sum(1)).astype(np.float32)
    nodes = [
        helper.make_node("Flatten", ["x"], ["flat"], name="flatten"),
        helper.make_node("Gemm", ["flat", "w", "b"], ["scores"], name="gemm"),
        helper.make_node("Softmax", ["scores"], ["y"], name="softmax", axis=1),
    ]
    return model(nodes, [CLASSES], channels=of.shape[1], w=weights, b=bias)


def normed(scale: float, mean: Sequence[float]) -> onnx.ModelProto:
    """A convolution and its BatchNormalization, with statistics of the pictures; no task is known of it."""
    random = np.random.default_rng(2)
    weights = random.normal(0, 1, (8, 3, 1, 1))
    values = np.einsum(
        "oi,niyx->noyx", weights[:, :, 0, 0], PICTURES * scale - np.reshape(mean, (1, -1, 1, 1))
    )
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], name="conv"),
        helper.make_node("BatchNormalization", ["c", "one", "zero", "mean", "var"], ["n"], name="norm"),
        helper.make_node("Relu", ["n"], ["y"], name="relu"),
    ]
    return model(
        nodes, [8, SIDE, SIDE], w=weights, one=np.ones(8), zero=np.zeros(8), mean=values.mean((0, 2, 3)),
        var=values.var((0, 2, 3)),
    )  # fmt: skip


def model(
    nodes: list[onnx.NodeProto], shape: list[int], channels: int = 3, **weights: np.ndarray
) -> onnx.ModelProto:
    """A model from `x`, a batch of pictures, to `y`."""
    graph = helper.make_graph(
        nodes, "net",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", channels, SIDE, SIDE])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N", *shape])],
        [numpy_helper.from_array(value.astype(np.float32), name) for name, value in weights.items()],
    )  # fmt: skip
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def unnamed(proto: onnx.ModelProto) -> onnx.ModelProto:
    """The same without its Softmax: nothing says that its output is made of scores."""
    made = onnx.ModelProto.FromString(proto.SerializeToString())
    del made.graph.node[-1]
    made.graph.output[0].name = "scores"
    return made


def clipped(proto: onnx.ModelProto) -> onnx.ModelProto:
    """The same, which takes no values beyond -1 to 1."""
    made = onnx.ModelProto.FromString(proto.SerializeToString())
    made.graph.node[0].input[0] = "clipped"
    made.graph.node.insert(0, helper.make_node("Clip", ["x", "low", "high"], ["clipped"], name="clip"))
    for name, value in (("low", -1), ("high", 1)):
        made.graph.initializer.append(numpy_helper.from_array(np.float32(value), name))
    return made


IMAGENET = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
RIGHT = PICTURES / 127.5 - 1
TRAINED = nearest(1 / 127.5, [1, 1, 1])
UNNAMED = unnamed(TRAINED)


def told(proto: onnx.ModelProto, fed: np.ndarray) -> list[DataWarning]:
    """What `onnxq data` tells of it beside what the values say."""
    seen = onnxq.look(proto, {"x": np.ascontiguousarray(fed, np.float32)})
    return [one for one in seen.warnings if "trained" in one.text + one.hint and one.kind != "yuv"]


def of_imagenet(pixels: np.ndarray) -> np.ndarray:
    """As the preset has it."""
    mean, std = (np.reshape(one, (3, 1, 1)) for one in IMAGENET)
    return (pixels / 255 - mean) / std


class TestClasses:
    """A net of classes that was made for pixels from -1 to 1."""

    def test_of_the_right_preparation_nothing_is_told(self) -> None:
        assert told(TRAINED, RIGHT) == []

    @pytest.mark.parametrize(
        "fed", [PICTURES / 255, PICTURES * 1.0, PICTURES / 255**2], ids=["0..1", "0..255", "twice"]
    )
    def test_other_values_are_named(self, fed: np.ndarray) -> None:
        (found,) = told(TRAINED, fed)
        assert found.kind == "preparation"
        assert "pixel / 127.5 - 1" in found.hint
        assert "reverse" not in found.hint
        assert "against" in found.text

    def test_the_other_order_is_named(self) -> None:
        (found,) = told(TRAINED, RIGHT[:, ::-1])
        assert (found.kind, found.hint) == (
            "channel-order", "if the model was trained so, reverse their channels, x[:, ::-1]"
        )  # fmt: skip

    @pytest.mark.parametrize("tint", [0.15, 0.2])
    def test_the_other_order_is_named_where_it_only_makes_answers_less_certain(self, tint: float) -> None:
        """Dull colors: the class is mostly the same in either order."""
        gray = TEMPLATES.mean(1, keepdims=True)
        dull = gray + tint * (TEMPLATES - gray)
        proto, fed = nearest(1 / 127.5, [1, 1, 1], of=dull, sure=0.05), pictures(128, dull) / 127.5 - 1
        assert told(proto, fed) == []
        (found,) = told(proto, fed[:, ::-1])
        assert found.kind == "channel-order"
        assert is_said(found.text, "preparation.order")

    def test_scores_that_nothing_says_to_be_such_are_asked_too(self) -> None:
        """As of an export whose only output is called `linear_9`; the text says what it hangs on."""
        assert told(UNNAMED, RIGHT) == []
        (values,) = told(UNNAMED, PICTURES / 255)
        assert (values.kind, "if its outputs are scores of classes" in values.text) == ("preparation", True)
        (order,) = told(UNNAMED, RIGHT[:, ::-1])
        assert (order.kind, "if its outputs are scores of classes" in order.text) == ("channel-order", True)

    @pytest.mark.parametrize("columns", [4, 24])
    def test_an_output_that_stands_for_something_else_names_no_preparation(self, columns: int) -> None:
        """Projections of the pictures by chance, in whatever size: the greatest column is no class."""
        random = np.random.default_rng(5)
        for size in (1e-4, 1e-3, 1e-2, 1.0):
            weights = random.normal(0, size, (3 * SIDE * SIDE, columns))
            nodes = [
                helper.make_node("Flatten", ["x"], ["flat"], name="flatten"),
                helper.make_node("MatMul", ["flat", "w"], ["y"], name="product"),
            ]
            proto = model(nodes, [columns], w=weights)
            assert [one for one in told(proto, RIGHT) if one.kind != "unlike"] == []

    def test_a_model_that_is_less_sure_is_asked_where_the_difference_is_large(self) -> None:
        """Four classes of a kind each, which it cannot tell apart: six of 24 answers differ."""
        kinds = TEMPLATES[np.arange(CLASSES) // 4 * 4]
        weak, fed = clipped(nearest(1 / 127.5, [1, 1, 1], of=kinds)), pictures(of=kinds)
        assert told(weak, fed / 127.5 - 1) == []
        (found,) = told(weak, fed / 255**2)
        assert "pixel / 127.5 - 1" in found.hint

    def test_answers_that_only_get_clearer_by_greater_values_name_no_preparation(self) -> None:
        """A net without normalization, which is not sure: 128 times the values make it so."""
        assert told(nearest(1 / 127.5, [1, 1, 1], sure=0.004), RIGHT) == []

    def test_values_that_are_no_better_are_left_as_they_are_fed(self) -> None:
        """Templates of one length around gray: any greater contrast gives the same answers, as surely."""
        around = TEMPLATES - TEMPLATES.mean((2, 3), keepdims=True)
        even = 127.5 + 12 * around / np.sqrt((around**2).mean((1, 2, 3), keepdims=True))
        proto, fed = nearest(1 / 127.5, [1, 1, 1], of=even), pictures(128, even) / 127.5 - 1
        assert told(proto, fed) == []
        (found,) = told(proto, fed[:, ::-1])
        assert (found.kind, found.hint) == (
            "channel-order", "if the model was trained so, reverse their channels, x[:, ::-1]"
        )  # fmt: skip

    def test_both_are_named(self) -> None:
        (found,) = told(TRAINED, PICTURES[:, ::-1] / 255)
        assert "pixel / 127.5 - 1" in found.hint
        assert "x[:, ::-1]" in found.hint

    def test_a_net_of_caffe(self) -> None:
        proto = nearest(1.0, [103.939, 116.779, 123.68][::-1], bgr=True)
        (found,) = told(proto, of_imagenet(PICTURES))
        assert "mean of Caffe's models" in found.hint
        assert "x[:, ::-1]" in found.hint

    def test_turned_arrays_are_named(self) -> None:
        (found,) = told(TRAINED, RIGHT.swapaxes(2, 3))
        assert is_said(found.text, "pictures-as.swapped")
        assert is_said(found.hint, "pictures-as.swapped/do", axes="(2, 3)")

    def test_noise_is_no_reason(self) -> None:
        """Where the net is not sure with anything, nothing is recommended."""
        noise = np.random.default_rng(3).integers(0, 256, PICTURES.shape)
        assert [one for one in told(TRAINED, noise / 255) if one.kind != "unlike"] == []

    def test_few_samples_tell_nothing(self) -> None:
        assert told(TRAINED, PICTURES[:7] / 255) == []

    def test_a_model_that_takes_long_is_not_run(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(preparation, "_SLOW", 0.0)
        assert told(TRAINED, PICTURES / 255) == []

    def test_a_fault_costs_nothing(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def broken(*arguments: object) -> None:
            raise ZeroDivisionError

        monkeypatch.setattr(preparation, "moved", broken)
        assert told(TRAINED, PICTURES / 255) == []


@pytest.mark.parametrize(
    ("fed", "kinds"), [(PICTURES * 1.0, []), (PICTURES * 0 + PICTURES[:1], ["unnormalized"])]
)
def test_whole_numbers_are_right_where_answers_show_it(fed: np.ndarray, kinds: list[str]) -> None:
    """Nothing says that the outputs are scores; of one picture, 80 times, no answer shows anything."""
    proto = unnamed(nearest(1.0, [0, 0, 0]))
    seen = onnxq.look(proto, {"x": np.ascontiguousarray(fed, np.float32)})
    assert [one.kind for one in seen.warnings if one.kind == "unnormalized"] == kinds


def test_of_how_many_samples_is_said() -> None:
    seen = onnxq.look(TRAINED, {"x": np.ascontiguousarray(pictures(160) / 255, np.float32)})
    (found,) = [one for one in seen.warnings if one.kind == "preparation"]
    assert is_said(found.text, "preparation.classes", images="128 of 160 images")


def test_a_run_looks_at_all_samples_also_those_that_do_not_calibrate() -> None:
    data = {"x": np.ascontiguousarray(PICTURES[:64] / 255, np.float32)}
    report = onnxq.quantize(TRAINED, data, compile=False).report
    (found,) = [one for one in report.calibration.data.doubts if one.kind == "preparation"]
    assert report.calibration.samples < 64
    assert is_said(found.text, "preparation.classes", images="64 images")


def test_the_same_answer_for_everything_is_told() -> None:
    proto = nearest(1 / 127.5, [1, 1, 1])
    for weight in proto.graph.initializer:
        if weight.name == "w":
            weight.CopyFrom(numpy_helper.from_array(0 * numpy_helper.to_array(weight), "w"))
    (found,) = told(proto, RIGHT)
    assert found.kind == "unlike"
    assert "the same answer" in found.text


def test_training_that_shows_in_no_answer_names_no_preparation() -> None:
    """Statistics fit another preparation, and everything gets one answer: the weights are asked for."""
    proto = normed(1 / 127.5, [1, 1, 1])
    nodes = [
        *proto.graph.node,
        helper.make_node("GlobalAveragePool", ["y"], ["g"], name="pool"),
        helper.make_node("Flatten", ["g"], ["flat"], name="flatten"),
        helper.make_node("Gemm", ["flat", "rows", "bias"], ["scores"], name="gemm"),
        helper.make_node("Softmax", ["scores"], ["p"], name="softmax", axis=1),
    ]
    held = {one.name: numpy_helper.to_array(one) for one in proto.graph.initializer}
    held |= {"rows": np.zeros((8, CLASSES)), "bias": np.linspace(-3, 3, CLASSES)}
    made = model(nodes, [CLASSES], **held)
    made.graph.output[0].name = "p"
    (found,) = told(made, PICTURES / 255)
    assert (found.kind, "the same answer" in found.text) == ("unlike", True)


class TestNorm:
    """A net that kept the statistics of training: its task need not be known."""

    PROTO = normed(1 / 127.5, [1, 1, 1])

    def test_of_the_right_preparation_nothing_is_told(self) -> None:
        assert told(self.PROTO, RIGHT) == []

    @pytest.mark.parametrize("fed", [PICTURES / 255, of_imagenet(PICTURES), PICTURES * 1.0])
    def test_other_values_are_named(self, fed: np.ndarray) -> None:
        (found,) = told(self.PROTO, fed)
        assert found.kind == "preparation"
        assert "BatchNormalization 'norm'" in found.text
        assert "pixel / 127.5 - 1" in found.hint

    def test_one_that_was_never_trained_knows_nothing(self) -> None:
        proto = onnx.ModelProto.FromString(self.PROTO.SerializeToString())
        for weight in proto.graph.initializer:
            if weight.name in ("mean", "var"):
                weight.CopyFrom(
                    numpy_helper.from_array(np.full(8, weight.name == "var", np.float32), weight.name)
                )
        assert told(proto, PICTURES / 255) == []

    def test_statistics_that_are_made_up_know_nothing(self) -> None:
        """They are near those of pictures of the right range, and each would suit any other channel."""
        proto = onnx.ModelProto.FromString(self.PROTO.SerializeToString())
        weights = {one.name: one for one in proto.graph.initializer}
        mean, var = (numpy_helper.to_array(weights[name]) for name in ("mean", "var"))
        random = np.random.default_rng(4)
        for name, made in (
            ("mean", random.normal(0, mean.std(), 8)),
            ("var", np.median(var) * (1 + random.normal(0, 0.1, 8))),
        ):
            weights[name].CopyFrom(numpy_helper.from_array(made.astype(np.float32), name))
        assert told(proto, RIGHT) == told(proto, PICTURES / 255) == []

    def test_pictures_of_another_kind_name_no_preparation(self) -> None:
        dull = 120 + PICTURES // 64
        (found,) = told(self.PROTO, dull / 255)
        assert found.kind == "unlike"
        assert is_said(found.text, "unlike.statistics")


def test_a_run_tells_it_and_its_flags_make_it_well(tmp_path: Path) -> None:
    """Of image files, `quantize` names flags; with them nothing is told any more."""
    folder = tmp_path / "images"
    folder.mkdir()
    for place, one in enumerate(PICTURES):
        Image.fromarray(one.transpose(1, 2, 0)).save(folder / f"{place:03}.png")
    quiet: dict[str, Any] = {"repair": "none", "compile": False}
    onnx.save(TRAINED, tmp_path / "net.onnx")

    def doubts(**images: Any) -> list[DataWarning]:
        result = onnxq.quantize(tmp_path / "net.onnx", folder, images=images or None, **quiet)
        found = result.report.calibration.data.doubts
        assert "data" in result.report.phases
        return [one for one in found if one.kind == "preparation"]

    (found,) = doubts()
    assert "--scale 1/127.5 --mean 1" in found.hint
    assert doubts(scale=1 / 127.5, mean=(1.0,), std=(1.0,)) == []


class Scored:
    """A score of pictures, which the model is fed as they are."""

    def __init__(self, fed: np.ndarray) -> None:
        self.fed = fed.astype(np.float32)

    def __call__(self, run: Any) -> float:
        batches = np.array_split(self.fed, max(1, len(self.fed) // 12))  # few of them
        return float(np.mean([next(iter(run({"x": one}).values())).max() for one in batches]))


def test_a_function_of_other_scenes_is_no_mismatch_and_one_of_the_other_order_is() -> None:
    """Sunsets calibrate, and the sea scores: the means of the channels are in the other order, and right."""
    tinted = TEMPLATES.mean(1, keepdims=True) + np.reshape([1, 0, -1], (1, 3, 1, 1)) * 40
    tinted[1::2] = tinted[1::2, ::-1]
    some = (tinted + 0.5 * (TEMPLATES - TEMPLATES.mean(1, keepdims=True))).clip(0, 255)
    proto, random = nearest(1 / 127.5, [1, 1, 1], of=some), np.random.default_rng(6)
    of_class = random.integers(0, CLASSES, 320)
    made = (some[of_class] + random.normal(0, 12, (320, 3, SIDE, SIDE))).clip(0, 255)
    made[:, :, 0, 0], made[:, :, 0, 1] = 0, 255
    sunsets, sea = (made[of_class % 2 == odd] / 127.5 - 1 for odd in (0, 1))
    quiet: dict[str, Any] = {"repair": "none", "compile": False}

    def mismatch(fed: np.ndarray) -> tuple[str, ...]:
        calibrating = {"x": np.ascontiguousarray(sunsets[:64], np.float32)}
        goal = onnxq.quantize(proto, calibrating, eval=Scored(fed), **quiet).report.goal
        assert goal is not None
        return goal.mismatch

    assert mismatch(sea) == ()
    (found,) = mismatch(sunsets[64:, ::-1])
    assert is_said(found, "fed-otherwise.order")


def test_the_order_that_is_fed_stays_where_the_other_is_not_clearly_better() -> None:
    """Of a net to which colour is nothing, other values are named, and no other order beside them."""
    gray = np.repeat(TEMPLATES.mean(1, keepdims=True), 3, 1)
    (found,) = told(nearest(1 / 127.5, [1, 1, 1], bgr=True, of=gray), pictures(of=gray) / 255)
    assert is_said(found.text, "preparation.classes", what="pixel / 127.5 - 1")


def test_swapped_axes_are_told_of_few_images() -> None:
    (found,) = told(TRAINED, RIGHT[:24].swapaxes(2, 3))
    assert (found.kind, is_said(found.text, "pictures-as.swapped")) == ("preparation", True)
    assert told(TRAINED, RIGHT[:24]) == []


@pytest.mark.parametrize("turned", [False, True])
def test_a_function_of_the_other_order_is_told_behind_a_mean_of_each_channel(turned: bool) -> None:
    """The means of the channels, which were taken, tell nothing of it: the model does."""
    mean = np.reshape([123.68, 116.779, 103.939], (3, 1, 1))
    made = np.ascontiguousarray(PICTURES - mean, np.float32)
    fed = PICTURES[:, ::-1] - mean if turned else PICTURES - mean
    data = {"x": made[:64]}
    proto, quiet = nearest(1.0, list(mean.ravel())), {"repair": "none", "compile": False}
    goal = onnxq.quantize(proto, data, eval=Scored(fed), **quiet).report.goal  # type: ignore[arg-type]
    assert goal is not None
    assert [(is_said(one, "fed-otherwise.order")) for one in goal.mismatch] == [True] * turned


class TestNothing:
    """A detector of an unknown layout: a score a pixel, high where it is bright."""

    PROTO = model(
        [
            helper.make_node("Conv", ["x", "w", "b"], ["c"], name="conv"),
            helper.make_node("Reshape", ["c", "rows"], ["r"], name="reshape"),
            helper.make_node("Sigmoid", ["r"], ["y"], name="sigmoid"),
        ],
        [SIDE * SIDE, 1], w=np.full((1, 3, 1, 1), 0.1), b=np.full(1, -60.0),
    )  # fmt: skip
    PROTO.graph.initializer.append(numpy_helper.from_array(np.array([0, -1, 1], np.int64), "rows"))

    def test_no_score_in_any_image_is_told(self) -> None:
        (found,) = told(self.PROTO, PICTURES / 255)
        assert found.kind == "unlike"
        assert is_said(found.text, "unlike.nothing", images="80 images", score="0.25", outputs="'y'")

    def test_one_is_enough(self) -> None:
        one = PICTURES / 255
        one[40, :, 3, 3] = 255
        assert told(self.PROTO, one) == told(self.PROTO, PICTURES * 1.0) == []

    def test_of_classes_that_sum_to_one_the_first_does_not_count(self) -> None:
        proto = onnx.ModelProto.FromString(self.PROTO.SerializeToString())
        for weight in proto.graph.initializer:
            if weight.name == "w":
                weight.CopyFrom(
                    numpy_helper.from_array(np.array([[0] * 3, [0.1] * 3], np.float32)[:, :, None, None], "w")
                )
            elif weight.name == "b":
                weight.CopyFrom(numpy_helper.from_array(np.array([0, -60], np.float32), "b"))
            elif weight.name == "rows":
                weight.CopyFrom(numpy_helper.from_array(np.array([0, -1, 2], np.int64), "rows"))
        nodes = proto.graph.node
        nodes.insert(1, helper.make_node("Transpose", ["c"], ["t"], name="transpose", perm=[0, 2, 3, 1]))
        nodes[2].input[0] = "t"
        nodes[3].CopyFrom(helper.make_node("Softmax", ["r"], ["y"], name="softmax", axis=-1))
        proto.graph.output[0].type.tensor_type.shape.dim[2].dim_value = 2
        (found,) = told(proto, PICTURES / 255)
        assert found.kind == "unlike"
        assert told(proto, PICTURES * 1.0) == []
