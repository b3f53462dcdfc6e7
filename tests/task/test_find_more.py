"""Heads that something else decodes, vectors, points, pictures: found by structure, and nothing alike."""

from __future__ import annotations

import numpy as np
import pytest
from test_find import model_of

from onnxq.graph.model import Model
from onnxq.task.find import found_task
from onnxq.task.fits import fitted
from onnxq.task.found import TaskFound
from onnxq.task.stated import StatedTask

IMAGE = "float[1, 3, 64, 64] x"
IDS = "int64[B, S] ids, int64[B, S] mask"


def floats(*shape: int) -> str:
    """A constant's type and values."""
    return f"float[{', '.join(map(str, shape))}] {{}} = {{{', '.join(['0.1'] * int(np.prod(shape)))}}}"


def constant(name: str, *shape: int) -> str:
    return floats(*shape).replace("{}", name, 1)


def maps(*heads: tuple[str, int, str], stride: int = 4) -> tuple[str, str, str, str]:
    """A model of some maps: each a name, channels, and the operator behind its convolution ("": none)."""
    side = 64 // stride
    body = f"f = Conv <strides = [{stride}, {stride}], kernel_shape = [{stride}, {stride}]> (x, w)  "
    outputs, weights = [], [constant("w", 2, 3, stride, stride)]
    for name, channels, op in heads:
        weights.append(constant(f"w_{name}", channels, 2, 1, 1))
        body += f"c_{name} = Conv (f, w_{name})  {name} = {op or 'Identity'} (c_{name})  "
        outputs.append(f"float[1, {channels}, {side}, {side}] {name}")
    return IMAGE, ", ".join(outputs), body, ", ".join(weights)


def grids(columns: int, *, sigmoid: bool, anchors: int = 3) -> tuple[str, str, str, str]:
    """Three grids with anchors, `[1, anchors, height, width, columns]`."""
    body, outputs, weights = "", [], []
    for stride in (16, 8, 32):  # in no order
        side, name = 64 // stride, f"g{stride}"
        weights += [constant(f"w{stride}", anchors * columns, 3, 1, 1)]
        weights += [f"int64[5] to{stride} = {{1, {anchors}, {columns}, {side}, {side}}}"]
        body += f"c{stride} = Conv <strides = [{stride}, {stride}]> (x, w{stride})  "
        body += f"r{stride} = Reshape (c{stride}, to{stride})  "
        body += f"t{stride} = Transpose <perm = [0, 1, 3, 4, 2]> (r{stride})  "
        body += f"{name} = {'Sigmoid' if sigmoid else 'Identity'} (t{stride})  "
        outputs.append(f"float[1, {anchors}, {side}, {side}, {columns}] {name}")
    return IMAGE, ", ".join(outputs), body, ", ".join(weights)


def cells(*, joined: bool, raw: bool = True) -> tuple[str, str, str, str]:
    """Three grids of a box, a thing and three classes: each an output, or all below each other."""
    body, outputs, weights = "", [], ["int64[3] flat = {1, 8, -1}"]
    for stride in (8, 16, 32):
        side = 64 // stride
        for name, channels in (("b", 4), ("o", 1), ("c", 3)):
            weights.append(constant(f"{name}w{stride}", channels, 3, 1, 1))
            body += f"{name}{stride} = Conv <strides = [{stride}, {stride}]> (x, {name}w{stride})  "
        body += f"p{stride} = Sigmoid (o{stride})  q{stride} = Sigmoid (c{stride})  "
        box = f"b{stride}" if raw else f"e{stride}"
        body += "" if raw else f"e{stride} = Exp (b{stride})  "
        body += f"y{stride} = Concat <axis = 1> ({box}, p{stride}, q{stride})  "
        body += f"f{stride} = Reshape (y{stride}, flat)  "
        outputs.append(f"float[1, 8, {side}, {side}] y{stride}")
    if not joined:
        return IMAGE, ", ".join(outputs), body, ", ".join(weights)
    whole = "h = Concat <axis = 2> (f8, f16, f32)  y = Transpose <perm = [0, 2, 1]> (h)"
    return IMAGE, "float[1, 84, 8] y", body + whole, ", ".join(weights)


