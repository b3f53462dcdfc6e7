"""Heads of detectors that something else decodes: read by their structure, or asked for."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from command import run
from test_find import model_of
from test_find_more import IMAGE, bins, cells, constant, found, grids
from test_stated import tensors

from onnxq.graph.model import Model
from onnxq.task.detections import detections
from onnxq.task.fits import fitted
from onnxq.task.layout import Boxes
from onnxq.task.stated import StatedTask

Parts = tuple[str, str, str, str]


def heads(*kinds: tuple[int, str], strides: tuple[int, ...] = (8, 16, 32), joined: str = "") -> Parts:
    """Maps of some channels and what is done to them, for each stride.

    `joined`: "each" is rows, "rows" those of all strides, "all" those of all maps as well.
    """
    first = min(strides)
    body = f"f = Conv <strides = [{first}, {first}]> (x, w)  r = Relu (f)  g = Conv (r, v)  "
    weights, outputs = [constant("w", 32, 3, 1, 1), constant("v", 32, 32, 1, 1)], list[str]()
    for kind, (channels, op) in enumerate(kinds):
        flat, wide = [], f"float[1, {{}}, {channels}] k{kind}"
        weights.append(f"int64[3] to{kind} = {{1, -1, {channels}}}")
        for stride in strides:
            one, side, by = f"{kind}_{stride}", 64 // stride, stride // first
            weights.append(constant(f"w{one}", channels, 32, 1, 1))
            body += f"c{one} = Conv <strides = [{by}, {by}]> (g, w{one})  "
            body += f"h{one} = {op or 'Identity'} (c{one})  "
            flat.append(f"f{one}")
            if not joined:
                outputs.append(f"float[1, {channels}, {side}, {side}] h{one}")
                continue
            body += (
                f"t{one} = Transpose <perm = [0, 2, 3, 1]> (h{one})  f{one} = Reshape (t{one}, to{kind})  "
            )
            if joined == "each":
                outputs.append(f"float[1, {side * side}, {channels}] f{one}")
        if joined in ("rows", "all"):
            body += f"k{kind} = Concat <axis = 1> ({', '.join(flat)})  "
            outputs.append(wide.format(sum((64 // stride) ** 2 for stride in strides)))
    if joined == "all":
        names = ", ".join(f"k{kind}" for kind in range(len(kinds)))
        body += f"y = Concat <axis = 2> ({names})  "
        rows, width = sum((64 // stride) ** 2 for stride in strides), sum(channels for channels, _ in kinds)
        outputs = [f"float[1, {rows}, {width}] y"]
    return IMAGE, ", ".join(outputs), body, ", ".join(weights)


OBJECTS = "boxes=0:4,objectness=4,scores=5:"

JUDGED = {
    "yolox-logits": (
        heads((4, ""), (1, ""), (3, ""), joined="all"),
        f"{OBJECTS},offsets,strides=8+16+32,sigmoid",
    ),
    "yolox-of-two-grids": (
        heads((4, ""), (1, "Sigmoid"), (3, "Sigmoid"), strides=(16, 32), joined="all"),
        f"{OBJECTS},offsets,strides=16+32",
    ),
    "yolox-of-four-grids": (
        heads((4, ""), (1, "Sigmoid"), (3, "Sigmoid"), strides=(4, 8, 16, 32), joined="all"),
        f"{OBJECTS},offsets,strides=4+8+16+32",
    ),
}

ASKED = {
    "a-row-a-cell-of-one-layer": (heads((8, ""), joined="all"), f"{OBJECTS},offsets,sigmoid"),
    "three-anchors-a-cell": (
        (
            IMAGE,
            "float[1, 252, 8] y",
            grids(8, sigmoid=False)[2]
            + "a = Reshape (g8, flat)  b = Reshape (g16, flat)  c = Reshape (g32, flat)  "
            "y = Concat <axis = 1> (a, b, c)",
            grids(8, sigmoid=False)[3] + ", int64[3] flat = {1, -1, 8}",
        ),
        "yolov5-raw",
    ),
    "nanodet": (heads((3, "Sigmoid"), (32, ""), joined="all"), "boxes=-32:,scores=:-32,ltrb"),
    "nanodet-logits": (heads((3, ""), (32, ""), joined="all"), "boxes=-32:,scores=:-32,ltrb,sigmoid"),
    "nanodet-of-maps": (
        heads((3, ""), (32, "")),
        "boxes=h1_8+h1_16+h1_32,scores=h0_8+h0_16+h0_32,ltrb,BCN,sigmoid,strides=8+16+32",
    ),
    "rtmdet": (
        heads((3, "Sigmoid"), (4, "Relu")),
        "boxes=h1_8+h1_16+h1_32,scores=h0_8+h0_16+h0_32,ltrb,BCN,strides=8+16+32",
    ),
    "rtmdet-rows": (
        heads((3, "Sigmoid"), (4, "Relu"), joined="rows"),
        "boxes=k1,scores=k0,ltrb,strides=8+16+32",
    ),
    "fcos": (
        heads((3, ""), (4, "Exp"), (1, "")),
        "boxes=h1_8+h1_16+h1_32,scores=h0_8+h0_16+h0_32,objectness=h2_8+h2_16+h2_32,ltrb,BCN,sigmoid,"
        "strides=8+16+32",
    ),
    "yolox-of-maps": (
        heads((3, ""), (4, ""), (1, "")),
        "boxes=h1_8+h1_16+h1_32,scores=h0_8+h0_16+h0_32,objectness=h2_8+h2_16+h2_32,offsets,BCN,sigmoid,"
        "strides=8+16+32",
    ),
    "ssd-of-maps": (
        heads((12, ""), (9, ""), strides=(16, 32)),
        "boxes=h0_16+h0_32,scores=h1_16+h1_32,priors,BCN,softmax,background=0",
    ),
    "retinanet-of-maps": (
        heads((27, ""), (36, ""), strides=(16, 32)),
        "boxes=h1_16+h1_32,scores=h0_16+h0_32,priors,BCN,sigmoid",
    ),
    "rows-of-each-grid": (
        heads((1, ""), (4, ""), joined="each"),
        "boxes=f1_8+f1_16+f1_32,scores=f0_8+f0_16+f0_32,ltrb,sigmoid,strides=8+16+32",
    ),
    "fifteen-bins-of-maps": (
        bins(60),
        "boxes=y8+y16+y32[0:60],scores=y8+y16+y32[60:63],ltrb,BCN,sigmoid,strides=8+16+32",
    ),
    "joined-maps": (
        cells(joined=False, raw=False),
        "boxes=y8+y16+y32[0:4],scores=y8+y16+y32[5:8],objectness=y8+y16+y32[4:5],ltrb,BCN,strides=8+16+32",
    ),
    "detr": (
        (
            IMAGE,
            "float[1, 64, 4] b, float[1, 64, 5] s",
            "c = Conv (x, w)  m = Reshape (c, rows)  d = MatMul (m, v)  b = Sigmoid (d)  s = MatMul (m, u)",
            f"{constant('w', 1, 3, 1, 1)}, int64[3] rows = {{1, 64, 64}}, "
            f"{constant('v', 64, 4)}, {constant('u', 64, 5)}",
        ),
        "boxes=b,scores=s,cxcywh,sigmoid",
    ),
}

OTHERS = {
    "pyramid": (
        IMAGE,
        "float[1, 8, 8, 8] a, float[1, 8, 4, 4] b",
        "a = Conv <strides = [8, 8]> (x, w)  b = Conv <strides = [16, 16]> (x, w)",
        constant("w", 8, 3, 1, 1),
    ),
    "mask-and-features": heads((1, "Sigmoid"), (6, ""), strides=(1,)),
    "points": (
        IMAGE,
        "float[1, 5, 2] p",
        "c = Conv (x, w)  r = Reshape (c, to)  p = Slice (r, a, b)",
        f"{constant('w', 2, 3, 1, 1)}, int64[3] to = {{1, 4096, 2}}, "
        "int64[2] a = {0, 0}, int64[2] b = {1, 5}",
    ),
    "no-picture": (
        "float[1, 64, 4] p, float[1, 64, 3] q",
        "float[1, 64, 4] a, float[1, 64, 3] b",
        "a = Relu (p)  b = Relu (q)",
        "",
    ),
}


@pytest.mark.parametrize("name", JUDGED)
def test_rows_of_cells_are_judged(name: str) -> None:
    parts, text = JUDGED[name]
    model = model_of(*parts)
    assert found(model).text == f"detect:{text}"
    fitted(StatedTask.of(found(model).text), model.outputs, model.inputs)


@pytest.mark.parametrize("name", ASKED)
def test_boxes_that_nothing_says_how_to_read_are_asked_for(name: str) -> None:
    parts, text = ASKED[name]
    model = model_of(*parts)
    told = found(model)
    assert (told.text, told.ask) == ("", f"detect:{text}")
    fitted(StatedTask.of(told.ask), model.outputs, model.inputs)


@pytest.mark.parametrize("name", OTHERS)
def test_other_outputs_are_no_boxes(name: str) -> None:
    told = found(model_of(*OTHERS[name]))
    assert not (told.text + told.ask).startswith("detect")


def test_boxes_of_several_priors_a_cell_are_read_off_maps() -> None:
    """Two priors a cell of one map, three of the other: a row each, beside its own scores."""
    random, shapes = np.random.default_rng(0), {"a": (8, 4), "b": (12, 2)}
    values = {name: random.standard_normal((1, wide, side, side)) for name, (wide, side) in shapes.items()}
    scores = {
        f"s{name}": random.uniform(0, 1, (1, wide // 4 * 3, side, side))
        for name, (wide, side) in shapes.items()
    }
    outputs = tensors([(name, np.dtype("float32"), one.shape) for name, one in {**values, **scores}.items()])
    layout = fitted(StatedTask.of("detect:boxes=a+b,scores=sa+sb,priors,BCN"), outputs, [])
    assert isinstance(layout, Boxes)
    (got,) = detections(layout, {**values, **scores}, {})
    assert len(got.scores) == 2 * 16 + 3 * 4
    greatest = max(float(one.max()) for one in scores.values())
    assert got.scores.max() == greatest
    place = next(name for name, one in scores.items() if one.max() == greatest)
    _, channel, row, column = np.argwhere(scores[place] == greatest)[0]
    deltas = values[place[1:]][0, channel // 3 * 4 : channel // 3 * 4 + 4, row, column]
    (box,) = got.boxes[got.scores == greatest]
    assert np.allclose(box[2:] - box[:2], np.exp(deltas[2:] / 5))


@pytest.mark.parametrize("parts", [ASKED["rtmdet"][0], ASKED["nanodet"][0], ASKED["ssd-of-maps"][0]])
def test_a_detector_that_is_far_off_in_decibels_is_asked_for_its_layout(parts: Parts, tmp_path: Path) -> None:
    """Whatever the decibels are: the first lines ask how rows are read."""
    proto, random = model_of(*parts).to_proto(), np.random.default_rng(0)
    for one in proto.graph.initializer:
        if one.data_type == onnx.TensorProto.FLOAT:
            shape = tuple(one.dims)
            one.CopyFrom(
                onnx.numpy_helper.from_array(random.standard_normal(shape).astype(np.float32), one.name)
            )
    onnx.save(proto, tmp_path / "net.onnx")
    images = random.uniform(0, 1, (16, 3, 64, 64)).astype(np.float32)
    images[0, 0, 0, 0] = 300.0  # one pixel spoils the range of all
    np.savez(tmp_path / "x.npz", x=images)
    (tmp_path / "onnxq.toml").write_text(
        '[format]\nloud = "int8"\n[engine]\nexit_zero = true\n[[layer]]\nmatch = "*"\nmethod = "minmax"\n'
    )
    asked = ("quantize", "net.onnx", "--calib", "x.npz", "--repair", "none", "--no-engine")
    made = run(tmp_path, *asked)
    first = [line.strip() for line in made.out.splitlines()[:3]]
    assert made.code == 0
    assert "likely --task detect:" in " ".join(first)
    assert "more samples" not in " ".join(first)
    model = Model.open(str(tmp_path / "net.onnx"))
    task = found(model).ask
    before = (tmp_path / "net.int8.onnx").read_bytes()
    stated = run(tmp_path, *asked, "--task", task, "--force")
    assert stated.code == 0, stated.err
    assert (tmp_path / "net.int8.onnx").read_bytes() == before
