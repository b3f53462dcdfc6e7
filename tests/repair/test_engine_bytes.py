"""What an engine moves, predicted: by hand, and beside what NVIDIA's compiler makes of it."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import onnx
import pytest
from edit_nets import Case, net
from test_half_steps import WEIGHTS

from onnxq.body.convert import to_half
from onnxq.compiled.kernels import Kernel, kernels_of
from onnxq.compiled.traffic import merged
from onnxq.graph.model import Model
from onnxq.quant.draft.draft import Draft
from onnxq.quant.draft.edits import edited
from onnxq.quant.insert import insert
from onnxq.quant.plan import QuantPlan
from onnxq.repair import shift, split
from onnxq.repair.engine_bytes import engine_bytes
from onnxq.run import trt

MAP = 2 * 32 * 12 * 12  # elements of each tensor but the input
IMAGE = 2 * 16 * 12 * 12
SAME = "<pads = [1, 1, 1, 1]>"
MOBILE = f"""t = Conv {SAME} (x, w, b)  s = Conv <group = 32, pads = [1, 1, 1, 1]> (t, dw, b)
    a = Clip (s, zero, one)  y = Conv (a, v, d)"""


def size(*names: str) -> int:
    """How many weights there are of these names."""
    given = (WEIGHTS[name] for name in names)
    return sum(math.prod(one.shape if isinstance(one, np.ndarray) else one) for one in given)


def case(lines: str, y: str = "y") -> Case:
    return Case(net(lines, WEIGHTS, y=y))


def test_plain_float16_writes_and_reads_each_tensor_once() -> None:
    """The Clip is at the end of a kernel; x is read as float32, and made half; y is written as float32."""
    weights = 2 * size("w", "b", "dw", "b", "zero", "one", "v", "d")
    maps = (2 + 2) * MAP + (2 + 2) * MAP + 4 * MAP
    assert engine_bytes(case(MOBILE).model, QuantPlan()) == (4 + 2 + 2) * IMAGE + maps + weights


def test_a_pair_halves_what_is_moved_and_a_half_step_costs_six_bytes() -> None:
    one = case(MOBILE)
    plain, quantized = (engine_bytes(one.model, plan) for plan in (QuantPlan(), one.plan))
    assert plain - quantized == 2 * IMAGE + 2 * MAP + size("w", "v")
    edits = split.find(one.model, one.draft).edits
    model, _ = edited(one.model, edits)
    twice = size("v") + 2 * 2  # the weights of what reads it, and two offsets
    assert engine_bytes(model, one.plan) - quantized == 6 * MAP + twice


@pytest.mark.parametrize(
    ("lines", "weights"),
    [
        ("t = Conv (x, w)  g = Sigmoid (t)  a = Mul (t, g)  y = Conv (a, v)", ("w", "v")),
        ("t = Conv (x, w)  u = Relu (t)  a = Add (u, t)  y = Conv (a, v)", ("w", "v")),
        ("t = Conv (x, w)  u = Conv (t, v)  a = Add (t, u)  y = Conv (a, v2)", ("w", "v", "v2")),
    ],
)
def test_what_is_computed_element_by_element_is_at_the_end_of_a_kernel(
    lines: str, weights: tuple[str, ...]
) -> None:
    """As many kernels as convolutions, each of which reads what the one before it writes."""
    valid = 2 * 32 * 10 * 10
    maps = (len(weights) - 1) * (2 + 2) * valid + 4 * valid
    assert engine_bytes(case(lines).model, QuantPlan()) == 8 * IMAGE + maps + 2 * size(*weights)


@pytest.mark.skipif(trt.installed() is None, reason="tensorrt-rtx is not installed")
@pytest.mark.parametrize("steps", [0, 1])
def test_the_engine_moves_what_is_predicted(tmp_path: Path, steps: int) -> None:
    one = case(MOBILE)
    moves = _shifted(one)
    model, _ = edited(one.model, moves.edits)
    draft = moves.extended(split.find(model, moves).edits[:steps])
    model, _ = edited(one.model, draft.edits)
    made = insert(model, draft.plan, draft.scales).model
    engine = sum(kernel.moved + kernel.bytes_weights for kernel in _kernels(made, tmp_path))
    assert engine_bytes(model, draft.plan) == pytest.approx(engine, rel=0.05)


def _shifted(one: Case) -> Draft:
    return one.draft.extended(shift.find(one.model, one.draft).edits)


def _kernels(model: Model, folder: Path) -> tuple[Kernel, ...]:
    proto = to_half(Model.open(model.to_proto()), "fp16", {}).model.to_proto()
    onnx.save(proto, folder / "model.onnx")
    engine = trt.compile_engine(folder / "model.onnx")
    assert engine.status == "compiled", engine.reason
    return merged(kernels_of(engine.layers, {node.name: node.op_type for node in proto.graph.node}))


def test_what_is_an_output_too_is_written_once_more_and_read_again() -> None:
    one = case(f"t = Conv {SAME} (x, w, b)  y = Clip (t, zero, one)", y="t, y")
    weights = 2 * size("w", "b", "zero", "one")
    assert engine_bytes(one.model, QuantPlan()) == (4 + 2 + 2) * IMAGE + (2 + 2 + 4) * MAP + 4 * MAP + weights


def test_paths_that_part_and_meet_a_thousand_times_are_walked_once() -> None:
    """Each of these SiLUs has two readers of its input: as paths they are 2^1000."""
    silus = "  ".join(f"s{i} = Sigmoid (t{i})  t{i + 1} = Mul (t{i}, s{i})" for i in range(1000))
    one = case(f"t0 = Conv {SAME} (x, w, b)  {silus}  y = Add (t0, t1000)")
    weights = 2 * size("w", "b")
    assert engine_bytes(one.model, QuantPlan()) == (4 + 2 + 2) * IMAGE + 4 * MAP + weights