def bins(channels: int = 64) -> tuple[str, str, str, str]:
    """Three grids of distances in bins and of scores, joined, as YOLOv8's head without its decoding."""
    body, outputs, weights = "", [], []
    for stride in (8, 16, 32):
        weights += [constant(f"b{stride}", channels, 3, 1, 1), constant(f"c{stride}", 3, 3, 1, 1)]
        body += f"p{stride} = Conv <strides = [{stride}, {stride}]> (x, b{stride})  "
        body += f"q{stride} = Conv <strides = [{stride}, {stride}]> (x, c{stride})  "
        body += f"y{stride} = Concat <axis = 1> (p{stride}, q{stride})  "
        outputs.append(f"float[1, {channels + 3}, {64 // stride}, {64 // stride}] y{stride}")
    return IMAGE, ", ".join(outputs), body, ", ".join(weights)


def priors(*, softmax: bool = True, relu: bool = False, points: bool = False) -> tuple[str, str, str, str]:
    """Two maps of two priors a cell: boxes and scores below each other."""
    body, weights, outputs = "", [], "float[1, 160, 4] boxes, float[1, 160, 2] scores"
    heads = [("b", 4), ("s", 2), *([("p", 10)] if points else [])]
    for stride in (8, 16):
        for name, columns in heads:
            weights.append(constant(f"{name}w{stride}", 2 * columns, 3, 1, 1))
            body += f"{name}c{stride} = Conv <strides = [{stride}, {stride}]> (x, {name}w{stride})  "
            body += f"{name}t{stride} = Transpose <perm = [0, 2, 3, 1]> ({name}c{stride})  "
            body += f"{name}{stride} = Reshape ({name}t{stride}, flat{columns})  "
    for name, columns in heads:
        weights.append(f"int64[3] flat{columns} = {{1, -1, {columns}}}")
        body += f"{name} = Concat <axis = 1> ({name}8, {name}16)  "
    body += (
        f"boxes = {'Relu' if relu else 'Identity'} (b)  scores = {'Softmax' if softmax else 'Identity'} (s)"
    )
    if points:
        outputs, body = outputs + ", float[1, 160, 10] marks", body + "  marks = Identity (p)"
    return IMAGE, outputs, body, ", ".join(weights)


HIDDEN = "h = Gather (table, ids)  n = LayerNormalization (h, one)  "
TABLE = f"{constant('table', 9, 32)}, {constant('one', 32)}, int64[1] axis1 = {{1}}, int64[1] last = {{-1}}"
POOLED = HIDDEN + """m = Cast <to = 1> (mask)  u = Unsqueeze (m, last)  s = Shape (n)  e = Expand (u, s)
    p = Mul (n, e)  t = ReduceSum <keepdims = 0> (p, axis1)  k = ReduceSum <keepdims = 0> (e, axis1)
    c = Clip (k, tiny)  """  # fmt: skip
TINY = ", float tiny = {0.000000001}"
ROW = "f = MatMul (v, w)  "
ROWS = constant("w", 8, 64)
LENGTH = "n = ReduceL2 <axes = [1]> (f)  c = Clip (n, tiny)  s = Shape (f)  e = Expand (c, s)  y = Div (f, e)"
LINE = "c = Conv <strides = [64, 1]> (x, w)  s = Squeeze (c, high)  t = Transpose <perm = [{}]> (s)  "
LINE += "m = MatMul (t, v)  "
LETTERS = f"{constant('w', 4, 3, 1, 1)}, {constant('v', 4, 12)}, int64[1] high = {{2}}"
POOL = "f = GlobalAveragePool (x)  r = Flatten (f)  y = MatMul (r, w)"
GRIDS = " ".join(
    f"{name} = Conv <strides = [{by}, {by}]> (x, w) " for name, by in zip("abc", (8, 16, 32), strict=True)
)


