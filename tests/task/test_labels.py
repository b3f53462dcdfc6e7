"""Both models scored by the user's labels: as they are read, and against a plain reckoning."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import onnx.parser
import pytest
from one_output_detector import CLASSES, SIZE, detector, pictures
from PIL import Image
from plain import mean_iou

import onnxq
from onnxq.base import remarks
from onnxq.base.errors import UserError
from onnxq.run import ort
from onnxq.task.boxes import Detections, suppressed
from onnxq.task.precision import AveragePrecision, BoxesThere
from tests.command import run

LAYOUT = "detect:boxes=0:4,scores=4:,xyxy,BCN"
IMAGES = {"scale": 1 / 255, "mean": [0, 0, 0], "std": [1, 1, 1], "color": "rgb"}
COUNT, WIDE, HIGH = 10, 200, 160  # pictures in another size than the net's

Discs = list[list[tuple[float, float, float, int]]]


def net(body: str, shape: str) -> onnx.ModelProto:
    return onnx.parser.parse_model(
        f'<ir_version: 8, opset_import: ["" : 17]> g (float[1, 3, 8, 8] x) => ({shape} y) {{ {body} }}'
    )


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Discs]:
    """A folder with pictures of discs, the float model, and one that is a little off; where the discs are."""
    folder = tmp_path_factory.mktemp("labels")
    images, discs = pictures(7, COUNT)
    (folder / "images").mkdir()
    for place, image in enumerate(images):
        values = np.round(255 * image[0].transpose(1, 2, 0)).astype(np.uint8)
        Image.fromarray(values).resize((WIDE, HIGH)).save(folder / "images" / f"{place}.png")
    onnx.save(detector(), folder / "float.onnx")
    other = onnx.ModelProto()
    other.CopyFrom(detector())
    for weight in other.graph.initializer:
        if weight.name == "w4":
            values = onnx.numpy_helper.to_array(weight)
            noise = 0.3 * values.std() * np.random.default_rng(0).standard_normal(values.shape)
            weight.CopyFrom(onnx.numpy_helper.from_array((values + noise).astype(np.float32), "w4"))
    onnx.save(other, folder / "other.onnx")
    return folder, discs


def coco(folder: Path, discs: Discs, change: Callable[[dict], object] = lambda document: None) -> Path:
    """Annotations of the pictures, in their own pixels; categories have the numbers 3 and 7."""
    boxes = [
        {
            "id": 10 * place + number, "image_id": place, "category_id": (3, 7)[kind], "iscrowd": 0,
            "bbox": [(x - r) * WIDE / SIZE, (y - r) * HIGH / SIZE, 2 * r * WIDE / SIZE, 2 * r * HIGH / SIZE],
        }
        for place, some in enumerate(discs)
        for number, (x, y, r, kind) in enumerate(some)
    ]  # fmt: skip
    document = {
        "images": [{"id": place, "file_name": f"{place}.png"} for place in range(len(discs))],
        "annotations": boxes,
        "categories": [{"id": 7, "name": "blue"}, {"id": 3, "name": "red"}],
    }
    change(document)
    path = folder / "truth.json"
    path.write_text(json.dumps(document))
    return path


def yolo(folder: Path, discs: Discs) -> Path:
    (folder / "texts").mkdir(exist_ok=True)
    for place, some in enumerate(discs):
        lines = [f"{kind} {x / SIZE} {y / SIZE} {2 * r / SIZE} {2 * r / SIZE}\n" for x, y, r, kind in some]
        (folder / "texts" / f"{place}.txt").write_text("".join(lines))
    return folder / "texts"


def compared(
    folder: Path, labels: Path, images: str = "images", task: str | None = LAYOUT, **options: object
):
    return onnxq.compare(
        folder / "float.onnx", folder / "other.onnx", folder / images, task=task, labels=labels,
        images={**IMAGES, **options},
    ).task.labels  # fmt: skip


def expected(path: Path, folder: Path, discs: Discs) -> list[float]:
    """mAP at 0.5, and at all overlaps, of a model that is fed the stretched pictures."""
    session, precision = ort.load(path), AveragePrecision()
    for place, some in enumerate(discs):
        image = Image.open(folder / "images" / f"{place}.png").resize((SIZE, SIZE), Image.Resampling.BILINEAR)
        fed = np.asarray(image).transpose(2, 0, 1)[None].astype(np.float32) * np.float32(1 / 255)
        rows = session.run({"image": fed})[0][0].T.astype(float)
        scores = rows[:, 4:].max(1)
        chosen = scores > 0.001
        found = Detections(rows[chosen, :4], scores[chosen], rows[chosen, 4:].argmax(1))
        boxes = np.clip([[x - r, y - r, x + r, y + r] for x, y, r, _ in some], 0, SIZE)
        precision.add(
            suppressed(found, 0.45),
            BoxesThere(boxes, np.array([kind for *_, kind in some]), np.zeros(len(some), bool)),
        )
    by = precision.by_threshold()
    assert by is not None
    return [100 * by[0], 100 * by.mean()]


def test_boxes_of_coco_and_of_yolo_are_the_same_and_right(data: tuple[Path, Discs]) -> None:
    folder, discs = data
    found = compared(folder, coco(folder, discs))
    texts = compared(folder, yolo(folder, discs))
    floats, other = (expected(folder / name, folder, discs) for name in ("float.onnx", "other.onnx"))
    for labels in (found, texts):
        assert (labels.samples, labels.without) == (COUNT, 0)
        assert [one.kind for one in labels.figures] == ["map50", "map"]
        assert [one.floating for one in labels.figures] == pytest.approx(floats, abs=1e-6)
        assert [one.int8 for one in labels.figures] == pytest.approx(other, abs=1e-6)
    assert floats[0] > 20
    assert other[0] < floats[0]


def test_boxes_follow_a_letterbox(data: tuple[Path, Discs]) -> None:
    """A picture that is letterboxed by hand, with labels of what it became, has the same figures."""
    folder, discs = data
    size = SIZE, round(HIGH * SIZE / WIDE)
    (folder / "boxed").mkdir(exist_ok=True)
    for place in range(COUNT):
        image = Image.open(folder / "images" / f"{place}.png").resize(size, Image.Resampling.BILINEAR)
        whole = Image.new("RGB", (SIZE, SIZE), (114, 114, 114))
        whole.paste(image, (0, (SIZE - size[1]) // 2))
        whole.save(folder / "boxed" / f"{place}.png")

    def moved(document: dict) -> None:
        for one in document["annotations"]:
            x, y, width, height = one["bbox"]
            ratio = SIZE / WIDE, size[1] / HIGH
            top = (SIZE - size[1]) // 2
            one["bbox"] = [x * ratio[0], y * ratio[1] + top, width * ratio[0], height * ratio[1]]

    by_hand = compared(folder, coco(folder, discs, moved), "boxed")
    found = compared(folder, coco(folder, discs), letterbox=True)
    assert [one.floating for one in found.figures] == pytest.approx(
        [one.floating for one in by_hand.figures], abs=1e-6
    )
    assert found.figures[0].floating > 0
    cut = compared(folder, coco(folder, discs), resize=SIZE, crop=[SIZE, SIZE])
    assert cut.figures[0].floating > 10


def test_a_fault_of_ours_costs_the_figure_and_not_the_run(
    data: tuple[Path, Discs], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, discs = data

    def fault(*_: object) -> None:
        raise ZeroDivisionError("planted")

    monkeypatch.setattr("onnxq.task.labelled._in_pixels", fault)
    with remarks.heard() as heard:
        assert compared(folder, coco(folder, discs)) is None
    assert any("planted" in text for text in heard)


def test_samples_without_labels_do_not_count(data: tuple[Path, Discs]) -> None:
    folder, discs = data

    def fewer(document: dict) -> None:
        document["images"] = document["images"][:6]
        document["annotations"] = [one for one in document["annotations"] if one["image_id"] < 6]

    found = compared(folder, coco(folder, discs, fewer))
    assert (found.samples, found.without) == (6, 4)
    assert found.figures[0].floating == pytest.approx(expected(folder / "float.onnx", folder, discs[:6])[0])
    none = compared(folder, coco(folder, discs, lambda d: d.update(images=[], annotations=[])))
    assert (none.samples, none.without, none.figures) == (0, COUNT, ())


CLASSIFIER = """m = ReduceMean <axes = [2, 3], keepdims = 0> (x)  k = Constant <value_float = 40.0> ()
    z = Mul (m, k)  y = Softmax (z)"""


@pytest.fixture
def classes(tmp_path: Path) -> Path:
    """A net whose class is the greatest color, and one that takes the colors of the classes for others."""
    onnx.save(net(CLASSIFIER, "float[1, 3]"), tmp_path / "float.onnx")
    swapped = "a, b, c = Split <axis = 1> (z)  w = Concat <axis = 1> (b, a, c)  y = Softmax (w)"
    turned = CLASSIFIER.replace("y = Softmax (z)", swapped)
    onnx.save(net(turned, "float[1, 3]"), tmp_path / "other.onnx")
    for place in range(12):
        color = place % 3
        folder = tmp_path / "images" / f"{'abc'[color if place < 9 else 0]}"
        folder.mkdir(parents=True, exist_ok=True)
        values = np.full((8, 8, 3), 20, np.uint8)
        values[..., color] = 200 - place
        Image.fromarray(values).save(folder / f"{place}.png")
    return tmp_path


def test_class_folders_and_lists(classes: Path) -> None:
    found = compared(classes, classes / "images", task=None)
    (top1,) = found.figures  # of three classes there is no top-5
    assert (found.samples, top1.kind) == (12, "top1")
    assert top1.floating == pytest.approx(100 * 10 / 12)  # of the last three one is of class a
    assert top1.int8 == pytest.approx(100 * (3 + 1) / 12)
    lines = [f"images/{'abc'[p % 3 if p < 9 else 0]}/{p}.png {p % 3}" for p in range(12)]
    (classes / "list.txt").write_text("\n".join(lines))
    assert compared(classes, classes / "list.txt", task=None).figures[0].floating == 100
    (classes / "list.txt").write_text("\n".join([*lines[:-1], "images/a/11.png 9"]))
    with pytest.raises(UserError, match="is class 9, and the model has 3"):
        compared(classes, classes / "list.txt", task=None)
    np.save(classes / "list.npy", np.arange(12))
    with pytest.raises(UserError, match="it is no text, and labels are a text or JSON file"):
        compared(classes, classes / "list.npy", task=None)


def test_masks(tmp_path: Path) -> None:
    onnx.save(net("y = Softmax <axis = 1> (x)", "float[1, 3, 8, 8]"), tmp_path / "float.onnx")
    shift = """s = Constant <value = float[1, 3, 1, 1] {0.0, 0.2, 0.0}> ()  z = Add (x, s)
        y = Softmax <axis = 1> (z)"""
    onnx.save(net(shift, "float[1, 3, 8, 8]"), tmp_path / "other.onnx")
    random, wanted, given, other = np.random.default_rng(0), [], [], []
    for folder in ("images", "masks"):
        (tmp_path / folder).mkdir()
    for place in range(4):
        values = random.integers(0, 256, (8, 8, 3)).astype(np.uint8)
        labels = values.argmax(-1).astype(np.uint8)
        labels[random.uniform(size=labels.shape) < 0.2] = 1
        labels[0] = 255
        Image.fromarray(values).save(tmp_path / "images" / f"{place}.png")
        Image.fromarray(labels).save(tmp_path / "masks" / f"{place}.png")
        counted = labels != 255
        pixels = values.astype(np.float32) / 255
        wanted += labels[counted].tolist()
        given += pixels.argmax(-1)[counted].tolist()
        other += (pixels + np.array([0, 0.2, 0])).argmax(-1)[counted].tolist()
    found = compared(tmp_path, tmp_path / "masks", task="segment")
    (figure,) = found.figures
    assert figure.kind == "miou"
    assert figure.floating == pytest.approx(100 * mean_iou(wanted, given), abs=1e-9)
    assert figure.int8 == pytest.approx(100 * mean_iou(wanted, other), abs=1e-9)


def test_it_is_said_on_the_screen_and_decides_nothing(data: tuple[Path, Discs]) -> None:
    folder, discs = data
    coco(folder, discs)
    command = (
        "compare",
        "float.onnx",
        "other.onnx",
        "--data",
        "images",
        "--scale",
        "1/255",
        "--task",
        LAYOUT,
    )
    ran = run(folder, *command, "--labels", "truth.json")
    first = compared(folder, folder / "truth.json").figures[0]
    assert ran.code == 0, ran.err
    assert f"by the labels, {first.said}" in " ".join(ran.out.split())
    plain = {"compile": False, "repair": "none", "layer_samples": 0, "images": IMAGES, "task": LAYOUT}
    one = onnxq.quantize(folder / "float.onnx", folder / "images", **plain)
    two = onnxq.quantize(folder / "float.onnx", folder / "images", **plain, labels=folder / "truth.json")
    assert two.report.task is not None
    assert two.report.task.labels is not None
    assert two.report.task.labels.samples > 0
    assert one.model.SerializeToString() == two.model.SerializeToString()


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"{", "is no COCO JSON: it is no JSON"),
        (b"[]", "is no COCO JSON"),
        (b'{"images": [], "categories": []}', "is no COCO JSON: KeyError 'annotations'"),
        (b'{"images": [{"id": 1, "file_name": "a"}, {"id": 2, "file_name": "b/a"}], "categories": [],'
         b' "annotations": []}', "'a' is there twice"),
        (b'{"images": [{"id": 1, "file_name": "a"}], "categories": [], "annotations": [{"image_id": 1,'
         b' "category_id": 4, "bbox": [1, 2, 3]}]}', "is no COCO JSON: ValueError"),
    ],
)  # fmt: skip
def test_what_is_no_coco_json_is_refused(
    content: bytes, words: str, data: tuple[Path, Discs], tmp_path: Path
) -> None:
    path = tmp_path / "x.json"
    path.write_bytes(content)
    with pytest.raises(UserError) as refused:
        compared(data[0], path)
    assert words in str(refused.value)
    assert refused.value.exit_code == 2


def test_other_labels_are_refused(data: tuple[Path, Discs], tmp_path: Path) -> None:
    folder, _ = data
    with pytest.raises(UserError, match="there is no such file"):
        compared(folder, tmp_path / "none.json")
    with pytest.raises(UserError, match=r"it has no \.txt files"):
        compared(folder, tmp_path)
    (tmp_path / "0.txt").write_text("1 0.5 0.5 0.1\n")
    with pytest.raises(UserError, match=r"line 1: '1 0\.5 0\.5 0\.1' is no class and box"):
        compared(folder, tmp_path)
    with pytest.raises(UserError, match="folders of classes"):
        compared(folder, tmp_path, task="classify")
    with pytest.raises(UserError, match=r"no \.png files"):
        compared(folder, tmp_path, task="segment:axis=1")
    onnx.save(net("y = Sigmoid (x)", "float[1, 3, 8, 8]"), tmp_path / "net.onnx")
    with pytest.raises(UserError, match="not known what the model is for"):
        onnxq.compare(tmp_path / "net.onnx", tmp_path / "net.onnx", folder / "images", labels=tmp_path)


def test_classes_of_the_detector() -> None:
    assert CLASSES == 2  # which `coco` numbers 3 and 7
