"""Shapes found by shape arithmetic: never another than what runs, and known where they can be."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import onnx
import onnx.parser
import pytest

from onnxq.graph.load import graphs
from onnxq.graph.model import Model
from onnxq.run import ort

CORPUS = os.environ.get("ONNXQ_CORPUS")

# name: opset, nodes, shape of y; "?" is a size that is not known
CASES = {
    "reshape": (
        11,
        "n = Slice (s, zero, one)  t = Concat <axis = 0> (n, rest)  y = Reshape (x, t)",
        "N,12,W",
    ),
    "reshape keeps": (11, "t = Concat <axis = 0> (zero, rest)  y = Reshape (x, t)", "N,12,W"),
    "resize": (
        11,
        "n = Slice (s, zero, two)  t = Concat <axis = 0> (n, sizes)  y = Resize (x, none, none, t)",
        "N,3,24,48",
    ),
    "resize by scales": (11, "y = Resize (x, none, scales)", "N,3,8,?"),
    "upsample": (9, "y = Upsample (x, scales)", "N,3,8,?"),
    "expand": (
        11,
        "n = Slice (s, zero, one)  t = Concat <axis = 0> (n, wide)  y = Expand (row, t)",
        "N,12,7",
    ),
    "constant": (11, "n = Slice (s, zero, two)  y = ConstantOfShape (n)", "N,3"),
    "tile": (11, "y = Tile (x, repeats)", "N,3,8,W"),
    "slice": (11, "w = Slice (s, three, four)  y = Slice (x, zero, w, three)", "N,3,4,W"),
    "slice of two": (11, "y = Slice (x, one, two, one)", "N,1,4,W"),
}

CONSTANTS = """float[0] none = {}, float[4] scales = {1, 1, 2, 1.5}, float[1] row = {1},
    int64[4] repeats = {1, 1, 2, 1}, int64[1] zero = {0}, int64[1] one = {1}, int64[1] two = {2},
    int64[1] three = {3}, int64[1] four = {4}, int64[2] rest = {12, -1}, int64[2] wide = {12, 7},
    int64[2] sizes = {24, 48}"""


def case(name: str) -> onnx.ModelProto:
    opset, body, _ = CASES[name]
    model = onnx.parser.parse_model(f"""<ir_version: 6, opset_import: ["" : {opset}]>
        g (float[N, 3, 4, W] x) => (y) <{CONSTANTS}> {{ s = Shape (x)  {body} }}""")
    used = {name for node in model.graph.node for name in node.input}
    kept = [tensor for tensor in model.graph.initializer if tensor.name in used]
    del model.graph.initializer[:]
    model.graph.initializer.extend(kept)
    return model


def contradictions(model: Model, feeds: dict[str, np.ndarray]) -> list[str]:
    """The tensors whose sizes in a run are not those that were inferred."""
    proto = model.to_proto()
    declared = {info.name for info in model.source.graph.output}  # by the model, rightly or not
    tensors = model.graph.tensors()
    known = {name: t for name, t in tensors.items() if t.inputs and name not in declared}
    del proto.graph.output[:]
    proto.graph.output.extend(onnx.ValueInfoProto(name=name) for name in known)
    session = ort.load(proto, optimize=False)
    sizes: dict[str, int] = {
        dim: size
        for one in model.inputs
        for dim, size in zip(one.shape or (), np.shape(feeds.get(one.name, ())), strict=False)
        if isinstance(dim, str)
    }
    found = []
    for name, value in zip(known, session.run({n: feeds[n] for n in session.inputs}), strict=True):
        shape = known[name].shape
        if shape is None or not isinstance(value, np.ndarray):
            continue
        wanted = [sizes.setdefault(d, n) if isinstance(d, str) else d for d, n in zip(shape, value.shape)]  # noqa: B905
        if len(shape) != value.ndim or any(w is not None and w != n for w, n in zip(wanted, value.shape)):  # noqa: B905
            found.append(f"{name}: {shape}, in the run {value.shape}")
    return found


@pytest.mark.parametrize("name", CASES)
def test_what_is_known_is_found(name: str) -> None:
    model = Model.open(case(name))
    (out,) = model.outputs
    found = ["?" if dim is None or dim in model.symbols else str(dim) for dim in out.shape or ()]
    assert ",".join(found) == CASES[name][2]
    model.source.graph.output[0].name = ""  # y says nothing of its shape
    for n, w in ((1, 4), (2, 8), (4, 12)):
        feeds = {"x": np.ones((n, 3, 4, w), np.float32)}
        assert contradictions(model, feeds) == []


def test_sizes_are_found_through_several_rounds() -> None:
    """The second Reshape's size is known only after the first one's."""
    text = """<ir_version: 6, opset_import: ["" : 11]>
        g (float[N, 3, 4, 8] x) => (y) <int64[1] zero = {0}, int64[1] one = {1}, int64[1] two = {2},
            int64[1] three = {3}, int64[2] rest = {12, -1}, int64[1] less = {-1}> {
            s = Shape (x)  n = Slice (s, zero, one)  t = Concat <axis = 0> (n, rest)  a = Reshape (x, t)
            r = Shape (a)  k = Slice (r, two, three)
            u = Concat <axis = 0> (k, n, less)  y = Reshape (a, u) }"""
    assert Model.open(onnx.parser.parse_model(text)).outputs[0].shape == (8, "N", 12)


@pytest.mark.skipif(CORPUS is None, reason="ONNXQ_CORPUS is not set")
def test_no_run_of_a_real_model_contradicts() -> None:
    entries = json.loads((Path(str(CORPUS)) / "manifest.json").read_text("utf-8"))
    types = {"FLOAT": np.float32, "INT64": np.int64, "INT32": np.int32, "UINT8": np.uint8, "BOOL": np.bool_}
    compared = 0
    for entry in entries:
        path = Path(str(CORPUS)) / "models" / f"{entry['name']}.onnx"
        small = path.stat().st_size < 3_000_000 and entry["onnxruntime"] == "ok"
        if not small or any(i["dtype"] not in types for i in entry["inputs"]):
            continue
        model = Model.open(path)
        if len(list(graphs(model.source.graph))) > 1 or model.source.functions:
            continue  # a body's tensors are not to be had
        rng = np.random.default_rng(0)
        feeds = {
            i["name"]: rng.integers(0, 2, entry["run_shapes"][i["name"]]).astype(types[i["dtype"]])
            for i in entry["inputs"]
        }
        try:
            assert contradictions(model, feeds) == [], entry["name"]
        except ort.RunError:
            continue  # a tensor of a type that onnxruntime does not give out, say
        compared += 1
    assert compared > 15


ODD = {
    "backwards": ("int64[1] k = {-10}", "e = Max (k, k)  y = Slice (v, k, e, zero, less)"),
    "backwards to the end": (
        "int64[1] k = {-1}, int64[1] m = {9223372036854775807}",
        "e = Max (m, m)  y = Slice (v, k, e, zero, less)",
    ),
    "rounded scale": (
        "float[1] s = {0.7}, float[1] o = {0.0}, float[0] none = {}",
        "e = Max (s, o)  y = Resize (v, none, e)",
    ),
    "no such axis": ("int64[1] k = {3}", "e = Max (k, k)  y = Slice (v, zero, e, k)"),
    "infinite scale": ("float[1] s = {inf}, float[0] none = {}", "e = Max (s, s)  y = Resize (v, none, e)"),
}  # fmt: skip


@pytest.mark.parametrize("name", ODD)
def test_odd_numbers_are_not_guessed(name: str) -> None:
    """What ONNX's inference leaves open because a Max computes it, and what is easily got wrong."""
    constants, body = ODD[name]
    text = f"""<ir_version: 8, opset_import: ["" : 17]>
        g (float[10] v) => (y) <int64[1] zero = {{0}}, int64[1] less = {{-1}}, {constants}> {{ {body} }}"""
    infinite = "inf" in text
    proto = onnx.parser.parse_model(text.replace("{inf}", "{1.0}"))
    if infinite:
        tensor = next(t for t in proto.graph.initializer if t.name == "s")
        tensor.CopyFrom(onnx.numpy_helper.from_array(np.array([np.inf], np.float32), "s"))
    used = {name for node in proto.graph.node for name in node.input}
    kept = [tensor for tensor in proto.graph.initializer if tensor.name in used]
    del proto.graph.initializer[:]
    proto.graph.initializer.extend(kept)
    model = Model.open(proto)
    if name in ("no such axis", "infinite scale"):
        return  # it does not run; it is read all the same
    (out,) = ort.load(proto, optimize=False).run({"v": np.arange(10, dtype=np.float32)})
    shape = model.outputs[0].shape
    assert shape is not None
    assert all(not isinstance(d, int) or d == n for d, n in zip(shape, out.shape, strict=True))
