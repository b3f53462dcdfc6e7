"""A draft that is written as a plan file and read again is the same draft, whatever is in float."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "quant"))

from test_compiled import NETS
from test_measuring import RULES, random_net

from onnxq.base.reason import Reason
from onnxq.draft.draft import Draft
from onnxq.draft.from_file import draft_of
from onnxq.draft.to_file import file_of
from onnxq.graph.model import Model
from onnxq.quant.insert import insert
from onnxq.quant.placement import make_plan
from onnxq.quant.plan_file import PlanFile
from onnxq.quant.plan_reading import read_plan
from onnxq.quant.ranges import Range

HEAD = PlanFile("m.onnx", "0", "tensorrt-rtx", {})


def bytes_of(draft: Draft, model: Model) -> bytes:
    """What is inserted, as it is written."""
    made = insert(model, draft.plan, draft.scales, draft.patches).model.to_proto()
    return made.SerializeToString(deterministic=True)


def again(draft: Draft, model: Model, folder: Path) -> Draft:
    """A draft, written and read."""
    for name, content in file_of(draft, model, HEAD).files("plan.toml").items():
        (folder / name).write_bytes(content)
    read, _, _ = draft_of(
        read_plan(folder / "plan.toml"), (), model,
        lambda floats, wanted: make_plan(model, RULES, (), floats, wanted),
    )  # fmt: skip
    return read


def stays(model: Model, folder: Path, seed: int, count: int = 4) -> int:
    """Compares drafts with layers, and what reads beside them, in float; how many were compared."""
    plan = make_plan(model, RULES)
    rng = np.random.default_rng(seed)
    ranges = {name: Range(float(rng.uniform(1, 9)), Reason("method", "mse")) for name in plan.measured}
    draft, nodes = Draft(plan, ranges), sorted(plan.readers)
    sets = [[], *([name] for name in nodes)]
    sets += [list(rng.choice(nodes, rng.integers(1, len(nodes) + 1), replace=False)) for _ in range(count)]
    for names in sets:
        left = draft.in_float({name: Reason("goal", "it gains") for name in names}, model)
        read = again(left, model, folder)
        assert bytes_of(read, model) == bytes_of(left, model), names
        assert read.amax == {name: float(np.float64(value)) for name, value in left.amax.items()}, names
        assert {x.node for x in read.plan.layers if x.quantized} == set(left.plan.planned), names
    return len(sets)


def test_random_nets(tmp_path: Path) -> None:
    assert sum(stays(Model.open(random_net(seed)), tmp_path, seed) for seed in range(30)) > 100


@pytest.mark.parametrize("name", list(NETS))
def test_planned_nets(name: str, tmp_path: Path) -> None:
    stays(Model.open(NETS[name]()), tmp_path, 0)