FOUND = {
    "centernet": (
        maps(("hm", 3, "Sigmoid"), ("wh", 2, ""), ("reg", 2, "")),
        "peaks:scores=hm,sizes=wh,offsets=reg",
    ),
    "centerface": (
        maps(("a", 1, "Sigmoid"), ("b", 2, ""), ("c", 2, ""), ("d", 10, "")),
        "peaks:scores=a,sizes=b,offsets=c",
    ),
    "sizes-by-an-exp": (
        maps(("a", 1, "Sigmoid"), ("b", 2, ""), ("c", 2, "Exp")),
        "peaks:scores=a,sizes=c,offsets=b,direct",
    ),
    "yolov5-raw": (
        grids(8, sigmoid=False),
        "detect:boxes=g8+g16+g32[0:4],objectness=g8+g16+g32[4],scores=g8+g16+g32[5:],anchored,sigmoid,"
        "strides=8+16+32,anchors=10x13+16x30+33x23+30x61+62x45+59x119+116x90+156x198+373x326",
    ),
    "of-two-anchors": (
        grids(8, sigmoid=True, anchors=2),
        "detect:boxes=g8+g16+g32[0:4],objectness=g8+g16+g32[4],scores=g8+g16+g32[5:],anchored,"
        "strides=8+16+32",
    ),
    "yolox": (cells(joined=True), "detect:boxes=0:4,objectness=4,scores=5:,offsets,strides=8+16+32"),
    "yolox-of-maps": (
        cells(joined=False),
        "detect:boxes=y8+y16+y32[0:4],objectness=y8+y16+y32[4],scores=y8+y16+y32[5:],offsets,BCN,"
        "strides=8+16+32",
    ),
    "yolov8-raw": (
        bins(),
        "detect:boxes=y8+y16+y32[0:64],scores=y8+y16+y32[64:],ltrb,BCN,sigmoid,strides=8+16+32",
    ),
    "ssd": (priors(), "detect:boxes=boxes,scores=scores,priors,background=0"),
    "retinaface": (priors(points=True), "detect:boxes=boxes,scores=scores,priors,background=0"),
    "selected": (
        (
            "float[1, 9, 4] b, float[1, 2, 9] s",
            "int64[K, 3] y, float[1, 9, 4] boxes",
            "boxes = Relu (b)  y = NonMaxSuppression (boxes, s, five)",
            "int64[1] five = {5}",
        ),
        "selected:indices=y,boxes=boxes,xyxy",
    ),
    "selected-of-centres": (
        (
            "float[1, 9, 4] b, float[1, 2, 9] s",
            "int64[K, 3] y",
            "y = NonMaxSuppression <center_point_box = 1> (b, s, five)",
            "int64[1] five = {5}",
        ),
        "selected:indices=y",
    ),
    "normalized": (
        ("float[N, 8] v", "float[N, 64] y", ROW + "y = LpNormalization (f)", ROWS),
        "embed:vectors=y",
    ),
    "divided-by-its-length": (
        ("float[N, 8] v", "float[N, 64] y", ROW + LENGTH, ROWS + TINY),
        "embed:vectors=y",
    ),
    "by-the-root-of-squares": (
        (
            "float[N, 8] v",
            "float[N, 64] y",
            ROW + "q = Mul (f, f)  n = ReduceSum (q, last)  r = Sqrt (n)  y = Div (f, r)",
            ROWS + ", int64[1] last = {1}",
        ),
        "embed:vectors=y",
    ),
    "mean-of-tokens": ((IDS, "float[B, 32] y", POOLED + "y = Div (t, c)", TABLE + TINY), "embed:vectors=y"),
    "tokens-that-become-vectors": (
        (IDS, "float[B, S, 32] y", HIDDEN + "y = Identity (n)", TABLE),
        "embed:vectors=y,mean",
    ),
    "face-mesh": (
        (
            IMAGE,
            "float[1, 1, 1, 1404] y, float[1, 1] there",
            "f = ReduceMean <axes = [2, 3]> (x)  g = Slice (f, zero, first)  y = Conv (g, w)  "
            "s = Slice (x, zeros, ones)  r = Reshape (s, one_one)  there = Sigmoid (r)",
            constant("w", 1404, 1, 1, 1) + ", int64[2] zero = {0, 0}, int64[2] first = {1, 1}, "
            "int64[4] zeros = {0, 0, 0, 0}, int64[4] ones = {1, 1, 1, 1}, int64[2] one_one = {1, 1}",
        ),
        "points:points=y,dims=3",
    ),
    "hand": (
        (
            IMAGE,
            "float[1, 63] y, float[1, 1] there",
            POOL + "  h = MatMul (r, o)  there = Sigmoid (h)",
            constant("w", 3, 63) + ", " + constant("o", 3, 1),
        ),
        "points:points=y,there=there,dims=3",
    ),
    "line-of-text": (
        (IMAGE, "float[1, 64, 12] y", LINE.format("0, 2, 1") + "y = Softmax (m)", LETTERS),
        "lines:scores=y",
    ),
    "line-of-text-in-front": (
        (IMAGE, "float[64, 1, 12] y", LINE.format("2, 0, 1") + "y = LogSoftmax (m)", LETTERS),
        "lines:scores=y,TBC",
    ),
    "line-without-a-softmax": (
        (IMAGE, "float[64, 1, 12] logits", LINE.format("2, 0, 1") + "logits = Identity (m)", LETTERS),
        "lines:scores=logits,TBC",
    ),
    "line-of-any-batch": (
        (
            IMAGE.replace("1, 3", "N, 3"),
            "float[64, N, 12] y",
            LINE.format("2, 0, 1") + "y = Identity (m)",
            LETTERS,
        ),
        "lines:scores=y,TBC",
    ),
    "super-resolution": (
        (
            IMAGE,
            "float[1, 3, 128, 128] y",
            "c = Conv (x, w)  y = DepthToSpace <blocksize = 2> (c)",
            constant("w", 12, 3, 1, 1),
        ),
        "image:map=y",
    ),
}

