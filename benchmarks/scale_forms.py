"""What a layer's form of weight scales costs in the engine: `python -m benchmarks.scale_forms`.

Each layer stands between a Tanh and one of many endings, whose output is a float or is quantized, in a body
of float16 (or --body fp32, bf16), and is compiled with a scale a channel, with one scale and the ratio behind
the product (post-scale), and with one scale for all channels (per tensor).
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import numpy as np
import onnx
from onnx import numpy_helper, parser

from onnxq.body.convert import to_half
from onnxq.compiled.traffic import Traffic, traffic
from onnxq.graph.model import Model
from onnxq.quant.post_scale import post_scale
from onnxq.run import trt

FORMS = ("per channel", "post-scale", "per tensor")
_HEAD = '<ir_version: 8, opset_import: ["" : 18]>'


@dataclass(frozen=True, slots=True)
class Kind:
    """A layer: its operator and attributes, and the shapes of its operands and result."""

    op: str
    attributes: str
    data: tuple[int, ...]
    weights: tuple[int, ...]
    out: tuple[int, ...]
    bias: bool = False

    @property
    def axis(self) -> int:
        """The weights' axis of output channels."""
        return 0 if self.op == "Conv" else 1


def _conv(inputs: int, outputs: int, kernel: int = 3, *, size: int = 28, stride: int = 1, dims: int = 2,
          group: int = 1, bias: bool = True) -> Kind:  # fmt: skip
    pads = [kernel // 2] * (2 * dims)
    attributes = f"<pads = {pads}, strides = {[stride] * dims}, group = {group}>"
    weights = (outputs, inputs // group, *[kernel] * dims)
    return Kind(
        "Conv", attributes, (1, inputs, *[size] * dims), weights, (1, outputs, *[size // stride] * dims), bias
    )


def _product(op: str, rows: tuple[int, ...], terms: int, outputs: int, *, bias: bool = False) -> Kind:
    return Kind(op, "", (*rows, terms), (terms, outputs), (*rows, outputs), bias)


KINDS = {
    "conv 3x3, 64": _conv(64, 64),
    "conv 3x3, 64, no bias": _conv(64, 64, bias=False),
    "conv 3x3, 16": _conv(16, 16, size=56),
    "conv 3x3, 256": _conv(256, 256, size=14),
    "conv 3x3, 30 to 50": _conv(30, 50),
    "conv 3x3, 64 to 128, stride 2": _conv(64, 128, stride=2),
    "conv 3x3, 64, 4 groups": _conv(64, 64, group=4),
    "conv 7x7, 3 to 64, stride 2": _conv(3, 64, 7, size=56, stride=2),
    "conv 1x1, 64": _conv(64, 64, 1),
    "conv 1x1, 256 to 64": _conv(256, 64, 1),
    "conv 1x1, 24 to 144": _conv(24, 144, 1, size=56),
    "conv 1d": _conv(64, 64, size=256, dims=1),
    "conv 3d": _conv(32, 32, size=8, dims=3),
    "gemm": _product("Gemm", (128,), 256, 256, bias=True),
    "gemm, no bias": _product("Gemm", (128,), 256, 256),
    "matmul, rank 2": _product("MatMul", (196,), 384, 384),
    "matmul, rank 3": _product("MatMul", (1, 196), 384, 384),
    "matmul, rank 4": _product("MatMul", (2, 2, 98), 384, 384),
    "matmul, to 4 times": _product("MatMul", (1, 196), 384, 1536),
    "matmul, to a quarter": _product("MatMul", (1, 196), 1536, 384),
}

_GELU = "g = Div (B, root)  f = Erf (g)  k = Add (f, one)  l = Mul (B, k)  e = Mul (l, half)"
ENDINGS = {
    "nothing": "e = Identity (m)",
    "Relu": "e = Relu (m)",
    "Clip": "e = Clip (m, low, high)",
    "LeakyRelu": "e = LeakyRelu (m)",
    "Sigmoid": "e = Sigmoid (m)",
    "SiLU": "g = Sigmoid (m)  e = Mul (m, g)",
    "HardSwish": "e = HardSwish (m)",
    "GELU": _GELU.replace("B", "m"),
    "bias": "e = Add (m, b2)",
    "bias, GELU": "a = Add (m, b2)  " + _GELU.replace("B", "a"),
    "bias, residual": "a = Add (m, b2)  e = Add (a, r)",
    "residual, Relu": "a = Add (m, r)  e = Relu (a)",
    "int8 residual, Relu": "i = QuantizeLinear (r, sx, z)  j = DequantizeLinear (i, sx, z)  a = Add (m, j)"
    "  e = Relu (a)",
    "SiLU, residual": "g = Sigmoid (m)  a = Mul (m, g)  e = Add (a, r)",
    "gate": "e = Mul (m, r)",
    "Concat": "e = Concat <axis = 1> (m, r)",
    "Relu, Concat": "a = Relu (m)  e = Concat <axis = 1> (a, r)",
    "Softmax": "e = Softmax (m)",
    "LayerNorm": "a = Add (m, r)  e = LayerNormalization (a, gain)",
    "MaxPool": "e = MaxPool <kernel_shape = [2, 2], strides = [2, 2]> (m)",
    "AveragePool": "e = AveragePool <kernel_shape = [2, 2], strides = [2, 2]> (m)",
    "Relu, global pool": "a = Relu (m)  e = GlobalAveragePool (a)",
    "Resize": 'e = Resize <mode = "nearest"> (m, , twice)',
}
_OF_IMAGES = ("MaxPool", "AveragePool", "Relu, global pool", "Resize")


def main() -> int:
    arguments = argparse.ArgumentParser(prog="python -m benchmarks.scale_forms")
    arguments.add_argument("--body", choices=("fp16", "bf16", "fp32"), default="fp16")
    arguments.add_argument("--kinds", nargs="+", default=list(KINDS), choices=KINDS, metavar="KIND")
    arguments.add_argument("--endings", nargs="+", default=list(ENDINGS), choices=ENDINGS, metavar="ENDING")
    arguments.add_argument("--sm", type=int, default=89)
    given = arguments.parse_args()
    if trt.installed() is None:
        print("scale forms: skipped, NVIDIA's compiler is not installed")
        return 0
    print(f"scale forms: {trt.installed()}, sm {given.sm}, {given.body}; MB as built (merged) / kernels")
    print(f"{'':52}" + "".join(f"{form:>22}" for form in FORMS))
    count = {"fewer MB": 0, "as many": 0, "more MB": 0, "more kernels": 0}
    for what, model in _models(given.kinds, given.endings):
        per_channel, post, per_tensor = (_compiled(model, form, given.body, given.sm) for form in FORMS)
        cells = (
            f"{t.moved_mb:.2f} ({t.merged_mb:.2f}) / {t.kernels}" for t in (per_channel, post, per_tensor)
        )
        print(f"{what:52}" + "".join(f"{cell:>22}" for cell in cells), flush=True)
        more = post.moved_mb - per_channel.moved_mb
        count["fewer MB" if more < -5e-4 else "more MB" if more > 5e-4 else "as many"] += 1
        count["more kernels"] += post.kernels > per_channel.kernels
    print("post-scale beside per channel: " + ", ".join(f"{key} {value}" for key, value in count.items()))
    return 0


def _models(kinds: list[str], endings: list[str]) -> Iterator[tuple[str, onnx.ModelProto]]:
    for kind, ending, follower in product(kinds, endings, (False, True)):
        layer = KINDS[kind]
        image = layer.op == "Conv" and len(layer.out) == 4
        if image or not (ending in _OF_IMAGES or (ending == "LayerNorm" and layer.op == "Conv")):
            yield f"{kind}; {ending}{'; int8' if follower else ''}", _model(layer, ENDINGS[ending], follower)


def _model(kind: Kind, ending: str, follower: bool) -> onnx.ModelProto:
    random = np.random.default_rng(0)
    channels = kind.weights[kind.axis]
    residual = f", float{list(kind.out)} r0" if " r)" in ending or "(r," in ending else ""
    text = f"g (float{list(kind.data)} x{residual}) => (float y) {{ t = Tanh (x)"
    text += "  r = Tanh (r0)" if residual else ""
    text += "  q = QuantizeLinear (t, sx, z)  d = DequantizeLinear (q, sx, z)"
    spread = (channels, *[1] * (len(kind.out) - 2)) if kind.op == "Conv" else (channels,)
    text += f"  w = DequantizeLinear <axis = {kind.axis}> (codes, sw, zw)"
    text += f"  [layer] m = {kind.op} {kind.attributes} (d, w{', b' if kind.bias else ''})  {ending}"
    text += (
        "  i2 = QuantizeLinear (e, sx, z)  y = DequantizeLinear (i2, sx, z)"
        if follower
        else "  y = Identity (e)"
    )
    given: dict[str, np.ndarray] = {
        "codes": random.integers(-127, 128, kind.weights).astype(np.int8),
        "sw": np.exp(random.uniform(-8, -6, channels)).astype(np.float32),
        "zw": np.zeros(channels, np.int8),
        "sx": np.array(0.02, np.float32),
        "z": np.array(0, np.int8),
        "b": random.standard_normal(channels).astype(np.float32),
        "b2": random.standard_normal(spread),
        "gain": np.ones(kind.out[-1]),
        "low": np.array(0.0), "high": np.array(6.0), "root": np.array(2**0.5), "one": np.array(1.0),
        "half": np.array(0.5), "twice": np.array([1.0, 1.0, 2.0, 2.0]),
    }  # fmt: skip
    model = parser.parse_model(_HEAD + text + " }")
    for name, array in given.items():
        values = array.astype(np.float32) if array.dtype == np.float64 else array
        model.graph.initializer.append(numpy_helper.from_array(values, name))
    return onnx.shape_inference.infer_shapes(model)


def _compiled(proto: onnx.ModelProto, form: str, body: str, sm: int) -> Traffic:
    model = Model.open(_per_tensor(proto) if form == "per tensor" else proto)
    if form == "post-scale":
        post_scale(model)
    if body in ("fp16", "bf16"):
        model = to_half(model, body, {}).model  # type: ignore[arg-type]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "model.onnx")
        onnx.save(model.to_proto(), path)
        engine = trt.compile_engine(path, sm=sm)
    if engine.status != "compiled":
        raise SystemExit(f"{form}: {engine.reason}")
    return traffic(engine.layers)


def _per_tensor(proto: onnx.ModelProto) -> onnx.ModelProto:
    copy = onnx.ModelProto()
    copy.CopyFrom(proto)
    for tensor in copy.graph.initializer:
        if tensor.name in ("sw", "zw"):
            tensor.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensor)[0], tensor.name))
    for node in copy.graph.node:
        if node.input[0] == "codes":
            del node.attribute[:]
    return copy


if __name__ == "__main__":
    sys.exit(main())
