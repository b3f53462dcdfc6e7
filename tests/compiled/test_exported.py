"""Files as trtexec writes them, of TensorRT 8.6, 10 and 11; written by hand from NVIDIA's documents.

The forms: "Engine Inspector" in the developer guide, and its migration from 10 to 11.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import onnx
import pytest
from engine_nets import CHANNELS, SIZE, convolutions

from onnxq.base.errors import UserError
from onnxq.compiled.exported import read_exported
from onnxq.compiled.reading import operators_of
from onnxq.graph.model import Model
from onnxq.inspection.engine_reading import engine

SHAPE = [1, CHANNELS, SIZE, SIZE]
JOINED = "both + relu"
COPY = "Reformatting CopyNode for Input Tensor 0 to both + relu"


def of_8(kind: str = "Thirty-two wide channel vectorized row major Int8 format") -> dict[str, Any]:
    """A convolution of TensorRT 8.6 and 10: types in the words of formats, weights as type and count."""
    return {
        "Name": JOINED,
        "LayerType": "CaskConvolution",
        "Inputs": [{"Name": "xd", "Location": "Device", "Dimensions": SHAPE, "Format/Datatype": kind}],
        "Outputs": [{"Name": "ar", "Dimensions": SHAPE, "Format/Datatype": "Row major linear FP16 format"}],
        "ParameterType": "Convolution",
        "Kernel": [3, 3],
        "OutMaps": CHANNELS,
        "Groups": 1,
        "Weights": {"Type": "Int8", "Count": CHANNELS * CHANNELS * 9},
        "Bias": {"Type": "Float", "Count": CHANNELS},
        "TacticName": "sm80_xmma_fprop",
        "Metadata": "[ONNX Layer: both]\u001e[ONNX Layer: relu]",
    }  # fmt: skip


def of_11() -> dict[str, Any]:
    """The same of TensorRT 11: `Datatype` and `Format` apart."""
    layer = of_8()
    for tensor in (*layer["Inputs"], *layer["Outputs"]):
        tensor["Format"] = tensor.pop("Format/Datatype")
    layer["Inputs"][0]["Datatype"], layer["Outputs"][0]["Datatype"] = "Int8", "Half"
    return layer


def copy(words: str = "Row major linear FP32") -> dict[str, Any]:
    reads = {"Name": "x", "Dimensions": SHAPE, "Format/Datatype": words}
    writes = {
        "Name": "xd",
        "Dimensions": SHAPE,
        "Format/Datatype": "Channel major INT8 format where channel % 4 == 0",
    }
    return {"Name": COPY, "LayerType": "Reformat", "Inputs": [reads], "Outputs": [writes], "Metadata": ""}


PROFILE = [
    {"count": 100},
    {"name": COPY, "timeMs": 0.5, "averageMs": 0.005, "medianMs": 0.004, "percentage": 20.0},
    {"name": JOINED, "timeMs": 2.0, "averageMs": 0.02, "medianMs": 0.02, "percentage": 80.0},
]


@pytest.fixture
def model(tmp_path: Path) -> Path:
    onnx.save(convolutions(), tmp_path / "net.onnx")
    return tmp_path / "net.onnx"


def write(folder: Path, name: str, document: Any) -> Path:
    (folder / name).write_text(document if isinstance(document, str) else json.dumps(document))
    return folder / name


@pytest.mark.parametrize("layer", [of_8(), of_8("Channel major INT8 format"), of_11()])
def test_layers_that_are_objects(layer: dict[str, Any], model: Path, tmp_path: Path) -> None:
    info = write(tmp_path, "layers.json", {"Layers": [copy(), layer], "Bindings": ["x", "y"]})
    times = write(tmp_path, "times.json", PROFILE)
    found = engine(model, layer_info=info, profile_times=times)
    reading = found.reading
    assert reading is not None
    assert found.engine is None
    quantize, product = reading.kernels
    assert (quantize.kind, quantize.seconds, quantize.nodes) == ("quantize", 5e-6, ())
    assert (product.kind, product.precision, product.seconds) == ("convolution", "int8", 2e-5)
    pixels = SIZE * SIZE * CHANNELS
    assert product.macs == pixels * CHANNELS * 9
    assert (product.bytes_read, product.bytes_written) == (pixels, 2 * pixels)
    assert product.bytes_weights == CHANNELS * CHANNELS * 9 + 4 * CHANNELS
    both = next(node for node in reading.nodes if node.node == "both")
    assert (both.planned, both.compiled, both.kernel, both.role) == ("int8", "int8", JOINED, "own")
    assert both.seconds == 1e-5, "half of the kernel that it shares with relu"
    assert reading.totals.seconds == pytest.approx(2.5e-5, rel=1e-12)
    assert reading.totals.quantize == 1


@pytest.mark.parametrize("groups", [1, 4, None, "many", 0, -2, [], True])
def test_transposed_convolutions_tell_no_shape_of_their_weights(
    groups: Any, model: Path, tmp_path: Path
) -> None:
    """Only how many there are: 32 channels in, 16 out, a window of 2 x 2, in groups."""
    many = groups if groups == 4 else 1
    layer = of_8() | {"LayerType": "CaskDeconvolutionV2", "Kernel": [2, 2], "OutMaps": 16, "Groups": groups}
    layer["Weights"] = {"Type": "Int8", "Count": 32 * 16 // many * 4}
    layer["Outputs"][0]["Dimensions"] = [1, 16, 32, 32]
    info = write(tmp_path, "layers.json", {"Layers": [layer]})
    (kernel,) = read_exported(info, None, operators_of(Model.open(model)))
    assert (kernel.kind, kernel.macs) == ("deconvolution", 32 * 16 * 16 * 16 // many * 4)


def test_layers_that_are_names(model: Path, tmp_path: Path) -> None:
    """Without --profilingVerbosity=detailed: what they are for is told by the nodes in their names."""
    names = [COPY, JOINED, "grouped + PWN(PWN(half), up)", "{ForeignNode[a...b]}"]
    info = write(tmp_path, "layers.json", {"Layers": names, "Bindings": ["x"]})
    kernels = read_exported(info, None, operators_of(Model.open(model)))
    assert [kernel.nodes for kernel in kernels] == [(), ("both", "relu"), ("grouped", "half", "up"), ()]
    assert [kernel.kind for kernel in kernels] == ["reformat", "convolution", "convolution", "other"]
    assert [kernel.macs for kernel in kernels] == [0] * 4


REGION, REST = "{ForeignNode[a...b]}", "{ForeignNode[c...d]}"
OF_REGION = f"Reformatting CopyNode for Input Tensor 0 to {REGION}"


@pytest.mark.parametrize(
    ("more", "role", "kernel"),
    [
        ([REGION], "fused", REGION),
        ([REGION, REST], "fused", ""),  # nothing tells which
        (["half"], "folded", ""),
        ([OF_REGION], "folded", ""),
    ],
)
def test_a_product_in_a_region_runs_in_a_type_that_is_not_known(
    more: list[str], role: str, kernel: str, model: Path, tmp_path: Path
) -> None:
    """TensorRT 8 tells the ends of what it runs of a transformer, and nothing of what is in between."""
    info = write(tmp_path, "layers.json", {"Layers": [of_8(), *more]})
    found = engine(model, layer_info=info).reading
    assert found is not None
    nodes = {node.node: node for node in found.nodes}
    grouped = nodes["grouped"]
    assert (grouped.role, grouped.kernel, grouped.untold) == (role, kernel, role == "fused")
    assert nodes["both"].compiled == "int8"


def test_times_alone(model: Path, tmp_path: Path) -> None:
    """An older trtexec has no means: they are of the sum and the count."""
    old = [{"count": 4}, {"name": "both", "timeMs": 2.0, "percentage": 100.0}]
    found = engine(model, profile_times=write(tmp_path, "times.json", old)).reading
    assert found is not None
    assert [(kernel.name, kernel.seconds) for kernel in found.kernels] == [("both", 5e-4)]


def test_a_name_that_runs_twice_has_two_times(model: Path, tmp_path: Path) -> None:
    info = write(tmp_path, "layers.json", {"Layers": ["both", "both", "relu"]})
    entries = [{"name": "both", "averageMs": time} for time in (1.0, 2.0)]
    times = write(tmp_path, "times.json", [*entries, {"name": "late", "averageMs": 4}])
    kernels = read_exported(info, times, operators_of(Model.open(model)))
    assert [(kernel.name, kernel.seconds) for kernel in kernels] == [
        ("both", 0.001), ("both", 0.002), ("relu", None), ("late", 0.004),
    ]  # fmt: skip


def test_control_characters_and_unknown_words(model: Path, tmp_path: Path) -> None:
    layer = json.dumps(copy("Row major linear FP6 format")).replace(
        '"Metadata": ""', '"Metadata": "[ONNX Layer: both]\x1f"'
    )
    info = write(tmp_path, "layers.json", f'{{"Layers": [{layer}]}}')
    (kernel,) = read_exported(info, None, operators_of(Model.open(model)))
    assert kernel.inputs[0].dtype == "unknown: Row major linear FP6 format"
    assert (kernel.nodes, kernel.bytes_read) == (("both",), 0)


@pytest.mark.parametrize(
    ("info", "times", "says"),
    [
        ("{", PROFILE, "layers.json is no JSON"),
        ({"Bindings": []}, PROFILE, "has no list of layers"),
        ({"Layers": []}, PROFILE, "is empty"),
        ({"Layers": [3]}, PROFILE, "has no list of layers"),
        ({"Layers": [{"LayerType": "x"}]}, PROFILE, "a layer has no name"),
        ({"Layers": [{"Name": "both", "Inputs": "x"}]}, PROFILE, "tensors of layer 'both'"),
        ({"Layers": [{"Name": "both", "Inputs": [{"Dimensions": "3"}]}]}, PROFILE, "dimensions"),
        ({"Layers": [of_8()]}, {"count": 3}, "times.json is no list"),
        ({"Layers": [of_8()]}, [{"count": 3}], "no layer with a time"),
        ({"Layers": [of_8()]}, [{"name": JOINED, "averageMs": "1"}], "has no time"),
        ({"Layers": [of_8()]}, [{"name": JOINED, "averageMs": -1}], "has no time"),
        ({"Layers": [of_8()]}, [{"name": "other", "averageMs": 1}], "none of its 1 layers"),
        ({"Layers": ["nothing of it"]}, [{"name": "nothing of it", "averageMs": 1}], "names no node of"),
    ],
)
def test_other_files_are_refused(info: Any, times: Any, says: str, model: Path, tmp_path: Path) -> None:
    files = write(tmp_path, "layers.json", info), write(tmp_path, "times.json", times)
    with pytest.raises(UserError, match=says) as caught:
        engine(model, layer_info=files[0], profile_times=files[1])
    assert caught.value.hint


def test_a_file_that_is_not_there(model: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="No such file"):
        engine(model, layer_info=tmp_path / "none.json")
    with pytest.raises(UserError, match="two compilers"):
        engine(model, layer_info=tmp_path / "none.json", compare=model)


def runs(*milliseconds: float) -> list[dict[str, float]]:
    """What `--exportTimes` writes of each run; keys that are not read are left out but one."""
    return [{"startComputeMs": 1.0, "computeMs": one, "latencyMs": one + 0.25} for one in milliseconds]


def test_two_engines_of_trtexec_side_by_side(model: Path, tmp_path: Path) -> None:
    half = of_8("Row major linear FP16 format") | {"Weights": {"Type": "Half", "Count": CHANNELS**2 * 9}}
    slow = [{"count": 10}, {"name": JOINED, "timeMs": 0.5, "averageMs": 0.05}]
    found = engine(
        model,
        layer_info=write(tmp_path, "a.json", {"Layers": [copy(), of_8()]}),
        profile_times=write(tmp_path, "a.times.json", PROFILE),
        run_times=write(tmp_path, "a.runs.json", runs(4.0, 1.0, 2.0, 3.0)),
        compare=write(tmp_path, "b.json", {"Layers": [half]}),
        compare_profile_times=write(tmp_path, "b.times.json", slow),
        compare_run_times=write(tmp_path, "b.runs.json", runs(5.0)),
    )
    assert found.engine is None
    assert found.differences is not None
    assert found.other is not None
    assert found.differences.figures[0].to_dict() == {
        "figure": "nanoseconds", "one": 25_000, "other": 50_000, "less": "one",
    }  # fmt: skip
    first = found.differences.nodes[0]
    assert (first.node, first.one, first.other, first.lost_by, first.why) == (
        "both", "int8", "fp16", "other", "type",
    )  # fmt: skip
    # half of its kernel's time: `relu` has the other half
    assert (first.seconds_one, first.seconds_other) == (pytest.approx(1e-5), pytest.approx(2.5e-5))
    ours, theirs = found.runs, found.other.runs
    assert ours is not None
    assert theirs is not None
    assert (ours.runs, ours.compute_s, ours.compute_low_s, ours.compute_high_s, ours.latency_s) == (
        4, 2.5e-3, 1.75e-3, 3.25e-3, 2.75e-3,
    )  # fmt: skip
    assert theirs.compute_s == theirs.compute_low_s == theirs.compute_high_s == 5e-3


@pytest.mark.parametrize("document", [[], {}, [3], [{"latencyMs": 1.0}], [{"computeMs": "1"}], "no"])
def test_other_files_are_no_times_of_runs(document: Any, model: Path, tmp_path: Path) -> None:
    info = write(tmp_path, "a.json", {"Layers": [of_8()]})
    with pytest.raises(UserError, match=r"runs\.json"):
        engine(model, layer_info=info, run_times=write(tmp_path, "runs.json", document))


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        ({"run_times": "r.json"}, "none of its files is given"),
        ({"compare_run_times": "r.json"}, "and not that engine"),
        ({"layer_info": "a.json", "compare_profile_times": "r.json"}, "and not that engine"),
        ({"profile_times": "p.json", "compare": "b.json"}, "this one has none"),
        ({"layer_info": "a.json", "against_fp16": True}, "two compilers"),
    ],
)
def test_times_that_nothing_is_read_for_are_refused(
    asked: dict[str, Any], says: str, model: Path, tmp_path: Path
) -> None:
    with pytest.raises(UserError, match=says):
        engine(model, **asked)


def test_nodes_stand_by_the_time_that_lies_between_the_engines(model: Path, tmp_path: Path) -> None:
    """Of nodes in the same type, those that take a fifth longer somewhere are told, the most first."""

    def layers(folder: Path, name: str, **milliseconds: float) -> tuple[Path, Path]:
        info = [of_8() | {"Name": one, "Metadata": f"[ONNX Layer: {one}]"} for one in milliseconds]
        times = [{"count": 1}, *({"name": one, "averageMs": took} for one, took in milliseconds.items())]
        return write(folder, f"{name}.json", info), write(folder, f"{name}.times.json", times)

    names = [node.name for node in onnx.load(model).graph.node if node.op_type in ("Conv", "Relu")][:3]
    assert len(names) == 3
    ours = layers(tmp_path, "a", **dict(zip(names, (1.0, 1.0, 1.5), strict=True)))
    theirs = layers(tmp_path, "b", **dict(zip(names, (1.1, 3.0, 1.0), strict=True)))
    found = engine(
        model, layer_info=ours[0], profile_times=ours[1], compare=theirs[0], compare_profile_times=theirs[1]
    ).differences
    assert found is not None
    told = [(one.node, one.lost_by, one.why) for one in found.nodes if one.why]
    assert told == [(names[1], "other", "time"), (names[2], "one", "time")]