ALIKE = {
    # maps
    "mask-and-flow": (maps(("a", 1, "Sigmoid"), ("b", 2, ""), ("c", 2, ""), stride=1), ""),
    "no-probability": (maps(("a", 1, ""), ("b", 2, ""), ("c", 2, "")), ""),
    "heat-and-fields": (maps(("a", 19, "Sigmoid"), ("b", 38, ""), ("c", 2, "")), ""),
    "box-a-cell": (maps(("a", 1, "Sigmoid"), ("b", 4, ""), ("c", 2, "")), ""),
    "one-pair": (maps(("a", 1, "Sigmoid"), ("b", 2, "")), ""),
    "coarse": (maps(("a", 1, "Sigmoid"), ("b", 2, ""), ("c", 2, ""), stride=32), ""),
    # grids
    "pyramid": (
        (
            IMAGE,
            "float[1, 6, 8, 8] a, float[1, 6, 4, 4] b, float[1, 6, 2, 2] c",
            "a = Conv <strides = [8, 8]> (x, w)  b = Conv <strides = [16, 16]> (x, w)  "
            "c = Conv <strides = [32, 32]> (x, w)",
            constant("w", 6, 3, 1, 1),
        ),
        "",
    ),
    "three-numbers-an-anchor": (grids(3, sigmoid=False), ""),
    "distances": (cells(joined=True, raw=False), "detect:boxes=0:4,objectness=4,scores=5:,cxcywh"),
    "distances-of-maps": (cells(joined=False, raw=False), ""),
    "other-bins": (bins(60), ""),
    # rows
    "no-scores": (priors(softmax=False), ""),
    "distances-of-priors": (priors(relu=True), ""),
    # vectors
    "direction": (
        ("float[N, 8] v", "float[N, 3] y", "f = MatMul (v, w)  y = LpNormalization (f)", constant("w", 8, 3)),
        "",
    ),
    "scaled-by-a-number": (
        ("float[N, 8] v, float[N, 1] d", "float[N, 64] y", ROW + "y = Div (f, d)", ROWS),
        "",
    ),
    "divided-by-anothers-length": (
        ("float[N, 8] v", "float[N, 64] y", ROW + "n = ReduceL2 <axes = [1]> (v)  y = Div (f, n)", ROWS),
        "",
    ),
    "normalized-and-read": (
        (
            "float[N, 8] v",
            "float[N, 40] y",
            ROW + "n = LpNormalization (f)  y = MatMul (n, o)",
            ROWS + ", " + constant("o", 64, 40),
        ),
        "",
    ),
    "shares-of-a-sum": (
        (
            "float[N, 8] v",
            "float[N, 64] y",
            ROW + "e = Exp (f)  t = ReduceSum (e, last)  y = Div (e, t)",
            ROWS + ", int64[1] last = {1}",
        ),
        "classify:scores=y",
    ),
    "mean-that-a-layer-reads": (
        (
            IDS,
            "float[B, 20] y",
            POOLED + "d = Div (t, c)  y = MatMul (d, w)",
            TABLE + TINY + ", " + constant("w", 32, 20),
        ),
        "",
    ),
    "tokens-that-a-layer-reads": (
        (IDS, "float[B, S, 20] y", HIDDEN + "y = MatMul (n, w)", TABLE + ", " + constant("w", 32, 20)),
        "tokens:scores=y",
    ),
    # points
    "sixty-three-classes": (
        ("float[1, 8] v", "float[1, 63] y", "y = MatMul (v, w)", constant("w", 8, 63)),
        "",
    ),
    "sixty-three-of-a-picture": ((IMAGE, "float[1, 63] y", POOL, constant("w", 3, 63)), ""),
    # lines, pictures
    "two-classes-along-a-picture": (
        (
            IMAGE,
            "float[1, 64, 4] y",
            LINE.format("0, 2, 1") + "y = Softmax (m)",
            LETTERS.replace(constant("v", 4, 12), constant("v", 4, 4)),
        ),
        "tokens:scores=y",
    ),
    "positions-behind-the-batch": (
        (IMAGE, "float[1, 64, 12] y", LINE.format("0, 2, 1") + "y = Identity (m)", LETTERS),
        "",
    ),
    "as-large": ((IMAGE, "float[1, 3, 64, 64] y", "y = Conv (x, w)", constant("w", 3, 3, 1, 1)), ""),
    "other-channels": (
        (
            IMAGE,
            "float[1, 1, 128, 128] y",
            "c = Conv (x, w)  y = DepthToSpace <blocksize = 2> (c)",
            constant("w", 4, 3, 1, 1),
        ),
        "",
    ),
    "wider-than-high": ((IMAGE, "float[1, 3, 64, 128] y", "y = Concat <axis = 3> (x, x)", ""), ""),
}

