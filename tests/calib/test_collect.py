"""Min-max calibration against numpy, its refusals, and its memory."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper, parser

from onnxq.calib.collect import TensorStats, collect
from onnxq.calib.samples import Sample
from onnxq.errors import UserError
from onnxq.run.ort import RunError

NET = """<ir_version: 8, opset_import: ["" : 17]>
    net (float[N, 3, 8, 8] x) => (float[N, 4, 8, 8] y, bool[N, 4, 8, 8] b) <float two = {2.0}> {
        c = Conv <kernel_shape = [3, 3], pads = [1, 1, 1, 1]> (x, w)
        r = Relu (c)
        s = Mul (r, two)
        y = Add (s, c)
        b = Greater (y, two)
    }"""


def net() -> onnx.ModelProto:
    model = parser.parse_model(NET)
    w = np.random.default_rng(0).standard_normal((4, 3, 3, 3)).astype(np.float32)
    model.graph.initializer.append(numpy_helper.from_array(w, "w"))
    return model


def samples(count: int = 5, shape=(1, 3, 8, 8), dtype=np.float32) -> list[Sample]:
    rng = np.random.default_rng(1)
    return [
        Sample(i, f"calib/{i}.npy", {"x": (rng.standard_normal(shape) * (i + 1)).astype(dtype)})
        for i in range(count)
    ]


def outputs_of(model: onnx.ModelProto, names, given) -> dict[str, list[np.ndarray]]:
    """Every value of the tensors, by onnx's reference evaluator."""
    from onnx.reference import ReferenceEvaluator

    exposed = onnx.ModelProto()
    exposed.CopyFrom(model)
    del exposed.graph.output[:]
    exposed.graph.output.extend(onnx.ValueInfoProto(name=name) for name in names)
    run = ReferenceEvaluator(exposed)
    found: dict[str, list[np.ndarray]] = {name: [] for name in names}
    for sample in given:
        for name, value in zip(names, run.run(None, sample.feeds), strict=True):
            found[name].append(value)
    return found


def test_ranges_are_those_of_the_values() -> None:
    model, given, names = net(), samples(), ["y", "c", "x", "w", "s", "r", "two", "b"]
    before = model.SerializeToString(deterministic=True)
    told: list[int] = []
    stats = collect(model, names, iter(given), progress=told.append)
    assert model.SerializeToString(deterministic=True) == before
    assert told == [1, 2, 3, 4, 5]
    assert stats.samples == 5
    assert list(stats.tensors) == names
    for name, values in outputs_of(model, names[:2] + names[4:6], given).items():
        found = stats.tensors[name]
        assert found.min == pytest.approx(min(v.min() for v in values), rel=1e-5, abs=1e-5)
        assert found.max == pytest.approx(max(v.max() for v in values), rel=1e-5, abs=1e-5)
        assert found.count == 5
    x = np.concatenate([s.feeds["x"] for s in given])
    w = numpy_helper.to_array(model.graph.initializer[-1])
    assert stats.tensors["x"] == TensorStats(float(x.min()), float(x.max()), 5)
    assert stats.tensors["w"] == TensorStats(float(w.min()), float(w.max()), 5)
    assert stats.tensors["two"] == TensorStats(2.0, 2.0, 5)
    assert stats.tensors["b"] == TensorStats(0.0, 1.0, 5)
    assert TensorStats(-3.0, 2.0, 1).amax == 3.0


@pytest.mark.parametrize(
    ("opset", "dtype"),
    [(o, d) for o in (7, 11, 12, 13, 17, 18, 20, 22) for d in ("f2", "f4", "f8", "i4", "i8", "u1")]
    + [(o, "bf16") for o in (17, 18, 22)],  # Identity takes it from opset 13 on
)
def test_opsets_and_dtypes(opset: int, dtype: str) -> None:
    numpy_type = np.dtype(ml_dtypes.bfloat16 if dtype == "bf16" else dtype)
    kind = helper.np_dtype_to_tensor_dtype(numpy_type)
    graph = helper.make_graph(
        [helper.make_node("Identity", ["x"], ["h"]), helper.make_node("Identity", ["h"], ["y"])],
        "g",
        [helper.make_tensor_value_info("x", kind, ["N", 3])],
        [helper.make_tensor_value_info("y", kind, ["N", 3])],
    )
    model = helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", opset)])
    values = np.array([[3, 7, 5]]).astype(numpy_type)
    feeds = {"x": values}
    if dtype == "bf16":  # onnxruntime's Python API takes no bfloat16: cast in the graph
        model.graph.node[0].CopyFrom(helper.make_node("Cast", ["x"], ["h"], to=kind))
        model.graph.input[0].type.tensor_type.elem_type = TensorProto.FLOAT
        feeds = {"x": values.astype(np.float32)}
    stats = collect(model, ["h", "y"], [Sample(0, "a", feeds)])
    assert stats.tensors == {n: TensorStats(3.0, 7.0, 1) for n in ("h", "y")}


