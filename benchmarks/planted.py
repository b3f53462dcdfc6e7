"""One fault, planted at random into a net of a hundred layers: is it the first row of `analyze`?

    python -m benchmarks.planted [--trials 30] [--json out.json]

Random nets of 100 layers (residual blocks of two Conv) are quantized with onnxq. Each trial plants one fault
into a quantized file and asks `onnxq.analyze` for float against quantized. It counts where the first row is
the layer (or the reader of the tensor) with the fault, and the row's first cause has the fault's name.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

import onnxq
from onnxq.options.settings import Format

KINDS = {
    "weight": "weights",
    "swapped": "swapped",
    "scale": "scale",
    "nan": "nonfinite",
    "pair": "unquantized",
}
"""The faults, and the cause that names each."""

CHANNELS = 16


def net(random: np.random.Generator, layers: int = 100) -> onnx.ModelProto:
    """A net of residual blocks of two convolutions, with activations of several kinds."""
    nodes, weights = [], []

    def constant(name: str, values: np.ndarray) -> str:
        weights.append(numpy_helper.from_array(values.astype(np.float32), name))
        return name

    at, count = "x", 0
    while count < layers:
        block, start = [], at
        for place in range(min(2, layers - count)):
            size = int(random.choice([1, 3]))
            shape = (CHANNELS, CHANNELS, size, size)
            w = random.standard_normal(shape) * np.sqrt(1.6 / (CHANNELS * size * size))
            w *= np.exp(random.standard_normal((CHANNELS, 1, 1, 1)) * 0.3)
            name, bias = f"layer{count:03d}", random.standard_normal(CHANNELS) * 0.1
            nodes.append(
                helper.make_node(
                    "Conv",
                    [at, constant(f"{name}.w", w), constant(f"{name}.b", bias)],
                    [f"{name}_out"], name, pads=[size // 2] * 4,
                )
            )  # fmt: skip
            at = f"{name}_out"
            if place == 0:
                op = str(random.choice(["Relu", "Relu", "LeakyRelu", "HardSwish"]))
                nodes.append(helper.make_node(op, [at], [f"{name}_act"], f"{name}.act"))
                at = f"{name}_act"
            block.append(name)
            count += 1
        scaled = f"{block[-1]}_half"
        nodes.append(helper.make_node("Mul", [at, "half"], [scaled], f"{block[-1]}.half"))
        nodes.append(helper.make_node("Add", [start, scaled], [f"{block[-1]}_sum"], f"{block[-1]}.add"))
        nodes.append(
            helper.make_node(
                "Mul", [f"{block[-1]}_sum", "shrink"], [f"{block[-1]}_end"], f"{block[-1]}.shrink"
            )
        )
        at = f"{block[-1]}_end"
    constant("half", np.float32(0.5))
    constant("shrink", np.float32(0.85))
    nodes.append(helper.make_node("GlobalAveragePool", [at], ["y"], "pool"))
    info = helper.make_tensor_value_info
    graph = helper.make_graph(
        nodes, "net",
        [info("x", 1, ["N", CHANNELS, 12, 12])], [info("y", 1, ["N", CHANNELS, 1, 1])], weights,
    )  # fmt: skip
    return helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 17)])


def weight(model: onnx.ModelProto, random: np.random.Generator, samples: Any) -> str:
    """Some weights of one layer are other ones."""
    layer = _layer(model, random)
    tensor = _codes(model, layer)
    codes = numpy_helper.to_array(tensor).copy()
    many = int(random.choice([1, 8, codes.size]))
    for place in random.choice(codes.size, many, replace=False):
        old = int(codes.reshape(-1)[place])
        codes.reshape(-1)[place] = old - 100 if old > 0 else old + 100
    tensor.CopyFrom(numpy_helper.from_array(codes, tensor.name))
    return layer.name


def swapped(model: onnx.ModelProto, random: np.random.Generator, samples: Any) -> str:
    """Two channels of one layer's weights are swapped, with their scales where these are outputs."""
    layer = _layer(model, random)
    tensor = _codes(model, layer)
    axis = int(random.integers(2))
    one, other = random.choice(CHANNELS, 2, replace=False)
    order = np.arange(CHANNELS)
    order[[one, other]] = order[[other, one]]
    values = np.take(numpy_helper.to_array(tensor), order, axis)
    tensor.CopyFrom(numpy_helper.from_array(values, tensor.name))
    if axis == 0:
        maker = _maker(model, layer.input[1], "DequantizeLinear")
        scale = _initializer(model, maker.input[1])
        array = numpy_helper.to_array(scale)
        if array.size == CHANNELS:
            scale.CopyFrom(numpy_helper.from_array(array[order], scale.name))
    return layer.name


def scale(model: onnx.ModelProto, random: np.random.Generator, samples: Any) -> str:
    """The scale of one activation is ten times too large."""
    quantizers = [n for n in model.graph.node if n.op_type == "QuantizeLinear"]
    node = quantizers[int(random.integers(len(quantizers)))]
    old = _initializer(model, node.input[1])
    name = f"{old.name}_wrong"
    model.graph.initializer.append(numpy_helper.from_array(numpy_helper.to_array(old) * np.float32(10), name))
    node.input[1] = name
    out = node.output[0]
    for reader in model.graph.node:
        if reader.op_type == "DequantizeLinear" and reader.input[0] == out:
            reader.input[1] = name
            out_of = reader.output[0]
    return _reader(model, out_of)