LIKELY = {
    "pyramid": "",
    "positions-behind-the-batch": "lines:scores=y",
    "as-large": "image:map=y",
    "sixty-three-of-a-picture": "points:points=y,dims=3",
    "sixty-three-classes": "classify:scores=y",
    "scaled-by-a-number": "embed:vectors=y",
    "no-scores": "detect:boxes=boxes,scores=scores,priors,softmax,background=0",
}


def found(model: Model) -> TaskFound:
    return found_task(model, [tensor.name for tensor in model.outputs])


@pytest.mark.parametrize("name", FOUND)
def test_a_task_is_found_by_structure(name: str) -> None:
    parts, text = FOUND[name]
    model = model_of(*parts)
    assert found(model).text == text
    fitted(StatedTask.of(text), model.outputs, model.inputs)


@pytest.mark.parametrize("name", ALIKE)
def test_what_looks_alike_is_not(name: str) -> None:
    parts, text = ALIKE[name]
    assert found(model_of(*parts)).text == text


@pytest.mark.parametrize("name", LIKELY)
def test_what_is_likely_is_asked_for_and_fits(name: str) -> None:
    model = model_of(*ALIKE[name][0])
    told = found(model)
    assert (told.text, told.ask) == ("", LIKELY[name])
    if told.ask:
        fitted(StatedTask.of(told.ask), model.outputs, model.inputs)


