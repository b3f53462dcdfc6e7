"""How the cost of `onnxq sensitivity` grows with depth.

    python -m benchmarks.sensitivity.scaling [--blocks 8,32,128]

Chains of residual blocks, of two convolutions of 16 channels each, on 8 x 8; repair is off, as it is no part
of it. Each runs in a process of its own, of which the processor seconds count; those of a chain of one block
are subtracted. The exponent is that between a row and the one above it.
"""

from __future__ import annotations

import argparse
import math
import resource
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from benchmarks.sensitivity.measuring import printed

CHANNELS, SIZE, SAMPLES = 16, 8, 16


@dataclass(frozen=True, slots=True)
class Row:
    """A chain."""

    blocks: int
    cpu_seconds: float
    exponent: float


def chain(blocks: int) -> onnx.ModelProto:
    """A chain of residual blocks, then a classifier of 4 classes."""
    random, nodes, weights, x = np.random.default_rng(0), [], [], "x"

    def weight(name: str, *shape: int) -> str:
        values = random.standard_normal(shape) / np.sqrt(np.prod(shape[1:]))
        weights.append(numpy_helper.from_array(values.astype(np.float32), name))
        return name

    for i in range(blocks):
        first, second = (weight(f"w{i}{half}", CHANNELS, CHANNELS, 3, 3) for half in "ab")
        nodes += [
            helper.make_node("Conv", [x, first], [f"a{i}"], pads=[1] * 4),
            helper.make_node("Relu", [f"a{i}"], [f"r{i}"]),
            helper.make_node("Conv", [f"r{i}", second], [f"b{i}"], pads=[1] * 4),
            helper.make_node("Add", [f"b{i}", x], [f"s{i}"]),
            helper.make_node("Relu", [f"s{i}"], [f"x{i}"]),
        ]
        x = f"x{i}"
    nodes += [
        helper.make_node("GlobalAveragePool", [x], ["p"]),
        helper.make_node("Flatten", ["p"], ["f"]),
        helper.make_node("Gemm", ["f", weight("last", CHANNELS, 4)], ["y"]),
    ]
    given = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", CHANNELS, SIZE, SIZE])
    made = helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N", 4])
    graph = helper.make_graph(nodes, "chain", [given], [made], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def rows(sizes: Sequence[int]) -> Iterator[Row]:
    """A row for each chain."""
    start, before = _seconds(1), None
    for blocks in sizes:
        seconds = max(_seconds(blocks) - start, 1e-3)
        grown = math.nan if before is None else math.log(seconds / before[1]) / math.log(blocks / before[0])
        yield Row(blocks, seconds, grown)
        before = (blocks, seconds)


def _seconds(blocks: int) -> float:
    """The processor seconds of a process that does it."""
    began = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-m", __spec__.name, "--one", str(blocks)], check=True)
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    return ended.ru_utime + ended.ru_stime - began.ru_utime - began.ru_stime


def _one(blocks: int) -> None:
    import onnxq

    random = np.random.default_rng(1)
    shape = (1, CHANNELS, SIZE, SIZE)
    data = [{"x": random.standard_normal(shape).astype(np.float32)} for _ in range(SAMPLES)]
    onnxq.sensitivity(chain(blocks), data, repair="none")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "--blocks", type=lambda text: [int(one) for one in text.split(",")], default=[8, 32, 128]
    )
    parser.add_argument("--rows", type=Path, help="a file that rows are appended to, as JSON")
    parser.add_argument("--one", type=int, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one is None:
        printed(rows(given.blocks), given.rows)
    else:
        _one(given.one)


if __name__ == "__main__":
    main()
