"""What it costs to load a model with many probed tensors, against loading it in one go.

Some of onnxruntime's optimizers take a time that is quadratic in the number of probes.
"""

from __future__ import annotations

from statistics import median

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from benchmarks.common import in_turns, print_row, ratio_of
from onnxq.calib.probes import ALL_ROWS, Probe, ProbeGraph
from onnxq.run import ort

FEW, MANY, ROUNDS = 300, 1200, 3
CHANNELS, SIZE, OPSET = 8, 16, 17


def main() -> None:
    few, many = (_layers(count) for count in (FEW, MANY))
    print(f"loading: a chain of Conv and Relu, every tensor probed; CPU time, {ROUNDS} rounds")
    _load(*few)  # what is loaded once
    spent = in_turns({"few": lambda: _load(*few), "many": lambda: _load(*many)}, ROUNDS)
    at_once = in_turns({"many": lambda: _load_at_once(*many)}, 1)["many"]
    ratio, spread = ratio_of(spent["many"], spent["few"])
    print_row(f"  {MANY:,} tensors / {FEW}", ratio, 10.0, f"{_seconds(spent['many'])}; {spread}")
    ratio = median(spent["many"]) / at_once[0]
    print_row(f"  {MANY:,} tensors / the same in one go", ratio, 0.1, f"{at_once[0]:.2f} s in one go")


def _seconds(spent: list[float]) -> str:
    return f"{median(spent):.2f} s"


def _layers(count: int) -> tuple[onnx.ModelProto, list[Probe]]:
    """A model of so many tensors, and a probe of each."""
    random = np.random.default_rng(0)
    nodes, weights, probes = [], [], []
    x = "x"
    for index in range(count // 2):
        values = random.standard_normal((CHANNELS, CHANNELS, 3, 3), np.float32) / 9
        weights.append(numpy_helper.from_array(values, f"w{index}"))
        conv, relu = f"conv{index}", f"relu{index}"
        nodes.append(helper.make_node("Conv", [x, f"w{index}"], [conv], pads=[1, 1, 1, 1]))
        nodes.append(helper.make_node("Relu", [conv], [relu]))
        probes += [Probe(conv, ALL_ROWS), Probe(relu, ALL_ROWS)]
        x = relu
    ends = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, CHANNELS, SIZE, SIZE]) for name in ("x", x)
    ]
    graph = helper.make_graph(nodes, "layers", ends[:1], ends[1:], weights)
    opsets = [helper.make_opsetid("", OPSET)]
    return helper.make_model(graph, ir_version=8, opset_imports=opsets), probes


def _load(model: onnx.ModelProto, probes: list[Probe]) -> None:
    tensors = [probe.tensor for probe in probes]
    ort.load_probed(model, tensors, lambda floats: ProbeGraph(model, probes, OPSET, floats).graph, threads=1)


def _load_at_once(model: onnx.ModelProto, probes: list[Probe]) -> None:
    ort.load(model, threads=1, probes=ProbeGraph(model, probes, OPSET).graph)


if __name__ == "__main__":
    main()