def nan(model: onnx.ModelProto, random: np.random.Generator, samples: Any) -> str:
    """One layer gives NaN on one sample: the square root of what is negative there alone."""
    layer = _layer(model, random)
    out, kept = layer.output[0], f"{layer.output[0]}_kept"
    probe = onnx.ModelProto()
    probe.CopyFrom(model)
    del probe.graph.output[:]
    probe.graph.output.add(name=out)
    from onnxq.run import ort

    session = ort.load(probe, optimize=False, threads=1)
    least = sorted(float(session.run({"x": sample})[0].min()) for sample in samples)
    bound = (least[0] + least[1]) / 2
    dtype = np.float32
    names = {}
    for label, value in (("bound", bound), ("zero", 0.0)):
        names[label] = f"planted_{label}"
        model.graph.initializer.append(numpy_helper.from_array(np.array(value, dtype), names[label]))
    place = next(i for i, n in enumerate(model.graph.node) if n.name == layer.name)
    layer.output[0] = kept
    made = [
        helper.make_node("Sub", [kept, names["bound"]], ["planted_above"], "planted_sub"),
        helper.make_node("Sqrt", ["planted_above"], ["planted_root"], "planted_sqrt"),
        helper.make_node("Mul", ["planted_root", names["zero"]], ["planted_nothing"], "planted_mul"),
        helper.make_node("Add", [kept, "planted_nothing"], [out], "planted_add"),
    ]
    nodes = [*model.graph.node[: place + 1], *made, *model.graph.node[place + 1 :]]
    rest = onnx.GraphProto(node=nodes)
    del model.graph.node[:]
    model.graph.node.extend(rest.node)
    return "planted_add"


def pair(model: onnx.ModelProto, random: np.random.Generator, samples: Any) -> str:
    """One layer reads the float tensor, without its pair."""
    layer = _layer(model, random)
    dequantizer = _maker(model, layer.input[0], "DequantizeLinear")
    quantizer = _maker(model, dequantizer.input[0], "QuantizeLinear")
    layer.input[0] = quantizer.input[0]
    return layer.name


FAULTS: dict[str, Callable[..., str]] = {
    "weight": weight, "swapped": swapped, "scale": scale, "nan": nan, "pair": pair,
}  # fmt: skip


def _layer(model: onnx.ModelProto, random: np.random.Generator) -> onnx.NodeProto:
    layers = [n for n in model.graph.node if n.op_type == "Conv"]
    return layers[int(random.integers(len(layers)))]


def _maker(model: onnx.ModelProto, name: str, op: str) -> onnx.NodeProto:
    node = next(n for n in model.graph.node if name in n.output)
    return node if node.op_type == op else _maker(model, node.input[0], op)


def _initializer(model: onnx.ModelProto, name: str) -> onnx.TensorProto:
    return next(t for t in model.graph.initializer if t.name == name)


def _codes(model: onnx.ModelProto, layer: onnx.NodeProto) -> onnx.TensorProto:
    return _initializer(model, _maker(model, layer.input[1], "DequantizeLinear").input[0])


def _reader(model: onnx.ModelProto, name: str) -> str:
    """Who reads a tensor, casts and pairs looked through."""
    node = next(n for n in model.graph.node if name in n.input)
    through = ("Cast", "QuantizeLinear", "DequantizeLinear")
    return _reader(model, node.output[0]) if node.op_type in through else str(node.name)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--trials", type=int, default=30)
    parser.add_argument("--layers", type=int, default=100)
    parser.add_argument("--samples", type=int, default=8)
    parser.add_argument("--nets", type=int, default=3)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--body", default="fp32")
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args()
    made: list[tuple[onnx.ModelProto, onnx.ModelProto, list[np.ndarray]]] = []
    for number in range(asked.nets):
        random = np.random.default_rng((asked.seed, number))
        floats = net(random, asked.layers)
        samples = [random.standard_normal((1, CHANNELS, 12, 12)).astype(np.float32) for _ in range(24)]
        result = onnxq.quantize(
            floats, [{"x": one} for one in samples], method="minmax", repair="none",
            format=Format(body=asked.body), compile=False,
        )  # fmt: skip
        clean = onnxq.analyze(floats, result.model, [{"x": one} for one in samples[: asked.samples]])
        print(
            f"net {number}: {clean.suspicious} of {len(clean.rows)} rows suspicious without a fault",
            flush=True,
        )
        made.append((floats, result.model, samples[: asked.samples]))
    trials = []
    for number in range(asked.trials):
        random = np.random.default_rng((asked.seed, 99, number))
        kind = list(FAULTS)[number % len(FAULTS)]
        floats, quantized, samples = made[int(random.integers(len(made)))]
        broken = onnx.ModelProto()
        broken.CopyFrom(quantized)
        where = FAULTS[kind](broken, random, samples)
        start = time.perf_counter()
        found = onnxq.analyze(floats, broken, [{"x": one} for one in samples])
        first = found.rows[0]
        code = first.causes[0].code if first.causes else ""
        hit = first.layer == where and code == KINDS[kind]
        trials.append(
            {"kind": kind, "where": where, "row": first.layer, "cause": code, "found": hit,
             "suspicious": found.suspicious, "seconds": round(time.perf_counter() - start, 2)}
        )  # fmt: skip
        print(trials[-1], first.causes[0].text if first.causes else "", flush=True)
    hits = sum(bool(trial["found"]) for trial in trials)
    print(f"{hits} of {len(trials)} found by the first row, with the cause named")
    if asked.json:
        asked.json.write_text(json.dumps(trials, indent=1))


if __name__ == "__main__":
    main()
