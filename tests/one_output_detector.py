"""A small detector of one output, trained here: boxes of up to 128 pixels and scores of up to 1.

The layers are random filters but for the last one, which is fitted to the discs of made-up pictures by least
squares. What the scores are made of is rarely great, and shares its scale with what the boxes are made of: to
clip it brings the boxes nearer, and loses the scores.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from functools import lru_cache

import numpy as np
import onnx
import onnx.parser

from onnxq.run import ort

SIZE, STEP, CLASSES = 128, 16, 2
CELLS = SIZE // STEP
_WIDTHS = (3, 16, 24, 32, 64)
_BOXES = 32  # channels of the last layer's input that the boxes are made of

_BODY = """<ir_version: 8, opset_import: ["" : 17]>
    detector (float[1, 3, 128, 128] image) => (float[1, 6, 64] output)
    <int64[3] flat = {1, 6, 64}, int64[2] four_two = {4, 2}, float step = {16}, float gain = {10}> {
        c0 = Conv <strides = [2, 2], pads = [1, 1, 1, 1]> (image, w0, b0)  r0 = Relu (c0)
        c1 = Conv <strides = [2, 2], pads = [1, 1, 1, 1]> (r0, w1, b1)  r1 = Relu (c1)
        c2 = Conv <strides = [2, 2], pads = [1, 1, 1, 1]> (r1, w2, b2)  r2 = Relu (c2)
        c3 = Conv <strides = [2, 2], pads = [1, 1, 1, 1]> (r2, w3, b3)  r3 = Relu (c3)
        even, rare = Split <axis = 1> (r3)
        square = Mul (rare, rare)  cube = Mul (square, rare)  sixth = Mul (cube, cube)
        rarely = Mul (sixth, gain)
        features = Concat <axis = 1> (even, rarely)
        head = Conv (features, w4, b4)
        rows = Reshape (head, flat)
        apart, logits = Split <axis = 1> (rows, four_two)
        pixels = Mul (apart, step)
        first, last = Split <axis = 1> (pixels)
        low = Sub (center, first)  high = Add (center, last)
        corners = Concat <axis = 1> (low, high)
        scores = Sigmoid (logits)
        output = Concat <axis = 1> (corners, scores)
    }"""


def pictures(seed: int, count: int) -> tuple[list[np.ndarray], list[list[tuple[float, float, float, int]]]]:
    """Noisy pictures of discs, float32 [1, 3, 128, 128], and the discs: x, y, radius, class (red or blue)."""
    random = np.random.default_rng(seed)
    rows, columns = np.mgrid[0:SIZE, 0:SIZE]
    found, discs = [], []
    for _ in range(count):
        image = 0.35 + 0.1 * random.standard_normal((3, SIZE, SIZE))
        image += 0.2 * random.standard_normal((3, 1, 1)) * np.sin(columns / random.uniform(8, 60))
        some = []
        for _ in range(random.integers(1, 4)):
            x, y = random.uniform(16, SIZE - 16, 2)
            radius, kind = random.uniform(8, 24), int(random.integers(CLASSES))
            inside = (columns - x) ** 2 + (rows - y) ** 2 < radius**2
            color = np.array([[1.0, 0.1, 0.1], [0.1, 0.2, 1.0]])[kind] * random.uniform(0.7, 1.0)
            image[:, inside] = color[:, None] + 0.05 * random.standard_normal((3, int(inside.sum())))
            some.append((float(x), float(y), float(radius), kind))
        found.append(np.clip(image, 0, 1).astype(np.float32)[None])
        discs.append(some)
    return found, discs


@lru_cache(maxsize=1)
def detector() -> onnx.ModelProto:
    """The net with its weights."""
    random = np.random.default_rng(0)
    weights: dict[str, np.ndarray] = {"center": _centers()}
    for place, (width, more) in enumerate(itertools.pairwise(_WIDTHS)):
        filters = random.standard_normal((more, width, 3, 3)) * np.sqrt(2 / (9 * width))
        weights[f"w{place}"], weights[f"b{place}"] = filters, 0.1 * random.standard_normal(more)
    weights["w4"], weights["b4"] = np.zeros((4 + CLASSES, _WIDTHS[-1], 1, 1)), np.zeros(4 + CLASSES)
    images, discs = pictures(1, 200)
    factors = _fitted(_features(_with(weights), images), discs)
    weights["w4"], weights["b4"] = factors[:-1].T[:, :, None, None], factors[-1]
    return _with(weights)


def kept(
    floats: onnx.ModelProto, other: onnx.ModelProto, images: Sequence[np.ndarray], least: float
) -> float:
    """Which share of the anchors whose score is over a number in the float model is so in another, too."""
    one, two = ort.load(floats), ort.load(other)
    there = both = 0
    for image in images:
        ours, theirs = (model.run({"image": image})[0][0, 4:].max(0) > least for model in (one, two))
        there, both = there + int(ours.sum()), both + int((ours & theirs).sum())
    assert there >= 50
    return both / there


def _centers() -> np.ndarray:
    rows, columns = np.mgrid[0:CELLS, 0:CELLS].reshape(2, -1)
    return (np.stack([columns, rows])[None] + 0.5) * STEP


def _with(weights: dict[str, np.ndarray]) -> onnx.ModelProto:
    model = onnx.parser.parse_model(_BODY)
    for name, values in weights.items():
        model.graph.initializer.append(onnx.numpy_helper.from_array(values.astype(np.float32), name))
    return model


def _features(model: onnx.ModelProto, images: Sequence[np.ndarray]) -> np.ndarray:
    """What the last layer reads, [pictures, anchors, channels]."""
    probed = onnx.ModelProto()
    probed.CopyFrom(model)
    probed.graph.output.append(onnx.ValueInfoProto(name="features"))
    session = ort.load(probed)
    given = [session.run({"image": image}, ["features"])[0] for image in images]
    return np.stack([one.reshape(one.shape[1], -1).T for one in given])


def _fitted(features: np.ndarray, discs: Sequence[Sequence[tuple[float, float, float, int]]]) -> np.ndarray:
    """The last layer, [channels + 1, rows], by weighed least squares."""
    centers = _centers()[0].T
    wanted = np.zeros((*features.shape[:2], 4 + CLASSES))
    wanted[..., 4:] = -4.0
    near = np.zeros(features.shape[:2], bool)
    for place, some in enumerate(discs):
        for x, y, radius, kind in some:
            inside = ((centers - (x, y)) ** 2).sum(1) < max(radius, STEP * 0.75) ** 2
            low, high = np.array([x, y]) - radius, np.array([x, y]) + radius
            sides = np.concatenate([centers[inside] - low, high - centers[inside]], 1)
            wanted[place, inside, :4] = sides / STEP
            wanted[place, inside, 4 + kind] = 4.0
            near[place, inside] = True
    rows = np.concatenate([features, np.ones((*features.shape[:2], 1))], 2)
    found = []
    for row in range(4 + CLASSES):
        weight = np.where(near, 3.0, 0.0 if row < 4 else 1.0)
        used = np.r_[:_BOXES, -1] if row < 4 else np.r_[_BOXES : rows.shape[2]]
        some = rows[..., used].reshape(-1, len(used))
        weighed = some * weight.reshape(-1, 1)
        gram = weighed.T @ some
        gram += 1e-6 * np.trace(gram) / len(gram) * np.eye(len(gram))
        factors = np.zeros(rows.shape[2])
        factors[used] = np.linalg.solve(gram, weighed.T @ wanted[..., row].reshape(-1))
        found.append(factors)
    return np.stack(found, 1)
