"""What DLA leaves to the GPU: a small model for each row of its table, and what all of it comes to."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import numpy_helper, parser

import onnxq
from onnxq.base.errors import UserError
from onnxq.targets import dla_table, load_target
from onnxq.targets.devices import device_of, devices

HEAD = '<ir_version: 8, opset_import: ["" : 17]>'
X = "float[1, 8, 16, 16] x"
AGX = {"device": "agx-orin", "target": "10.3"}
XAVIER = {"device": "agx-xavier", "target": "8.5"}


def found(body: str, of: dict[str, Any], *, data: str = X, **constants: np.ndarray) -> list[Any]:
    """What is found in a model of one output, y."""
    model = parser.parse_model(f"{HEAD} g ({data}) => (float[N, C, H, W] y) {{ {body} }}")
    del model.graph.output[0].type.tensor_type.shape.dim[:]
    model.graph.output[0].type.tensor_type.ClearField("shape")
    for name, values in constants.items():
        model.graph.initializer.append(numpy_helper.from_array(values, name))
    path = FOLDER[0] / "m.onnx"
    onnx.save(model, path)
    return [one for one in onnxq.check(path, dla=True, compile=False, **of).findings if one.check == "dla"]


FOLDER: list[Path] = []


@pytest.fixture(autouse=True)
def folder(tmp_path: Path) -> None:
    FOLDER[:] = [tmp_path]


def weights(*shape: int) -> np.ndarray:
    return np.ones(shape, np.float32)


def conv(attributes: str, *shape: int, op: str = "Conv") -> dict[str, Any]:
    return {"body": f"y = {op} <{attributes}> (x, w)", "w": weights(*shape)}


REFUSED: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    ("kernel size is 33", AGX, {**conv("pads = [16, 16, 16, 16]", 8, 8, 33, 33)}),
    ("stride is 9", AGX, conv("strides = [9, 9]", 8, 8, 1, 1)),
    ("padding is 32", AGX, conv("pads = [32, 32, 32, 32]", 8, 8, 1, 1)),
    ("dilation is 40", AGX, {**conv("dilations = [40, 40], pads = [20, 20, 20, 20]", 8, 8, 2, 2)}),
    ("output channels is 9000", AGX, conv("group = 1", 9000, 8, 1, 1)),
    ("rank is 3", AGX, {
        "body": "y = Conv (x, w)", "w": weights(8, 8, 3), "data": "float[1, 8, 16] x"}),
    ("computed weights is 1", AGX, {"body": "y = Conv (x, v)", "data": f"{X}, float[8, 8, 1, 1] v"}),
    ("computed weights is 1", AGX, {"body": "y = MatMul (x, v)", "data": f"{X}, float[1, 8, 16, 16] v"}),
    ("groups is 8", AGX, conv("group = 8", 8, 1, 2, 2, op="ConvTranspose")),
    ("padding is 1", AGX, conv("pads = [1, 1, 1, 1]", 8, 8, 3, 3, op="ConvTranspose")),
    ("dilation is 2", AGX, conv("dilations = [2, 2]", 8, 8, 2, 2, op="ConvTranspose")),
    ("kernel size is 9", AGX, {"body": "y = MaxPool <kernel_shape = [9, 9]> (x)"}),
    ("stride is 17", AGX, {"body": "y = MaxPool <kernel_shape = [2, 2], strides = [17, 17]> (x)",
                           "data": "float[1, 8, 64, 64] x"}),
    ("excluded padding is 1", XAVIER, {
        "body": "y = AveragePool <kernel_shape = [3, 3], pads = [1, 1, 1, 1]> (x)"}),
    ("upper end is 200.0", AGX, {"body": "y = Clip (x, lo, hi)", "lo": np.float32(0), "hi": np.float32(200)}),
    ("lower end is -1.0", AGX, {"body": "y = Clip (x, lo, hi)", "lo": np.float32(-1), "hi": np.float32(6)}),
    ("computed slopes is 1", AGX, {"body": "y = PRelu (x, v)", "data": f"{X}, float[8, 1, 1] v"}),
    ("window is 11", AGX, {"body": "y = LRN <size = 11> (x)"}),
    ("axis is 2", AGX, {"body": "r = Relu (x)  y = Concat <axis = 2> (r, x)"}),
    ("mode is cubic", AGX, {"body": 'y = Resize <mode = "cubic"> (x, , s)', "s": np.float32([1, 1, 2, 2])}),
    ("scale is 1.5", AGX, {"body": "y = Resize (x, , s)", "s": np.float32([1, 1, 1.5, 1.5])}),
    ("linear scale is 5.0", AGX, {"body": 'y = Resize <mode = "linear"> (x, , s)',
                                            "s": np.float32([1, 1, 5, 5])}),
    ("scale of channels is 2.0", AGX, {
        "body": "y = Resize (x, , s)", "s": np.float32([1, 2, 1, 1])}),
    ("does not take it", XAVIER, {"body": "y = Softmax <axis = 1> (x)"}),
    ("has no layer for it", AGX, {"body": "y = HardSwish (x)"}),
    ("has no layer for it", XAVIER, {"body": "y = Div (x, v)", "data": f"{X}, {X[:-1]}v"}),
    ("changed batch is 1", AGX, {"body": "y = Transpose <perm = [1, 0, 2, 3]> (x)"}),
    ("rank behind it is 3", AGX, {"body": "y = Reshape (x, s)", "s": np.array([1, 8, 256])}),
    ("reduced batch is 1", AGX, {"body": "y = ReduceMax <axes = [0]> (x)"}),
    ("5,000 batches", AGX, {"body": "y = Relu (x)", "data": "float[5000, 1, 2, 2] x"}),
    ("a size of 9,000", AGX, {"body": "y = Relu (x)", "data": "float[1, 1, 1, 9000] x"}),
]  # fmt: skip


@pytest.mark.parametrize(
    ("says", "of", "model"), REFUSED, ids=[f"{n} {row[0]}" for n, row in enumerate(REFUSED)]
)
def test_what_falls_back_is_named_with_its_source(
    says: str, of: dict[str, Any], model: dict[str, Any]
) -> None:
    given = dict(model)
    first, *_ = [one for one in found(given.pop("body"), of, **given) if says in one.reason]
    assert any(source in first.reason for source in dla_table()["sources"].values())
    assert (first.severity, bool(first.node)) == ("warning", True)


def test_there_are_kinds_enough() -> None:
    kinds = {(row[0], "Transpose" in row[2]["body"]) for row in REFUSED}
    assert len(kinds) >= 20
    limits = [(name, one["of"]) for name, row in dla_table()["layer"].items() for one in row["limits"]]
    assert len(limits) == len(set(limits))


TAKEN = """a = Conv <pads = [1, 1, 1, 1], strides = [2, 2]> (x, w)  b = Relu (a)  c = Sigmoid (b)
    d = Mul (b, c)
    e = MaxPool <kernel_shape = [2, 2], strides = [2, 2]> (d)  f = ConvTranspose <strides = [2, 2]> (e, v)
    h = Concat <axis = 1> (f, d)  y = Resize (h, , s)"""


def test_what_dla_takes_stays_there() -> None:
    given = {"w": weights(8, 8, 3, 3), "v": weights(8, 8, 2, 2), "s": np.float32([1, 1, 2, 2])}
    (only,) = found(TAKEN, AGX, **given)
    assert only.severity == "note"
    assert "8 of 8 layers run on DLA, 100 % of the multiply-accumulates, parts: 1" in only.reason
    assert "cross between DLA and GPU: 0" in only.reason
    assert only.advice.endswith("trtexec --useDLACore=0 --allowGPUFallback --int8 --fp16")


def test_what_holds_of_xavier_alone_is_taken_on_orin() -> None:
    body = "a = AveragePool <kernel_shape = [3, 3], pads = [1, 1, 1, 1]> (x)  y = Softmax <axis = 1> (a)"
    (only,) = found(body, AGX)
    assert "2 of 2 layers run on DLA" in only.reason


def test_parts_and_crossings_are_counted() -> None:
    body = "a = Relu (x)  b = HardSwish (a)  c = Relu (b)  d = Relu (a)  e = Add (c, d)  y = HardSwish (e)"
    *two, last = found(body, AGX)
    assert [one.op for one in two] == ["HardSwish", "HardSwish"]
    assert "4 of 6 layers run on DLA" in last.reason
    assert "parts: 2; tensors that cross between DLA and GPU: 3" in last.reason


def test_more_parts_than_fit() -> None:
    steps = "".join(f"h{n} = HardSwish (r{n})  r{n + 1} = Relu (h{n})  " for n in range(17))
    *_, last = found(f"r0 = Relu (x)  {steps} y = Identity (r17)", AGX)
    assert "cut into 18 parts on DLA, 16 of which fit" in last.reason
    assert last.severity == "warning"


def test_pairs_are_for_a_calibration_cache() -> None:
    body = "q = QuantizeLinear (x, s, z)  d = DequantizeLinear (q, s, z)  y = Relu (d)"
    given: dict[str, Any] = {"s": np.float32(0.1), "z": np.int8(0)}
    assert any("takes int8 by a calibration cache" in one.reason for one in found(body, AGX, **given))
    typed = found(body, {**AGX, "target": "11.4"}, **given)
    assert not any("calibration cache" in one.reason for one in typed)


def test_an_open_size_is_said_once() -> None:
    first, last = found("y = Relu (x)", AGX, data="float[N, 8, 16, 16] x")
    assert "a size of this input is open" in first.reason
    assert "1 of 1 layers run on DLA" in last.reason


@pytest.mark.parametrize(
    ("device", "target", "has"),
    [
        ("agx-orin", "10.3", True), ("orin-nx", "8.6", True), ("agx-xavier", "8.5", True),
        ("agx-orin", "10.13", False), ("agx-orin", "11.1", False), ("agx-orin", "11.4", True),
        ("orin-nx", "11.4", False), ("orin-nano", "10.3", False),
        ("thor", "10.13", False), ("l4", "10.3", False),
    ],
)  # fmt: skip
def test_which_release_has_it(device: str, target: str, has: bool) -> None:
    assert device_of(device).has_dla(load_target(target)) == has


@pytest.mark.parametrize(
    "of",
    [{}, {"device": "l4"}, {"device": "thor", "target": "10.13"}, {"device": "agx-orin", "target": "10.13"}],
)
def test_what_has_no_dla_is_refused_with_what_to_type(of: dict[str, Any]) -> None:
    with pytest.raises(UserError, match=r"--dla|DLA of") as error:
        found("y = Relu (x)", of)
    assert "give --" in error.value.hint
    assert {one.name for one in devices() if one.dla} == {"orin-nx", "agx-orin", "xavier-nx", "agx-xavier"}
