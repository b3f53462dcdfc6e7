"""Documents in which one value is another: what reads them takes it, or says what is wrong, and where."""

from __future__ import annotations

import copy
import io
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.parser
import pytest
import tomli_w

import onnxq
from onnxq.analysis.reports import open_report
from onnxq.base.errors import OnnxqError, UserError
from onnxq.calib.histogram import Histogram
from onnxq.calib.stats import ChannelStats, Stats, TensorStats
from onnxq.calib.stats_file import Origin, StatsFile, merge_files, read, to_bytes
from onnxq.compiled.exported import read_exported
from onnxq.data.understood import ImagesRead
from onnxq.options.config import load_config
from onnxq.quant.draft.edit_kinds import edit_of
from onnxq.quant.plan_reading import read_plan

Way = tuple[str | int, ...]

GONE = "@gone"
DEEP: list[Any] = []
for _ in range(99):  # which parsers take; what they do not is in `tests/test_tables.py`
    DEEP = [DEEP]
OTHERS: tuple[Any, ...] = ([], {}, None, 10**400, -1, "", DEEP, GONE, ["x"], {"x": 1}, 0.5)


def ways(value: Any, way: Way = ()) -> Iterator[Way]:
    """The ways to all values of a document."""
    if way:
        yield way
    entries = (
        value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    )
    for key, entry in entries:
        yield from ways(entry, (*way, key))


def with_other(document: Any, way: Way, other: Any) -> Any:
    """A copy with another value there, or none."""
    found = copy.deepcopy(document)
    at = found
    for key in way[:-1]:
        at = at[key]
    if other == GONE:
        del at[way[-1]]
    else:
        at[way[-1]] = other
    return found


def all_changed(document: Any, dumps: Callable[[Any], str]) -> Iterator[tuple[str, str]]:
    """Changed documents, and what is changed; with a third of the others in each place, to be quick."""
    for number, way in enumerate(ways(document)):
        for other in OTHERS[number % 3 :: 3]:
            if other is None and dumps is tomli_w.dumps:
                continue  # TOML has no null
            yield f"{way} = {other!r:.20}", dumps(with_other(document, way, other))


def hold(document: Any, dumps: Callable[[Any], str], reads: Callable[[str], Any]) -> int:
    """Reads all changed documents; returns how many were refused."""
    reads(dumps(document))
    refused, faults = 0, []
    for what, text in all_changed(document, dumps):
        try:
            reads(text)
        except OnnxqError as error:
            refused += 1
            faults += [f"{what}: {error}"] * (error.exit_code != 2)
        except Exception as error:
            faults.append(f"{what}: {type(error).__name__}: {error}")
    assert not faults, "\n".join(faults)
    return refused


PLAN = {
    "version": 1, "onnxq": "0.1.0", "target": "tensorrt-11", "model": {"hash": "ab", "name": "net.onnx"},
    "shapes": {"x": "1x3"}, "layer": [{"node": "a", "op": "Conv", "format": "float", "inputs": [0]}],
    "tensor": [
        {"name": "x", "amax": 1.5, "because": "x"}, {"name": "y", "method": "percentile", "percentile": 9.0},
    ],
    "group": [{"share": ["x", "y"], "because": "joined"}],
    "weight": [{"name": "w", "axis": 0, "amax": [1.0]}],
    "body": {"type": "fp16", "io": "fp32", "settled": True, "masks": ["m"]}, "float32": [{"node": "n"}],
    "edit": [
        {
            "kind": "lattice", "tensor": "x", "step": 0.5, "centres": [1.0], "factors": [2.0], "axis": 1,
            "readers": ["a"],
        },
        {"kind": "smooth", "tensor": "x", "axis": 1, "factors": [2.0], "ratios": {"y": 0.5}},
        {"kind": "shift", "tensor": "x", "by": 0.5, "tensors": ["y"]},
        {"kind": "split", "tensor": "x", "step": 0.5, "readers": ["a"]},
    ],
}  # fmt: skip
CONFIG = {
    "target": "tensorrt-11",
    "calibration": {"samples": 8, "method": "percentile", "percentile": 99.0, "skip_bad": True},
    "layer": [{"match": ["/a*"], "op": "Conv", "format": "float"}, {"op": "Gemm", "output": 0, "amax": 1.0}],
}  # fmt: skip


def test_plans(tmp_path: Path) -> None:
    path = tmp_path / "p.toml"

    def reads(text: str) -> None:
        path.write_text(text, "utf-8")
        for edit in read_plan(path).repair.edits:
            edit_of(edit)

    assert hold(PLAN, tomli_w.dumps, reads) > 50


def test_settings(tmp_path: Path) -> None:
    path = tmp_path / "onnxq.toml"

    def reads(text: str) -> None:
        path.write_text(text, "utf-8")
        load_config(path)

    assert hold(CONFIG, tomli_w.dumps, reads) > 20


def taken() -> StatsFile:
    """Statistics with every part."""
    ends = np.float32([-1, -2]), np.float32([3, 4])
    tensors = {
        "t": TensorStats(*ends, 6, 1 << 150, None, 1, Histogram(5, 131584, np.array([1])), None, 6),
        "c": TensorStats(*ends, 4, 7, 9, channels=ChannelStats(1, *ends, (5, None), 2)),
    }
    images = ImagesRead("x", "float32", "NCHW", "rgb", "as it is", 1.0, (0.5,), (1.0,), (-0.5, 254.5), None)
    origin = Origin("ab", "exact", 3, 12, 0, {"x": (1, 3)}, (images,), (0, 1, 2))
    return StatsFile(
        Stats(tensors, np.arange(2)), origin, np.zeros((2, 16), np.uint8), ("two",), (("a", "b"),), (2,)
    )


