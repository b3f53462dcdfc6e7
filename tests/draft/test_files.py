"""A draft that is written as a plan file and read again is the same draft, whatever is in float."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import onnx
import onnx.parser
import onnx_graphsurgeon as gs
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "quant"))

from test_compiled import NETS
from test_measuring import RULES, random_net

from onnxq.base.reason import Reason
from onnxq.graph.model import Model
from onnxq.quant.draft.draft import Draft
from onnxq.quant.draft.edits import edited
from onnxq.quant.draft.from_file import draft_of, edited_as_stated
from onnxq.quant.draft.to_file import file_of
from onnxq.quant.insert import insert
from onnxq.quant.placement import SUMS, make_plan
from onnxq.quant.plan_file import PlanFile
from onnxq.quant.plan_reading import read_plan
from onnxq.quant.ranges import Range
from onnxq.repair import lattice

HEAD = PlanFile("m.onnx", "0", "tensorrt-rtx", {})


def bytes_of(draft: Draft, model: Model) -> bytes:
    """What is inserted, as it is written."""
    model, _ = edited(model, draft.edits)
    made = insert(model, draft.plan, draft.scales, draft.patches).model.to_proto()
    return made.SerializeToString(deterministic=True)


def again(draft: Draft, model: Model, folder: Path) -> Draft:
    """A draft, written and read."""
    for name, content in file_of(draft, edited(model, draft.edits)[0], HEAD).files("plan.toml").items():
        (folder / name).write_bytes(content)
    file = read_plan(folder / "plan.toml")
    after, edits = edited_as_stated(file, model)
    read, _, _ = draft_of(
        file, edits, after, lambda floats, wanted, formats: make_plan(model, RULES, (), floats, wanted)
    )
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


def test_sums_whose_inputs_a_plan_chooses(tmp_path: Path) -> None:
    """Written with them, read with them; also where layers around them go to float."""
    compared = 0
    for seed in range(30):
        model, rng = Model.open(random_net(seed)), np.random.default_rng(seed)
        sums = [node for node in model.graph.nodes if node.op in SUMS]
        asked = {}
        for node in sums:
            free = [at for at, tensor in enumerate(node.inputs) if not isinstance(tensor, gs.Constant)]
            asked[node.name] = tuple(sorted(set(rng.choice(free, rng.integers(1, len(free) + 1)).tolist())))
        plan = make_plan(model, RULES, wanted=asked)
        ranges = {name: Range(float(rng.uniform(1, 9)), Reason("method", "mse")) for name in plan.measured}
        draft, layers = Draft(plan, ranges), [layer.node for layer in plan.layers]
        for names in ([], *([name] for name in layers)):
            left = draft.in_float({name: Reason("goal", "it gains") for name in names}, model)
            read = again(left, model, tmp_path)
            assert bytes_of(read, model) == bytes_of(left, model), (seed, names)
            assert read.plan.asked == left.plan.asked
            compared += bool(left.plan.asked)
    assert compared > 20


PIXELS = """<ir_version: 8, opset_import: ["" : 17]>
    net (float[4, 3, 24, 24] x) => (float[4, 16, 6, 6] y) {
        [first] a = Conv <strides = [4, 4]> (x, w)  r = Relu (a)  [second] y = Conv (r, v) }"""


def test_pixels_that_are_codes(tmp_path: Path) -> None:
    """A lattice with a centre and a factor for each channel."""
    proto, random = onnx.parser.parse_model(PIXELS), np.random.default_rng(0)
    for name, shape in {"w": (16, 3, 4, 4), "v": (16, 16, 1, 1)}.items():
        values = random.standard_normal(shape).astype(np.float32)
        proto.graph.initializer.append(onnx.numpy_helper.from_array(values, name))
    mean, std = (np.array(one, np.float32)[:, None, None] for one in ([0.48, 0.46, 0.41], [0.23, 0.22, 0.2]))
    pixels = random.integers(0, 256, (4, 3, 24, 24)).astype(np.float32)
    images = (pixels / np.float32(255) - mean) / std
    model = Model.open(onnx.shape_inference.infer_shapes(proto))
    plan = make_plan(model, RULES)
    draft = Draft(plan, {name: Range(3.0, Reason("method", "minmax")) for name in plan.measured})
    (edit,) = lattice.find(model, draft, lambda name: [images]).edits
    assert [len(edit.to_dict()[key]) for key in ("centres", "factors")] == [3, 3]
    moved = draft.extended([edit])
    read = again(moved, model, tmp_path)
    assert read.edits == (edit,)
    assert bytes_of(read, model) == bytes_of(moved, model) != bytes_of(draft, model)