@pytest.mark.parametrize(("sigmoid", "more"), [(True, ""), (False, ",sigmoid")])
def test_rows_of_boxes_and_points_are_asked_for(sigmoid: bool, more: str) -> None:
    body = f"r = Identity (a)  s = {'Sigmoid' if sigmoid else 'Identity'} (b)"
    model = model_of(
        "float[1, 20, 18] a, float[1, 20, 1] b", "float[1, 20, 18] r, float[1, 20, 1] s", body, ""
    )
    assert (found(model).text, found(model).ask) == (
        "", f"detect:boxes=r[0:4],scores=s,cxcywh,apart{more}"
    )  # fmt: skip
    fitted(StatedTask.of(found(model).ask), model.outputs, model.inputs)


@pytest.mark.parametrize(
    ("inputs", "outputs", "ask"),
    [
        (IMAGE, "float[1, 1, 64, 64] y", "depth:map=y"),
        (IMAGE, "float[1, 64, 64] y", "depth:map=y"),
        (IMAGE + ", float[1, 3, 64, 64] z", "float[1, 2, 8, 8] small, float[1, 2, 64, 64] y", "flow:map=y"),
        (IMAGE, "float[1, 2, 64, 64] y", ""),
        (IMAGE, "float[1, 5, 64, 64] y", ""),
        (IMAGE, "float[1, 68, 2] y", "points:points=y"),
        ("float[1, 8] x", "float[1, 68, 2] y", ""),
        (IMAGE, "float[1, 136] y", "points:points=y,dims=2"),
        (IMAGE, "float[1, 195] z, float[1, 117] y", "points:points=y,dims=3"),
    ],
)
def test_maps_and_points_that_are_likely(inputs: str, outputs: str, ask: str) -> None:
    names = [one.split("] ")[1] for one in outputs.split(", float")]
    body = "  ".join(f"{name} = Relu (from_{name})" for name in names)
    given = outputs.replace("] ", "] from_")
    told = found(model_of(f"{inputs}, {given}", outputs, body))
    assert (told.text, told.ask) == ("", ask)


def test_channels_of_three_anchors_are_asked_for() -> None:
    """A pyramid of features may have as many."""
    outputs = "float[1, 24, 8, 8] a, float[1, 24, 4, 4] b, float[1, 24, 2, 2] c"
    model = model_of(IMAGE, outputs, GRIDS, constant("w", 24, 3, 1, 1))
    assert (found(model).text, found(model).ask) == ("", "detect:yolov5-raw,BCN")
    fitted(StatedTask.of(found(model).ask), model.outputs, model.inputs)


@pytest.mark.parametrize("name", ["7", "7,8", "a=b", "y[0]"])
def test_any_name_of_an_output_is_read(name: str) -> None:
    """A number would be a column, and marks mean something."""
    parts, _ = FOUND["centernet"]
    proto = model_of(*parts).to_proto()
    proto.graph.output[1].name = name
    next(node for node in proto.graph.node if node.output[0] == "wh").output[0] = name
    model = Model.open(proto)
    layout = fitted(StatedTask.of(found(model).text), model.outputs, model.inputs)
    assert layout.outputs == ("hm", name, "reg")