@pytest.mark.parametrize("place", [(0, 0, 0, 0), (0, 2, 7, 7)])
@pytest.mark.parametrize(("value", "what"), [(np.nan, "NaN"), (np.inf, "infinite"), (-np.inf, "infinite")])
def test_values_that_are_not_finite_are_found(place, value: float, what: str) -> None:
    given = samples()
    given[3].feeds["x"][place] = value
    with pytest.raises(UserError, match=rf"tensor 'x'.* is {what} for calib/3\.npy"):
        collect(net(), ["c", "x"], given)


def test_the_first_overflow_is_blamed() -> None:
    model = parser.parse_model(
        """<ir_version: 8, opset_import: ["" : 17]> g (float[N, 4] x) => (float[N, 4] z) {
            [grow] y = Exp (x)
            z = Sub (y, y)
        }"""
    )
    wide = np.zeros((1, 4), np.float32)
    given = [Sample(0, "a", {"x": wide}), Sample(1, "b", {"x": wide + 100})]
    with pytest.raises(UserError) as caught:
        collect(model, ["z", "y"], given)
    message = str(caught.value)
    assert "tensor 'y' (output of Exp node 'grow') is infinite for b" in message
    assert "float model itself" in caught.value.hint


def test_greatest_finite_values_are_no_overflow() -> None:
    lowest = float(np.finfo(np.float32).min)
    given = [Sample(0, "a", {"x": np.full((1, 3, 8, 8), lowest, np.float32)})]
    found = collect(net(), ["x"], given).tensors["x"]
    assert found == TensorStats(lowest, lowest, 1)


def test_tensors_without_values() -> None:
    model = parser.parse_model(
        """<ir_version: 8, opset_import: ["" : 17]> g (float[N] x) => (float[M] y) {
            p = NonZero (x)
            i = Squeeze (p)
            y = Gather (x, i)
        }"""
    )
    some, none = np.array([0, -2, 3], np.float32), np.zeros(3, np.float32)
    given = [Sample(0, "a", {"x": some}), Sample(1, "b", {"x": none})]
    assert collect(model, ["y"], given).tensors["y"] == TensorStats(-2.0, 3.0, 1)
    with pytest.raises(UserError, match="'y' has no values in any of the 1"):
        collect(model, ["y"], given[1:])


def test_refusals() -> None:
    with pytest.raises(UserError, match="no tensor 'rr'") as caught:
        collect(net(), ["rr"], samples())
    assert "'r'" in caught.value.hint
    with pytest.raises(UserError, match="zero samples"):
        collect(net(), ["r"], [])
    with pytest.raises(UserError, match=r"does not run on calib/0\.npy"):
        collect(net(), ["r"], samples(shape=(1, 2, 8, 8)))
    broken = net()
    broken.graph.node[0].op_type = "NoSuchOp"
    with pytest.raises(RunError, match="NoSuchOp"):
        collect(broken, ["r"], samples())


def test_names_that_the_model_uses_already() -> None:
    model = net()
    model.graph.node[0].output[0] = "onnxq_probe_min0"
    model.graph.node[1].input[0] = model.graph.node[3].input[1] = "onnxq_probe_min0"
    tapped = collect(model, ["onnxq_probe_min0"], samples()).tensors["onnxq_probe_min0"]
    assert tapped == collect(net(), ["c"], samples()).tensors["c"]


def test_external_data(tmp_path: Path) -> None:
    onnx.save(net(), tmp_path / "m.onnx", save_as_external_data=True, location="m.data", size_threshold=0)
    model = onnx.load(tmp_path / "m.onnx", load_external_data=False)
    stats = collect(model, ["c", "w"], samples(), data_dir=tmp_path)
    assert stats.tensors == collect(net(), ["c", "w"], samples()).tensors


# VmHWM, not ru_maxrss: the latter counts the parent that forked the process.
_PEAK = """
import sys
import numpy as np
from onnx import helper, numpy_helper
from onnxq.calib.collect import collect
from onnxq.calib.samples import Sample
w = (np.random.default_rng(0).standard_normal((16, 16, 3, 3)) * 0.1).astype(np.float32)
nodes, tensors = [], ["x"]
for i in range(24):
    nodes.append(helper.make_node("Conv", [tensors[-1], "w"], [f"c{i}"], pads=[1, 1, 1, 1]))
    nodes.append(helper.make_node("Relu", [f"c{i}"], [f"r{i}"]))
    tensors.append(f"r{i}")
graph = helper.make_graph(
    nodes, "g",
    [helper.make_tensor_value_info("x", 1, [1, 16, 256, 256])],
    [helper.make_tensor_value_info(tensors[-1], 1, [1, 16, 256, 256])],
    [numpy_helper.from_array(w, "w")],
)
model = helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 17)])
x = Sample(0, "a", {"x": np.ones((1, 16, 256, 256), np.float32)})
collect(model, tensors[: int(sys.argv[1])], [x, x], threads=1)
print(next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM")))
"""


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="reads Linux's peak memory")
def test_tensors_are_freed_once_reduced() -> None:
    # 25 tensors of 4 MiB: 96 MiB more where they are all kept until the last node has run.
    peaks = [
        int(subprocess.run([sys.executable, "-c", _PEAK, count], capture_output=True, check=True).stdout)
        for count in ("1", "25")
    ]
    assert peaks[1] - peaks[0] < 24 * 1024  # KiB
