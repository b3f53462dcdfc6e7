"""Small models and data, each with one misuse that `onnxq check --calib` has to name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np
import onnx
import onnx.parser
from onnx import numpy_helper

_HEAD = '<ir_version: 8, opset_import: ["" : 17]> net '
SAMPLES = 40


def random(*shape: int, size: float = 1.0, seed: int = 0) -> np.ndarray:
    return (np.random.default_rng(seed).standard_normal(shape) * size).astype(np.float32)


def _codes(*shape: int) -> np.ndarray:
    return np.random.default_rng(5).integers(-127, 128, shape).astype(np.int8)


CONSTANTS: Mapping[str, np.ndarray] = {
    "w": random(32, 32, 3, 3, size=0.06), "w2": random(32, 32, 3, 3, size=0.06, seed=1),
    "w64": random(32, 64, 1, 1, size=0.12), "w3": random(32, 3, 3, 3, size=0.2),
    "ww": random(32, 32, 3, 3, size=0.06) * np.where(np.arange(32) < 4, 1, 0.01).reshape(-1, 1, 1, 1),
    "k": _codes(32, 32, 3, 3), "kw": (_codes(32, 32, 3, 3) * np.where(np.arange(32) < 4, 1, 0.03)
          .reshape(-1, 1, 1, 1)).astype(np.int8),
    "kc": np.full(32, 0.0015, np.float32), "k0": np.zeros(32, np.int8), "ks": np.array(0.0015, np.float32),
    "z": np.array(0, np.int8), "s": np.array(0.035, np.float32), "s2": np.array(0.05, np.float32),
    "wide": np.array(4.0, np.float32), "coarse": np.array(0.5, np.float32),
    "hundred": np.array(100.0, np.float32), "small": np.array(0.002, np.float32),
    "of255": np.array(1 / 255, np.float32),
    "pixels": np.array(640.0, np.float32), "boxscale": np.array(5.0, np.float32),
}  # fmt: skip

C = "<pads = [1, 1, 1, 1]>"
X = "(float[1, 32, 16, 16] x) => (float[1, 32, 16, 16] y)"
V = "v = DequantizeLinear <axis = 0> (k, kc, k0)"


def pair(name: str, out: str, scale: str) -> str:
    return f"{out}q = QuantizeLinear ({name}, {scale}, z)  {out} = DequantizeLinear ({out}q, {scale}, z)  "


def net(body: str) -> onnx.ModelProto:
    """A model of a signature and nodes, with those of `CONSTANTS` that it names."""
    model = onnx.parser.parse_model(_HEAD + body)
    used = {name for node in model.graph.node for name in node.input}
    model.graph.initializer.extend(
        numpy_helper.from_array(values, name) for name, values in CONSTANTS.items() if name in used
    )
    for number, node in enumerate(model.graph.node):
        node.name = node.name or f"n{number}"
    return onnx.shape_inference.infer_shapes(model)


def usual(count: int = SAMPLES) -> dict[str, np.ndarray]:
    return {"x": random(count, 1, 32, 16, 16, seed=9)}


def _outlier() -> dict[str, np.ndarray]:
    data = usual()
    data["x"][:, :, 7] *= 60
    return data


def _bimodal() -> dict[str, np.ndarray]:
    data = np.random.default_rng(3).uniform(0.5, 1, (SAMPLES, 1, 32, 16, 16))
    return {
        "x": (data * np.where(np.random.default_rng(4).random(data.shape) < 0.02, 100, 1)).astype(np.float32)
    }


def _tail() -> dict[str, np.ndarray]:
    data = usual()
    data["x"][::2, 0, 5, 2, 2] = 400
    return data


def images(kind: str, count: int = SAMPLES) -> dict[str, np.ndarray]:
    """Made-up photographs, 0..1 (or 0..255 for "pixels"), RGB, BGR or YUV."""
    rng = np.random.default_rng(2)
    light = rng.random((count, 1, 1, 16, 16)) * 0.8 + 0.1
    tint = np.array([0.485, 0.456, 0.406]).reshape(1, 1, 3, 1, 1) - 0.449
    rgb = np.clip(light + 0.98 * tint + rng.normal(0, 0.02, (count, 1, 3, 16, 16)), 0, 1)
    if kind == "bgr":
        rgb = rgb[:, :, ::-1]
    if kind == "yuv":
        r, g, b = rgb[:, :, 0], rgb[:, :, 1], rgb[:, :, 2]
        luma = 0.299 * r + 0.587 * g + 0.114 * b
        rgb = np.stack([luma, 0.5 + 0.564 * (b - luma), 0.5 + 0.713 * (r - luma)], 2)
    return {"x": (np.rint(rgb * 255) if kind == "pixels" else rgb).astype(np.float32)}


@dataclass(frozen=True)
class Misuse:
    check: str
    body: str
    says: str
    data: Callable[[], dict[str, np.ndarray]] = usual
    flags: tuple[str, ...] = ("--no-engine",)
    also: frozenset[str] = field(default_factory=frozenset)


PICTURE = (
    "(float[1, 3, 16, 16] x) => (float[1, 32, 16, 16] y) {{ [l] y0 = Conv {c} ({x}, w3)  y = Relu (y0) }}"
)
SCALING = f"""(float[1, 3, 16, 16] x) => (float[1, 32, 16, 16] y) {{
    [div] p = Mul (x, of255)  [l] y0 = Conv {C} (p, w3)  y = Relu (y0) }}"""
SPLIT = "a, b = Split <axis = 1> (c)  "
FIRST = f"{pair('x', 'd', 's')} {V}  [l] c = Conv {C} (d, v)"
PLAIN = f"{X} {{ [l] y0 = Conv {C} (x, w)  y = Relu (y0) }}"

MISUSES: Mapping[str, Misuse] = {
    "fusable and not fused": Misuse(
        "unfused", f"{X} {{ {FIRST}  {pair('c', 'e', 's2')}"
        f"[act] r = Relu (e)  [m] y = Conv {C} (r, w2) }}", "a pair stands between",
    ),
    "one operator called twice under one scale": Misuse(
        "shared-scale", f"{X} {{ {pair('x', 'd', 'wide')} {V}  [one] c = Conv {C} (d, v)"
        f"t = Mul (x, hundred)"
        f"{pair('t', 'e', 'wide')}  [two] f = Conv {C} (e, v)  y = Add (c, f) }}", "one module called twice",
    ),
    "one scale for a weight that two layers read": Misuse(
        "weight-scale", f"{X} {{ {pair('x', 'd', 's')} v = DequantizeLinear (kw, ks, z)"
        f"[one] c = Conv {C} (d, v)"
        f"r = Relu (c) {pair('r', 'e', 's')} [two] y = Conv {C} (e, v) }}", "2 layers read under it",
    ),
    "a Concat of very different ranges": Misuse(
        "concat-ranges", f"{X} {{ a = Conv {C} (x, w)  ra = Relu (a)  b0 = Conv {C} (x, w2)  rb = Relu (b0)"
        "b = Mul (rb, hundred)  [cat] j = Concat <axis = 1> (ra, b)  [l] y = Conv (j, w64) }",
        "share a scale",
    ),
    "an Add of very different ranges": Misuse(
        "add-ranges", f"{X} {{ {FIRST}  t = Mul (d, small)"
        f"[add] u = Add (c, t) {pair('u', 'e', 's2')} {V.replace('v =', 'v2 =')} [m] y = Conv {C} (e, v2) }}",
        "it adds",
    ),
    "one outlier channel": Misuse(
        "outlier-channel", PLAIN, "channel 7 of the 32", _outlier,
    ),
    "values of two sizes": Misuse(
        "bimodal", PLAIN, "two sizes", _bimodal,
    ),
    "a heavy layer in float": Misuse(
        "heavy-float", f"{X} {{ {FIRST}  r = Relu (c)"
        f"[big] y = Conv {C} (r, w2) }}", "no pair of the file",
    ),
    "a quantized output": Misuse(
        "coarse-output", f"{X} {{ {FIRST}  {pair('c', 'y', 'coarse')} }}",
        "rounded to int8",
    ),
    "double precision": Misuse(
        "odd-type", f"{X} {{ [l] c = Conv {C} (x, w)  h = Cast <to = 11> (c)  g = Exp (h)"
        "y = Cast <to = 1> (g) }",
        "float64",
    ),
    "a range far over its percentile": Misuse(
        "far-range", PLAIN, "99.99 %", _tail,
        ("--no-engine", "--method", "minmax"),
    ),
    "too few samples": Misuse(
        "few-samples", PLAIN, "5 samples", lambda: usual(5),
    ),
    "boxes with scores": Misuse(
        "boxes-with-scores", f"{X} {{ {FIRST}  {SPLIT}"
        f"p = Sigmoid (a)  t = Sigmoid (b)  g = Mul (t, pixels)  [cat] o = Concat <axis = 1> (g, p)"
        f"{pair('o', 'y', 'boxscale')} }}", "scores from 0 to 1",
    ),
    "pixels, as far as data tell": Misuse(
        "input-pixels", PICTURE.format(c=C, x="x"), "unnormalized", lambda: images("pixels"),
    ),
    "values from 0 to 1 for a model that divides pixels itself": Misuse(
        "input-units", SCALING, "normalized twice", lambda: images("rgb"),
    ),
    "channels in reverse order": Misuse(
        "channel-order", PICTURE.format(c=C, x="x"), "BGR", lambda: images("bgr"),
    ),
    "images in YUV": Misuse("yuv-input", PICTURE.format(c=C, x="x"), "YUV", lambda: images("yuv")),
    "a scale of other data": Misuse(
        "scale-misfit", f"{X} {{ {pair('x', 'd', 'small')} {V}  [l] y0 = Conv {C} (d, v)  y = Relu (y0) }}",
        "saturate",
    ),
}  # fmt: skip

RIGHT: Mapping[str, tuple[str, Callable[[], dict[str, np.ndarray]]]] = {
    "float": (PLAIN, usual),
    "int8": (f"{X} {{ {pair('x', 'd', 's')} {V}  [l] y0 = Conv {C} (d, v)  y = Relu (y0) }}", usual),
    "images": (PICTURE.format(c=C, x="x"), lambda: images("rgb")),
}
"""The like without a misuse."""