def test_statistics(tmp_path: Path) -> None:
    path = tmp_path / "a.stats.npz"
    path.write_bytes(to_bytes(taken()))
    with np.load(path) as archive:
        arrays = dict(archive)
    other = StatsFile(
        Stats(read(path).stats.tensors, np.array([5, 6])), taken().origin, np.zeros((2, 16), np.uint8)
    )

    def reads(text: str) -> None:
        buffer = io.BytesIO()
        np.savez(buffer, **{**arrays, "meta": np.frombuffer(text.encode(), np.uint8)})
        path.write_bytes(buffer.getvalue())
        found = read(path)
        assert isinstance(found.missing_text(), str)
        repr(found)
        for tensor in found.stats.tensors.values():
            _ = tensor.mean, tensor.variance, tensor.sampling_error
        merge_files([found, other])

    assert hold(json.loads(arrays["meta"].tobytes()), json.dumps, reads) > 50


@pytest.fixture
def manifest(tmp_path: Path) -> Path:
    text = """<ir_version: 8, opset_import: ["" : 17]> net (float[2, 3] x) => (float[2, 3] y) {
        a = Relu (x)  y = Sigmoid (a) }"""
    onnx.save(onnx.parser.parse_model(text), tmp_path / "net.onnx")
    *_, path = onnxq.split(tmp_path / "net.onnx", at=["a"]).save(tmp_path / "net")
    return path


def test_manifests(manifest: Path) -> None:
    data = {"x": np.ones((2, 3), np.float32)}

    def reads(text: str) -> None:
        manifest.write_text(text, "utf-8")
        onnxq.run_pieces(manifest, data)

    assert hold(json.loads(manifest.read_text("utf-8")), json.dumps, reads) > 50


def test_the_place_in_a_manifest_is_named(manifest: Path) -> None:
    document = json.loads(manifest.read_text("utf-8"))
    for way, other, said in (
        (("pieces", 0, "file"), 7, r"\.pieces\[0\]\.file: a text is expected, and this is 7"),
        (
            ("inputs", 0, "shape", 0),
            0.5,
            r"\.inputs\[0\]\.shape\[0\]: a whole number is expected, and this is 0.5",
        ),
        (("inputs", 0, "dtype"), "float33", "input 'x' is of type 'float33', which no tensor has"),
        (("inputs", 0, "shape", 0), -2, "input 'x' takes -2x3: a size is at least 0"),
    ):
        manifest.write_text(json.dumps(with_other(document, way, other)), "utf-8")
        with pytest.raises(UserError, match=said):
            onnxq.run_pieces(manifest, {"x": np.ones((2, 3), np.float32)})


LAYERS = {
    "Layers": [
        {
            "Name": "a", "LayerType": "CaskConvolution", "Metadata": "[ONNX Layer: a]", "TacticName": "t",
            "Inputs": [{"Name": "x", "Dimensions": [1, 3, 8, 8], "Format/Datatype": "Row major FP16 format"}],
            "Outputs": [{"Name": "y", "Dimensions": [1, 4, 8, 8], "Datatype": "Int8"}], "Groups": 1,
            "Kernel": [3, 3], "OutMaps": 4, "Weights": {"Type": "Int8", "Count": 108},
            "Bias": {"Type": "Float", "Count": 4},
        },
        "b",
    ]
}  # fmt: skip
TIMES = [{"count": 10}, {"name": "a", "timeMs": 5.0, "averageMs": 0.5}, {"name": "b", "timeMs": 1.0}]


def test_layers_of_an_engine_and_their_times(tmp_path: Path) -> None:
    layers, times = tmp_path / "layers.json", tmp_path / "times.json"
    times.write_text(json.dumps(TIMES))

    def reads(text: str) -> None:
        layers.write_text(text)
        read_exported(layers, times)

    def reads_times(text: str) -> None:
        times.write_text(text)
        read_exported(layers, times)

    assert hold(LAYERS, json.dumps, reads) > 7
    layers.write_text(json.dumps(LAYERS))
    assert hold(TIMES, json.dumps, reads_times) > 5


def test_a_report_that_cannot_be_read(tmp_path: Path) -> None:
    """What is of another type further in is said with its place: `tests/page/test_edited_reports.py`."""
    path = tmp_path / "x.report.json"

    def reads(text: str) -> None:
        path.write_text(text)
        open_report(path)

    assert hold({"kind": "report", "schema": 2, "onnxq": "0.1.0", "plan": {}}, json.dumps, reads) > 5


def test_a_report_beside_a_model(tmp_path: Path) -> None:
    """Whoever looks there for more does without what it does not say."""
    text = '<ir_version: 8, opset_import: ["" : 17]> net (float[2] x) => (float[2] y) { y = Relu (x) }'
    onnx.save(onnx.parser.parse_model(text), tmp_path / "net.onnx")
    report, place = tmp_path / "net.report.json", {"tensors": ["x"], "sources": ["x"]}
    document = {
        "onnxq": "0.1.0",
        "plan": {
            "groups": [place],
            "sites": [{"tensor": "x", "axis": None, "because": "x", "readers": ["y"]}],
        },
        "calibration": {"scales": {"x": 0.5}},
    }

    def reads(text: str) -> None:
        report.write_text(text)
        onnxq.describe_tensor(tmp_path / "net.onnx", "x")

    assert hold(document, json.dumps, reads) == 0
    reads("[" * 20_000)
